//! Changes of objects because of their other fields, read from `changes.txt`, which describes its language:
//! defaults, what a write resets or keeps, and the fields of other versions.

use std::{
    iter::Peekable,
    sync::{Arc, LazyLock},
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{KubernetesVersion, Timestamp};
use serde_json::{Map, Value, json};

use super::{
    field::{At, Check},
    objects::{object_in, set_nil},
    rules::{
        Step, Word,
        conditions::{Block, Place, place_of},
        parse,
    },
};
use crate::StoredObject;

type Object = Map<String, Value>;
type Sections = HashMap<&'static str, Arc<Vec<Row>>, FixedState>;

/// The sections of the table by name. A bad row fails the test of this module.
static SECTIONS: LazyLock<Sections> =
    LazyLock::new(|| sections(include_str!("changes.txt")).unwrap_or_default());

/// A change of the values at a path, if the conditions hold.
#[derive(Debug)]
struct Row {
    path: Vec<Step>,
    conditions: Vec<Word>,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Rows(Vec<Row>),
    Section(&'static str),
    Field(&'static str, Edit),
}

/// A change of a field.
#[derive(Debug)]
enum Edit {
    Default(Source),
    Set(Source),
    Merge(Source),
    Rename(&'static str),
    Drop,
}

/// A value that a field gets.
#[derive(Debug)]
enum Source {
    Json(Value),
    Now,
    Place(Place<'static>),
    /// A list of one item.
    List(Place<'static>),
}

/// The release, the stored object, and the time of the write.
struct Context<'v> {
    version: KubernetesVersion,
    old: &'v Value,
    now: &'v Value,
}

/// Applies a section, if there is one, to an object.
pub(super) fn apply(section: &str, object: &mut Object, version: KubernetesVersion) {
    let context = Context {
        version,
        old: &Value::Null,
        now: &Value::Null,
    };
    change(section, object, &context);
}

/// Applies a section, if there is one, to an object that is created or replaces another one.
pub(super) fn prepare(
    section: &str,
    object: &mut StoredObject,
    old: Option<&StoredObject>,
    version: KubernetesVersion,
    now: Timestamp,
) {
    if SECTIONS.contains_key(section) {
        let context = Context {
            version,
            old: &old.map_or(Value::Null, super::body),
            now: &now.truncate_to_secs().to_string().into(),
        };
        change(section, object.body_mut(), &context);
    }
}

fn change(section: &str, object: &mut Object, context: &Context<'_>) {
    if let Some(rows) = SECTIONS.get(section) {
        let mut value = Value::Object(std::mem::take(object));
        run(rows, &mut value, context);
        if let Value::Object(fields) = value {
            *object = fields;
        }
    }
}

/// Depth is bounded by the table.
fn run(rows: &[Row], value: &mut Value, context: &Context<'_>) {
    for row in rows {
        if let Some(new) = row.value(value, context) {
            visit(value, &row.path, !new.is_null(), &mut |value| {
                row.change.apply(value, &new, context);
            });
        }
    }
}

/// Visits the values at a path. Depth is bounded by the table.
fn visit(value: &mut Value, path: &[Step], creates: bool, change: &mut dyn FnMut(&mut Value)) {
    match (path, value) {
        ([], value) => change(value),
        ([Step::Items, rest @ ..], Value::Array(items)) => {
            items
                .iter_mut()
                .for_each(|item| visit(item, rest, creates, change));
        }
        ([Step::Field(key) | Step::Key(key), rest @ ..], Value::Object(fields)) => {
            if creates {
                set_nil(fields, key, json!({}));
            }
            if let Some(below) = fields.get_mut(*key) {
                visit(below, rest, creates, change);
            }
        }
        _ => {}
    }
}

impl Row {
    /// The value that a field gets, null for other changes; `None` if the row is skipped.
    fn value(&self, value: &Value, context: &Context<'_>) -> Option<Value> {
        let mut c = Check::new(context.version, None);
        c.old = context.old;
        let at = At::of_object(value);
        let block = Block { at: &at, outer: None };
        let mut conditions = self.conditions.iter();
        if !conditions.all(|condition| condition.holds(&block, &c) == Some(true)) {
            return None;
        }
        let Change::Field(_, Edit::Default(source) | Edit::Set(source) | Edit::Merge(source)) = &self.change
        else {
            return Some(Value::Null);
        };
        let new = match source {
            Source::Json(value) => value.clone(),
            Source::Now => context.now.clone(),
            Source::Place(place) | Source::List(place) => place.read(&block, &c).value.clone(),
        };
        let is_list = matches!(source, Source::List(_)) && !new.is_null();
        Some(if is_list { json!([new]) } else { new }).filter(|new| !new.is_null())
    }
}

impl Change {
    fn apply(&self, value: &mut Value, new: &Value, context: &Context<'_>) {
        match (self, value) {
            (Self::Rows(rows), value) => run(rows, value, context),
            (Self::Section(name), value) => {
                if let Some(rows) = SECTIONS.get(name) {
                    run(rows, value, context);
                }
            }
            (Self::Field(key, edit), Value::Object(object)) => edit.apply(object, key, new),
            _ => {}
        }
    }
}

impl Edit {
    fn apply(&self, object: &mut Object, key: &str, new: &Value) {
        match self {
            Self::Default(_) => set_nil(object, key, new.clone()),
            Self::Set(_) => {
                object.insert(key.to_owned(), new.clone());
            }
            Self::Merge(_) => {
                let entries = new.as_object().into_iter().flatten();
                if let Some(to) = object_in(object, key) {
                    for (key, value) in entries {
                        to.entry(key).or_insert_with(|| value.clone());
                    }
                }
            }
            Self::Rename(to) => {
                if let Some(value) = object.remove(key) {
                    object.insert((*to).to_owned(), value);
                }
            }
            Self::Drop => {
                object.remove(key);
            }
        }
    }
}

fn sections(table: &'static str) -> Result<Sections, String> {
    let lines = table.lines();
    let mut lines = lines
        .filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'))
        .peekable();
    let mut sections = Sections::default();
    while let Some(names) = lines.next() {
        let rows = Arc::new(rows(&mut lines, 2)?);
        for name in names.split(' ') {
            if sections.insert(name, Arc::clone(&rows)).is_some() || rows.is_empty() {
                return Err(names.to_owned());
            }
        }
    }
    Ok(sections)
}

/// Reads the rows of this indentation. Depth is bounded by the table.
fn rows(lines: &mut Peekable<impl Iterator<Item = &'static str>>, indent: usize) -> Result<Vec<Row>, String> {
    let mut found = Vec::new();
    while let Some(line) = lines.next_if(|line| line.len() - line.trim_start().len() == indent) {
        let below = rows(lines, indent + 2)?;
        found.push(row(line.trim_start(), below).ok_or(line)?);
    }
    Ok(found)
}

fn row(line: &'static str, below: Vec<Row>) -> Option<Row> {
    let mut words = line.splitn(2, ' ');
    let (_, mut path) = parse::parse_path(words.next()?)?;
    let mut rest = words.next().unwrap_or_default();
    let mut conditions = Vec::new();
    let (word, value) = loop {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        match parse::condition(word) {
            Some(condition) => conditions.push(condition),
            None => break (word, after),
        }
        rest = after;
    };
    let has_rows = !below.is_empty();
    let change = match word {
        "" => Change::Rows(below),
        name if name.starts_with(char::is_uppercase) => Change::Section(name),
        word => {
            let (Step::Field(key) | Step::Key(key)) = path.pop()? else {
                return None;
            };
            let edit = match word {
                "=" => Edit::Default(source(value)?),
                ":=" => Edit::Set(source(value)?),
                "+=" => Edit::Merge(source(value)?),
                "->" => Edit::Rename(value),
                "drop" => Edit::Drop,
                _ => return None,
            };
            Change::Field(key, edit)
        }
    };
    (has_rows == matches!(change, Change::Rows(_))).then_some(Row {
        path,
        conditions,
        change,
    })
}

fn source(text: &'static str) -> Option<Source> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(Source::Json(value));
    }
    let of_one = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let path = of_one.unwrap_or(text);
    let place = place_of(path);
    match of_one {
        _ if path.is_empty() || path.contains(['[', '{', '"', ' ']) => None,
        Some(_) => Some(Source::List(place)),
        None if path == "$now" => Some(Source::Now),
        None => Some(Source::Place(place)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let known = sections(include_str!("changes.txt")).unwrap_or_else(|line| panic!("{line}"));
        for row in known.values().flat_map(|rows| rows.iter()) {
            assert!(!matches!(row.change, Change::Section(name) if !known.contains_key(name)));
        }
    }
}
