//! Decides whether one item is garbage (rules ), and deletes, releases or keeps it.
//!
//! [`Attempt`] is the resumable face: it asks one question at a time and goes on with the answer. [`Rules`] is the same decision as a
//! [`Planner`](kubegc_core::Planner), for callers that have all the answers at hand.
//!
//! # Upstream
//! `attemptToDeleteWorker`, `attemptToDeleteItem` and `processDeletingDependentsItem` in `garbagecollector.go`, `deleteObject` in
//! `operations.go`; 1.13, 1.20.2, 1.28 and 1.36.

mod attempt;
mod rules;

use kubegc_core::{ObjectMeta, Preconditions, Uid};

pub use self::{
    attempt::Attempt,
    rules::{Action, Facts, KeptBecause, Rules},
};

/// What a delete rests on: the uid, and the version that was read where there is one.
pub(crate) fn expectation(uid: &Uid, live: &ObjectMeta) -> Preconditions {
    let version = &live.resource_version;
    Preconditions {
        uid: Some(uid.clone()),
        resource_version: (!version.is_empty()).then(|| version.clone()),
    }
}
