//! A driver that performs the plans of a node over a [`Runtime`], a [`LogDirectory`], a [`PodSource`] and a
//! [`Clock`]: single runs, or all loops.
//!
//! The driver makes no decisions. As upstream, it reads the listings again before each stage, so that they no
//! longer contain what the stage before removed. It reads the pods after the listing. So a pod that starts
//! between the two is known, and its containers are kept.

mod containers;
mod images;
mod inventory;
mod reclaim;
mod report;
mod run;
mod running;

use std::sync::Arc;

use kubegc_core::{
    Clock, LogDirectory, PodSource, Runtime, Timestamp,
    node_facts::{Container, Pods},
};

use crate::{Inventory, Unlisted, container, image, image::Records, log, policy::Policy, sandbox};

pub use images::is_reference_to;
pub use inventory::InventoryReport;
pub use reclaim::ReclaimReport;
pub use report::{ContainersReport, DetectionReport, ImagesReport, NodeAction, Outcome, Performed, Report};
pub use running::{WithRunning, add_created_since, add_running};

/// The interfaces that a node's driver uses.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    pub runtime: &'a dyn Runtime,
    /// The log files. `None`: logs are ignored.
    pub logs: Option<&'a dyn LogDirectory>,
    pub pods: &'a dyn PodSource,
    pub clock: &'a dyn Clock,
}

/// The settings of a node's driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy of dead containers.
    pub container: container::EvictUnits,
    pub sandbox: sandbox::EvictSandboxes,
    /// The policy of log files.
    pub log: log::EvictLogs,
    /// The policy of images.
    pub image: image::FreeSpace,
    /// Whether [`Node::run`] runs the image loop.
    pub image_loop: bool,
    /// The path of the pod log directory, for error texts.
    pub pod_logs_directory: String,
    /// A reference to the sandbox image that the runtime resolves. The image is protected up to 1.28 only;
    /// later the runtime must pin it.
    pub sandbox_image: Option<Arc<str>>,
    /// Images that the driver never removes, such as the sandbox image from 1.29 on if the runtime does not
    /// pin it (containerd 1.6). They are listed as pinned. Each is an id with or without `sha256:`, or a tag
    /// or a digest exactly as the runtime lists it: `pause` does not match `docker.io/library/pause:latest`.
    pub keep_images: Vec<Arc<str>>,
    /// Whether to plan and report without performing any action.
    pub dry_run: bool,
}

impl From<&Policy> for Settings {
    fn from(policy: &Policy) -> Self {
        let semantics = policy.semantics;
        Self {
            container: policy.container,
            sandbox: sandbox::EvictSandboxes {
                semantics,
                ..Default::default()
            },
            log: log::EvictLogs {
                semantics,
                ..Default::default()
            },
            image: policy.image,
            image_loop: policy.image_loop().enabled,
            pod_logs_directory: policy.pod_logs_directory.to_owned(),
            sandbox_image: None,
            keep_images: Vec::new(),
            dry_run: false,
        }
    }
}

type Approval<'a> = dyn Fn(&NodeAction) -> bool + Send + Sync + 'a;

/// The driver of one node.
///
/// # Guarantees
/// If a listing fails, its stage removes nothing. If a removal fails, no other object is removed instead. The
/// future of a run can be dropped at any await point, and a new run started.
pub struct Node<'a> {
    environment: Environment<'a>,
    settings: Settings,
    records: Records,
    image_gc_began_at: Option<Timestamp>,
    is_approved: Option<Box<Approval<'a>>>,
}

impl<'a> Node<'a> {
    /// Creates a driver without image records, like a kubelet that has just started
    /// ([N3.3](crate::rules#n3-3)).
    pub fn new(environment: Environment<'a>, settings: Settings) -> Self {
        Self::with_records(environment, settings, Records::default())
    }

    /// Creates a driver with image records.
    pub const fn with_records(environment: Environment<'a>, settings: Settings, records: Records) -> Self {
        Self {
            environment,
            settings,
            records,
            image_gc_began_at: None,
            is_approved: None,
        }
    }

    /// The same driver, except that it performs only approved actions. Others have the outcome
    /// [`NotApproved`](Outcome::NotApproved).
    ///
    /// For tools that show a plan, ask the user for approval, and then perform it: the node can change in
    /// between, and a run lists again and may plan other actions. Removing a container includes its log and
    /// the link to it.
    #[must_use]
    pub fn require_approval<F>(mut self, is_approved: F) -> Self
    where
        F: Fn(&NodeAction) -> bool + Send + Sync + 'a,
    {
        self.is_approved = Some(Box::new(is_approved));
        self
    }

    /// The outcome of an action that is not performed: in a dry run, or without approval.
    fn withheld(&self, action: &NodeAction) -> Option<Outcome> {
        if self.settings.dry_run {
            return Some(Outcome::DryRun);
        }
        let is_approved = self.is_approved.as_ref();
        (!is_approved.is_none_or(|is_approved| is_approved(action))).then_some(Outcome::NotApproved)
    }

    pub const fn records(&self) -> &Records {
        &self.records
    }

    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets the time at which image collection started. The maximum age applies only once it has passed since
    /// then. By default the first run of [`collect_images`](Self::collect_images) sets it.
    pub const fn set_image_gc_began_at(&mut self, began_at: Timestamp) {
        self.image_gc_began_at = Some(began_at);
    }

    /// Reads the pods. If the pod source fails, it adds the error, and no pod counts as removed.
    async fn pods(&self, errors: &mut Vec<String>) -> Pods {
        match self.environment.pods.pods().await {
            Ok(pods) => pods,
            Err(error) => {
                errors.push(format!("list pods: {error}"));
                Pods::default()
            }
        }
    }

    async fn containers(&self) -> Result<Vec<Arc<Container>>, Unlisted> {
        self.environment
            .runtime
            .containers()
            .await
            .map_err(Unlisted::from)
    }
}

/// An inventory that contains only the pods.
fn with_pods(pods: Pods) -> Inventory {
    Inventory {
        pods,
        ..Inventory::default()
    }
}
