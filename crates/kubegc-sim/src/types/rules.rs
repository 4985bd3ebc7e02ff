//! Rules of fields, read from tables, and applied to objects. `validate/rules.txt` describes their language.

pub(super) mod conditions;
pub(super) mod parse;

use std::{cmp::Ordering, collections::BTreeSet, ptr, sync::OnceLock};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::version::behavior::VALUES_ARE_JSON;
use regex::Regex;
use serde_json::Value;

use super::{
    field::{At, Check, copy},
    go_syntax,
};
use crate::status::quoted;
use conditions::{Block, Condition, Place, place_of, text};

/// Sections of rules by name.
#[derive(Debug, Default)]
pub(crate) struct Table(HashMap<&'static str, Vec<Row>, FixedState>);

/// A rule that is a function.
pub(crate) type Code = for<'a, 'v> fn(&At<'a>, &mut Check<'v>);

/// The rules of the values at some paths, and rows for what they contain.
#[derive(Debug, Default)]
struct Row {
    /// Paths, and the number of blocks further out at which they begin.
    paths: Vec<(usize, Vec<Step>)>,
    words: Vec<Word>,
    message: String,
    /// The Go type or the text with which an invalid value is shown.
    shown: &'static str,
    rows: Vec<Self>,
}

#[derive(Debug)]
pub(super) enum Step {
    Field(&'static str),
    /// A field, and its name in errors; without one, its errors are those of the value that has it.
    Renamed(&'static str, &'static str),
    /// The same value, whose errors are those of a field; without a name, those of the value that has it.
    Named(&'static str),
    Key(&'static str),
    /// As entries, with the path of a field.
    Fields,
    Items,
    /// Items whose errors omit their position.
    Unnumbered,
    Entries,
}

#[derive(Debug)]
pub(crate) enum Word {
    Since(u16),
    Until(u16),
    /// One of these conditions holds.
    If(Vec<Condition>),
    /// A condition on the value, and the opposite of one.
    When(fn(&At<'_>, &Check<'_>) -> bool),
    Unless(fn(&At<'_>, &Check<'_>) -> bool),
    /// Fields that may differ from the stored ones where the next word `Differs` compares a value.
    Mutable(Vec<&'static str>),
    /// The value is not the stored one, even with the mutable fields of that.
    Differs,
    NotBlank,
    /// Whether the value is valid, and the usual message if it is not.
    Fits(fn(&At<'_>) -> bool, &'static str),
    /// Whether the object was sent in this version.
    Api(bool, &'static str),
    /// Whether the row has found no problem yet.
    Valid(bool),
    Required,
    /// The supported values, with their first releases.
    In(Vec<(String, u16)>),
    Range(i64, i64),
    /// How a number or time may compare to that of another field.
    Bound(&'static [Ordering], Place<'static>),
    /// Whether a text matches a pattern, which is compiled on first use.
    Like(bool, &'static str, OnceLock<Option<Regex>>),
    MaxBytes(usize),
    MaxItems(usize),
    /// The greatest size of all keys and values, in bytes.
    MaxTotal(usize),
    /// It is longer than this.
    TooLong(usize),
    /// The fields that distinguish items.
    Unique(Vec<Place<'static>>),
    /// An earlier item has the same values of these fields.
    Repeats(Vec<Place<'static>>),
    /// No other field with this rule is set; the name of the field in the error.
    Sole(&'static str),
    /// No field with the rule `Sole` is set.
    None,
    Immutable,
    /// A problem, with the value as it is shown and the message.
    Report(fn(&At<'_>, &mut Check<'_>, &str, &str)),
    Section(&'static str),
    /// The rows of a section, which find only repetitions among themselves.
    Apply(&'static str),
    /// The value has no problem by the rows of a section.
    Passes(&'static str),
    Code(Code),
    /// Checks the key of an entry; whether its errors are those of the map.
    Key(bool, Code),
}

/// The values that the items of a list have had, by the address of the rule that forbids repetition.
type Seen = BTreeSet<(usize, String)>;

/// Stands for the address of the rule that only one of some fields is set.
const SOLE: usize = 0;

impl Table {
    /// Whether there is a section of this name.
    pub(crate) fn has(&self, section: &str) -> bool {
        self.0.contains_key(section)
    }

    /// Applies a section, if there is one, to a value.
    pub(crate) fn apply(&self, section: &str, at: &At<'_>, c: &mut Check) {
        if let Some(rows) = self.0.get(section) {
            self.run(rows, &Block { at, outer: None }, &mut Seen::new(), c);
        }
    }

    /// Depth is bounded by the table.
    fn run(&self, rows: &[Row], block: &Block<'_, '_>, seen: &mut Seen, c: &mut Check) {
        for row in rows {
            for (outer, path) in &row.paths {
                let base = block.outwards(*outer).at.clone();
                each(path, base, seen, &mut |at, seen| {
                    row.check(self, block, &at, seen, c)
                });
            }
        }
    }
}

/// Visits the values at a path. Depth is bounded by the table.
fn each<'v>(path: &[Step], at: At<'v>, seen: &mut Seen, visit: &mut dyn FnMut(At<'v>, &mut Seen)) {
    let Some((step, rest)) = path.split_first() else {
        visit(at, seen);
        return;
    };
    let mut of_list = Seen::new();
    match step {
        Step::Field(name) => each(rest, at.get(name), seen, visit),
        Step::Named("") => each(rest, at.without_last_step(), seen, visit),
        Step::Named(shown) => each(rest, at.named(shown), seen, visit),
        Step::Renamed(name, "") => each(rest, at.get(name).placed(&at), seen, visit),
        Step::Renamed(name, shown) => each(rest, at.renamed(name, shown), seen, visit),
        Step::Key(key) => each(rest, at.key(key), seen, visit),
        Step::Items => {
            for item in at.items() {
                each(rest, item, &mut of_list, visit);
            }
        }
        Step::Unnumbered => {
            for item in at.items() {
                each(rest, item.placed(&at), &mut of_list, visit);
            }
        }
        Step::Fields => {
            for (key, _) in at.entries() {
                each(rest, at.get(key), &mut of_list, visit);
            }
        }
        Step::Entries => {
            for (_, entry) in at.entries() {
                each(rest, entry, &mut of_list, visit);
            }
        }
    }
}

impl Word {
    /// Whether a condition holds about the release or the fields of a block; `None` for other words.
    pub(super) fn holds(&self, block: &Block<'_, '_>, c: &Check<'_>) -> Option<bool> {
        Some(match self {
            Self::Since(minor) => c.since(*minor),
            Self::Until(minor) => !c.since(*minor + 1),
            Self::If(conditions) => conditions.iter().any(|condition| condition.holds(block, c)),
            _ => return None,
        })
    }
}

impl Row {
    /// Checks a value word by word, until a condition does not hold, and then what it contains.
    fn check(&self, table: &Table, outer: &Block<'_, '_>, at: &At<'_>, seen: &mut Seen, c: &mut Check) {
        let before = c.causes.len();
        let block = Block {
            at,
            outer: Some(outer),
        };
        let is_done = |word| !self.allows(table, word, &block, before, seen, c);
        if !self.words.iter().any(is_done) {
            table.run(&self.rows, &block, seen, c);
        }
    }

    /// The message of the row, or the usual one of its rule. `{path}` stands for the text of a field.
    fn message(&self, usual: &str, outer: &Block<'_, '_>, c: &Check) -> String {
        let message = match self.message.as_str() {
            "" => usual,
            message => message,
        };
        let mut parts = message.split('{');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |message, part| match part.split_once('}') {
            Some((path, rest)) => message + &place_of(path).text(outer, c) + rest,
            None => message + "{" + part,
        })
    }

    /// The value, as its errors show it.
    fn shown(&self, at: &At<'_>, outer: &Block<'_, '_>, c: &Check) -> String {
        if self.shown.starts_with(['"', '!']) {
            return self.shown.trim_start_matches('!').replace('_', " ");
        }
        let (ty, other) = match self.shown.split_once('=') {
            Some((ty, path)) => (ty, Some(place_of(path).read(outer, c))),
            None => (self.shown, None),
        };
        let of = other.as_ref().unwrap_or(at);
        match ty {
            // An empty list or map is not null.
            "" if at.value.is_null() && other.is_none() && c.version.has(VALUES_ARE_JSON) => {
                at.decoded(c).to_string()
            }
            "" => of.shown_in(c.version),
            "number" => at.number().to_string(),
            "text" => quoted(at.text()),
            "key" => quoted(at.key_or_name()),
            "null" => "null".to_owned(),
            "nothing" => String::new(),
            ty => match ty.strip_prefix('~') {
                Some(ty) => go_syntax::value(c.version, of.decoded(c), ty),
                None => go_syntax::value(c.version, of.value, ty),
            },
        }
    }

    /// Checks a value by one word; whether the following words apply.
    fn allows(
        &self,
        table: &Table,
        word: &Word,
        block: &Block<'_, '_>,
        before: usize,
        seen: &mut Seen,
        c: &mut Check,
    ) -> bool {
        let at = block.at;
        let outer = block.outer.unwrap_or(block);
        let or = |usual: &str, c: &Check| self.message(usual, outer, c);
        let shown = |c: &Check| self.shown(at, outer, c);
        match word {
            Word::Since(_) | Word::Until(_) | Word::If(_) => return word.holds(outer, c) == Some(true),
            Word::When(holds) => return holds(at, c),
            Word::Unless(holds) => return !holds(at, c),
            Word::Mutable(fields) => c.mutable.extend(fields),
            Word::Differs => {
                let mut new = at.value.clone();
                for field in std::mem::take(&mut c.mutable) {
                    copy(&mut new, at.old(c), field);
                }
                return new != *at.old(c);
            }
            Word::NotBlank => {
                if at.text().trim().is_empty() {
                    at.required(c, &or("", c));
                }
            }
            Word::Fits(fits, usual) => {
                if !fits(at) {
                    at.invalid_as(c, &shown(c), &or(usual, c));
                }
            }
            Word::Api(is, version) => {
                let is_this = match version.split_once('/') {
                    Some((group, version)) => c.group == group && c.api == version,
                    None => c.api == *version,
                };
                return is_this == *is;
            }
            Word::Valid(is_valid) => return (c.causes.len() == before) == *is_valid,
            Word::Required => {
                let is_missing = match at.value {
                    Value::Null => true,
                    Value::String(text) => text.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    _ => false,
                };
                if is_missing {
                    at.required(c, &or("", c));
                }
                return !is_missing;
            }
            Word::In(values) => {
                let minor = c.version.minor();
                let values = values.iter().filter(|(_, since)| *since <= minor);
                let values: Vec<&str> = values.map(|(value, _)| value.as_str()).collect();
                if !values.contains(&at.text()) {
                    at.unsupported_as(c, &shown(c), &values);
                }
            }
            Word::Range(least, most) => {
                if !(*least..=*most).contains(&at.number()) {
                    let usual = format!("must be greater than or equal to {least}");
                    at.invalid_as(c, &shown(c), &or(&usual, c));
                }
            }
            Word::Bound(allowed, place) => {
                let bound = place.read(outer, c);
                let order = match (at.value, bound.value) {
                    (Value::String(text), Value::String(bound)) => text.cmp(bound),
                    _ => at.number().cmp(&bound.number()),
                };
                if !allowed.contains(&order) {
                    at.invalid_as(c, &shown(c), &or("", c));
                }
            }
            Word::Like(fits, pattern, compiled) => {
                let pattern = compiled.get_or_init(|| Regex::new(pattern).ok());
                if pattern
                    .as_ref()
                    .is_some_and(|pattern| pattern.is_match(at.text()) != *fits)
                {
                    at.invalid_as(c, &shown(c), &or("", c));
                }
            }
            Word::MaxBytes(max) => {
                if at.text().len() > *max {
                    match self.message.is_empty() {
                        true => at.too_long(c, *max),
                        false => at.invalid_as(c, &shown(c), &or("", c)),
                    }
                }
            }
            Word::MaxItems(max) => {
                if at.len() > *max {
                    at.too_many(c, at.len(), *max);
                }
            }
            Word::MaxTotal(max) => {
                let sizes = at.entries().map(|(key, value)| key.len() + value.text().len());
                if sizes.sum::<usize>() > *max {
                    at.too_long(c, *max);
                }
            }
            Word::TooLong(max) => at.too_long(c, *max),
            Word::Unique(fields) | Word::Repeats(fields) => {
                let value = match fields.as_slice() {
                    [] => text(at.value),
                    fields => fields.iter().map(|field| field.text(block, c) + "|").collect(),
                };
                let repeats = !seen.insert((ptr::from_ref(word).addr(), value));
                match self.message.as_str() {
                    _ if matches!(word, Word::Repeats(_)) => return repeats,
                    _ if !repeats => {}
                    "" => at.duplicate_as(c, &shown(c)),
                    message => at.invalid_as(c, &shown(c), message),
                }
            }
            Word::Sole(name) => {
                let is_first = seen.insert((SOLE, outer.at.path.to_string()));
                if !is_first && *name != "-" {
                    let problem = format!("may not specify more than 1 {} type", or("volume", c));
                    outer.at.get(name).forbidden(c, &problem);
                    return false;
                }
            }
            Word::None => return !seen.contains(&(SOLE, at.path.to_string())),
            Word::Immutable => at.immutable(c, at.old(c), self.shown),
            Word::Report(report) => report(at, c, &shown(c), &or("", c)),
            Word::Section(name) => {
                if let Some(rows) = table.0.get(name) {
                    table.run(rows, block, seen, c);
                }
            }
            Word::Apply(name) => table.apply(name, at, c),
            Word::Passes(name) => {
                let known = c.causes.len();
                table.apply(name, at, c);
                let passes = c.causes.len() == known;
                c.causes.truncate(known);
                return passes;
            }
            Word::Code(code) => code(at, c),
            Word::Key(is_of_map, code) => {
                let value = &Value::from(at.key_or_name());
                let path = match is_of_map {
                    true => at.without_last_step().path,
                    false => at.path.clone(),
                };
                code(&At { value, path }, c);
            }
        }
        true
    }
}
