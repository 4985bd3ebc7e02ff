//! Reads the fields of one entry from a tree, and reports every invalid one.
//!
//! A field that is absent or null is unset, as protojson has it. 64-bit numbers may be texts, as protojson
//! writes them.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::Timestamp;
use kubegc_node::GoDuration;
use serde_json::{Map, Value};

use super::finding::{NodeProblem, Notes};
use crate::Place;

/// One map of a document, being read.
pub(crate) struct Entry<'v, 'n> {
    map: &'v Map<String, Value>,
    place: &'n Place,
    /// Path of the map in its document; empty for the document itself.
    path: String,
    /// The name of the object for users.
    object: Box<str>,
    notes: &'n mut Notes,
    /// Fields that were found wrong, in full: none is reported twice.
    flawed: Vec<String>,
    /// The first flaw, as text.
    flaw: Option<String>,
}

impl<'v, 'n> Entry<'v, 'n> {
    pub(crate) fn new(
        map: &'v Map<String, Value>,
        place: &'n Place,
        path: &str,
        notes: &'n mut Notes,
    ) -> Self {
        Self {
            map,
            place,
            path: path.to_owned(),
            object: "".into(),
            notes,
            flawed: Vec::new(),
            flaw: None,
        }
    }

    /// A value that must be a map; the reason if it is none.
    pub(crate) fn of(
        value: &'v Value,
        place: &'n Place,
        path: &str,
        notes: &'n mut Notes,
    ) -> Result<Self, String> {
        let Value::Object(map) = value else {
            let detail = format!("expected a map, found {}", crate::tree::type_name(value));
            notes.note(NodeProblem::BadField, Some(place), "", path, &detail);
            let field = if path.is_empty() { "" } else { ": " };
            return Err(format!("{place}{field}{path}: {detail}"));
        };
        Ok(Self::new(map, place, path, notes))
    }

    /// The value of the entry, or the reason why it could not be read.
    pub(crate) fn checked<T>(&self, read: T) -> Result<T, String> {
        match &self.flaw {
            None => Ok(read),
            Some(flaw) => Err(format!("{}: {flaw}", self.place)),
        }
    }

    /// Sets the name of the entry in findings.
    pub(crate) fn call(&mut self, object: String) {
        self.object = object.into();
    }

    /// The first flaw that makes the entry doubtful, with the field's path.
    pub(crate) fn flaw(&self) -> Option<&str> {
        self.flaw.as_deref()
    }

    /// Records a finding that does not make the entry doubtful.
    pub(crate) fn note(&mut self, problem: NodeProblem, path: &[&str], detail: &str) {
        let field = self.full(path);
        self.notes
            .note(problem, Some(self.place), &self.object, &field, detail);
    }

    /// Records a flaw that makes the entry doubtful; once for each field.
    pub(crate) fn wrong(&mut self, problem: NodeProblem, path: &[&str], detail: &str) {
        let field = self.full(path);
        if self.flawed.contains(&field) {
            return;
        }
        if self.flaw.is_none() {
            self.flaw = Some(format!("{field}: {detail}"));
        }
        self.notes
            .note(problem, Some(self.place), &self.object, &field, detail);
        self.flawed.push(field);
    }

    /// Records that a field has an invalid value.
    pub(crate) fn bad(&mut self, path: &[&str], detail: &str) {
        self.wrong(NodeProblem::BadField, path, detail);
    }

    /// Records that a required field is missing.
    pub(crate) fn missing(&mut self, path: &[&str]) {
        self.wrong(NodeProblem::MissingField, path, "missing");
    }

    fn unexpected<T>(&mut self, path: &[&str], expected: &str, found: &Value) -> Option<T> {
        let detail = format!("expected {expected}, found {}", crate::tree::type_name(found));
        self.bad(path, &detail);
        None
    }

    fn full(&self, path: &[&str]) -> String {
        let mut full = self.path.clone();
        for part in path {
            if !full.is_empty() {
                full.push('.');
            }
            full.push_str(part);
        }
        full
    }

    /// The value at a path, unless it or a map on the path is unset.
    pub(crate) fn value(&mut self, path: &[&str]) -> Option<&'v Value> {
        let (last, parents) = path.split_last()?;
        let mut map = self.map;
        for (depth, name) in parents.iter().enumerate() {
            match map.get(*name) {
                None | Some(Value::Null) => return None,
                Some(Value::Object(inner)) => map = inner,
                Some(other) => return self.unexpected(&path[..=depth], "a map", other),
            }
        }
        map.get(*last).filter(|value| !value.is_null())
    }

    /// A text for names in findings. Its flaws are not recorded here.
    pub(crate) fn peek(&self, path: &[&str]) -> Option<&'v str> {
        let (first, rest) = path.split_first()?;
        let value = rest
            .iter()
            .try_fold(self.map.get(*first)?, |value, name| value.get(*name));
        value?.as_str()
    }

    /// A list for names in findings.
    pub(crate) fn peek_list(&self, name: &str) -> Option<&'v [Value]> {
        self.map.get(name)?.as_array().map(Vec::as_slice)
    }

    fn typed<T>(
        &mut self,
        path: &[&str],
        expected: &str,
        of_type: impl Fn(&'v Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(path)?;
        of_type(value).or_else(|| self.unexpected(path, expected, value))
    }

    /// A value that a text has, unless it could not be parsed.
    fn parsed<T>(&mut self, path: &[&str], text: &str, parsed: Option<T>, expected: &str) -> Option<T> {
        if parsed.is_none() {
            self.bad(path, &format!("{text:?} is not {expected}"));
        }
        parsed
    }

    pub(crate) fn text(&mut self, path: &[&str]) -> Option<&'v str> {
        self.typed(path, "a string", Value::as_str)
    }

    /// A text that is shared; empty if unset.
    pub(crate) fn shared(&mut self, path: &[&str]) -> Arc<str> {
        self.text(path).unwrap_or_default().into()
    }

    pub(crate) fn flag(&mut self, path: &[&str]) -> Option<bool> {
        self.typed(path, "true or false", Value::as_bool)
    }

    /// A whole number, as a number or as a text.
    pub(crate) fn number<T: TryFrom<i128>>(&mut self, path: &[&str]) -> Option<T> {
        if let Value::String(text) = self.value(path)? {
            let number = self.parsed(path, text, text.parse().ok(), "a whole number")?;
            return self.fit(path, number);
        }
        self.plain_number(path)
    }

    /// A whole number, as a number only: how the Kubernetes API has it.
    pub(crate) fn plain_number<T: TryFrom<i128>>(&mut self, path: &[&str]) -> Option<T> {
        let whole = |value: &Value| value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
        let number = self.typed(path, "a whole number", whole)?;
        self.fit(path, number)
    }

    fn fit<T: TryFrom<i128>>(&mut self, path: &[&str], number: i128) -> Option<T> {
        let fitting = T::try_from(number).ok();
        if fitting.is_none() {
            self.bad(path, &format!("{number} is out of range"));
        }
        fitting
    }

    /// A number in CRI's wrapper, `{"value": "1"}`, or bare.
    pub(crate) fn wrapped_number(&mut self, name: &str) -> Option<u64> {
        match self.value(&[name])? {
            Value::Object(_) => self.number(&[name, "value"]),
            _ => self.number(&[name]),
        }
    }

    pub(crate) fn date(&mut self, path: &[&str]) -> Option<Timestamp> {
        let text = self.text(path)?;
        self.parsed(path, text, Timestamp::parse(text).ok(), "an RFC 3339 date")
    }

    pub(crate) fn duration(&mut self, path: &[&str]) -> Option<GoDuration> {
        let text = self.text(path)?;
        self.as_duration(path, text)
    }

    pub(crate) fn as_duration(&mut self, path: &[&str], text: &str) -> Option<GoDuration> {
        self.parsed(path, text, text.parse().ok(), "a duration such as 2m0s")
    }

    pub(crate) fn list(&mut self, path: &[&str]) -> Option<&'v [Value]> {
        self.typed(path, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    pub(crate) fn texts(&mut self, path: &[&str]) -> Vec<Arc<str>> {
        let mut texts = Vec::new();
        for (index, value) in self.list(path).unwrap_or_default().iter().enumerate() {
            match value {
                Value::String(text) => texts.push(text.as_str().into()),
                other => {
                    let last = format!("{}[{index}]", path.last().unwrap_or(&""));
                    let parents = &path[..path.len().saturating_sub(1)];
                    self.unexpected::<()>(&[parents, &[last.as_str()]].concat(), "a string", other);
                }
            }
        }
        texts
    }

    pub(crate) fn map(&mut self, path: &[&str]) -> Option<&'v Map<String, Value>> {
        self.typed(path, "a map", Value::as_object)
    }

    /// A map of texts; `None` if unset. A null in it is an empty text, as Go reads it.
    pub(crate) fn pairs(&mut self, path: &[&str]) -> Option<BTreeMap<&'v str, &'v str>> {
        let map = self.map(path)?;
        let mut pairs = BTreeMap::new();
        for (key, value) in map {
            let text = match value {
                Value::String(text) => Some(text.as_str()),
                Value::Null => Some(""),
                other => self.unexpected(&[path, &[key]].concat(), "a string", other),
            };
            pairs.extend(text.map(|text| (key.as_str(), text)));
        }
        Some(pairs)
    }

    /// A map of shared texts; empty if unset.
    pub(crate) fn shared_pairs(&mut self, path: &[&str]) -> BTreeMap<Arc<str>, Arc<str>> {
        let pairs = self.pairs(path).unwrap_or_default();
        pairs
            .into_iter()
            .map(|(key, value)| (Arc::from(key), Arc::from(value)))
            .collect()
    }
}
