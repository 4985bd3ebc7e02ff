//! Values that an update leaves unchanged may stay, although their schema refuses them.
//!
//! # Upstream
//! `ratchetingValueValidator` in
//! [`ratcheting.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go):
//! a value is compared with the one at its place before; the items of a list have a place if their keys name
//! them.

use kubegc_core::Behavior;
use serde_json::Value;

use super::instance::{correlated, of_field};

/// Unchanged values may stay.
pub(super) const UNCHANGED_VALUES_MAY_STAY: Behavior =
    Behavior::since(30, 0, "CRDValidationRatcheting, beta");

/// Whether the value at a path, or one that contains it, equals that in the old object. `path` is that of a
/// problem, such as `spec.objs[1].v`.
pub(super) fn is_unchanged(path: &str, new: &Value, old: &Value, schema: &Value) -> bool {
    let (mut rest, mut new, mut old, mut schema) = (path, new, old, schema);
    // Ends: each step consumes a part of the path.
    loop {
        if new == old {
            return true;
        }
        let next = match (new, old) {
            (Value::Object(fields), Value::Object(before)) => {
                rest = rest.strip_prefix('.').unwrap_or(rest);
                // Keys of maps may contain dots: the longest one counts.
                let keys = fields.keys().filter(|key| begins(rest, key));
                let Some(key) = keys.max_by_key(|key| key.len()) else {
                    return false;
                };
                rest = &rest[key.len()..];
                let below = of_field(schema, key);
                before.get(key).map(|before| (&fields[key], before, below))
            }
            (Value::Array(items), Value::Array(before)) => {
                let Some((index, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
                else {
                    return false;
                };
                rest = after;
                let item = index.parse().ok().and_then(|index: usize| items.get(index));
                item.and_then(|item| Some((item, correlated(item, before, schema)?, schema.get("items"))))
            }
            _ => None,
        };
        let Some((item, before, Some(below))) = next else {
            return false;
        };
        (new, old, schema) = (item, before, below);
    }
}

/// Whether a path begins with this field.
fn begins(path: &str, key: &str) -> bool {
    path.strip_prefix(key)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
