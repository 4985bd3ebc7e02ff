//! Converts responses of a runtime to facts. A listing is complete, or an error that names the entry and the
//! field.

mod images;
mod workload;

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{RuntimeError, Timestamp};

pub(crate) use self::{
    images::{image, image_id},
    workload::{container, sandbox, status},
};

/// The error of a request whose response has an invalid entry. The problem names the entry and the field.
pub(crate) fn incomplete(operation: &'static str, problem: &str) -> RuntimeError {
    RuntimeError::refused(format!("{operation}: an incomplete response: {problem}"))
}

/// An entry of a listing with a unique key.
pub(crate) trait Keyed: PartialEq {
    fn key(&self) -> (Arc<str>, Arc<str>);
    /// The name of the entry in messages.
    fn display_name(&self) -> String;
}

/// Converts all entries of a listing. Equal duplicates are merged. Different entries with the same key make
/// the listing an error, because the correct one is unknown.
///
/// # Complexity
/// *O*(n log n) for n entries.
pub(crate) fn listing<W, T: Keyed>(
    operation: &'static str,
    entries: Vec<W>,
    read: impl Fn(W) -> Result<T, String>,
) -> Result<Vec<Arc<T>>, RuntimeError> {
    let mut facts: Vec<Arc<T>> = Vec::with_capacity(entries.len());
    let mut positions: BTreeMap<(Arc<str>, Arc<str>), usize> = BTreeMap::new();
    for entry in entries {
        let fact = read(entry).map_err(|problem| incomplete(operation, &problem))?;
        match positions.get(&fact.key()) {
            None => {
                positions.insert(fact.key(), facts.len());
                facts.push(Arc::new(fact));
            }
            Some(&at) if *facts[at] == fact => {
                tracing::warn!(operation, entry = fact.display_name(), "listed twice");
            }
            Some(_) => {
                let problem = format!(
                    "{}: id is listed twice with different contents",
                    fact.display_name()
                );
                return Err(incomplete(operation, &problem));
            }
        }
    }
    Ok(facts)
}

fn required(text: String, entry: &dyn Fn() -> String, field: &str) -> Result<Arc<str>, String> {
    if text.is_empty() {
        return Err(format!("{}: {field} is missing", entry()));
    }
    Ok(text.into())
}

fn pairs(pairs: BTreeMap<String, String>) -> BTreeMap<Arc<str>, Arc<str>> {
    pairs
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

/// Converts a creation time. A time that is not after the epoch is used as reported, with a warning.
fn created_at(nanos: i64, entry: &dyn Fn() -> String) -> Timestamp {
    if nanos <= 0 {
        tracing::warn!(entry = entry(), nanos, "created_at is not after the epoch");
    }
    Timestamp::from_nanos(nanos)
}

/// The name of an entry in messages: its kind, its name if it has one, and the start of its id.
fn entry_name(kind: &str, name: Option<&str>, id: &str) -> String {
    let short: String = id.chars().take(13).collect();
    let id = if short.is_empty() { "?" } else { &short };
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{kind} {name} ({id})"),
        None => format!("{kind} {id}"),
    }
}
