//! How full a file system of the node is.

/// A file system that holds images, writable layers, or everything else of the node.
///
/// Runtimes know what they use, not what there is: capacity and free bytes come from the file system itself (`statfs`, or
/// the kubelet's `/stats/summary`).
#[expect(clippy::exhaustive_structs, reason = "a fact that runtimes build")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystem {
    /// Bytes that it holds in all; `None` where unknown.
    pub capacity_bytes: Option<u64>,
    /// Bytes that are free; `None` where unknown.
    pub available_bytes: Option<u64>,
    /// Bytes that images or layers use; `None` where unknown.
    pub used_bytes: Option<u64>,
    /// Inodes that it holds in all; `None` where unknown.
    pub inodes: Option<u64>,
    /// Inodes that are free; `None` where unknown.
    pub inodes_free: Option<u64>,
}
