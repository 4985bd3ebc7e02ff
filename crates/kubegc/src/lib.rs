//! Kubernetes garbage collection as pure planners: facts, policy and time in; actions with reasons out.
//!
//! This crate holds no logic. It re-exports the parts, each of which can be used alone.

pub use kubegc_core as core;
pub use kubegc_lifecycle as lifecycle;
pub use kubegc_objects as objects;
pub use kubegc_predict as predict;
pub use kubegc_sim as sim;
pub use kubegc_snapshot as snapshot;
