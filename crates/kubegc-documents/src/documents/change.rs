//! Applies changes of fields to an object as it was read.

use kubegc_controllers::{DocumentError, FieldChange};
use kubegc_core::{
    OwnerReference, Uid,
    record::{Consumer, JobCounts, Taint},
};
use serde_json::{Value, json};

use crate::details::{Object, with_condition, with_taint};

pub(super) type FieldPath = Vec<&'static str>;

/// Applies one change, and returns the path of the field.
///
/// Lists keep their order, and the entries that are not changed keep their content, valid or not.
pub(super) fn apply(object: &mut Object, change: &FieldChange) -> Result<FieldPath, DocumentError> {
    let path = path_of(change);
    match change {
        FieldChange::Phase(text) | FieldChange::Message(text) => put(object, &path, (&**text).into())?,
        FieldChange::Label { value, .. } | FieldChange::Annotation { value, .. } => {
            put(object, &path, value.as_str().into())?;
        }
        FieldChange::RemoveAnnotation(_) | FieldChange::RemoveClaimRef | FieldChange::RemoveClaimRefUid => {
            remove(object, &path)?;
        }
        FieldChange::Condition(condition) => {
            let conditions = list(object, &path)?;
            let is_it = |other: &Value| text_at(other, "type") == &*condition.condition_type;
            match conditions.iter_mut().find(|other| is_it(other)) {
                Some(known) => *known = with_condition(known, condition),
                None => conditions.push(with_condition(&Value::Null, condition)),
            }
        }
        FieldChange::Conditions(conditions) => {
            let before = std::mem::take(list(object, &path)?);
            let entries = conditions.iter().map(|condition| {
                let is_it = |other: &&Value| text_at(other, "type") == &*condition.condition_type;
                with_condition(before.iter().find(is_it).unwrap_or(&Value::Null), condition)
            });
            put(object, &path, entries.collect())?;
        }
        FieldChange::AddFinalizer(name) => {
            let finalizers = list(object, &path)?;
            if !finalizers.iter().any(|other| other == name) {
                finalizers.push((*name).into());
            }
        }
        FieldChange::RemoveFinalizer(name) => retain(object, &path, |other| other != name)?,
        FieldChange::SpecFinalizers(names) => {
            let names = names.iter().map(|name| Value::from(&**name));
            *list(object, &path)? = names.collect();
        }
        FieldChange::OwnerReferences(references) => put_owner_references(list(object, &path)?, references),
        FieldChange::AddTaint(taint) => {
            let taints = list(object, &path)?;
            match taints.iter_mut().find(|other| is_taint(other, taint)) {
                Some(known) => *known = with_taint(known, taint),
                None => taints.push(with_taint(&Value::Null, taint)),
            }
        }
        FieldChange::RemoveTaint(taint) => retain(object, &path, |other| !is_taint(other, taint))?,
        FieldChange::RemoveActive(uid) => retain(object, &path, |other| !has_uid(other, uid))?,
        FieldChange::JobCounts(counts) => put_job_counts(object, counts)?,
        FieldChange::RemoveSecretReference(name) => {
            retain(object, &path, |other| text_at(other, "name") != &**name)?;
        }
        FieldChange::ReservedFor(consumers) => put_consumers(list(object, &path)?, consumers),
        FieldChange::RemoveAllocation => remove(object, &path)?,
        FieldChange::RequestDeallocation => put(object, &path, true.into())?,
        FieldChange::Replicas(count) => put(object, &path, (*count).into())?,
    }
    Ok(path)
}

fn path_of(change: &FieldChange) -> FieldPath {
    match change {
        FieldChange::Phase(_) => vec!["status", "phase"],
        FieldChange::Message(_) => vec!["status", "message"],
        FieldChange::Condition(_) | FieldChange::Conditions(_) => vec!["status", "conditions"],
        FieldChange::AddFinalizer(_) | FieldChange::RemoveFinalizer(_) => vec!["metadata", "finalizers"],
        FieldChange::SpecFinalizers(_) => vec!["spec", "finalizers"],
        FieldChange::OwnerReferences(_) => vec!["metadata", "ownerReferences"],
        FieldChange::Label { key, .. } => vec!["metadata", "labels", key],
        FieldChange::Annotation { key, .. } | FieldChange::RemoveAnnotation(key) => {
            vec!["metadata", "annotations", key]
        }
        FieldChange::RemoveClaimRef => vec!["spec", "claimRef"],
        FieldChange::RemoveClaimRefUid => vec!["spec", "claimRef", "uid"],
        FieldChange::AddTaint(_) | FieldChange::RemoveTaint(_) => vec!["spec", "taints"],
        FieldChange::RemoveActive(_) => vec!["status", "active"],
        FieldChange::JobCounts(_) => vec!["status"],
        FieldChange::RemoveSecretReference(_) => vec!["secrets"],
        FieldChange::ReservedFor(_) => vec!["status", "reservedFor"],
        FieldChange::RemoveAllocation => vec!["status", "allocation"],
        FieldChange::RequestDeallocation => vec!["status", "deallocationRequested"],
        FieldChange::Replicas(_) => vec!["spec", "replicas"],
    }
}

/// The value at a path; null counts as absent.
pub(super) fn at<'o>(object: &'o Object, path: &[&str]) -> Option<&'o Value> {
    let (first, rest) = path.split_first()?;
    let found = rest
        .iter()
        .try_fold(object.get(*first)?, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

/// The map that holds the field, created if it is missing, and the field's key.
fn within<'o>(
    object: &'o mut Object,
    path: &[&'static str],
) -> Result<(&'o mut Object, &'static str), DocumentError> {
    let (last, parents) = path.split_last().ok_or_else(|| DocumentError::new("no path"))?;
    let mut map = object;
    for (depth, key) in parents.iter().enumerate() {
        let value = map.entry(*key).or_insert(Value::Null);
        if value.is_null() {
            *value = Object::new().into();
        }
        map = match value {
            Value::Object(map) => map,
            other => return Err(wrong(&path[..=depth], "a map", other)),
        };
    }
    Ok((map, last))
}

fn wrong(path: &[&str], expected: &str, found: &Value) -> DocumentError {
    let (path, found) = (path.join("."), crate::tree::type_name(found));
    DocumentError::new(format!("{path}: expected {expected}, found {found}"))
}

/// Sets a value, and creates the maps on its path.
pub(super) fn put(object: &mut Object, path: &[&'static str], value: Value) -> Result<(), DocumentError> {
    let (map, key) = within(object, path)?;
    map.insert(key.to_owned(), value);
    Ok(())
}

/// Removes a value, if there is one.
fn remove(object: &mut Object, path: &[&'static str]) -> Result<(), DocumentError> {
    if at(object, path).is_some() || is_blocked(object, path) {
        let (map, key) = within(object, path)?;
        map.remove(key);
    }
    Ok(())
}

/// Whether a value on the path is not a map.
fn is_blocked(object: &Object, path: &[&str]) -> bool {
    let ways = (1..path.len()).filter_map(|depth| at(object, &path[..depth]));
    ways.into_iter().any(|way| !way.is_object())
}

/// The list at a path, created if absent.
fn list<'o>(object: &'o mut Object, path: &[&'static str]) -> Result<&'o mut Vec<Value>, DocumentError> {
    let (map, key) = within(object, path)?;
    let value = map.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(list) => Ok(list),
        other => Err(wrong(path, "a list", other)),
    }
}

/// Removes entries of a list, if there is one.
fn retain(
    object: &mut Object,
    path: &[&'static str],
    stays: impl Fn(&Value) -> bool,
) -> Result<(), DocumentError> {
    if at(object, path).is_some() || is_blocked(object, path) {
        list(object, path)?.retain(stays);
    }
    Ok(())
}

/// Counts that are zero or empty are removed, as Go's encoder leaves them out.
fn put_job_counts(object: &mut Object, counts: &JobCounts) -> Result<(), DocumentError> {
    let uids = |uids: &[Uid]| {
        uids.iter()
            .map(|uid| Value::from(uid.to_string()))
            .collect::<Value>()
    };
    let values: [(FieldPath, Value); 6] = [
        (vec!["status", "succeeded"], counts.succeeded.into()),
        (vec!["status", "failed"], counts.failed.into()),
        (
            vec!["status", "uncountedTerminatedPods", "succeeded"],
            uids(&counts.uncounted_succeeded),
        ),
        (
            vec!["status", "uncountedTerminatedPods", "failed"],
            uids(&counts.uncounted_failed),
        ),
        (
            vec!["status", "completedIndexes"],
            (&*counts.completed_indexes).into(),
        ),
        (vec!["status", "failedIndexes"], (&*counts.failed_indexes).into()),
    ];
    for (place, value) in values {
        if value == 0 || value == "" || value == Value::Array(Vec::new()) {
            remove(object, &place)?;
        } else {
            put(object, &place, value)?;
        }
    }
    Ok(())
}

/// Keeps the entries of these consumers, with all their fields.
fn put_consumers(list: &mut Vec<Value>, consumers: &[Consumer]) {
    list.retain(|entry| consumers.iter().any(|consumer| has_uid(entry, &consumer.uid)));
}

fn has_uid(entry: &Value, uid: &Uid) -> bool {
    let found = entry.get("uid").and_then(Value::as_str);
    found.is_some_and(|found| Uid::new(found) == *uid)
}

/// A text of an entry; empty if absent.
fn text_at<'e>(entry: &'e Value, key: &str) -> &'e str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_taint(entry: &Value, taint: &Taint) -> bool {
    text_at(entry, "key") == &*taint.key && text_at(entry, "effect") == &*taint.effect
}

/// Replaces a list by these references. One that is in the list already keeps its other fields.
fn put_owner_references(list: &mut Vec<Value>, references: &[OwnerReference]) {
    let before = std::mem::take(list);
    let entries = references.iter().map(|reference| {
        let known = before.iter().find(|entry| is_reference(entry, reference));
        known.cloned().unwrap_or_else(|| json!(reference))
    });
    *list = entries.collect();
}

fn is_reference(entry: &Value, reference: &OwnerReference) -> bool {
    let is = |key, text: &str| text_at(entry, key) == text;
    let flag = |key| entry.get(key).and_then(Value::as_bool);
    is("apiVersion", &reference.api_version)
        && is("kind", &reference.kind)
        && is("name", &reference.name)
        && has_uid(entry, &reference.uid)
        && flag("controller") == reference.controller
        && flag("blockOwnerDeletion") == reference.block_owner_deletion
}
