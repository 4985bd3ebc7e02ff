//! Reads all facts of a node that its planners use, without changing anything.

use kubegc_core::Timestamp;

use super::Node;
use crate::{Inventory, Unlisted};

/// The inventory of a node.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventoryReport {
    /// The known facts. A missing listing contains its error; that of the pods is in
    /// [`pods_error`](Self::pods_error).
    pub inventory: Inventory,
    /// The error of the pod source, if it failed. Then no pod counts as removed.
    pub pods_error: Option<String>,
}

impl Node<'_> {
    /// Reads all facts of the node and changes nothing: for forecasts, and to show the input of a run.
    ///
    /// # Guarantees
    /// A listing that failed is [`Failed`](Unlisted::Failed) with its error; the others are still read. The
    /// images that are mounted as volumes are known only if all containers were listed and their statuses
    /// were read. They are read only if the version and its feature gates use them. Without a log directory,
    /// logs are [`NotRequested`](Unlisted::NotRequested). Pods are read last, so that a pod that starts in
    /// between counts as existing.
    ///
    /// The records and the start of image collection are those of this node: see
    /// [`with_records`](Node::with_records) and [`set_image_gc_began_at`](Node::set_image_gc_began_at).
    /// Without a start, the maximum age removes no image.
    ///
    /// # Assumptions
    /// The node can change between the listings. A run reads them again before it removes anything.
    ///
    /// # Complexity
    /// One request for each listing, and one for each container if image volumes count as used.
    pub async fn read_inventory(&self) -> InventoryReport {
        let mut inventory = self.list().await;
        if inventory.images.is_err() {
            // `list` does not list the containers then, but other planners need them.
            inventory.containers = self.containers().await;
            if inventory.image_volumes.is_ok() {
                inventory.image_volumes = self.volumes(&inventory).await;
            }
        }
        if let Err(error) = &inventory.containers
            && inventory.image_volumes.is_ok()
        {
            inventory.image_volumes = Err(error.clone());
        }
        inventory.sandboxes = self.environment.runtime.sandboxes().await.map_err(Unlisted::from);
        inventory.image_file_system = self.measure().await;
        if let Some(logs) = self.environment.logs {
            inventory.log_entries = logs.pod_entries().await.map_err(Unlisted::from);
            inventory.log_links = logs.container_links().await.map_err(Unlisted::from);
        }
        inventory.image_records = self.records.clone();
        inventory.image_gc_began_at = self.image_gc_began_at.unwrap_or(Timestamp::from_nanos(i64::MAX));
        let mut errors = Vec::new();
        inventory.pods = self.pods(&mut errors).await;
        InventoryReport {
            inventory,
            pods_error: errors.pop(),
        }
    }
}
