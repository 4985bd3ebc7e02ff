//! Image records between runs: first detection and last use ([N3.1](crate::rules#n3-1),
//! [N3.3](crate::rules#n3-3)).

use std::sync::Arc;

use kubegc_core::Timestamp;

/// The record of one image.
#[expect(clippy::exhaustive_structs, reason = "a value that callers keep and build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// `<id>`, or `<id>,<runtime handler>` if use is recorded per handler.
    pub key: Arc<str>,
    /// Its first detection; `None`: infinitely old, as in versions up to 1.28 after a start.
    pub first_detected: Option<Timestamp>,
    /// The last detection that found it in use; `None`: never.
    pub last_used: Option<Timestamp>,
    /// Size in the last listing.
    pub size_bytes: u64,
    /// Whether it was pinned in the last listing.
    pub pinned: bool,
    /// Handler that it was pulled for; empty if unknown.
    pub runtime_handler: Arc<str>,
}

impl Record {
    /// The id of the image: the key up to its first comma.
    #[must_use]
    pub fn id(&self) -> &str {
        self.key.split_once(',').map_or(&*self.key, |(id, _)| id)
    }
}

/// The records of all images, by key. Lost when a kubelet restarts: `Default` is the state after a start.
///
/// # Complexity
/// Records are one sorted table: a detection joins it with a listing by merging, a lookup is logarithmic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Records {
    /// Sorted by key, without duplicates.
    pub(super) sorted: Vec<Record>,
    /// Whether the detection loop has succeeded since the start.
    pub(super) detected: bool,
}

impl Records {
    /// Creates records in any order; of duplicates the later counts.
    #[must_use]
    pub fn new(mut records: Vec<Record>) -> Self {
        // Stable, and reversed first, so that the later of two comes first and is the one that is kept.
        records.reverse();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records.dedup_by(|later, earlier| later.key == earlier.key);
        Self {
            sorted: records,
            detected: true,
        }
    }

    /// The records in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.sorted.iter()
    }

    /// The record of one key. Logarithmic.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Record> {
        let at = self
            .sorted
            .binary_search_by(|record| (*record.key).cmp(key))
            .ok()?;
        self.sorted.get(at)
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns whether the detection loop has succeeded since the start. Up to 1.28, new images of its first
    /// success have no first detection.
    #[must_use]
    pub const fn detected(&self) -> bool {
        self.detected
    }
}

impl FromIterator<Record> for Records {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        Self::new(records.into_iter().collect())
    }
}
