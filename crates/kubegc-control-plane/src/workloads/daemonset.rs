//! DaemonSets: a pod for each suitable node, their revisions and status.
//! `kubegc_controllers::controllerrevisions` adopts and deletes revisions.
//!
//! # Upstream
//! [`podsShouldBeOnNode`, `NodeShouldRunDaemonPod`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/daemon/daemon_controller.go)
//! in `daemon_controller.go`,
//! [`rollingUpdate`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/daemon/update.go)
//! in `update.go`, `AddOrUpdateDaemonPodTolerations` in `util/daemonset_util.go`.

use std::sync::Arc;

use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    deployment::share,
    plan::{Kind, Plan, Verb, View, annotation, counts, map, pod_of, seconds, set},
    pods, revisions, scheduler,
};

const HASH_LABEL: &str = "controller-revision-hash";
/// Key and effect of the taints that pods of DaemonSets tolerate.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// A node, whether its pods should run there and may remain, and its pods, the oldest first.
struct Place {
    node: Arc<StoredObject>,
    runs: bool,
    stays: bool,
    pods: Vec<Arc<StoredObject>>,
}

pub(super) fn sync(view: &View<'_>, daemons: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::DaemonSet, daemons);
    if daemons.meta.is_deleting() || plan.claim(view, daemons, Kind::Pod, |_| true) {
        return plan;
    }
    let Some((revision, _)) = revisions::present(view, &mut plan, daemons, HASH_LABEL) else {
        return plan;
    };
    let hash = revision.meta.labels.get(HASH_LABEL).map_or("", |hash| hash);
    let pods = view.controlled(Kind::Pod, &daemons.meta);
    let spec = pod_spec(daemons);
    let places: Vec<Place> = view
        .list(Kind::Node, None)
        .into_iter()
        .map(|node| place(&spec, node, &pods))
        .collect();
    for place in &places {
        manage(daemons, place, hash, &spec, &mut plan);
    }
    if plan.writes.is_empty() && daemons.text_at(&["spec", "updateStrategy", "type"]) != "OnDelete" {
        roll(view, daemons, &places, hash, &mut plan);
    }
    if plan.writes.is_empty() {
        report(view, daemons, &places, hash, &mut plan);
    }
    plan
}

/// The spec of a pod, with the tolerations that all pods of DaemonSets have.
fn pod_spec(daemons: &StoredObject) -> Value {
    let mut spec = map(daemons, &["spec", "template", "spec"]);
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let network = (spec["hostNetwork"] == true).then_some(NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    spec["tolerations"] = tolerations.into();
    spec
}

fn place(spec: &Value, node: Arc<StoredObject>, pods: &[Arc<StoredObject>]) -> Place {
    let fits = scheduler::fits(spec, &node);
    let tolerates = |effects: &[&str]| scheduler::tolerates(spec, &node, effects);
    let is_here = |pod: &&Arc<StoredObject>| target(pod) == Some(&*node.meta.name);
    let mut pods: Vec<_> = pods.iter().filter(is_here).cloned().collect();
    pods.sort_by_key(|pod| (pod.meta.creation_timestamp, Arc::clone(&pod.meta.name)));
    Place {
        runs: fits && tolerates(&["NoSchedule", "NoExecute"]),
        stays: fits && tolerates(&["NoExecute"]),
        node,
        pods,
    }
}

/// The node of a pod, or the one in its affinity.
fn target(pod: &StoredObject) -> Option<&str> {
    let node = pod.text_at(&["spec", "nodeName"]);
    if !node.is_empty() {
        return Some(node);
    }
    let affinity = pod.at(&[
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ])?;
    affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str()
}

/// Creates the pod of a node that has none, and deletes surplus pods, failed pods and pods that may not
/// remain.
fn manage(daemons: &StoredObject, place: &Place, hash: &str, spec: &Value, plan: &mut Plan) {
    let (meta, node) = (&daemons.meta, &place.node.meta.name);
    let live = place.pods.iter().filter(|pod| !pod.meta.is_deleting());
    if place.runs && place.pods.is_empty() {
        let template = daemons.at(&["spec", "template"]).unwrap_or(&Value::Null);
        let mut pod = pod_of(template, Kind::DaemonSet, meta, None);
        set(&mut pod, "labels", HASH_LABEL, hash);
        let generation = annotation(daemons, "deprecated.daemonset.template.generation");
        if !generation.is_empty() {
            set(&mut pod, "labels", "pod-template-generation", generation);
        }
        pod["spec"] = spec.clone();
        on_node(&mut pod["spec"], node);
        let message = format!("node/{node} has no pod of daemonset/{}", meta.name);
        plan.push(Kind::Pod, Verb::Create(pod), "SuccessfulCreate", message);
    } else if !place.stays {
        for pod in live {
            let message = format!("daemonset/{} does not run on node/{node}", meta.name);
            plan.delete(pod, message);
        }
    } else {
        let mut others = 0;
        for pod in live {
            if pods::phase(pod) == "Failed" {
                plan.delete(pod, "it has failed");
            } else {
                others += 1;
                if others > 1 {
                    plan.delete(pod, format!("node/{node} has an older one"));
                }
            }
        }
    }
}

/// Requires a node by its name, in each of the existing terms.
fn on_node(spec: &mut Value, node: &str) {
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let path = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    match spec.pointer_mut(path) {
        Some(Value::Array(terms)) if !terms.is_empty() => {
            for term in terms.iter_mut().filter(|term| term.is_object()) {
                term["matchFields"] = fields.clone();
            }
        }
        _ => {
            let required = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
            for key in ["affinity", "nodeAffinity"] {
                let parent = if key == "affinity" {
                    &mut *spec
                } else {
                    &mut spec["affinity"]
                };
                if !parent[key].is_object() {
                    parent[key] = json!({});
                }
            }
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required;
        }
    }
}

fn is_updated(pod: &StoredObject, hash: &str) -> bool {
    pod.meta
        .labels
        .get(HASH_LABEL)
        .is_some_and(|known| **known == *hash)
}

/// Deletes pods of other revisions: first the unavailable ones, then as many as may be unavailable.
fn roll(view: &View<'_>, daemons: &StoredObject, places: &[Place], hash: &str, plan: &mut Plan) {
    let ready_min = seconds(daemons, "minReadySeconds");
    let wanted = places.iter().filter(|place| place.runs).count();
    let limit = daemons.at(&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
    let mut left = share(limit.or(Some(&1.into())), "", wanted, true).max(1);
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for place in places.iter().filter(|place| place.runs) {
        let pod = place.pods.iter().find(|pod| !pod.meta.is_deleting());
        let at = pod.and_then(|pod| pods::available_at(pod, ready_min));
        plan.due_at(at.filter(|at| *at > view.now));
        let is_available = at.is_some_and(|at| at <= view.now);
        left = left.saturating_sub(usize::from(!is_available));
        if let Some(pod) = pod.filter(|pod| !is_updated(pod, hash)) {
            if is_available {
                then.push(pod)
            } else {
                first.push(pod)
            }
        }
    }
    for pod in first.into_iter().chain(then.into_iter().take(left)) {
        plan.delete(pod, "it is not of the present revision");
    }
}

fn report(view: &View<'_>, daemons: &StoredObject, places: &[Place], hash: &str, plan: &mut Plan) {
    let ready_min = seconds(daemons, "minReadySeconds");
    let [
        mut wanted,
        mut current,
        mut misplaced,
        mut ready,
        mut updated,
        mut available,
    ] = [0_usize; 6];
    for place in places {
        let is_there = !place.pods.is_empty();
        if !place.runs {
            misplaced += usize::from(is_there);
            continue;
        }
        wanted += 1;
        current += usize::from(is_there);
        let Some(pod) = place.pods.iter().find(|pod| !pod.meta.is_deleting()) else {
            continue;
        };
        updated += usize::from(is_updated(pod, hash));
        if let Some(at) = pods::available_at(pod, ready_min) {
            ready += 1;
            available += usize::from(at <= view.now);
            plan.due_at(Some(at).filter(|at| *at > view.now));
        }
    }
    let required = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberMisscheduled",
        "numberReady",
    ];
    let mut status = counts(
        &required,
        &[
            ("desiredNumberScheduled", wanted),
            ("currentNumberScheduled", current),
            ("numberMisscheduled", misplaced),
            ("numberReady", ready),
            ("updatedNumberScheduled", updated),
            ("numberAvailable", available),
            ("numberUnavailable", wanted.saturating_sub(available)),
        ],
    );
    status.insert("observedGeneration".to_owned(), daemons.meta.generation.into());
    for field in ["collisionCount", "conditions"] {
        if let Some(value) = daemons.at(&["status", field]) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    plan.status(daemons, status.into());
}
