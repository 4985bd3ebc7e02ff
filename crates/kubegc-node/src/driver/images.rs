//! Image runs: detection, collection, and the removal of all unused images.

use std::sync::Arc;

use kubegc_core::{
    RuntimeError, Timestamp,
    node_facts::{FileSystem, Image},
};

use super::{
    DetectionReport, ImagesReport, Node, NodeAction, Outcome, Performed, containers::removal_outcome,
};
use crate::{
    Inventory, Listing, Unlisted, image,
    image::{FreeSpace, Response, Run, Step, Task},
    semantics::behavior,
};

/// The prefix of image ids in the listings of some runtimes.
const ID_PREFIX: &str = "sha256:";

impl Node<'_> {
    /// Updates the image records. Upstream: the detection loop.
    pub async fn detect_images(&mut self) -> DetectionReport {
        let report = self.images(Task::Detect).await;
        DetectionReport {
            images: self.records.len(),
            error: report.plan.summary.error,
        }
    }

    /// Removes images that are unused for longer than the maximum age, and frees space if the disk usage
    /// reaches the high threshold. Upstream: the image loop.
    pub async fn collect_images(&mut self) -> ImagesReport {
        self.images(Task::Collect).await
    }

    /// Removes all unused images, as under node pressure.
    pub async fn delete_unused_images(&mut self) -> ImagesReport {
        self.images(Task::DeleteUnused).await
    }

    /// Performs one image run. A dry run does not change the records or the start of image collection.
    pub async fn images(&mut self, task: Task) -> ImagesReport {
        let now = self.environment.clock.now();
        let began_at = match task {
            Task::Collect if !self.settings.dry_run => *self.image_gc_began_at.get_or_insert(now),
            _ => self.image_gc_began_at.unwrap_or(now),
        };
        let mut performed = Vec::new();
        // A dry run lists too; it updates only the run's copy of the records.
        let records = self.records.clone();
        let policy = FreeSpace {
            task,
            ..self.settings.image
        };
        let mut run = Run::new(policy, records, began_at, now);
        let mut listing;
        let mut response = None;
        // Terminates: a run lists once, measures once, and removes each image at most twice.
        loop {
            response = Some(match run.next(response) {
                Step::Measure => Response::Measured(self.measure().await),
                Step::List => {
                    listing = self.list().await;
                    Response::Listed {
                        inventory: &listing,
                        at: self.environment.clock.now(),
                    }
                }
                Step::Remove(action) => {
                    let outcome = self.remove_image(&action).await;
                    let result = match &outcome {
                        Outcome::NotRemoved(error) => Err(error.clone()),
                        Outcome::NotApproved => Err(RuntimeError::refused("not approved")),
                        _ => Ok(()),
                    };
                    performed.push(Performed {
                        action: NodeAction::Image(action),
                        outcome,
                    });
                    Response::Removed(result)
                }
                Step::Done => break,
            });
        }
        let plan = run.finish();
        if !self.settings.dry_run {
            self.records = plan.summary.records.clone();
        }
        ImagesReport { plan, performed }
    }

    async fn remove_image(&self, action: &image::Action) -> Outcome {
        let image::Action {
            image,
            runtime_handler,
            ..
        } = action;
        // Releases before 1.23 ignore pins.
        if self.keeps(image) {
            let error = RuntimeError::refused("it is one of the images to keep");
            return Outcome::NotRemoved(error);
        }
        if let Some(outcome) = self.withheld(&NodeAction::Image(action.clone())) {
            return outcome;
        }
        let runtime = self.environment.runtime;
        removal_outcome(runtime.remove_image(&image.id, runtime_handler).await)
    }

    /// Returns whether [`Settings::keep_images`](super::Settings::keep_images) has a reference to the image.
    fn keeps(&self, image: &Image) -> bool {
        let mut references = self.settings.keep_images.iter();
        references.any(|reference| is_reference_to(reference, image))
    }

    pub(super) async fn measure(&self) -> Listing<FileSystem> {
        self.environment
            .runtime
            .image_file_system()
            .await
            .map_err(Unlisted::from)
    }

    /// Reads the listings of an image run, in upstream's order: the sandbox image, images, containers,
    /// volumes.
    pub(super) async fn list(&self) -> Inventory {
        let semantics = self.settings.image.semantics;
        let runtime = self.environment.runtime;
        let mut inventory = Inventory::default();
        if let Some(reference) = &self.settings.sandbox_image
            && !semantics.version.has(behavior::SANDBOX_IMAGE_IS_NOT_PROTECTED)
        {
            // As upstream, an error is ignored.
            inventory.sandbox_image = runtime.image_id(reference).await.ok().flatten();
        }
        inventory.images = runtime.images().await.map_err(Unlisted::from);
        for image in inventory.images.iter_mut().flatten() {
            if !image.pinned && self.keeps(image) {
                Arc::make_mut(image).pinned = true;
            }
        }
        if inventory.images.is_ok() {
            inventory.containers = self.containers().await;
        }
        if semantics.image_volumes {
            inventory.image_volumes = self.volumes(&inventory).await;
        }
        inventory
    }

    /// [N3.9](crate::rules#n3-9): the images that containers mount as volumes. As upstream, they are unknown
    /// if a container was removed after the listing.
    pub(super) async fn volumes(&self, inventory: &Inventory) -> Listing<Vec<Arc<str>>> {
        let mut volumes = Vec::new();
        for container in inventory.containers.iter().flatten() {
            let status = self.environment.runtime.container_status(&container.id).await;
            // A response without a status is an error: the mounts of the container are unknown.
            let no_status = || RuntimeError::unknown("container status is nil");
            let status = status.and_then(|status| status.ok_or_else(no_status));
            volumes.extend(status.map_err(Unlisted::from)?.image_volumes);
        }
        Ok(volumes)
    }

    /// The start of image collection, if known.
    pub const fn image_gc_began_at(&self) -> Option<Timestamp> {
        self.image_gc_began_at
    }
}

/// Returns whether a reference of [`Settings::keep_images`](super::Settings::keep_images) is one to this
/// image: its id with or without `sha256:`, one of its tags, or one of its digests.
pub fn is_reference_to(reference: &str, image: &Image) -> bool {
    let without_prefix = |id| str::strip_prefix(id, ID_PREFIX).unwrap_or(id);
    without_prefix(reference) == without_prefix(&image.id)
        || image
            .tags
            .iter()
            .chain(&image.digests)
            .any(|name| **name == *reference)
}
