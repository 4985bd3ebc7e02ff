//! JSON merge patch (RFC 7396): objects are merged, null removes, everything else replaces.

use serde_json::{Map, Value};

use crate::{
    StoredObject,
    api_server::ManagedFields,
    go,
    object::{TYPED, replace_fields},
};

/// The patched object. Only the parts of the body that the patch names are built.
pub(super) fn apply(existing: &StoredObject, patch: Value) -> Result<StoredObject, String> {
    let patch = fields(patch)?;
    let mut object = existing.clone();
    for (key, value) in patch {
        match (key.as_str(), value) {
            ("apiVersion" | "kind", Value::String(_)) => {}
            ("apiVersion" | "kind", _) => return Err(format!("{key} must be a text")),
            ("metadata", Value::Object(fields)) => metadata(&mut object, fields)?,
            ("metadata", _) => return Err("metadata must be an object".to_owned()),
            (_, value) => merge_key(object.body_mut(), key, value),
        }
    }
    Ok(object)
}

/// The fields of a patch; null has none. A list is an error.
fn fields(patch: Value) -> Result<Map<String, Value>, String> {
    match patch {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        other => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type \
             struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go::json_kind(&other)
        )),
    }
}

fn metadata(object: &mut StoredObject, patch: Map<String, Value>) -> Result<(), String> {
    let mut typed = Map::new();
    for (key, value) in patch {
        match (key.as_str(), value) {
            // The server sets timestamps; a client cannot set the creation timestamp.
            ("creationTimestamp", _) => {}
            ("labels", Value::Object(labels)) => {
                let stored = &mut object.meta.labels;
                for (label, value) in labels {
                    match value {
                        Value::Null => {
                            stored.remove(label.as_str());
                        }
                        Value::String(value) => {
                            stored.insert(label.into(), value.into());
                        }
                        other => {
                            return Err(format!("metadata.labels.{label} must be a string, not {other}"));
                        }
                    }
                }
            }
            ("managedFields", list) => object.managers = ManagedFields::of(list),
            (key, value) if TYPED.contains(&key) => {
                typed.insert(key.to_owned(), value);
            }
            (_, value) => merge_key(object.rest_of_metadata_mut(), key, value),
        }
    }
    match typed.is_empty() {
        true => Ok(()),
        false => replace_fields(&mut object.meta, &typed).map_err(|error| error.to_string()),
    }
}

/// Patches a value that is not a stored object.
pub(super) fn apply_to_value(mut original: Value, patch: Value) -> Result<Value, String> {
    merge_object(&mut original, fields(patch)?);
    Ok(original)
}

fn merge_key(target: &mut Map<String, Value>, key: String, patch: Value) {
    match patch {
        Value::Null => {
            target.remove(&key);
        }
        Value::Object(patch) => merge_object(target.entry(key).or_insert(Value::Null), patch),
        other => {
            target.insert(key, other);
        }
    }
}

/// Depth is bounded by that of the patch, which the parser bounds.
fn merge_object(target: &mut Value, patch: Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (key, value) in patch {
            merge_key(target, key, value);
        }
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::Manifest;

    #[test]
    fn a_patch_of_metadata_leaves_the_body_shared() {
        let existing = Manifest::read(json!({"metadata": {"name": "x"}, "spec": {"a": 1}}))
            .unwrap()
            .object;
        let shares_body = |patch| {
            let patched = apply(&existing, patch).unwrap();
            patched
                .body
                .unwrap()
                .is_shared_with(existing.body.as_ref().unwrap())
        };
        assert!(shares_body(json!({"metadata": {"labels": {"a": "b"}}})));
        assert!(!shares_body(json!({"metadata": {"annotations": {"a": "b"}}})));
    }
}
