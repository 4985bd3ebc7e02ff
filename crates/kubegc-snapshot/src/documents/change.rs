//! Makes the changes of an object, field by field, on the object as it was read.

use kubegc_core::{OwnerReference, Uid};
use kubegc_lifecycle::{
    driver::DocumentError,
    object::{Change, Condition, Taint},
};
use serde_json::{Map, Value};

use crate::loose::name_of;

/// A map of a JSON tree.
pub(super) type Object = Map<String, Value>;

/// Where in an object something may change.
pub(super) type Place = Vec<&'static str>;

/// Makes one change; where.
///
/// Lists keep their order, and entries that the change does not mean stay as they are, whatever they hold.
pub(super) fn apply(object: &mut Object, change: &Change) -> Result<Place, DocumentError> {
    let place = place_of(change);
    match change {
        Change::Phase(text) => put(object, &place, (&**text).into())?,
        Change::Message(text) => put(object, &place, text.as_str().into())?,
        Change::Label { value, .. } | Change::Annotation { value, .. } => {
            put(object, &place, value.as_str().into())?;
        }
        Change::RemoveAnnotation(_) | Change::RemoveClaimRef | Change::ReleaseClaimRef => {
            remove(object, &place)?;
        }
        Change::Condition(condition) => put_condition(list(object, &place)?, condition),
        Change::AddFinalizer(name) => {
            let finalizers = list(object, &place)?;
            if !finalizers.iter().any(|other| other == name) {
                finalizers.push((*name).into());
            }
        }
        Change::RemoveFinalizer(name) => retain(object, &place, |other| other != name)?,
        Change::OwnerReferences(references) => put_owner_references(list(object, &place)?, references),
        Change::RemoveOwnerReferences(uids) => {
            retain(object, &place, |other| {
                !uids.iter().any(|uid| has_uid(other, uid))
            })?;
        }
        Change::AddTaint(taint) => {
            let taints = list(object, &place)?;
            if !taints.iter().any(|other| is_taint(other, taint)) {
                let fields = [("key", &taint.key), ("effect", &taint.effect)];
                taints.push(
                    fields
                        .map(|(key, text)| (key.to_owned(), Value::from(&**text)))
                        .into_iter()
                        .collect(),
                );
            }
        }
        Change::RemoveTaint(taint) => retain(object, &place, |other| !is_taint(other, taint))?,
        Change::RemoveActive(uid) => retain(object, &place, |other| !has_uid(other, uid))?,
    }
    Ok(place)
}

fn place_of(change: &Change) -> Place {
    match change {
        Change::Phase(_) => vec!["status", "phase"],
        Change::Message(_) => vec!["status", "message"],
        Change::Condition(_) => vec!["status", "conditions"],
        Change::AddFinalizer(_) | Change::RemoveFinalizer(_) => vec!["metadata", "finalizers"],
        Change::OwnerReferences(_) | Change::RemoveOwnerReferences(_) => vec!["metadata", "ownerReferences"],
        Change::Label { key, .. } => vec!["metadata", "labels", key],
        Change::Annotation { key, .. } | Change::RemoveAnnotation(key) => {
            vec!["metadata", "annotations", key]
        }
        Change::RemoveClaimRef => vec!["spec", "claimRef"],
        Change::ReleaseClaimRef => vec!["spec", "claimRef", "uid"],
        Change::AddTaint(_) | Change::RemoveTaint(_) => vec!["spec", "taints"],
        Change::RemoveActive(_) => vec!["status", "active"],
    }
}

/// What stands at a place; null is nothing.
pub(super) fn at<'o>(object: &'o Object, place: &[&str]) -> Option<&'o Value> {
    let (first, rest) = place.split_first()?;
    let found = rest
        .iter()
        .try_fold(object.get(*first)?, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

/// The map that a place is in, made where it is missing, and the last key.
fn within<'o>(
    object: &'o mut Object,
    place: &[&'static str],
) -> Result<(&'o mut Object, &'static str), DocumentError> {
    let (last, path) = place.split_last().ok_or_else(|| DocumentError::new("no place"))?;
    let mut map = object;
    for (depth, key) in path.iter().enumerate() {
        let value = map.entry(*key).or_insert(Value::Null);
        if value.is_null() {
            *value = Object::new().into();
        }
        map = match value {
            Value::Object(map) => map,
            other => return Err(wrong(&place[..=depth], "a map", other)),
        };
    }
    Ok((map, last))
}

fn wrong(place: &[&str], expected: &str, found: &Value) -> DocumentError {
    let (place, found) = (place.join("."), name_of(found));
    DocumentError::new(format!("{place}: expected {expected}, found {found}"))
}

/// Puts a value; maps on the way are made.
pub(super) fn put(object: &mut Object, place: &[&'static str], value: Value) -> Result<(), DocumentError> {
    let (map, key) = within(object, place)?;
    map.insert(key.to_owned(), value);
    Ok(())
}

/// Takes a value away, where there is one.
fn remove(object: &mut Object, place: &[&'static str]) -> Result<(), DocumentError> {
    if at(object, place).is_some() || is_blocked(object, place) {
        let (map, key) = within(object, place)?;
        map.remove(key);
    }
    Ok(())
}

/// Whether something on the way to a place is no map, so that nobody can say what is there.
fn is_blocked(object: &Object, place: &[&str]) -> bool {
    let ways = (1..place.len()).filter_map(|depth| at(object, &place[..depth]));
    ways.into_iter().any(|way| !way.is_object())
}

/// The list at a place, made where there is none.
fn list<'o>(object: &'o mut Object, place: &[&'static str]) -> Result<&'o mut Vec<Value>, DocumentError> {
    let (map, key) = within(object, place)?;
    let value = map.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(list) => Ok(list),
        other => Err(wrong(place, "a list", other)),
    }
}

/// Takes entries out of a list, where there is one.
fn retain(
    object: &mut Object,
    place: &[&'static str],
    stays: impl Fn(&Value) -> bool,
) -> Result<(), DocumentError> {
    if at(object, place).is_some() || is_blocked(object, place) {
        list(object, place)?.retain(stays);
    }
    Ok(())
}

fn has_uid(entry: &Value, uid: &Uid) -> bool {
    let found = entry.get("uid").and_then(Value::as_str);
    found.is_some_and(|found| Uid::new(found) == *uid)
}

fn is_taint(entry: &Value, taint: &Taint) -> bool {
    let is = |key, text: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default() == text;
    is("key", &taint.key) && is("effect", &taint.effect)
}

/// Puts a condition into the place of the first of its type, or behind the others. What else that one holds stays.
fn put_condition(conditions: &mut Vec<Value>, condition: &Condition) {
    let is_it = |other: &Value| other.get("type").and_then(Value::as_str) == Some(&*condition.kind);
    let found = conditions.iter().position(is_it);
    let mut entry = match found.and_then(|at| conditions[at].as_object()) {
        Some(known) => known.clone(),
        None => Object::new(),
    };
    let mut set = |key: &str, value: Option<String>| match value {
        Some(value) => {
            entry.insert(key.to_owned(), value.into());
        }
        None => {
            entry.remove(key);
        }
    };
    let unless_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let time = |time: Option<kubegc_core::Timestamp>| time.map(|time| time.truncate_to_secs().to_string());
    set("type", Some(condition.kind.to_string()));
    set("status", Some(condition.status.to_string()));
    set("reason", unless_empty(&condition.reason));
    set("message", unless_empty(&condition.message));
    set("lastTransitionTime", time(condition.last_transition_time));
    set("lastUpdateTime", time(condition.last_update_time));
    match found {
        Some(at) => conditions[at] = entry.into(),
        None => conditions.push(entry.into()),
    }
}

/// Makes a list of these references. One that stands there already stays as it stands there.
fn put_owner_references(list: &mut Vec<Value>, references: &[OwnerReference]) {
    let before = std::mem::take(list);
    let entries = references.iter().map(|reference| {
        let known = before.iter().find(|entry| is_reference(entry, reference));
        known.cloned().unwrap_or_else(|| owner_reference(reference))
    });
    *list = entries.collect();
}

fn is_reference(entry: &Value, reference: &OwnerReference) -> bool {
    let is = |key, text: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default() == text;
    let flag = |key| entry.get(key).and_then(Value::as_bool);
    is("apiVersion", &reference.api_version)
        && is("kind", &reference.kind)
        && is("name", &reference.name)
        && has_uid(entry, &reference.uid)
        && flag("controller") == reference.controller
        && flag("blockOwnerDeletion") == reference.block_owner_deletion
}

fn owner_reference(reference: &OwnerReference) -> Value {
    let mut entry = Object::new();
    for (key, text) in [
        ("apiVersion", &reference.api_version),
        ("kind", &reference.kind),
        ("name", &reference.name),
    ] {
        entry.insert(key.to_owned(), (&**text).into());
    }
    entry.insert("uid".to_owned(), reference.uid.to_string().into());
    for (key, flag) in [
        ("controller", reference.controller),
        ("blockOwnerDeletion", reference.block_owner_deletion),
    ] {
        entry.extend(flag.map(|flag| (key.to_owned(), flag.into())));
    }
    entry.into()
}
