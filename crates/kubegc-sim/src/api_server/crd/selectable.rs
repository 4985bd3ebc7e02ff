//! Fields of custom resources that field selectors may name.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::types::field::{At, Check};

/// The fields by which objects can be selected.
///
/// # Upstream
/// `ValidateCustomResourceSelectableFields` in
/// [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go).
pub(crate) fn fields(spec: &At<'_>, c: &mut Check) {
    const FIELDS_MAX: usize = 8;
    let versions: Vec<At<'_>> = spec.get("versions").items().collect();
    let lists: Vec<At<'_>> = versions
        .iter()
        .map(|version| version.get("selectableFields"))
        .collect();
    // Fields that all versions share are validated once.
    let is_shared = lists.iter().all(|list| list.value == lists[0].value);
    for (own, version) in lists.iter().zip(&versions) {
        let list = match is_shared {
            true => own.under(spec, "selectableFields"),
            false => own.clone(),
        };
        let own = Some(version.get("schema")).filter(At::is_set);
        let schema = own.unwrap_or_else(|| spec.get("validation"));
        let schema = schema.get("openAPIV3Schema").value;
        let mut seen = BTreeSet::new();
        for field in list.items() {
            let path = field.get("jsonPath");
            if path.text().is_empty() {
                path.required(c, "");
                continue;
            }
            match selected(path.text(), schema) {
                Err(problem) => path.invalid(c, &format!("is an invalid path: {problem}")),
                Ok("string" | "boolean" | "integer") => {}
                Ok(_) => path.invalid(
                    c,
                    "must point to a field of type string, boolean or integer. Enum string fields and strings \
                     with formats are allowed.",
                ),
            }
            if !seen.insert(path.text()) {
                path.duplicate(c);
            }
        }
        if seen.len() > FIELDS_MAX {
            list.too_many(c, seen.len(), FIELDS_MAX);
        }
        if is_shared {
            break;
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
