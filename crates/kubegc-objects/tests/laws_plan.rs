//! Laws of the planners over owner references: they decide as the collector does, a performed plan leaves the
//! cluster that the collector leaves, and wrappers keep plans safe.

use std::sync::Arc;

use kubegc_core::{
    Kept, ObjectRef, PartialObjectMetadata, Planner, PropagationPolicy, Timestamp, Uid, Withheld,
};
use kubegc_objects::{
    Operation, Owners,
    execute::{Executor, Performed},
    plan::{self, Action, Collect, Delete},
};
use kubegc_sim::{SharedApiServer, SimClock};
use proptest::prelude::*;

use crate::{
    common::{
        cluster::{CONFIG_MAP, ClientWrite, Cluster, HOLD, Object, SECRET, WIDGET, ill_formed},
        config,
        executor::block_on,
        latest, oracle,
        oracle::Remains,
    },
    laws_outcome::{calm, cluster},
};

fn partial(object: &Object) -> PartialObjectMetadata {
    PartialObjectMetadata::new(object.kind.api_version, object.kind.kind, object.meta.clone())
}

fn owners(objects: &[Object]) -> Owners {
    Owners::new(objects.iter().map(partial)).complete()
}

/// Performs actions on a server with the objects of a cluster.
fn performed(cluster: &Cluster, actions: &[Action]) -> (Remains, Vec<Performed>) {
    let clock = SimClock::default();
    let server = SharedApiServer::with_clock(cluster.server(latest()), Arc::new(clock.clone()));
    let executor = Executor {
        store: &server,
        version: latest(),
        dry_run: false,
    };
    let report = block_on(&clock, executor.execute(actions)).expect("discovery works");
    let results = report
        .actions
        .into_iter()
        .map(|(_, performed)| performed)
        .collect();
    let remains = server.with(|server| oracle::remains(&cluster.objects, server));
    (remains, results)
}

/// The deletion of a cluster's client as a planner, if it names a policy.
fn deletion(cluster: &Cluster) -> Option<Delete> {
    match cluster.client_writes.as_slice() {
        [ClientWrite::Delete(at, Some(policy))] => Some(Delete {
            uids: vec![cluster.objects[*at].meta.uid.clone()],
            policy: *policy,
            version: latest(),
        }),
        _ => None,
    }
}

proptest! {
    #![proptest_config(config(800))]

    #[test]
    fn a_performed_plan_leaves_the_cluster_that_the_collector_leaves(cluster in cluster()) {
        let Some(delete) = deletion(&cluster) else { return Ok(()) };
        let plan = delete.plan(&owners(&cluster.objects), Timestamp::EPOCH);
        let (remains, results) = performed(&cluster, &plan.actions);
        prop_assert!(results.iter().all(|result| *result == Performed::Done), "{:?}\n{}", results, plan.to_string());
        prop_assert_eq!(remains, calm(&cluster), "{}", plan.to_string());
    }

    #[test]
    fn every_descendant_has_an_action_or_a_reason(cluster in cluster()) {
        let Some(delete) = deletion(&cluster) else { return Ok(()) };
        let owners = owners(&cluster.objects);
        let plan = delete.plan(&owners, Timestamp::EPOCH);
        let explained: Vec<&Uid> = plan.actions.iter().map(|action| &action.object.uid)
            .chain(plan.kept.iter().chain(&plan.findings).map(|kept| &kept.object.uid))
            .collect();
        for descendant in owners.descendants(&delete.uids[0]) {
            prop_assert!(explained.contains(&&descendant.metadata.uid), "{descendant:?}");
        }
        prop_assert_eq!(&plan, &delete.plan(&owners, Timestamp::EPOCH));
    }

    /// With an owner protected, none of its dependents is deleted because of it.
    #[test]
    fn a_protected_object_protects_what_its_deletion_causes(cluster in cluster()) {
        let Some(delete) = deletion(&cluster) else { return Ok(()) };
        let root = delete.uids[0].clone();
        let protected = delete.protect(|_, object: &Arc<ObjectRef>| object.uid == root);
        let plan = protected.plan(&owners(&cluster.objects), Timestamp::EPOCH);
        let (remains, results) = performed(&cluster, &plan.actions);
        prop_assert!(results.iter().all(|result| *result == Performed::Done), "{:?}", results);
        prop_assert!(remains.len() == cluster.objects.len(), "{}", plan.to_string());
    }

    /// Whatever the references are, a plan ends, and missing owners delete nothing unless the set is complete.
    #[test]
    fn an_unknown_owner_deletes_nothing(cluster in ill_formed()) {
        let all = Owners::new(cluster.objects.iter().map(partial));
        let collect = Collect { version: latest() };
        let is_unknown = |uid: &Uid| all.why_kept(uid).is_some_and(|owners| !owners.unknown.is_empty());
        let plan = collect.plan(&all, Timestamp::EPOCH);
        for action in plan.actions.iter().filter(|action| matches!(action.operation, Operation::Delete { .. })) {
            prop_assert!(!is_unknown(&action.object.uid), "{action}");
        }
        let _ended = collect.plan(&all.complete(), Timestamp::EPOCH);
    }
}

#[test]
fn a_plan_is_printed_with_reasons() {
    let root = Object::new(CONFIG_MAP, "shop", "root");
    let held = Object::new(SECRET, "shop", "held")
        .owned_by(&root)
        .with_finalizer(HOLD);
    let other = Object::new(CONFIG_MAP, "shop", "other");
    let shared = Object::new(WIDGET, "shop", "shared")
        .owned_by(&root)
        .owned_by(&other);
    let objects = [root.clone(), held, other, shared];
    let complete = owners(&objects);
    let roots = [root.meta.uid.clone()];
    let plan = plan::delete(&complete, &roots, PropagationPolicy::Background, latest());
    assert_eq!(
        plan.to_string(),
        "\
actions (3):
  delete configmap/root -n shop (Background): its deletion is requested
  delete secret/held -n shop (Background): no owner of it is left
  patch widget.example.com/shared -n shop: remove the references to uid u-root: some of its owners exist, so only the references to the others are removed
kept (2):
  configmap/other exists (1): widget.example.com/shared -n shop
  it is terminating, waiting for finalizer example.com/hold (1): secret/held -n shop
"
    );
    let orphan = plan::orphan(&complete, &roots[0], latest());
    assert_eq!(
        orphan.actions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "patch secret/held -n shop: remove the references to uid u-root: its owner configmap/root -n shop is deleted without its dependents",
            "patch widget.example.com/shared -n shop: remove the references to uid u-root: its owner configmap/root -n shop is deleted without its dependents",
            "patch configmap/root -n shop: remove finalizer orphan: all its dependents are released",
        ]
    );
    let limited = Delete {
        uids: roots.to_vec(),
        policy: PropagationPolicy::Background,
        version: latest(),
    };
    let limited = limited.limit_deletions(1).plan(&complete, Timestamp::EPOCH);
    let Kept { reason, .. } = &limited.kept[limited.kept.len() - 1];
    assert_eq!(*reason, Withheld::LimitReached { deletions_max: 1 });
}
