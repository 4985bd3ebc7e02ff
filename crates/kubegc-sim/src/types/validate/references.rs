//! References from variables and volumes to fields of the pod.
//!
//! # Upstream
//! `validateObjectFieldSelector` in
//! `pkg/apis/core/validation/validation.go`, 1.20.2.

use super::super::field::{At, Check};
use crate::formats;

/// The key of a field with one, such as `metadata.labels['key']`.
pub(super) fn subscript(reference: &At<'_>, c: &mut Check) {
    let path = reference.get("fieldPath");
    let text = path.text();
    let Some((field, key)) = text.strip_suffix("']").and_then(|text| text.split_once("['")) else {
        return;
    };
    let problems = match field {
        "metadata.annotations" => formats::qualified_name(c.version, &key.to_lowercase()),
        "metadata.labels" => formats::qualified_name(c.version, key),
        _ => {
            let problem =
                format!("error converting fieldPath: field label does not support subscript: {text}");
            path.invalid(c, &problem);
            return;
        }
    };
    reference.problems_of(c, key, problems);
}
