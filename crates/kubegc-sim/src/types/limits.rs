//! The plugin LimitRanger: default resources of containers, and the limits of a namespace.
//!
//! # Upstream
//! [`limitranger/admission.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/plugin/pkg/admission/limitranger/admission.go).

use std::sync::Arc;

use kubegc_core::Quantity;
use serde_json::{Map, Value};

use super::{
    objects::{object_in, object_mut, objects_in, text},
    qos::{self, Amounts},
};
use crate::{ApiServer, StoredObject};

const WHICH: [&str; 2] = ["requests", "limits"];
const CLAIM: &str = "PersistentVolumeClaim";

fn ranges(server: &ApiServer, namespace: &str) -> Vec<Arc<StoredObject>> {
    let kind = server.catalog().mapping("v1", "LimitRange");
    kind.map(|kind| server.objects(kind, Some(namespace)))
        .unwrap_or_default()
}

fn items<'a>(range: &'a StoredObject, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let items = range.at(&["spec", "limits"]).and_then(Value::as_array);
    let items = items.into_iter().flatten();
    items.filter(move |item| item.get("type").and_then(Value::as_str) == Some(kind))
}

/// Sets the default limits and requests of its namespace on the containers of a pod.
pub(super) fn complete(server: &ApiServer, pod: &mut StoredObject) {
    for range in ranges(server, &pod.meta.namespace) {
        let mut defaults = [Map::new(), Map::new()];
        for item in items(&range, "Container") {
            for (defaults, key) in defaults.iter_mut().zip(["defaultRequest", "default"]) {
                let values = item.get(key).and_then(Value::as_object);
                defaults.extend(values.cloned().into_iter().flatten());
            }
        }
        let mut done = Vec::new();
        if let Some(spec) = object_mut(pod.body_mut(), "spec") {
            for (list, name) in [("containers", "container"), ("initContainers", "init container")] {
                for container in objects_in(spec, list) {
                    complete_container(container, name, &defaults, &mut done);
                }
            }
        }
        if !done.is_empty() {
            let text = format!("LimitRanger plugin set: {}", done.join("; "));
            pod.annotate("kubernetes.io/limit-ranger", text);
        }
    }
}

fn complete_container(
    container: &mut Map<String, Value>,
    described: &str,
    defaults: &[Map<String, Value>; 2],
    done: &mut Vec<String>,
) {
    let name = text(container, "name").to_owned();
    for (defaults, (list, singular)) in defaults
        .iter()
        .zip([("requests", "request"), ("limits", "limit")])
    {
        if defaults.is_empty() {
            continue;
        }
        let resources = object_in(container, "resources");
        let Some(values) = resources.and_then(|resources| object_in(resources, list)) else {
            continue;
        };
        let mut missing = defaults.clone();
        missing.retain(|key, _| !values.contains_key(key));
        let names: Vec<&str> = missing.keys().map(String::as_str).collect();
        if !names.is_empty() {
            done.push(format!("{} {singular} for {described} {name}", names.join(", ")));
        }
        values.extend(missing);
    }
}

/// The error for a pod that exceeds the limits of its namespace.
pub(super) fn refuse_pod(server: &ApiServer, pod: &StoredObject) -> Option<String> {
    let mut problems = Vec::new();
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    let list = |list: &str| spec.get(list).and_then(Value::as_array).into_iter().flatten();
    for range in ranges(server, &pod.meta.namespace) {
        for item in items(&range, "Container") {
            for container in list("containers").chain(list("initContainers")) {
                let [requests, limits] = WHICH.map(|which| qos::amounts(container, which));
                check(item, "Container", &requests, &limits, &mut problems);
            }
        }
        for item in items(&range, "Pod") {
            let [requests, limits] = WHICH.map(|which| qos::amounts_of_containers(spec, which));
            check(item, "Pod", &requests, &limits, &mut problems);
        }
    }
    joined(problems)
}

/// The error for a claim that exceeds the limits of its namespace.
pub(super) fn refuse_claim(server: &ApiServer, claim: &StoredObject) -> Option<String> {
    let mut problems = Vec::new();
    let requests = qos::amounts(claim.at(&["spec"]).unwrap_or(&Value::Null), "requests");
    for range in ranges(server, &claim.meta.namespace) {
        for item in items(&range, CLAIM) {
            check_bounds(item, CLAIM, &requests, &Amounts::new(), &mut problems);
        }
    }
    joined(problems)
}

/// The problem of amounts that a bound excludes. The first one is required.
fn problem(
    bound: String,
    amounts: [(&str, Option<&Quantity>); 2],
    is_excluded: impl Fn(&Quantity) -> bool,
) -> Option<String> {
    if let [(name, None), _] = amounts {
        return Some(format!("{bound}.  No {name} is specified"));
    }
    let mut amounts = amounts.into_iter();
    let (name, amount) =
        amounts.find_map(|(name, amount)| Some((name, amount.filter(|amount| is_excluded(amount))?)))?;
    Some(format!("{bound}, but {name} is {amount}"))
}

fn check_bounds(item: &Value, kind: &str, requests: &Amounts, limits: &Amounts, problems: &mut Vec<String>) {
    let of = |name: &str| [("request", requests.get(name)), ("limit", limits.get(name))];
    for (name, min) in qos::parsed(item.get("min")) {
        let bound = format!("minimum {name} usage per {kind} is {min}");
        problems.extend(problem(bound, of(&name), |amount| *amount < min));
    }
    for (name, max) in qos::parsed(item.get("max")) {
        let bound = format!("maximum {name} usage per {kind} is {max}");
        let mut both = of(&name);
        // Claims have no limits.
        if kind != CLAIM {
            both.reverse();
        }
        problems.extend(problem(bound, both, |amount| *amount > max));
    }
}

fn check(item: &Value, kind: &str, requests: &Amounts, limits: &Amounts, problems: &mut Vec<String>) {
    check_bounds(item, kind, requests, limits, problems);
    for (name, ratio) in qos::parsed(item.get("maxLimitRequestRatio")) {
        let start = format!("{name} max limit to request ratio per {kind} is {ratio}");
        let nonzero = |amounts: &Amounts| amounts.get(&name).copied().filter(|amount| !amount.is_zero());
        match (nonzero(requests), nonzero(limits)) {
            (None, _) => problems.push(format!("{start}, but no request is specified or request is 0")),
            (_, None) => problems.push(format!("{start}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let observed = limit.as_f64() / request.as_f64();
                if observed > ratio.as_f64() {
                    problems.push(format!("{start}, but provided ratio is {observed:.6}"));
                }
            }
        }
    }
}

fn joined(mut problems: Vec<String>) -> Option<String> {
    let mut seen = Vec::new();
    problems.retain(|problem| {
        let is_new = !seen.contains(problem);
        seen.push(problem.clone());
        is_new
    });
    match problems.len() {
        0 => None,
        1 => problems.pop(),
        _ => Some(format!("[{}]", problems.join(", "))),
    }
}
