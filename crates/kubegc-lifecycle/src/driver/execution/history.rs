//! Carries the pruning of one cron job's history out: a deletion that failed is told, and the next one tried.
//!
//! # Upstream
//! A job that could not be deleted waits for the next time at which its cron job is due. That time is not known here, so the task counts as failed and is
//! tried again soon.

use std::collections::VecDeque;

use kubegc_core::StoreError;

use super::{Hands, Progress, hands::Attempt, own_words};
use crate::{
    controller::{Ended, Reason},
    history::{self, Pass, Step},
    object::{Act, Call},
};

/// A pass over the jobs of one cron job.
#[derive(Clone, Debug)]
pub(super) struct Pruning {
    pass: Pass,
    /// The calls that are left of the present step.
    calls: VecDeque<Call>,
    /// Why the present step is taken.
    reason: Reason,
    /// The answer to the present step.
    answer: Option<Result<(), String>>,
    /// What went wrong first.
    failed: Option<StoreError>,
}

impl Pruning {
    pub(super) const fn new(pass: Pass) -> Self {
        Self {
            pass,
            calls: VecDeque::new(),
            reason: Reason::History(history::Reason::NothingToPrune),
            answer: None,
            failed: None,
        }
    }

    /// Each turn makes one call, or takes the next step.
    pub(super) async fn step(&mut self, hands: &Hands<'_>) -> Progress {
        loop {
            let Some(call) = self.calls.pop_front() else {
                if let Some(ended) = self.advance(hands) {
                    return Progress::over(ended);
                }
                continue;
            };
            let is_event = matches!(call, Call::Event { .. });
            let (is_made, result) = match hands.make(&call, false).await {
                Attempt::Unneeded => continue,
                Attempt::Made(result) => (true, result),
                Attempt::NotMade(error) => (false, Err(error)),
                // Nobody else is asked about jobs.
                Attempt::Operated(_) | Attempt::Guarded(_) => continue,
            };
            if let Err(error) = &result
                && !is_event
            {
                self.calls.clear();
                self.answer = Some(Err(own_words(error)));
                self.failed.get_or_insert_with(|| error.clone());
            }
            if is_made {
                return Progress::made(call, &self.reason, result);
            }
        }
    }

    /// Takes the next step; gives the end when there is none.
    fn advance(&mut self, hands: &Hands<'_>) -> Option<Ended> {
        match self.pass.next(self.answer.take()) {
            Step::Perform(action) => {
                self.reason = Reason::History(action.reason().clone());
                self.calls = action.calls(hands.wire).into();
            }
            Step::Tell(call) => self.calls = [call].into(),
            Step::Done => return Some(self.failed.take().map_or(Ended::Done, Ended::Failed)),
        }
        self.answer = Some(Ok(()));
        None
    }
}
