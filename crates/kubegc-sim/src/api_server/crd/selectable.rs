//! Fields of custom resources that field selectors may name.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::types::field::{At, Check};

/// The fields by which objects of a version, or of all versions, can be selected.
///
/// # Upstream
/// `ValidateCustomResourceSelectableFields` in
/// [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go).
pub(crate) fn fields(of: &At<'_>, c: &mut Check) {
    const FIELDS_MAX: usize = 8;
    let spec = c.root().get("spec");
    let first = spec.get("versions").items().next();
    let schemas = [
        Some(of.get("schema")),
        Some(spec.get("validation")),
        first.map(|version| version.get("schema")),
    ];
    let schema = schemas.into_iter().flatten().find(At::is_set);
    let schema = schema.map_or(&Value::Null, |schema| schema.get("openAPIV3Schema").value);
    let list = of.get("selectableFields");
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
        at = at["properties"].get(step).ok_or_else(unknown)?;
    }
    Ok(at.get("type").and_then(Value::as_str).unwrap_or_default())
}
