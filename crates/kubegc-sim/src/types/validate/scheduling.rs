//! Validation of the scheduling of pods: affinity, spreading, tolerations, gates.
//!
//! # Upstream
//! `validateAffinity`, `validateTopologySpreadConstraints`, `ValidateTolerations` and
//! `validateSchedulingGates` in
//! [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go),
//! 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use super::selector::{label_selector, node_selector, node_selector_term};
use crate::{formats, status::quoted};

/// `validateSchedulingGates`.
pub(super) fn gates(at: &At<'_>, c: &mut Check) {
    let mut names = BTreeSet::new();
    for gate in at.items() {
        let named = At {
            value: gate.get("name").value,
            path: gate.path,
        };
        named.qualified_name(c);
        if !names.insert(named.text()) {
            named.duplicate(c);
        }
    }
}

/// `validateAffinity`.
pub(super) fn affinity(at: &At<'_>, c: &mut Check) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let weight = |term: &At<'_>, c: &mut Check| {
        let weight = term.get("weight");
        if !(1..=100).contains(&weight.number()) {
            weight.invalid(c, "must be in the range 1-100");
        }
    };
    let node = at.get("nodeAffinity");
    if node.get(REQUIRED).is_set() {
        node_selector(&node.get(REQUIRED), c);
    }
    for term in node.get(PREFERRED).items() {
        weight(&term, c);
        node_selector_term(&term.get("preference"), false, c);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = at.get(key);
        for term in pods.get(REQUIRED).items() {
            pod_affinity_term(&term, c);
        }
        for term in pods.get(PREFERRED).items() {
            weight(&term, c);
            pod_affinity_term(&term.get("podAffinityTerm"), c);
        }
    }
}

fn pod_affinity_term(term: &At<'_>, c: &mut Check) {
    label_selector(&term.get("labelSelector"), c);
    label_selector(&term.get("namespaceSelector"), c);
    for name in term.get("namespaces").items() {
        for problem in formats::label(c.version, name.text()) {
            term.get("namespace").invalid_as(c, &name.shown(), &problem);
        }
    }
    let (matching, other) = (term.get("matchLabelKeys"), term.get("mismatchLabelKeys"));
    for keys in [&matching, &other] {
        label_keys(keys, &term.get("labelSelector"), c);
    }
    for key in matching.items() {
        if other.items().any(|known| known.text() == key.text()) {
            key.invalid(c, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    let key = term.get("topologyKey");
    if key.text().is_empty() {
        key.required(c, "can not be empty");
    }
    key.qualified_name(c);
}

/// Keys of labels whose values come from the pod; they extend a selector.
fn label_keys(keys: &At<'_>, selector: &At<'_>, c: &mut Check) {
    if !keys.is_empty() && !selector.is_set() {
        keys.forbidden(c, "must not be specified when labelSelector is not set");
    }
    for key in keys.items() {
        key.qualified_name(c);
    }
}

/// `validateTopologySpreadConstraints`.
pub(super) fn spread_constraints(at: &At<'_>, c: &mut Check) {
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    let all: Vec<At<'_>> = at.items().collect();
    for (index, constraint) in all.iter().enumerate() {
        let (skew, key) = (constraint.get("maxSkew"), constraint.get("topologyKey"));
        let action = constraint.get("whenUnsatisfiable");
        if skew.number() <= 0 {
            skew.invalid(c, "must be greater than zero");
        }
        if key.text().is_empty() {
            key.required(c, "can not be empty");
        }
        if !ACTIONS.contains(&action.text()) {
            action.unsupported(c, &ACTIONS);
        }
        let same = |other: &At<'_>| {
            other.get("topologyKey").text() == key.text()
                && other.get("whenUnsatisfiable").text() == action.text()
        };
        if all.iter().skip(index + 1).any(same) {
            let pair = quoted(&format!("{{{}, {}}}", key.text(), action.text()));
            constraint
                .get("{topologyKey, whenUnsatisfiable}")
                .duplicate_as(c, &pair);
        }
        newer_spread_fields(constraint, c);
    }
}

/// The fields of a constraint that releases after 1.20 added.
fn newer_spread_fields(constraint: &At<'_>, c: &mut Check) {
    /// The keys are merged into the selector of a pod, so that it has them.
    const KEYS_ARE_MERGED: u16 = 34;
    let domains = constraint.get("minDomains");
    if domains.is_set() {
        if domains.number() <= 0 {
            domains.invalid(c, "must be greater than zero");
        }
        let action = constraint.get("whenUnsatisfiable").text();
        if action != "DoNotSchedule" {
            let problem = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            domains.invalid(c, &problem);
        }
    }
    for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        let policy = constraint.get(key);
        if policy.is_set() && !matches!(policy.text(), "Honor" | "Ignore") {
            policy.unsupported(c, &["Honor", "Ignore"]);
        }
    }
    let (keys, selector) = (constraint.get("matchLabelKeys"), constraint.get("labelSelector"));
    label_keys(&keys, &selector, c);
    if !c.since(KEYS_ARE_MERGED) {
        for key in keys.items() {
            let mut expressions = selector.get("matchExpressions").items();
            let is_selected = selector.get("matchLabels").key(key.text()).is_set()
                || expressions.any(|expression| expression.get("key").text() == key.text());
            if is_selected {
                key.invalid(c, "exists in both matchLabelKeys and labelSelector");
            }
        }
    }
    if c.version.has(SPREAD_SELECTORS_ARE_VALIDATED) {
        label_selector(&selector, c);
    }
}

/// The label selectors of spread constraints are validated.
const SPREAD_SELECTORS_ARE_VALIDATED: Behavior =
    Behavior::since(27, 0, "validateTopologySpreadConstraints of 1.27");
/// A toleration with a superfluous value is refused for the value, before for the whole toleration.
const VALUES_OF_TOLERATIONS_ARE_SHOWN: Behavior = Behavior::since(32, 0, "ValidateTolerations of 1.32");

/// `ValidateTolerations`.
pub(super) fn tolerations(at: &At<'_>, c: &mut Check) {
    for toleration in at.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        if !key.text().is_empty() {
            key.qualified_name(c);
        } else if operator.text() != "Exists" {
            let problem =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            operator.invalid_as(c, &quoted(operator.text()), problem);
        }
        if toleration.get("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let problem = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            effect.invalid_as(c, &quoted(effect.text()), problem);
        }
        match operator.text() {
            "Equal" | "" => {
                let problems = formats::label_value(c.version, value.text());
                if !problems.is_empty() {
                    operator.invalid_as(c, &quoted(value.text()), &problems.join(";"));
                }
            }
            "Exists" if c.version.has(VALUES_OF_TOLERATIONS_ARE_SHOWN) => {
                if !value.text().is_empty() {
                    operator.invalid_as(
                        c,
                        &value.shown(),
                        "value must be empty when `operator` is 'Exists'",
                    );
                }
            }
            "Exists" => {
                if !value.text().is_empty() {
                    let seconds = if toleration.get("tolerationSeconds").is_set() {
                        "<ptr>"
                    } else {
                        "nil"
                    };
                    let shown = format!(
                        "core.Toleration{{Key:{}, Operator:\"Exists\", Value:{}, Effect:{}, TolerationSeconds:(*int64)({seconds})}}",
                        quoted(key.text()),
                        quoted(value.text()),
                        quoted(effect.text()),
                    );
                    operator.invalid_as(c, &shown, "value must be empty when `operator` is 'Exists'");
                }
            }
            // The feature gate `TaintTolerationComparisonOperators` is off.
            "Lt" | "Gt" if c.since(35) => operator.unsupported(c, &["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.unsupported(c, &["Equal", "Exists"]),
        }
        if !effect.text().is_empty() {
            taint_effect(&effect, c);
        }
    }
}

/// `validateTaintEffect`.
pub(super) fn taint_effect(effect: &At<'_>, c: &mut Check) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !EFFECTS.contains(&effect.text()) {
        effect.unsupported(c, &EFFECTS);
    }
}
