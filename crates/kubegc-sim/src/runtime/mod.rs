//! A node in memory: containers, sandboxes, images on shared layers, logs, and limited disks.
//!
//! A collector uses [`SimNode`] through the traits of `kubegc-core` ([`Runtime`](kubegc_core::Runtime),
//! [`LogDirectory`](kubegc_core::LogDirectory), [`PodSource`](kubegc_core::PodSource)). A test changes the
//! node by its own methods. The node performs each call through the traits as containerd does, records it,
//! and checks it for harm. It prevents no harm.
//!
//! [`FaultyRuntime`] puts faults between a collector and any runtime.

mod call;
mod cri;
mod disk;
mod error;
mod events;
mod fault;
mod image_store;
mod judge;
mod lifecycle;
mod log;
mod node;
mod settings;
mod spec;
mod table;
mod world;

pub use call::{CallRecord, Operation};
pub use disk::Usage;
pub use error::NodeError;
pub use fault::{Fault, FaultPlan, FaultyRuntime, Rule};
pub use judge::{Harm, Violation};
pub use log::{CONTAINER_LOG_DIRECTORY, POD_LOG_DIRECTORY, container_log_link, pod_log_entry};
pub use node::SimNode;
pub use settings::{FileSystemRole, Layout, ListingOrder, NodeSettings};
pub use spec::{ContainerSpec, ImageSpec, Layer, PodSpec, RunningPod};
