//! The keys that a change affects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_controllers::{
    Cache, Change, Context, Controller, Deadlines, ExternalProvisioner, Key, PodGroupProtection, Wire,
    default_controllers,
};
use kubegc_core::{
    KubernetesVersion, Timestamp,
    record::{Body, Record, Resource},
};
use serde_json::{Value, json};

use crate::common::{at, cache, record};

const NOW: &str = "2026-03-01T12:00:00Z";

fn object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let cluster_scoped = [
        "Node",
        "PersistentVolume",
        "Namespace",
        "VolumeAttachment",
        "VolumeAttributesClass",
        "ServiceCIDR",
        "IPAddress",
    ];
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "creationTimestamp": "2026-03-01T10:00:00Z"},
    });
    if !cluster_scoped.contains(&kind) {
        object["metadata"]["namespace"] = "shop".into();
    }
    for (key, value) in fields.as_object().unwrap() {
        match value {
            Value::Object(more) if key == "metadata" => {
                for (key, value) in more {
                    object["metadata"][key] = value.clone();
                }
            }
            value => object[key] = value.clone(),
        }
    }
    object
}

fn owners(api_version: &str, kind: &str, name: &str) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true,
        "blockOwnerDeletion": true,
    }])
}

fn pod(name: &str, metadata: Value, spec: Value, phase: &str) -> Value {
    object(
        "v1",
        "Pod",
        name,
        json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}}),
    )
}

/// A cluster in which each controller has something to decide.
fn cluster() -> Vec<Value> {
    let deleted = "2026-03-01T11:00:00Z";
    let app = |name: &str| json!({"app": name});
    let selecting = |name: &str| json!({"matchLabels": {"app": name}});
    let template = |name: &str| json!({"metadata": {"labels": {"app": name}}, "spec": {}});
    let workload = |name: &str, replicas: u32| json!({"replicas": replicas, "selector": selecting(name), "template": template(name)});
    let tracking = "batch.kubernetes.io/job-tracking";
    let finished = |time: &str| json!([{"type": "Complete", "status": "True", "lastTransitionTime": time}]);
    let claim_volume = |name: &str| json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
    vec![
        object(
            "apps/v1",
            "Deployment",
            "web",
            json!({"spec": workload("web", 1)}),
        ),
        object(
            "apps/v1",
            "ReplicaSet",
            "web-1",
            json!({
                "metadata": {"labels": app("web"), "ownerReferences": owners("apps/v1", "Deployment", "web")},
                "spec": workload("web", 1), "status": {"replicas": 2},
            }),
        ),
        object(
            "apps/v1",
            "ReplicaSet",
            "web-2",
            json!({"metadata": {"labels": app("web")}, "spec": workload("web", 0), "status": {}}),
        ),
        pod(
            "web-1-a",
            json!({"labels": app("web"), "ownerReferences": owners("apps/v1", "ReplicaSet", "web-1")}),
            json!({"nodeName": "n1"}),
            "Running",
        ),
        pod(
            "web-1-b",
            json!({"labels": app("web"), "ownerReferences": owners("apps/v1", "ReplicaSet", "web-1")}),
            json!({"nodeName": "n1"}),
            "Pending",
        ),
        pod(
            "web-1-c",
            json!({"labels": app("web")}),
            json!({"nodeName": "n1"}),
            "Running",
        ),
        object(
            "apps/v1",
            "StatefulSet",
            "db",
            json!({
                "spec": {
                    "replicas": 1, "selector": selecting("db"), "template": template("db"),
                    "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
                    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
                    "revisionHistoryLimit": 0,
                },
                "status": {"currentRevision": "db-2", "updateRevision": "db-2"},
            }),
        ),
        pod(
            "db-0",
            json!({"labels": app("db"), "ownerReferences": owners("apps/v1", "StatefulSet", "db")}),
            json!({"nodeName": "n1"}),
            "Running",
        ),
        object(
            "v1",
            "PersistentVolumeClaim",
            "data-db-0",
            json!({"metadata": {"labels": app("db")}, "spec": {}}),
        ),
        object(
            "apps/v1",
            "ControllerRevision",
            "db-1",
            json!({
                "metadata": {"labels": app("db"), "ownerReferences": owners("apps/v1", "StatefulSet", "db")}, "revision": 1,
            }),
        ),
        object(
            "apps/v1",
            "ControllerRevision",
            "db-2",
            json!({
                "metadata": {"labels": app("db"), "ownerReferences": owners("apps/v1", "StatefulSet", "db")}, "revision": 2,
            }),
        ),
        object(
            "apps/v1",
            "DaemonSet",
            "log",
            json!({
                "spec": {"selector": selecting("log"), "template": template("log"), "revisionHistoryLimit": 0},
            }),
        ),
        object(
            "apps/v1",
            "ControllerRevision",
            "log-1",
            json!({"metadata": {"labels": app("log")}, "revision": 1}),
        ),
        object(
            "apps/v1",
            "ControllerRevision",
            "log-2",
            json!({
                "metadata": {"labels": app("log"), "ownerReferences": owners("apps/v1", "DaemonSet", "log")}, "revision": 2,
            }),
        ),
        object(
            "batch/v1",
            "Job",
            "backup",
            json!({
                "spec": {"selector": {"matchLabels": {"job": "backup"}}, "parallelism": 1, "completions": 2, "backoffLimit": 6, "completionMode": "NonIndexed"},
                "status": {"startTime": "2026-03-01T10:00:00Z"},
            }),
        ),
        pod(
            "backup-a",
            json!({
                "labels": {"job": "backup"}, "ownerReferences": owners("batch/v1", "Job", "backup"), "finalizers": [tracking],
            }),
            json!({}),
            "Succeeded",
        ),
        pod(
            "backup-b",
            json!({"labels": {"job": "backup"}}),
            json!({}),
            "Running",
        ),
        object(
            "batch/v1",
            "CronJob",
            "nightly",
            json!({
                "spec": {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0, "concurrencyPolicy": "Allow"},
                "status": {"active": []},
            }),
        ),
        object(
            "batch/v1",
            "Job",
            "nightly-1",
            json!({
                "metadata": {"ownerReferences": owners("batch/v1", "CronJob", "nightly")},
                "spec": {}, "status": {"conditions": finished(deleted)},
            }),
        ),
        object(
            "batch/v1",
            "Job",
            "report",
            json!({
                "spec": {"ttlSecondsAfterFinished": 30}, "status": {"conditions": finished(deleted)},
            }),
        ),
        object(
            "v1",
            "PersistentVolumeClaim",
            "used",
            json!({
                "metadata": {"deletionTimestamp": deleted, "finalizers": ["kubernetes.io/pvc-protection"]},
                "spec": {"volumeName": "disk", "volumeAttributesClassName": "gold"}, "status": {"phase": "Bound"},
            }),
        ),
        pod(
            "user",
            json!({}),
            json!({"nodeName": "n1", "volumes": claim_volume("used")}),
            "Running",
        ),
        object(
            "v1",
            "PersistentVolume",
            "disk",
            json!({
                "metadata": {"deletionTimestamp": deleted, "finalizers": ["kubernetes.io/pv-protection"]},
                "spec": {
                    "persistentVolumeReclaimPolicy": "Delete", "volumeAttributesClassName": "silver",
                    "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "used", "uid": "uid-used"},
                    "csi": {"driver": "csi.example.com", "volumeHandle": "v"},
                },
                "status": {"phase": "Bound"},
            }),
        ),
        object(
            "v1",
            "PersistentVolume",
            "released",
            json!({
                "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "csi.example.com"}},
                "spec": {
                    "persistentVolumeReclaimPolicy": "Delete",
                    "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "gone", "uid": "uid-gone"},
                    "csi": {"driver": "csi.example.com", "volumeHandle": "w"},
                },
                "status": {"phase": "Bound"},
            }),
        ),
        object(
            "storage.k8s.io/v1",
            "VolumeAttachment",
            "attached",
            json!({
                "spec": {"nodeName": "n1", "attacher": "csi.example.com", "source": {"persistentVolumeName": "disk"}},
            }),
        ),
        object(
            "storage.k8s.io/v1",
            "VolumeAttachment",
            "lost",
            json!({
                "spec": {"nodeName": "n2", "attacher": "csi.example.com", "source": {"persistentVolumeName": "released"}},
            }),
        ),
        object(
            "storage.k8s.io/v1",
            "VolumeAttributesClass",
            "gold",
            json!({
                "metadata": {"deletionTimestamp": deleted, "finalizers": ["kubernetes.io/vac-protection"]},
            }),
        ),
        object(
            "storage.k8s.io/v1",
            "VolumeAttributesClass",
            "silver",
            json!({
                "metadata": {"deletionTimestamp": deleted, "finalizers": ["kubernetes.io/vac-protection"]},
            }),
        ),
        object(
            "v1",
            "Node",
            "n1",
            json!({
                "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": deleted}], "volumesInUse": []},
            }),
        ),
        object(
            "v1",
            "Node",
            "n2",
            json!({
                "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": deleted}]},
                "status": {
                    "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": deleted}],
                    "volumesInUse": ["kubernetes.io/csi/csi.example.com^w"],
                },
            }),
        ),
        pod("evicted", json!({}), json!({"nodeName": "n2"}), "Running"),
        pod("nowhere", json!({}), json!({"nodeName": "n3"}), "Running"),
        object(
            "resource.k8s.io/v1",
            "ResourceClaim",
            "gpu",
            json!({
                "metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}, "spec": {},
                "status": {"allocation": {}, "reservedFor": [{"resource": "pods", "name": "done", "uid": "uid-done"}]},
            }),
        ),
        object(
            "resource.k8s.io/v1",
            "ResourceClaim",
            "generated",
            json!({
                "metadata": {"ownerReferences": owners("v1", "Pod", "done")}, "spec": {}, "status": {},
            }),
        ),
        pod(
            "done",
            json!({}),
            json!({"nodeName": "n1", "schedulingGroup": {"podGroupName": "group"}}),
            "Succeeded",
        ),
        object("v1", "Service", "web", json!({"spec": {"selector": app("web")}})),
        object("v1", "Endpoints", "web", json!({})),
        object("v1", "Endpoints", "orphan", json!({})),
        object(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "web-x",
            json!({
                "metadata": {"labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            }),
        ),
        object(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "orphan-x",
            json!({
                "metadata": {"labels": {"kubernetes.io/service-name": "orphan", "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"}},
            }),
        ),
        object(
            "v1",
            "ServiceAccount",
            "robot",
            json!({"secrets": [{"name": "token"}]}),
        ),
        object(
            "v1",
            "Secret",
            "token",
            json!({
                "metadata": {"annotations": {"kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": "uid-robot"}},
                "type": "kubernetes.io/service-account-token",
            }),
        ),
        object(
            "v1",
            "Secret",
            "stray",
            json!({
                "metadata": {"annotations": {"kubernetes.io/service-account.name": "gone", "kubernetes.io/service-account.uid": "uid-gone"}},
                "type": "kubernetes.io/service-account-token",
            }),
        ),
        object(
            "networking.k8s.io/v1",
            "ServiceCIDR",
            "extra",
            json!({
                "metadata": {"deletionTimestamp": deleted, "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
                "spec": {"cidrs": ["10.96.0.0/24"]},
            }),
        ),
        object(
            "networking.k8s.io/v1",
            "IPAddress",
            "10.96.0.7",
            json!({"spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": "web"}}}),
        ),
        object(
            "v1",
            "Namespace",
            "shop",
            json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
        ),
        object(
            "v1",
            "Namespace",
            "old",
            json!({
                "metadata": {"deletionTimestamp": deleted}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"},
            }),
        ),
    ]
}

/// Other states of an object.
fn variants(before: &Record) -> Vec<Option<Record>> {
    let with = |change: &dyn Fn(&mut Record)| {
        let mut record = before.clone();
        change(&mut record);
        Some(record)
    };
    vec![
        None,
        with(&|record| {
            record.meta.deletion_timestamp = match record.meta.deletion_timestamp {
                None => Some(at("2026-03-01T11:30:00Z")),
                Some(_) => None,
            }
        }),
        with(&|record| record.meta.labels.clear()),
        with(&|record| record.meta.owner_references.clear()),
        with(&|record| record.meta.finalizers.clear()),
        with(&|record| *record.body_mut() = Body::Unread),
        with(&|record| {
            if let Body::Pod(pod) = record.body_mut() {
                pod.phase = Arc::<str>::from("Failed").into();
            }
        }),
        with(&|record| {
            if let Body::Pod(pod) = record.body_mut() {
                pod.node_name = Arc::<str>::from("n1").into();
            }
        }),
    ]
}

/// Changes that upstream does not notice: Endpoints without a Service after the start, and a change of a pod
/// that a ReplicaSet could have adopted before.
fn is_unnoticed(controller: &str, resource: Resource, old: Option<&Record>) -> bool {
    match (controller, resource) {
        ("endpoints-controller", Resource::Endpoints) => true,
        ("replicaset-controller", Resource::Pods) => old.is_some_and(|old| old.meta.controller().is_none()),
        _ => false,
    }
}

/// The actions on each key.
fn decisions(controller: &dyn Controller, cache: &Cache, now: Timestamp) -> BTreeMap<Key, BTreeSet<String>> {
    let mut keys = Vec::new();
    controller.keys(cache, &mut keys);
    let decide = |key: Key| {
        let deadlines = Deadlines::new();
        let cx = Context {
            cache,
            now,
            wire: Wire::AsUpstream,
            deadlines: &deadlines,
            cloud: None,
            failures: 0,
        };
        let decision = controller.reconcile(&cx, &key);
        let actions = decision.actions.iter().map(|action| format!("{action:?}"));
        (
            key,
            actions
                .chain(decision.steps.map(|steps| format!("{steps:?}")))
                .collect(),
        )
    };
    keys.into_iter().map(decide).collect()
}

/// Every key on which a change causes work is affected by it. Controllers that sync all keys
/// periodically need no events.
#[test]
fn a_change_affects_the_keys_on_which_it_causes_work() {
    let version = KubernetesVersion::LATEST;
    let mut controllers = default_controllers(version);
    let mut groups = PodGroupProtection::new(version);
    groups.is_enabled = true;
    controllers.push(Arc::new(groups));
    controllers.push(Arc::new(ExternalProvisioner::new("csi.example.com")));
    let objects = cluster();
    let records: Vec<(Resource, Record)> = objects.iter().cloned().map(record).collect();
    let now = at(NOW);
    let mut changed = BTreeMap::<&str, usize>::new();
    let mut problems = Vec::new();
    for controller in &controllers {
        let info = controller.info();
        let count = changed.entry(info.name).or_default();
        if controller.timing().period.is_some() {
            continue;
        }
        let start = cache(&**controller, &objects);
        let before = decisions(&**controller, &start, now);
        for (resource, record) in records
            .iter()
            .filter(|(resource, _)| info.resources.contains(resource))
        {
            let key = Key::from(&record.meta);
            for variant in variants(record) {
                let mut other = start.clone();
                other.put(*resource, &key, variant.clone());
                let decided = decisions(&**controller, &other, now);
                let states = [
                    (&start, &before, Some(record)),
                    (&other, &decided, variant.as_ref()),
                ];
                for [from, to] in [states, [states[1], states[0]]] {
                    // The cache already has the new state.
                    let (cache, after, new) = to;
                    let (_, before, old) = from;
                    let is_deleting =
                        |record: Option<&Record>| record.map(|record| record.meta.is_deleting());
                    if is_deleting(old) == Some(true) && is_deleting(new) == Some(false) {
                        // No deletion is undone.
                        continue;
                    }
                    if is_unnoticed(info.name, *resource, old) {
                        continue;
                    }
                    let mut affected = Vec::new();
                    let change = Change {
                        resource: *resource,
                        key: &key,
                        old,
                        new,
                    };
                    controller.affected(cache, &change, &mut affected);
                    let more = |about: &Key, actions: &BTreeSet<String>| {
                        before.get(about).is_none_or(|before| !actions.is_subset(before))
                            && !actions.is_empty()
                    };
                    for (about, actions) in after.iter().filter(|(about, actions)| more(about, actions)) {
                        *count += usize::from(*about != key);
                        if !affected.contains(about) {
                            problems.push(format!(
                                "{}: {resource:?} {key} {old:?} -> {new:?} causes work on {about}: {actions:?}",
                                info.name,
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    // The cluster has such a change for these.
    let of_others = changed
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, _)| name);
    let expected = [
        "cronjob-controller",
        "daemonset-controller",
        "deployment-controller",
        "endpointslice-controller",
        "endpointslice-mirroring-controller",
        "job-controller",
        "persistentvolume-attach-detach-controller",
        "persistentvolume-binder-controller",
        "persistentvolumeclaim-protection-controller",
        "replicaset-controller",
        "resourceclaim-controller",
        "serviceaccount-token-controller",
        "statefulset-controller",
        "statefulset-history-controller",
        "taint-eviction-controller",
        "volumeattributesclass-protection-controller",
    ];
    assert_eq!(of_others.collect::<Vec<_>>(), expected);
}
