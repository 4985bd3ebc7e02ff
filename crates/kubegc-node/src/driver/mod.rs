//! A driver of a node's collection over a [`Runtime`], a [`LogDirectory`], a [`PodSource`] and a [`Clock`]:
//! one run, or all loops.
//!
//! The driver makes no decisions. Listings are read when upstream reads them: again before each stage, so
//! that removed entries are not listed and remaining ones still count. Pods are read after the listing that
//! depends on them, so that the containers of a pod that was started in between do not belong to an unknown
//! pod.

mod approved;
mod containers;
mod images;
mod keep;
mod ready;
mod reclaim;
mod report;
mod run;
mod survey;

use std::sync::Arc;

use kubegc_core::{
    Clock, LogDirectory, PodSource, Runtime, Timestamp,
    node_facts::{Container, Pods},
};

use crate::{
    Inventory, Unlisted, container, image,
    image::Records,
    log,
    policy::{Policy, Switches},
    sandbox,
};

pub use approved::Approved;
pub use keep::KeepImages;
pub use ready::{ReadySandboxes, WithRunning, add_created_since, add_running};
pub use reclaim::ReclaimReport;
pub use report::{ContainersReport, DetectionReport, ImagesReport, NodeAction, Outcome, Performed, Report};
pub use survey::Survey;

/// The environment of a node.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a value that callers build")]
pub struct Environment<'a> {
    /// The container runtime.
    pub runtime: &'a dyn Runtime,
    /// The log files; `None` ignores them.
    pub logs: Option<&'a dyn LogDirectory>,
    /// The source of pods.
    pub pods: &'a dyn PodSource,
    /// The time.
    pub clock: &'a dyn Clock,
}

/// The settings of a node's driver.
#[expect(clippy::exhaustive_structs, reason = "settings that callers build")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy of dead containers.
    pub container: container::Policy,
    /// The policy of sandboxes.
    pub sandbox: sandbox::Policy,
    /// The policy of log files.
    pub log: log::Policy,
    /// The policy of images.
    pub image: image::Policy,
    /// The loops to run.
    pub switches: Switches,
    /// The pod log directory, for messages.
    pub pod_logs_directory: String,
    /// The image of sandboxes, as the runtime names it. Protected up to 1.28 only; later the runtime must pin
    /// it.
    pub sandbox_image: Option<Arc<str>>,
    /// Plan and report, but perform nothing.
    pub dry_run: bool,
}

impl From<&Policy> for Settings {
    fn from(policy: &Policy) -> Self {
        let semantics = policy.semantics();
        Self {
            container: *policy.container(),
            sandbox: sandbox::Policy::new(semantics),
            log: log::Policy::new(semantics),
            image: *policy.image(),
            switches: policy.switches(),
            pod_logs_directory: policy.pod_logs_directory().to_owned(),
            sandbox_image: None,
            dry_run: false,
        }
    }
}

/// The driver of one node.
///
/// # Guarantees
/// After a failure nothing else is removed instead. If a listing fails, its stage does nothing. Every run
/// can be dropped at any await and started again.
pub struct Node<'a> {
    world: Environment<'a>,
    settings: Settings,
    records: Records,
    image_gc_began_at: Option<Timestamp>,
}

impl<'a> Node<'a> {
    /// A node without image records, like a kubelet that has just started ([N3.3](crate::rules#n3-3)).
    #[must_use]
    pub fn new(world: Environment<'a>, settings: Settings) -> Self {
        Self::with_records(world, settings, Records::default())
    }

    /// A node with image records.
    #[must_use]
    pub const fn with_records(world: Environment<'a>, settings: Settings, records: Records) -> Self {
        Self {
            world,
            settings,
            records,
            image_gc_began_at: None,
        }
    }

    /// The image records.
    #[must_use]
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets the start of image collection, from which the maximum age counts. Otherwise the first collection
    /// of images sets it.
    pub const fn set_image_gc_began_at(&mut self, since: Timestamp) {
        self.image_gc_began_at = Some(since);
    }

    /// The pods that are known now. If the source fails, no pod is known, and the error is reported.
    async fn pods(&self, errors: &mut Vec<String>) -> Pods {
        match self.world.pods.pods().await {
            Ok(pods) => pods,
            Err(error) => {
                errors.push(format!("list pods: {error}"));
                Pods::default()
            }
        }
    }

    async fn containers(&self) -> Result<Vec<Arc<Container>>, Unlisted> {
        self.world.runtime.containers().await.map_err(Unlisted::from)
    }
}

/// An inventory with the pods only.
fn with_pods(pods: Pods) -> Inventory {
    Inventory {
        pods,
        ..Inventory::default()
    }
}
