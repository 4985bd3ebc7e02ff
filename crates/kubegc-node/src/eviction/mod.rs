//! Planner for the resources that a node under pressure reclaims before it evicts pods
//! ([N4.1](crate::rules#n4-1)).
//!
//! [`Thresholds`] is the [`Planner`](kubegc_core::Planner) of one sync of the eviction manager: it selects
//! the threshold to act on and its reclaim functions. After these have run, [`Thresholds::decide`] evaluates
//! a new measurement. [`Node::reclaim`](crate::Node::reclaim) does both.
//!
//! # Guarantees
//! - A signal that was not measured, or whose capacity is zero, causes no action.
//! - Every threshold is either selected or listed with the reason why it is not.
//! - The same facts give the same plan; if upstream's order is random, a finding says so.
//!
//! # Upstream
//! [`eviction/eviction_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go)
//! and
//! [`eviction/helpers.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/helpers.go).
//! Ranking and evicting pods is not included.

mod amount;
mod decision;
mod layout;
mod observation;
mod plan;
mod reason;
mod signal;
mod threshold;

pub use amount::{Amount, Percent};
pub use decision::{Decision, EvictionReason, StillMet};
pub use layout::{FileSystems, Function, Layout, LayoutError, reclaim_functions};
pub use observation::{FileSystemRole, MinimumReclaim, Observation, Observations};
pub use plan::{History, Pressure, Reclaim, Summary, Trigger};
pub use reason::{Reason, Subject};
pub use signal::{NodeCondition, Resource, Signal};
pub use threshold::{Origin, Threshold, Thresholds};
