//! The outcome of a pass over pod directories: removed and kept directories, failures, and upstream's error.

use std::sync::Arc;

use kubegc_core::{Kept, RuntimeError};

use super::{Reason, Removal, Subject, Summary};
use crate::aggregate;

/// The outcome of a pass.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// The removed directories, in order.
    pub removed: Vec<Arc<str>>,
    /// The kept directories: those of the plan, then those with a failure or a precondition that no longer
    /// held.
    pub kept: Vec<Kept<Subject, Reason>>,
    /// The findings of the plan.
    pub findings: Vec<Kept<Subject, Reason>>,
    /// The failures, in order.
    pub failures: Vec<Failure>,
    /// The summary of the pass.
    pub summary: Summary,
}

impl Outcome {
    /// The error that upstream returns, if any: the reason why nothing was planned, or the failures of
    /// removals other than volumes ([L13.5](crate::rules#l13-5)).
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match &self.summary.error {
            Some(error) => Some(error.to_string()),
            None => aggregate(self.failures.iter().filter_map(|failure| {
                let is_returned = failure.is_returned();
                is_returned.then(|| failure.to_string())
            })),
        }
    }
}

/// A removal that failed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// The remains of a volume: nothing else of its directory is removed.
    #[error("orphaned pod {directory:?}: cannot {removal}: {error}")]
    Volume {
        /// The directory.
        directory: Arc<str>,
        /// The removal.
        removal: Removal,
        /// The error.
        error: RuntimeError,
    },
    /// The directory could not be read after its volumes were removed: nothing else of it is removed.
    #[error("orphaned pod {directory:?}: cannot read its directory: {error}")]
    Unread {
        /// The directory.
        directory: Arc<str>,
        /// The error.
        error: RuntimeError,
    },
    /// After its volumes were removed, the directory has volumes again, which are kept.
    #[error("orphaned pod {directory:?}: volumes subdir was found after it was removed")]
    VolumesFound {
        /// The directory.
        directory: Arc<str>,
    },
    /// The name of an entry leads out of the directory: it is kept.
    #[error("orphaned pod {directory:?}: entry {entry:?} leads out of the directory")]
    OutsideDirectory {
        /// The directory.
        directory: Arc<str>,
        /// The name.
        entry: Arc<str>,
    },
    /// An entry: the others are still removed.
    #[error("orphaned pod {directory:?}: cannot {removal}: {error}")]
    Entry {
        /// The directory.
        directory: Arc<str>,
        /// The removal.
        removal: Removal,
        /// The error.
        error: RuntimeError,
    },
    /// The directory itself.
    #[error("orphaned pod {directory:?}: cannot {removal}: {error}")]
    Itself {
        /// The directory.
        directory: Arc<str>,
        /// The removal.
        removal: Removal,
        /// The error.
        error: RuntimeError,
    },
}

impl Failure {
    /// Returns whether upstream returns it. Volumes that are found again are only logged, and remains of
    /// volumes are counted and logged once.
    #[must_use]
    pub const fn is_returned(&self) -> bool {
        match self {
            Self::Volume { .. } | Self::VolumesFound { .. } => false,
            Self::Unread { .. }
            | Self::OutsideDirectory { .. }
            | Self::Entry { .. }
            | Self::Itself { .. } => true,
        }
    }
}
