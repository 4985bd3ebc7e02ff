//! Reads the output of `crictl`: listings of containers, sandboxes and images, one container's status, the
//! image file system.
//!
//! **A listing is complete or unknown.** An unreadable entry makes the listing unknown, because the entry
//! could be the reason to keep an image, a sandbox or a pod's other containers.

mod containers;
mod images;
mod sandboxes;
mod status;
mod usage;

pub use self::usage::{FileSystemUsage, RuntimeUsage};

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

pub(crate) use self::{
    containers::read as container, images::read as image, sandboxes::read as sandbox, status::read as status,
    usage::read as usage,
};
use super::{
    fields::Entry,
    finding::{NodeProblem, Notes},
};
use crate::Place;

pub(crate) enum Outcome<T> {
    /// All deciding fields are present.
    Sure(T),
    /// It has a flaw. This entry is adjusted so that nothing is done to it and everything that it uses stays
    /// used.
    Held(T),
    /// It has a flaw, and without it nothing is done that would not be done with it.
    LeftOut,
    /// It has a flaw, and the objects that it uses are unknown.
    Lost,
}

/// Reads a listing; the reason if it is unknown. `key` is unique in it.
///
/// # Complexity
/// O(n log n) for n entries.
pub(crate) fn listing<T: PartialEq>(
    value: &Value,
    name: &'static str,
    place: &Place,
    lenient: bool,
    notes: &mut Notes,
    key: fn(&T) -> (Arc<str>, Arc<str>),
    read: impl Fn(&mut Entry<'_, '_>) -> Outcome<T>,
) -> Result<Vec<Arc<T>>, String> {
    let no_fields = Map::new();
    let map = value.as_object().unwrap_or(&no_fields);
    let mut listing = Entry::new(map, place, "", notes);
    if !map.contains_key(name) {
        listing.missing(&[name]);
    }
    let values = listing.list(&[name]).unwrap_or_default();
    listing.checked(())?;
    let mut entries: Vec<Arc<T>> = Vec::with_capacity(values.len());
    let mut positions: BTreeMap<(Arc<str>, Arc<str>), usize> = BTreeMap::new();
    let mut unknown: Option<String> = None;
    for (index, value) in values.iter().enumerate() {
        let path = format!("{name}[{index}]");
        let mut entry = match Entry::of(value, place, &path, notes) {
            Ok(entry) => entry,
            Err(why) => {
                unknown.get_or_insert(why);
                continue;
            }
        };
        let outcome = read(&mut entry);
        let flaw = entry.flaw().unwrap_or("flawed").to_owned();
        let (read, note) = match outcome {
            Outcome::Sure(read) => (Some(read), None),
            Outcome::Held(read) if lenient => (
                Some(read),
                Some("taken as running or ready: nothing is done to it"),
            ),
            Outcome::LeftOut if lenient => (None, Some("left out: nothing is done to it")),
            Outcome::Held(_) | Outcome::LeftOut | Outcome::Lost => {
                unknown.get_or_insert_with(|| format!("{place}: {flaw}"));
                continue;
            }
        };
        if let Some(detail) = note {
            entry.note(NodeProblem::Held, &[], detail);
        }
        let Some(read) = read else { continue };
        match positions.get(&key(&read)) {
            None => {
                positions.insert(key(&read), entries.len());
                entries.push(Arc::new(read));
            }
            Some(&at) if *entries[at] == read => {
                entry.note(NodeProblem::Repeated, &[], "occurs twice");
            }
            Some(_) => {
                entry.wrong(
                    NodeProblem::Contradiction,
                    &["id"],
                    "another entry with this id differs",
                );
                unknown.get_or_insert_with(|| format!("{place}: {path}.id: listed twice, differently"));
            }
        }
    }
    unknown.map_or(Ok(entries), Err)
}

/// The beginning of an id, as `crictl` shows it.
fn short(id: &str) -> String {
    id.chars().take(13).collect()
}

/// The state, by name or by number, of the states in the order of their numbers; `None` if it is missing.
/// One that is not among them is `unknown`.
fn state<S: Copy>(entry: &mut Entry<'_, '_>, states: &[(&str, S)], unknown: S, object: &str) -> Option<S> {
    let path = &["state"];
    let (found, shown) = match entry.value(path) {
        Some(Value::String(name)) => (
            states.iter().find(|(state, _)| state == name),
            format!("{name:?}"),
        ),
        Some(_) => {
            let number = entry.plain_number::<i32>(path)?;
            let found = usize::try_from(number).ok().and_then(|number| states.get(number));
            (found, number.to_string())
        }
        None => {
            entry.missing(path);
            return None;
        }
    };
    if found.is_none() {
        entry.note(
            NodeProblem::UnknownState,
            path,
            &format!("{shown} is not a state of a {object}"),
        );
    }
    Some(found.map_or(unknown, |(_, state)| *state))
}

/// A creation time, in nanoseconds; `None` if it is missing.
fn created_at(
    entry: &mut Entry<'_, '_>,
    now: Option<kubegc_core::Timestamp>,
) -> Option<kubegc_core::Timestamp> {
    let path = &["createdAt"];
    let Some(nanos) = entry.number::<i64>(path) else {
        entry.missing(path);
        return None;
    };
    let created_at = kubegc_core::Timestamp::from_nanos(nanos);
    if nanos <= 0 {
        entry.note(
            NodeProblem::Implausible,
            path,
            &format!("{nanos} is not after the epoch"),
        );
    } else if let Some(now) = now.filter(|&now| created_at > now) {
        entry.note(
            NodeProblem::Implausible,
            path,
            &format!("{created_at} lies in the future: it is {now}"),
        );
    }
    Some(created_at)
}
