//! Fields of custom resources that field selectors may name.

use std::collections::BTreeSet;

use kubegc_core::Behavior;
use serde_json::Value;

use super::validation::Definition;
use crate::status::{Cause, quoted};

/// Fields of custom resources can be selected by.
pub(super) const FIELDS_ARE_SELECTABLE: Behavior =
    Behavior::since(31, 0, "CustomResourceFieldSelectors is on");

/// The fields by which objects can be selected.
///
/// # Upstream
/// `ValidateCustomResourceSelectableFields` in
/// [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go).
pub(super) fn selectable(definition: &Definition<'_>, causes: &mut Vec<Cause>) {
    const FIELDS_MAX: usize = 8;
    let lists: Vec<&Value> = definition
        .versions
        .iter()
        .map(|version| version.get("selectableFields").unwrap_or(&Value::Null))
        .collect();
    // Fields that all versions share are validated once.
    let is_shared = lists.iter().all(|list| *list == lists[0]);
    for (index, version) in definition.versions.iter().enumerate() {
        if is_shared && index > 0 {
            break;
        }
        let path = match is_shared {
            true => "spec.selectableFields".to_owned(),
            false => format!("spec.versions[{index}].selectableFields"),
        };
        let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
        let fields = lists[index].as_array().map_or(&[][..], Vec::as_slice);
        let mut seen = BTreeSet::new();
        for (position, field) in fields.iter().enumerate() {
            let at = format!("{path}[{position}].jsonPath");
            let text = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
            let shown = quoted(text);
            if text.is_empty() {
                causes.push(Cause::required(at, ""));
                continue;
            }
            match selected(text, schema) {
                Err(problem) => causes.push(Cause::invalid(
                    at.clone(),
                    &shown,
                    &format!("is an invalid path: {problem}"),
                )),
                Ok(of_type) if !matches!(of_type, "string" | "boolean" | "integer") => {
                    causes.push(Cause::invalid(
                        at.clone(),
                        &shown,
                        "must point to a field of type string, boolean or integer. Enum string fields and strings \
                         with formats are allowed.",
                    ));
                }
                Ok(_) => {}
            }
            if !seen.insert(text) {
                causes.push(Cause::duplicate(at, &shown));
            }
        }
        if seen.len() > FIELDS_MAX {
            let count = seen.len();
            let message = format!("Too many: {count}: must have at most {FIELDS_MAX} items");
            causes.push(Cause::new("FieldValueTooMany", path, message));
        }
    }
}

/// The type of the field at a path.
fn selected<'s>(path: &str, schema: &'s Value) -> Result<&'s str, String> {
    let unknown = || "does not refer to a valid field".to_owned();
    let Some(path) = path.strip_prefix('.') else {
        let first = path.split(['.', '[']).next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {first}"));
    };
    if path.contains('[') {
        return Err("array notation is not allowed".to_owned());
    }
    let mut steps = path.split('.').peekable();
    if steps.peek() == Some(&"metadata") {
        return Err(unknown());
    }
    let mut at = schema;
    for step in steps {
        let properties = at.get("properties").and_then(|properties| properties.get(step));
        at = properties.ok_or_else(unknown)?;
    }
    Ok(at.get("type").and_then(Value::as_str).unwrap_or_default())
}
