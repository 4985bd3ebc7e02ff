//! The container runtime of a node, behind one small trait.

use async_trait::async_trait;

use crate::node_facts::{Container, FileSystem, Image, Sandbox};

/// How a call to a [`Runtime`] failed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RuntimeError {
    /// There is no such container, sandbox or image.
    #[error("not found")]
    NotFound,
    /// The runtime refused; nothing changed.
    #[error("refused: {message}")]
    Refused {
        /// The runtime's message.
        message: String,
    },
    /// The answer was lost: what was asked may have been done.
    #[error("unknown outcome: {message}")]
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

/// A container runtime, as far as a collector on a node needs one.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// All containers, in every state.
    async fn containers(&self) -> Result<Vec<Container>, RuntimeError>;

    /// All sandboxes.
    async fn sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError>;

    /// All images.
    async fn images(&self) -> Result<Vec<Image>, RuntimeError>;

    /// The file system that holds the images.
    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError>;

    /// Stops a container, giving it this many seconds to end.
    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError>;

    /// Removes a container.
    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError>;

    /// Stops and removes a sandbox.
    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError>;

    /// Removes an image with all its tags.
    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError>;
}
