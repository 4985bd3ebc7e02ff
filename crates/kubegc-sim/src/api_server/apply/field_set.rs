//! Sets of fields, and their `FieldsV1` form in `managedFields`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, map::Entry};

use super::dialect::{OWNED_VALUES_STAY_WHOLE, Ownership, Place};
use crate::status::quoted;

/// One step of a path into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    /// A field of an object.
    Field(String),
    /// An item of a list of objects: its keys in order, each with its value as JSON.
    Key(Vec<(String, String)>),
    /// An item of a set: the value as JSON.
    Value(String),
}

impl Element {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    fn read(text: &str) -> Option<Self> {
        let (form, rest) = text.split_once(':')?;
        match form {
            "f" => Some(Self::field(rest)),
            "k" => match serde_json::from_str(rest).ok()? {
                Value::Object(keys) => {
                    let mut keys: Vec<_> = keys
                        .into_iter()
                        .map(|(key, value)| (key, value.to_string()))
                        .collect();
                    keys.sort_unstable();
                    Some(Self::Key(keys))
                }
                _ => None,
            },
            "v" => Some(Self::Value(serde_json::from_str::<Value>(rest).ok()?.to_string())),
            _ => None,
        }
    }

    fn written(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())))
                    .collect();
                format!("k:{{{}}}", keys.join(","))
            }
            Self::Value(value) => format!("v:{value}"),
        }
    }

    /// Appends the step to a path in the form of error messages: `.spec.containers[name="web"]`.
    fn show(&self, path: &mut String) {
        // Writing to a String does not fail.
        let _infallible = match self {
            Self::Field(name) => write!(path, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(path, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(path, "[={value}]"),
        };
    }
}

/// A path in the form of error messages.
pub(super) fn shown(path: &[Element]) -> String {
    path.iter().fold(String::new(), |mut text, element| {
        element.show(&mut text);
        text
    })
}

/// A set of paths. Paths share their prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub(super) struct FieldSet {
    members: BTreeSet<Element>,
    /// No child is empty.
    children: BTreeMap<Element, Self>,
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    pub(super) fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub(super) fn below(&self, element: &Element) -> Option<&Self> {
        self.children.get(element)
    }

    pub(super) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.insert_member(last.clone()),
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(super) fn insert_member(&mut self, element: Element) {
        self.members.insert(element);
    }

    /// Adds the paths below an element.
    pub(super) fn insert_below(&mut self, element: Element, set: Self) {
        if !set.is_empty() {
            self.children.entry(element).or_default().add(&set);
        }
    }

    /// Removes one path, but not the paths below it.
    pub(super) fn remove(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.remove(last);
            }
            [first, rest @ ..] => {
                if let Some(child) = self.children.get_mut(first) {
                    child.remove(rest);
                    if child.is_empty() {
                        self.children.remove(first);
                    }
                }
            }
        }
    }

    /// Removes an element and all paths below it.
    pub(super) fn cut(&mut self, element: &Element) {
        self.members.remove(element);
        self.children.remove(element);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            self.children.entry(element.clone()).or_default().add(set);
        }
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self.children(|element, set| match other.children.get(element) {
                Some(other) => set.without(other),
                None => set.clone(),
            }),
        }
    }

    pub(super) fn shared(&self, other: &Self) -> Self {
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: self.children(|element, set| match other.children.get(element) {
                Some(other) => set.shared(other),
                None => Self::default(),
            }),
        }
    }

    /// This set at a path, changed to the ownership that the types have there, with the parts of the live
    /// object. `None` where nothing changes.
    pub(super) fn following_schema<'s, 'p>(
        &'s self,
        path: &mut Vec<&'s Element>,
        parts: &dyn Fn() -> &'p Self,
        place: Place<'s>,
    ) -> Option<Self> {
        let mut changed: Option<Self> = None;
        for element in &self.members {
            if place.has(OWNED_VALUES_STAY_WHOLE)
                || self.children.contains_key(element)
                || place.at(element).ownership() != Ownership::Granular
            {
                continue;
            }
            let mut steps = path.iter().copied().chain([element]);
            let live = steps.try_fold(parts(), Self::below);
            if let Some(live) = live.filter(|live| !live.is_empty()) {
                changed
                    .get_or_insert_with(|| self.clone())
                    .insert_below(element.clone(), live.clone());
            }
        }
        for (element, below) in &self.children {
            let place = place.at(element);
            match place.ownership() {
                Ownership::Atomic => {
                    let changed = changed.get_or_insert_with(|| self.clone());
                    changed.children.remove(element);
                    changed.insert_member(element.clone());
                }
                Ownership::Granular => {
                    path.push(element);
                    if let Some(below) = below.following_schema(path, parts, place) {
                        let changed = changed.get_or_insert_with(|| self.clone());
                        changed.children.insert(element.clone(), below);
                    }
                    path.pop();
                }
                Ownership::Scalar => {}
            }
        }
        changed
    }

    fn children(&self, of: impl Fn(&Element, &Self) -> Self) -> BTreeMap<Element, Self> {
        self.children
            .iter()
            .map(|(element, set)| (element.clone(), of(element, set)))
            .filter(|(_, set)| !set.is_empty())
            .collect()
    }

    /// The paths. At each level, the members precede the paths below them.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        let own = self.members.iter().map(|element| vec![element.clone()]);
        let below = self.children.iter().flat_map(|(element, set)| {
            let paths = set.paths().into_iter();
            paths.map(|path| [vec![element.clone()], path].concat())
        });
        own.chain(below).collect()
    }
}

impl TryFrom<Value> for FieldSet {
    type Error = &'static str;

    /// Reads the `FieldsV1` form. Steps that are not fields, keys or values are ignored.
    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let Value::Object(fields) = value else {
            return Err("a field set is an object");
        };
        let mut set = Self::default();
        for (key, value) in fields {
            let Some(element) = Element::read(&key) else {
                continue;
            };
            let names_itself = value.get(SELF).is_some();
            let below = Self::try_from(value)?;
            if below.is_empty() || names_itself {
                set.insert_member(element.clone());
            }
            set.insert_below(element, below);
        }
        Ok(set)
    }
}

impl From<FieldSet> for Value {
    fn from(set: FieldSet) -> Self {
        let mut fields = Map::new();
        for (element, below) in set.children {
            fields.insert(element.written(), below.into());
        }
        for element in set.members {
            match fields.entry(element.written()) {
                Entry::Vacant(entry) => drop(entry.insert(Self::Object(Map::new()))),
                Entry::Occupied(mut entry) => entry.get_mut()[SELF] = json!({}),
            }
        }
        Self::Object(fields)
    }
}

/// Represents the position itself, next to the positions below it.
const SELF: &str = ".";

/// A scalar in the form of conflicts and keys.
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_refusals_show_them() {
        let fields = json!({"f:spec": {"f:replicas": {}, "f:containers": {
            "k:{\"protocol\":\"TCP\",\"port\":80}": {".": {}, "f:image": {}}, "v:\"x\"": {}}}});
        let set = FieldSet::try_from(fields).unwrap();
        let shown: Vec<String> = set.paths().iter().map(|path| shown(path)).collect();
        let expected = [
            ".spec.replicas",
            ".spec.containers[port=80,protocol=\"TCP\"]",
            ".spec.containers[=\"x\"]",
            ".spec.containers[port=80,protocol=\"TCP\"].image",
        ];
        assert_eq!(shown, expected);
    }
}
