//! Preparation of requests for certificates: their specification is immutable, controllers write the rest.
//!
//! # Upstream
//! [`pkg/registry/certificates/certificates/strategy.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/certificates/certificates/strategy.go).

use kubegc_core::Timestamp;
use serde_json::{Map, Value};

use super::objects::{is_nil, object_mut, set_nil, text};
use crate::StoredObject;

type Object = Map<String, Value>;

/// Sets the user who makes a new request.
pub(crate) fn prepare(object: &mut StoredObject, user: Value) {
    if let (Some(Value::Object(spec)), Value::Object(user)) = (object.body_mut().get_mut("spec"), user) {
        for key in ["uid", "extra"] {
            spec.remove(key);
        }
        spec.extend(user);
    }
}

/// Takes the parts that a write cannot change from the stored object, and completes the times of conditions.
pub(crate) fn prepare_updated(new: &mut StoredObject, old: &StoredObject, subresource: &str, now: Timestamp) {
    if let Some(spec) = old.at(&["spec"]).cloned() {
        new.body_mut().insert("spec".to_owned(), spec);
    }
    let stored = old.list_at(&["status", "conditions"]).iter();
    let stored: Vec<&Object> = stored.filter_map(Value::as_object).collect();
    let status = object_mut(new.body_mut(), "status");
    let conditions = status.and_then(|status| status.get_mut("conditions")?.as_array_mut());
    let Some(conditions) = conditions else {
        return;
    };
    if subresource == "status" {
        for kind in ["Approved", "Denied"] {
            keep_conditions(conditions, &stored, kind);
        }
    }
    let now: Value = now.truncate_to_secs().to_string().into();
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        set_nil(condition, "lastUpdateTime", now.clone());
        if is_nil(condition, "lastTransitionTime") {
            let same = stored.iter().find(|other| {
                ["type", "status"]
                    .iter()
                    .all(|key| text(other, key) == text(condition, key))
                    && !is_nil(other, "lastTransitionTime")
            });
            let time = same
                .and_then(|same| same.get("lastTransitionTime"))
                .unwrap_or(&now);
            condition.insert("lastTransitionTime".to_owned(), time.clone());
        }
    }
}

/// Restores the conditions of a type, unless their number differs.
fn keep_conditions(conditions: &mut [Value], stored: &[&Object], kind: &str) {
    let before = stored.iter().filter(|condition| text(condition, "type") == kind);
    let before: Vec<&&Object> = before.collect();
    let after = conditions.iter_mut();
    let mut after: Vec<&mut Value> = after.filter(|condition| condition["type"] == kind).collect();
    if before.len() == after.len() {
        for (new, old) in after.iter_mut().zip(before) {
            **new = Value::Object((*old).clone());
        }
    }
}
