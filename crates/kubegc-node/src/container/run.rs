//! Step-by-step execution of a container plan: a container is removed only if it could be stopped
//! ([N2.17](crate::rules#n2-17) to [N2.19](crate::rules#n2-19)).

use std::sync::Arc;

use kubegc_core::{PlanOf, RuntimeError, node_facts::Container};

use super::{Action, EvictUnits};

/// The next step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop a container, then report the result.
    Stop {
        container: Arc<Container>,
        /// The grace period in seconds.
        grace_seconds: u32,
    },
    /// Remove a container, then report the result.
    Remove { container: Arc<Container> },
    /// The run is complete.
    Done,
}

/// A container whose removal failed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub action: Action,
    /// Whether the container could not be stopped, so its removal was not requested.
    pub stop_failed: bool,
    pub error: RuntimeError,
}

/// The execution of a container plan ([N2.53](crate::rules#n2-53)).
///
/// # Guarantees
/// If all steps succeed, every action of the plan is performed in order. A container that cannot be stopped
/// is not removed, and no other container is removed instead.
#[derive(Clone, Debug)]
pub struct Run {
    plan: PlanOf<EvictUnits>,
    at: usize,
    stopped: bool,
    requested: bool,
    failed: Vec<Failed>,
}

impl Run {
    /// Starts the execution of a plan.
    #[must_use]
    pub const fn new(plan: PlanOf<EvictUnits>) -> Self {
        Self {
            plan,
            at: 0,
            stopped: false,
            requested: false,
            failed: Vec::new(),
        }
    }

    /// Processes the result of the last step and returns the next step. With `None` it returns the last step
    /// again.
    pub fn next(&mut self, response: Option<Result<(), RuntimeError>>) -> Step {
        if let Some(response) = response.filter(|_| self.requested) {
            self.record(response);
        }
        let Some(Action::Remove {
            container,
            stop_first,
            ..
        }) = self.plan.actions.get(self.at)
        else {
            self.requested = false;
            return Step::Done;
        };
        self.requested = true;
        let container = Arc::clone(container);
        match stop_first {
            Some(grace_seconds) if !self.stopped => Step::Stop {
                container,
                grace_seconds: *grace_seconds,
            },
            _ => Step::Remove { container },
        }
    }

    fn record(&mut self, response: Result<(), RuntimeError>) {
        let action = &self.plan.actions[self.at];
        let Action::Remove { stop_first, .. } = action;
        let is_stop = stop_first.is_some() && !self.stopped;
        match response {
            Ok(()) if is_stop => {
                self.stopped = true;
                return;
            }
            Ok(()) => {}
            Err(error) => self.failed.push(Failed {
                action: action.clone(),
                stop_failed: is_stop,
                error,
            }),
        }
        self.at += 1;
        self.stopped = false;
    }

    /// The plan and its failures so far.
    pub fn finish(self) -> (PlanOf<EvictUnits>, Vec<Failed>) {
        (self.plan, self.failed)
    }
}
