//! Carries the pruning of one cron job's history out: a deletion that failed is told, and the next one tried (L3.6).
//!
//! # Upstream
//! A job that could not be deleted waits until its cron job is looked at for another reason (L3.9); only a status that could not be written is written again
//! soon. A cron job that is gone has none. Beyond upstream, the cron job is read first: its limits may be others by now.

use std::collections::VecDeque;

use kubegc_core::StoreError;

use super::{
    Hands, Progress,
    hands::{Attempt, Verdict},
    own_words,
};
use crate::{
    controller::{Basis, Ended, Reason},
    history::{self, Action, Pass, Step},
    object::{Act, Call},
};

/// A pass over the jobs of one cron job.
#[derive(Clone, Debug)]
pub(super) struct Pruning {
    pass: Pass,
    /// The cron job, while it is still to be read.
    rests_on: Option<Basis>,
    /// The calls that are left of the present step.
    calls: VecDeque<Call>,
    /// Why the present step is taken.
    reason: Reason,
    /// The answer to the present step.
    answer: Option<Result<(), String>>,
    /// Why the status could not be written.
    failed: Option<StoreError>,
}

impl Pruning {
    pub(super) fn new(pass: Pass) -> Self {
        let rests_on = pass.actions().find_map(cron_job);
        Self {
            pass,
            rests_on,
            calls: VecDeque::new(),
            reason: Reason::History(history::Reason::NothingToPrune),
            answer: None,
            failed: None,
        }
    }

    /// Each turn makes one call, or takes the next step.
    pub(super) async fn step(&mut self, hands: &Hands<'_>) -> Progress {
        let basis = self.rests_on.take().filter(|_| hands.verifies);
        if let Some(basis) = basis {
            match hands.verify(&basis).await {
                Verdict::Holds => {}
                Verdict::Changed => return Progress::over(Ended::Stale),
                Verdict::Failed(error) => return Progress::over(Ended::Failed(error)),
            }
        }
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
                if matches!(call, Call::Change { .. }) && *error != StoreError::NotFound {
                    self.failed.get_or_insert_with(|| error.clone());
                }
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

/// The cron job whose status an action writes, as it was listed.
fn cron_job(action: &Action) -> Option<Basis> {
    let Action::UpdateStatus { object, expect, .. } = action else {
        return None;
    };
    Some(Basis::Same {
        object: object.clone(),
        resource_version: expect.resource_version.clone().unwrap_or_default(),
    })
}
