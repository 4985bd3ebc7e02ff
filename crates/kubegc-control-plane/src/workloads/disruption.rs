//! PodDisruptionBudgets: the number of evictions that they allow.
//!
//! # Upstream
//! [`trySync`, `getExpectedPodCount`, `updatePdbStatus`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/disruption/disruption.go)
//! in `disruption.go`, and `UpdateDisruptionAllowedCondition` in
//! `component-helpers/apps/poddisruptionbudget`.

use std::{sync::Arc, time::Duration};

use kubegc_core::{Behavior, ObjectMeta};
use kubegc_sim::{StoredObject, label_selector};
use serde_json::{Map, Value, json};

use super::{
    deployment::share,
    plan::{Kind, Plan, View, items, set_condition, time_of},
    pods::ready_since,
    replicaset::replicas,
};

/// A budget expects the deletion of an evicted pod within this time.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);
const HAS_CONDITIONS: Behavior = Behavior::since(21, 0, "kubernetes #98127");

/// Whether a budget selects an object with these labels. An empty selector selects all pods, but none in
/// `policy/v1beta1`.
pub(super) fn selects(budget: &StoredObject, pod: &ObjectMeta, is_beta: bool) -> bool {
    let selector = budget.at(&["spec", "selector"]).and_then(label_selector);
    selector.is_some_and(|selector| {
        if selector.is_empty() {
            !is_beta
        } else {
            selector.matches(pod)
        }
    })
}

pub(super) fn sync(view: &View<'_>, budget: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::Budget, budget);
    let is_beta = Kind::Budget.is_beta(view.server);
    let mut pods = view.list(Kind::Pod, Some(&budget.meta.namespace));
    pods.retain(|pod| selects(budget, &pod.meta, is_beta));
    let counted = expected(view, budget, &pods);
    let disrupted = disrupted(view, budget, &pods, &mut plan);
    let is_healthy = |pod: &&Arc<StoredObject>| {
        let is_disrupted = pod.meta.is_deleting() || disrupted.contains_key(&*pod.meta.name);
        !is_disrupted && ready_since(pod).is_some()
    };
    let healthy = pods.iter().filter(is_healthy).count();
    let (mut status, reason, message) = match counted {
        Ok((expected, desired)) => {
            let allowed = if expected == 0 {
                0
            } else {
                healthy.saturating_sub(desired)
            };
            let mut status = json!({
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "observedGeneration": budget.meta.generation,
            });
            if !disrupted.is_empty() {
                status["disruptedPods"] = disrupted.into();
            }
            let reason = if allowed > 0 {
                "SufficientPods"
            } else {
                "InsufficientPods"
            };
            (status, reason, String::new())
        }
        // Counts and generation remain those of the last successful sync.
        Err(problem) => {
            let mut status = budget.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
            status["disruptionsAllowed"] = 0.into();
            (status, "SyncFailed", problem)
        }
    };
    if view.version().has(HAS_CONDITIONS) {
        let holds = if reason == "SufficientPods" {
            "True"
        } else {
            "False"
        };
        let observed = status
            .get("observedGeneration")
            .filter(|observed| **observed != 0);
        let other = observed.map(|observed| ("observedGeneration", observed.clone()));
        let mut conditions = items(budget, &["status", "conditions"]).to_vec();
        let kind = ("DisruptionAllowed", holds);
        set_condition(&mut conditions, &view.time(), kind, (reason, message), other);
        // The message is a required field.
        for condition in &mut conditions {
            if condition.get("message").is_none() {
                condition["message"] = "".into();
            }
        }
        status["conditions"] = conditions.into();
    }
    plan.status(budget, status);
    plan
}

/// The pods that were evicted and are not deleted yet, with the times of the evictions.
fn disrupted(
    view: &View<'_>,
    budget: &StoredObject,
    pods: &[Arc<StoredObject>],
    plan: &mut Plan,
) -> Map<String, Value> {
    let mut disrupted = Map::new();
    for pod in pods.iter().filter(|pod| !pod.meta.is_deleting()) {
        let Some(evicted) = budget.at(&["status", "disruptedPods", &pod.meta.name]) else {
            continue;
        };
        let Some(until) = time_of(evicted).map(|at| at.saturating_add(DELETION_TIMEOUT)) else {
            continue;
        };
        if until >= view.now {
            // The pod counts as disrupted until the second after the deadline.
            plan.due_at(Some(until.saturating_add(Duration::from_secs(1))));
            disrupted.insert(pod.meta.name.to_string(), evicted.clone());
        }
    }
    disrupted
}

/// The expected number of pods, and how many of them must be healthy.
///
/// # Errors
/// The controller of a pod has no scale.
fn expected(
    view: &View<'_>,
    budget: &StoredObject,
    pods: &[Arc<StoredObject>],
) -> Result<(usize, usize), String> {
    let share = |value: &Value, total| share(Some(value), "0", total, true);
    let value = |field: &str| budget.at(&["spec", field]).filter(|value| !value.is_null());
    if let Some(max) = value("maxUnavailable") {
        let expected = scale(view, pods)?;
        return Ok((expected, expected.saturating_sub(share(max, expected))));
    }
    match value("minAvailable") {
        Some(min @ Value::String(_)) => {
            let expected = scale(view, pods)?;
            Ok((expected, share(min, expected)))
        }
        Some(min) => Ok((pods.len(), share(min, pods.len()))),
        None => Ok((0, 0)),
    }
}

/// The sum of the replicas of the controllers of pods. Pods without a controller do not count.
fn scale(view: &View<'_>, pods: &[Arc<StoredObject>]) -> Result<usize, String> {
    let mut seen: Vec<(Kind, Arc<str>)> = Vec::new();
    let mut sum = 0_usize;
    for pod in pods {
        let Some(reference) = pod.meta.controller() else {
            continue;
        };
        let none = || format!("found no controllers for pod \"{}\"", pod.meta.name);
        let kind = Kind::named(&reference.kind).ok_or_else(none)?;
        let namespace = &pod.meta.namespace;
        let mut controller = view
            .find(kind, namespace, &reference.name)
            .filter(|controller| controller.meta.uid == reference.uid)
            .ok_or_else(none)?;
        let mut scaled = match kind {
            Kind::ReplicaSet | Kind::StatefulSet => kind,
            _ => return Err(none()),
        };
        let above = controller
            .meta
            .controller()
            .filter(|above| &*above.kind == "Deployment");
        if let Some(above) = above
            && let Some(deployment) = view.find(Kind::Deployment, namespace, &above.name)
        {
            (scaled, controller) = (Kind::Deployment, deployment);
        }
        let key = (scaled, Arc::clone(&controller.meta.name));
        if !seen.contains(&key) {
            seen.push(key);
            sum = sum.saturating_add(replicas(&controller));
        }
    }
    Ok(sum)
}
