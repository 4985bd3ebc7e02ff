//! Fixes what a driver tells as it goes on, and what it amounts to in the end.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::{StoreError, Timestamp};

use super::{DocumentError, Made};
use crate::{
    controller::{Ended, Mechanism, Reason, TaskId},
    object::{Object, Resource},
};

/// What a driver tells as it goes on.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Report {
    /// A call was made.
    Made(Box<Made>),
    /// A task has ended.
    Ended {
        /// Which one.
        task: TaskId,
        /// Whose.
        mechanism: Mechanism,
        /// How.
        ended: Ended,
        /// Why the object stays after all, where that turned out on the way.
        kept: Option<Reason>,
    },
    /// What is served could not be found out; it is tried again.
    DiscoveryFailed(StoreError),
    /// A resource could not be listed or watched; it is tried again.
    WatchFailed {
        /// The resource.
        resource: Resource,
        /// Why.
        error: StoreError,
    },
    /// An object has changed and could not be read; it is tried again. Until then nothing but its metadata counts as known.
    ReadFailed {
        /// The resource.
        resource: Resource,
        /// Namespace; empty for cluster-scoped objects.
        namespace: Arc<str>,
        /// Name.
        name: Arc<str>,
        /// Why.
        error: StoreError,
    },
    /// An object does not hold what it should. Nothing but its metadata counts as known until it changes.
    Unreadable {
        /// The resource.
        resource: Resource,
        /// Namespace; empty for cluster-scoped objects.
        namespace: Arc<str>,
        /// Name.
        name: Arc<str>,
        /// What is wrong with it.
        error: DocumentError,
    },
    /// There is nothing to do until a time, or until something changes.
    Waiting {
        /// The time.
        until: Option<Timestamp>,
    },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made(made) => made.fmt(f),
            Self::Ended {
                mechanism,
                ended,
                kept,
                ..
            } => {
                write!(f, "{mechanism}: ")?;
                match ended {
                    Ended::Done => f.write_str("done")?,
                    Ended::Stale => f.write_str("something has changed, so it is looked at again")?,
                    Ended::Again(after) => write!(f, "looked at again after {after:?}")?,
                    Ended::Failed(error) => write!(f, "failed: {error}")?,
                }
                kept.iter().try_for_each(|reason| write!(f, ": {reason}"))
            }
            Self::DiscoveryFailed(error) => write!(f, "what is served is not known: {error}"),
            Self::WatchFailed { resource, error } => {
                write!(f, "the {} could not be watched: {error}", resource.plural())
            }
            Self::ReadFailed {
                resource,
                namespace,
                name,
                error,
            } => write!(
                f,
                "{} {namespace}/{name} could not be read: {error}",
                resource.kind()
            ),
            Self::Unreadable {
                resource,
                namespace,
                name,
                error,
            } => write!(
                f,
                "{} {namespace}/{name} is not readable: {error}",
                resource.kind()
            ),
            Self::Waiting { until: Some(until) } => write!(f, "nothing to do until {until}"),
            Self::Waiting { until: None } => f.write_str("nothing to do until something changes"),
        }
    }
}

/// What a run amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How the tasks of each mechanism ended, where it had any.
    pub tasks: BTreeMap<Mechanism, Tally>,
    /// The objects about which a mechanism could not decide in the end, because something was not read or listed.
    pub undecided: Vec<(Mechanism, Object, Reason)>,
    /// When something is due next; `None` where only a change can make something due.
    pub next_at: Option<Timestamp>,
}

impl Summary {
    /// How the tasks of a mechanism ended.
    #[must_use]
    pub fn of(&self, mechanism: Mechanism) -> Tally {
        self.tasks.get(&mechanism).copied().unwrap_or_default()
    }

    pub(super) fn count(&mut self, mechanism: Mechanism, ended: &Ended) {
        let tally = self.tasks.entry(mechanism).or_default();
        let count = match ended {
            Ended::Done => &mut tally.done,
            Ended::Stale => &mut tally.stale,
            Ended::Again(_) => &mut tally.again,
            Ended::Failed(_) => &mut tally.failed,
        };
        *count = count.saturating_add(1);
    }
}

/// How many tasks ended how.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// All of it was done, or there turned out to be nothing to do.
    pub done: u64,
    /// Something had changed.
    pub stale: u64,
    /// Something has to wait.
    pub again: u64,
    /// A call failed.
    pub failed: u64,
}
