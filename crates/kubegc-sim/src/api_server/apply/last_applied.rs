//! The configuration that a client applied by itself, in an annotation: the manager `kubectl` takes over its
//! fields, and updates the annotation.
//!
//! # Upstream
//! `lastAppliedManager` and `lastAppliedUpdater` in
//! [`managedfields/internal`](https://github.com/kubernetes/apimachinery/tree/v0.36.0/pkg/util/managedfields/internal).

use kubegc_core::Behavior;
use serde_json::Value;

use super::{Place, compare, field_set::FieldSet, managed::Conflict, set_of};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
pub(super) const IS_UPGRADED: Behavior = Behavior::since_about(21, "lastappliedmanager.go of 1.21");

fn annotation(object: &Value) -> Option<&str> {
    let text = object.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str();
    text.filter(|text| !text.is_empty())
}

/// Drops the conflicts about fields that have the values of the annotation.
pub(super) fn allow(conflicts: &mut Vec<Conflict>, live: &Value, api_version: &str, place: Place<'_>) {
    let last: Option<Value> = annotation(live).and_then(|text| serde_json::from_str(text).ok());
    let Some(last) = last.filter(|last| last["apiVersion"] == api_version) else {
        return;
    };
    let Ok(fields) = set_of(&last, place) else {
        return;
    };
    let changes = compare(&last, live, place);
    let same = [&changes.modified, &changes.added, &changes.removed]
        .into_iter()
        .fold(fields, |fields, changed| fields.without(changed));
    conflicts.retain(|conflict| {
        let mut field = FieldSet::default();
        field.insert(&conflict.path);
        same.shared(&field).is_empty()
    });
}

/// Replaces the annotation by the applied configuration, if the object has one.
pub(super) fn update(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    let annotations = applied.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let text = applied.to_string();
    let text = text
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    object["metadata"]["annotations"][ANNOTATION] = Value::from(text + "\n");
}
