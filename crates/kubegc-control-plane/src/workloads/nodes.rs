//! Nodes: what their kubelets report, their `NoSchedule` taints, and their loss.

use kubegc_core::Timestamp;
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    plan::{Kind, Plan, Verb, View, condition, items, with},
    pods,
};
use crate::Actor;

/// Condition, status and the key of the `NoSchedule` taint that it brings.
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

/// Type, status, reason and message of a condition.
type Reported = (&'static str, &'static str, &'static str, &'static str);
/// The conditions that a kubelet reports while all is well.
const REPORTED: [Reported; 4] = [
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

/// Whether the kubelet of a node reports.
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

/// One sync of a node. A node that never reported is ready from now on.
pub(super) fn sync(view: &View<'_>, node: &StoredObject) -> Plan {
    let mut plan = Plan::default();
    if node.meta.is_deleting() {
        return plan;
    }
    if status_of(node, "Ready").is_none() {
        let verb = Verb::Status(reporting(view, node, true));
        let why = ("NodeReady", "its kubelet reports that it is ready".to_owned());
        plan.push_by(Actor::Kubelet, Kind::Node, &node.meta, verb, why);
        return plan;
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
        let why = (
            "TaintsChanged",
            "its NoSchedule taints are those of its conditions".to_owned(),
        );
        plan.push(Kind::Node, &node.meta, verb, why);
    }
    if !kubelet_runs(node) {
        for pod in view.list(Kind::Pod, None) {
            if pod.text_at(&["spec", "nodeName"]) == &*node.meta.name && pods::ready_since(&pod).is_some() {
                let verb = Verb::Status(not_ready(view, &pod));
                let why = ("NodeNotReady", "its node is not ready".to_owned());
                plan.push_by(Kind::Node.actor(), Kind::Pod, &pod.meta, verb, why);
            }
        }
    }
    plan
}

fn not_ready(view: &View<'_>, pod: &StoredObject) -> StoredObject {
    let mut conditions = items(pod, &["status", "conditions"]).to_vec();
    for condition in conditions
        .iter_mut()
        .filter(|condition| condition["type"] == "Ready")
    {
        condition["status"] = "False".into();
        condition["lastTransitionTime"] = view.time();
    }
    with(pod, &["status", "conditions"], conditions.into())
}

/// A Node whose kubelet reports that all is well, as JSON.
#[must_use]
pub fn ready_node(name: &str, now: Timestamp) -> Value {
    let time = Value::from(now.truncate_to_secs().to_string());
    let conditions: Vec<Value> = REPORTED.iter().map(|row| reported(*row, &time, &time)).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": conditions, "addresses": [{"type": "Hostname", "address": name}]},
    })
}

fn reported((kind, status, reason, message): Reported, beat: &Value, since: &Value) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": beat, "lastTransitionTime": since,
    })
}

/// A node whose kubelet reports that all is well, or that stopped reporting.
pub(super) fn reporting(view: &View<'_>, node: &StoredObject, runs: bool) -> StoredObject {
    let known = items(node, &["status", "conditions"]);
    let others = known
        .iter()
        .filter(|known| REPORTED.iter().all(|row| known["type"] != row.0));
    let mut conditions: Vec<Value> = others.cloned().collect();
    let now = view.time();
    for row in REPORTED {
        let row = match runs {
            true => row,
            false => (
                row.0,
                "Unknown",
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
            ),
        };
        let before = condition(known, row.0);
        let same = before.filter(|before| before["status"] == row.1);
        let beat = before
            .filter(|_| !runs)
            .map_or(&now, |before| &before["lastHeartbeatTime"]);
        conditions.push(reported(
            row,
            beat,
            same.map_or(&now, |same| &same["lastTransitionTime"]),
        ));
    }
    with(node, &["status", "conditions"], conditions.into())
}
