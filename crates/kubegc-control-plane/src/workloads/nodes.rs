//! Nodes: the conditions that their kubelets report, their `NoSchedule` taints, and their loss.

use kubegc_core::Timestamp;
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    plan::{Kind, Plan, Verb, View, condition, items, set_condition, with},
    pods,
};
use crate::Actor;

/// Conditions with their statuses and the keys of the resulting `NoSchedule` taints.
///
/// # Upstream
/// [`nodeConditionToTaintKeyStatusMap`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/nodelifecycle/node_lifecycle_controller.go)
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The conditions that a healthy kubelet reports: type, status, reason and message.
const REPORTED: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

fn status_of<'n>(node: &'n StoredObject, kind: &str) -> Option<&'n str> {
    condition(items(node, &["status", "conditions"]), kind)?["status"].as_str()
}

/// Whether the kubelet of a node reports its status.
pub(super) fn kubelet_runs(node: &StoredObject) -> bool {
    status_of(node, "Ready") != Some("Unknown")
}

/// The address of a node: the one in its status, or one that depends on its uid alone.
pub(super) fn address(node: &StoredObject) -> String {
    let mut addresses = items(node, &["status", "addresses"]).iter();
    let internal = addresses.find(|address| address["type"] == "InternalIP");
    match internal.and_then(|address| address["address"].as_str()) {
        Some(address) => address.to_owned(),
        None => {
            let [a, b, ..] = super::revisions::fnv(node.meta.uid.to_string().as_bytes()).to_be_bytes();
            format!("192.168.{a}.{b}")
        }
    }
}

/// One sync of a node. A node that never reported becomes ready.
pub(super) fn sync(view: &View<'_>, node: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::Node, node);
    if node.meta.is_deleting() {
        return plan;
    }
    if status_of(node, "Ready").is_none() {
        return set_runs(view, node, true);
    }
    let known = items(node, &["spec", "taints"]);
    let is_unschedulable = node.at(&["spec", "unschedulable"]) == Some(&true.into());
    let rows = TAINTS
        .iter()
        .map(|(kind, status, key)| (*key, status_of(node, kind) == Some(*status)));
    let rows: Vec<(&str, bool)> = rows.chain([(UNSCHEDULABLE, is_unschedulable)]).collect();
    let is = |taint: &Value, key: &str| taint["key"] == key && taint["effect"] == "NoSchedule";
    let is_obsolete = |taint: &Value| rows.iter().any(|(key, is_wanted)| !is_wanted && is(taint, key));
    let mut taints: Vec<Value> = known
        .iter()
        .filter(|taint| !is_obsolete(taint))
        .cloned()
        .collect();
    for (key, is_wanted) in &rows {
        if *is_wanted && !known.iter().any(|taint| is(taint, key)) {
            taints.push(json!({"key": key, "effect": "NoSchedule", "timeAdded": view.time()}));
        }
    }
    if taints != known {
        let verb = Verb::Patch(with(node, &["spec", "taints"], taints.into()));
        let message = "its NoSchedule taints follow its conditions";
        plan.push(Kind::Node, verb, "TaintsChanged", message);
    }
    if !kubelet_runs(node) {
        for pod in view.list(Kind::Pod, None) {
            if *pod.text_at(&["spec", "nodeName"]) == *node.meta.name && pods::ready_since(&pod).is_some() {
                let mut conditions = items(&pod, &["status", "conditions"]).to_vec();
                let probe = Some(("lastProbeTime", Value::Null));
                let none = ("", String::new());
                set_condition(&mut conditions, &view.time(), ("Ready", "False"), none, probe);
                plan.conditions(
                    Kind::Pod,
                    &pod,
                    conditions,
                    "NodeNotReady",
                    "its node is not ready",
                );
            }
        }
    }
    plan
}

/// A Node with the conditions of a healthy kubelet, as JSON.
#[must_use]
pub fn ready_node(name: &str, now: Timestamp) -> Value {
    let now = Value::from(now.truncate_to_secs().to_string());
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "conditions": report(Vec::new(), &now, true),
            "addresses": [{"type": "Hostname", "address": name}],
        },
    })
}

/// Stops or resumes the reports of a node's kubelet.
pub(super) fn set_runs(view: &View<'_>, node: &StoredObject, runs: bool) -> Plan {
    let mut plan = Plan::of(Kind::Node, node);
    let conditions = reporting(view, node, runs);
    let (reason, message) = match runs {
        true => {
            plan.actor = Actor::Kubelet;
            ("NodeReady", "its kubelet reports that it is ready")
        }
        false => ("NodeNotReady", "its kubelet stopped reporting"),
    };
    plan.conditions(Kind::Node, node, conditions, reason, message);
    plan
}

/// The conditions of a node whose kubelet is healthy, or has stopped reporting.
fn reporting(view: &View<'_>, node: &StoredObject, runs: bool) -> Vec<Value> {
    report(
        items(node, &["status", "conditions"]).to_vec(),
        &view.time(),
        runs,
    )
}

fn report(mut conditions: Vec<Value>, now: &Value, runs: bool) -> Vec<Value> {
    for (kind, status, reason, message) in REPORTED {
        let heartbeat = condition(&conditions, kind).filter(|_| !runs);
        let heartbeat = heartbeat.map_or_else(|| now.clone(), |before| before["lastHeartbeatTime"].clone());
        let (status, reason, message) = match runs {
            true => (status, reason, message),
            false => (
                "Unknown",
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
            ),
        };
        let heartbeat = Some(("lastHeartbeatTime", heartbeat));
        set_condition(
            &mut conditions,
            now,
            (kind, status),
            (reason, message.to_owned()),
            heartbeat,
        );
    }
    conditions
}
