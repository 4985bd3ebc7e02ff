//! JSON merge patch (RFC 7396): objects are merged, null removes, everything else replaces.

use serde_json::{Map, Value};

use crate::go;

/// The patched value. A null patch changes nothing.
///
/// # Errors
/// The message about a patch that is not an object.
pub(super) fn apply(mut original: Value, patch: Value) -> Result<Value, String> {
    match patch {
        Value::Object(fields) => merge(&mut original, fields),
        Value::Null => {}
        other => {
            return Err(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type \
                 struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                go::json_kind(&other)
            ));
        }
    }
    Ok(original)
}

/// Depth is bounded by that of the patch, which the parser bounds.
fn merge(target: &mut Value, patch: Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(&key);
            }
            Value::Object(patch) => merge(target.entry(key).or_insert(Value::Null), patch),
            other => {
                target.insert(key, other);
            }
        }
    }
}
