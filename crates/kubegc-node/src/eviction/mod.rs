//! Decides what a node under pressure collects before it evicts pods, and whether that was enough.
//!
//! [`Thresholds`] is the [`Planner`](kubegc_core::Planner) of one round: which threshold is answered, and which functions are run for it. [`Pass`]
//! runs them one by one and judges the new measurement.
//!
//! # Guarantees
//! - A signal that was not measured, or of which there is nothing in all, forces nothing.
//! - Every threshold is answered or kept with a reason.
//! - The same facts give the same plan; where upstream leaves an order to chance, a finding says so.
//!
//! # Upstream
//! `eviction/eviction_manager.go` and `eviction/helpers.go`. Ranking pods and evicting them is not part of it.

mod amount;
mod layout;
mod observation;
mod pass;
mod plan;
mod reason;
mod signal;
mod threshold;

pub use amount::{Amount, Percent};
pub use layout::{FileSystems, Function, Layout, LayoutError, reclaim_functions};
pub use observation::{FileSystemRole, MinimumReclaim, Observation, Observations};
pub use pass::{Answer, FunctionFailed, Pass, PodsGo, Step, StillMet, Verdict, pod_grace_seconds};
pub use plan::{History, PRESSURE_TRANSITION_PERIOD, Pressure, Reclaim, Summary, Trigger};
pub use reason::{Reason, Subject};
pub use signal::{NodeCondition, Resource, Signal};
pub use threshold::{Origin, Threshold, Thresholds};
