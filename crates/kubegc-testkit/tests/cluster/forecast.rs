//! The forecast of a dump of the cluster has the cluster's end state after the same delete.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::api::DeleteParams;
use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_predict::{Assumptions, Forecast, Intent};
use kubegc_snapshot::Reader;
use kubegc_testkit::Cluster;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{blocking_owner, config_map, config_maps, create, delete, owner};

/// The owners of an object among the objects before it, each with `blockOwnerDeletion`, and whether a
/// finalizer keeps it.
type Shape = (Vec<(prop::sample::Index, bool)>, bool);

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let owners = prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..3);
    prop::collection::vec((owners, prop::bool::weighted(0.15)), 2..8)
}

/// Whether each object exists, whether it is terminating, its finalizers and the uids of its owners.
type States = BTreeMap<String, (bool, Vec<String>, Vec<String>)>;

fn states(cluster: &Cluster) -> States {
    let objects = cluster.find_all::<ConfigMap>().into_iter();
    let state = |object: ConfigMap| {
        let owners = object.metadata.owner_references.unwrap_or_default();
        let owners = owners.into_iter().map(|owner| owner.uid).collect();
        let is_terminating = object.metadata.deletion_timestamp.is_some();
        let finalizers = object.metadata.finalizers.unwrap_or_default();
        (
            object.metadata.name.unwrap(),
            (is_terminating, finalizers, owners),
        )
    };
    objects.map(state).collect()
}

/// The same for a forecast. An object without a fate does not change.
fn foreseen(forecast: &Forecast, before: &States) -> States {
    let mut states = before.clone();
    for fate in &forecast.fates {
        let name = fate.object.name.to_string();
        match &fate.after {
            None => drop(states.remove(&name)),
            Some(after) => {
                let owners = after.owner_references.iter().map(|owner| owner.uid.to_string());
                let finalizers = after.finalizers.iter().map(ToString::to_string);
                let state = (after.is_deleting(), finalizers.collect(), owners.collect());
                states.insert(name, state);
            }
        }
    }
    states
}

async fn compare(shapes: &[Shape], policy: &str) {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let mut objects: Vec<ConfigMap> = Vec::new();
    for (number, (owners, is_held)) in shapes.iter().enumerate() {
        let mut references: Vec<OwnerReference> = Vec::new();
        for (at, blocks) in owners.iter().filter(|_| number > 0) {
            let object = &objects[at.index(number)];
            let reference = match *blocks {
                true => blocking_owner(object),
                false => owner(object),
            };
            if references.iter().all(|known| known.uid != reference.uid) {
                references.push(reference);
            }
        }
        let finalizers: &[&str] = if *is_held { &["example.com/hold"] } else { &[] };
        let object = config_map(&format!("object-{number}"), &references, finalizers);
        objects.push(create(&api, &object).await);
    }
    cluster.settle().await.unwrap();
    let before = states(&cluster);

    let items = cluster.find_all::<ConfigMap>().into_iter().map(|object| {
        let mut item = serde_json::to_value(object).unwrap();
        (item["apiVersion"], item["kind"]) = (json!("v1"), json!("ConfigMap"));
        item
    });
    let dump = json!({ "apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<Value>>() });
    let mut reader = Reader::new(cluster.version()).complete("all");
    reader.read("dump.json", dump.to_string().as_bytes()).unwrap();
    let snapshot = reader.finish().unwrap();
    let dumped = kubegc_predict::Cluster::new(cluster.version(), snapshot, Assumptions::default());
    let (how, options) = match policy {
        "Background" => (DeleteParams::background(), PropagationPolicy::Background),
        "Foreground" => (DeleteParams::foreground(), PropagationPolicy::Foreground),
        _ => (DeleteParams::orphan(), PropagationPolicy::Orphan),
    };
    let name = "default/ConfigMap/object-0".parse().unwrap();
    let intent = Intent::delete(name, DeleteOptions::policy(options));
    let forecast = dumped.predict(&[intent]).unwrap();
    let is_undetermined = forecast.counts().contains_key("undetermined");
    assert!(!is_undetermined, "the dump is complete");

    delete(&api, "object-0", &how).await;
    cluster.settle().await.unwrap();
    assert_eq!(foreseen(&forecast, &before), states(&cluster), "{policy}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_forecast_and_the_cluster_end_in_the_same_state(
        shapes in shapes(),
        policy in prop_oneof![Just("Background"), Just("Foreground"), Just("Orphan")],
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(compare(&shapes, policy));
    }
}
