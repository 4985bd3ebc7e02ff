//! What became of a pass over pod directories: what went, what stays, and what of that upstream returns as an error.

use std::sync::Arc;

use kubegc_core::{Kept, RuntimeError};

use super::{Reason, Removal, Subject, Summary};
use crate::aggregate;

/// What became of a pass.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// The directories that went, in their order.
    pub removed: Vec<Arc<str>>,
    /// The directories that stay: those of the plan, then those of which something failed or no longer held.
    pub kept: Vec<Kept<Subject, Reason>>,
    /// What is odd about the facts, as the plan has it.
    pub findings: Vec<Kept<Subject, Reason>>,
    /// All that failed, in its order.
    pub failures: Vec<Failure>,
    /// What the pass amounts to.
    pub summary: Summary,
}

impl Outcome {
    /// The error that upstream's pass returns, if any: why nothing was planned, or the failures to remove anything but volumes (L13.5).
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

/// Something that was to go and did not.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// What is left of a volume: nothing else of its directory is removed.
    #[error("orphaned pod {directory:?}: cannot {removal}: {error}")]
    Volume {
        /// The directory.
        directory: Arc<str>,
        /// The removal.
        removal: Removal,
        /// How it failed.
        error: RuntimeError,
    },
    /// The directory could not be read after its volumes went: nothing else of it is removed.
    #[error("orphaned pod {directory:?}: cannot read its directory: {error}")]
    Unread {
        /// The directory.
        directory: Arc<str>,
        /// How it failed.
        error: RuntimeError,
    },
    /// After its volumes went, the directory has volumes again: these stay.
    #[error("orphaned pod {directory:?}: volumes subdir was found after it was removed")]
    VolumesFound {
        /// The directory.
        directory: Arc<str>,
    },
    /// The name of an entry leads out of the directory: it stays.
    #[error("orphaned pod {directory:?}: entry {entry:?} leads elsewhere")]
    LeadsAway {
        /// The directory.
        directory: Arc<str>,
        /// The name.
        entry: Arc<str>,
    },
    /// An entry: the others are removed all the same.
    #[error("orphaned pod {directory:?}: cannot {removal}: {error}")]
    Entry {
        /// The directory.
        directory: Arc<str>,
        /// The removal.
        removal: Removal,
        /// How it failed.
        error: RuntimeError,
    },
    /// The directory itself.
    #[error("orphaned pod {directory:?}: cannot {removal}: {error}")]
    Itself {
        /// The directory.
        directory: Arc<str>,
        /// The removal.
        removal: Removal,
        /// How it failed.
        error: RuntimeError,
    },
}

impl Failure {
    /// Whether upstream's pass returns it. Volumes that are found again it only logs, and what is left of volumes it counts and logs once.
    #[must_use]
    pub const fn is_returned(&self) -> bool {
        match self {
            Self::Volume { .. } | Self::VolumesFound { .. } => false,
            Self::Unread { .. } | Self::LeadsAway { .. } | Self::Entry { .. } | Self::Itself { .. } => true,
        }
    }
}
