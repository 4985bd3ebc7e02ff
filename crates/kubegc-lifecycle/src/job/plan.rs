//! Plans the deletion of all expired jobs.

use std::collections::BTreeSet;

use kubegc_core::{
    DeleteOptions, Kept, Plan, PlanOf, Planner, Preconditions, PropagationPolicy, StoreError, Timestamp,
};

use super::{Facts, Job, Reason, Settings, State, judge::judge};
use crate::object::{Act, Call, Failure, Live, Object, Reads, Resource, Sent, Wire, by_identity, expected};

/// What is done to a job.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Deletes the job, after what it owns.
    Delete {
        /// The job.
        object: Object,
        /// The job as it was read. Upstream expects the uid alone: a new time to live between read and deletion is lost on it.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    pub(super) fn delete(job: &Job, reason: Reason) -> Self {
        Self::Delete {
            object: Object::new(Resource::Jobs, &job.meta),
            expect: expected(&job.meta),
            reason,
        }
    }

    /// What upstream makes of a failed deletion: it tries again, whatever the error, even for what is gone.
    #[must_use]
    pub const fn failure(_error: &StoreError) -> Failure {
        Failure::Retried
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        let Self::Delete { object, .. } = self;
        object
    }

    fn expect(&self) -> &Preconditions {
        let Self::Delete { expect, .. } = self;
        expect
    }

    fn calls(&self, wire: Wire) -> Vec<Call> {
        let Self::Delete { object, expect, .. } = self;
        let options = DeleteOptions::policy(PropagationPolicy::Foreground);
        vec![Call::delete(object, expect, wire, Sent::Uid, options)]
    }
}

/// What a plan amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The jobs to read before planning again: they were listed as expired.
    pub to_read: Vec<Object>,
}

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans the deletion of what has expired, in the order of namespace and name. Upstream deletes in the order of expiry, as time passes.
    ///
    /// An action speaks of the job that was read. Where that is another than the one that was listed, a finding says so. `next_at` is the
    /// earliest expiry among the kept; findings about clocks come and go without it.
    ///
    /// # Complexity
    /// O(n log n) in the number of jobs.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let mut plan = PlanOf::<Self>::default();
        let mut acted_on = BTreeSet::new();
        for (object, job) in by_identity(Resource::Jobs, &facts.jobs, |job| &job.meta) {
            let reason = match job {
                _ if !self.enabled => Reason::Disabled,
                None => Reason::ListedTwice,
                Some(job) => match fate(job, &object, facts, now, &mut plan) {
                    Err(reason) => reason,
                    Ok(action) if acted_on.insert(action.object().clone()) => {
                        plan.actions.push(action);
                        continue;
                    }
                    Ok(_) => Reason::PlannedAlready,
                },
            };
            match &reason {
                Reason::AsListed(State::NotExpired { expires_at, .. })
                | Reason::AsRead(State::NotExpired { expires_at, .. }) => {
                    plan.next_at = Some(plan.next_at.map_or(*expires_at, |next| next.min(*expires_at)));
                }
                Reason::NotRead { .. } => plan.summary.to_read.push(object.clone()),
                _ => {}
            }
            plan.kept.push(Kept { object, reason });
        }
        plan
    }
}

/// What is done to one job, or why it stays. Findings go into the plan.
fn fate(
    job: &Job,
    object: &Object,
    facts: &Facts,
    now: Timestamp,
    plan: &mut Plan<Action, Object, Reason, Summary>,
) -> Result<Action, Reason> {
    let listed = judge(job, now);
    let State::Expired { expired_at, .. } = listed else {
        tell_skew(object, &listed, now, plan);
        return Err(Reason::AsListed(listed));
    };
    if matches!(facts.reads, Reads::AsListed) {
        return Ok(Action::delete(job, Reason::AsListed(listed)));
    }
    let read = match facts.reads.of(object, job) {
        Live::Found(read) => read,
        Live::NotAsked => return Err(Reason::NotRead { expired_at }),
        Live::NotFound => return Err(Reason::Gone),
        Live::Failed(message) => return Err(Reason::ReadFailed { message }),
    };
    if read.meta.uid != job.meta.uid {
        plan.findings.push(Kept {
            object: object.clone(),
            reason: Reason::Replaced {
                uid: read.meta.uid.clone(),
            },
        });
    }
    let state = judge(read, now);
    tell_skew(object, &state, now, plan);
    match state {
        State::Expired { .. } => Ok(Action::delete(read, Reason::AsRead(state))),
        _ => Err(Reason::AsRead(state)),
    }
}

/// Tells where a job finished in the future.
fn tell_skew(
    object: &Object,
    state: &State,
    now: Timestamp,
    plan: &mut Plan<Action, Object, Reason, Summary>,
) {
    if let Some(finished_at) = state.finished_at().filter(|at| *at > now) {
        plan.findings.push(Kept {
            object: object.clone(),
            reason: Reason::FinishedAhead { finished_at },
        });
    }
}
