//! Why a pod directory stays, why a pass fails as a whole, and what a pass amounts to.

use std::{fmt, sync::Arc};

use crate::Unlisted;

/// What a plan of pod directories speaks of.
#[expect(clippy::exhaustive_enums, reason = "a directory, or the node as a whole")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A directory in `<root>/pods`, by its name.
    Directory(Arc<str>),
    /// The node as a whole.
    Node,
}

/// Why a directory stays, or what is odd about the facts.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its name leads out of the directory, so it is no uid.
    NotAnEntry,
    /// A source of pods knows its pod.
    PodKnown,
    /// The runtime still runs its pod.
    PodRuns,
    /// The pass decides nothing: not all is known of pods and of what runs.
    PassFailed,
    /// It was told of more than once, differently.
    Contradiction,
    /// A volume of its pod is or may be mounted.
    Mounted,
    /// Whether a volume of its pod is mounted is not known.
    MountsUnknown(Box<str>),
    /// Its volumes could not be read.
    VolumesUnread(Box<str>),
    /// Its subpaths could not be read.
    SubpathsUnread(Box<str>),
    /// What stands in it could not be read.
    EntriesUnread(Box<str>),
    /// Volumes are left, and this release removes none.
    VolumesLeft {
        /// How many.
        volumes: usize,
    },
    /// A `volume-subpaths` directory is left, and this release removes none.
    SubpathsLeft,
    /// A path told of it leads elsewhere.
    LeadsAway(Arc<str>),
    /// Removing it failed: see the failures of the pass.
    RemovalFailed {
        /// How many failures.
        failures: usize,
    },

    /// It was told of more than once, alike; counted once.
    Repeated,
    /// Nothing is planned.
    Failed(Error),
}

impl Reason {
    /// Whether the directory is known to be orphaned and stays nonetheless. Upstream counts such a pod as an error.
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
            | Self::LeadsAway(_)
            | Self::RemovalFailed { .. } => true,
        }
    }

    /// Whether upstream records a volume error for it: these are logged, the first of a pass with the number of all, and not returned (L13.5).
    #[must_use]
    pub const fn is_volume_error(&self) -> bool {
        matches!(
            self,
            Self::VolumesUnread(_) | Self::SubpathsUnread(_) | Self::VolumesLeft { .. } | Self::SubpathsLeft
        )
    }
}

/// Why a pass plans nothing.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Error {
    /// The pod directories are not known.
    #[error("the pod directories are not known: {why}")]
    Directories {
        /// Why not.
        why: Box<str>,
    },
    /// Not all sources of pods have spoken.
    #[error("not all sources of pods are ready")]
    SourcesNotReady,
    /// What runs is not known.
    #[error("what the runtime runs is not known: {why}")]
    Running {
        /// Why not.
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

/// What a plan or a pass amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The kubelet's gauges; `None` where the pass fails, which leaves them as they are.
    pub gauges: Option<Gauges>,
    /// How many volume errors there are. Upstream logs the first of them, with this number.
    pub volume_errors: u64,
    /// Why nothing is planned, if so.
    pub error: Option<Error>,
}

/// The kubelet's gauges of the last pass. A plan has them as they are if every removal succeeds.
///
/// # Upstream
/// `pkg/kubelet/metrics/metrics.go`, since about 1.27 (kubernetes #115972). Here they are told for older releases too.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gauges {
    /// `kubelet_orphan_pod_cleaned_volumes`: how many orphaned directories there are, those that stay among them.
    pub orphan_pod_cleaned_volumes: u64,
    /// `kubelet_orphan_pod_cleaned_volumes_errors`: how many of them stay.
    pub orphan_pod_cleaned_volumes_errors: u64,
}

pub(super) fn text(why: &impl ToString) -> Box<str> {
    why.to_string().into()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnEntry => f.write_str("its name leads out of the directory"),
            Self::PodKnown => f.write_str("its pod is known"),
            Self::PodRuns => f.write_str("the runtime still runs its pod"),
            Self::PassFailed => f.write_str("not all is known of pods and of what runs"),
            Self::Contradiction => f.write_str("listed more than once, differently"),
            Self::Mounted => f.write_str("a volume is or may be mounted"),
            Self::MountsUnknown(why) => write!(f, "whether a volume is mounted is not known: {why}"),
            Self::VolumesUnread(why) => write!(f, "its volumes are unknown: {why}"),
            Self::SubpathsUnread(why) => write!(f, "its subpaths are unknown: {why}"),
            Self::EntriesUnread(why) => write!(f, "what stands in it is unknown: {why}"),
            Self::VolumesLeft { volumes } => write!(f, "{volumes} volumes are left on disk"),
            Self::SubpathsLeft => f.write_str("subpaths of volumes are left on disk"),
            Self::LeadsAway(path) => write!(f, "{path:?} leads elsewhere"),
            Self::RemovalFailed { failures: 1 } => f.write_str("could not be removed: 1 failure"),
            Self::RemovalFailed { failures } => write!(f, "could not be removed: {failures} failures"),
            Self::Repeated => f.write_str("listed more than once, alike"),
            Self::Failed(error) => write!(f, "nothing is planned: {error}"),
        }
    }
}
