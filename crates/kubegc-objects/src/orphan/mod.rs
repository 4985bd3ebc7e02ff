//! Releases the dependents of an owner that is deleted without them (rules O-1 to O-6), then lets the owner go.
//!
//! All dependents that the graph knows at the beginning are patched, side by side. If one fails, the owner keeps its finalizer and everything
//! is tried again.
//!
//! [`Attempt`] is the resumable face, for whoever performs requests as they are asked for. [`Rules`] is the same decision as a
//! [`Planner`](kubegc_core::Planner), for callers that have the owner's live state at hand.
//!
//! # Upstream
//! `attemptToOrphanWorker` and `orphanDependents` in `garbagecollector.go`, 1.13 to 1.36.

mod attempt;
mod rules;

pub use self::{
    attempt::{Attempt, Lane, Step},
    rules::{Action, Facts, KeptBecause, Rules},
};
