//! What the collector asks of an API server, and what it can be answered.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    KindId, ObjectMeta, ObjectRef, PatchType, Preconditions, PropagationPolicy, ResourceVersion, StoreError,
};

use crate::{patch::Body, reason::Reason};

/// One request, with what the decision behind it rests on.
#[expect(clippy::exhaustive_structs, reason = "executors take every field")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The kind, in the catalog that the attempt was given.
    pub kind: KindId,
    /// The object meant. Its namespace is empty where the kind is cluster-scoped, but for the read before a merge patch: that one looks where the
    /// graph's node is, as upstream does, and finds nothing where the node's namespace was guessed. Its uid is that which the collector
    /// believes in and need not be that of the object found under the name.
    pub target: ObjectRef,
    /// What to do.
    pub request: Request,
    /// What the decision rests on: at least the uid, for every write.
    pub expect: Preconditions,
    /// Why.
    pub reason: Reason,
}

/// What to do with an object.
#[expect(
    clippy::exhaustive_enums,
    reason = "executors must perform each; a new one must break them"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Read its metadata, live.
    Get,
    /// Delete it.
    Delete {
        /// The preconditions to send: what upstream sends, or all that is expected.
        wire: Preconditions,
        /// What happens to its dependents.
        propagation: PropagationPolicy,
    },
    /// Patch its metadata.
    Patch {
        /// The format.
        format: PatchType,
        /// The exact bytes.
        body: Body,
    },
    /// Write it back as it was read, with these finalizers: how releases before 1.15 remove one.
    Put {
        /// The version that was read; the write must fail where the object has another.
        read_at: ResourceVersion,
        /// The finalizers to write.
        finalizers: Vec<Arc<str>>,
    },
}

impl Request {
    /// Whether the request may change something.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        !matches!(self, Self::Get)
    }
}

/// The answer to one request.
///
/// Failures are data here, in the classes that lead to different decisions.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// A read found the object.
    Found(Arc<ObjectMeta>),
    /// A write was carried out; the object's state after it, where it is known.
    Applied(Option<Arc<ObjectMeta>>),
    /// 404.
    NotFound,
    /// 409.
    Conflict,
    /// 415.
    UnsupportedMediaType,
    /// 422.
    Invalid,
    /// The kind is not served.
    NoMapping,
    /// What was listed does not cover this object: neither present nor absent.
    Unlisted,
    /// 400, 403, 429: certainly not carried out.
    Refused {
        /// When to try again, where the server said so.
        retry_after: Option<Duration>,
    },
    /// Timeouts, lost answers, 5xx: it may have been carried out.
    Unknown,
}

impl From<StoreError> for Answer {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => Self::NotFound,
            StoreError::Conflict { .. } => Self::Conflict,
            StoreError::NoMapping { .. } => Self::NoMapping,
            StoreError::UnsupportedMediaType => Self::UnsupportedMediaType,
            StoreError::Invalid { .. } => Self::Invalid,
            StoreError::Refused { retry_after, .. } => Self::Refused { retry_after },
            StoreError::Unlisted => Self::Unlisted,
            StoreError::NotSupported { .. } => Self::Refused { retry_after: None },
            // What is not known to be a refusal counts as an unknown outcome.
            _ => Self::Unknown,
        }
    }
}

/// Why an attempt did not come to its end. The item is put back, or dropped where the error says that trying again is of no use.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AttemptError {
    /// No kind is served under this apiVersion and kind.
    #[error("unable to get REST mapping for {api_version}/{kind}.")]
    NoMapping {
        /// The apiVersion.
        api_version: Arc<str>,
        /// The kind.
        kind: Arc<str>,
    },
    /// A cluster-scoped object names a namespaced owner: nothing will ever come of it.
    #[error("cluster-scoped objects cannot refer to namespaced owners")]
    NamespacedOwnerOfClusterScoped,
    /// A request was not answered as hoped.
    #[error("{target} could not be {asked}: {answer:?}")]
    Answered {
        /// The object.
        target: ObjectRef,
        /// What was asked: read, patched, deleted.
        asked: &'static str,
        /// The answer.
        answer: Answer,
    },
    /// The read before the removal of a finalizer failed.
    #[error(
        "cannot finalize owner {owner}, because cannot get it: {answer:?}. The garbage collector will retry later"
    )]
    CannotFinalize {
        /// The owner.
        owner: ObjectRef,
        /// The answer.
        answer: Answer,
    },
    /// The removal of a finalizer met a conflict four times.
    #[error("updateMaxRetries(4) has reached. The garbage collector will retry later for owner {owner}")]
    TooManyConflicts {
        /// The owner.
        owner: ObjectRef,
    },
    /// Some dependents could not be released.
    #[error("{failed} of {dependents} dependents of {owner} could not be released; the first: {first}")]
    Orphaning {
        /// The owner.
        owner: ObjectRef,
        /// How many dependents it had.
        dependents: usize,
        /// How many of them failed.
        failed: usize,
        /// The first failure.
        first: Box<Self>,
    },
}

impl AttemptError {
    /// Whether upstream reports the error to its error handler; a missing mapping is too common for that.
    #[must_use]
    pub const fn is_reported(&self) -> bool {
        !matches!(
            self,
            Self::NoMapping { .. } | Self::NamespacedOwnerOfClusterScoped
        )
    }
}

/// What an attempt wants next.
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever drives an attempt must handle each"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Perform this request and hand the answer in.
    Ask(Ask),
    /// Go on after this long.
    Sleep(Duration),
    /// The attempt is over.
    Done(Outcome),
}

/// How an attempt ended.
#[expect(
    clippy::exhaustive_structs,
    reason = "two parts: what becomes of the item, and how it went"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the item is put back, to be tried again after its delay.
    pub requeue: bool,
    /// How it went.
    pub conclusion: Conclusion,
}

/// How an attempt went.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Conclusion {
    /// The virtual node was no longer what the graph has for the uid.
    Stale,
    /// The object is being deleted already and waits for nobody.
    BeingDeleted,
    /// The object does not exist under this identity: a virtual delete is under way.
    Absent,
    /// The object has no owners.
    NoOwners,
    /// All owners are there.
    Kept,
    /// The object waits for dependents, which were queued.
    WaitsForDependents,
    /// The object does not wait any longer, or was released with all its dependents: its finalizer is gone.
    Finalized,
    /// References to absent or waiting owners were removed.
    Released,
    /// The object was deleted.
    Deleted,
    /// Something failed.
    Failed(AttemptError),
}
