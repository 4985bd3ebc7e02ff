//! The node's side of the outside world: its container runtime, its log files, and whoever says which pods it should run.

use std::sync::Arc;

use async_trait::async_trait;

use crate::node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox};

/// How a call to a [`Runtime`], a [`LogDirectory`] or a [`PodSource`] failed.
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
    /// The answer was lost: what was asked may have been done.
    #[error("{message}")]
    Unknown {
        /// What is known.
        message: String,
    },
    /// This runtime does not offer the operation.
    #[error("{operation} is not supported by this runtime")]
    NotSupported {
        /// The operation.
        operation: &'static str,
    },
}

impl RuntimeError {
    /// A refusal with this message.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
        }
    }

    /// A lost answer, of which this much is known.
    #[must_use]
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::Unknown {
            message: message.into(),
        }
    }
}

/// A container runtime, as far as a collector on a node needs one.
///
/// # Guarantees
/// Asked of implementations: a listing is whole or an error, never a part. Removing what is already gone succeeds. Nothing here decides what may go:
/// a real runtime removes a running container, and an image in use, when asked.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// All containers, in every state.
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError>;

    /// All sandboxes.
    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError>;

    /// All images.
    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError>;

    /// The first file system that holds the images.
    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError>;

    /// What there is to say of one container. `None`: the runtime answered and said nothing.
    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError>;

    /// The id of the image that a reference stands for; `None` where there is no such image.
    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        let _ = reference;
        Err(RuntimeError::NotSupported {
            operation: "image_id",
        })
    }

    /// Stops a container, giving it this many seconds to end.
    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError>;

    /// Removes a container.
    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError>;

    /// Stops a sandbox and all that runs in it.
    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError>;

    /// Removes a sandbox and the containers in it.
    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError>;

    /// Removes an image with all its tags. `runtime_handler` is empty where the listing named none.
    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError>;
}

/// The log files of containers on a node.
#[async_trait]
pub trait LogDirectory: Send + Sync {
    /// Names of all entries of the pod log directory, in the order of their names.
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError>;

    /// The links `/var/log/containers/*.log`, in the order of their paths, and what each leads to.
    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError>;

    /// Removes an entry of the pod log directory with all below it. `entry` is a name that [`pod_entries`](Self::pod_entries) gave.
    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError>;

    /// Removes one link. `path` is a path that [`container_links`](Self::container_links) gave.
    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError>;

    /// Removes a container's log file and its rotated copies, whose names go on behind its own with a `.`. Upstream takes every path that begins with `log_path`.
    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError>;
}

/// Whoever says which pods the node should run: the runtime does not know.
#[async_trait]
pub trait PodSource: Send + Sync {
    /// The pods known now.
    async fn pods(&self) -> Result<Pods, RuntimeError>;
}
