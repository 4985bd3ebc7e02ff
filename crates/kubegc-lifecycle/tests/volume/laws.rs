//! What holds for every cluster of volumes: order means nothing, nothing is left over, nothing unknown is deleted.

use std::collections::BTreeSet;

use kubegc_core::{Planner, StoreError, Timestamp};
use kubegc_lifecycle::{
    object::{Act, Live, Object, Reads, Resource},
    volume::{
        Annotations, Claim, ClaimRef, FINALIZER_EXTERNAL, FINALIZER_IN_TREE, Holder, Migration, Phase, Pod,
        Policy, Source, Volume,
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
    let flags = (any::<bool>(), 0..4_u8, 0..16_u8);
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
                let mut volume = Volume::new("disk", "uid-disk");
                volume.meta.resource_version = "7".into();
                volume.phase = phase.into();
                volume.policy = policy.into();
                volume.migration = migration;
                volume.meta.finalizers = finalizers.into_iter().map(Into::into).collect();
                let claim = claim.map(|(name, generation)| {
                    // Generation 0 is a reservation.
                    let uid = match generation {
                        0 => String::new(),
                        generation => format!("uid-{name}-{generation}"),
                    };
                    ClaimRef::new("shop", &format!("claim-{name}"), &uid)
                });
                volume.claim_ref = claim.map_or(Holder::Nobody, Holder::Claim);
                volume.annotations = Some(Annotations {
                    provisioned_by: provisioner.map(Into::into),
                    is_bound_by_controller: flags.0,
                    migrated_to: (flags.1 == 0).then(|| DRIVER.into()),
                });
                match flags.2 {
                    0 | 1 => volume.meta.deletion_timestamp = Some(Timestamp::EPOCH),
                    2 => volume.phase = Phase::Unknown,
                    3 => volume.policy = Policy::Unknown,
                    4 => volume.claim_ref = Holder::Unknown,
                    5 => volume.annotations = None,
                    6 => volume.meta.resource_version = "".into(),
                    _ => {}
                }
                volume
            },
        )
}

/// What a read right before finds: what was listed, most of the time.
fn read<T: Clone>(kind: u8, listed: &T, edit: impl FnOnce(&mut T)) -> Live<T> {
    match kind {
        0 => Live::NotAsked,
        1 => Live::NotFound,
        2 => Live::Failed("timeout".into()),
        3 | 4 => {
            let mut live = listed.clone();
            edit(&mut live);
            Live::Found(live)
        }
        _ => Live::Found(listed.clone()),
    }
}

/// The same facts with volumes and claims that were read right before, and may differ from what was listed.
fn with_reads(mut facts: Facts, kinds: &[u8]) -> Facts {
    let kinds = || kinds.iter().copied();
    let volumes = facts.volumes.iter().zip(kinds()).map(|(volume, kind)| {
        let live = read(kind, volume, |live| match kind {
            3 => live.policy = Policy::Retain,
            _ => live.claim_ref = Holder::Unknown,
        });
        (Object::new(Resource::PersistentVolumes, &volume.meta), live)
    });
    facts.read_volumes = Reads::Of(volumes.collect());
    let holders = facts.volumes.iter().filter_map(|volume| volume.claim_ref.claim());
    let claims = holders.zip(kinds().rev()).map(|(holder, kind)| {
        let mut bound = Claim::new(&holder.namespace, &holder.name, "");
        bound.meta.uid = holder.uid.clone();
        let live = read(kind, &bound.clone().bound_to("elsewhere"), |live| match kind {
            3 => *live = bound,
            _ => live.meta.uid = "uid-other".into(),
        });
        let object = Object {
            resource: Resource::PersistentVolumeClaims,
            namespace: holder.namespace.clone(),
            name: holder.name.clone(),
            uid: holder.uid.clone(),
        };
        (object, live)
    });
    facts.read_claims = Reads::Of(claims.collect());
    facts
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
    let reads = option::of(vec(0..12_u8, 6));
    (
        vec(volumes(), 0..6),
        claims,
        pods,
        plugins,
        any::<[bool; 3]>(),
        reads,
    )
        .prop_map(|(mut volumes, claims, pods, plugins, known, reads)| {
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
                } else if index == 3 {
                    pod.volumes = None;
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
            match reads {
                Some(kinds) => with_reads(facts, &kinds),
                None => facts,
            }
        })
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
        let mut after = carried_out(facts, &plan.actions);
        // What was read right before has changed with what was written.
        if let Reads::Of(reads) = &mut after.read_volumes {
            for action in &plan.actions {
                if let Some(Live::Found(live)) = reads.get_mut(action.object()) {
                    *live = action.applied_to(live).unwrap_or_else(|| live.clone());
                }
            }
        }
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
            let claim_ref = volume.claim_ref.claim().expect("nobody's volume stays");
            prop_assert!(matches!(volume.policy, Policy::Delete | Policy::Recycle));
            prop_assert!(volume.phase != Phase::Unknown && volume.annotations.is_some());
            prop_assert!(!volume.meta.resource_version.is_empty());
            // The volume was read right before and is what was listed.
            if let Reads::Of(reads) = &facts.read_volumes {
                let Some(Live::Found(live)) = reads.get(object) else { panic!("{object} was not read") };
                prop_assert_eq!((&live.policy, &live.claim_ref), (&volume.policy, &volume.claim_ref));
            }
            // Its claim was read right before, too, unless the list is as good as that.
            let listed = facts.claims.as_ref().map(Vec::as_slice).unwrap_or_default();
            let claim = match &facts.read_claims {
                Reads::AsListed => {
                    prop_assert!(facts.claims.is_ok());
                    listed.iter().find(|claim| claim.meta.uid == claim_ref.uid)
                }
                Reads::Of(reads) => {
                    let key = Object {
                        resource: Resource::PersistentVolumeClaims,
                        namespace: claim_ref.namespace.clone(),
                        name: claim_ref.name.clone(),
                        uid: claim_ref.uid.clone(),
                    };
                    match reads.get(&key) {
                        Some(Live::Found(claim)) if claim.meta.uid == claim_ref.uid => Some(claim),
                        Some(Live::Found(_) | Live::NotFound) => None,
                        other => panic!("the claim was not read: {other:?}"),
                    }
                }
            };
            prop_assert!(claim.is_none_or(|claim| !claim.volume_name.is_empty() && claim.volume_name != object.name));
        }
    }

    #[test]
    fn nothing_is_deleted_unread(facts in facts(), settings in settings()) {
        let mut without_volumes = facts.clone();
        without_volumes.read_volumes = Reads::default();
        let mut without_claims = facts;
        without_claims.read_claims = Reads::default();
        for facts in [without_volumes, without_claims] {
            let plan = settings.plan(&facts, Timestamp::EPOCH);
            let harm = plan.actions.iter().any(|action| matches!(action, Action::Delete { .. } | Action::Ask { .. }));
            prop_assert!(!harm);
        }
    }

    #[test]
    fn a_pass_ends_whatever_the_answers(volume in volumes(), answers in vec(0..7_u8, 9), settings in settings()) {
        let known = Known {
            claim: Live::NotAsked,
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
