//! Policies of Jobs for failed pods and success.
//!
//! # Upstream
//! `validatePodFailurePolicy` and `validateSuccessPolicy` in `pkg/apis/batch/validation/validation.go`, 1.36.

use std::collections::BTreeSet;

use super::{
    super::field::{At, Check},
    jobs::{intervals, spec_of},
};

pub(super) fn container_name(name: &At<'_>, c: &mut Check) {
    let lists = spec_of(c)
        .get("template")
        .get("spec")
        .fields(["containers", "initContainers"]);
    let mut containers = lists.iter().flat_map(At::items);
    if !containers.any(|container| container.get("name").text() == name.text()) {
        let problem = "must be one of the container or initContainer names in the pod template";
        name.invalid(c, problem);
    }
}

/// The exit codes of a rule, in their order.
pub(super) fn codes(codes: &At<'_>, c: &mut Check) {
    let (operator, values) = (codes.get("operator").text(), codes.get("values"));
    let mut seen = BTreeSet::new();
    let mut is_ordered = true;
    for value in values.items() {
        let code = value.number();
        if operator == "In" && code == 0 {
            value.invalid_as(c, "0", "must not be 0 for the In operator");
        }
        is_ordered &= seen.last().is_none_or(|last| *last <= code);
        if !seen.insert(code) {
            value.duplicate(c);
        }
    }
    if !is_ordered {
        values.invalid_typed(c, "[]int32", "must be ordered");
    }
}

/// The indexes of a rule for success, and how many of them are needed.
pub(super) fn success_rule(rule: &At<'_>, c: &mut Check) {
    let completions = spec_of(c).get("completions").number();
    let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
    let total = intervals(indexes.text(), completions);
    if let Err(problem) = &total {
        indexes.invalid(c, &format!("error parsing succeededIndexes: {problem}"));
    }
    if !count.is_set() {
        return;
    }
    count.not_negative(c);
    let mut at_most = |max: i64, what: &str| {
        if count.number() > max {
            count.invalid(
                c,
                &format!("must be less than or equal to {max} (the number of {what})"),
            );
        }
    };
    at_most(completions, "specified completions");
    if indexes.is_set() {
        let total = total.unwrap_or_default();
        at_most(total, "indexes in the specified succeededIndexes field");
    }
}
