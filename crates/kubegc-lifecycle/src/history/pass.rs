//! Carries a plan out as upstream does: a failed deletion is told and the next one tried, and the status is written for what was deleted.

use std::collections::{BTreeSet, VecDeque};

use kubegc_core::Uid;

use super::{Action, Settings};
use crate::object::Call;

/// A plan being carried out. Asks with a [`Step`] and goes on with the answer.
///
/// A pass over `n` actions takes at most `2 n` steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    always_writes_status: bool,
    left: VecDeque<Action>,
    /// The jobs of the present cron job that were deleted.
    deleted: BTreeSet<Uid>,
    step: Step,
}

/// What a pass wants next.
#[expect(clippy::exhaustive_enums, reason = "drivers must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To be performed, call by call.
    Perform(Action),
    /// To be told. How that ends does not matter, but there is to be an answer.
    Tell(Call),
    /// Nothing is left.
    Done,
}

impl Pass {
    /// Begins with the actions of a plan, in their order.
    #[must_use]
    pub fn new(settings: &Settings, actions: Vec<Action>) -> Self {
        let mut pass = Self {
            always_writes_status: settings.always_writes_status,
            left: actions.into(),
            deleted: BTreeSet::new(),
            step: Step::Done,
        };
        pass.advance();
        pass
    }

    /// What is still to be done, in order, if nothing fails.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        let current = match &self.step {
            Step::Perform(action) => Some(action),
            Step::Tell(_) | Step::Done => None,
        };
        current.into_iter().chain(&self.left)
    }

    /// Goes on with the answer to the last step, an error with its text; without an answer the step is repeated.
    pub fn next(&mut self, answer: Option<Result<(), String>>) -> Step {
        if let Some(answer) = answer {
            let told = match (&self.step, answer) {
                (Step::Perform(Action::Delete { object, .. }), Ok(())) => {
                    self.deleted.insert(object.uid.clone());
                    None
                }
                (Step::Perform(action), Err(error)) => action.told_failed(&error),
                _ => None,
            };
            match told {
                Some(event) => self.step = Step::Tell(event),
                None => self.advance(),
            }
        }
        self.step.clone()
    }

    /// Takes the next action that is to be performed. An update of a status is so for the jobs that were deleted.
    fn advance(&mut self) {
        self.step = Step::Done;
        while let Some(mut action) = self.left.pop_front() {
            if let Action::UpdateStatus { jobs, .. } = &mut action {
                let deleted = std::mem::take(&mut self.deleted);
                jobs.retain(|job| deleted.contains(job));
                if jobs.is_empty() && !self.always_writes_status {
                    continue;
                }
            }
            self.step = Step::Perform(action);
            return;
        }
    }
}
