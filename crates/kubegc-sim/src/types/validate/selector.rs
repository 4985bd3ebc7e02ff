//! Labels and selectors.
//!
//! # Upstream
//! `apimachinery/pkg/apis/meta/v1/validation/validation.go`, and node selectors in
//! `pkg/apis/core/validation`, 1.20.2.

use kubegc_core::KubernetesVersion;
use serde_json::Value;

use super::{
    super::field::{At, Check},
    apply,
};
use crate::formats;

/// `ValidateLabels`.
pub(super) fn labels(at: &At<'_>, c: &mut Check) {
    for (key, value) in at.entries() {
        at.problems_of(c, key, formats::qualified_name(c.version, key));
        at.problems_of(c, value.text(), formats::label_value(c.version, value.text()));
    }
}

/// Whether a valid selector matches these labels. `None` for an invalid selector.
pub(super) fn matches(selector: &At<'_>, labels: &Value, version: KubernetesVersion) -> Option<bool> {
    let mut c = Check::new(version, None);
    apply("LabelSelector", selector, &mut c);
    if !c.causes.is_empty() {
        return None;
    }
    let of = |key: &str| labels.get(key).and_then(Value::as_str);
    crate::label_selector(selector.value).map(|selector| selector.matches_labels(of))
}
