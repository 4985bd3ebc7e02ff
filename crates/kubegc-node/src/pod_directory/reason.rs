//! Reasons for kept pod directories, errors and the summary of a pass.

use std::{fmt, sync::Arc};

use crate::Unlisted;

/// The subject of an entry in a pod directory plan.
#[expect(clippy::exhaustive_enums, reason = "a directory, or the node as a whole")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A directory in `<root>/pods`, by its name.
    Directory(Arc<str>),
    /// The node as a whole.
    Node,
}

/// The reason why a directory is kept, or a finding.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its name is not a plain entry name, so it is not a uid.
    NotAnEntry,
    /// A source of pods knows its pod.
    PodKnown,
    /// The runtime still runs its pod.
    PodRuns,
    /// The pass plans nothing: pods or running pods are unknown.
    PassFailed,
    /// It was listed more than once, with different contents.
    Contradiction,
    /// A volume of its pod is or may be mounted.
    Mounted,
    /// It is unknown whether a volume of its pod is mounted.
    MountsUnknown(Box<str>),
    /// Its volumes could not be read.
    VolumesUnread(Box<str>),
    /// Its subpaths could not be read.
    SubpathsUnread(Box<str>),
    /// Its entries could not be read.
    EntriesUnread(Box<str>),
    /// Volumes remain, and this release removes none.
    VolumesLeft {
        /// Number of volumes.
        volumes: usize,
    },
    /// A `volume-subpaths` directory remains, and this release removes none.
    SubpathsLeft,
    /// One of its paths leads out of it.
    OutsideDirectory(Arc<str>),
    /// The removal failed: see the failures of the pass.
    RemovalFailed {
        /// Number of failures.
        failures: usize,
    },

    /// It was listed more than once, with equal contents; counted once.
    Repeated,
    /// Nothing is planned.
    Failed(Error),
}

impl Reason {
    /// Returns whether the directory is orphaned and kept. Upstream counts such a pod as an error.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        match self {
            Self::NotAnEntry
            | Self::PodKnown
            | Self::PodRuns
            | Self::PassFailed
            | Self::Repeated
            | Self::Failed(_) => false,
            Self::Contradiction
            | Self::Mounted
            | Self::MountsUnknown(_)
            | Self::VolumesUnread(_)
            | Self::SubpathsUnread(_)
            | Self::EntriesUnread(_)
            | Self::VolumesLeft { .. }
            | Self::SubpathsLeft
            | Self::OutsideDirectory(_)
            | Self::RemovalFailed { .. } => true,
        }
    }

    /// Returns whether upstream records a volume error for it: these are logged, the first of a pass with the
    /// total number, and not returned ([L13.5](crate::rules#l13-5)).
    #[must_use]
    pub const fn is_volume_error(&self) -> bool {
        matches!(
            self,
            Self::VolumesUnread(_) | Self::SubpathsUnread(_) | Self::VolumesLeft { .. } | Self::SubpathsLeft
        )
    }
}

/// The reason why a pass plans nothing.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Error {
    /// The pod directories are unknown.
    #[error("the pod directories are not known: {why}")]
    Directories {
        /// The error.
        why: Box<str>,
    },
    /// Not all sources of pods are ready.
    #[error("not all sources of pods are ready")]
    SourcesNotReady,
    /// The running pods are unknown.
    #[error("what the runtime runs is not known: {why}")]
    Running {
        /// The error.
        why: Box<str>,
    },
}

impl Error {
    pub(super) fn directories(why: &Unlisted) -> Self {
        Self::Directories { why: text(why) }
    }

    pub(super) fn running(why: &Unlisted) -> Self {
        Self::Running { why: text(why) }
    }
}

/// The summary of a plan or a pass.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The kubelet's gauges; `None` if the pass fails, which leaves them unchanged.
    pub gauges: Option<Gauges>,
    /// Number of volume errors. Upstream logs the first of them, with this number.
    pub volume_errors: u64,
    /// The reason why nothing is planned, if any.
    pub error: Option<Error>,
}

/// The kubelet's gauges of the last pass. In a plan their values if every removal succeeds.
///
/// # Upstream
/// [`pkg/kubelet/metrics/metrics.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/metrics/metrics.go),
/// since about 1.27 (kubernetes #115972). Here older releases have them too.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gauges {
    /// `kubelet_orphan_pod_cleaned_volumes`: the number of orphaned directories, kept ones included.
    pub orphan_pod_cleaned_volumes: u64,
    /// `kubelet_orphan_pod_cleaned_volumes_errors`: the number of kept ones.
    pub orphan_pod_cleaned_volumes_errors: u64,
}

pub(super) fn text(why: &impl ToString) -> Box<str> {
    why.to_string().into()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnEntry => f.write_str("its name is not a plain entry name"),
            Self::PodKnown => f.write_str("its pod is known"),
            Self::PodRuns => f.write_str("the runtime still runs its pod"),
            Self::PassFailed => f.write_str("pods or running pods are unknown"),
            Self::Contradiction => f.write_str("listed more than once with different contents"),
            Self::Mounted => f.write_str("a volume is or may be mounted"),
            Self::MountsUnknown(why) => write!(f, "it is unknown whether a volume is mounted: {why}"),
            Self::VolumesUnread(why) => write!(f, "its volumes are unknown: {why}"),
            Self::SubpathsUnread(why) => write!(f, "its subpaths are unknown: {why}"),
            Self::EntriesUnread(why) => write!(f, "its entries are unknown: {why}"),
            Self::VolumesLeft { volumes } => write!(f, "{volumes} volumes are left on disk"),
            Self::SubpathsLeft => f.write_str("subpaths of volumes are left on disk"),
            Self::OutsideDirectory(path) => write!(f, "{path:?} leads out of the directory"),
            Self::RemovalFailed { failures: 1 } => f.write_str("could not be removed: 1 failure"),
            Self::RemovalFailed { failures } => write!(f, "could not be removed: {failures} failures"),
            Self::Repeated => f.write_str("listed more than once with equal contents"),
            Self::Failed(error) => write!(f, "nothing is planned: {error}"),
        }
    }
}
