//! Says why a job is deleted or stays.

use std::{fmt, sync::Arc};

use kubegc_core::{Timestamp, Uid};

/// How a job stands.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Its deletion was asked for already.
    Deleting,
    /// It has no time to live.
    NoTtl,
    /// It has not finished: no condition `Complete` or `Failed` is true.
    NotFinished,
    /// A field that decides is not known.
    NotKnown {
        /// The field.
        field: &'static str,
    },
    /// It has finished, and its condition does not say when. The text is upstream's error, on which it tries again and again.
    NoFinishTime {
        /// Namespace and name of the job.
        job: Arc<str>,
    },
    /// Its time is not over.
    NotExpired {
        /// When it finished. With skewed clocks this may lie ahead.
        finished_at: Timestamp,
        /// From when on it is deleted.
        expires_at: Timestamp,
    },
    /// Its time ends beyond what a [`Timestamp`] can tell.
    NeverExpires {
        /// When it finished.
        finished_at: Timestamp,
    },
    /// Its time is over.
    Expired {
        /// When it finished.
        finished_at: Timestamp,
        /// Since when it is to be deleted.
        expired_at: Timestamp,
    },
}

impl State {
    /// When the job finished, where that is known.
    pub(super) const fn finished_at(&self) -> Option<Timestamp> {
        match self {
            Self::NotExpired { finished_at, .. }
            | Self::NeverExpires { finished_at }
            | Self::Expired { finished_at, .. } => Some(*finished_at),
            _ => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => f.write_str("is being deleted"),
            Self::NoTtl => f.write_str("has no time to live"),
            Self::NotFinished => f.write_str("has not finished"),
            Self::NotKnown { field } => write!(f, "its {field} is not known"),
            Self::NoFinishTime { job } => {
                write!(f, "unable to find the time when the Job {job} finished")
            }
            Self::NotExpired {
                finished_at,
                expires_at,
            } => write!(f, "finished at {finished_at} and stays until {expires_at}"),
            Self::NeverExpires { finished_at } => {
                write!(f, "finished at {finished_at} and stays for centuries")
            }
            Self::Expired {
                finished_at,
                expired_at,
            } => write!(f, "finished at {finished_at} and expired at {expired_at}"),
        }
    }
}

/// Why a job is deleted or stays, or what is odd about it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The controller does not run.
    Disabled,
    /// Two listed jobs have this name and are not alike.
    ListedTwice,
    /// So it was listed.
    AsListed(State),
    /// It was listed as expired, and read like this.
    AsRead(State),
    /// It was listed as expired and must be read before it is deleted.
    NotRead {
        /// Since when it is to be deleted, by what was listed.
        expired_at: Timestamp,
    },
    /// It was listed as expired, and could not be read.
    ReadFailed {
        /// The error.
        message: Arc<str>,
    },
    /// A read finds that it is gone.
    Gone,
    /// The object that has its name now is acted on already.
    PlannedAlready,
    /// Finding: it finished in the future. Clocks differ; it is deleted that much later.
    FinishedAhead {
        /// When it finished.
        finished_at: Timestamp,
    },
    /// Finding: another object has its name now, and was judged in its place.
    Replaced {
        /// The other object.
        uid: Uid,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("finished jobs are not deleted"),
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::AsListed(state) => state.fmt(f),
            Self::AsRead(state) => write!(f, "when read again, {state}"),
            Self::NotRead { expired_at } => {
                write!(f, "expired at {expired_at} and must be read again first")
            }
            Self::ReadFailed { message } => write!(f, "could not be read again: {message}"),
            Self::Gone => f.write_str("is gone"),
            Self::PlannedAlready => f.write_str("the object of its name is acted on already"),
            Self::FinishedAhead { finished_at } => {
                write!(f, "finished in the future, at {finished_at}: clocks differ")
            }
            Self::Replaced { uid } => write!(f, "its name is now that of another job (uid {uid})"),
        }
    }
}
