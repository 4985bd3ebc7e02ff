//! Decides which fields a configuration names, and which fields differ between two states of an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    field_set::{Element, FieldSet, shown},
    list_types::{ListType, Types},
};

/// A value as far as it is looked into.
enum Form<'v> {
    Piece,
    Fields(&'v Map<String, Value>),
    Items(&'v [Value]),
}

fn form<'v>(value: &'v Value, types: Types<'_>) -> Form<'v> {
    match value {
        Value::Object(fields) if !types.is_atomic_map() => Form::Fields(fields),
        Value::Array(items) if types.list() != ListType::Atomic => Form::Items(items),
        _ => Form::Piece,
    }
}

/// The fields that an applied configuration names.
///
/// # Errors
/// An item of a list cannot be told from the others, or two are the same.
///
/// # Upstream
/// `toFieldSetWalker` in `structured-merge-diff/v4/typed/tofieldset.go`, v4.4.
pub(super) fn set_of(value: &Value, types: Types<'_>) -> Result<FieldSet, String> {
    below(value, types, &mut Vec::new()).map(Option::unwrap_or_default)
}

/// What lies below a place; `None` where the place is one piece.
fn below(value: &Value, types: Types<'_>, path: &mut Vec<Element>) -> Result<Option<FieldSet>, String> {
    let mut set = FieldSet::default();
    match form(value, types) {
        Form::Piece => return Ok(None),
        Form::Fields(fields) => {
            for (key, value) in fields {
                let element = Element::field(key);
                path.push(element.clone());
                let below = below(value, types.field(key), path)?;
                path.pop();
                let empty_map = value.as_object().is_some_and(Map::is_empty);
                if below.is_none() || empty_map || !types.declares(key) {
                    set.insert_member(element.clone());
                }
                set.insert_below(element, below.unwrap_or_default());
            }
        }
        Form::Items(items) => {
            let elements = types
                .elements(items)
                .map_err(|(index, problem)| format!("{}: element {index}: {problem}", shown(path)))?;
            for (index, (element, item)) in elements.iter().zip(items).enumerate() {
                if elements[..index].contains(element) {
                    let entry = shown(std::slice::from_ref(element));
                    return Err(format!("{}: duplicate entries for key {entry}", shown(path)));
                }
                path.push(element.clone());
                let below = below(item, types.item(), path)?;
                path.pop();
                set.insert_member(element.clone());
                set.insert_below(element.clone(), below.unwrap_or_default());
            }
        }
    }
    Ok(Some(set))
}

/// What differs between two states of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// Compares two states. Null is as good as missing.
///
/// # Upstream
/// `TypedValue.Compare` in `structured-merge-diff/v4/typed/typed.go`, v4.4.
pub(super) fn compare<'v>(old: &'v Value, new: &'v Value, types: Types<'v>) -> Comparison {
    let mut comparison = Comparison::default();
    comparison.walk(&mut Vec::new(), Some(old), Some(new), types);
    comparison
}

impl Comparison {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    fn walk<'v>(
        &mut self,
        path: &mut Vec<Element>,
        old: Option<&'v Value>,
        new: Option<&'v Value>,
        types: Types<'v>,
    ) {
        let (old, new) = (
            old.filter(|value| !value.is_null()),
            new.filter(|value| !value.is_null()),
        );
        let forms = (
            old.map(|value| form(value, types)),
            new.map(|value| form(value, types)),
        );
        match forms {
            (None, None) => return,
            (None | Some(Form::Fields(_)), None | Some(Form::Fields(_))) => {
                let fields = |form: &Option<Form<'v>>| match form {
                    Some(Form::Fields(fields)) => Some(*fields),
                    _ => None,
                };
                let (a, b) = (fields(&forms.0), fields(&forms.1));
                let mut keys: Vec<&String> = a.iter().chain(b.iter()).flat_map(|map| map.keys()).collect();
                keys.sort_unstable();
                keys.dedup();
                for key in keys {
                    path.push(Element::field(key));
                    let at = |map: Option<&'v Map<String, Value>>| map.and_then(|map| map.get(key));
                    self.walk(path, at(a), at(b), types.field(key));
                    path.pop();
                }
            }
            (None | Some(Form::Items(_)), None | Some(Form::Items(_))) => {
                let items = |form: &Option<Form<'v>>| match form {
                    Some(Form::Items(items)) => by_element(items, types),
                    _ => Some(BTreeMap::new()),
                };
                let (Some(a), Some(b)) = (items(&forms.0), items(&forms.1)) else {
                    self.piece(path, old, new);
                    return;
                };
                self.items(path, &a, &b, types.item());
            }
            (Some(Form::Piece) | None, Some(Form::Piece) | None) => {
                self.piece(path, old, new);
                return;
            }
            // Of another form than before: one thing went, another came.
            _ => {
                self.walk(path, old, None, types);
                self.walk(path, None, new, types);
                return;
            }
        }
        if old.is_none() && (!types.is_always_there() || new.is_some_and(is_empty)) {
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
        types: Types<'v>,
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
                    self.walk(path, a, b, types);
                    // An item stands for itself, whatever it holds.
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

    fn piece(&mut self, path: &[Element], old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => self.added.insert(path),
            (Some(_), None) => self.removed.insert(path),
            (old, new) if old != new => self.modified.insert(path),
            _ => {}
        }
    }
}

/// The items of a list by what tells them apart; `None` where one cannot be told.
fn by_element<'v>(items: &'v [Value], types: Types<'_>) -> Option<BTreeMap<Element, Vec<&'v Value>>> {
    let elements = types.elements(items).ok()?;
    let mut map: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for (element, item) in elements.into_iter().zip(items) {
        map.entry(element).or_default().push(item);
    }
    Some(map)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
