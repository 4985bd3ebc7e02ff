//! Settings of a simulated node: its disks, how its runtime lists and frees, and which fields it reports.

use std::time::Duration;

/// The file systems of a node, and the contents of each.
#[expect(clippy::exhaustive_enums, reason = "the layouts that eviction distinguishes")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One file system for everything.
    #[default]
    Shared,
    /// A separate file system for images and writable layers. Logs and everything else are on the node's file
    /// system.
    DedicatedImages {
        /// Capacity of the file system for images in bytes.
        capacity_bytes: u64,
    },
    /// A separate file system for images only. Writable layers, logs and everything else are on the node's
    /// file system.
    SplitImages {
        /// Capacity of the file system for images in bytes.
        capacity_bytes: u64,
    },
}

/// A file system by its role. In some layouts several roles share a file system.
#[expect(clippy::exhaustive_enums, reason = "the three that eviction has signals for")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileSystemRole {
    /// Logs and everything else of the node (upstream: `nodefs`).
    Node,
    /// The layers of images (upstream: `imagefs`).
    Images,
    /// The writable layers of containers (upstream: `containerfs`).
    Containers,
}

/// The order of the runtime's listings.
#[expect(clippy::exhaustive_enums, reason = "an order or none")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListingOrder {
    /// A different order each time, drawn from the seed, so that a caller cannot depend on it.
    #[default]
    Shuffled,
    /// The order in which things were added to the node.
    Arrival,
}

/// Settings of a node.
#[expect(clippy::exhaustive_structs, reason = "a value that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSettings {
    /// Capacity of the node's file system in bytes. Default: 100 GiB.
    pub capacity_bytes: u64,
    /// The other file systems. Default: none.
    pub layout: Layout,
    /// The order of the runtime's listings. Default: shuffled.
    pub listing_order: ListingOrder,
    /// The delay between a removal and the release of the layers' bytes: containerd frees lazily. Default:
    /// none.
    pub frees_after: Duration,
    /// Whether the image file system has its capacity and its free bytes, which are not part of CRI. Default:
    /// true.
    pub reports_capacity: bool,
    /// Whether containers are listed with `image_id`, as CRI has it since 1.30. Default: true.
    pub reports_image_ids: bool,
    /// The seed of ids and of the order of listings. Default: 0.
    pub seed: u64,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            capacity_bytes: 100 << 30,
            layout: Layout::Shared,
            listing_order: ListingOrder::Shuffled,
            frees_after: Duration::ZERO,
            reports_capacity: true,
            reports_image_ids: true,
            seed: 0,
        }
    }
}
