//! Validation of the scheduling of pods: affinity, spreading, tolerations, gates.
//!
//! # Upstream
//! `validateAffinity`, `validateTopologySpreadConstraints`, `ValidateTolerations` and
//! `validateSchedulingGates` in
//! [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go),
//! 1.20.2 and newer.

use super::super::field::{At, Check};
use super::rules;
use crate::{formats, status::quoted};

/// The namespaces of a term; upstream omits their position.
pub(super) fn namespaces(term: &At<'_>, c: &mut Check) {
    let at = term.get("namespace");
    for name in term.get("namespaces").texts() {
        at.problems_of(c, name, formats::label(c.version, name));
    }
}

pub(super) fn both_keys(term: &At<'_>, c: &mut Check) {
    let other = term.get("mismatchLabelKeys").texts();
    for key in term.get("matchLabelKeys").items() {
        if other.contains(&key.text()) {
            key.invalid(c, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
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
        rules::apply("TopologySpreadConstraint", constraint, c);
    }
}

/// Domains can be counted only where pods stay unscheduled otherwise.
pub(super) fn min_domains(constraint: &At<'_>, c: &mut Check) {
    let action = constraint.get("whenUnsatisfiable").text();
    let problem = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
    constraint.get("minDomains").invalid(c, &problem);
}

/// Keys that the selector selects by itself; since 1.34 the keys are merged into the selector of a pod.
pub(super) fn selected_keys(constraint: &At<'_>, c: &mut Check) {
    let selector = constraint.get("labelSelector");
    for key in constraint.get("matchLabelKeys").items() {
        let mut expressions = selector.get("matchExpressions").items();
        let is_selected = selector.get("matchLabels").key(key.text()).is_set()
            || expressions.any(|expression| expression.get("key").text() == key.text());
        if is_selected {
            key.invalid(c, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// `ValidateTolerations`.
pub(super) fn tolerations(at: &At<'_>, c: &mut Check) {
    for toleration in at.items() {
        rules::apply("Toleration", &toleration, c);
    }
}

pub(super) fn value_of_toleration(toleration: &At<'_>, c: &mut Check) {
    let value = toleration.get("value").text();
    let problems = formats::label_value(c.version, value);
    if !problems.is_empty() {
        let operator = toleration.get("operator");
        operator.invalid_as(c, &quoted(value), &problems.join(";"));
    }
}

/// A toleration of any value has none; before 1.32 the whole toleration was shown.
pub(super) fn superfluous_value(toleration: &At<'_>, c: &mut Check) {
    let [key, value, effect] = ["key", "value", "effect"].map(|key| quoted(toleration.get(key).text()));
    let seconds = match toleration.get("tolerationSeconds").is_set() {
        true => "<ptr>",
        false => "nil",
    };
    let whole = format!(
        "core.Toleration{{Key:{key}, Operator:\"Exists\", Value:{value}, Effect:{effect}, \
         TolerationSeconds:(*int64)({seconds})}}"
    );
    let shown = if c.since(32) { &value } else { &whole };
    let operator = toleration.get("operator");
    operator.invalid_as(c, shown, "value must be empty when `operator` is 'Exists'");
}

/// The feature gate `TaintTolerationComparisonOperators` is off.
pub(super) fn comparison(operator: &At<'_>, c: &mut Check) {
    operator.unsupported(c, &["Equal", "Exists", "Lt", "Gt"]);
}
