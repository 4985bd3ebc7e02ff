//! Carries an action out that was decided on: each call only if the one before succeeded.

use std::{collections::VecDeque, time::Duration};

use kubegc_core::StoreError;

use super::{
    super::Operated,
    Hands, Progress,
    hands::{Attempt, Verdict},
    own_words,
};
use crate::{
    controller::{Basis, Ended, Mechanism, Planned, Reason},
    node,
    object::Call,
    volume::external::{self, Guard},
};

/// When a guard that did not let a volume go is asked again.
///
/// # Upstream
/// `DefaultResyncPeriod` of `sig-storage-lib-external-provisioner`.
const GUARD_AGAIN: Duration = Duration::from_secs(15 * 60);

/// An action being carried out.
#[derive(Clone, Debug)]
pub(super) struct Acting {
    mechanism: Mechanism,
    planned: Planned,
    /// What is still to be read.
    rests_on: VecDeque<Basis>,
    /// The calls that are left.
    calls: VecDeque<Call>,
    /// Why the calls before have failed; what is left then only tells so.
    failed: Option<StoreError>,
}

impl Acting {
    pub(super) fn new(mechanism: Mechanism, mut planned: Planned) -> Self {
        Self {
            mechanism,
            rests_on: std::mem::take(&mut planned.rests_on).into(),
            calls: std::mem::take(&mut planned.calls).into(),
            planned,
            failed: None,
        }
    }

    /// Each turn takes one thing to be read, or one call.
    pub(super) async fn step(&mut self, hands: &Hands<'_>) -> Progress {
        if !hands.verifies {
            self.rests_on.clear();
        }
        while let Some(basis) = self.rests_on.pop_front() {
            match hands.verify(&basis).await {
                Verdict::Holds => {}
                Verdict::Changed => return Progress::over(Ended::Stale),
                Verdict::Failed(error) => return Progress::over(Ended::Failed(error)),
            }
        }
        while let Some(call) = self.calls.pop_front() {
            let is_guarded = self.mechanism == Mechanism::ExternalVolumes;
            let result = match hands.make(&call, is_guarded).await {
                Attempt::Unneeded => continue,
                Attempt::Made(result) => result,
                Attempt::NotMade(StoreError::NotFound | StoreError::Conflict { .. }) => {
                    return Progress::over(Ended::Stale);
                }
                Attempt::NotMade(error) => return Progress::over(Ended::Failed(error)),
                Attempt::Operated(Operated::Done) => Ok(()),
                Attempt::Operated(Operated::InUse { message } | Operated::Failed { message }) => {
                    Err(StoreError::Unknown { message })
                }
                Attempt::Guarded(guard) => {
                    let reason = match guard {
                        Guard::Unknown | Guard::Allows => external::Reason::GuardUnknown,
                        Guard::Forbids => external::Reason::Guarded,
                    };
                    return Progress::Over {
                        ended: Ended::Again(GUARD_AGAIN),
                        kept: Some(Reason::ExternalVolume(reason)),
                    };
                }
            };
            if let Err(error) = &result
                && !matches!(call, Call::Event { .. })
            {
                self.calls = self.told_failed(&call, error).into_iter().collect();
                self.failed = Some(error.clone());
            }
            return Progress::made(call, &self.planned.reason, result);
        }
        Progress::over(self.failed.take().map_or(Ended::Done, Ended::Failed))
    }

    /// What is told after a call has failed: only of nodes that could not be deleted (L8.4).
    fn told_failed(&self, call: &Call, error: &StoreError) -> Option<Call> {
        let (Call::Delete { .. }, Reason::Node(reason)) = (call, &self.planned.reason) else {
            return None;
        };
        let action = node::Action::Delete {
            object: self.planned.object.clone(),
            expect: self.planned.expect.clone(),
            reason: reason.clone(),
        };
        action.told_failed(&own_words(error))
    }
}
