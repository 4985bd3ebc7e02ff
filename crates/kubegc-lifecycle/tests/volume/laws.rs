//! What holds for every cluster of volumes: order means nothing, nothing is left over, nothing unknown is deleted.

use std::collections::BTreeSet;

use kubegc_core::{Planner, StoreError, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Object, Reads, Resource},
    volume::{
        Claim, ClaimRef, FINALIZER_EXTERNAL, FINALIZER_IN_TREE, Migration, Phase, Pod, Policy, Source,
        Volume,
        reclaim::{Action, Answer, Facts, Known, Pass, Plugin, Settings, Step},
    },
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::support::{DRIVER, IN_TREE, release};

fn volumes() -> impl Strategy<Value = Volume> {
    let phases = select(vec![
        "",
        "Pending",
        "Available",
        "Bound",
        "Released",
        "Failed",
        "Odd",
    ]);
    let policies = select(vec!["Retain", "Delete", "Recycle", "Burn"]);
    let migrations = vec![
        Migration::Unknown,
        Migration::Off,
        Migration::On {
            driver: DRIVER.into(),
        },
    ];
    let provisioners = option::of(select(vec![IN_TREE, DRIVER, ""]));
    let finalizers = select(vec![
        vec![],
        vec![FINALIZER_IN_TREE],
        vec![FINALIZER_EXTERNAL, "example.com/f", FINALIZER_IN_TREE],
    ]);
    let claim = option::of((0..4_u8, 0..3_u8));
    let flags = (any::<bool>(), 0..4_u8, 0..8_u8);
    (
        phases,
        policies,
        select(migrations),
        provisioners,
        finalizers,
        claim,
        flags,
    )
        .prop_map(
            |(phase, policy, migration, provisioner, finalizers, claim, flags)| {
                let mut volume = Volume::new("", "");
                volume.phase = phase.into();
                volume.policy = policy.into();
                volume.migration = migration;
                volume.provisioned_by = provisioner.map(Into::into);
                volume.meta.finalizers = finalizers.into_iter().map(Into::into).collect();
                volume.claim_ref = claim.map(|(name, generation)| {
                    // Generation 0 is a reservation.
                    let uid = match generation {
                        0 => String::new(),
                        generation => format!("uid-{name}-{generation}"),
                    };
                    ClaimRef::new("shop", &format!("claim-{name}"), &uid)
                });
                volume.is_bound_by_controller = flags.0;
                volume.migrated_to = (flags.1 == 0).then(|| DRIVER.into());
                volume.meta.deletion_timestamp = (flags.2 == 0).then_some(Timestamp::EPOCH);
                if flags.2 == 1 {
                    volume.phase = Phase::Unknown;
                }
                volume
            },
        )
}

fn facts() -> impl Strategy<Value = Facts> {
    let claims = vec((1..3_u8, 0..8_u8), 0..4);
    let pods = vec((0..4_u8, any::<bool>()), 0..4);
    let plugins = vec(
        select(vec![
            Plugin::Unknown,
            Plugin::Known,
            Plugin::Known,
            Plugin::External,
            Plugin::Missing {
                message: "none".to_owned(),
            },
        ]),
        6,
    );
    (vec(volumes(), 0..6), claims, pods, plugins, any::<[bool; 3]>()).prop_map(
        |(mut volumes, claims, pods, plugins, known)| {
            for (index, volume) in volumes.iter_mut().enumerate() {
                volume.meta.name = format!("disk-{index}").into();
                volume.meta.uid = format!("uid-{index}").as_str().into();
            }
            let claims = claims.into_iter().enumerate().map(|(name, (generation, bound))| {
                let uid = format!("uid-{name}-{generation}");
                let claim = Claim::new("shop", &format!("claim-{name}"), &uid);
                if bound < 6 {
                    claim.bound_to(&format!("disk-{bound}"))
                } else {
                    claim
                }
            });
            let pods = pods.into_iter().enumerate().map(|(index, (name, ended))| {
                let source = Source::Claim(format!("claim-{name}").into());
                let mut pod = Pod::new("shop", &format!("pod-{index}"), "").with(source);
                if ended {
                    pod.phase = "Succeeded".into();
                }
                pod
            });
            let mut facts = Facts::new(volumes, claims.collect(), pods.collect());
            let named = plugins.into_iter().enumerate();
            facts.plugins = named
                .map(|(index, plugin)| (format!("disk-{index}").into(), plugin))
                .collect();
            facts.read_volumes = Reads::AsListed;
            if known[0] {
                facts.read_claims = Reads::AsListed;
            }
            if known[1] && known[2] {
                facts.claims = Err(StoreError::Unlisted);
            }
            facts
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    select(vec!["1.30", "1.31", "1.36"]).prop_map(release)
}

/// The cluster after all actions have succeeded and other finalizers are gone.
fn carried_out(mut facts: Facts, actions: &[Action]) -> Facts {
    for action in actions {
        let at = facts
            .volumes
            .iter()
            .position(|volume| Object::new(Resource::PersistentVolumes, &volume.meta) == *action.object());
        let Some(at) = at else { continue };
        match action.applied_to(&facts.volumes[at]) {
            Some(volume) => facts.volumes[at] = volume,
            None => {
                facts.volumes.remove(at);
            }
        }
    }
    facts
}

proptest! {
    #[test]
    fn order_means_nothing(facts in facts(), settings in settings(), by in 0..6_usize) {
        let plan = settings.plan(&facts, Timestamp::EPOCH);
        let mut shuffled = facts;
        let len = shuffled.volumes.len().max(1);
        shuffled.volumes.rotate_left(by % len);
        shuffled.volumes.reverse();
        if let Ok(claims) = &mut shuffled.claims {
            claims.reverse();
        }
        if let Ok(pods) = &mut shuffled.pods {
            pods.reverse();
        }
        prop_assert_eq!(plan, settings.plan(&shuffled, Timestamp::from_secs(9)));
    }

    #[test]
    fn a_second_plan_only_tells(facts in facts(), settings in settings()) {
        let plan = settings.plan(&facts, Timestamp::EPOCH);
        let after = carried_out(facts, &plan.actions);
        let again = settings.plan(&after, Timestamp::EPOCH);
        // That pods use a volume is told at every look, as upstream does.
        let writes = again.actions.iter().filter(|action| !matches!(action, Action::Tell { .. }));
        prop_assert_eq!(writes.collect::<Vec<_>>(), Vec::<&Action>::new());
    }

    #[test]
    fn every_volume_is_deleted_or_kept(facts in facts(), settings in settings()) {
        let plan = settings.plan(&facts, Timestamp::EPOCH);
        let deleted = plan.actions.iter().filter(|action| matches!(action, Action::Delete { .. }));
        let deleted: Vec<&Object> = deleted.map(Act::object).collect();
        prop_assert_eq!(plan.summary.deleted, deleted.len());
        let all: Vec<&Object> = deleted.into_iter().chain(plan.kept.iter().map(|kept| &kept.object)).collect();
        let each: BTreeSet<&Object> = all.iter().copied().collect();
        prop_assert_eq!((all.len(), each.len()), (facts.volumes.len(), facts.volumes.len()));
        prop_assert_eq!(plan.next_at, None);
    }

    #[test]
    fn only_released_volumes_of_the_policy_are_deleted(facts in facts(), settings in settings()) {
        let plan = settings.plan(&facts, Timestamp::EPOCH);
        for action in &plan.actions {
            let (Action::Delete { object, .. } | Action::Ask { object, .. }) = action else { continue };
            let volume = facts.volumes.iter().find(|volume| volume.meta.uid == object.uid).expect("a volume of the facts");
            let claim_ref = volume.claim_ref.clone().expect("nobody's volume stays");
            prop_assert!(matches!(volume.policy, Policy::Delete | Policy::Recycle));
            prop_assert!(volume.phase != Phase::Unknown);
            let claims = facts.claims.as_ref().map(Vec::as_slice).unwrap_or_default();
            let claim = claims.iter().find(|claim| claim.meta.uid == claim_ref.uid);
            prop_assert!(claim.is_none_or(|claim| !claim.volume_name.is_empty() && claim.volume_name != object.name));
        }
    }

    #[test]
    fn nothing_is_deleted_unread(facts in facts(), settings in settings()) {
        let mut facts = facts;
        facts.read_volumes = Reads::default();
        let plan = settings.plan(&facts, Timestamp::EPOCH);
        let harm = plan.actions.iter().any(|action| matches!(action, Action::Delete { .. } | Action::Ask { .. }));
        prop_assert!(!harm);
    }

    #[test]
    fn a_pass_ends_whatever_the_answers(volume in volumes(), answers in vec(0..7_u8, 12), settings in settings()) {
        let known = Known {
            claim: kubegc_lifecycle::object::Live::NotAsked,
            users: Ok(Vec::new()),
            volume: volume.clone(),
        };
        let mut pass = Pass::new(settings, known);
        let mut step = pass.next(None);
        for answer in answers {
            step = pass.next(Some(match answer {
                0 => Answer::Done,
                1 => Answer::Volume(volume.clone()),
                2 => Answer::Plugin(Plugin::Known),
                3 => Answer::Claim(Claim::new("shop", "claim-1", "uid-1-1")),
                4 => Answer::InUse { message: "busy".to_owned() },
                5 => Answer::Failed(StoreError::NotFound),
                _ => Answer::Failed(StoreError::Unlisted),
            }));
        }
        prop_assert!(matches!(step, Step::Done(_)), "{:?}", step);
    }

    #[test]
    fn a_plugin_is_asked_once_and_a_deletion_comes_last(facts in facts(), settings in settings()) {
        let plan = settings.plan(&facts, Timestamp::EPOCH);
        for volume in &facts.volumes {
            let object = Object::new(Resource::PersistentVolumes, &volume.meta);
            let actions: Vec<&Action> = plan.actions.iter().filter(|action| *action.object() == object).collect();
            let asks = actions.iter().filter(|action| matches!(action, Action::Ask { .. })).count();
            prop_assert!(asks <= 1);
            let deletion = actions.iter().position(|action| matches!(action, Action::Delete { .. }));
            prop_assert!(deletion.is_none_or(|at| at + 1 == actions.len() && asks == 1));
        }
    }
}
