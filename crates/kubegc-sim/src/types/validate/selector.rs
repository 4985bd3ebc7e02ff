//! Labels and selectors.
//!
//! # Upstream
//! `apimachinery/pkg/apis/meta/v1/validation/validation.go`, and node selectors in
//! `pkg/apis/core/validation`, 1.20.2.

use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::Value;

use super::super::field::{At, Check};
use crate::formats;

/// The values of the expressions of selectors are those of labels.
const VALUES_ARE_VALIDATED: Behavior = Behavior::since_about(27, "ValidateLabelSelectorRequirement of 1.27");

/// `ValidateLabels`.
pub(super) fn labels(at: &At<'_>, c: &mut Check) {
    for (key, value) in at.entries() {
        at.problems_of(c, key, formats::qualified_name(c.version, key));
        at.problems_of(c, value.text(), formats::label_value(c.version, value.text()));
    }
}

/// `ValidateLabelSelector`.
pub(super) fn label_selector(at: &At<'_>, c: &mut Check) {
    labels(&at.get("matchLabels"), c);
    for expression in at.get("matchExpressions").items() {
        let (operator, values) = (expression.get("operator"), expression.get("values"));
        match operator.text() {
            "In" | "NotIn" | "Exists" | "DoesNotExist" => values_of_operator(operator.text(), &values, c),
            _ => operator.invalid(c, "not a valid selector operator"),
        }
        expression.get("key").qualified_name(c);
        if c.version.has(VALUES_ARE_VALIDATED) {
            for value in values.items() {
                value.problems(c, formats::label_value(c.version, value.text()));
            }
        }
    }
}

/// Validates the values of a set operator: some require values, others forbid them.
fn values_of_operator(operator: &str, values: &At<'_>, c: &mut Check) {
    match (operator, values.is_empty()) {
        ("In" | "NotIn", true) => {
            values.required(c, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        ("Exists" | "DoesNotExist", false) => {
            let problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            values.forbidden(c, problem);
        }
        _ => {}
    }
}

/// Whether a selector, which is set, selects everything.
pub(super) fn is_empty_selector(at: &At<'_>) -> bool {
    at.get("matchLabels").is_empty() && at.get("matchExpressions").is_empty()
}

/// Whether a valid selector matches these labels. `None` for an invalid selector.
pub(super) fn matches(selector: &At<'_>, labels: &Value, version: KubernetesVersion) -> Option<bool> {
    let mut c = Check::new(version, None);
    label_selector(selector, &mut c);
    if !c.causes.is_empty() {
        return None;
    }
    let of = |key: &str| labels.get(key).and_then(Value::as_str);
    crate::label_selector(selector.value).map(|selector| selector.matches_labels(of))
}

/// `ValidateNodeSelector`.
pub(super) fn node_selector(at: &At<'_>, c: &mut Check) {
    let terms = at.get("nodeSelectorTerms");
    if terms.is_empty() {
        terms.required(c, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_selector_term(&term, true, c);
    }
}

/// `ValidateNodeSelectorTerm`.
fn node_selector_term(term: &At<'_>, is_required: bool, c: &mut Check) {
    for requirement in term.get("matchExpressions").items() {
        let (operator, values) = (requirement.get("operator"), requirement.get("values"));
        match operator.text() {
            "In" | "NotIn" | "Exists" | "DoesNotExist" => values_of_operator(operator.text(), &values, c),
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    values.required(
                        c,
                        "must be specified single value when `operator` is 'Lt' or 'Gt'",
                    );
                }
            }
            _ => operator.invalid(c, "not a valid selector operator"),
        }
        requirement.get("key").qualified_name(c);
        if is_required && c.since(33) {
            for value in values.items() {
                value.problems(c, formats::label_value(c.version, value.text()));
            }
        }
    }
    for requirement in term.get("matchFields").items() {
        let (operator, values) = (requirement.get("operator"), requirement.get("values"));
        match operator.text() {
            "In" | "NotIn" => {
                if values.len() != 1 {
                    let problem =
                        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    values.required(c, problem);
                }
            }
            _ => operator.invalid(c, "not a valid selector operator"),
        }
        if requirement.get("key").text() == "metadata.name" {
            for value in values.items() {
                value.subdomain(c);
            }
        } else {
            requirement
                .get("key")
                .invalid(c, "not a valid field selector key");
        }
    }
}

/// The reason of a condition.
pub(super) fn condition_reason(reason: &At<'_>, c: &mut Check) {
    if !is_reason(reason.text()) {
        let problem = "a condition reason must start with alphabetic character, optionally followed by a string of \
                       alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
                       'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', \
                       regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
        reason.invalid(c, problem);
    }
}

/// Whether a text can be the reason of a condition.
fn is_reason(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    text.starts_with(|char: char| char.is_ascii_alphabetic())
        && text.bytes().all(is_inner)
        && !text.ends_with([',', ':'])
}

pub(super) fn preference(term: &At<'_>, c: &mut Check) {
    node_selector_term(term, false, c);
}
