//! JSON merge patch (RFC 7396): objects are merged, null removes, everything else replaces.

use serde_json::Value;

use crate::go;

/// The patched value. A null patch changes nothing.
///
/// # Errors
/// The message about a patch that is not an object.
pub(super) fn apply(mut original: Value, patch: Value) -> Result<Value, String> {
    match patch {
        // Depth is bounded by that of the patch, which the parser bounds.
        Value::Object(_) => json_patch::merge(&mut original, &patch),
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
