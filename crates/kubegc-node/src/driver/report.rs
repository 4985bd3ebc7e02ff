//! Reports of a driver: the plan, the outcome of every action, errors and events.

use std::sync::Arc;

use kubegc_core::{PlanOf, RuntimeError, node_facts::Container};

use crate::{aggregate, container, event::Event, image, log, sandbox};

/// An action of any stage.
#[expect(clippy::exhaustive_enums, reason = "the stages that there are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// Of the container stage.
    Container(container::Action),
    /// Of the sandbox stage.
    Sandbox(sandbox::Action),
    /// Of the log stage.
    Log(log::Action),
    /// Of an image run.
    Image(image::Action),
}

/// The outcome of an action.
#[expect(clippy::exhaustive_enums, reason = "readers of reports handle each")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// It could not be stopped, so it was not removed.
    NotStopped(RuntimeError),
    /// It could not be removed.
    NotRemoved(RuntimeError),
    /// It is kept after all: a dangling link whose container has not ended; a log directory whose pod exists
    /// or is unknown by now.
    Kept(log::Reason),
    /// A dry run performs nothing.
    DryRun,
}

/// An action and its outcome.
#[expect(clippy::exhaustive_structs, reason = "two parts")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Performed {
    /// The action.
    pub action: NodeAction,
    /// The outcome.
    pub outcome: Outcome,
}

/// A run over containers, sandboxes and logs. A stage without a plan, because its listing failed, has an
/// empty plan with a finding.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainersReport {
    /// The plan of the container stage.
    pub containers: PlanOf<container::Policy>,
    /// The plan of the sandbox stage.
    pub sandboxes: PlanOf<sandbox::Policy>,
    /// The plan of the log stage.
    pub logs: PlanOf<log::Policy>,
    /// The performed actions, in order.
    pub performed: Vec<Performed>,
    /// Errors of stages as a whole, in order. Failed removals are in [`performed`](Self::performed), as
    /// upstream only logs them.
    pub errors: Vec<String>,
    /// Events on pods, each with its container. A loop reports them before the run.
    pub events: Vec<(Arc<Container>, Event)>,
}

impl ContainersReport {
    /// Upstream's error of the run, if any.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        aggregate(&self.errors)
    }
}

/// A run over images.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagesReport {
    /// The plan of the run. Its actions are those that were tried.
    pub plan: PlanOf<image::Policy>,
    /// The performed actions, in order.
    pub performed: Vec<Performed>,
}

impl ImagesReport {
    /// Upstream's error of the run, if any.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.plan.summary.error.as_ref().map(ToString::to_string)
    }
}

/// A detection of images: the changes are in the node's records.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectionReport {
    /// Number of known images.
    pub images: usize,
    /// The error, if detection failed.
    pub error: Option<image::Error>,
}

/// A report of a node's loops.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A run over containers, sandboxes and logs ended.
    Containers(Box<ContainersReport>),
    /// A detection ended.
    Detection(DetectionReport),
    /// A run over images ended.
    Images(Box<ImagesReport>),
    /// An event for the node. It comes before the run that it belongs to, and is not repeated there.
    Event(Event),
    /// An event for a pod, about one container of it.
    OfContainer {
        /// The container.
        container: Arc<Container>,
        /// The event.
        event: Event,
    },
}
