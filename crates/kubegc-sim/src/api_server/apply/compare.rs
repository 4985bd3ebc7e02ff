//! The fields that a configuration names, and the fields that differ between two states of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    dialect::{EMPTY_OBJECTS_ARE_OWNED, Place},
    element::{Element, shown},
    field_set::FieldSet,
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
    let problem = |(index, problem)| format!("{}: element {index}: {problem}", shown(path));
    let Some(parts) = place.parts(value).map_err(problem)? else {
        return Ok((value.is_null() && place.is_granular()).then(FieldSet::default));
    };
    let mut set = FieldSet::default();
    for (index, (element, part)) in parts.iter().enumerate() {
        if element.is_item() && parts[..index].iter().any(|(other, _)| other == element) {
            let entry = shown(std::slice::from_ref(element));
            return Err(format!("{}: duplicate entries for key {entry}", shown(path)));
        }
        path.push(element.clone());
        let below = below(part, place.at(element), path)?;
        path.pop();
        let is_empty = part.is_null() || part.as_object().is_some_and(Map::is_empty);
        let is_member = match element {
            Element::Field(name) => {
                below.is_none()
                    || (is_empty && place.has(EMPTY_OBJECTS_ARE_OWNED))
                    || !place.node.declares(name)
            }
            Element::Key(_) | Element::Value(_) => true,
        };
        set.insert_below(element.clone(), is_member, below.unwrap_or_default());
    }
    Ok(Some(set))
}

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
        let values = || old.into_iter().chain(new);
        let has_map = values().any(|value| place.is_map(value));
        if !has_map && !values().any(|value| place.is_list(value)) {
            self.piece(path, old, new);
            return;
        }
        let fits = if has_map { Place::is_map } else { Place::is_list };
        if !values().all(|value| value.is_null() || fits(place, value)) {
            // The form changed: one value was removed, another was added.
            self.below(path, old, None, place);
            self.below(path, None, new, place);
            return;
        }
        let (Some(a), Some(b)) = (by_element(old, place), by_element(new, place)) else {
            self.piece(path, old, new);
            return;
        };
        if a.is_empty() && b.is_empty() {
            self.piece(path, old, new);
            return;
        }
        let elements: BTreeSet<&Element> = a.keys().chain(b.keys()).collect();
        for element in elements {
            let (below, is_item) = (place.at(element), element.is_item());
            path.push(element.clone());
            let [a, b] = [&a, &b].map(|parts| parts.get(element).map_or(&[][..], Vec::as_slice));
            match (a, b) {
                ([] | [_], [] | [_]) => {
                    let (a, b) = (a.first().copied(), b.first().copied());
                    // A field that every object has exists before the write.
                    let always = || below.always().filter(|_| !is_item && old.is_some());
                    self.below(path, a.or_else(always), b, below);
                    // An item represents itself, regardless of its fields.
                    match (a, b) {
                        (None, Some(_)) if is_item => self.added.insert(path),
                        (Some(_), None) if is_item => self.removed.insert(path),
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
        if old.is_none() {
            self.added.insert(path);
        } else if new.is_none() {
            self.removed.insert(path);
        }
    }
}

/// The parts of a value by their keys; `None` where an item of a list has no usable key.
fn by_element<'v>(value: Option<&'v Value>, place: Place<'_>) -> Option<BTreeMap<Element, Vec<&'v Value>>> {
    let parts = value.map(|value| place.parts(value)).transpose().ok()?;
    let mut map: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for (element, part) in parts.flatten().unwrap_or_default() {
        map.entry(element).or_default().push(part);
    }
    Some(map)
}

/// Removes the fields that no manager can own, such as those that the server sets.
///
/// # Upstream
/// `stripMeta` in `apimachinery/pkg/util/managedfields/internal/stripmeta.go`, 1.30, and `GetResetFields` of
/// strategies.
pub(super) fn strip(fields: &mut FieldSet, place: Place<'_>) {
    if place.resets_spec() {
        fields.cut(&Element::field("spec"));
    }
    for name in ["apiVersion", "kind", "metadata"] {
        fields.remove(&[Element::field(name)]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        fields.remove(&[Element::field("metadata"), Element::field(name)]);
    }
}
