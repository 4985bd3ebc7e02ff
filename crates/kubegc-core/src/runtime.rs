//! The interfaces of a node: its container runtime, its log files, and the source of its pods.

use std::sync::Arc;

use async_trait::async_trait;

use crate::node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox};

/// The error of a call to a [`Runtime`], a [`LogDirectory`] or a [`PodSource`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RuntimeError {
    /// There is no such container, sandbox, image or file.
    #[error("not found")]
    NotFound,
    /// The runtime refused; nothing changed.
    #[error("{message}")]
    Refused {
        /// The runtime's message.
        message: String,
    },
    /// The response was lost: the operation may have been performed.
    #[error("{message}")]
    Unknown {
        /// The known facts.
        message: String,
    },
    #[error("{operation} is not supported by this runtime")]
    NotSupported { operation: &'static str },
}

impl RuntimeError {
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
        }
    }

    /// A lost response, with the known facts.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::Unknown {
            message: message.into(),
        }
    }
}

/// A container runtime, with the operations that a collector on a node needs.
///
/// # Requirements
/// A list is complete, or the call fails. Removing something that does not exist succeeds. A runtime protects
/// nothing: on request it removes a running container, and an image in use.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// All containers, in every state.
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError>;

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError>;

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError>;

    /// The first image file system that the runtime reports.
    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError>;

    /// The status of one container. `None`: the runtime's response was empty.
    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError>;

    /// The id of the image with a reference; `None` if there is no such image.
    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        let _ = reference;
        Err(RuntimeError::NotSupported {
            operation: "image_id",
        })
    }

    /// Stops a container with this grace period in seconds.
    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError>;

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError>;

    /// Stops a sandbox and all its containers.
    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError>;

    /// Removes a sandbox and its containers.
    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError>;

    /// Removes an image with all its tags. `runtime_handler` is empty if the list has none.
    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError>;
}

/// The log files of containers on a node.
#[async_trait]
pub trait LogDirectory: Send + Sync {
    /// Names of all entries of the pod log directory, in the order of their names.
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError>;

    /// The links `/var/log/containers/*.log`, in the order of their paths, and their targets.
    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError>;

    /// Removes an entry of the pod log directory with everything below it. `entry` is a name from
    /// [`pod_entries`](Self::pod_entries).
    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError>;

    /// Removes one link. `path` is a path from [`container_links`](Self::container_links).
    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError>;

    /// Removes a container's log file and its rotated copies, whose names continue after its own with a `.`.
    /// Upstream removes every path that begins with `log_path`.
    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError>;
}

/// The source of the pods that the node should run, which the runtime does not know.
#[async_trait]
pub trait PodSource: Send + Sync {
    /// The currently known pods.
    async fn pods(&self) -> Result<Pods, RuntimeError>;
}
