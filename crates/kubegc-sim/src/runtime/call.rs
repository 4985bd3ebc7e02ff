//! Names and records of calls to a node, and of the harm that they do.

use std::{fmt, sync::Arc};

use kubegc_core::{RuntimeError, Timestamp};

/// The operation of a call: one for each method of [`Runtime`](kubegc_core::Runtime),
/// [`LogDirectory`](kubegc_core::LogDirectory) and [`PodSource`](kubegc_core::PodSource).
///
/// The operations of the runtime precede those of the disk and the source of pods.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    Containers,
    Sandboxes,
    Images,
    ImageFileSystem,
    ContainerStatus,
    ImageId,
    StopContainer,
    RemoveContainer,
    StopSandbox,
    RemoveSandbox,
    RemoveImage,
    PodEntries,
    ContainerLinks,
    RemovePodEntry,
    RemoveContainerLink,
    RemoveContainerLogs,
    Pods,
}

impl Operation {
    /// Whether the runtime serves it, rather than the disk or the source of pods.
    pub const fn is_of_runtime(self) -> bool {
        self as u8 <= Self::RemoveImage as u8
    }

    /// Whether it stops or removes something.
    pub const fn changes(self) -> bool {
        use Operation::*;
        matches!(
            self,
            StopContainer
                | RemoveContainer
                | StopSandbox
                | RemoveSandbox
                | RemoveImage
                | RemovePodEntry
                | RemoveContainerLink
                | RemoveContainerLogs
        )
    }
}

/// One call that the node received.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallRecord {
    pub at: Timestamp,
    pub operation: Operation,
    /// The id, reference, entry or path as it was passed; empty for listings.
    pub target: Arc<str>,
    /// Grace period in seconds of [`Operation::StopContainer`]; 0 otherwise.
    pub grace_seconds: u32,
    /// Handler of [`Operation::RemoveImage`]; empty otherwise.
    pub runtime_handler: Arc<str>,
    pub outcome: Result<(), RuntimeError>,
}

impl CallRecord {
    /// A call that is not performed yet.
    pub(super) fn new(operation: Operation, target: &str) -> Self {
        Self {
            at: Timestamp::EPOCH,
            operation,
            target: target.into(),
            grace_seconds: 0,
            runtime_handler: Arc::default(),
            outcome: Ok(()),
        }
    }

    /// Operation and target: enough for most tests.
    pub fn key(&self) -> (Operation, &str) {
        (self.operation, &self.target)
    }
}

impl fmt::Display for CallRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.at, self.operation)?;
        if !self.target.is_empty() {
            write!(f, " {}", self.target)?;
        }
        if self.operation == Operation::StopContainer {
            write!(f, " ({} s)", self.grace_seconds)?;
        }
        if !self.runtime_handler.is_empty() {
            write!(f, " ({})", self.runtime_handler)?;
        }
        match &self.outcome {
            Ok(()) => Ok(()),
            Err(error) => write!(f, ": {error}"),
        }
    }
}

#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Harm {
    /// A running container was stopped, directly or with its sandbox.
    RunningContainerStopped {
        container_id: Arc<str>,
    },
    /// A running container was removed, directly or with its sandbox.
    RunningContainerRemoved {
        container_id: Arc<str>,
    },
    /// A container in an unknown state was removed without being stopped first.
    UnknownContainerRemoved {
        container_id: Arc<str>,
    },
    ReadySandboxStopped,
    ReadySandboxRemoved,
    PinnedImageRemoved,
    /// An image was removed that a container uses.
    UsedImageRemoved {
        container_id: Arc<str>,
    },
    /// An image was removed that a container mounts as a volume.
    MountedImageRemoved {
        container_id: Arc<str>,
    },
    /// The logs of a pod were removed that is neither evicted nor deleted.
    LivingPodLogsRemoved,
    RunningContainerLogsRemoved {
        container_id: Arc<str>,
    },
    /// A link was removed whose log exists, or whose container is running.
    LiveLinkRemoved,
}

/// A harmful call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    pub at: Timestamp,
    pub operation: Operation,
    pub target: Arc<str>,
    pub harm: Harm,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?} {}: {:?}",
            self.at, self.operation, self.target, self.harm
        )
    }
}
