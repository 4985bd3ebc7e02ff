//! Eviction of pods, and binding of pods to nodes.

use std::sync::Arc;

use kubegc_core::{Behavior, KindId, LabelSelector, deletion::DeleteOptionsSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ApiServer;
use crate::{
    Manifest, StoredObject,
    api_server::{
        EventType, Key, Response,
        crd::put_condition,
        create::other_namespace,
        delete::valid,
        write::{Part, Request},
    },
    label_selector,
    status::{self, Cause, Details, Result},
};

/// Pods that are not ready do not count where enough others are healthy.
const UNREADY_PODS_ARE_EXEMPT: Behavior = Behavior::since(20, 0, "kubernetes #94381");
/// A budget says how pods that are not ready are evicted.
const UNREADY_PODS_HAVE_A_POLICY: Behavior = Behavior::since(27, 0, "PDBUnhealthyPodEvictionPolicy, beta");

/// A budget with more healthy pods than it needs does not say that it needs them, but what its
/// condition says.
const BUDGETS_SAY_WHY: Behavior = Behavior::since(35, 0, "checkAndDecrement of 1.35");
/// A budget has a condition that says whether it allows disruptions.
const BUDGETS_SHOW_WHETHER_THEY_ALLOW: Behavior = Behavior::since(21, 0, "kubernetes #98127");

/// Reason and message of the condition that denies disruptions, if it gives a message.
fn denial(budget: &StoredObject) -> Option<(&str, &str)> {
    let found = budget.condition("DisruptionAllowed");
    let text = |key: &str| found[key].as_str().unwrap_or_default();
    let denies = text("status") == "False" && !text("message").is_empty();
    denies.then(|| (text("reason"), text("message")))
}

impl ApiServer {
    /// Evicts a pod.
    ///
    /// # Upstream
    /// `EvictionREST.Create` in `pkg/registry/core/pod/storage/eviction.go`, 1.30.
    pub(super) fn evict(&mut self, key: Key<'_>, eviction: &Value) -> Result<Response> {
        let (kind, namespace, name) = (key.kind, key.namespace, key.name);
        let sent = Manifest::read(eviction.clone())?;
        let own = &sent.object.meta.namespace;
        if !own.is_empty() && **own != *namespace {
            return Err(other_namespace());
        }
        if *sent.object.meta.name != *name {
            return Err(status::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let options = match sent.object.at(&["deleteOptions"]) {
            None | Some(Value::Null) => DeleteOptionsSpec::default(),
            Some(options) => DeleteOptionsSpec::deserialize(options)
                .map_err(|problem| status::bad_request(format!("deleteOptions: {problem}")))?,
        };
        let options = valid(self.version, &options)?;
        let pod = self.existing(key)?;
        self.admit(Request::new(kind, Part::Eviction, Some(&pod), None))?;
        self.review_part(kind, Part::Eviction, None, eviction)?;
        let phase = pod.text_at(&["status", "phase"]);
        let needs_none = pod.meta.is_deleting() || matches!(phase, "Succeeded" | "Failed" | "Pending");
        if !needs_none
            && let Some((budgets, budget)) = self.budget_of(&pod)?
            && !self.is_exempt(&pod, &budget)
        {
            self.count_down(budgets, &budget, name, options.dry_run)?;
        }
        // The deletion itself runs no admission.
        let response = self.without_webhooks(|server| server.try_delete(key, &options))?;
        // The response does not contain the pod.
        Ok(created().with(response.warnings))
    }

    fn budget_of(&self, pod: &StoredObject) -> Result<Option<(KindId, Arc<StoredObject>)>> {
        let catalog = self.catalog();
        let mut kinds = ["policy/v1", "policy/v1beta1"]
            .into_iter()
            .filter_map(|version| catalog.mapping(version, "PodDisruptionBudget"));
        let Some(kind) = kinds.find(|&kind| self.serves(kind)) else {
            return Ok(None);
        };
        let old = &*self.resource(kind).version == "v1beta1";
        let mut budgets = self.objects(kind, Some(&pod.meta.namespace));
        budgets.retain(|budget| selects(budget, pod, old));
        if budgets.len() > 1 {
            let problem = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(status::internal(problem));
        }
        Ok(budgets.pop().map(|budget| (kind, budget)))
    }

    /// Whether a pod that is not ready can be evicted regardless of the allowed disruptions.
    fn is_exempt(&self, pod: &StoredObject, budget: &StoredObject) -> bool {
        if pod.condition("Ready")["status"] == "True" {
            return false;
        }
        let number = |key: &str| budget.at(&["status", key]).and_then(Value::as_i64).unwrap_or(0);
        let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
        let is_always = budget.text_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        (is_always && self.version.has(UNREADY_PODS_HAVE_A_POLICY))
            || (healthy >= desired && desired > 0 && self.version.has(UNREADY_PODS_ARE_EXEMPT))
    }

    /// Decrements the allowed disruptions of a budget. A budget without this number, as without a controller,
    /// allows all.
    fn count_down(&mut self, kind: KindId, budget: &StoredObject, pod: &str, dry_run: bool) -> Result<()> {
        const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
        let refused = |message: String, retry_after_seconds| {
            let cause = Cause::new("DisruptionBudget", "", message);
            let mut details = Details::default().with_causes(vec![cause]);
            details.retry_after_seconds = retry_after_seconds;
            Err(status::refusal(429, "TooManyRequests", REFUSED, details))
        };
        let number = |key: &str| budget.at(&["status", key]).and_then(Value::as_i64);
        let name = &budget.meta.name;
        let Some(allowed) = number("disruptionsAllowed") else {
            return Ok(());
        };
        if number("observedGeneration").unwrap_or(0) < budget.meta.generation {
            let message = format!("The disruption budget {name} is still being processed by the server.");
            return refused(message, Some(10));
        }
        if allowed <= 0 {
            let (needed, healthy) = (number("desiredHealthy"), number("currentHealthy"));
            let (needed, healthy) = (needed.unwrap_or(0), healthy.unwrap_or(0));
            let denial = denial(budget);
            let refusal = format!("The disruption budget {name} does not allow evicting pods currently");
            let message = match denial.filter(|_| self.version.has(BUDGETS_SAY_WHY)) {
                Some(("SyncFailed", why)) => format!("{refusal} because it failed sync: {why}"),
                _ if healthy <= needed || !self.version.has(BUDGETS_SAY_WHY) => format!(
                    "The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
                ),
                Some((reason, why)) => format!("{refusal} ({reason}): {why}"),
                None => refusal,
            };
            return refused(message, None);
        }
        if dry_run {
            return Ok(());
        }
        let mut changed = budget.clone();
        let time = self.now.truncate_to_secs().to_string();
        for (path, value) in [
            (&["status", "disruptionsAllowed"][..], Value::from(allowed - 1)),
            (&["status", "disruptedPods", pod], time.as_str().into()),
        ] {
            changed.put(path, Some(&value));
        }
        if self.version.has(BUDGETS_SHOW_WHETHER_THEY_ALLOW) {
            let disruptions = allowed - 1;
            let (state, reason) = match disruptions > 0 {
                true => ("True", "SufficientPods"),
                false => ("False", "InsufficientPods"),
            };
            let condition = json!({
                "type": "DisruptionAllowed",
                "status": state,
                "observedGeneration": budget.at(&["status", "observedGeneration"]),
                "reason": reason,
                "message": "",
            });
            put_condition(&mut changed, condition, self.now);
        }
        self.commit(kind, changed, EventType::Modified);
        Ok(())
    }

    /// Binds a pod to a node.
    ///
    /// # Upstream
    /// `BindingREST.Create` in `pkg/registry/core/pod/storage/storage.go`, 1.30.
    pub(super) fn bind(&mut self, key: Key<'_>, binding: &Value) -> Result<Response> {
        let (kind, name) = (key.kind, key.name);
        let sent = Manifest::read(binding.clone())?;
        if !sent.object.meta.name.is_empty() {
            self.check_names(&sent.object.meta, key)?;
        }
        let node = sent.object.text_at(&["target", "name"]);
        let target = sent.object.text_at(&["target", "kind"]);
        let mut problems = Vec::new();
        if !matches!(target, "" | "Node") {
            let problem = "supported values: \"Node\", \"<empty>\"";
            let shown = status::quoted(target);
            problems.push(format!("target.kind: Unsupported value: {shown}: {problem}"));
        }
        if node.is_empty() {
            problems.push("target.name: Required value".to_owned());
        }
        if !problems.is_empty() {
            return Err(status::internal(status::joined(&problems)));
        }
        let existing = self.existing(key)?;
        let assigned = existing.text_at(&["spec", "nodeName"]);
        let conflict = |why: String| {
            let mut binding = self.resource(kind).clone();
            binding.resource = "pods/binding".into();
            Err(status::conflict(&binding, name, &why))
        };
        if existing.meta.is_deleting() {
            return conflict(format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            ));
        }
        if !assigned.is_empty() {
            let node = status::quoted(assigned);
            return conflict(format!("pod {name} is already assigned to node {node}"));
        }
        if !existing.list_at(&["spec", "schedulingGates"]).is_empty() {
            return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        self.review_part(kind, Part::Binding, None, binding)?;
        let mut pod = StoredObject::clone(&existing);
        pod.put(&["spec", "nodeName"], Some(&node.into()));
        // A pod that is bound is no longer nominated for a node, since 1.35.
        if self.version.minor() >= 35 {
            pod.put(&["status", "nominatedNodeName"], None);
        }
        if let Some(Value::Object(annotations)) = sent.object.at(&["metadata", "annotations"]) {
            for (key, value) in annotations {
                pod.put(&["metadata", "annotations", key.as_str()], Some(value));
            }
        }
        set_scheduled(&mut pod, &self.now.truncate_to_secs().to_string());
        self.replace(kind, &existing, pod, Part::Binding, None, Vec::new())?;
        Ok(created())
    }
}

/// A success without an object in the response.
fn created() -> Response {
    status::refusal(201, "", "", None).into()
}

fn set_scheduled(pod: &mut StoredObject, now: &str) {
    let path = ["status", "conditions"];
    let mut conditions = pod.list_at(&path).to_vec();
    conditions.retain(|condition| condition.get("type") != Some(&"PodScheduled".into()));
    conditions.push(json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": now,
    }));
    pod.put(&path, Some(&conditions.into()));
}

/// Whether a budget selects a pod. Without a selector it selects none. An empty selector selects all pods,
/// but none in `policy/v1beta1`.
fn selects(budget: &StoredObject, pod: &StoredObject, old: bool) -> bool {
    let selector = budget
        .at(&["spec", "selector"])
        .filter(|selector| selector.is_object());
    let selects = |selector: LabelSelector| match selector.is_empty() {
        true => !old,
        false => selector.matches(&pod.meta),
    };
    selector.and_then(label_selector).is_some_and(selects)
}
