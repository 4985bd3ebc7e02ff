//! The fields that a configuration names, and the fields that differ between two states of an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    dialect::{EMPTY_OBJECTS_ARE_OWNED, Place},
    field_set::{Element, FieldSet, shown},
    managed::strip,
};

/// The fields that an applied configuration names.
///
/// # Errors
/// An item of a list has no usable key, or two items have the same key.
///
/// # Upstream
/// `toFieldSetWalker` in `structured-merge-diff/v4/typed/tofieldset.go`, v4.0.2 and v4.4.
pub(super) fn set_of(value: &Value, place: Place<'_>) -> Result<FieldSet, String> {
    below(value, place, &mut Vec::new()).map(Option::unwrap_or_default)
}

/// The fields below a position; `None` where the value is atomic.
fn below(value: &Value, place: Place<'_>, path: &mut Vec<Element>) -> Result<Option<FieldSet>, String> {
    let mut set = FieldSet::default();
    match value {
        Value::Object(fields) if place.is_map(value) => {
            for (key, value) in fields {
                let element = Element::field(key);
                path.push(element.clone());
                let below = below(value, place.field(key), path)?;
                path.pop();
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                let is_member = below.is_none()
                    || (is_empty && place.has(EMPTY_OBJECTS_ARE_OWNED))
                    || !place.node.declares(key);
                set.insert_below(element, is_member, below.unwrap_or_default());
            }
        }
        Value::Array(items) if place.is_list(value) => {
            let elements = place
                .elements(items)
                .map_err(|(index, problem)| format!("{}: element {index}: {problem}", shown(path)))?;
            for (index, (element, item)) in elements.iter().zip(items).enumerate() {
                if elements[..index].contains(element) {
                    let entry = shown(std::slice::from_ref(element));
                    return Err(format!("{}: duplicate entries for key {entry}", shown(path)));
                }
                path.push(element.clone());
                let below = below(item, place.item(), path)?;
                path.pop();
                set.insert_below(element.clone(), true, below.unwrap_or_default());
            }
        }
        Value::Null if place.is_granular() => {}
        _ => return Ok(None),
    }
    Ok(Some(set))
}

/// The differences between two states of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// Compares two states, except for the fields that no manager can own.
///
/// # Upstream
/// `TypedValue.Compare` in `structured-merge-diff/v4/typed/typed.go`, v4.0.2 and v4.4.
pub(super) fn compare<'v>(old: &'v Value, new: &'v Value, place: Place<'v>) -> Comparison {
    let mut comparison = Comparison::default();
    comparison.below(&mut Vec::new(), Some(old), Some(new), place);
    for fields in [
        &mut comparison.added,
        &mut comparison.modified,
        &mut comparison.removed,
    ] {
        strip(fields, place);
    }
    comparison
}

impl Comparison {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    fn piece(&mut self, path: &[Element], old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => self.added.insert(path),
            (Some(_), None) => self.removed.insert(path),
            (old, new) if old != new => self.modified.insert(path),
            _ => {}
        }
    }

    fn below<'v>(
        &mut self,
        path: &mut Vec<Element>,
        old: Option<&'v Value>,
        new: Option<&'v Value>,
        place: Place<'v>,
    ) {
        if old.is_some() && old == new {
            return;
        }
        // Of typed objects, null is a value, rather than equal to a missing field.
        let counts = |value: &&Value| place.types || !value.is_null();
        let (old, new) = (old.filter(counts), new.filter(counts));
        let is_map = |value: Option<&Value>| value.is_some_and(|value| place.is_map(value));
        let is_list = |value: Option<&Value>| value.is_some_and(|value| place.is_list(value));
        let is_other =
            |value: Option<&Value>, fits: bool| value.is_some_and(|value| !value.is_null()) && !fits;
        match (is_map(old) || is_map(new), is_list(old) || is_list(new)) {
            (true, _) if !is_other(old, is_map(old)) && !is_other(new, is_map(new)) => {
                let (a, b) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty) {
                    self.piece(path, old, new);
                    return;
                }
                let mut keys: Vec<&String> = a.iter().chain(b.iter()).flat_map(|map| map.keys()).collect();
                keys.sort_unstable();
                keys.dedup();
                for key in keys {
                    let below = place.field(key);
                    let at = |map: Option<&'v Map<String, Value>>| map.and_then(|map| map.get(key));
                    // A field that every object has exists before the write.
                    let before = at(a).or_else(|| below.always().filter(|_| old.is_some()));
                    path.push(Element::field(key));
                    self.below(path, before, at(b), below);
                    path.pop();
                }
            }
            (_, true) if !is_other(old, is_list(old)) && !is_other(new, is_list(new)) => {
                let items =
                    |value: Option<&'v Value>| value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let (a, b) = (items(old), items(new));
                if a.is_empty() && b.is_empty() {
                    self.piece(path, old, new);
                    return;
                }
                let (Some(a), Some(b)) = (by_element(a, place), by_element(b, place)) else {
                    self.piece(path, old, new);
                    return;
                };
                self.items(path, &a, &b, place.item());
            }
            (false, false) => {
                self.piece(path, old, new);
                return;
            }
            // The form changed: one value was removed, another was added.
            _ => {
                self.below(path, old, None, place);
                self.below(path, None, new, place);
                return;
            }
        }
        if old.is_none() {
            self.added.insert(path);
        } else if new.is_none() {
            self.removed.insert(path);
        }
    }

    fn items<'v>(
        &mut self,
        path: &mut Vec<Element>,
        old: &BTreeMap<Element, Vec<&'v Value>>,
        new: &BTreeMap<Element, Vec<&'v Value>>,
        place: Place<'v>,
    ) {
        let mut elements: Vec<&Element> = old.keys().chain(new.keys()).collect();
        elements.sort_unstable();
        elements.dedup();
        for element in elements {
            path.push(element.clone());
            let at = |map: &BTreeMap<Element, Vec<&'v Value>>| map.get(element).cloned().unwrap_or_default();
            let (a, b) = (at(old), at(new));
            match (a.as_slice(), b.as_slice()) {
                ([] | [_], [] | [_]) => {
                    let (a, b) = (a.first().copied(), b.first().copied());
                    self.below(path, a, b, place);
                    // An item represents itself, regardless of its fields.
                    match (a, b) {
                        (None, Some(_)) => self.added.insert(path),
                        (Some(_), None) => self.removed.insert(path),
                        _ => {}
                    }
                }
                (a, b) if a == b => {}
                ([], _) => self.added.insert(path),
                (_, []) => self.removed.insert(path),
                _ => self.modified.insert(path),
            }
            path.pop();
        }
    }
}

/// The items of a list by their keys; `None` where an item has no usable key.
fn by_element<'v>(items: &'v [Value], place: Place<'_>) -> Option<BTreeMap<Element, Vec<&'v Value>>> {
    let elements = place.elements(items).ok()?;
    let mut map: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for (element, item) in elements.into_iter().zip(items) {
        map.entry(element).or_default().push(item);
    }
    Some(map)
}
