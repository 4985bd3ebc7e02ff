//! JSON patches (RFC 6902): operations one after the other, all or none, and within bounds.
//!
//! The crate `json-patch` performs the operations, except where `evanphx/json-patch` differs: there, a
//! missing value passes a test for null, and old releases replace a field that does not exist. Bounds of
//! depth and of copied bytes are checked here.

use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::Pointer};
use serde_json::Value;

use crate::{
    go,
    status::{self, Result},
};

/// The maximum number of operations in one patch.
///
/// # Upstream
/// `maxJSONPatchOperations` in `apiserver/pkg/endpoints/handlers/patch.go`, 1.20.2.
const OPERATIONS_MAX: usize = 10_000;

/// The maximum size that one patch may copy within the object, in bytes of JSON.
///
/// # Upstream
/// `jsonpatch.AccumulatedCopySizeLimit`, set in `apiserver/pkg/server/config.go`, 1.20.2.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The maximum nesting of an object after an operation: the same as the parser's.
const DEPTH_MAX: usize = 128;

/// The operations of one patch.
#[derive(Debug)]
pub(crate) struct Operations(Patch);

impl Operations {
    /// # Errors
    /// 413 for too many operations, 400 if the patch is not a list of objects, 422 for an operation that does
    /// not exist.
    pub(crate) fn read(patch: Value) -> Result<Self> {
        let mistyped = |value: &Value, expected: &str| {
            status::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type jsonpatch.{expected}",
                go::json_kind(value)
            ))
        };
        let items = match patch {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(mistyped(&other, "Patch")),
        };
        if let Some(item) = items.iter().find(|item| !item.is_object()) {
            return Err(mistyped(item, "Operation"));
        }
        if items.len() > OPERATIONS_MAX {
            let message = format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                items.len()
            );
            return Err(status::refusal(413, "RequestEntityTooLarge", message, None));
        }
        serde_json::from_value(items.into())
            .map(Self)
            .map_err(|_| status::rejected_patch())
    }

    pub(crate) fn apply(self, mut document: Value) -> Result<Value, String> {
        let missing = |path: &Pointer| format!("{path} does not exist");
        let mut copied_bytes = 0;
        for operation in self.0.0 {
            let at = |path: &Pointer| document.pointer(path.as_str());
            let written = match &operation {
                PatchOperation::Add(add) => Some(&add.value),
                PatchOperation::Replace(replace) => Some(&replace.value),
                PatchOperation::Move(from) => Some(at(&from.from).ok_or_else(|| missing(&from.from))?),
                PatchOperation::Copy(from) => {
                    let original = at(&from.from).ok_or_else(|| missing(&from.from))?;
                    copied_bytes += original.to_string().len();
                    if copied_bytes > COPIED_BYTES_MAX {
                        return Err(format!("copies of more than {COPIED_BYTES_MAX} bytes"));
                    }
                    Some(original)
                }
                PatchOperation::Test(test) => {
                    if *at(&test.path).unwrap_or(&Value::Null) != test.value {
                        return Err(format!("testing value {} failed", test.path));
                    }
                    continue;
                }
                PatchOperation::Remove(_) => None,
            };
            let above = operation.path().as_str().matches('/').count();
            if written.is_some_and(|value| above + depth(value) > DEPTH_MAX) {
                return Err(format!("nested deeper than {DEPTH_MAX}"));
            }
            let operation = match operation {
                PatchOperation::Replace(replace)
                    if at(&replace.path).is_none()
                        && replace.path.parent().and_then(at).is_some_and(Value::is_object) =>
                {
                    let (path, value) = (replace.path, replace.value);
                    PatchOperation::Add(AddOperation { path, value })
                }
                operation => operation,
            };
            json_patch::patch_unsafe(&mut document, std::slice::from_ref(&operation))
                .map_err(|_| missing(operation.path()))?;
        }
        Ok(document)
    }
}

/// How many lists and objects surround the innermost value. The nesting of all values is bounded.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_follow_rfc_6902() {
        let at =
            |operation: &str, path: &str, value| json!([{"op": operation, "path": path, "value": value}]);
        for (patch, expected) in [
            (at("add", "/a/1", json!(2)), Some(json!({"a": [1, 2, 3]}))),
            (at("add", "/a/3", json!(2)), None),
            (at("test", "/b", json!(null)), Some(json!({"a": [1, 3]}))),
            (at("test", "/b", json!(2)), None),
            (at("replace", "/b", json!(2)), Some(json!({"a": [1, 3], "b": 2}))),
            (at("replace", "/a/2", json!(2)), None),
        ] {
            let operations = Operations::read(patch.clone()).unwrap();
            assert_eq!(operations.apply(json!({"a": [1, 3]})).ok(), expected, "{patch}");
        }
        for (bad, code) in [
            (json!({}), 400),
            (json!([1]), 400),
            (json!([{"op": "add", "path": "/a"}]), 422),
            (json!([{"op": "append", "path": "/a"}]), 422),
        ] {
            assert_eq!(Operations::read(bad).unwrap_err().code, code);
        }
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({"a": inner}))
    }

    #[test]
    fn patches_are_bounded() {
        let operation = json!({"op": "test", "path": "/a", "value": 1});
        for (operations, expected) in [(OPERATIONS_MAX, None), (OPERATIONS_MAX + 1, Some(413))] {
            let read = Operations::read(vec![operation.clone(); operations].into());
            assert_eq!(read.err().map(|refusal| refusal.code), expected);
        }
        let copies = |count: usize| {
            let copy = |index| json!({"op": "copy", "from": "/data", "path": format!("/data/k{index}")});
            Value::Array((0..count).map(copy).collect())
        };
        let into_itself = |count: usize| {
            let moves = (0..count).flat_map(|_| {
                [
                    json!({"op": "move", "from": "/data", "path": "/b"}),
                    json!({"op": "add", "path": "/data", "value": {}}),
                    json!({"op": "move", "from": "/b", "path": "/data/b"}),
                ]
            });
            Value::Array(moves.collect())
        };
        let deep = format!("/data{}", "/a".repeat(100));
        let deeply =
            |operation: &str, depth: usize| json!([{"op": operation, "path": deep, "value": nested(depth)}]);
        for (case, patch, fits) in [
            ("few copies", copies(8), true),
            ("copies that double", copies(64), false),
            ("some moves", into_itself(100), true),
            ("moves that nest", into_itself(200), false),
            ("a value", deeply("add", 26), true),
            ("a deep value", deeply("add", 27), false),
            ("a deep replacement", deeply("replace", 27), false),
        ] {
            let mut document = json!({"data": {"text": "x".repeat(100)}});
            if case.starts_with("a ") {
                document["data"] = nested(100);
            }
            let applied = Operations::read(patch).unwrap().apply(document);
            assert_eq!(applied.is_ok(), fits, "{case}");
        }
    }
}
