//! Sets of fields, and their `FieldsV1` form in `managedFields`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    dialect::{Ownership, Place},
    element::Element,
};

/// A set of paths. Paths share their prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub(super) struct FieldSet {
    /// Whether the path that leads here is in the set.
    is_member: bool,
    /// No set is empty.
    below: BTreeMap<Element, Self>,
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    pub(super) fn has(&self, element: &Element) -> bool {
        self.below.get(element).is_some_and(|set| set.is_member)
    }

    /// The paths below an element, if there are any.
    pub(super) fn below(&self, element: &Element) -> Option<&Self> {
        self.below.get(element).filter(|set| !set.below.is_empty())
    }

    pub(super) fn insert(&mut self, path: &[Element]) {
        let steps = path.iter().cloned();
        steps
            .fold(self, |set, step| set.below.entry(step).or_default())
            .is_member = true;
    }

    /// Adds the paths below an element, and the element itself if it is a member.
    pub(super) fn insert_below(&mut self, element: Element, is_member: bool, set: Self) {
        let set = Self { is_member, ..set };
        if !set.is_empty() {
            self.below.entry(element).or_default().add(&set);
        }
    }

    /// Removes one path, but not the paths below it.
    pub(super) fn remove(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else {
            self.is_member = false;
            return;
        };
        if let Some(set) = self.below.get_mut(first) {
            set.remove(rest);
            if set.is_empty() {
                self.below.remove(first);
            }
        }
    }

    /// Removes an element and all paths below it.
    pub(super) fn cut(&mut self, element: &Element) {
        self.below.remove(element);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.is_member |= other.is_member;
        for (element, set) in &other.below {
            self.below.entry(element.clone()).or_default().add(set);
        }
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        self.filtered(Some(other), false)
    }

    pub(super) fn shared(&self, other: &Self) -> Self {
        self.filtered(Some(other), true)
    }

    /// The paths that another set has, or those that it does not have.
    fn filtered(&self, other: Option<&Self>, has: bool) -> Self {
        let below = self.below.iter().map(|(element, set)| {
            let other = other.and_then(|other| other.below.get(element));
            (element.clone(), set.filtered(other, has))
        });
        Self {
            is_member: self.is_member && other.is_some_and(|other| other.is_member) == has,
            below: below.filter(|(_, set)| !set.is_empty()).collect(),
        }
    }

    /// Changes the paths below a position to the ownership that the types have there. A value that is owned
    /// as one, but is granular by its type, gets the paths of the live object.
    pub(super) fn follow_schema(&mut self, live: Option<&Self>, place: Place<'_>) {
        for (element, set) in &mut self.below {
            let place = place.at(element);
            let live = live.and_then(|live| live.below.get(element));
            match place.ownership() {
                Ownership::Atomic => {
                    set.below.clear();
                    set.is_member = true;
                }
                Ownership::Granular if set.below.is_empty() => {
                    set.below = live.map(|live| live.below.clone()).unwrap_or_default();
                }
                Ownership::Granular => set.follow_schema(live, place),
                Ownership::Scalar => {}
            }
        }
    }

    /// The paths. At each level, the members precede the paths below them.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        let own = self.below.iter().filter(|(_, set)| set.is_member);
        let below = self.below.iter().flat_map(|(element, set)| {
            let paths = set.paths().into_iter();
            paths.map(|path| [vec![element.clone()], path].concat())
        });
        own.map(|(element, _)| vec![element.clone()])
            .chain(below)
            .collect()
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
            set.insert_below(element, names_itself || below.is_empty(), below);
        }
        Ok(set)
    }
}

impl From<FieldSet> for Value {
    fn from(set: FieldSet) -> Self {
        let fields = set.below.into_iter().map(|(element, set)| {
            let names_itself = set.is_member && !set.below.is_empty();
            let mut below = Self::from(set);
            if names_itself {
                below[SELF] = json!({});
            }
            (element.written(), below)
        });
        fields.collect::<Map<_, _>>().into()
    }
}

/// Represents the position itself, next to the positions below it.
const SELF: &str = ".";

#[cfg(test)]
mod tests {
    use super::{super::element::shown, *};

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
