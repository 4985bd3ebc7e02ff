//! Owner-reference garbage collection as pure planners.

pub mod absent_owners;
pub mod attempt;
pub mod backoff;
pub mod call;
pub mod classify;
pub mod collector;
pub mod delete;
pub mod driver;
pub mod effect;
pub mod graph;
mod json;
pub mod orphan;
pub mod patch;
pub mod queue;
pub mod reason;
mod semantics;
mod settings;

pub use collector::Collector;
pub use graph::{Graph, GraphKind, NodeId};
pub use semantics::Semantics;
pub use settings::{Hardening, Settings};
