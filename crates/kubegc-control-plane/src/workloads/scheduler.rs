//! The scheduler: finds suitable nodes for a pod and binds it to one.

use std::collections::BTreeMap;

use kubegc_sim::StoredObject;
use serde_json::Value;

use super::{
    PodFate,
    plan::{Kind, Plan, Verb, View, condition, items, set_condition},
    pods,
};
use crate::Actor;

/// Binds a pod to the suitable node with the fewest pods, or writes to its status why there is none.
pub(super) fn schedule(view: &View<'_>, pod: &StoredObject, plan: &mut Plan) {
    plan.actor = Actor::Controller("default-scheduler");
    let scheduler = pod.text_at(&["spec", "schedulerName"]);
    let is_gated = !items(pod, &["spec", "schedulingGates"]).is_empty();
    if !pods::is_active(pod) || is_gated || !matches!(scheduler, "" | "default-scheduler") {
        return;
    }
    let nodes = view.list(Kind::Node, None);
    let is_unschedulable = view.rules.pod(&view.subject(pod)) == PodFate::Unschedulable;
    let problem = match unbound_claim(view, pod) {
        _ if is_unschedulable => "a rule of the test keeps it from being scheduled".to_owned(),
        Some(problem) => problem,
        None => {
            let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
            let mut feasible: BTreeMap<&str, usize> = BTreeMap::new();
            for node in nodes.iter().filter(|node| is_feasible(spec, node)) {
                feasible.insert(&node.meta.name, 0);
            }
            if feasible.len() > 1 {
                for other in view.list(Kind::Pod, None) {
                    let node = other.text_at(&["spec", "nodeName"]);
                    if let Some(count) = feasible.get_mut(node).filter(|_| !pods::has_ended(&other)) {
                        *count += 1;
                    }
                }
            }
            if let Some((node, _)) = feasible.into_iter().min_by_key(|(_, count)| *count) {
                let message = format!("it fits on node/{node}");
                let verb = Verb::Bind(pod.meta.clone(), node.into());
                plan.push(Kind::Pod, verb, "Scheduled", message);
                return;
            }
            "no node fits".to_owned()
        }
    };
    let message = format!("0/{} nodes are available: {problem}.", nodes.len());
    let mut conditions = items(pod, &["status", "conditions"]).to_vec();
    if condition(&conditions, "PodScheduled").is_none_or(|before| before["message"] != message) {
        let why = ("Unschedulable", message.clone());
        let probe = Some(("lastProbeTime", Value::Null));
        set_condition(
            &mut conditions,
            &view.time(),
            ("PodScheduled", "False"),
            why,
            probe,
        );
        plan.conditions(Kind::Pod, pod, conditions, "FailedScheduling", message);
    }
}

/// The reason why a pod waits for a claim; `None` if it waits for none.
fn unbound_claim(view: &View<'_>, pod: &StoredObject) -> Option<String> {
    let volumes = items(pod, &["spec", "volumes"]).iter();
    let mut names = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    names.find_map(|name| match view.find(Kind::Claim, &pod.meta.namespace, name) {
        None => Some(format!("persistentvolumeclaim \"{name}\" not found")),
        Some(claim) if claim.meta.is_deleting() => {
            Some(format!("persistentvolumeclaim \"{name}\" is being deleted"))
        }
        Some(claim) if claim.text_at(&["status", "phase"]) != "Bound" => {
            Some("pod has unbound immediate PersistentVolumeClaims".to_owned())
        }
        Some(_) => None,
    })
}

fn is_feasible(spec: &Value, node: &StoredObject) -> bool {
    !node.meta.is_deleting() && fits(spec, node) && tolerates(spec, node, &["NoSchedule", "NoExecute"])
}

/// Whether a pod tolerates the taints of a node that have one of these effects.
pub(super) fn tolerates(spec: &Value, node: &StoredObject, effects: &[&str]) -> bool {
    let tolerations = spec["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_tolerated = |taint: &Value| {
        tolerations.iter().any(|toleration| {
            let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
            (effect.is_empty() || taint["effect"] == effect)
                && (key.is_empty() || taint["key"] == key)
                && (toleration["operator"] == "Exists" || text(&toleration["value"]) == text(&taint["value"]))
        })
    };
    let taints = items(node, &["spec", "taints"]).iter();
    let mut taints = taints.filter(|taint| effects.contains(&taint["effect"].as_str().unwrap_or_default()));
    taints.all(is_tolerated)
}

/// Whether a node has the name that a pod requires, and meets its node selector and its required node
/// affinity.
pub(super) fn fits(spec: &Value, node: &StoredObject) -> bool {
    let name = spec["nodeName"].as_str().unwrap_or_default();
    if !name.is_empty() && *name != *node.meta.name {
        return false;
    }
    let labels = spec["nodeSelector"].as_object().into_iter().flatten();
    let has = |(key, value): (&String, &Value)| {
        node.meta
            .labels
            .get(key.as_str())
            .is_some_and(|known| value == &**known)
    };
    if !labels.into_iter().all(has) {
        return false;
    }
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else {
        return true;
    };
    terms.iter().any(|term| {
        let list = |key: &str| term[key].as_array().map_or(&[][..], Vec::as_slice);
        let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
        let label = |key: &str| node.meta.labels.get(key).map(|value| &**value);
        let field = |key: &str| (key == "metadata.name").then_some(&*node.meta.name);
        let is_empty = expressions.is_empty() && fields.is_empty();
        !is_empty
            && expressions.iter().all(|expression| meets(expression, label))
            && fields.iter().all(|expression| meets(expression, field))
    })
}

fn meets<'n>(expression: &Value, value_of: impl Fn(&str) -> Option<&'n str>) -> bool {
    let value = value_of(expression["key"].as_str().unwrap_or_default());
    let mut values = expression["values"].as_array().into_iter().flatten();
    let first = || {
        expression["values"][0]
            .as_str()
            .and_then(|text| text.parse::<i64>().ok())
    };
    let number = || value.and_then(|text| text.parse::<i64>().ok());
    let is_listed = values.any(|listed| listed.as_str() == value && value.is_some());
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().zip(first()).is_some_and(|(value, than)| value > than),
        "Lt" => number().zip(first()).is_some_and(|(value, than)| value < than),
        _ => false,
    }
}
