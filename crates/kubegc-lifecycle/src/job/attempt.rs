//! Handles one job as upstream does: judged as listed, read, judged again, deleted.

use std::time::Duration;

use kubegc_core::{StoreError, Timestamp};

use super::{Action, Job, Reason, Settings, State, judge::judge};
use crate::object::{Object, Resource};

/// What an attempt wants next. Every step but the last is answered once.
#[expect(clippy::exhaustive_enums, reason = "a driver must handle each")]
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read the job of this namespace and name, live. Answer: [`Answer::Job`].
    Get(Object),
    /// Delete the job. Answer: [`Answer::Done`].
    Perform(Action),
    /// The attempt is over.
    Done(Ending),
}

/// What became of a step.
#[expect(clippy::exhaustive_enums, reason = "drivers only build these")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The job as it is now.
    Job(Box<Job>),
    /// It is done.
    Done,
    /// It failed.
    Failed(StoreError),
}

/// How an attempt ends.
#[expect(clippy::exhaustive_enums, reason = "a driver must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Nothing is to be done until the job changes.
    Kept(Reason),
    /// The job is looked at again at this time.
    Requeued {
        /// When.
        at: Timestamp,
        /// Why.
        reason: Reason,
    },
    /// There is no such job any more.
    Gone,
    /// The job was deleted.
    Deleted {
        /// Since when it was to be deleted.
        expired_at: Timestamp,
        /// How much later it was deleted: what upstream's `ttl_after_finished_controller_job_deletion_duration_seconds` observes (not in 1.20).
        delay: Duration,
    },
    /// It failed and is tried again, after waits that grow.
    Retry {
        /// The error.
        message: String,
    },
}

/// One look at one job: asks, is answered, and says in the end what came of it.
///
/// # Guarantees
/// Never panics, whatever the answers; an answer of the wrong kind ends in a retry. At most two steps before the end, and then always the end.
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, Timestamp};
/// use kubegc_lifecycle::job::{Attempt, Ending, Job, Settings, Step, Ttl};
///
/// let job = Job { meta: ObjectMeta::new("shop", "report", "uid-1"), ttl: Ttl::Unset, conditions: Some(Vec::new()) };
/// let mut attempt = Attempt::new(Settings::default(), job);
/// let Step::Done(Ending::Kept(reason)) = attempt.next(None, Timestamp::EPOCH) else { panic!("it has no time to live") };
/// assert_eq!(reason.to_string(), "has no time to live");
/// ```
#[derive(Clone, Debug)]
pub struct Attempt {
    settings: Settings,
    listed: Job,
    stage: Stage,
}

/// What was asked last.
#[derive(Clone, Debug)]
enum Stage {
    Start,
    Reading,
    Deleting { expired_at: Timestamp },
    Over(Ending),
}

impl Attempt {
    /// Begins with a job as it was listed.
    #[must_use]
    pub const fn new(settings: Settings, listed: Job) -> Self {
        Self {
            settings,
            listed,
            stage: Stage::Start,
        }
    }

    /// Takes the answer to the last step, none at first, and says what comes next. Each judgement is made at the time that is given with it.
    pub fn next(&mut self, answer: Option<Answer>, now: Timestamp) -> Step {
        match (&self.stage, answer) {
            (Stage::Over(ending), _) => Step::Done(ending.clone()),
            (Stage::Start, _) if !self.settings.enabled => self.end(Ending::Kept(Reason::Disabled)),
            (Stage::Start, _) => match judge(&self.listed, now) {
                State::Expired { .. } => {
                    self.stage = Stage::Reading;
                    Step::Get(Object::new(Resource::Jobs, &self.listed.meta))
                }
                state => self.end(ending(state, Reason::AsListed)),
            },
            (Stage::Reading, Some(Answer::Job(read))) => match judge(&read, now) {
                state @ State::Expired { expired_at, .. } => {
                    self.stage = Stage::Deleting { expired_at };
                    Step::Perform(Action::delete(&read, Reason::AsRead(state)))
                }
                state => self.end(ending(state, Reason::AsRead)),
            },
            (Stage::Reading, Some(Answer::Failed(StoreError::NotFound))) => self.end(Ending::Gone),
            (Stage::Deleting { expired_at }, Some(Answer::Done)) => {
                let expired_at = *expired_at;
                let delay = now.since(expired_at);
                self.end(Ending::Deleted { expired_at, delay })
            }
            (Stage::Reading | Stage::Deleting { .. }, Some(Answer::Failed(error))) => {
                let message = error.to_string();
                self.end(Ending::Retry { message })
            }
            (Stage::Reading | Stage::Deleting { .. }, _) => self.end(Ending::Retry {
                message: "the answer does not fit the question".to_owned(),
            }),
        }
    }

    fn end(&mut self, ending: Ending) -> Step {
        self.stage = Stage::Over(ending.clone());
        Step::Done(ending)
    }
}

/// How an attempt ends at a job that has not expired.
fn ending(state: State, wrap: fn(State) -> Reason) -> Ending {
    match state {
        State::NotExpired { expires_at: at, .. } => Ending::Requeued {
            at,
            reason: wrap(state),
        },
        State::NoFinishTime { .. } => Ending::Retry {
            message: state.to_string(),
        },
        _ => Ending::Kept(wrap(state)),
    }
}
