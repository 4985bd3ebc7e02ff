//! Labels and selectors.
//!
//! # Upstream
//! `apimachinery/pkg/apis/meta/v1/validation/validation.go`, and node selectors in
//! `pkg/apis/core/validation`, 1.20.2.

use kubegc_core::KubernetesVersion;
use serde_json::Value;

use super::{
    super::field::{At, Check},
    rules,
};
use crate::formats;

/// `ValidateLabels`.
pub(super) fn labels(at: &At<'_>, c: &mut Check) {
    for (key, value) in at.entries() {
        at.problems_of(c, key, formats::qualified_name(c.version, key));
        at.problems_of(c, value.text(), formats::label_value(c.version, value.text()));
    }
}

/// Whether a selector, which is set, selects everything.
pub(super) fn is_empty_selector(at: &At<'_>) -> bool {
    at.get("matchLabels").is_empty() && at.get("matchExpressions").is_empty()
}

/// Whether a valid selector matches these labels. `None` for an invalid selector.
pub(super) fn matches(selector: &At<'_>, labels: &Value, version: KubernetesVersion) -> Option<bool> {
    let mut c = Check::new(version, None);
    rules::apply("LabelSelector", selector, &mut c);
    if !c.causes.is_empty() {
        return None;
    }
    let of = |key: &str| labels.get(key).and_then(Value::as_str);
    crate::label_selector(selector.value).map(|selector| selector.matches_labels(of))
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

pub(super) fn one_value(requirement: &At<'_>, c: &mut Check) {
    let values = requirement.get("values");
    if values.len() != 1 {
        let problem = "must be specified single value when `operator` is 'Lt' or 'Gt'";
        values.required(c, problem);
    }
}

pub(super) fn one_field_value(requirement: &At<'_>, c: &mut Check) {
    let values = requirement.get("values");
    if values.len() != 1 {
        let problem = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        values.required(c, problem);
    }
}
