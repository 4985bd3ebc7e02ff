//! The task of an image run.

/// The task of an image run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// Update the records without removals: the detection loop. Upstream: `detectImages`.
    Detect,
    /// Remove images that are unused for longer than the maximum age, and free space if the usage reaches the
    /// high threshold: the image loop. Upstream: `GarbageCollect`.
    #[default]
    Collect,
    /// Remove all unused images, as under node pressure. Upstream: `DeleteUnusedImages`.
    DeleteUnused,
    /// Free this number of bytes, independently of the usage. Upstream: `freeSpace`.
    Free {
        /// Bytes to free. With zero or less, one image is still removed.
        bytes: i64,
    },
}
