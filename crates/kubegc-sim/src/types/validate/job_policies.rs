//! Policies of Jobs for failed pods, success and replacement.
//!
//! # Upstream
//! `validatePodFailurePolicy`, `validateSuccessPolicy` and `validatePodReplacementPolicy` in
//! `pkg/apis/batch/validation/validation.go`, 1.36.

use std::collections::BTreeSet;

use super::super::field::{At, Check};

const RULES_MAX: usize = 20;
const CODES_MAX: usize = 255;

/// One of these values, required; the message lists them.
fn one_of(at: &At<'_>, supported: &[&str], c: &mut Check) {
    if at.text().is_empty() {
        let listed: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        at.required(c, &format!("valid values: [{}]", listed.join(" ")));
    } else {
        at.one_of(c, supported);
    }
}

/// Policies for a job whose pods fail.
pub(super) fn failure(spec: &At<'_>, c: &mut Check) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let rules = spec.get("podFailurePolicy").get("rules");
    if rules.len() > RULES_MAX {
        rules.too_many(c, rules.len(), RULES_MAX);
    }
    for rule in rules.items() {
        let (action, codes, conditions) = (
            rule.get("action"),
            rule.get("onExitCodes"),
            rule.get("onPodConditions"),
        );
        if action.text() != "FailIndex" {
            one_of(&action, &ACTIONS, c);
        } else if !spec.get("backoffLimitPerIndex").is_set() {
            action.invalid(c, "requires the backoffLimitPerIndex to be set");
        }
        if codes.is_set() {
            exit_codes(&codes, &spec.get("template").get("spec"), c);
        }
        if conditions.len() > RULES_MAX {
            conditions.too_many(c, conditions.len(), RULES_MAX);
        }
        for condition in conditions.items() {
            condition.get("type").qualified_name(c);
            one_of(&condition.get("status"), &["False", "True", "Unknown"], c);
        }
        let problem = match (codes.is_set(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        rule.invalid_as(c, "", problem);
    }
}

fn exit_codes(codes: &At<'_>, pod: &At<'_>, c: &mut Check) {
    let (operator, name, values) = (
        codes.get("operator"),
        codes.get("containerName"),
        codes.get("values"),
    );
    one_of(&operator, &["In", "NotIn"], c);
    let mut containers = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod.get(list).items());
    if name.is_set() && !containers.any(|container| container.get("name").text() == name.text()) {
        name.invalid(
            c,
            "must be one of the container or initContainer names in the pod template",
        );
    }
    if values.is_empty() {
        values.invalid_typed(c, "[]int32", "at least one value is required");
    } else if values.len() > CODES_MAX {
        values.too_many(c, values.len(), CODES_MAX);
    }
    let mut seen = BTreeSet::new();
    let mut is_ordered = true;
    for value in values.items() {
        let code = value.number();
        if operator.text() == "In" && code == 0 {
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

/// When a job succeeds before all its indexes have.
pub(super) fn success(spec: &At<'_>, c: &mut Check) {
    let completions = spec.get("completions").number();
    let rules = spec.get("successPolicy").get("rules");
    if rules.is_empty() {
        let problem = "at least one rules must be specified when the successPolicy is specified";
        rules.required(c, problem);
    }
    if rules.len() > RULES_MAX {
        rules.too_many(c, rules.len(), RULES_MAX);
    }
    for rule in rules.items() {
        let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            let problem = "at least one of succeededCount or succeededIndexes must be specified";
            rule.required(c, problem);
        }
        let mut total = 0;
        if indexes.is_set() {
            match count_of_indexes(indexes.text(), completions) {
                Ok(found) => total = found,
                Err(problem) => {
                    indexes.invalid(c, &format!("error parsing succeededIndexes: {problem}"));
                }
            }
        }
        if !count.is_set() {
            continue;
        }
        count.not_negative(c);
        if count.number() > completions {
            let bound = format!("{completions} (the number of specified completions)");
            count.invalid(c, &format!("must be less than or equal to {bound}"));
        }
        if indexes.is_set() && count.number() > total {
            let bound = format!("{total} (the number of indexes in the specified succeededIndexes field)");
            count.invalid(c, &format!("must be less than or equal to {bound}"));
        }
    }
}

/// The number of indexes in a list of numbers and ranges such as `1,3-5`.
///
/// # Upstream
/// `validateIndexesFormat`.
fn count_of_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last): (i64, Option<i64>) = (0, None);
    for part in text.split(',') {
        let limits: Vec<&str> = part.split('-').collect();
        let numbers = match limits.as_slice() {
            [first] => [first, first],
            [first, second] => [first, second],
            _ => {
                return Err(format!(
                    "the fragment {part:?} violates the requirement that an index interval can have at most two parts \
                     separated by '-'"
                ));
            }
        };
        let mut ends = [0; 2];
        for (end, number) in ends.iter_mut().zip(numbers) {
            *end = number
                .parse()
                .map_err(|_| format!("cannot convert string to integer for index: {number:?}"))?;
            if *end >= completions {
                return Err(format!("too large index: {number:?}"));
            }
        }
        let [first, second] = ends;
        if last.is_some_and(|last| last >= first) {
            let last = last.unwrap_or_default();
            return Err(format!(
                "non-increasing order, previous: {last}, current: {first}"
            ));
        }
        if second < first {
            return Err(format!(
                "non-increasing order, previous: {first}, current: {second}"
            ));
        }
        total += second - first + 1;
        last = Some(second);
    }
    Ok(total)
}

/// When a failed pod is replaced.
pub(super) fn replacement(spec: &At<'_>, c: &mut Check) {
    let policy = spec.get("podReplacementPolicy");
    let supported: &[&str] = match spec.get("podFailurePolicy").is_set() {
        true => &["Failed"],
        false => &["Failed", "TerminatingOrFailed"],
    };
    if policy.is_set() && !supported.contains(&policy.text()) {
        policy.unsupported(c, supported);
    }
}
