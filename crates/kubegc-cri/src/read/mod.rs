//! Converts a runtime's listings to facts. A listing is complete, or it is an error that names the entry and
//! the field.

mod images;
mod workload;

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::{RuntimeError, Timestamp};

pub(crate) use self::{
    images::{image, image_id},
    workload::{container, sandbox, status},
};

/// The problem of an entry, because of which its listing must not be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    entry: String,
    field: &'static str,
    problem: &'static str,
}

impl Flaw {
    fn new(entry: String, field: &'static str, problem: &'static str) -> Self {
        Self {
            entry,
            field,
            problem,
        }
    }

    /// The error of the call that returned the entry.
    pub(crate) fn of(&self, operation: &'static str) -> RuntimeError {
        RuntimeError::refused(format!("{operation}: an incomplete response: {self}"))
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.entry, self.field, self.problem)
    }
}

/// The unique key of an entry of a listing.
pub(crate) trait Listed: PartialEq {
    /// The key.
    fn key(&self) -> (Arc<str>, Arc<str>);
    /// The name of the entry for users.
    fn called(&self) -> String;
}

/// Reads all entries of a listing. Identical duplicates count once. Two entries that share a key and differ
/// make the listing an error, because the right one is undetermined.
///
/// # Complexity
/// O(n log n) for n entries.
pub(crate) fn listing<W, T: Listed>(
    operation: &'static str,
    entries: Vec<W>,
    read: impl Fn(W) -> Result<T, Flaw>,
) -> Result<Vec<Arc<T>>, RuntimeError> {
    let mut facts: Vec<Arc<T>> = Vec::with_capacity(entries.len());
    let mut positions: BTreeMap<(Arc<str>, Arc<str>), usize> = BTreeMap::new();
    for entry in entries {
        let fact = read(entry).map_err(|flaw| flaw.of(operation))?;
        match positions.get(&fact.key()) {
            None => {
                positions.insert(fact.key(), facts.len());
                facts.push(Arc::new(fact));
            }
            Some(&at) if *facts[at] == fact => {
                tracing::warn!(operation, entry = fact.called(), "listed twice");
            }
            Some(_) => {
                let flaw = Flaw::new(fact.called(), "id", "is listed twice, differently");
                return Err(flaw.of(operation));
            }
        }
    }
    Ok(facts)
}

/// A text that must be there.
fn required(text: String, entry: &dyn Fn() -> String, field: &'static str) -> Result<Arc<str>, Flaw> {
    if text.is_empty() {
        return Err(Flaw::new(entry(), field, "is missing"));
    }
    Ok(text.into())
}

fn pairs(pairs: BTreeMap<String, String>) -> BTreeMap<Arc<str>, Arc<str>> {
    pairs
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

/// A creation time is used as reported; one that is not after the epoch is logged.
fn created_at(nanos: i64, entry: &dyn Fn() -> String) -> Timestamp {
    if nanos <= 0 {
        tracing::warn!(entry = entry(), nanos, "created_at is not after the epoch");
    }
    Timestamp::from_nanos(nanos)
}

/// The name of an entry in messages: its kind, its name if it has one, and the beginning of its id.
fn called(kind: &str, name: Option<&str>, id: &str) -> String {
    let short: String = id.chars().take(13).collect();
    let id = if short.is_empty() { "?" } else { &short };
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{kind} {name} ({id})"),
        None => format!("{kind} {id}"),
    }
}
