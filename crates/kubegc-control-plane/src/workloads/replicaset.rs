//! ReplicaSets: their pods and their status. `kubegc_controllers::replicaset` implements adoption, release
//! and deletion of surplus pods.
//!
//! # Upstream
//! [`manageReplicas`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/replicaset/replica_set.go)
//! in `replica_set.go`, and `calculateStatus` in `replica_set_utils.go`.

use std::sync::Arc;

use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    plan::{Kind, Plan, Verb, View, counts, int, pod_of, seconds},
    pods::{self, Tally},
};

/// The approximate maximum number of pods that one sync creates.
pub(super) const BURST: usize = 500;

/// `spec.replicas`, with its default.
pub(super) fn replicas(object: &StoredObject) -> usize {
    let replicas = int(object, &["spec", "replicas"]).unwrap_or(1);
    usize::try_from(replicas).unwrap_or(0)
}

pub(super) fn sync(view: &View<'_>, set: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::ReplicaSet, set);
    let mut active = view.controlled(Kind::Pod, &set.meta);
    active.retain(|pod| pods::is_active(pod));
    let template = set.at(&["spec", "template"]).unwrap_or(&Value::Null);
    let missing = replicas(set).saturating_sub(active.len());
    if missing > 0 && !set.meta.is_deleting() {
        for _ in 0..missing.min(BURST) {
            let pod = pod_of(template, Kind::ReplicaSet, &set.meta, None);
            let message = format!("replicaset/{} has too few pods", set.meta.name);
            plan.push(Kind::Pod, Verb::Create(pod), "SuccessfulCreate", message);
        }
        return plan;
    }
    let tally = Tally::of(
        active.iter().map(Arc::as_ref),
        seconds(set, "minReadySeconds"),
        view.now,
    );
    plan.due_at(tally.due);
    let labels = template["metadata"]["labels"].as_object();
    let is_labeled = |pod: &&Arc<StoredObject>| {
        let mut labels = labels.into_iter().flatten();
        labels.all(|(key, value)| {
            pod.meta
                .labels
                .get(key.as_str())
                .is_some_and(|known| *value == **known)
        })
    };
    let mut status = counts(
        &["replicas"],
        &[
            ("replicas", tally.all),
            ("fullyLabeledReplicas", active.iter().filter(is_labeled).count()),
            ("readyReplicas", tally.ready),
            ("availableReplicas", tally.available),
        ],
    );
    status.insert("observedGeneration".to_owned(), set.meta.generation.into());
    if let Some(conditions) = set.at(&["status", "conditions"]) {
        status.insert("conditions".to_owned(), json!(conditions));
    }
    plan.status(set, status.into());
    plan
}
