//! Changes of pods and of their status.
//!
//! # Upstream
//! `ValidatePodUpdate` and `ValidatePodStatusUpdate` in `pkg/apis/core/validation/validation.go`, 1.20.2 and
//! newer.

use kubegc_core::{Behavior, Quantity};
use serde_json::Value;

use super::super::{
    field::{At, Check},
    qos,
};
use crate::status::quoted;

/// Whether entries of a map were changed or removed.
pub(super) fn lost_entries(map: &At<'_>, c: &Check<'_>) -> bool {
    let mut old = At::of_object(map.old(c)).entries();
    old.any(|(key, value)| map.key(key).value != value.value)
}

/// Whether tolerations were removed, or changed beside their seconds.
pub(super) fn lost_tolerations(new: &At<'_>, c: &Check<'_>) -> bool {
    let mut old = At::of_object(new.old(c)).items();
    let but_seconds = |value: &Value| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        value
    };
    let kept: Vec<Value> = new.items().map(|one| but_seconds(one.value)).collect();
    old.any(|one| !kept.contains(&but_seconds(one.value)))
}

/// The ephemeral containers that a pod had.
pub(super) fn kept_containers(new: &At<'_>, c: &mut Check) {
    let old = At::of_object(new.old(c));
    for before in old.items() {
        let name = before.get("name").text();
        let after = new.items().find(|one| one.get("name").text() == name);
        let change = match after {
            None => "removed",
            Some(after) if after.value != before.value => "changed",
            Some(_) => continue,
        };
        let name = quoted(name);
        let problem = format!("existing ephemeral containers {name} may not be {change}\n");
        new.forbidden(c, &problem);
    }
}

/// The limits of the memory of a running container may shrink.
const MEMORY_MAY_SHRINK: Behavior = Behavior::since(34, 0, "the changelog of 1.34");

/// `ValidatePodResize`.
pub(super) fn resized(pod: &At<'_>, c: &mut Check) {
    let (spec, old_spec) = (pod.get("spec"), c.old().get("spec"));
    if qos::class(spec.value) != qos::class(old_spec.value) {
        let problem = "Pod QOS Class may not change as a result of resizing";
        let shown = quoted(pod.get("status").get("qosClass").text());
        spec.invalid_as(c, &shown, problem);
    }
    for list in ["initContainers", "containers"] {
        for (container, before) in spec.get(list).items().zip(old_spec.get(list).items()) {
            let is_sidecar = before.get("restartPolicy").text() == "Always";
            if list == "containers" || is_sidecar {
                container_resized(&spec, &container, &before, is_sidecar && list != "containers", c);
            } else if container.value != before.value {
                spec.forbidden(c, "resources for non-sidecar init containers are immutable");
            }
        }
    }
}

/// `validateContainerResize`.
fn container_resized(spec: &At<'_>, new: &At<'_>, old: &At<'_>, is_sidecar: bool, c: &mut Check) {
    let (resources, before) = (new.get("resources"), old.get("resources"));
    for (key, problem) in [
        ("requests", "resource requests cannot be removed"),
        ("limits", "resource limits cannot be removed"),
    ] {
        let amounts = resources.get(key);
        if before
            .get(key)
            .entries()
            .any(|(name, _)| !amounts.key(name).is_set())
        {
            amounts.forbidden(c, problem);
        }
    }
    let restarts = new.get("resizePolicy").items().any(|policy| {
        policy.get("resourceName").text() == "memory"
            && policy.get("restartPolicy").text() == "RestartContainer"
    });
    let memory = resources.get("limits").key("memory");
    let old_memory = before.get("limits").key("memory");
    if memory.is_set() && !restarts && !c.version.has(MEMORY_MAY_SHRINK) {
        let amount = |at: &At<'_>| Quantity::parse(at.text()).unwrap_or_default();
        if !old_memory.is_set() {
            memory.forbidden(
                c,
                "memory limits cannot be added unless resizePolicy is RestartContainer",
            );
        } else if amount(&memory) < amount(&old_memory) {
            memory.forbidden(
                c,
                "memory limits cannot be decreased unless resizePolicy is RestartContainer",
            );
        }
    }
    let others = |resources: &At<'_>| {
        ["requests", "limits"].map(|key| {
            let mut amounts = resources.get(key).value.as_object().cloned().unwrap_or_default();
            amounts.retain(|name, _| name != "cpu" && name != "memory");
            amounts
        })
    };
    if others(&resources) != others(&before) {
        let problem = match is_sidecar {
            true => "only cpu and memory resources for sidecar containers are mutable",
            false => "only cpu and memory resources are mutable",
        };
        spec.forbidden(c, problem);
    }
}

/// Containers that ended stay so, unless their policies restart them.
pub(super) fn restarts(status: &At<'_>, c: &mut Check) {
    let spec = c.old().get("spec");
    let policy = spec.get("restartPolicy").text();
    let is_sidecar = |name: &str| {
        let mut containers = spec.get("initContainers").items();
        containers.any(|container| {
            container.get("name").text() == name && container.get("restartPolicy").text() == "Always"
        })
    };
    restarted(&status.get("containerStatuses"), policy, |_| false, c);
    restarted(&status.get("initContainerStatuses"), policy, is_sidecar, c);
    restarted(&status.get("ephemeralContainerStatuses"), "Never", |_| false, c);
}

/// `ValidateContainerStateTransition`. `restarts` says which containers restart whatever the policy is.
fn restarted(new: &At<'_>, policy: &str, restarts: impl Fn(&str) -> bool, c: &mut Check) {
    if policy == "Always" {
        return;
    }
    let old = At::of_object(new.old(c));
    for (index, old) in old.items().enumerate() {
        let ended = old.get("state").get("terminated");
        let is_retried = ended.get("exitCode").number() != 0 && policy == "OnFailure";
        if !ended.is_set() || is_retried || restarts(old.get("name").text()) {
            continue;
        }
        for status in new.items() {
            if status.get("name").text() == old.get("name").text()
                && !status.get("state").get("terminated").is_set()
            {
                let at = new.items().nth(index).unwrap_or_else(|| new.clone());
                let problem = "may not be transitioned to non-terminated state";
                at.get("state").forbidden(c, problem);
            }
        }
    }
}
