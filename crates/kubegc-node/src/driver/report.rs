//! Reports of a driver: the plan, the outcome of every action, errors and events.

use std::sync::Arc;

use kubegc_core::{PlanOf, PlannedAction, RuntimeError, node_facts::Container};

use crate::{Subject, aggregate, container, event::Event, image, log, sandbox};

/// An action of any stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAction {
    Container(container::Action),
    Sandbox(sandbox::Action),
    Log(log::Action),
    Image(image::Action),
}

impl NodeAction {
    /// Returns whether both actions are on the same object with the same facts, whatever their reasons are.
    pub fn has_same_object(&self, other: &Self) -> bool {
        self.object() == other.object()
    }

    fn object(&self) -> Subject {
        match self {
            Self::Container(action) => action.object(),
            Self::Sandbox(action) => action.object(),
            Self::Log(action) => action.object(),
            Self::Image(action) => action.object(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The container or sandbox could not be stopped, so it was not removed.
    NotStopped(RuntimeError),
    NotRemoved(RuntimeError),
    /// The object is kept after a check right before the removal: a dangling link whose container has not
    /// exited, or a log directory whose pod exists now or is unknown.
    Kept(log::Reason),
    /// Not performed because it is not [approved](super::Node::require_approval).
    NotApproved,
    DryRun,
}

/// An action and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Performed {
    pub action: NodeAction,
    pub outcome: Outcome,
}

/// The report of a container run, which removes containers, sandboxes and logs. If the listing of a stage
/// failed, its plan contains only a finding.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainersReport {
    pub containers: PlanOf<container::EvictUnits>,
    pub sandboxes: PlanOf<sandbox::EvictSandboxes>,
    pub logs: PlanOf<log::EvictLogs>,
    /// The performed actions, in order.
    pub performed: Vec<Performed>,
    /// The errors of failed stages, in order. Failed removals are in [`performed`](Self::performed); upstream
    /// only logs them.
    pub errors: Vec<String>,
    /// Events on pods, each with its container. A loop reports them before the run.
    pub events: Vec<(Arc<Container>, Event)>,
}

impl ContainersReport {
    /// Upstream's error of the run, if any.
    pub fn error(&self) -> Option<String> {
        aggregate(&self.errors)
    }
}

/// The report of an image run.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagesReport {
    /// The plan of the run. Its actions are those that were attempted.
    pub plan: PlanOf<image::FreeSpace>,
    /// The performed actions, in order.
    pub performed: Vec<Performed>,
}

impl ImagesReport {
    /// Upstream's error of the run, if any.
    pub fn error(&self) -> Option<String> {
        self.plan.summary.error.as_ref().map(ToString::to_string)
    }
}

/// The report of a detection run. It updates the node's image records.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectionReport {
    /// The number of image records.
    pub images: usize,
    /// The error, if the run failed.
    pub error: Option<image::Error>,
}

/// A report of [`Node::run`](super::Node::run).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A container run ended.
    Containers(Box<ContainersReport>),
    /// A detection run ended.
    Detection(DetectionReport),
    /// An image run ended.
    Images(Box<ImagesReport>),
    /// An event on the node. It is reported before its run, whose report does not contain it.
    Event(Event),
    /// An event on a pod, about one of its containers. It is reported before its run, whose report does not
    /// contain it.
    ContainerEvent { container: Arc<Container>, event: Event },
}
