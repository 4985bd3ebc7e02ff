//! What goes into a collector and what comes out of it.

use std::{fmt, sync::Arc};

use kubegc_core::{Catalog, ObjectMeta, Timestamp};

use crate::{
    call::{Answer, Ask},
    effect::InvalidNamespace,
};

/// Names one call, so that answers may come in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(super) u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}", self.0)
    }
}

/// Names one monitored resource. Never given to another resource by the same collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MonitorId(pub(super) u32);

/// What a watch delivers. The metadata is shared, not copied.
#[expect(clippy::exhaustive_enums, reason = "the events of a kube watcher")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchEvent {
    /// A list begins, the first one or one anew.
    Init,
    /// An object of that list.
    InitApply(Arc<ObjectMeta>),
    /// The list is over: what it did not show is gone.
    InitDone,
    /// An object is new or changed.
    Apply(Arc<ObjectMeta>),
    /// An object is gone; its last state.
    Delete(Arc<ObjectMeta>),
}

/// What a collector is told.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Input {
    /// The kinds that are served now.
    Catalog {
        /// All that discovery could tell.
        catalog: Arc<Catalog>,
        /// Group versions whose discovery failed, as apiVersion texts: what they serve is not known.
        failed: Vec<String>,
    },
    /// An event of a monitored resource.
    Watch {
        /// The monitor.
        monitor: MonitorId,
        /// The event.
        event: WatchEvent,
    },
    /// The one answer to a call.
    Answer {
        /// The call.
        call: CallId,
        /// The answer.
        answer: Answer,
    },
    /// Only time has passed.
    Tick,
}

/// What a collector wants.
#[expect(
    clippy::exhaustive_enums,
    reason = "drivers must handle each; a new one must break them"
)]
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Ask which kinds are served, and hand in [`Input::Catalog`].
    Discover,
    /// List and watch this resource.
    Watch(MonitorId),
    /// Stop watching this resource.
    Unwatch(MonitorId),
    /// Perform this request, and hand in exactly one [`Input::Answer`].
    Call(Call),
    /// Publish this warning. It needs no answer.
    Event(Box<InvalidNamespace>),
    /// There is nothing to do now; polling again gives the same.
    Wait(Wait),
}

/// One request to perform.
#[expect(clippy::exhaustive_structs, reason = "executors take every field")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name, for the answer.
    pub id: CallId,
    /// The request.
    pub ask: Ask,
}

/// Until when there is nothing to do, and why.
#[expect(clippy::exhaustive_structs, reason = "two parts")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// When a [`Input::Tick`] will change something; `None` where only another input can.
    pub until: Option<Timestamp>,
    /// What is being waited for.
    pub why: WaitReason,
}

/// What a collector waits for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// Monitors have yet to deliver their lists.
    Sync,
    /// Calls have yet to be answered.
    Answers,
    /// Items wait for their next try.
    Retries,
    /// For something to happen.
    Events,
}

/// Why the workers do not run: some monitored resources have not delivered their initial list, or no kinds are known yet.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotRunning {
    /// The workers ran before and were paused because new resources are monitored, which releases up to 1.31 do (G-20).
    pub paused: bool,
    /// When the workers start without the missing lists; `None` in releases up to 1.31, which wait for all of them (G-16).
    pub starts_at: Option<Timestamp>,
}

/// An input that cannot be meant. Nothing changed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Misuse {
    /// The call was never made, or is answered already.
    #[error("{0} was never made or is answered already")]
    UnknownCall(CallId),
    /// The resource is not monitored.
    #[error("monitor {} does not exist or was stopped", .0.0)]
    UnknownMonitor(MonitorId),
    /// Time went back.
    #[error("time went back to before {last}")]
    TimeWentBack {
        /// The latest time seen.
        last: Timestamp,
    },
}
