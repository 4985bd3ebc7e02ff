//! Image records, which a run passes to the next: first detection and last use ([N3.1](crate::rules#n3-1),
//! [N3.3](crate::rules#n3-3)).

use std::sync::Arc;

use kubegc_core::Timestamp;

/// The record of one image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Record {
    /// `<id>`, or `<id>,<runtime handler>` if use is recorded per handler.
    pub key: Arc<str>,
    /// The time of its first detection. `None`: infinitely old, as after the start of a kubelet up to 1.28.
    pub first_detected: Option<Timestamp>,
    /// The time of the last detection that found it in use; `None`: never.
    pub last_used: Option<Timestamp>,
    /// Its size in bytes in the last listing.
    pub size_bytes: u64,
    /// Whether it was pinned in the last listing.
    pub pinned: bool,
    /// The runtime handler that it was pulled for; empty if unknown.
    pub runtime_handler: Arc<str>,
}

impl Record {
    /// The id of the image: the key up to its first comma.
    pub fn id(&self) -> &str {
        self.key.split_once(',').map_or(&*self.key, |(id, _)| id)
    }
}

/// The records of all images, by key. A kubelet loses them when it restarts: `Default` is the state after
/// that.
///
/// # Complexity
/// Records are a sorted vector; a lookup is a binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Records {
    /// Sorted by key, without duplicates.
    pub(super) sorted: Vec<Record>,
    /// Whether a run of the detection loop has succeeded since the start.
    pub(super) detected: bool,
}

impl Records {
    /// Creates records from a vector in any order. Of duplicates the last one is used.
    pub fn new(mut records: Vec<Record>) -> Self {
        // Reversed, then sorted stably: the last of equal keys comes first, and `dedup_by` keeps the first.
        records.reverse();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records.dedup_by(|duplicate, kept| duplicate.key == kept.key);
        Self {
            sorted: records,
            detected: true,
        }
    }

    /// The records in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.sorted.iter()
    }

    /// The record of one key. *O*(log n).
    pub fn get(&self, key: &str) -> Option<&Record> {
        let at = self
            .sorted
            .binary_search_by(|record| (*record.key).cmp(key))
            .ok()?;
        self.sorted.get(at)
    }

    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns whether a run of the detection loop has succeeded since the start. Up to 1.28, new images of
    /// the first successful run get no time of first detection.
    pub const fn detected(&self) -> bool {
        self.detected
    }
}

impl FromIterator<Record> for Records {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        Self::new(records.into_iter().collect())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Records {
    /// The list of records.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.sorted.serialize(serializer)
    }
}
