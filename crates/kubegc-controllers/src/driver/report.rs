//! Reports of a running driver, and its summary.

use std::{collections::BTreeMap, time::Duration};

use kubegc_core::{
    StoreError, Timestamp,
    record::{ObjectId, Resource},
};

use crate::{End, Missing, Reason, Request, TaskId};

/// An event in a running driver.
#[non_exhaustive]
#[derive(Clone, Debug, derive_more::Display)]
pub enum Report {
    Performed(Box<Performed>),
    #[display("{controller}: {object}: {end}")]
    Ended {
        task: TaskId,
        controller: &'static str,
        object: ObjectId,
        took: Duration,
        end: End,
    },
    /// Discovery failed and is retried.
    #[display("discovery failed: {_0}")]
    DiscoveryFailed(StoreError),
    /// A list or watch failed and is retried.
    #[display("list or watch of {} failed: {error}", resource.plural())]
    WatchFailed {
        resource: Resource,
        error: StoreError,
    },
    /// Nothing is due before this time, unless something changes.
    #[display("nothing to do until {}", until.map_or("something changes".to_owned(), |at| at.to_string()))]
    Waiting {
        /// The time; `None` if nothing is scheduled.
        until: Option<Timestamp>,
    },
}

/// A request that was performed. Its display form is such as
/// `ttl-after-finished-controller: delete job.batch/report -n shop: it finished 100s ago, ...`, and the error
/// if there is one.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{controller}: {request}: {reason}{}", result.as_ref().map_or_else(|error| format!(": {error}"), |()| String::new()))]
pub struct Performed {
    pub task: TaskId,
    pub controller: &'static str,
    /// When it was sent.
    pub at: Timestamp,
    pub request: Request,
    pub object: ObjectId,
    pub reason: Reason,
    /// The result. A request whose outcome is [`StoreError::Unknown`] may have been executed.
    pub result: Result<(), StoreError>,
}

/// The summary of a run of a driver.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The ends of the tasks of each controller, by its name.
    pub tasks: BTreeMap<&'static str, TaskCounts>,
    /// The objects about which a controller could not decide at the end, with the missing fact.
    pub unknown: Vec<(&'static str, ObjectId, Missing)>,
    /// When something is due next; `None` if only a change can make something due.
    pub next_at: Option<Timestamp>,
}

impl Summary {
    pub fn of(&self, controller: &str) -> TaskCounts {
        self.tasks.get(controller).copied().unwrap_or_default()
    }

    pub(super) fn count(&mut self, controller: &'static str, end: &End) {
        let counts = self.tasks.entry(controller).or_default();
        let count = match end {
            End::Done | End::Kept(_) | End::Unknown(_) | End::Cloud(_) => &mut counts.done,
            End::Stale(_) => &mut counts.stale,
            End::RequeueAfter { .. } => &mut counts.requeued,
            End::Failed { .. } => &mut counts.failed,
        };
        *count = count.saturating_add(1);
    }
}

/// Numbers of tasks by their end.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskCounts {
    /// Done, or live reads showed that there is nothing to do.
    pub done: u64,
    pub stale: u64,
    pub requeued: u64,
    pub failed: u64,
}
