//! Requests of the collector, their responses, and the events of watches, as data.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    ApiResource, DeleteOptions, KindId, ObjectMeta, ObjectRef, ObjectStore, PatchType, Preconditions,
    PropagationPolicy, ResourceVersion, StoreError, Timestamp,
    deletion::{Deleted, begin_deletion},
    store::Address,
};

use crate::{
    patch::{Body, Change},
    reason::Reason,
};

/// A patch is JSON text.
#[cfg(feature = "serde")]
fn body_text<S: serde::Serializer>(body: &Body, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(body))
}

/// One request, with the expected state behind its decision. Its display form is such as
/// `delete pod/web-0 -n shop (Background): no owner of it is left`.
///
/// # Examples
/// The example of [`Collector`](crate::Collector) responds to three requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}: {reason}", operation.on(target))]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Request {
    /// The kind, in the catalog that the attempt received.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub kind: KindId,
    /// The target object. Its namespace is empty if the kind is cluster-scoped. The read before a merge patch
    /// is the exception: as upstream, it uses the namespace of the graph's node and finds nothing if that
    /// namespace was guessed. The uid is the expected one; the object found under the name can have another.
    pub target: Arc<ObjectRef>,
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub operation: Operation,
    /// The preconditions that the decision depends on: at least the uid for every write.
    pub expect: Preconditions,
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub reason: Reason,
}

impl Request {
    /// Performs the request on one object in memory, as an API server does: the response, and the change that
    /// watches receive, if there is one.
    ///
    /// `stored` is the object under the target's name, and `resource` its kind. An object that is changed has
    /// no version afterwards; the caller may give it one.
    ///
    /// # Examples
    /// The example `planners` runs a whole collector over a map.
    pub fn perform(
        &self,
        stored: Option<&Arc<ObjectMeta>>,
        resource: &ApiResource,
        now: Timestamp,
    ) -> (Response, Option<WatchEvent>) {
        let Some(stored) = stored else {
            return (Response::NotFound, None);
        };
        let after = match &self.operation {
            Operation::Get => return (Response::Found(Arc::clone(stored)), None),
            Operation::Delete { wire, propagation } => {
                let options = delete_options(wire, *propagation);
                match begin_deletion(stored, resource.default_deletion, &options, now) {
                    Ok(Deleted::Removed) => None,
                    Ok(Deleted::Terminating(meta)) => Some(*meta),
                    Err(error) => return (error.into(), None),
                }
            }
            Operation::Patch {
                format: PatchType::Strategic,
                ..
            } if resource.custom => return (Response::UnsupportedMediaType, None),
            Operation::Patch { .. } | Operation::Put { .. } if !self.expect.hold(stored) => {
                return (Response::Conflict, None);
            }
            Operation::Patch { format, change, .. } => {
                let mut meta = ObjectMeta::clone(stored);
                change.apply(*format, &mut meta);
                Some(meta)
            }
            Operation::Put { finalizers, .. } => Some(ObjectMeta {
                finalizers: finalizers.clone(),
                ..ObjectMeta::clone(stored)
            }),
        };
        if after.as_ref() == Some(&**stored) {
            return (Response::Applied(Some(Arc::clone(stored))), None);
        }
        match after.filter(|meta| !meta.is_deleting() || !meta.finalizers.is_empty()) {
            Some(mut meta) => {
                meta.resource_version = ResourceVersion::default();
                let meta = Arc::new(meta);
                (
                    Response::Applied(Some(Arc::clone(&meta))),
                    Some(WatchEvent::Apply(meta)),
                )
            }
            None => (
                Response::Applied(None),
                Some(WatchEvent::Delete(Arc::clone(stored))),
            ),
        }
    }
}

/// An operation on an object.
///
/// # Examples
/// ```
/// use kubegc_core::{Preconditions, PropagationPolicy};
/// use kubegc_objects::Operation;
/// let delete = Operation::Delete {
///     wire: Preconditions { uid: Some("u1".into()), ..Preconditions::default() },
///     propagation: PropagationPolicy::Background,
/// };
/// assert!(delete.is_write() && !Operation::Get.is_write());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "operation", rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Operation {
    /// Reads its metadata live.
    Get,
    Delete {
        /// The preconditions to send: those that upstream sends, or all expected ones.
        wire: Preconditions,
        /// The treatment of its dependents.
        propagation: PropagationPolicy,
    },
    Patch {
        format: PatchType,
        /// The exact bytes.
        #[cfg_attr(feature = "serde", serde(serialize_with = "body_text"))]
        body: Body,
        change: Change,
    },
    /// Writes the object back as it was read, with these finalizers. Releases before 1.15 remove a finalizer
    /// this way ([F-2](crate::rules#f-2)).
    Put {
        /// The version that was read. The write must fail if the object has another one.
        read_at: ResourceVersion,
        finalizers: Vec<Arc<str>>,
    },
}

impl Operation {
    /// Returns whether the request can change the object.
    pub const fn is_write(&self) -> bool {
        !matches!(self, Self::Get)
    }

    /// Performs the operation on an API server.
    pub(crate) async fn send<S>(&self, store: &S, address: Address<'_>) -> Result<Response, StoreError>
    where
        S: ObjectStore + ?Sized,
    {
        let after = match self {
            Self::Get => {
                return store
                    .get(address)
                    .await
                    .map(|meta| Response::Found(Arc::new(meta)));
            }
            Self::Delete { wire, propagation } => {
                store.delete(address, &delete_options(wire, *propagation)).await?;
                None
            }
            Self::Patch { format, body, .. } => Some(store.patch(address, *format, body).await?),
            Self::Put { read_at, finalizers } => {
                Some(store.replace_finalizers(address, read_at, finalizers).await?)
            }
        };
        Ok(Response::Applied(after.map(Arc::new)))
    }

    /// The operation on an object as text.
    pub(crate) fn on(&self, object: &ObjectRef) -> String {
        match self {
            Self::Delete { propagation, .. } => format!("delete {object} ({propagation})"),
            Self::Patch { change, .. } => format!("patch {object}: {change}"),
            Self::Put { .. } => format!("update the finalizers of {object}"),
            Self::Get => format!("read {object}"),
        }
    }
}

fn delete_options(preconditions: &Preconditions, propagation: PropagationPolicy) -> DeleteOptions {
    DeleteOptions {
        preconditions: preconditions.clone(),
        ..DeleteOptions::policy(propagation)
    }
}

/// The response to one request.
///
/// Failures are data here, in the classes that lead to different decisions.
///
/// # Examples
/// The example of [`Collector`](crate::Collector) passes in a found object, an absent one and a finished
/// write.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    Found(Arc<ObjectMeta>),
    /// A write succeeded; the object's state after it, if the server returned it.
    Applied(Option<Arc<ObjectMeta>>),
    /// 404.
    NotFound,
    /// 409.
    Conflict,
    /// 415.
    UnsupportedMediaType,
    /// 422.
    Invalid,
    NoMapping,
    /// The list does not cover this object, so it is neither present nor absent.
    Unlisted,
    /// 400, 403, 429: certainly not applied.
    Refused {
        /// The server's delay before a retry, if it sent one.
        retry_after: Option<Duration>,
    },
    /// Timeouts, lost responses, 5xx: the request may have been applied.
    Unknown,
}

impl From<StoreError> for Response {
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
            // Every failure that is not known to be a refusal has an unknown outcome.
            _ => Self::Unknown,
        }
    }
}

/// An event of a watch. The metadata is shared, not copied.
///
/// # Examples
/// The example of [`Collector`](crate::Collector) passes in a list of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchEvent {
    /// A list starts, the first one or a relist.
    Init,
    /// Objects of that list, in its order: one, a page or all of them. Many at once cost less.
    InitApply(Vec<Arc<ObjectMeta>>),
    /// The list is complete: objects from before that it did not contain no longer exist.
    InitDone,
    /// An object was added or modified.
    Apply(Arc<ObjectMeta>),
    /// An object was deleted; its last state.
    Delete(Arc<ObjectMeta>),
}

impl WatchEvent {
    /// The events of a whole list.
    pub fn list(objects: impl IntoIterator<Item = Arc<ObjectMeta>>) -> [Self; 3] {
        let objects = objects.into_iter().collect();
        [Self::Init, Self::InitApply(objects), Self::InitDone]
    }
}

/// Why an attempt failed. The item is requeued, or dropped if a retry cannot help.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AttemptError {
    /// No resource is served under this apiVersion and kind ([A-2](crate::rules#a-2)).
    #[error("unable to get REST mapping for {api_version}/{kind}.")]
    NoMapping { api_version: Arc<str>, kind: Arc<str> },
    /// A cluster-scoped object names a namespaced owner. A retry cannot help.
    #[error("cluster-scoped objects cannot refer to namespaced owners")]
    NamespacedOwnerOfClusterScoped,
    #[error("{target} could not be {operation}: {response:?}")]
    RequestFailed {
        target: Arc<ObjectRef>,
        /// The operation: read, patched, deleted.
        operation: &'static str,
        response: Response,
    },
    /// The read before the removal of a finalizer failed ([F-1](crate::rules#f-1)).
    #[error(
        "cannot finalize owner {owner}, because cannot get it: {response:?}. The garbage collector will retry later"
    )]
    CannotFinalize {
        owner: Arc<ObjectRef>,
        response: Response,
    },
    /// The removal of a finalizer met a conflict four times ([F-3](crate::rules#f-3)).
    #[error("updateMaxRetries(4) has reached. The garbage collector will retry later for owner {owner}")]
    TooManyConflicts { owner: Arc<ObjectRef> },
    /// Some dependents could not be orphaned ([O-3](crate::rules#o-3)).
    #[error("{failed} of {dependents} dependents of {owner} could not be orphaned; the first error: {first}")]
    Orphaning {
        owner: Arc<ObjectRef>,
        dependents: usize,
        failed: usize,
        first: Box<Self>,
    },
}

impl AttemptError {
    /// The failure of an operation: read, patched, deleted.
    pub(crate) const fn failed(target: Arc<ObjectRef>, operation: &'static str, response: Response) -> Self {
        Self::RequestFailed {
            target,
            operation,
            response,
        }
    }

    /// Returns whether upstream reports the error to its error handler. A missing mapping is too common for
    /// that.
    pub const fn is_reported(&self) -> bool {
        !matches!(
            self,
            Self::NoMapping { .. } | Self::NamespacedOwnerOfClusterScoped
        )
    }
}

/// Identifies the requests of one attempt: to orphan, each dependent has a lane, and the item has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(pub(crate) u32);

impl Lane {
    /// The lane of the item itself, the only one of an attempt to delete it.
    pub(crate) const ITEM: Self = Self(u32::MAX);
}

/// The next step of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Perform this request and pass its response in, with the lane. If the attempt is one to orphan, more
    /// requests can follow at once.
    Request(Lane, Request),
    Wait,
    /// Continue after this time.
    Sleep(Duration),
    /// The attempt is over.
    Done(Outcome),
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// Whether the item is requeued with a delay.
    pub requeue: bool,
    pub conclusion: Conclusion,
}

/// How an attempt ended.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Conclusion {
    /// The virtual node was replaced or removed in the meantime ([W-6](crate::rules#w-6)).
    Stale,
    /// The object is already terminating and does not wait for dependents ([A-1](crate::rules#a-1)).
    BeingDeleted,
    /// The object does not exist under this identity; a virtual delete follows ([A-4](crate::rules#a-4)).
    Absent,
    /// The object has no owners ([A-6](crate::rules#a-6)).
    NoOwners,
    /// All owners exist.
    Kept,
    /// The object waits for dependents, which were queued ([A-13](crate::rules#a-13)).
    WaitsForDependents,
    /// The finalizer was removed: no dependent blocks the object, or all dependents are orphaned.
    Finalized,
    /// References to absent or waiting owners were removed.
    Released,
    Deleted,
    Failed(AttemptError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_store_is_a_response() {
        let retry_after = Some(Duration::from_secs(1));
        for (code, response) in [
            (404, Response::NotFound),
            (409, Response::Conflict),
            (410, Response::Unknown),
            (415, Response::UnsupportedMediaType),
            (422, Response::Invalid),
            (429, Response::Refused { retry_after }),
            (500, Response::Unknown),
        ] {
            let error = StoreError::from_status(code, "text", retry_after);
            assert_eq!(Response::from(error), response);
        }
        let operation = "patching";
        let refused = Response::Refused { retry_after: None };
        assert_eq!(Response::from(StoreError::NotSupported { operation }), refused);
        assert_eq!(Response::from(StoreError::Unlisted), Response::Unlisted);
    }

    #[test]
    fn errors_of_attempts_have_texts_and_most_are_reported() {
        let object = || Arc::new(ObjectRef::new("v1", "ConfigMap", "red", "a", "u1"));
        let unknown = || AttemptError::RequestFailed {
            target: object(),
            operation: "patched",
            response: Response::Unknown,
        };
        let lines = [
            AttemptError::NoMapping {
                api_version: "v1".into(),
                kind: "Widget".into(),
            },
            AttemptError::NamespacedOwnerOfClusterScoped,
            unknown(),
            AttemptError::CannotFinalize {
                owner: object(),
                response: Response::Unknown,
            },
            AttemptError::TooManyConflicts { owner: object() },
            AttemptError::Orphaning {
                owner: object(),
                dependents: 3,
                failed: 2,
                first: Box::new(unknown()),
            },
        ]
        .map(|error| format!("{}: {error}\n", error.is_reported()));
        let expected = "\
false: unable to get REST mapping for v1/Widget.
false: cluster-scoped objects cannot refer to namespaced owners
true: OBJECT could not be patched: Unknown
true: cannot finalize owner OBJECT, because cannot get it: Unknown. The garbage collector will retry later
true: updateMaxRetries(4) has reached. The garbage collector will retry later for owner OBJECT
true: 2 of 3 dependents of OBJECT could not be orphaned; the first error: OBJECT could not be patched: Unknown
";
        let shown = "configmap/a -n red";
        assert_eq!(lines.concat(), expected.replace("OBJECT", shown));
    }
}
