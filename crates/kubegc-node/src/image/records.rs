//! What is remembered of each image between passes: when it was first seen and last in use.

use std::sync::Arc;

use kubegc_core::Timestamp;

/// What is remembered of one image.
#[expect(clippy::exhaustive_structs, reason = "a value that callers keep and build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// `<id>`, or `<id>,<runtime handler>` where use is kept per handler.
    pub key: Arc<str>,
    /// When it was first listed; `None`: before all times, as versions up to 1.28 have it after a start.
    pub first_detected: Option<Timestamp>,
    /// When it was last seen in use; `None`: never.
    pub last_used: Option<Timestamp>,
    /// Size in the last listing.
    pub size_bytes: u64,
    /// Whether the last listing had it pinned.
    pub pinned: bool,
    /// Handler that it was pulled for; empty where the runtime did not say.
    pub runtime_handler: Arc<str>,
}

impl Record {
    /// The id of the image: the key up to its first comma.
    #[must_use]
    pub fn id(&self) -> &str {
        self.key.split_once(',').map_or(&*self.key, |(id, _)| id)
    }
}

/// What is remembered of all images, by key. Lost when a kubelet restarts: `Default` is what it starts with.
///
/// # Complexity
/// Records are one sorted table: a detection joins it with a listing by merging, a lookup is logarithmic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Records {
    /// Sorted by key, no key twice.
    pub(super) sorted: Vec<Record>,
    /// Whether the detection loop has succeeded since the start.
    pub(super) detected: bool,
}

impl Records {
    /// Records in any order, as the detection loop left them; of two with one key, the later counts.
    #[must_use]
    pub fn new(mut records: Vec<Record>) -> Self {
        // Stable, and reversed first, so that the later of two comes first and is the one that stays.
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

    /// How many images are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Whether the detection loop has succeeded since the start. Up to 1.28, images that its first success sees have no time of first detection.
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
