//! Names and records of calls to a node.

use std::{fmt, sync::Arc};

use kubegc_core::{RuntimeError, Timestamp};

/// The operation of a call: one for each method of the three traits.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// `Runtime::containers`
    Containers,
    /// `Runtime::sandboxes`
    Sandboxes,
    /// `Runtime::images`
    Images,
    /// `Runtime::image_file_system`
    ImageFileSystem,
    /// `Runtime::container_status`
    ContainerStatus,
    /// `Runtime::image_id`
    ImageId,
    /// `Runtime::stop_container`
    StopContainer,
    /// `Runtime::remove_container`
    RemoveContainer,
    /// `Runtime::stop_sandbox`
    StopSandbox,
    /// `Runtime::remove_sandbox`
    RemoveSandbox,
    /// `Runtime::remove_image`
    RemoveImage,
    /// `LogDirectory::pod_entries`
    PodEntries,
    /// `LogDirectory::container_links`
    ContainerLinks,
    /// `LogDirectory::remove_pod_entry`
    RemovePodEntry,
    /// `LogDirectory::remove_container_link`
    RemoveContainerLink,
    /// `LogDirectory::remove_container_logs`
    RemoveContainerLogs,
    /// `PodSource::pods`
    Pods,
}

impl Operation {
    /// Whether the runtime serves it, rather than the disk or the source of pods.
    #[must_use]
    pub const fn is_of_runtime(self) -> bool {
        !matches!(
            self,
            Self::PodEntries
                | Self::ContainerLinks
                | Self::RemovePodEntry
                | Self::RemoveContainerLink
                | Self::RemoveContainerLogs
                | Self::Pods
        )
    }

    /// Whether it stops or removes something.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(
            self,
            Self::StopContainer
                | Self::RemoveContainer
                | Self::StopSandbox
                | Self::RemoveSandbox
                | Self::RemoveImage
                | Self::RemovePodEntry
                | Self::RemoveContainerLink
                | Self::RemoveContainerLogs
        )
    }
}

/// One call that the node received.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallRecord {
    /// Time of the call.
    pub at: Timestamp,
    pub operation: Operation,
    /// The id, reference, entry or path as it was passed; empty for listings.
    pub target: Arc<str>,
    /// Grace period in seconds of [`Operation::StopContainer`]; 0 otherwise.
    pub grace_seconds: u32,
    /// Handler of [`Operation::RemoveImage`]; empty otherwise.
    pub runtime_handler: Arc<str>,
    /// The result.
    pub outcome: Result<(), RuntimeError>,
}

impl CallRecord {
    /// Operation and target: enough for most tests.
    #[must_use]
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

/// A call before it is performed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) operation: Operation,
    pub(super) target: &'a str,
    pub(super) grace_seconds: u32,
    pub(super) runtime_handler: &'a str,
}

impl<'a> Request<'a> {
    pub(super) const fn new(operation: Operation, target: &'a str) -> Self {
        Self {
            operation,
            target,
            grace_seconds: 0,
            runtime_handler: "",
        }
    }
}
