//! L5.9: which volumes an external provisioner deletes.

use kubegc_core::{Planner, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Call, Live, Object, Reads, Resource, Wire},
    volume::{
        ClaimRef, FINALIZER_EXTERNAL, Holder, Phase, Policy, Volume,
        external::{Facts, Guard, Settings},
    },
};

use crate::support::{DRIVER, IN_TREE, calls, in_phase, made_by_hand, note};

fn ours() -> Volume {
    let mut volume = in_phase(made_by_hand(Policy::Delete), Phase::Released);
    note(&mut volume).provisioned_by = Some(DRIVER.into());
    volume.meta.finalizers = vec![FINALIZER_EXTERNAL.into()];
    volume
}

fn outcome(settings: &Settings, volume: Volume, guard: Option<Guard>) -> (Vec<String>, String) {
    let guards = guard.into_iter().map(|guard| ("disk".into(), guard)).collect();
    let facts = Facts {
        volumes: vec![volume],
        guards,
        read_volumes: Reads::AsListed,
    };
    let plan = settings.plan(&facts, Timestamp::EPOCH);
    assert_eq!(plan.actions.len() + plan.kept.len(), 1);
    let kept = plan.kept.first().map(|kept| kept.reason.to_string());
    (calls(&plan.actions), kept.unwrap_or_default())
}

#[test]
fn l_5_9_every_condition_counts() {
    type Edit = fn(&mut Volume);
    let deleted = "";
    let cases: [(Edit, &str); 14] = [
        (|_| {}, deleted),
        (|volume| volume.meta.finalizers.clear(), deleted),
        (
            |volume| volume.meta.deletion_timestamp = Some(Timestamp::EPOCH),
            deleted,
        ),
        (
            |volume| {
                volume.meta.deletion_timestamp = Some(Timestamp::EPOCH);
                volume.meta.finalizers.clear();
            },
            "it is being deleted already",
        ),
        (
            |volume| {
                note(volume).provisioned_by = Some(IN_TREE.into());
                note(volume).migrated_to = Some(DRIVER.into());
            },
            deleted,
        ),
        (
            |volume| note(volume).provisioned_by = Some(IN_TREE.into()),
            "another provisioner made it, or none",
        ),
        (
            |volume| note(volume).provisioned_by = None,
            "another provisioner made it, or none",
        ),
        (|volume| volume.phase = Phase::Failed, "its phase is \"Failed\""),
        (|volume| volume.phase = Phase::Unknown, "its phase is not known"),
        (
            |volume| volume.policy = Policy::Retain,
            "its reclaim policy is Retain",
        ),
        (
            |volume| volume.policy = Policy::Unknown,
            "its reclaim policy is not known",
        ),
        (
            |volume| volume.annotations = None,
            "its annotations are not known",
        ),
        (
            |volume| volume.meta.uid = "".into(),
            "its uid or version is not known",
        ),
        (
            |volume| volume.meta.resource_version = "".into(),
            "its uid or version is not known",
        ),
    ];
    let settings = Settings::new(DRIVER);
    for (index, (edit, expected)) in cases.into_iter().enumerate() {
        let mut volume = ours();
        edit(&mut volume);
        let has_finalizer = volume.meta.has_finalizer(FINALIZER_EXTERNAL);
        let (calls, kept) = outcome(&settings, volume, Some(Guard::Allows));
        assert_eq!(kept, expected, "case {index}");
        let finalizer = "put -external-provisioner.volume.kubernetes.io/finalizer";
        let wanted: &[&str] = match (expected, has_finalizer) {
            ("", true) => &["DeleteVolume", finalizer, "delete disk"],
            ("", false) => &["DeleteVolume", "delete disk"],
            _ => &[],
        };
        assert_eq!(calls, wanted, "case {index}");
    }
}

#[test]
fn l_5_9_without_finalizers_a_volume_that_is_being_deleted_stays() {
    let mut settings = Settings::new(DRIVER);
    settings.has_finalizer = false;
    // A finalizer that is there all the same is not this provisioner's to take.
    let (calls, kept) = outcome(&settings, ours(), Some(Guard::Allows));
    assert_eq!(
        (calls.iter().map(String::as_str).collect::<Vec<_>>(), &*kept),
        (vec!["DeleteVolume", "delete disk"], "")
    );
    let mut volume = ours();
    volume.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    let (calls, kept) = outcome(&settings, volume, Some(Guard::Allows));
    assert_eq!((calls.len(), &*kept), (0, "it is being deleted already"));
}

#[test]
fn l_5_9_the_provisioners_own_guard_is_asked() {
    let settings = Settings::new(DRIVER);
    let unknown = "whether its provisioner guards it is not known";
    for (guard, expected) in [
        (None, unknown),
        (Some(Guard::Unknown), unknown),
        (Some(Guard::Forbids), "its provisioner guards it"),
    ] {
        let (calls, kept) = outcome(&settings, ours(), guard);
        assert_eq!((calls.len(), &*kept), (0, expected), "{guard:?}");
    }
}

#[test]
fn a_strict_deletion_expects_no_version_that_has_passed() {
    let settings = Settings::new(DRIVER);
    let facts = Facts {
        volumes: vec![ours()],
        guards: [("disk".into(), Guard::Allows)].into(),
        read_volumes: Reads::AsListed,
    };
    let plan = settings.plan(&facts, Timestamp::EPOCH);
    let calls = plan.actions[0].calls(Wire::Strict);
    let Some(Call::Outside { expect, .. }) = calls.first() else {
        panic!("the storage goes first: {calls:?}")
    };
    assert_eq!(expect, plan.actions[0].expect());
    assert_eq!(expect.resource_version, Some("7".into()));
    let Some(Call::Delete { options, .. }) = calls.last() else {
        panic!("the last call deletes: {calls:?}")
    };
    assert_eq!(options.preconditions.uid, Some("uid-disk".into()));
    assert_eq!(options.preconditions.resource_version, None);
    let Call::Change { expect, .. } = &calls[1] else {
        panic!("the finalizer goes first: {calls:?}")
    };
    assert_eq!(expect.resource_version, Some("7".into()));
}

#[test]
fn nothing_is_deleted_on_a_list_alone() {
    let object = Object::new(Resource::PersistentVolumes, &ours().meta);
    let edited = |edit: fn(&mut Volume)| {
        let mut live = ours();
        edit(&mut live);
        Live::Found(live)
    };
    let changed = "it has changed since it was listed";
    for (live, kept) in [
        (Live::NotAsked, "it must be read again first"),
        (Live::NotFound, "could not be read: not found"),
        (Live::Failed("timeout".into()), "could not be read: timeout"),
        (edited(|live| live.phase = Phase::Bound), "its phase is \"Bound\""),
        (
            edited(|live| live.phase = Phase::Unknown),
            "its phase is not known",
        ),
        (
            edited(|live| live.policy = Policy::Retain),
            "its reclaim policy is Retain",
        ),
        (
            edited(|live| live.annotations = None),
            "its annotations are not known",
        ),
        (edited(|live| live.meta.uid = "uid-next".into()), changed),
        (
            edited(|live| live.claim_ref = Holder::Claim(ClaimRef::new("shop", "data", "uid-next"))),
            changed,
        ),
        (edited(|live| live.meta.resource_version = "8".into()), ""),
    ] {
        let facts = Facts {
            volumes: vec![ours()],
            guards: [("disk".into(), Guard::Allows)].into(),
            read_volumes: Reads::Of([(object.clone(), live)].into()),
        };
        let plan = Settings::new(DRIVER).plan(&facts, Timestamp::EPOCH);
        let why = plan.kept.first().map(|kept| kept.reason.to_string());
        assert_eq!(why.unwrap_or_default(), kept);
        assert_eq!(plan.actions.is_empty(), !kept.is_empty(), "{kept}");
        // What was read last is expected, not what was listed.
        for action in &plan.actions {
            assert_eq!(action.expect().resource_version, Some("8".into()));
        }
    }
    let facts = Facts {
        volumes: vec![ours()],
        guards: [("disk".into(), Guard::Allows)].into(),
        ..Facts::default()
    };
    let plan = Settings::new(DRIVER).plan(&facts, Timestamp::EPOCH);
    assert_eq!((plan.actions.len(), plan.kept.len()), (0, 1));
}
