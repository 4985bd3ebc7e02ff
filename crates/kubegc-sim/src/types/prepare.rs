//! Preparation of an object by its strategy before validation: fields that clients cannot set, generated
//! fields, generations.
//!
//! # Upstream
//! `PrepareForCreate` and `PrepareForUpdate` in `pkg/registry/*/*/strategy.go`, 1.20.2.

use kubegc_core::{ApiResource, Behavior, KubernetesVersion, Timestamp};
use serde_json::{Map, Value, json};

use super::{
    annotations, changes,
    facts::Facts,
    objects::{object_in, object_mut, objects_in, set_nil},
    qos,
};
use crate::StoredObject;

/// The generation of endpoint slices counts changes of labels.
const SLICES_COUNT_LABELS: Behavior = Behavior::since(21, 0, "kubernetes #99750");

/// Jobs are labelled and selected with keys of the group `batch.kubernetes.io` as well.
const JOB_LABELS_ARE_PREFIXED: Behavior = Behavior::since(27, 0, "kubernetes #114930");
/// The manager of a new object does not own fields that the server drops.
const DROPPED_FIELDS_ARE_NOT_OWNED: Behavior = Behavior::since(22, 0, "kubernetes #99661");

/// Whether the manager of a new object owns no status.
pub(crate) fn owns_no_status(resource: &ApiResource, version: KubernetesVersion) -> bool {
    version.has(DROPPED_FIELDS_ARE_NOT_OWNED) && Facts::of(resource).has("reset", version)
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Prepares an object that is to be created. Its uid is set already.
pub(crate) fn create(
    object: &mut StoredObject,
    resource: &ApiResource,
    version: KubernetesVersion,
    now: Timestamp,
) {
    let (kind, facts) = (&*resource.kind, Facts::of(resource));
    if facts.has("generation", version) {
        object.meta.generation = 1;
    }
    if facts.has("reset", version) {
        object.body_mut().remove("status");
    }
    drop_system_metadata(object, version);
    match kind {
        "Pod" => {
            let class = qos::class(object.at(&["spec"]).unwrap_or(&Value::Null));
            let status = json!({"phase": "Pending", "qosClass": class});
            object.body_mut().insert("status".to_owned(), status);
        }
        "Job" => {
            select_job_pods(object, version);
            mark_tracked(object, version);
        }
        "DaemonSet" => {
            let generation = template_generation(object).max(1);
            object.annotate(TEMPLATE_GENERATION, generation.to_string());
        }
        "ServiceAccount" => secret_names(object),
        _ => {}
    }
    changes::prepare(&format!("{kind}/create"), object, None, version, now);
}

/// Prepares an object that is to replace `old`, in one of its parts: status and generation are those of
/// `old`, if the kind has them.
pub(crate) fn update(
    new: &mut StoredObject,
    old: &StoredObject,
    (kind, part): (&str, &str),
    version: KubernetesVersion,
    now: Timestamp,
) {
    drop_system_metadata(new, version);
    match kind {
        "DaemonSet" => {
            let changed = new.at(&["spec", "template"]) != old.at(&["spec", "template"]);
            let generation = template_generation(old).max(1) + i64::from(changed);
            new.annotate(TEMPLATE_GENERATION, generation.to_string());
        }
        "ServiceAccount" => secret_names(new),
        _ => {}
    }
    let part = if part.is_empty() { "update" } else { part };
    changes::prepare(&format!("{kind}/{part}"), new, Some(old), version, now);
}

/// Removes what `v1` of endpoint slices has for the topology of `v1beta1`, unless the endpoints stay.
/// Only a name of a node that the slice had is kept.
///
/// # Upstream
/// `dropTopologyOnV1` in `pkg/registry/discovery/endpointslice/strategy.go`, 1.21.
pub(crate) fn without_topology(new: &mut StoredObject, old: Option<&StoredObject>) {
    const HOST: [&str; 2] = ["deprecatedTopology", "kubernetes.io/hostname"];
    let before = old.and_then(|old| old.at(&["endpoints"]));
    if before.is_some() && before == new.at(&["endpoints"]) {
        return;
    }
    let host = |endpoint: &Value| endpoint.get(HOST[0])?.get(HOST[1]).cloned();
    let known: Vec<Value> = before
        .and_then(Value::as_array)
        .map(|before| before.iter().filter_map(host).collect())
        .unwrap_or_default();
    for endpoint in objects_in(new.body_mut(), "endpoints") {
        let name = endpoint
            .remove(HOST[0])
            .and_then(|topology| topology.get(HOST[1]).cloned());
        if let Some(name) = name.filter(|name| known.contains(name)) {
            set_nil(endpoint, "nodeName", name);
        }
    }
}

/// Sets the generation of an object in its normal form that is to replace `old`.
pub(crate) fn count(
    new: &mut StoredObject,
    old: &StoredObject,
    resource: &ApiResource,
    version: KubernetesVersion,
) {
    let facts = Facts::of(resource);
    let differs = |field: &str| {
        let path: Vec<&str> = field.split('.').collect();
        new.at(&path) != old.at(&path)
    };
    let fields = facts.value("counts", version).unwrap_or("spec");
    let changed = match &*resource.kind {
        "Deployment" if annotations(new) != annotations(old) => true,
        "EndpointSlice" if version.has(SLICES_COUNT_LABELS) && new.meta.labels != old.meta.labels => true,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            // An empty list differs from none.
            let sent = new.decoded.as_ref().and_then(|sent| sent.get("webhooks"));
            differs("webhooks") || sent.is_some_and(Value::is_array) && old.at(&["webhooks"]).is_none()
        }
        _ => fields.split('|').any(differs),
    };
    let counts = facts.has("generation", version) || &*resource.kind == "CSIDriver" && version.minor() >= 21;
    new.meta.generation = old.meta.generation + i64::from(counts && changed);
}

/// Drops metadata that only the server sets.
fn drop_system_metadata(object: &mut StoredObject, version: KubernetesVersion) {
    if version.minor() >= 20 && object.at(&["metadata", "selfLink"]).is_some() {
        object.rest_of_metadata_mut().remove("selfLink");
    }
}

/// Marks a Job as tracked with finalizers, in the releases that track only Jobs with the annotation.
///
/// # Upstream
/// `addJobTrackingAnnotation` in `pkg/registry/batch/job/strategy.go`, 1.25: where the feature gate
/// `JobTrackingWithFinalizers` is on.
fn mark_tracked(job: &mut StoredObject, version: KubernetesVersion) {
    if matches!((version.minor(), version.patch()), (23, 0..=6) | (25 | 26, _)) {
        job.annotate("batch.kubernetes.io/job-tracking", "");
    }
}

/// The labels of a job's pods with its uid and with its name, the newer ones first.
const JOB_LABELS: [[&str; 2]; 2] = [
    [
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
    ],
    ["controller-uid", "job-name"],
];

/// The labels of a job's pods in a release.
pub(crate) fn job_labels(version: KubernetesVersion) -> &'static [[&'static str; 2]] {
    match version.has(JOB_LABELS_ARE_PREFIXED) {
        true => &JOB_LABELS,
        false => &JOB_LABELS[1..],
    }
}

/// Labels the pods of a job with its uid and name, and selects them by the uid.
fn select_job_pods(job: &mut StoredObject, version: KubernetesVersion) {
    if job.at(&["spec", "manualSelector"]) == Some(&true.into()) {
        return;
    }
    let keys = job_labels(version);
    let selected_by = keys[0][0];
    let (uid, name) = (job.meta.uid.to_string(), job.meta.name.to_string());
    let labels: Vec<(&str, &str)> = keys
        .iter()
        .flat_map(|[by_uid, by_name]| [(*by_uid, uid.as_str()), (*by_name, name.as_str())])
        .collect();
    let template = job.at(&["spec", "template", "metadata", "labels"]);
    let template = template.and_then(Value::as_object);
    let own = &job.meta.labels;
    let is_own =
        |key: &str, value: &str| template.and_then(|labels| labels.get(key)?.as_str()) == Some(value);
    let shares_labels =
        template.map_or(0, Map::len) == own.len() && own.iter().all(|(key, value)| is_own(key, value));
    // An object whose name is generated is copied before, and shares nothing.
    let is_copied = version.minor() >= 31 && !job.text_at(&["metadata", "generateName"]).is_empty();
    let shares_labels = shares_labels && !is_copied;
    let Some(spec) = job.spec_mut() else { return };
    let metadata = object_mut(spec, "template").and_then(|template| object_mut(template, "metadata"));
    let mut all = Map::new();
    if let Some(template) = metadata.and_then(|metadata| object_in(metadata, "labels")) {
        for (key, value) in &labels {
            template.entry(*key).or_insert_with(|| (*value).into());
        }
        all = template.clone();
    }
    if let Some(selector) = object_in(spec, "selector")
        && let Some(selected) = object_in(selector, "matchLabels")
    {
        selected.entry(selected_by).or_insert_with(|| uid.as_str().into());
    }
    if shares_labels {
        job.meta.labels = all
            .iter()
            .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
            .collect();
    }
}

fn template_generation(daemon_set: &StoredObject) -> i64 {
    let number =
        annotations(daemon_set).and_then(|annotations| annotations.get(TEMPLATE_GENERATION)?.as_str());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Retains only the names of the secrets of a service account.
fn secret_names(account: &mut StoredObject) {
    if account.at(&["secrets"]).is_some() {
        for secret in objects_in(account.body_mut(), "secrets") {
            secret.retain(|key, _| key == "name");
        }
    }
}
