//! The cases of the volume controller, one plan each.

use kubegc_core::{Planner, Preconditions, StoreError, Timestamp, Uid};
use kubegc_lifecycle::{
    object::{Act, Call, Live, Object, Operation, Reads, Resource, Wire, expected},
    volume::{
        Claim, ClaimRef, FINALIZER_EXTERNAL, FINALIZER_IN_TREE, Holder, Migration, Phase, Pod, Policy,
        Source, Volume,
        reclaim::{Action, Facts, Plugin, Reason, Settings},
    },
};

use crate::support::{
    DRIVER, IN_TREE, claim, dynamic, facts, in_phase, made_by_hand, note, outcome, plan, release,
};

const RELEASED: &str = "putstatus Released \"\"";
const AVAILABLE: &str = "putstatus Available \"\"";
const WITHOUT_FINALIZER: &str = "put -kubernetes.io/pv-controller";

#[track_caller]
fn check(facts: &Facts, calls: &[&str], kept: &str) {
    check_in(&Settings::default(), facts, calls, kept);
}

#[track_caller]
fn check_in(settings: &Settings, facts: &Facts, calls: &[&str], kept: &str) {
    let (got, why) = outcome(settings, facts);
    assert_eq!(
        (got, &*why),
        (calls.iter().map(ToString::to_string).collect(), kept)
    );
}

#[test]
fn t_5_1_the_claim_of_a_bound_volume_is_gone() {
    let calls = [RELEASED, "DeleteVolume", WITHOUT_FINALIZER, "delete disk"];
    check(&facts(dynamic(Policy::Delete), vec![]), &calls, "");
}

#[test]
fn t_5_2_a_retained_volume_is_only_released() {
    let volume = dynamic(Policy::Retain);
    check(&facts(volume, vec![]), &[RELEASED], "its policy is to retain it");
    let volume = in_phase(dynamic(Policy::Retain), Phase::Released);
    check(&facts(volume, vec![]), &[], "its policy is to retain it");
}

#[test]
fn t_5_3_a_new_claim_of_the_old_name_is_another_claim() {
    let new = Claim::new("shop", "data", "uid-new").bound_to("other");
    let calls = [RELEASED, "DeleteVolume", WITHOUT_FINALIZER, "delete disk"];
    check(&facts(dynamic(Policy::Delete), vec![new]), &calls, "");
}

#[test]
fn t_5_4_a_volume_that_is_only_reserved_is_not_reclaimed() {
    let mut volume = made_by_hand(Policy::Delete);
    volume.claim_ref = Holder::Claim(ClaimRef::new("shop", "data", ""));
    check(&facts(volume.clone(), vec![]), &[AVAILABLE], "no claim holds it");
    volume.claim_ref = Holder::Nobody;
    check(&facts(volume.clone(), vec![]), &[AVAILABLE], "no claim holds it");
    let volume = in_phase(volume, Phase::Available);
    check(&facts(volume, vec![]), &[], "no claim holds it");
}

#[test]
fn t_5_5_a_failed_volume_stays_failed_and_is_tried_again() {
    let volume = in_phase(dynamic(Policy::Delete), Phase::Failed);
    let calls = ["DeleteVolume", WITHOUT_FINALIZER, "delete disk"];
    check(&facts(volume.clone(), vec![]), &calls, "");
    let mut facts = facts(volume, vec![]);
    let message = "no deleter".to_owned();
    facts.plugins.insert("disk".into(), Plugin::Missing { message });
    check(&facts, &[], "its plugin failed: no deleter");
}

#[test]
fn t_5_6_a_migrated_volume_is_left_to_its_driver() {
    let driver = || Migration::On {
        driver: DRIVER.into(),
    };
    let mut volume = dynamic(Policy::Delete);
    volume.meta.finalizers = vec![FINALIZER_EXTERNAL.into()];
    note(&mut volume).migrated_to = Some(DRIVER.into());
    volume.migration = driver();
    let taken = "driver ebs.csi.aws.com has taken it over";
    check(&facts(volume.clone(), vec![]), &[RELEASED], taken);
    volume.migration = Migration::Unknown;
    check(&facts(volume, vec![]), &[RELEASED], taken);
    // Not noted yet: that comes first, together with the finalizer.
    let mut volume = dynamic(Policy::Delete);
    volume.migration = driver();
    let noted = "put pv.kubernetes.io/migrated-to=ebs.csi.aws.com -kubernetes.io/pv-controller";
    check(&facts(volume, vec![]), &[noted, RELEASED], taken);
    // And the way back.
    let mut volume = dynamic(Policy::Retain);
    note(&mut volume).migrated_to = Some(DRIVER.into());
    let noted = "put -pv.kubernetes.io/migrated-to";
    let kept = "bound to claim shop/data";
    check(&facts(volume, vec![claim().bound_to("disk")]), &[noted], kept);
}

#[test]
fn t_5_7_a_missing_deleter_fails_the_volume() {
    let mut facts = facts(dynamic(Policy::Delete), vec![]);
    let message = "no deleter".to_owned();
    facts.plugins.insert("disk".into(), Plugin::Missing { message });
    check(
        &facts,
        &[
            RELEASED,
            "putstatus Failed \"no deleter\"",
            "Warning VolumeFailedDelete no deleter",
        ],
        "its plugin failed: no deleter",
    );
    facts.plugins.insert("disk".into(), Plugin::External);
    check(&facts, &[RELEASED], "waits for its provisioner to delete it");
    facts.plugins.clear();
    check(&facts, &[RELEASED], "whether it has a plugin is not known");
    note(&mut facts.volumes[0]).provisioned_by = Some(DRIVER.into());
    check(&facts, &[RELEASED], "waits for its provisioner to delete it");
}

#[test]
fn t_5_8_a_claim_that_is_bound_elsewhere_frees_the_volume() {
    let elsewhere = || vec![claim().bound_to("other")];
    let calls = [RELEASED, "DeleteVolume", WITHOUT_FINALIZER, "delete disk"];
    check(&facts(dynamic(Policy::Delete), elsewhere()), &calls, "");
    let by_controller = "put RemoveClaimRef -pv.kubernetes.io/bound-by-controller";
    check(
        &facts(dynamic(Policy::Retain), elsewhere()),
        &[by_controller, AVAILABLE],
        "no claim holds it",
    );
    // Not provisioned for the claim: freed, even though its policy is to delete it. L5.10: a person bound it, so it stays reserved.
    check(
        &facts(made_by_hand(Policy::Delete), elsewhere()),
        &["put ReleaseClaimRef", AVAILABLE],
        "no claim holds it",
    );
}

#[test]
fn t_5_9_an_unknown_policy_fails_the_volume() {
    let text = "Volume has unrecognized PersistentVolumeReclaimPolicy";
    let calls = [
        RELEASED,
        &format!("putstatus Failed {text:?}"),
        &format!("Warning VolumeUnknownReclaimPolicy {text}"),
    ];
    let volume = made_by_hand(Policy::from("Burn"));
    check(
        &facts(volume.clone(), vec![]),
        &calls,
        "nobody knows the reclaim policy \"Burn\"",
    );
    let volume = in_phase(volume, Phase::Failed);
    check(
        &facts(volume, vec![]),
        &[],
        "nobody knows the reclaim policy \"Burn\"",
    );
}

#[test]
fn t_5_10_what_is_read_right_before_decides() {
    type Edit = fn(&mut Volume);
    let cases: [(Edit, &str); 6] = [
        (
            |live| live.claim_ref = Holder::Nobody,
            "it is not released any more",
        ),
        (
            |live| live.claim_ref = Holder::Claim(ClaimRef::new("shop", "data", "")),
            "it is not released any more",
        ),
        (
            |live| live.claim_ref = Holder::Claim(ClaimRef::new("shop", "data", "uid-next")),
            "it has changed since it was listed",
        ),
        (
            |live| live.meta.uid = "uid-next".into(),
            "it has changed since it was listed",
        ),
        (
            |live| live.policy = Policy::Retain,
            "it has changed since it was listed",
        ),
        (
            |live| note(live).migrated_to = Some(DRIVER.into()),
            "driver ebs.csi.aws.com has taken it over",
        ),
    ];
    let listed = in_phase(dynamic(Policy::Delete), Phase::Released);
    let object = Object::new(Resource::PersistentVolumes, &listed.meta);
    for (edit, kept) in cases {
        let mut live = listed.clone();
        edit(&mut live);
        let mut facts = facts(listed.clone(), vec![]);
        facts.read_volumes = Reads::Of([(object.clone(), Live::Found(live))].into());
        check(&facts, &[], kept);
    }
    for (live, kept) in [
        (Live::NotFound, "could not be read: not found"),
        (
            Live::Failed("timeout".into()),
            "could not be read: unknown outcome: timeout",
        ),
        (Live::NotAsked, "it must be read again first"),
    ] {
        let mut facts = facts(listed.clone(), vec![]);
        facts.read_volumes = Reads::Of([(object.clone(), live)].into());
        check(&facts, &[], kept);
    }
}

#[test]
fn t_5_11_a_volume_that_is_being_deleted_is_reclaimed_since_1_31() {
    let mut volume = in_phase(dynamic(Policy::Delete), Phase::Released);
    volume.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    let facts = facts(volume, vec![]);
    let calls = ["DeleteVolume", WITHOUT_FINALIZER, "delete disk"];
    check_in(&release("1.31"), &facts, &calls, "");
    check_in(&release("1.30"), &facts, &[], "it is being deleted already");
}

#[test]
fn before_1_31_finalizers_are_left_alone() {
    let volume = dynamic(Policy::Delete);
    let calls = [RELEASED, "DeleteVolume", "delete disk"];
    check_in(&release("1.30"), &facts(volume, vec![]), &calls, "");
    let mut volume = dynamic(Policy::Delete);
    volume.meta.finalizers.clear();
    let bound = facts(volume, vec![claim().bound_to("disk")]);
    check_in(&release("1.30"), &bound, &[], "bound to claim shop/data");
}

#[test]
fn t_5_12_and_13_finalizers_follow_the_policy() {
    let off = Migration::Off;
    let both = [FINALIZER_IN_TREE, FINALIZER_EXTERNAL];
    let on = Migration::On {
        driver: DRIVER.into(),
    };
    let noted = "put pv.kubernetes.io/migrated-to=ebs.csi.aws.com";
    for (name, provisioner, migration, policy, finalizers, call) in [
        (
            "t_5_12 switched to Retain",
            Some(IN_TREE),
            &off,
            Policy::Retain,
            &both[..1],
            Some("put -kubernetes.io/pv-controller"),
        ),
        (
            "t_5_13 made by a person",
            None,
            &off,
            Policy::Delete,
            &[][..],
            None,
        ),
        (
            "added",
            Some(IN_TREE),
            &off,
            Policy::Delete,
            &[],
            Some("put +kubernetes.io/pv-controller"),
        ),
        (
            "exchanged",
            Some(IN_TREE),
            &off,
            Policy::Delete,
            &both[1..],
            Some("put +kubernetes.io/pv-controller -external-provisioner.volume.kubernetes.io/finalizer"),
        ),
        (
            "Recycle loses both",
            Some(IN_TREE),
            &off,
            Policy::Recycle,
            &both,
            Some("put -kubernetes.io/pv-controller -external-provisioner.volume.kubernetes.io/finalizer"),
        ),
        (
            "as it should be",
            Some(IN_TREE),
            &off,
            Policy::Delete,
            &both[..1],
            None,
        ),
        ("an external one", Some(DRIVER), &off, Policy::Delete, &both, None),
        ("an empty name", Some(""), &off, Policy::Delete, &both, None),
        (
            "migrated",
            Some(IN_TREE),
            &on,
            Policy::Delete,
            &both[1..],
            Some(noted),
        ),
        (
            "migration not known",
            Some(IN_TREE),
            &Migration::Unknown,
            Policy::Retain,
            &both,
            None,
        ),
        (
            "policy not known",
            Some(IN_TREE),
            &off,
            Policy::Unknown,
            &both,
            None,
        ),
        (
            "policy odd",
            Some(IN_TREE),
            &off,
            Policy::from("Burn"),
            &both,
            None,
        ),
    ] {
        let mut volume = made_by_hand(policy);
        note(&mut volume).provisioned_by = provisioner.map(Into::into);
        volume.migration = migration.clone();
        volume.meta.finalizers = finalizers.iter().map(|&name| name.into()).collect();
        let facts = facts(volume, vec![claim().bound_to("disk")]);
        let (calls, kept) = outcome(&Settings::default(), &facts);
        let expected: Vec<String> = call.into_iter().map(str::to_owned).collect();
        assert_eq!((calls, &*kept), (expected, "bound to claim shop/data"), "{name}");
    }
}

#[test]
fn a_missing_finalizer_cannot_be_added_to_what_is_being_deleted() {
    let mut volume = in_phase(dynamic(Policy::Delete), Phase::Released);
    volume.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    volume.meta.finalizers.clear();
    let kept = "it is being deleted, so its missing finalizer cannot be added";
    check(&facts(volume, vec![]), &[], kept);
}

#[test]
fn r_4_and_r_5_a_claim_that_is_there_holds_the_volume() {
    let volume = in_phase(made_by_hand(Policy::Delete), Phase::Available);
    check(
        &facts(volume.clone(), vec![claim()]),
        &[],
        "claim shop/data is not bound yet",
    );
    let bound = claim().bound_to("disk");
    check(
        &facts(volume.clone(), vec![bound]),
        &["putstatus Bound \"\""],
        "bound to claim shop/data",
    );
    for (mode, kept) in [
        ("Block", "claim shop/data asks for another volume mode"),
        ("Filesystem", "claim shop/data is not bound yet"),
    ] {
        let mut claim = claim();
        claim.mode = Some(mode.into());
        check(&facts(volume.clone(), vec![claim]), &[], kept);
    }
}

#[test]
fn l_5_1_and_l_5_3_a_claim_is_read_live_before_the_release_or_before_the_end() {
    let object = |volume: &Volume| Object::new(Resource::PersistentVolumes, &volume.meta);
    for (phase, is_bound) in [
        (Phase::Bound, true),
        (Phase::Available, true),
        (Phase::from(""), true),
        (Phase::Pending, true),
        (Phase::Released, false),
        (Phase::Failed, false),
    ] {
        for policy in [Policy::Delete, Policy::Recycle, Policy::Retain] {
            // Nothing ends with Retain, so that its claim matters only to the phase.
            let reason = match policy {
                Policy::Retain if !is_bound => Reason::Retained,
                _ => Reason::ClaimNotRead,
            };
            let volume = in_phase(dynamic(policy.clone()), phase.clone());
            let mut facts = facts(volume.clone(), vec![]);
            facts.read_claims = Reads::default();
            let plan = plan(&Settings::default(), &facts);
            assert_eq!(plan.actions, [], "{phase:?} {policy:?}");
            let kept: Vec<_> = plan
                .kept
                .iter()
                .map(|kept| (&kept.object, &kept.reason))
                .collect();
            assert_eq!(kept, [(&object(&volume), &reason)], "{phase:?} {policy:?}");
        }
    }
}

#[test]
fn what_was_read_of_the_claim_outweighs_the_list() {
    let key = Object::new(Resource::PersistentVolumeClaims, &claim().meta);
    let other = Claim::new("shop", "data", "uid-other");
    let deleted = &[RELEASED, "DeleteVolume", WITHOUT_FINALIZER, "delete disk"][..];
    let bound = Live::Found(claim().bound_to("disk"));
    for (listed, read, calls, kept) in [
        (Ok(vec![]), bound.clone(), &[][..], "bound to claim shop/data"),
        (
            Ok(vec![other.clone()]),
            bound.clone(),
            &[],
            "bound to claim shop/data",
        ),
        (Err(StoreError::Unlisted), bound, &[], "bound to claim shop/data"),
        (Err(StoreError::Unlisted), Live::NotFound, deleted, ""),
        (Ok(vec![other.clone()]), Live::NotFound, deleted, ""),
        (Ok(vec![]), Live::Found(other.clone()), deleted, ""),
        (
            Ok(vec![other]),
            Live::NotAsked,
            &[],
            "whether its claim exists must be read first",
        ),
        (
            Ok(vec![]),
            Live::Failed("timeout".into()),
            &[],
            "could not be read: unknown outcome: timeout",
        ),
    ] {
        let mut facts = facts(dynamic(Policy::Delete), vec![]);
        facts.claims = listed;
        facts.read_claims = Reads::Of([(key.clone(), read)].into());
        check(&facts, calls, kept);
    }
    let mut facts = facts(dynamic(Policy::Delete), vec![]);
    facts.claims = Err(StoreError::Unlisted);
    check(&facts, &[], "whether its claim exists must be read first");
}

#[test]
fn what_is_not_known_keeps_the_volume() {
    let twice = |claims| facts(dynamic(Policy::Delete), claims);
    let mut facts = facts(in_phase(dynamic(Policy::Delete), Phase::Unknown), vec![]);
    check(&facts, &[], "its phase is not known");
    facts.volumes = vec![dynamic(Policy::Unknown)];
    check(&facts, &[RELEASED], "its reclaim policy is not known");
    facts.claims = Ok(vec![claim().bound_to("other")]);
    check(&facts, &[], "its reclaim policy is not known");
    facts.claims = Ok(vec![]);
    facts.volumes = vec![dynamic(Policy::Delete)];
    facts.volumes[0].migration = Migration::Unknown;
    let kept = "whether a driver has taken over its provisioner's volumes is not known";
    check(&facts, &[RELEASED], kept);
    let claims = vec![claim().bound_to("disk"), claim()];
    check(&twice(claims), &[], "whether its claim exists must be read first");
    facts.volumes = vec![dynamic(Policy::Delete), dynamic(Policy::Retain)];
    check(&facts, &[], "listed twice, and not alike");
    let all = plan(&Settings::default(), &facts);
    assert_eq!((all.kept.len(), all.summary.undecided), (1, 1));
}

#[test]
fn l_5_6_recycling() {
    let emptied = [
        RELEASED,
        "RecycleVolume",
        "Normal VolumeRecycled Volume recycled",
        "put ReleaseClaimRef",
        AVAILABLE,
    ];
    let pod = |name: &str, phase: &str, source| {
        let mut pod = Pod::new("shop", name, name).with(source);
        pod.phase = phase.into();
        pod
    };
    let with_pods = |pods: Vec<Pod>, claims| {
        let mut facts = facts(made_by_hand(Policy::Recycle), claims);
        facts.pods = Ok(pods);
        facts
    };
    let data = || Source::Claim("data".into());
    check(&with_pods(vec![], vec![]), &emptied, "it was emptied");
    let idle = vec![
        pod("a", "Succeeded", data()),
        pod("b", "Failed", data()),
        pod("c", "Running", Source::Claim("logs".into())),
        Pod::new("other", "d", "d").with(data()),
    ];
    check(&with_pods(idle, vec![]), &emptied, "it was emptied");
    let busy = vec![pod("b", "Running", data()), pod("a", "Pending", data())];
    check(
        &with_pods(busy.clone(), vec![]),
        &[
            RELEASED,
            "Normal VolumeFailedRecycle Volume is used by pods: shop/a,shop/b",
        ],
        "used by pods shop/a, shop/b",
    );
    // A new claim of the name is on another volume, and so are its pods.
    let new = Claim::new("shop", "data", "uid-new");
    check(&with_pods(busy, vec![new]), &emptied, "it was emptied");
    let mut unknown = with_pods(vec![], vec![]);
    unknown.pods = Err(StoreError::Unlisted);
    let kept = "whether pods use it is not known: not listed: nothing is known of this object";
    check(&unknown, &[RELEASED], kept);
    let mut bare = pod("a", "Running", data());
    bare.volumes = None;
    check(&with_pods(vec![bare.clone()], vec![]), &[RELEASED], kept);
    bare.meta.namespace = "other".into();
    check(&with_pods(vec![bare.clone()], vec![]), &emptied, "it was emptied");
    (bare.meta.namespace, bare.phase) = ("shop".into(), "Failed".into());
    check(&with_pods(vec![bare], vec![]), &emptied, "it was emptied");
    for plugin in [
        Plugin::External,
        Plugin::Missing {
            message: "anything".to_owned(),
        },
    ] {
        let mut facts = with_pods(vec![], vec![]);
        facts.plugins.insert("disk".into(), plugin);
        check(
            &facts,
            &[
                RELEASED,
                "putstatus Failed \"No recycler plugin found for the volume!\"",
                "Warning VolumeFailedRecycle No recycler plugin found for the volume!",
            ],
            "its plugin failed: No recycler plugin found for the volume!",
        );
    }
}

#[test]
fn only_strict_deletions_expect_anything() {
    let volume = in_phase(made_by_hand(Policy::Delete), Phase::Released);
    let expect = expected(&volume.meta);
    let plan = Settings::default().plan(&facts(volume, vec![]), Timestamp::EPOCH);
    let [asked, deleted] = &plan.actions[..] else {
        panic!("the plugin and the deletion: {plan:?}")
    };
    assert!(matches!(
        asked,
        Action::Ask {
            operation: Operation::DeleteVolume,
            ..
        }
    ));
    let sent = |wire| match &deleted.calls(wire)[..] {
        [Call::Delete { options, .. }] => options.clone(),
        other => panic!("one deletion: {other:?}"),
    };
    assert_eq!(sent(Wire::AsUpstream), kubegc_core::DeleteOptions::default());
    assert_eq!(sent(Wire::Strict).preconditions, expect);
    assert_eq!(
        expect,
        Preconditions {
            uid: Some(Uid::new("uid-disk")),
            resource_version: Some("7".into()),
        }
    );
    assert_eq!(deleted.reason(), &Reason::StorageDeleted);
    assert_eq!(plan.next_at, None);
}
