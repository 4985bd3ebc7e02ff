//! The attempt to delete one item ([A-1](crate::rules#a-1) to [A-13](crate::rules#a-13)): it is deleted,
//! loses owner references, or is kept.
//!
//! [`Attempt`] is resumable: it returns one request at a time and continues with the response.
//!
//! # Upstream
//! `attemptToDeleteWorker`, `attemptToDeleteItem` and `processDeletingDependentsItem` in
//! [`garbagecollector.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/garbagecollector.go),
//! `deleteObject` in
//! [`operations.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/operations.go);
//! 1.13, 1.20.2, 1.28 and 1.36.

mod attempt;

use kubegc_core::{ObjectMeta, Preconditions, Uid};

pub use self::attempt::Attempt;

/// The preconditions of a delete: the uid, and the version that was read if there is one.
pub(crate) fn expectation(uid: &Uid, live: &ObjectMeta) -> Preconditions {
    let version = &live.resource_version;
    Preconditions {
        uid: Some(uid.clone()),
        resource_version: (!version.is_empty()).then(|| version.clone()),
    }
}
