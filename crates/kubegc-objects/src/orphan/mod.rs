//! The attempt to orphan the dependents of an owner ([O-1](crate::rules#o-1) to [O-6](crate::rules#o-6)), and
//! then to remove the owner's finalizer.
//!
//! All dependents that the graph has at the start are patched concurrently. If one patch fails, the owner
//! keeps its finalizer and everything is retried.
//!
//! [`Attempt`] is resumable: it returns requests and continues with the responses.
//!
//! # Upstream
//! `attemptToOrphanWorker` and `orphanDependents` in
//! [`garbagecollector.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/garbagecollector.go),
//! 1.13 to 1.36.

mod attempt;

pub use self::attempt::{Attempt, Lane, Step};
