//! Decides what a node in memory answers a collector: containers, sandboxes, images on shared layers, logs, and disks that fill.
//!
//! [`SimNode`] is met through the traits of `kubegc-core` ([`Runtime`](kubegc_core::Runtime), [`LogDirectory`](kubegc_core::LogDirectory),
//! [`PodSource`](kubegc_core::PodSource)) and told by its own methods what happens on it. Calls through the traits are a collector's:
//! each is carried out as containerd carries it out, written down, and judged. The node protects nothing.
//!
//! [`FaultyRuntime`] puts faults between a collector and any runtime.

mod call;
mod cri;
mod disk;
mod error;
mod fault;
mod image_store;
mod judge;
mod lifecycle;
mod log;
mod node;
mod settings;
mod spec;
mod table;
mod tell;
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
