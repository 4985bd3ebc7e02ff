//! The orphan planner and the orphan attempt have the same outcome.

use std::sync::Arc;

use kubegc_core::{
    ObjectMeta, ObjectRef, PatchType, PlannedAction, Planner, PropagationPolicy, Timestamp, Uid, Withheld,
};
use kubegc_objects::{
    Graph,
    absent_owners::AbsentOwners,
    attempt::{Context, NoMonitors},
    call::Answer,
    orphan::{Action, Attempt, Facts, KeptReason, Rules, Step},
    patch,
};
use kubegc_sim::ApiServer;
use proptest::prelude::*;

use crate::common::{
    VERSIONS,
    cluster::{Act, CONFIG_MAP, Cluster, Features, Object, version, well_formed},
    config,
    world::{World, perform},
};

/// The state of a server without versions.
fn state(server: &ApiServer) -> Vec<ObjectMeta> {
    let kinds = server.catalog().iter().map(|(kind, _)| kind);
    let objects = kinds.flat_map(|kind| server.objects(kind, None));
    objects
        .map(|object| ObjectMeta {
            resource_version: "".into(),
            ..object.meta.clone().into()
        })
        .collect()
}

/// Runs the attempt. Returns the number of successful writes.
fn attempt(world: &mut World, owner: &Uid) -> usize {
    let mut graph: Graph = world.collector.graph().clone();
    let node = graph.node(owner).expect("the owner was listed");
    let (mut absent, mut effects) = (AbsentOwners::new(500, false), Vec::new());
    let catalog = Arc::clone(world.collector.catalog());
    let mut attempt = Attempt::new(node);
    let mut writes = 0;
    graph.retain(node);
    for _ in 0..1_000 {
        let mut context = Context {
            semantics: &world.settings.semantics,
            strict: false,
            graph: &mut graph,
            catalog: &catalog,
            absent: &mut absent,
            latest: &NoMonitors,
            effects: &mut effects,
        };
        match attempt.next(&mut context) {
            Step::Ask(lane, ask) => {
                let answer = perform(&mut world.server, &world.collector, &ask);
                writes += usize::from(matches!(answer, Answer::Applied(_)));
                attempt.answer(&mut context, lane, answer);
            }
            Step::Wait | Step::Sleep(_) => {}
            Step::Done(outcome) => {
                assert!(!outcome.requeue, "{outcome:?}");
                return writes;
            }
        }
    }
    panic!("the attempt is not finished");
}

fn facts(world: &World, owner: &Object) -> Facts {
    let graph = world.collector.graph();
    let node = graph.node(&owner.meta.uid).expect("the owner was listed");
    Facts {
        owner: graph.identity(node),
        live: owner.live(&world.server).map(Arc::new),
        // In reverse: the order must not matter.
        dependents: graph
            .dependents(node)
            .iter()
            .rev()
            .map(|&node| graph.identity(node))
            .collect(),
    }
}

/// Executes a plan. Returns the number of writes.
fn execute(world: &mut World, actions: &[Action]) -> usize {
    for action in actions {
        match action {
            Action::RemoveOwner {
                dependent,
                owner,
                expect,
                ..
            } => {
                assert_eq!(expect.uid.as_ref(), Some(&dependent.uid));
                let kind = world
                    .server
                    .catalog()
                    .mapping(&dependent.api_version, &dependent.kind)
                    .expect("served");
                let stored = world
                    .server
                    .object(kind, &dependent.namespace, &dependent.name)
                    .expect("listed")
                    .clone();
                let (format, body) = if world.server.catalog()[kind].custom {
                    let (read_at, owners) = (&stored.meta.resource_version, &stored.meta.owner_references);
                    (
                        PatchType::Merge,
                        patch::remove_owners_merge(read_at, owners, std::slice::from_ref(&owner.uid)),
                    )
                } else {
                    let owners = std::slice::from_ref(&owner.uid);
                    (
                        PatchType::Strategic,
                        patch::remove_owners(&world.settings.semantics, &dependent.uid, owners),
                    )
                };
                let (namespace, name) = (&dependent.namespace, &dependent.name);
                let answer = world
                    .server
                    .patch(kind, namespace, name, format.content_type(), &body);
                assert!(answer.is_success(), "{answer:?}");
            }
            Action::RemoveFinalizer { owner, expect, .. } => {
                let kind = world
                    .server
                    .catalog()
                    .mapping(&owner.api_version, &owner.kind)
                    .expect("served");
                let live = world
                    .server
                    .object(kind, &owner.namespace, &owner.name)
                    .expect("held")
                    .meta
                    .clone();
                assert_eq!(expect.uid.as_ref(), Some(&live.uid));
                if let Some(read_at) = &expect.resource_version {
                    assert_eq!(
                        *read_at, live.resource_version,
                        "the precondition holds after the patches"
                    );
                }
                let body = patch::remove_finalizer(&live.resource_version, &live.finalizers, "orphan")
                    .expect("there");
                let content_type = PatchType::Merge.content_type();
                let answer = world
                    .server
                    .patch(kind, &owner.namespace, &owner.name, content_type, &body);
                assert!(answer.is_success(), "{answer:?}");
            }
        }
    }
    actions.len()
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn the_executed_plan_has_the_outcome_of_the_attempt(
        cluster in well_formed(Features::ALL), release in 0..VERSIONS.len(), names_itself: bool,
    ) {
        let mut cluster: Cluster = cluster;
        let Act::Delete(target, policy) = &mut cluster.acts[0] else { return Ok(()) };
        *policy = Some(PropagationPolicy::Orphan);
        let target = *target;
        if names_itself {
            let itself = cluster.objects[target].reference();
            cluster.objects[target].meta.owner_references.push(itself);
        }
        let version = version(VERSIONS[release]);
        let mut server = cluster.server(version);
        cluster.act(&mut server, &cluster.acts[0]);
        let mut by_attempt = World::new(version, server);
        by_attempt.list_all();
        let mut by_plan = by_attempt.clone();

        let owner = &cluster.objects[target];
        let first = facts(&by_plan, owner);
        let plan = Rules.plan(&first, Timestamp::EPOCH);
        prop_assert!(plan.kept.is_empty());
        let mut other_order = first.clone();
        other_order.dependents.reverse();
        prop_assert_eq!(&Rules.plan(&other_order, Timestamp::EPOCH), &plan);

        let writes = attempt(&mut by_attempt, &owner.meta.uid);
        prop_assert_eq!(execute(&mut by_plan, &plan.actions), writes);
        prop_assert_eq!(state(&by_plan.server), state(&by_attempt.server));

        let again = Rules.plan(&facts(&by_plan, owner), Timestamp::EPOCH);
        prop_assert!(again.actions.is_empty(), "executed, and actions remain: {:?}", again);
        prop_assert!(again.kept.iter().any(|kept| kept.object == first.owner));
    }
}

#[test]
fn an_owner_that_does_not_orphan_changes_nothing() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let identity = ObjectRef::new("v1", "ConfigMap", "red", "owner", "u-owner");
    let dependent = ObjectRef::new("v1", "Secret", "red", "item", "u-item");
    let deleting = ObjectMeta {
        deletion_timestamp: Some(Timestamp::EPOCH),
        ..owner.meta.clone()
    };
    let replaced = ObjectMeta {
        uid: "other".into(),
        ..deleting.clone()
    };
    for (live, expected) in [
        (None, KeptReason::OwnerNotRead),
        (Some(replaced), KeptReason::OwnerReplaced { live: "other".into() }),
        (
            Some(owner.clone().held("orphan").meta),
            KeptReason::OwnerNotDeleted,
        ),
        (Some(deleting), KeptReason::OwnerDoesNotOrphan),
    ] {
        let facts = Facts {
            owner: identity.clone(),
            live: live.map(Arc::new),
            dependents: vec![dependent.clone()],
        };
        let plan = Rules.plan(&facts, Timestamp::EPOCH);
        assert!(plan.actions.is_empty());
        let kept: Vec<_> = plan
            .kept
            .iter()
            .map(|kept| (&kept.object, &kept.reason))
            .collect();
        assert_eq!(kept, [(&identity, &expected), (&dependent, &expected)]);
    }
}

#[test]
fn a_protected_dependent_keeps_the_finalizer_of_its_owner() {
    let owner = ObjectRef::new("apps/v1", "ReplicaSet", "shop", "web", "set");
    let pods = ["web-0", "web-1"].map(|name| ObjectRef::new("v1", "Pod", "shop", name, name));
    let mut live = ObjectMeta::new("shop", "web", "set");
    live.finalizers.push("orphan".into());
    live.deletion_timestamp = Some(Timestamp::EPOCH);
    let facts = Facts {
        owner: owner.clone(),
        live: Some(live.into()),
        dependents: pods.to_vec(),
    };
    let planner = Rules.protect(|_, object| *object.name == *"web-0");
    let plan = planner.plan(&facts, Timestamp::EPOCH);
    let acted: Vec<_> = plan.actions.iter().map(PlannedAction::object).collect();
    assert_eq!(acted, [pods[1].clone()]);
    let kept: Vec<_> = plan
        .kept
        .into_iter()
        .map(|kept| (kept.object, kept.reason))
        .collect();
    let expected = [
        (pods[0].clone(), Withheld::Protected),
        (owner, Withheld::EarlierWithheld),
    ];
    assert_eq!(kept, expected);
}
