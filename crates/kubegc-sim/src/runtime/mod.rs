//! A node in memory for tests of node collectors: containers, sandboxes, images on shared layers, logs, and a
//! limited disk.
//!
//! A collector uses [`SimNode`] through the traits of `kubegc-core` ([`Runtime`](kubegc_core::Runtime),
//! [`LogDirectory`](kubegc_core::LogDirectory), [`PodSource`](kubegc_core::PodSource)). A test changes the
//! node by its own methods. The node performs each call through the traits as containerd does, records it,
//! and checks it for harm. It prevents no harm.
//!
//! [`FaultyRuntime`] puts faults between a collector and any runtime.

mod call;
mod cri;
mod fault;
mod judge;
mod log;
mod node;
mod spec;
mod world;

pub use call::{CallRecord, Harm, Operation, Violation};
pub use fault::{Fault, FaultPlan, FaultyRuntime, Matching, Rule};
pub use node::SimNode;
pub use spec::{ContainerSpec, ImageSpec, Layer, NodeError, NodeSettings, PodSpec, RunningPod};
