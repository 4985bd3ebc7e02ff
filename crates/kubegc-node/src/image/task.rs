//! The task of a run over images.

/// The task of a run over images.
#[expect(clippy::exhaustive_enums, reason = "upstream has these callers")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// Update the records without removals: the detection loop. Upstream: `detectImages`.
    Detect,
    /// Remove images that are unused for too long, and make room if the disk is too full: the collection
    /// loop. Upstream: `GarbageCollect`.
    #[default]
    Collect,
    /// Remove all unused images, as a node under pressure does. Upstream: `DeleteUnusedImages`.
    DeleteUnused,
    /// Free this amount, whatever the usage is. Upstream: `freeSpace`.
    Free {
        /// Bytes to free. With zero or less, one image is still removed.
        bytes: i64,
    },
}
