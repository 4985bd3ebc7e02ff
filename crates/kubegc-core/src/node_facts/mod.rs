//! Facts about a node: its containers, sandboxes, images, file systems, log files, and the pods that it
//! should run.
//!
//! Facts are shared (`Arc`): a plan refers to the container itself, with all its fields.

mod file_system;
mod image;
mod log;
mod pod;
mod workload;

pub use file_system::FileSystem;
pub use image::Image;
pub use log::{LogLink, LogTarget};
pub use pod::{PodIdentity, PodState, Pods};
pub use workload::{
    Container, ContainerImage, ContainerState, ContainerStatus, Sandbox, SandboxState, annotation, label,
};
