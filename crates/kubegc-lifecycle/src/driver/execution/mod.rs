//! Carries one task out, call by call: reads what it rests on, makes the calls, and says in the end what came of it.

mod act;
mod hands;
mod history;
mod namespace;
mod volume;

use std::fmt;

use kubegc_core::{StoreError, Timestamp};

use self::{act::Acting, history::Pruning, namespace::Visiting, volume::Reclaiming};
use crate::{
    controller::{Ended, Mechanism, Reason, Task, TaskId, Work},
    namespace::Action,
    object::{Call, Object},
};

pub use hands::Hands;

/// One task being carried out.
///
/// # Guarantees
/// One call at a time. No call is made before all that the task rests on was read and found as it was. What is changed, or handed to somebody outside,
/// is read right before, and left alone where it is another object or not as expected. A deletion carries its preconditions. After a call has failed none
/// follows that rests on it.
///
/// A step that is dropped half way leaves open whether its call was made: drop the execution with it, and look again.
#[derive(Clone, Debug)]
pub struct Execution {
    id: TaskId,
    mechanism: Mechanism,
    state: State,
    ended: Option<Ended>,
    kept: Option<Reason>,
}

#[derive(Clone, Debug)]
enum State {
    Acting(Box<Acting>),
    Pruning(Box<Pruning>),
    Reclaiming(Box<Reclaiming>),
    Visiting(Box<Visiting>),
}

/// What one kind of work comes to when it goes on.
enum Progress {
    /// A call was made.
    Made(Box<Deed>),
    /// There is nothing more to be done.
    Over { ended: Ended, kept: Option<Reason> },
}

/// A call that was made, for whichever task.
struct Deed {
    request: Request,
    object: Object,
    reason: Reason,
    result: Result<(), StoreError>,
}

impl Progress {
    fn made(call: Call, reason: &Reason, result: Result<(), StoreError>) -> Self {
        Self::Made(Box::new(Deed {
            object: object_of(&call).clone(),
            request: Request::Call(call),
            reason: reason.clone(),
            result,
        }))
    }

    const fn over(ended: Ended) -> Self {
        Self::Over { ended, kept: None }
    }
}

impl Execution {
    /// Prepares a task. The visit of a namespace dates its conditions by `now`.
    #[must_use]
    pub fn new(task: Task, now: Timestamp) -> Self {
        let Task { id, mechanism, work } = task;
        let state = match work {
            Work::Act(planned) => State::Acting(Box::new(Acting::new(mechanism, planned))),
            Work::History(pass) => State::Pruning(Box::new(Pruning::new(*pass))),
            Work::Volume(pass) => State::Reclaiming(Box::new(Reclaiming::new(*pass))),
            Work::Namespace {
                settings,
                name,
                failures,
            } => State::Visiting(Box::new(Visiting::new(settings, name, failures, now))),
        };
        Self {
            id,
            mechanism,
            state,
            ended: None,
            kept: None,
        }
    }

    /// Goes on to the next call and makes it, after the reads that come before it; `None` when the task has ended.
    pub async fn step(&mut self, hands: &Hands<'_>, now: Timestamp) -> Option<Made> {
        if self.ended.is_some() {
            return None;
        }
        let progress = match &mut self.state {
            State::Acting(acting) => acting.step(hands).await,
            State::Pruning(pruning) => pruning.step(hands).await,
            State::Reclaiming(reclaiming) => reclaiming.step(hands).await,
            State::Visiting(visiting) => visiting.step(hands).await,
        };
        match progress {
            Progress::Made(deed) => Some(Made {
                task: self.id,
                mechanism: self.mechanism,
                at: now,
                request: deed.request,
                object: deed.object,
                reason: deed.reason,
                result: deed.result,
            }),
            Progress::Over { ended, kept } => {
                self.ended = Some(ended);
                self.kept = kept;
                None
            }
        }
    }

    /// How the task ended; `None` while [`step`](Self::step) has more to do.
    #[must_use]
    pub const fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Why the object stays after all, where reads right before the calls said so, or somebody who was asked.
    #[must_use]
    pub const fn kept(&self) -> Option<&Reason> {
        self.kept.as_ref()
    }

    /// The task.
    #[must_use]
    pub const fn task(&self) -> TaskId {
        self.id
    }

    /// Who wants it.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }
}

/// One call that was made.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// For which task.
    pub task: TaskId,
    /// For whom.
    pub mechanism: Mechanism,
    /// The time that the caller gave to the step.
    pub at: Timestamp,
    /// The call.
    pub request: Request,
    /// The object that the call is about; of a visit the namespace, whatever it changes.
    pub object: Object,
    /// Why.
    pub reason: Reason,
    /// How it went. [`StoreError::Unknown`] may have been carried out.
    pub result: Result<(), StoreError>,
}

impl fmt::Display for Made {
    /// Such as `jobs: delete Job shop/report: ...`, with what went wrong behind it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.mechanism)?;
        match &self.request {
            Request::Call(Call::Delete { object, .. }) => write!(f, "delete {object}")?,
            Request::Call(Call::Change {
                object,
                subresource: "",
                ..
            }) => write!(f, "change {object}")?,
            Request::Call(Call::Change {
                object, subresource, ..
            }) => write!(f, "change the {subresource} of {object}")?,
            Request::Call(Call::Event {
                object,
                reason,
                message,
                ..
            }) => write!(f, "tell of {object}: {reason}: {message}")?,
            Request::Call(Call::Outside {
                object, operation, ..
            }) => write!(f, "ask for {operation:?} of {object}")?,
            Request::Namespace(action) => action.fmt(f)?,
        }
        write!(f, ": {}", self.reason)?;
        match &self.result {
            Ok(()) => Ok(()),
            Err(error) => write!(f, ": {error}"),
        }
    }
}

/// What was asked for.
#[expect(clippy::exhaustive_enums, reason = "readers must know each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// A call.
    Call(Call),
    /// A change of a namespace or of its content.
    Namespace(Action),
}

const fn object_of(call: &Call) -> &Object {
    match call {
        Call::Delete { object, .. }
        | Call::Change { object, .. }
        | Call::Event { object, .. }
        | Call::Outside { object, .. } => object,
    }
}

/// The server's own words where there are any: they are what upstream passes on.
fn own_words(error: &StoreError) -> String {
    match error {
        StoreError::Conflict { message }
        | StoreError::Invalid { message }
        | StoreError::Refused { message, .. }
        | StoreError::Unknown { message } => message.clone(),
        other => other.to_string(),
    }
}
