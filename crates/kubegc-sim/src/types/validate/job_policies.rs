//! Policies of Jobs for failed pods and success.
//!
//! # Upstream
//! `validatePodFailurePolicy` and `validateSuccessPolicy` in `pkg/apis/batch/validation/validation.go`, 1.36.

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

pub(super) fn ordered(values: &At<'_>, c: &mut Check) {
    if !values.items().map(|value| value.number()).is_sorted() {
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
