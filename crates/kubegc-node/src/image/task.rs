//! What a pass over images is asked to do.

/// What a pass over images does.
#[expect(clippy::exhaustive_enums, reason = "upstream has these callers")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// Bring the records up to date, remove nothing: the detection loop. Upstream: `detectImages`.
    Detect,
    /// Remove what is unused for too long, and make room where the disk is too full: the collection loop. Upstream: `GarbageCollect`.
    #[default]
    Collect,
    /// Remove all that is unused, as a node under pressure does. Upstream: `DeleteUnusedImages`.
    DeleteUnused,
    /// Make this much room, whatever the disk says. Upstream: `freeSpace`.
    Free {
        /// How much to free. With zero or less, one image still goes.
        bytes: i64,
    },
}
