//! The fields that a configuration names, and the fields that differ between two states of an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    dialect::Dialect,
    field_set::{Element, FieldSet, shown},
};
use crate::types::{node::Node, schema::ListKind};

/// A value, as far as the walk descends into it.
enum Form<'v> {
    Piece,
    Fields(&'v Map<String, Value>),
    Items(&'v [Value]),
}

fn form<'v>(value: &'v Value, types: Node<'_>, dialect: Dialect) -> Form<'v> {
    match value {
        Value::Object(fields) if !types.is_atomic_map(dialect) => Form::Fields(fields),
        Value::Array(items) if types.list_in(dialect) != ListKind::Atomic => Form::Items(items),
        Value::Null if types.is_granular(dialect) => Form::Items(&[]),
        _ => Form::Piece,
    }
}

/// The fields that an applied configuration names.
///
/// # Errors
/// An item of a list has no usable key, or two items have the same key.
///
/// # Upstream
/// `toFieldSetWalker` in `structured-merge-diff/v4/typed/tofieldset.go`, v4.0.2 and v4.4.
pub(super) fn set_of(value: &Value, types: Node<'_>, dialect: Dialect) -> Result<FieldSet, String> {
    below(value, types, dialect, &mut Vec::new()).map(Option::unwrap_or_default)
}

/// The fields below a position; `None` where the value is atomic.
fn below(
    value: &Value,
    types: Node<'_>,
    dialect: Dialect,
    path: &mut Vec<Element>,
) -> Result<Option<FieldSet>, String> {
    let mut set = FieldSet::default();
    match form(value, types, dialect) {
        Form::Piece => return Ok(None),
        Form::Fields(fields) => {
            for (key, value) in fields {
                let element = Element::field(key);
                path.push(element.clone());
                let below = below(value, types.field(key), dialect, path)?;
                path.pop();
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if below.is_none() || (is_empty && dialect.includes_empty_objects) || !types.declares(key) {
                    set.insert_member(element.clone());
                }
                set.insert_below(element, below.unwrap_or_default());
            }
        }
        Form::Items(items) => {
            let elements = types
                .elements(items, dialect)
                .map_err(|(index, problem)| format!("{}: element {index}: {problem}", shown(path)))?;
            for (index, (element, item)) in elements.iter().zip(items).enumerate() {
                if elements[..index].contains(element) {
                    let entry = shown(std::slice::from_ref(element));
                    return Err(format!("{}: duplicate entries for key {entry}", shown(path)));
                }
                path.push(element.clone());
                let below = below(item, types.item(), dialect, path)?;
                path.pop();
                set.insert_member(element.clone());
                set.insert_below(element.clone(), below.unwrap_or_default());
            }
        }
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

/// Compares two states.
///
/// # Upstream
/// `TypedValue.Compare` in `structured-merge-diff/v4/typed/typed.go`, v4.0.2 and v4.4.
pub(super) fn compare<'v>(old: &'v Value, new: &'v Value, types: Node<'v>, dialect: Dialect) -> Comparison {
    let mut comparison = Comparison::default();
    let walk = Walk { dialect };
    walk.below(&mut comparison, &mut Vec::new(), Some(old), Some(new), types);
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
}

struct Walk {
    dialect: Dialect,
}

impl Walk {
    fn below<'v>(
        &self,
        comparison: &mut Comparison,
        path: &mut Vec<Element>,
        old: Option<&'v Value>,
        new: Option<&'v Value>,
        types: Node<'v>,
    ) {
        if old.is_some() && old == new {
            return;
        }
        let counts = |value: &&Value| self.dialect.nulls_are_values || !value.is_null();
        let (old, new) = (old.filter(counts), new.filter(counts));
        let is_map =
            |value: Option<&Value>| value.is_some_and(Value::is_object) && !types.is_atomic_map(self.dialect);
        let is_list = |value: Option<&Value>| {
            value.is_some_and(Value::is_array) && types.list_in(self.dialect) != ListKind::Atomic
        };
        let is_other =
            |value: Option<&Value>, fits: bool| value.is_some_and(|value| !value.is_null()) && !fits;
        match (is_map(old) || is_map(new), is_list(old) || is_list(new)) {
            (true, _) if !is_other(old, is_map(old)) && !is_other(new, is_map(new)) => {
                let (a, b) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty) {
                    comparison.piece(path, old, new);
                    return;
                }
                let mut keys: Vec<&String> = a.iter().chain(b.iter()).flat_map(|map| map.keys()).collect();
                keys.sort_unstable();
                keys.dedup();
                for key in keys {
                    let below = types.field(key);
                    let at = |map: Option<&'v Map<String, Value>>| map.and_then(|map| map.get(key));
                    // A field that every object has exists before the write.
                    let before = at(a).or_else(|| below.always().filter(|_| old.is_some()));
                    path.push(Element::field(key));
                    self.below(comparison, path, before, at(b), below);
                    path.pop();
                }
            }
            (_, true) if !is_other(old, is_list(old)) && !is_other(new, is_list(new)) => {
                let items =
                    |value: Option<&'v Value>| value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let (a, b) = (items(old), items(new));
                if a.is_empty() && b.is_empty() {
                    comparison.piece(path, old, new);
                    return;
                }
                let (Some(a), Some(b)) = (self.by_element(a, types), self.by_element(b, types)) else {
                    comparison.piece(path, old, new);
                    return;
                };
                self.items(comparison, path, &a, &b, types.item());
            }
            (false, false) => {
                comparison.piece(path, old, new);
                return;
            }
            // The form changed: one value was removed, another was added.
            _ => {
                self.below(comparison, path, old, None, types);
                self.below(comparison, path, None, new, types);
                return;
            }
        }
        if old.is_none() {
            comparison.added.insert(path);
        } else if new.is_none() {
            comparison.removed.insert(path);
        }
    }

    fn items<'v>(
        &self,
        comparison: &mut Comparison,
        path: &mut Vec<Element>,
        old: &BTreeMap<Element, Vec<&'v Value>>,
        new: &BTreeMap<Element, Vec<&'v Value>>,
        types: Node<'v>,
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
                    self.below(comparison, path, a, b, types);
                    // An item represents itself, regardless of its fields.
                    match (a, b) {
                        (None, Some(_)) => comparison.added.insert(path),
                        (Some(_), None) => comparison.removed.insert(path),
                        _ => {}
                    }
                }
                (a, b) if a == b => {}
                ([], _) => comparison.added.insert(path),
                (_, []) => comparison.removed.insert(path),
                _ => comparison.modified.insert(path),
            }
            path.pop();
        }
    }

    /// The items of a list by their keys; `None` where an item has no usable key.
    fn by_element<'v>(
        &self,
        items: &'v [Value],
        types: Node<'_>,
    ) -> Option<BTreeMap<Element, Vec<&'v Value>>> {
        let elements = types.elements(items, self.dialect).ok()?;
        let mut map: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
        for (element, item) in elements.into_iter().zip(items) {
            map.entry(element).or_default().push(item);
        }
        Some(map)
    }
}
