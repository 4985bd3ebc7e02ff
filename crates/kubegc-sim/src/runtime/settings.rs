//! Decides how a simulated node is set up: its disks, how its runtime lists and frees, what it tells.

use std::time::Duration;

/// Which file systems a node has, and what lies on which.
#[expect(clippy::exhaustive_enums, reason = "the layouts that eviction tells apart")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One file system holds everything.
    #[default]
    Shared,
    /// A file system of their own for images and writable layers; logs and the rest stay on the node's.
    DedicatedImages {
        /// Bytes that the file system for images holds in all.
        capacity_bytes: u64,
    },
    /// A file system of their own for images only; writable layers, logs and the rest stay on the node's.
    SplitImages {
        /// Bytes that the file system for images holds in all.
        capacity_bytes: u64,
    },
}

/// A file system by what it is for. In some layouts several are the same.
#[expect(clippy::exhaustive_enums, reason = "the three that eviction has signals for")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileSystemRole {
    /// Holds logs and everything else of the node (upstream: `nodefs`).
    Node,
    /// Holds the layers of images (upstream: `imagefs`).
    Images,
    /// Holds the writable layers of containers (upstream: `containerfs`).
    Containers,
}

/// In which order the runtime lists.
#[expect(clippy::exhaustive_enums, reason = "an order that means something, or none")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListingOrder {
    /// In another order each time, drawn from the seed: nobody can rely on it.
    #[default]
    Shuffled,
    /// In the order in which things came to the node.
    Arrival,
}

/// How a node is set up.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSettings {
    /// Bytes that the node's file system holds in all. Default: 100 GiB.
    pub capacity_bytes: u64,
    /// Which other file systems there are. Default: none.
    pub layout: Layout,
    /// In which order the runtime lists. Default: shuffled.
    pub listing_order: ListingOrder,
    /// How long after a removal the bytes of layers become free: containerd frees lazily. Default: at once.
    pub frees_after: Duration,
    /// Whether the image file system comes with its capacity and its free bytes, which CRI alone does not tell. Default: true.
    pub tells_capacity: bool,
    /// Whether containers are listed with `image_id`, as CRI has it since 1.30. Default: true.
    pub tells_image_ids: bool,
    /// What ids and the order of listings are drawn from. Default: 0.
    pub seed: u64,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            capacity_bytes: 100 << 30,
            layout: Layout::Shared,
            listing_order: ListingOrder::Shuffled,
            frees_after: Duration::ZERO,
            tells_capacity: true,
            tells_image_ids: true,
            seed: 0,
        }
    }
}
