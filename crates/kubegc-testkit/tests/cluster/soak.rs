//! Random operations, with checkers: no object with an owner is deleted, and every one without is.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use kubegc_testkit::{Cluster, Fault, http::Verb};
use proptest::prelude::*;

use crate::support::{blocking_owner, config_map, config_maps, owner};

#[derive(Clone, Debug)]
enum Operation {
    /// Creates an object that up to two others own, with or without `blockOwnerDeletion`.
    Create { owners: Vec<(u8, bool)>, held: bool },
    /// Deletes one of the objects.
    Delete { which: u8, policy: PropagationPolicy },
    /// Removes the finalizers of one of the objects.
    Release { which: u8 },
    /// Runs the collector for some requests.
    Collect { requests: u8 },
    /// Stops the collector where it is, and starts another.
    Restart,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let policy = prop_oneof![
        Just(PropagationPolicy::Background),
        Just(PropagationPolicy::Foreground),
        Just(PropagationPolicy::Orphan),
    ];
    let owners = prop::collection::vec((any::<u8>(), any::<bool>()), 0..3);
    let operation = prop_oneof![
        5 => (owners, prop::bool::weighted(0.1)).prop_map(|(owners, held)| Operation::Create { owners, held }),
        3 => (any::<u8>(), policy).prop_map(|(which, policy)| Operation::Delete { which, policy }),
        1 => any::<u8>().prop_map(|which| Operation::Release { which }),
        2 => (1..6_u8).prop_map(|requests| Operation::Collect { requests }),
        1 => Just(Operation::Restart),
    ];
    prop::collection::vec(operation, 1..40)
}

/// Every object by its uid.
fn by_uid(cluster: &Cluster) -> BTreeMap<String, ConfigMap> {
    let objects = cluster.find_all::<ConfigMap>().into_iter();
    objects
        .map(|object| (object.metadata.uid.clone().unwrap(), object))
        .collect()
}

fn owners(object: &ConfigMap) -> &[OwnerReference] {
    object.metadata.owner_references.as_deref().unwrap_or_default()
}

/// Whether an owner keeps its dependents. One that is terminating may have waited for them when the collector
/// read it.
fn is_solid(owner: &ConfigMap) -> bool {
    owner.metadata.deletion_timestamp.is_none()
}

/// Performs and checks one request of the collector. Returns whether there was one.
async fn checked_step(cluster: &Cluster) -> bool {
    let before = by_uid(cluster);
    let Some(step) = cluster.step().await else {
        return false;
    };
    if step.verb == Verb::Delete && step.is_success() {
        let object = before
            .values()
            .find(|object| object.metadata.name.as_deref() == Some(&step.name))
            .unwrap();
        let keeps = |reference: &OwnerReference| before.get(&reference.uid).is_some_and(is_solid);
        assert!(
            !owners(object).is_empty() && !owners(object).iter().any(keeps),
            "wrong: {step}"
        );
    }
    true
}

async fn perform(cluster: &Cluster, api: &Api<ConfigMap>, number: usize, operation: &Operation) {
    let objects: Vec<ConfigMap> = by_uid(cluster).into_values().collect();
    let pick = |which: u8| objects.get(usize::from(which) % objects.len().max(1));
    match operation {
        Operation::Create { owners, held } => {
            let mut references: Vec<OwnerReference> = Vec::new();
            for (which, blocks) in owners {
                let Some(object) = pick(*which) else { continue };
                let reference = if *blocks {
                    blocking_owner(object)
                } else {
                    owner(object)
                };
                if references.iter().all(|known| known.uid != reference.uid) {
                    references.push(reference);
                }
            }
            let finalizers: &[&str] = if *held { &["soak/hold"] } else { &[] };
            let object = config_map(&format!("object-{number}"), &references, finalizers);
            // If the response is a fault, the object may exist or not.
            let _answer = api.create(&PostParams::default(), &object).await;
        }
        Operation::Delete { which, policy } => {
            // Another policy for a terminating object may come between the collector's read of an
            // owner and its decision, as in a real cluster: the checker knows the present only.
            if let Some(object) = pick(*which).filter(|object| object.metadata.deletion_timestamp.is_none()) {
                let how = DeleteParams {
                    propagation_policy: Some(policy.clone()),
                    ..DeleteParams::default()
                };
                let _answer = api.delete(object.metadata.name.as_deref().unwrap(), &how).await;
            }
        }
        Operation::Release { which } => {
            if let Some(object) = pick(*which) {
                let mut kept = object.metadata.finalizers.clone().unwrap_or_default();
                kept.retain(|one| one != "soak/hold");
                let version = &object.metadata.resource_version;
                let free = serde_json::json!({"metadata": {"finalizers": kept, "resourceVersion": version}});
                let name = object.metadata.name.as_deref().unwrap();
                let _answer = api
                    .patch(name, &PatchParams::default(), &Patch::Merge(free))
                    .await;
            }
        }
        Operation::Collect { requests } => {
            for _ in 0..*requests {
                checked_step(cluster).await;
            }
        }
        Operation::Restart => cluster.restart_collector(),
    }
}

async fn live(operations: &[Operation], seed: u64) {
    let cluster = Cluster::new();
    cluster.faults().draw(
        seed,
        100,
        vec![Fault::status(500), Fault::LoseResponse, Fault::Disconnect],
    );
    let api = config_maps(&cluster);
    for (number, operation) in operations.iter().enumerate() {
        perform(&cluster, &api, number, operation).await;
    }
    while checked_step(&cluster).await {}
    cluster.settle().await.unwrap();
    let left = by_uid(&cluster);
    for object in left.values().filter(|object| !owners(object).is_empty()) {
        let has_owner = owners(object)
            .iter()
            .any(|reference| left.contains_key(&reference.uid));
        let is_going = object.metadata.deletion_timestamp.is_some();
        assert!(has_owner || is_going, "lost: {}", cluster.fate(object));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_object_with_an_owner_is_deleted_and_every_one_without_is(
        operations in operations(),
        seed in any::<u64>(),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(live(&operations, seed));
    }
}
