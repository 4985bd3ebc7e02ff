//! All that a node's planners decide by: what the runtime lists, which pods there are, what is remembered of images.

use std::sync::Arc;

use kubegc_core::{
    RuntimeError, Timestamp,
    node_facts::{Container, FileSystem, Image, LogLink, Pods, Sandbox},
};

use crate::image::Records;

/// Why something is not known.
#[expect(clippy::exhaustive_enums, reason = "not asked, or asked in vain")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unlisted {
    /// Nobody asked for it.
    #[error("not listed")]
    NotAsked,
    /// Asking failed.
    #[error(transparent)]
    Failed(#[from] RuntimeError),
}

/// A listing, or why there is none. A listing is always whole.
pub type Listing<T> = Result<T, Unlisted>;

/// All that is known of one node at one moment.
///
/// `Default` knows nothing, so that nothing is ever planned on it. The order within listings means nothing, except among images of one id, of which the last counts, and under
/// [`Order::Listing`](crate::Order::Listing).
#[expect(clippy::exhaustive_structs, reason = "facts that callers build")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// All containers, in every state.
    pub containers: Listing<Vec<Arc<Container>>>,
    /// All sandboxes.
    pub sandboxes: Listing<Vec<Arc<Sandbox>>>,
    /// All images.
    pub images: Listing<Vec<Arc<Image>>>,
    /// Ids of the images that containers mount as volumes. Counts only where the version and its feature gates look at them.
    pub image_volumes: Listing<Vec<Arc<str>>>,
    /// The image that the configured sandbox image stands for; `None` where it could not be told. Counts up to 1.28 only.
    pub sandbox_image: Option<Arc<str>>,
    /// The file system that holds the images.
    pub image_file_system: Listing<FileSystem>,
    /// Names in the pod log directory.
    pub log_entries: Listing<Vec<Arc<str>>>,
    /// Links to the logs of containers.
    pub log_links: Listing<Vec<LogLink>>,
    /// The pods that the node knows.
    pub pods: Pods,
    /// What is remembered of images.
    pub image_records: Records,
    /// When image collection began on this node: since when use was watched. Upstream: `beganGC`, fixed when the kubelet's loop starts. By default the end
    /// of time: where nobody watched, no image counts as long unused.
    pub images_watched_since: Timestamp,
}

impl Default for Inventory {
    fn default() -> Self {
        Self {
            containers: Err(Unlisted::NotAsked),
            sandboxes: Err(Unlisted::NotAsked),
            images: Err(Unlisted::NotAsked),
            image_volumes: Err(Unlisted::NotAsked),
            sandbox_image: None,
            image_file_system: Err(Unlisted::NotAsked),
            log_entries: Err(Unlisted::NotAsked),
            log_links: Err(Unlisted::NotAsked),
            pods: Pods::default(),
            image_records: Records::default(),
            images_watched_since: Timestamp::from_nanos(i64::MAX),
        }
    }
}
