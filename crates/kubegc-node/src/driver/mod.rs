//! Performs a node's collection over a [`Runtime`], a [`LogDirectory`], a [`PodSource`] and a [`Clock`]: one pass, or all loops.
//!
//! No decisions are made here. Listings are read where upstream reads them: anew before each stage, so that what was removed is not seen again and
//! what was not removed still counts. Pods are asked for after the listing that they decide about: what a pod has that was started in between is
//! not taken for that of one which nobody knows.

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

/// The outside world of a node.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "what callers bring along")]
pub struct World<'a> {
    /// The container runtime.
    pub runtime: &'a dyn Runtime,
    /// The log files; `None` leaves them alone.
    pub logs: Option<&'a dyn LogDirectory>,
    /// Who says which pods there should be.
    pub pods: &'a dyn PodSource,
    /// The time.
    pub clock: &'a dyn Clock,
}

/// What a node's driver goes by.
#[expect(clippy::exhaustive_structs, reason = "settings that callers build")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which dead containers go.
    pub container: container::Policy,
    /// Which sandboxes go.
    pub sandbox: sandbox::Policy,
    /// Which log files go.
    pub log: log::Policy,
    /// Which images go.
    pub image: image::Policy,
    /// Which loops run.
    pub switches: Switches,
    /// The pod log directory, for messages.
    pub pod_logs_directory: String,
    /// The image of sandboxes, as the runtime knows it. Protected up to 1.28 only; later the runtime must pin it.
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

/// Collects on one node.
///
/// # Guarantees
/// Whatever fails, nothing else goes in its place. Where a listing fails, the stage that needs it does nothing. Every pass may be dropped at
/// any await and begun anew.
pub struct Node<'a> {
    world: World<'a>,
    settings: Settings,
    records: Records,
    watched_since: Option<Timestamp>,
}

impl<'a> Node<'a> {
    /// A node that remembers nothing of its images, like a kubelet that has just started.
    #[must_use]
    pub fn new(world: World<'a>, settings: Settings) -> Self {
        Self::remembering(world, settings, Records::default())
    }

    /// A node that remembers its images.
    #[must_use]
    pub const fn remembering(world: World<'a>, settings: Settings, records: Records) -> Self {
        Self {
            world,
            settings,
            records,
            watched_since: None,
        }
    }

    /// What is remembered of images.
    #[must_use]
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// What the node goes by.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets since when use is watched: what the maximum age counts from. The first collection of images sets it where nobody did.
    pub const fn watch_since(&mut self, since: Timestamp) {
        self.watched_since = Some(since);
    }

    /// The pods that are known now. Where nobody answers, nothing is known, and the error is told.
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

/// An inventory that knows the pods and nothing else.
fn with_pods(pods: Pods) -> Inventory {
    Inventory {
        pods,
        ..Inventory::default()
    }
}
