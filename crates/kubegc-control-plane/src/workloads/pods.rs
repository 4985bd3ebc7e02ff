//! Kubelets, the scheduler and the volume controller by the rules of a test, and the status of disruption
//! budgets.

use std::{sync::Arc, time::Duration};

use kubegc_core::Timestamp;
use kubegc_sim::{StoredObject, label_selector};
use serde_json::{Value, json};

use super::{
    ClaimFate, PodFate, Subject,
    model::{Plan, View, Write, condition, conditions, find, items, put, text, with},
    owners::fnv,
};
use crate::Actor;

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
#[must_use]
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
pub(super) fn set_runs(view: &View<'_>, node: &StoredObject, runs: bool) -> Plan {
    let ready = match runs {
        true => ("Ready", "True", "KubeletReady"),
        false => ("Ready", "Unknown", "NodeStatusUnknown"),
    };
    let mut plan = Plan::of("Node");
    plan.status(
        "Node",
        node,
        json!({"conditions": conditions(node, &view.time(), &[ready])}),
    );
    plan
}

/// Whether pods with this spec may run on a node, by its labels and its taints. Those of the control plane do
/// not count.
pub(super) fn fits(spec: &Value, node: &StoredObject) -> bool {
    let labels = spec["nodeSelector"].as_object().into_iter().flatten();
    let mut labels = labels.map(|(key, value)| (node.meta.labels.get(key.as_str()), value));
    let is_tolerated = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        let is_own = key.starts_with("node.kubernetes.io/");
        let mut tolerations = spec["tolerations"].as_array().into_iter().flatten();
        is_own || tolerations.any(|toleration| toleration["key"].is_null() || toleration["key"] == key)
    };
    !node.meta.is_deleting()
        && labels.all(|(known, value)| known.is_some_and(|known| *value == **known))
        && items(node, &["spec", "taints"]).iter().all(is_tolerated)
}

/// One sync of a pod: by the scheduler if it has no node, else by the kubelet of its node.
pub(super) fn sync_pod(view: &View<'_>, pod: &StoredObject, plan: &mut Plan) {
    let subject = Subject {
        server: view.server,
        object: pod,
    };
    let fate = view.rules.pod(&subject);
    let node = pod.text_at(&["spec", "nodeName"]);
    if node.is_empty() {
        plan.actor = Actor::Controller("default-scheduler");
        schedule(view, pod, fate == PodFate::Unschedulable, plan);
    } else if let Some(node) = find(view.server, "Node", "", node).filter(|_| !has_ended(pod)) {
        let not_ready = || conditions(pod, &view.time(), &[("Ready", "False", "")]);
        if condition(&node, "Ready") != "True" {
            plan.status("Pod", pod, json!({"conditions": not_ready()}));
        } else if !pod.meta.is_deleting() {
            run(view, pod, fate, plan);
        } else if pod.meta.deletion_grace_period_seconds == Some(0) {
            // Only finalizers keep it.
            plan.status("Pod", pod, json!({"phase": "Failed", "conditions": not_ready()}));
        }
    }
}

/// Binds a pod to the suitable node with the fewest pods, or writes to its status that there is none.
fn schedule(view: &View<'_>, pod: &StoredObject, is_unschedulable: bool, plan: &mut Plan) {
    let is_gated = !items(pod, &["spec", "schedulingGates"]).is_empty();
    let scheduler = pod.text_at(&["spec", "schedulerName"]);
    if !is_active(pod) || is_gated || !matches!(scheduler, "" | "default-scheduler") {
        return;
    }
    let is_bound = |volume: &Value| {
        let name = volume["persistentVolumeClaim"]["claimName"].as_str();
        name.is_none_or(|name| {
            let claim = find(view.server, "PersistentVolumeClaim", &pod.meta.namespace, name);
            claim.is_some_and(|claim| {
                claim.text_at(&["status", "phase"]) == "Bound" && !claim.meta.is_deleting()
            })
        })
    };
    let waits = is_unschedulable || !items(pod, &["spec", "volumes"]).iter().all(is_bound);
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    let mut nodes = view.list("Node", None);
    nodes.retain(|node| {
        let is_cordoned = node.at(&["spec", "unschedulable"]) == Some(&true.into());
        !waits && !is_cordoned && condition(node, "Ready") == "True" && fits(spec, node)
    });
    let pods = view.list("Pod", None);
    let count = |node: &Arc<StoredObject>| {
        let pods = pods.iter().filter(|pod| is_active(pod));
        pods.filter(|pod| *pod.text_at(&["spec", "nodeName"]) == *node.meta.name)
            .count()
    };
    if let Some(node) = nodes.iter().min_by_key(|node| count(node)) {
        let bind = Write::Bind(pod.meta.clone(), Arc::clone(&node.meta.name));
        plan.writes.push(("Pod", bind));
    } else {
        let set = [("PodScheduled", "False", "Unschedulable")];
        plan.status(
            "Pod",
            pod,
            json!({"conditions": conditions(pod, &view.time(), &set)}),
        );
    }
}

/// Writes the status of a pod on its node, by its fate and the time since its start.
fn run(view: &View<'_>, pod: &StoredObject, fate: PodFate, plan: &mut Plan) {
    let started = pod.text_at(&["status", "startTime"]);
    let waits = started.is_empty() && matches!(fate, PodFate::Pending | PodFate::Unschedulable);
    let start = Timestamp::parse(started).unwrap_or_else(|_| view.now.truncate_to_secs());
    let elapsed = view.now.since(start);
    let container = items(pod, &["status", "containerStatuses"]).first();
    let known = container.and_then(|container| container["restartCount"].as_u64());
    let mut restarts = known.unwrap_or(0);
    // The phase, whether the pod is ready, and when that changes.
    let (mut phase, is_ready, next) = match fate {
        PodFate::Ready { after } => ("Running", elapsed >= after, after),
        PodFate::Succeeds { after } | PodFate::Fails { after } => {
            let has_failed = matches!(fate, PodFate::Fails { .. });
            let policy = pod.text_at(&["spec", "restartPolicy"]);
            let is_final = policy == "Never" || policy == "OnFailure" && !has_failed;
            let round = after.saturating_add(RESTART);
            let rounds = u32::try_from(elapsed.as_nanos() / round.as_nanos()).unwrap_or(u32::MAX);
            let rounds = if is_final { 0 } else { rounds };
            let exit = round.saturating_mul(rounds).saturating_add(after);
            restarts = restarts.max(rounds.into());
            match (elapsed < exit, is_final) {
                (true, _) => ("Running", true, exit),
                (false, true) => (if has_failed { "Failed" } else { "Succeeded" }, false, exit),
                (false, false) => ("CrashLoopBackOff", false, exit.saturating_add(RESTART)),
            }
        }
        _ => ("Running", false, Duration::ZERO),
    };
    if elapsed < next {
        plan.due = Some(start.saturating_add(next));
    }
    let state = match phase {
        _ if waits => json!({"waiting": {"reason": "ContainerCreating"}}),
        "Running" => json!({"running": {"startedAt": start.to_string()}}),
        "CrashLoopBackOff" => json!({"waiting": {"reason": phase}}),
        _ => json!({"terminated": {
            "exitCode": u8::from(phase == "Failed"), "finishedAt": start.saturating_add(next).to_string(),
        }}),
    };
    if waits || phase == "CrashLoopBackOff" {
        phase = if waits { "Pending" } else { "Running" };
    }
    let containers = items(pod, &["spec", "containers"]).iter().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": "", "ready": is_ready,
            "restartCount": restarts, "state": state,
        })
    });
    let is_open = |gate: &Value| condition(pod, gate["conditionType"].as_str().unwrap_or_default()) == "True";
    let gates = items(pod, &["spec", "readinessGates"]);
    let set = [
        ("PodScheduled", "True", ""),
        ("Initialized", text(!waits), ""),
        ("ContainersReady", text(is_ready), ""),
        ("Ready", text(is_ready && gates.iter().all(is_open)), ""),
    ];
    let [a, b, c, _] = fnv(pod.meta.uid.to_string().as_bytes()).to_be_bytes();
    let status = json!({
        "phase": phase, "conditions": conditions(pod, &view.time(), &set),
        "startTime": (!waits).then(|| start.to_string()), "podIP": (!waits).then(|| format!("10.{a}.{b}.{c}")),
        "containerStatuses": containers.collect::<Vec<_>>(),
    });
    plan.status("Pod", pod, status);
}

/// One sync of a claim: a volume is provisioned and named in the claim, then the claim is bound.
pub(super) fn sync_claim(view: &View<'_>, claim: &StoredObject, plan: &mut Plan) {
    let subject = Subject {
        server: view.server,
        object: claim,
    };
    let ClaimFate::Bound { after } = view.rules.claim(&subject) else {
        return;
    };
    let at = claim
        .meta
        .creation_timestamp
        .unwrap_or(view.now)
        .saturating_add(after);
    let is_pending = matches!(claim.text_at(&["status", "phase"]), "" | "Pending");
    if claim.meta.is_deleting() || !is_pending || at > view.now {
        plan.due = Some(at).filter(|at| is_pending && *at > view.now);
        return;
    }
    let spec = claim.at(&["spec"]).unwrap_or(&Value::Null);
    match spec["volumeName"].as_str().unwrap_or_default() {
        "" => {
            let name = format!("pvc-{}", claim.meta.uid);
            let mut volume = json!({
                "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
                "spec": {
                    "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
                    "persistentVolumeReclaimPolicy": "Delete",
                    "csi": {"driver": DRIVER, "volumeHandle": name},
                    "claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": claim.meta.uid.to_string(),
                        "namespace": &*claim.meta.namespace, "name": &*claim.meta.name,
                    },
                },
            });
            if let Some(class) = spec.get("storageClassName") {
                put(&mut volume, &["spec", "storageClassName"], class.clone());
            }
            plan.create("PersistentVolume", &Arc::default(), volume);
            plan.update(
                "PersistentVolumeClaim",
                "",
                with(claim, "spec", &["volumeName"], name.into()),
            );
        }
        name if find(view.server, "PersistentVolume", "", name).is_some() => {
            let capacity = &spec["resources"]["requests"];
            let status = json!({"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity});
            plan.status("PersistentVolumeClaim", claim, status);
        }
        _ => {}
    }
}

/// One sync of a disruption budget: as many disruptions are allowed as pods are ready beyond the number that
/// must be. All selected pods count, those that are being deleted too.
pub(super) fn sync_budget(view: &View<'_>, budget: &StoredObject, plan: &mut Plan) {
    let selector = budget
        .at(&["spec", "selector"])
        .and_then(label_selector)
        .unwrap_or_default();
    let mut pods = view.list("Pod", Some(&budget.meta.namespace));
    pods.retain(|pod| selector.matches(&pod.meta) && !has_ended(pod));
    let expected = pods.len();
    // A number of pods, or a percentage.
    let share = |field: &str| match budget.at(&["spec", field])? {
        Value::String(text) => {
            let percent: usize = text.trim_end_matches('%').parse().ok()?;
            Some(expected.saturating_mul(percent).div_ceil(100))
        }
        number => usize::try_from(number.as_u64()?).ok(),
    };
    let max = share("maxUnavailable").map(|max| expected.saturating_sub(max));
    let desired = max.or_else(|| share("minAvailable")).unwrap_or(0);
    let healthy = pods.iter().filter(|pod| is_ready(pod)).count();
    let status = json!({
        "disruptionsAllowed": healthy.saturating_sub(desired), "expectedPods": expected,
        "currentHealthy": healthy, "desiredHealthy": desired, "disruptedPods": null,
        "observedGeneration": budget.meta.generation,
    });
    plan.status("PodDisruptionBudget", budget, status);
}
