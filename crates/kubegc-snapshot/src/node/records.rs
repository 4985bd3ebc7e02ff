//! Image records as a file: the kubelet keeps them in memory and does not expose them, so kubegc keeps its
//! own.

use kubegc_core::Timestamp;
use kubegc_node::image::{Record, Records};
use serde::Serialize;
use serde_json::Value;

use super::{
    fields::Entry,
    finding::{NodeProblem, Notes},
};
use crate::Place;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordsRead {
    pub(crate) records: Records,
    pub(crate) watched_since: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileForm<'r> {
    watched_since: Option<Timestamp>,
    records: Vec<&'r Record>,
}

/// Writes records as JSON that a [`NodeReader`](super::NodeReader) reads back. Dates are RFC 3339; null is
/// *before all times* and *never*.
///
/// # Examples
/// ```
/// use kubegc_core::Timestamp;
/// use kubegc_node::image::Records;
/// use kubegc_snapshot::{NodeReader, write_records};
/// let text = write_records(&Records::default(), Some(Timestamp::EPOCH));
/// let mut reader = NodeReader::new();
/// reader.read("records.json", text.as_bytes())?;
/// assert_eq!(reader.finish()?.inventory.image_gc_began_at, Timestamp::EPOCH);
/// # Ok::<(), kubegc_snapshot::SnapshotError>(())
/// ```
pub fn write_records(records: &Records, watched_since: Option<Timestamp>) -> String {
    let form = FileForm {
        watched_since,
        records: records.iter().collect(),
    };
    // Texts, numbers and flags: nothing in them can fail to be written.
    let mut text = serde_json::to_string_pretty(&form).unwrap_or_default();
    text.push('\n');
    text
}

/// Reads records. One that cannot be read makes all of them unknown: an image whose last use is not known
/// would go first.
pub(crate) fn read(value: &Value, place: &Place, notes: &mut Notes) -> Result<RecordsRead, String> {
    let mut document = Entry::of(value, place, "", notes)?;
    let watched_since = document.date(&["watchedSince"]);
    if document.value(&["records"]).is_none() {
        document.missing(&["records"]);
    }
    let values = document.list(&["records"]).unwrap_or_default();
    let mut unknown = document.checked(()).err();
    let mut records: Vec<Record> = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let path = format!("records[{index}]");
        let read = Entry::of(value, place, &path, notes).and_then(|mut entry| {
            let record = record(&mut entry);
            entry.checked(record)
        });
        match read {
            Ok(record) => records.push(record),
            Err(why) => {
                unknown.get_or_insert(why);
            }
        }
    }
    records.sort_by(|a, b| a.key.cmp(&b.key));
    for pair in records.windows(2) {
        if pair[0].key == pair[1].key {
            let object = format!("record {}", pair[0].key);
            let (problem, detail) = if pair[0] == pair[1] {
                (NodeProblem::Repeated, "occurs twice")
            } else {
                (NodeProblem::Contradiction, "another record with this key differs")
            };
            notes.note(problem, Some(place), &object, "key", detail);
            if problem == NodeProblem::Contradiction {
                unknown.get_or_insert(format!("{place}: {object}: {detail}"));
            }
        }
    }
    match unknown {
        Some(reason) => Err(reason),
        None => Ok(RecordsRead {
            records: Records::new(records),
            watched_since,
        }),
    }
}

fn record(entry: &mut Entry<'_, '_>) -> Record {
    entry.call(format!("record {}", entry.peek(&["key"]).unwrap_or("?")));
    let key = entry.shared(&["key"]);
    if key.is_empty() {
        entry.missing(&["key"]);
    }
    let size_bytes = entry.number(&["sizeBytes"]);
    Record {
        first_detected: entry.date(&["firstDetected"]),
        last_used: entry.date(&["lastUsed"]),
        size_bytes: size_bytes.unwrap_or(0),
        pinned: entry.flag(&["pinned"]).unwrap_or(false),
        runtime_handler: entry.shared(&["runtimeHandler"]),
        key,
    }
}
