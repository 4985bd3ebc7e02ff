//! Kubelets, the scheduler and the volume controller by the rules of a test.

use std::{sync::Arc, time::Duration};

use kubegc_core::Timestamp;
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    ClaimFate, PodFate, Subject,
    owners::fnv,
    player::{Sync, condition, find, list, list_at, spec},
};

/// The driver and provisioner of provisioned volumes.
pub(crate) const DRIVER: &str = "csi.example.com";
/// The time between the exit of a container and its restart.
const RESTART: Duration = Duration::from_secs(10);

pub(super) fn has_ended(pod: &StoredObject) -> bool {
    matches!(pod.text_at(&["status", "phase"]), "Succeeded" | "Failed")
}

pub(super) fn is_active(pod: &StoredObject) -> bool {
    !has_ended(pod) && !pod.meta.is_deleting()
}

/// Whether a pod is active and ready.
pub(super) fn is_ready(pod: &StoredObject) -> bool {
    is_active(pod) && condition(pod, "Ready") == "True"
}

/// A Node whose kubelet reports that it is ready, as JSON.
pub fn ready_node(name: &str, now: Timestamp) -> Value {
    let now = now.truncate_to_secs().to_string();
    let ready =
        json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": [ready], "addresses": [{"type": "Hostname", "address": name}]},
    })
}

/// Writes whether the kubelet of a node reports.
pub(super) fn set_runs(cx: &mut Sync<'_>, node: &StoredObject, runs: bool) {
    let ready = match runs {
        true => ("Ready", "True", "KubeletReady"),
        false => ("Ready", "Unknown", "NodeStatusUnknown"),
    };
    cx.status("Node", node, json!({}), &[ready]);
}

/// Whether pods with this spec may run on a node, by its labels.
pub(super) fn fits(spec: &Value, node: &StoredObject) -> bool {
    let mut labels = spec["nodeSelector"].as_object().into_iter().flatten();
    let has = |key: &str, value: &Value| node.meta.labels.get(key).is_some_and(|known| *value == **known);
    !node.meta.is_deleting() && labels.all(|(key, value)| has(key, value))
}

/// One sync of a pod: by the scheduler if it has no node, else by the kubelet of its node.
pub(super) fn sync_pod(cx: &mut Sync<'_>, pod: &StoredObject) {
    let fate = cx.rules.pod(&Subject::new(cx.server, pod));
    let node = pod.text_at(&["spec", "nodeName"]);
    if node.is_empty() {
        if fate != PodFate::Unschedulable && is_active(pod) {
            schedule(cx, pod);
        }
    } else if let Some(node) = find(cx.server, "Node", "", node).filter(|_| !has_ended(pod)) {
        let not_ready = [("Ready", "False", "")];
        if condition(&node, "Ready") != "True" {
            cx.status("Pod", pod, json!({}), &not_ready);
        } else if !pod.meta.is_deleting() {
            run(cx, pod, fate);
        } else if pod.meta.deletion_grace_period_seconds == Some(0) {
            // Only finalizers keep it.
            cx.status("Pod", pod, json!({"phase": "Failed"}), &not_ready);
        }
    }
}

/// Binds a pod to the suitable node with the fewest pods, once its claims are bound.
fn schedule(cx: &mut Sync<'_>, pod: &StoredObject) {
    let is_bound = |volume: &Value| {
        volume["persistentVolumeClaim"]["claimName"]
            .as_str()
            .is_none_or(|name| {
                let claim = find(cx.server, "PersistentVolumeClaim", &pod.meta.namespace, name);
                claim.is_some_and(|claim| claim.text_at(&["status", "phase"]) == "Bound")
            })
    };
    if !list_at(spec(pod), "volumes").iter().all(is_bound) {
        return;
    }
    let mut nodes = list(cx.server, "Node", None);
    nodes.retain(|node| {
        let is_cordoned = spec(node)["unschedulable"] == true;
        !is_cordoned && condition(node, "Ready") == "True" && fits(spec(pod), node)
    });
    let pods = list(cx.server, "Pod", None);
    let count = |node: &Arc<StoredObject>| {
        let is_there = |pod: &StoredObject| spec(pod)["nodeName"] == *node.meta.name;
        pods.iter().filter(|pod| is_active(pod) && is_there(pod)).count()
    };
    if let Some(node) = nodes.iter().min_by_key(|node| count(node)) {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": &*node.meta.name});
        cx.actor = "default-scheduler";
        cx.update("Pod", pod, json!({"target": target}));
    }
}

/// Writes the status of a pod on its node, by its fate and the time since its start.
fn run(cx: &mut Sync<'_>, pod: &StoredObject, fate: PodFate) {
    let started = pod.text_at(&["status", "startTime"]);
    if started.is_empty() && matches!(fate, PodFate::Pending | PodFate::Unschedulable) {
        let conditions = [
            ("PodScheduled", "True", ""),
            ("Ready", "False", "ContainersNotReady"),
        ];
        return cx.status("Pod", pod, json!({"phase": "Pending"}), &conditions);
    }
    let start = Timestamp::parse(started).unwrap_or_else(|_| cx.now.truncate_to_secs());
    let elapsed = cx.now.since(start);
    // The time of the next change in a round of container starts, and the exit code that it has.
    let (change, exit) = match fate {
        PodFate::Ready { after } => (Some(after), None),
        PodFate::Succeeds { after } => (Some(after), Some(0)),
        PodFate::Fails { after } => (Some(after), Some(1)),
        _ => (None, None),
    };
    let restarts = match (spec(pod)["restartPolicy"].as_str(), exit) {
        (Some("Never"), _) | (Some("OnFailure"), Some(0)) | (_, None) => None,
        _ => change.map(|after| after.saturating_add(RESTART)),
    };
    let round = restarts.map_or(0, |round| elapsed.as_nanos() / round.as_nanos());
    let begin = restarts
        .unwrap_or_default()
        .saturating_mul(u32::try_from(round).unwrap_or(u32::MAX));
    let change = change.map(|after| begin.saturating_add(after));
    let has_changed = change.is_some_and(|change| elapsed >= change);
    let next = if has_changed {
        restarts.map(|round| begin.saturating_add(round))
    } else {
        change
    };
    if let Some(next) = next {
        cx.wait_until(start.saturating_add(next));
    }
    let is_ready = change.is_some() && has_changed == exit.is_none();
    let (phase, state) = match exit.filter(|_| has_changed) {
        None => ("Running", json!({"running": {"startedAt": start.to_string()}})),
        Some(_) if restarts.is_some() => ("Running", json!({"waiting": {"reason": "CrashLoopBackOff"}})),
        Some(code) => {
            let end = start.saturating_add(change.unwrap_or_default()).to_string();
            let ended = json!({"terminated": {"exitCode": code, "finishedAt": end}});
            (if code == 0 { "Succeeded" } else { "Failed" }, ended)
        }
    };
    let statuses = pod.at(&["status"]).unwrap_or(&Value::Null);
    let known = list_at(statuses, "containerStatuses").first();
    let known = known.and_then(|known| known["restartCount"].as_u64());
    let count = known.unwrap_or(0).max(u64::try_from(round).unwrap_or(0));
    let containers = list_at(spec(pod), "containers").iter().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": "", "ready": is_ready,
            "restartCount": count, "state": state,
        })
    });
    let [a, b, c, _] = fnv(pod.meta.uid.to_string().as_bytes()).to_be_bytes();
    let status = json!({
        "phase": phase, "startTime": start.to_string(), "podIP": format!("10.{a}.{b}.{c}"),
        "containerStatuses": containers.collect::<Vec<_>>(),
    });
    let ready = if is_ready { "True" } else { "False" };
    let conditions = [
        ("PodScheduled", "True", ""),
        ("Initialized", "True", ""),
        ("ContainersReady", ready, ""),
        ("Ready", ready, ""),
    ];
    cx.status("Pod", pod, status, &conditions);
}

/// One sync of a claim: a volume is provisioned and named in the claim, then the claim is bound.
pub(super) fn sync_claim(cx: &mut Sync<'_>, claim: &StoredObject) {
    let ClaimFate::Bound { after } = cx.rules.claim(&Subject::new(cx.server, claim)) else {
        return;
    };
    let meta = &claim.meta;
    let at = meta.creation_timestamp.unwrap_or(cx.now).saturating_add(after);
    if meta.is_deleting() || !matches!(claim.text_at(&["status", "phase"]), "" | "Pending") {
        return;
    }
    if at > cx.now {
        return cx.wait_until(at);
    }
    let (spec, capacity) = (spec(claim), &spec(claim)["resources"]["requests"]);
    match spec["volumeName"].as_str().unwrap_or_default() {
        "" => {
            let name = format!("pvc-{}", meta.uid);
            let volume = json!({
                "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
                "spec": {
                    "capacity": capacity, "accessModes": spec["accessModes"],
                    "persistentVolumeReclaimPolicy": "Delete", "storageClassName": spec["storageClassName"],
                    "csi": {"driver": DRIVER, "volumeHandle": name},
                    "claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": meta.uid.to_string(),
                        "namespace": &*meta.namespace, "name": &*meta.name,
                    },
                },
            });
            cx.create("PersistentVolume", "", volume);
            let named = json!({"spec": {"volumeName": name}});
            cx.update("PersistentVolumeClaim", claim, named);
        }
        name if find(cx.server, "PersistentVolume", "", name).is_some() => {
            let status = json!({"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity});
            cx.status("PersistentVolumeClaim", claim, status, &[]);
        }
        _ => {}
    }
}
