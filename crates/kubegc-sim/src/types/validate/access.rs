//! RBAC, disruption budgets, priority classes.
//!
//! # Upstream
//! `pkg/apis/rbac/validation`, `pkg/apis/policy/validation`, `pkg/apis/scheduling/validation`, 1.20.2.

use kubegc_core::version::behavior::VALUES_ARE_JSON;
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{
    go_strings, go_syntax,
    selector::label_selector,
    workloads::{at_most_all, int_or_percent},
};
use crate::{StoredObject, formats};

type Object = Map<String, Value>;

const GROUP: &str = "rbac.authorization.k8s.io";

/// `ValidateRole` and `ValidateClusterRole`.
pub(super) fn role(body: &Object, is_namespaced: bool, c: &mut Check) {
    for rule in At::root(body, "rules").items() {
        policy_rule(&rule, is_namespaced, c);
    }
    let selectors = At::root(body, "aggregationRule").get("clusterRoleSelectors");
    if At::root(body, "aggregationRule").is_set() && !is_namespaced {
        if selectors.is_empty() {
            let problem = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            selectors.required(c, problem);
        }
        for selector in selectors.items() {
            let before = c.causes.len();
            label_selector(&selector, c);
            if c.causes.len() > before {
                let shown = match c.version.has(VALUES_ARE_JSON) {
                    true => "null",
                    false => "\"null\"",
                };
                selector.invalid_as(c, shown, "invalid label selector.");
            }
        }
    }
}

fn policy_rule(rule: &At<'_>, is_namespaced: bool, c: &mut Check) {
    if rule.get("verbs").is_empty() {
        rule.get("verbs")
            .required(c, "verbs must contain at least one value");
    }
    let urls = rule.get("nonResourceURLs");
    if !urls.is_empty() {
        let shown = go_strings(c.version, &urls.items().map(|url| url.text()).collect::<Vec<_>>());
        if is_namespaced {
            urls.invalid_as(c, &shown, "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"]
            .iter()
            .any(|key| !rule.get(key).is_empty())
        {
            let problem = "rules cannot apply to both regular resources and non-resource URLs";
            urls.invalid_as(c, &shown, problem);
        }
        return;
    }
    for (key, singular) in [("apiGroups", "api group"), ("resources", "resource")] {
        if rule.get(key).is_empty() {
            rule.get(key)
                .required(c, &format!("resource rules must supply at least one {singular}"));
        }
    }
}

/// `ValidateRoleBinding` and `ValidateClusterRoleBinding`.
pub(super) fn binding(body: &Object, is_namespaced: bool, c: &mut Check) {
    let role = At::root(body, "roleRef");
    let (group, kind, name) = (role.get("apiGroup"), role.get("kind"), role.get("name"));
    if group.text() != GROUP {
        group.unsupported(c, &[GROUP]);
    }
    let kinds: &[&str] = if is_namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&kind.text()) {
        kind.unsupported(c, kinds);
    }
    if name.text().is_empty() {
        name.required(c, "");
    } else {
        name.problems(c, formats::path_segment(name.text()));
    }
    for subject in At::root(body, "subjects").items() {
        let (name, group) = (subject.get("name"), subject.get("apiGroup"));
        name.present(c);
        match subject.get("kind").text() {
            "ServiceAccount" => {
                if !name.text().is_empty() {
                    name.subdomain(c);
                }
                if !group.text().is_empty() {
                    group.unsupported(c, &[""]);
                }
                if !is_namespaced && subject.get("namespace").text().is_empty() {
                    subject.get("namespace").required(c, "");
                }
            }
            "User" | "Group" => {
                if group.text() != GROUP {
                    group.unsupported(c, &[GROUP]);
                }
            }
            _ => subject
                .get("kind")
                .unsupported(c, &["ServiceAccount", "User", "Group"]),
        }
    }
}

/// Validates the immutable fields of bindings.
pub(super) fn binding_updated(body: &Object, old: &Object, c: &mut Check) {
    let (new, old) = (At::root(body, "roleRef"), At::root(old, "roleRef"));
    if new.value != old.value {
        new.invalid_typed(c, "rbac.RoleRef", "cannot change roleRef");
    }
}

/// `ValidatePodDisruptionBudgetSpec`.
pub(super) fn disruption_budget(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    let (available, unavailable) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if available.is_set() && unavailable.is_set() {
        let shown = go_syntax::value(c.version, spec.value, "policy.PodDisruptionBudgetSpec");
        spec.invalid_as(c, &shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for amount in [available, unavailable].into_iter().filter(At::is_set) {
        int_or_percent(&amount, c);
        at_most_all(&amount, c);
    }
    label_selector(&spec.get("selector"), c);
    let policy = spec.get("unhealthyPodEvictionPolicy");
    if policy.is_set() && !matches!(policy.text(), "AlwaysAllow" | "IfHealthyBudget") {
        policy.unsupported(c, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}

/// `ValidatePriorityClass`.
pub(super) fn priority_class(class: &StoredObject, body: &Object, c: &mut Check) {
    const USER_MAX: i64 = 1_000_000_000;
    const SYSTEM: [(&str, i64); 2] = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    let value = At::root(body, "value");
    let name = &*class.meta.name;
    if name.starts_with("system-") {
        let known = SYSTEM.iter().find(|(known, _)| *known == name);
        let problem = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, expected)) if value.number() != *expected => {
                Some(format!("value of {name} PriorityClass must be {expected}"))
            }
            Some(_) if At::root(body, "globalDefault").flag() => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            let problem = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            );
            At::root(body, "metadata").get("name").forbidden(c, &problem);
        }
    } else if value.number() > USER_MAX {
        let problem = format!("maximum allowed value of a user defined priority is {USER_MAX}");
        value.forbidden(c, &problem);
    }
    let policy = At::root(body, "preemptionPolicy");
    if policy.is_set() {
        policy.one_of(c, &["PreemptLowerPriority", "Never"]);
    }
}

/// `ValidatePriorityClassUpdate`.
pub(super) fn priority_class_updated(body: &Object, old: &Object, c: &mut Check) {
    if body.get("value") != old.get("value") {
        let name = if c.since(25) { "value" } else { "Value" };
        At::root(body, name).forbidden(c, "may not be changed in an update.");
    }
    if body.get("preemptionPolicy") != old.get("preemptionPolicy") {
        let policy = At::root(body, "preemptionPolicy");
        policy.invalid(c, "field is immutable");
    }
}
