//! A survey of a node without changes: all facts that its planners use, at one moment.

use kubegc_core::Timestamp;

use super::Node;
use crate::{Inventory, Unlisted};

/// The facts of a node.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The known facts. Missing ones have the reason, except for the pods, which have no field for it.
    pub inventory: Inventory,
    /// The error, if its pods are unknown. Then no pod counts as removed.
    pub pods_error: Option<String>,
}

impl Node<'_> {
    /// Reads all facts of the node, and changes nothing: for forecasts, and to show the input of a run.
    ///
    /// # Guarantees
    /// A listing that failed is [`Failed`](Unlisted::Failed) with its error, and the others are still read.
    /// The images that are mounted as volumes are known only if every container was listed and its status was
    /// read; they are read only if the version and its feature gates use them. Without a log directory, logs
    /// are [`NotRequested`](Unlisted::NotRequested). Pods are read last, so that pods that were started in
    /// between do not count as garbage.
    ///
    /// The records and the start of image collection are those of this node: see
    /// [`with_records`](Node::with_records) and [`set_image_gc_began_at`](Node::set_image_gc_began_at). Without a start, no image
    /// counts as unused for long.
    ///
    /// # Assumptions
    /// The node can change during the survey: the listings are of slightly different moments. A run lists
    /// again before it acts.
    ///
    /// # Complexity
    /// One call for each listing, and one for each container if image volumes count.
    pub async fn survey(&self) -> Survey {
        let mut inventory = self.list().await;
        if inventory.images.is_err() {
            // A run over images ends here; the other planners still need containers.
            inventory.containers = self.containers().await;
            if inventory.image_volumes.is_ok() {
                inventory.image_volumes = self.volumes(&inventory).await;
            }
        }
        if let Err(why) = &inventory.containers
            && inventory.image_volumes.is_ok()
        {
            inventory.image_volumes = Err(why.clone());
        }
        inventory.sandboxes = self.world.runtime.sandboxes().await.map_err(Unlisted::from);
        inventory.image_file_system = self.measure().await;
        if let Some(logs) = self.world.logs {
            inventory.log_entries = logs.pod_entries().await.map_err(Unlisted::from);
            inventory.log_links = logs.container_links().await.map_err(Unlisted::from);
        }
        inventory.image_records = self.records.clone();
        inventory.image_gc_began_at = self.image_gc_began_at.unwrap_or(Timestamp::from_nanos(i64::MAX));
        let mut errors = Vec::new();
        inventory.pods = self.pods(&mut errors).await;
        Survey {
            inventory,
            pods_error: errors.pop(),
        }
    }
}
