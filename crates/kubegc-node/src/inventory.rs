//! The input of the node planners: the runtime's listings, the pods, and the image records.

use std::sync::Arc;

use kubegc_core::{
    RuntimeError, Timestamp,
    node_facts::{Container, FileSystem, Image, LogLink, Pods, Sandbox},
};

use crate::image::Records;

/// The reason why a listing is missing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unlisted {
    #[error("not listed")]
    NotRequested,
    #[error(transparent)]
    Failed(#[from] RuntimeError),
}

/// A listing, or the reason why there is none. A listing is always complete.
pub type Listing<T> = Result<T, Unlisted>;

/// All known facts about one node at one moment.
///
/// With `Default` all listings are missing: a planner that needs one plans nothing and reports a finding.
/// With [`new`](Self::new) all listings are empty.
///
/// The order within listings is irrelevant, except for images with the same id, of which the last one counts,
/// and with [`Order::Listing`](crate::Order::Listing).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// All containers, in every state.
    pub containers: Listing<Vec<Arc<Container>>>,
    pub sandboxes: Listing<Vec<Arc<Sandbox>>>,
    pub images: Listing<Vec<Arc<Image>>>,
    /// Ids of the images that containers mount as volumes. Used only if the version and its feature gates
    /// count them as used ([N3.9](crate::rules#n3-9)).
    pub image_volumes: Listing<Vec<Arc<str>>>,
    /// The id of the configured sandbox image; `None` if unknown. Used only up to 1.28
    /// ([N3.8](crate::rules#n3-8)).
    pub sandbox_image: Option<Arc<str>>,
    /// The file system that contains the images.
    pub image_file_system: Listing<FileSystem>,
    /// Names of the entries of the pod log directory.
    pub log_entries: Listing<Vec<Arc<str>>>,
    /// Symbolic links to container logs.
    pub log_links: Listing<Vec<LogLink>>,
    /// The known pods.
    pub pods: Pods,
    pub image_records: Records,
    /// The time at which image collection started on this node. The maximum age applies only once it has
    /// passed since then ([N3.4](crate::rules#n3-4)). Upstream: `beganGC`, set when the kubelet's loop
    /// starts. The default is the latest possible time, so that the maximum age removes no image.
    pub image_gc_began_at: Timestamp,
}

impl Inventory {
    /// A node without containers, sandboxes, images and logs. The image file system is not measured, and no
    /// pods are known.
    pub fn new() -> Self {
        Self {
            containers: Ok(Vec::new()),
            sandboxes: Ok(Vec::new()),
            images: Ok(Vec::new()),
            image_volumes: Ok(Vec::new()),
            log_entries: Ok(Vec::new()),
            log_links: Ok(Vec::new()),
            ..Self::default()
        }
    }

    /// Sets the listing of containers.
    #[must_use]
    pub fn with_containers(mut self, containers: impl IntoIterator<Item = Container>) -> Self {
        self.containers = Ok(containers.into_iter().map(Arc::new).collect());
        self
    }

    /// Sets the listing of images.
    #[must_use]
    pub fn with_images(mut self, images: impl IntoIterator<Item = Image>) -> Self {
        self.images = Ok(images.into_iter().map(Arc::new).collect());
        self
    }
}

impl Default for Inventory {
    fn default() -> Self {
        Self {
            containers: Err(Unlisted::NotRequested),
            sandboxes: Err(Unlisted::NotRequested),
            images: Err(Unlisted::NotRequested),
            image_volumes: Err(Unlisted::NotRequested),
            sandbox_image: None,
            image_file_system: Err(Unlisted::NotRequested),
            log_entries: Err(Unlisted::NotRequested),
            log_links: Err(Unlisted::NotRequested),
            pods: Pods::default(),
            image_records: Records::default(),
            image_gc_began_at: Timestamp::from_nanos(i64::MAX),
        }
    }
}
