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

/// `validateTopologySpreadConstraints`: of equal constraints, each but the last one is reported.
pub(super) fn spread_constraints(at: &At<'_>, c: &mut Check) {
    fn pair<'v>(constraint: &At<'v>) -> [&'v str; 2] {
        ["topologyKey", "whenUnsatisfiable"].map(|key| constraint.get(key).text())
    }
    for (index, constraint) in at.items().enumerate() {
        rules::apply("SpreadConstraint", &constraint, c);
        let [key, action] = pair(&constraint);
        if at
            .items()
            .skip(index + 1)
            .any(|other| pair(&other) == [key, action])
        {
            let shown = quoted(&format!("{{{key}, {action}}}"));
            let both = constraint.get("{topologyKey, whenUnsatisfiable}");
            both.duplicate_as(c, &shown);
        }
        rules::apply("TopologySpreadConstraint", &constraint, c);
    }
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

pub(super) fn value_of_toleration(toleration: &At<'_>, c: &mut Check) {
    let value = toleration.get("value").text();
    let problems = formats::label_value(c.version, value);
    if !problems.is_empty() {
        let operator = toleration.get("operator");
        operator.invalid_as(c, &quoted(value), &problems.join(";"));
    }
}
