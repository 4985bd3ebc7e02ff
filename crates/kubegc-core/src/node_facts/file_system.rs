//! Usage of a file system of the node.

/// A file system with images, writable layers, or everything else of the node.
///
/// Runtimes report their usage only: capacity and free bytes come from the file system itself (`statfs`, or
/// the kubelet's `/stats/summary`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystem {
    /// Total bytes; `None` if unknown.
    pub capacity_bytes: Option<u64>,
    /// Free bytes; `None` if unknown.
    pub available_bytes: Option<u64>,
    /// Bytes of images or layers; `None` if unknown.
    pub used_bytes: Option<u64>,
    /// Total inodes; `None` if unknown.
    pub inodes: Option<u64>,
    /// Free inodes; `None` if unknown.
    pub inodes_free: Option<u64>,
}
