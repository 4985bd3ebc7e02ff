//! Performs a container plan step by step, where whether a container is removed hangs on whether it could be stopped.

use std::sync::Arc;

use kubegc_core::{PlanOf, RuntimeError, node_facts::Container};

use super::{Action, Policy};

/// What a pass wants done.
#[expect(clippy::exhaustive_enums, reason = "drivers must handle every step")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop a container, then answer.
    Stop {
        /// The container.
        container: Arc<Container>,
        /// Grace in seconds.
        grace_seconds: u32,
    },
    /// Remove a container, then answer.
    Remove {
        /// The container.
        container: Arc<Container>,
    },
    /// All is done.
    Done,
}

/// A container that was to go and did not.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The action.
    pub action: Action,
    /// Whether stopping failed, so that removal was not tried.
    pub stopping: bool,
    /// Why.
    pub error: RuntimeError,
}

/// A container plan being performed.
///
/// # Guarantees
/// With all successes, every action of the plan is performed in its order. A failure changes nothing else: what cannot be stopped is not removed, and no
/// other container goes in its place.
#[derive(Clone, Debug)]
pub struct Pass {
    plan: PlanOf<Policy>,
    at: usize,
    stopped: bool,
    asked: bool,
    failed: Vec<Failed>,
}

impl Pass {
    /// Begins to perform a plan.
    #[must_use]
    pub const fn new(plan: PlanOf<Policy>) -> Self {
        Self {
            plan,
            at: 0,
            stopped: false,
            asked: false,
            failed: Vec::new(),
        }
    }

    /// Takes the answer to the last step, and gives the next. Without an answer the same step is given again.
    pub fn next(&mut self, answer: Option<Result<(), RuntimeError>>) -> Step {
        if let Some(answer) = answer.filter(|_| self.asked) {
            self.take(answer);
        }
        let Some(Action::Remove {
            container,
            stop_first,
            ..
        }) = self.plan.actions.get(self.at)
        else {
            self.asked = false;
            return Step::Done;
        };
        self.asked = true;
        let container = Arc::clone(container);
        match stop_first {
            Some(grace_seconds) if !self.stopped => Step::Stop {
                container,
                grace_seconds: *grace_seconds,
            },
            _ => Step::Remove { container },
        }
    }

    fn take(&mut self, answer: Result<(), RuntimeError>) {
        let action = &self.plan.actions[self.at];
        let Action::Remove { stop_first, .. } = action;
        let stopping = stop_first.is_some() && !self.stopped;
        match answer {
            Ok(()) if stopping => {
                self.stopped = true;
                return;
            }
            Ok(()) => {}
            Err(error) => self.failed.push(Failed {
                action: action.clone(),
                stopping,
                error,
            }),
        }
        self.at += 1;
        self.stopped = false;
    }

    /// The plan, and what of it failed so far.
    pub fn finish(self) -> (PlanOf<Policy>, Vec<Failed>) {
        (self.plan, self.failed)
    }
}
