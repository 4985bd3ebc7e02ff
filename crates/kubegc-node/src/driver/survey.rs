//! Decides what a node is asked for where nothing is to be done yet: all that its planners look at, at one moment.

use kubegc_core::Timestamp;

use super::Node;
use crate::{Inventory, Unlisted};

/// A node as it was found.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// What it told. What could not be told says why, but for the pods, which have no place for it.
    pub inventory: Inventory,
    /// Why its pods are not known, if they are not. Then nothing counts as gone.
    pub pods_error: Option<String>,
}

impl Node<'_> {
    /// Asks the node for everything, and changes nothing: for forecasts, and for whoever wants to see what a pass goes by.
    ///
    /// # Guarantees
    /// A listing that failed is [`Failed`](Unlisted::Failed) with its error, and the others are asked for all the same. Which images are mounted as volumes is known
    /// only if every container was listed and told its status; it is asked for only where the version and its feature gates look at it. Without a log
    /// directory, logs are [`NotAsked`](Unlisted::NotAsked). Pods are asked for last, so that what was started in between is not taken for garbage.
    ///
    /// The records and since when use is watched are those of this node: see [`remembering`](Node::remembering) and [`watch_since`](Node::watch_since).
    /// Where nobody watched, no image counts as long unused.
    ///
    /// # Assumptions
    /// The node goes on meanwhile: the listings are of slightly different moments. A pass lists anew before it acts.
    ///
    /// # Complexity
    /// One call for each listing, and where image volumes count one for each container.
    pub async fn survey(&self) -> Survey {
        let mut inventory = self.list().await;
        if inventory.images.is_err() {
            // A pass over images ends here; the other planners look at containers all the same.
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
        inventory.images_watched_since = self.watched_since.unwrap_or(Timestamp::from_nanos(i64::MAX));
        let mut errors = Vec::new();
        inventory.pods = self.pods(&mut errors).await;
        Survey {
            inventory,
            pods_error: errors.pop(),
        }
    }
}
