//! Usage of a file system of the node.

/// A file system with images, writable layers, or everything else of the node.
///
/// Runtimes report their usage only: capacity and free bytes come from the file system itself (`statfs`, or
/// the kubelet's `/stats/summary`).
#[expect(clippy::exhaustive_structs, reason = "a fact that runtimes build")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystem {
    /// Total bytes; `None` where unknown.
    pub capacity_bytes: Option<u64>,
    /// Free bytes; `None` where unknown.
    pub available_bytes: Option<u64>,
    /// Bytes of images or layers; `None` where unknown.
    pub used_bytes: Option<u64>,
    /// Total inodes; `None` where unknown.
    pub inodes: Option<u64>,
    /// Free inodes; `None` where unknown.
    pub inodes_free: Option<u64>,
}
