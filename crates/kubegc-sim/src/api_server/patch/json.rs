//! JSON patches (RFC 6902): operations one after the other, all or none, and within bounds.
//!
//! The crate `json-patch` does not have the semantics of `evanphx/json-patch`: there, a missing value passes
//! a test for null, and old releases replace a field that does not exist. It bounds neither depth nor copied
//! bytes.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    go,
    status::{self, Refusal},
};

/// The maximum number of operations in one patch.
///
/// # Upstream
/// `maxJSONPatchOperations` in `apiserver/pkg/endpoints/handlers/patch.go`, 1.20.2.
const OPERATIONS_MAX: usize = 10_000;

/// The maximum size that one patch may copy within the object, in bytes of JSON, approximately.
///
/// # Upstream
/// `jsonpatch.AccumulatedCopySizeLimit`, set in `apiserver/pkg/server/config.go`, 1.20.2.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The maximum nesting of an object after an operation: the same as the parser's.
const DEPTH_MAX: usize = 128;

/// The operations of one patch.
#[derive(Debug)]
pub(in crate::api_server) struct Operations(Vec<Operation>);

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Operation {
    Add { path: Pointer, value: Value },
    Remove { path: Pointer },
    Replace { path: Pointer, value: Value },
    Move { path: Pointer, from: Pointer },
    Copy { path: Pointer, from: Pointer },
    Test { path: Pointer, value: Value },
}

/// A JSON pointer (RFC 6901).
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Pointer(String);

impl TryFrom<String> for Pointer {
    type Error = String;

    fn try_from(pointer: String) -> Result<Self, String> {
        match pointer.is_empty() || pointer.starts_with('/') {
            true => Ok(Self(pointer)),
            false => Err(format!("{pointer} is not a JSON pointer")),
        }
    }
}

impl Operations {
    /// # Errors
    /// 413 for too many operations, 400 if the patch is not a list of objects, 422 for an operation that does
    /// not exist.
    pub(in crate::api_server) fn read(patch: Value) -> Result<Self, Refusal> {
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
        items
            .into_iter()
            .map(Operation::deserialize)
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|_| status::rejected_patch())
    }

    pub(in crate::api_server) fn apply(self, mut document: Value) -> Result<Value, String> {
        let mut copied_bytes = 0;
        for operation in self.0 {
            match operation {
                Operation::Add { path, value } => add(&mut document, &path.0, value)?,
                Operation::Remove { path } => drop(remove(&mut document, &path.0)?),
                Operation::Replace { path, value } => {
                    check_depth(&path.0, &value)?;
                    match document.pointer_mut(&path.0) {
                        Some(found) => *found = value,
                        None => set(&mut document, &path.0, value)?,
                    }
                }
                Operation::Move { path, from } => {
                    let value = remove(&mut document, &from.0)?;
                    add(&mut document, &path.0, value)?;
                }
                Operation::Copy { path, from } => {
                    let original = document.pointer(&from.0).ok_or_else(|| missing(&from.0))?;
                    copied_bytes += size_bytes(original, COPIED_BYTES_MAX - copied_bytes)
                        .ok_or_else(|| format!("copies of more than {COPIED_BYTES_MAX} bytes"))?;
                    let value = original.clone();
                    add(&mut document, &path.0, value)?;
                }
                Operation::Test { path, value } => {
                    if *document.pointer(&path.0).unwrap_or(&Value::Null) != value {
                        return Err(format!("testing value {} failed", path.0));
                    }
                }
            }
        }
        Ok(document)
    }
}

fn missing(path: &str) -> String {
    format!("{path} does not exist")
}

/// The parent of a position and its own step; `None` for the document itself.
fn split<'a>(document: &'a mut Value, path: &str) -> Option<(Option<&'a mut Value>, String)> {
    let (parents, last) = path.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    Some((document.pointer_mut(parents), last))
}

/// A position in a list: digits without a leading zero.
fn index(part: &str) -> Option<usize> {
    if part.starts_with('+') || (part.len() > 1 && part.starts_with('0')) {
        return None;
    }
    part.parse().ok()
}

/// Refuses a value that would be nested too deep at this place.
fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    let has_depth = |value: &&Value| value.is_array() || value.is_object();
    let mut level: Vec<&Value> = Some(value).filter(has_depth).into_iter().collect();
    let mut depth = path.matches('/').count();
    while !level.is_empty() {
        depth += 1;
        if depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}"));
        }
        level = level.into_iter().flat_map(children).filter(has_depth).collect();
    }
    Ok(())
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// The approximate size of a value in bytes of JSON; `None` for more than `max`.
fn size_bytes(value: &Value, max: usize) -> Option<usize> {
    let mut left = vec![value];
    let mut bytes = 0_usize;
    while let Some(value) = left.pop() {
        bytes += match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 4,
            Value::String(text) => text.len() + 2,
            Value::Array(items) => items.len() + 2,
            Value::Object(fields) => fields.keys().map(|key| key.len() + 4).sum::<usize>() + 2,
        };
        if bytes > max {
            return None;
        }
        left.extend(children(value));
    }
    Some(bytes)
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    check_depth(path, &value)?;
    let Some((parent, last)) = split(document, path) else {
        *document = value;
        return Ok(());
    };
    match parent {
        Some(Value::Object(fields)) => {
            fields.insert(last, value);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let at = if last == "-" {
                Some(items.len())
            } else {
                index(&last)
            };
            match at {
                Some(at) if at <= items.len() => {
                    items.insert(at, value);
                    Ok(())
                }
                _ => Err(missing(path)),
            }
        }
        _ => Err(missing(path)),
    }
}

/// Sets a field that an object does not have.
fn set(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    match split(document, path) {
        Some((Some(Value::Object(fields)), last)) => {
            fields.insert(last, value);
            Ok(())
        }
        _ => Err(missing(path)),
    }
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    let Some((parent, last)) = split(document, path) else {
        return Ok(std::mem::take(document));
    };
    let removed = match parent {
        Some(Value::Object(fields)) => fields.remove(&last),
        Some(Value::Array(items)) => index(&last)
            .filter(|&at| at < items.len())
            .map(|at| items.remove(at)),
        _ => None,
    };
    removed.ok_or_else(|| missing(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_follow_rfc_6902() {
        let add = |index: usize| json!([{"op": "add", "path": format!("/a/{index}"), "value": 2}]);
        let list = || json!({"a": [1, 3]});
        let removed_before = json!([
            {"op": "remove", "path": "/a"},
            {"op": "test", "path": "/a", "value": [1, 3]},
        ]);
        let replace = json!([{"op": "replace", "path": "/b", "value": 2}]);
        for (patch, expected) in [
            (add(1), Some(json!({"a": [1, 2, 3]}))),
            (add(3), None),
            (removed_before, None),
            (replace, Some(json!({"a": [1, 3], "b": 2}))),
        ] {
            let operations = Operations::read(patch.clone()).unwrap();
            assert_eq!(operations.apply(list()).ok(), expected, "{patch}");
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
            let patch = Value::Array(vec![operation.clone(); operations]);
            assert_eq!(
                Operations::read(patch).err().map(|refusal| refusal.code),
                expected
            );
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
        for (case, patch, fits) in [
            ("few copies", copies(8), true),
            ("copies that double", copies(64), false),
            ("some moves", into_itself(100), true),
            ("moves that nest", into_itself(200), false),
            (
                "a value",
                json!([{"op": "add", "path": deep, "value": nested(26)}]),
                true,
            ),
            (
                "a deep value",
                json!([{"op": "add", "path": deep, "value": nested(27)}]),
                false,
            ),
            (
                "a deep replacement",
                json!([{"op": "replace", "path": deep, "value": nested(27)}]),
                false,
            ),
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
