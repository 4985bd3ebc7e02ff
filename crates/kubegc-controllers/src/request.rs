//! The requests that controllers send, and the responses.

use std::sync::Arc;

use kubegc_core::{
    ApiResource, DeleteOptions, ObjectMeta, OwnerReference, PatchType, Preconditions, ResourceVersion,
    SharedMeta, StoreError, Uid,
    record::{Body, Condition, Consumer, JobCounts, ObjectId, Record, Resource, Taint},
    store::Discovered,
};

use crate::{
    Key,
    storage::{BOUND_BY_CONTROLLER, MIGRATED_TO},
};

/// One request to the API server, to a volume plugin, or to the event recorder. Its display form is such as
/// `delete job.batch/report -n shop`.
///
/// An executor performs a request exactly once and returns one [`Response`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Request {
    /// Reads one object from the API server, not from a cache. Response: [`Response::Object`].
    #[display("get {}/{}{}", resource.kubectl_name(), key.name, flag(&key.namespace))]
    Get { resource: Resource, key: Key },
    /// Lists the objects of a resource in one namespace. Response: [`Response::Objects`].
    #[display("list {}{}", resource.plural(), flag(namespace))]
    List { resource: Resource, namespace: Arc<str> },
    /// Deletes an object. Response: [`Response::Done`].
    #[display("delete {object}")]
    Delete {
        object: ObjectId,
        /// The body, preconditions included.
        options: DeleteOptions,
    },
    /// Changes an object. Response: [`Response::Written`].
    Write(Write),
    /// Records an Event. Response: [`Response::Done`]; a failure has no effect on what follows.
    Event(EventRequest),
    /// Finds the plugin of a volume. Response: [`Response::Plugin`].
    #[display("find the plugin to {operation} {volume}")]
    FindPlugin { volume: ObjectId, operation: Operation },
    /// Queries an external provisioner's own check before a volume is deleted. Response: [`Response::Guard`].
    #[display("ask the provisioner whether to delete {volume}")]
    QueryGuard { volume: ObjectId },
    /// Deletes or recycles the storage behind a volume. Response: [`Response::Operation`].
    #[display("{operation} {volume}")]
    Operate { volume: ObjectId, operation: Operation },
    /// Queries the cloud provider for a node. Response: [`Response::Cloud`].
    #[display("query the cloud provider for {node}")]
    QueryCloud {
        node: ObjectId,
        /// `spec.providerID`; empty if unset.
        provider_id: Arc<str>,
    },
    /// Reads which resources are served. Response: [`Response::Discovered`].
    #[display("discover resources")]
    Discover,
    /// Lists the metadata of all objects of a resource in a namespace. Response: [`Response::Metadata`].
    #[display("list {resource}{}", flag(namespace))]
    ListContent {
        resource: Arc<ApiResource>,
        namespace: Arc<str>,
    },
    /// Deletes all objects of a resource in a namespace. Response: [`Response::Done`].
    #[display("delete all {resource}{}", flag(namespace))]
    DeleteCollection {
        resource: Arc<ApiResource>,
        namespace: Arc<str>,
        options: DeleteOptions,
    },
    /// Deletes one object of any resource. Response: [`Response::Done`].
    #[display("delete {resource}/{}{}", key.name, flag(&key.namespace))]
    DeleteContent {
        resource: Arc<ApiResource>,
        key: Key,
        options: DeleteOptions,
    },
}

/// kubectl's flag for a namespace.
fn flag(namespace: &str) -> String {
    match namespace {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    }
}

impl Request {
    pub const fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::Get { .. }
                | Self::List { .. }
                | Self::FindPlugin { .. }
                | Self::QueryGuard { .. }
                | Self::QueryCloud { .. }
                | Self::Discover
                | Self::ListContent { .. }
        )
    }

    pub const fn is_deletion(&self) -> bool {
        matches!(
            self,
            Self::Delete { .. } | Self::DeleteCollection { .. } | Self::DeleteContent { .. }
        )
    }

    /// The object that the request is about; `None` if it names none or is about an object of any resource.
    pub const fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Delete { object, .. }
            | Self::Write(Write { object, .. })
            | Self::Event(EventRequest { object, .. }) => Some(object),
            Self::FindPlugin { volume, .. } | Self::QueryGuard { volume } | Self::Operate { volume, .. } => {
                Some(volume)
            }
            Self::QueryCloud { node, .. } => Some(node),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{form} {subresource}{}{object}", if subresource.is_empty() { "" } else { " of " })]
pub struct Write {
    pub object: ObjectId,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: &'static str,
    pub form: Form,
    /// The expected state of the stored object. A patch contains it in its metadata; an update is based on
    /// the object that was read at that version.
    pub precondition: Preconditions,
    pub changes: Vec<FieldChange>,
}

impl Write {
    /// An update of the whole object as it was read, or of its subresource.
    pub(crate) fn update(
        object: &ObjectId,
        subresource: &'static str,
        precondition: Preconditions,
        changes: Vec<FieldChange>,
    ) -> Self {
        Self {
            object: object.clone(),
            subresource,
            form: Form::Update,
            precondition,
            changes,
        }
    }

    /// A strategic merge patch of the object with one change.
    pub(crate) fn patch(object: &ObjectId, precondition: Preconditions, change: FieldChange) -> Self {
        Self {
            form: Form::Patch(PatchType::Strategic),
            ..Self::update(object, "", precondition, vec![change])
        }
    }

    /// Checks that an object as it was read is the one that the write is about, at the expected
    /// resourceVersion.
    ///
    /// # Errors
    /// A conflict.
    pub fn check(&self, meta: &ObjectMeta) -> Result<(), StoreError> {
        let Preconditions {
            uid,
            resource_version,
        } = &self.precondition;
        let is_meant = meta.uid == self.object.uid && uid.as_ref().is_none_or(|uid| *uid == meta.uid);
        let is_version = |version: &ResourceVersion| *version == meta.resource_version;
        if is_meant && resource_version.as_ref().is_none_or(is_version) {
            return Ok(());
        }
        Err(StoreError::Conflict {
            message: format!("{} has changed", self.object),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Form {
    /// By a patch with the changes.
    #[display("patch")]
    Patch(PatchType),
    /// The whole object, as it was read, with the changes.
    #[display("update")]
    Update,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldChange {
    /// Sets `status.phase`.
    Phase(Arc<str>),
    /// Sets `status.message` of a volume.
    Message(Arc<str>),
    /// Sets the condition of this type in `status.conditions`.
    Condition(Condition),
    /// Replaces `status.conditions`.
    Conditions(Vec<Condition>),
    /// Appends a finalizer to `metadata.finalizers`.
    AddFinalizer(&'static str),
    /// Removes a finalizer from `metadata.finalizers`; the others keep their order.
    RemoveFinalizer(&'static str),
    /// Replaces `spec.finalizers` of a namespace.
    SpecFinalizers(Vec<Arc<str>>),
    /// Replaces `metadata.ownerReferences`.
    OwnerReferences(Vec<OwnerReference>),
    Label {
        key: &'static str,
        value: String,
    },
    Annotation {
        key: &'static str,
        value: String,
    },
    RemoveAnnotation(&'static str),
    /// Removes `spec.claimRef` of a volume.
    RemoveClaimRef,
    /// Removes `spec.claimRef.uid` of a volume, which stays reserved for the claim's name.
    RemoveClaimRefUid,
    /// Adds a taint to a node.
    AddTaint(Taint),
    /// Removes the taint of this key and effect from a node.
    RemoveTaint(Taint),
    /// Removes the Job of this uid from `status.active` of a CronJob.
    RemoveActive(Uid),
    /// Replaces the counts of finished pods in the status of a Job.
    JobCounts(Box<JobCounts>),
    /// Removes the reference to the Secret of this name from `secrets` of a ServiceAccount.
    RemoveSecretReference(Arc<str>),
    /// Replaces `status.reservedFor` of a ResourceClaim.
    ReservedFor(Vec<Consumer>),
    /// Removes `status.allocation` of a ResourceClaim.
    RemoveAllocation,
    /// Sets `status.deallocationRequested` of a ResourceClaim.
    RequestDeallocation,
    /// Sets `spec.replicas`.
    Replicas(i32),
}

impl FieldChange {
    /// Applies the change to a record as far as later steps of a controller read it: typed metadata, and the
    /// fields of volumes.
    pub fn apply(&self, record: &mut Record) {
        let is_metadata = self.apply_to_metadata(&mut record.meta);
        if is_metadata || record.persistent_volume().is_none() {
            return;
        }
        let Body::PersistentVolume(volume) = record.body_mut() else {
            return;
        };
        match self {
            Self::Phase(phase) => volume.phase = phase.clone().into(),
            Self::RemoveClaimRef => volume.claim_ref = None.into(),
            Self::RemoveClaimRefUid => {
                let mut claim = volume.claim_ref.known().cloned().flatten();
                claim.iter_mut().for_each(|claim| claim.uid = Uid::default());
                volume.claim_ref = claim.into();
            }
            Self::Annotation { key, .. } | Self::RemoveAnnotation(key) => {
                let value = match self {
                    Self::Annotation { value, .. } => Some(value.as_str().into()),
                    _ => None,
                };
                let mut annotations = volume.annotations.known().cloned().unwrap_or_default();
                match *key {
                    MIGRATED_TO => annotations.migrated_to = value,
                    BOUND_BY_CONTROLLER => annotations.bound_by_controller = value.is_some(),
                    _ => {}
                }
                volume.annotations = annotations.into();
            }
            _ => {}
        }
    }

    /// Applies a change of typed metadata. Returns whether it was one.
    pub fn apply_to_metadata(&self, meta: &mut ObjectMeta) -> bool {
        match self {
            Self::AddFinalizer(finalizer) => {
                if !meta.has_finalizer(finalizer) {
                    meta.finalizers.push((*finalizer).into());
                }
            }
            Self::RemoveFinalizer(finalizer) => meta.finalizers.retain(|name| **name != **finalizer),
            Self::OwnerReferences(references) => {
                meta.owner_references = references.iter().cloned().collect();
            }
            Self::Label { key, value } => {
                meta.labels.insert((*key).into(), value.as_str().into());
            }
            _ => return false,
        }
        true
    }
}

/// An Event to be recorded about an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("record event {reason} for {object}: {message}")]
pub struct EventRequest {
    pub object: ObjectId,
    /// Whether the type is `Warning`; `Normal` otherwise.
    pub is_warning: bool,
    /// The reason, such as `SuccessfulDelete`. Upstream's older controllers put whole sentences here.
    pub reason: Arc<str>,
    pub message: String,
}

impl EventRequest {
    pub(crate) fn new(object: &ObjectId, is_warning: bool, reason: &str, message: impl Into<String>) -> Self {
        Self {
            object: object.clone(),
            is_warning,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Work on the storage behind a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Operation {
    #[display("delete the storage of")]
    DeleteVolume,
    /// Erases the content of the storage.
    #[display("recycle the storage of")]
    RecycleVolume,
}

/// The response to one [`Request`].
#[derive(Clone, Debug, derive_more::TryInto)]
pub enum Response {
    /// The object as it is now.
    Object(Box<Record>),
    Objects(Vec<Record>),
    Metadata(Vec<SharedMeta>),
    Done,
    /// The object was written; its metadata in the server's response, if it has any.
    Written(Option<SharedMeta>),
    Discovered(Arc<Discovered>),
    Plugin(Plugin),
    Guard(Guard),
    Cloud(CloudResponse),
    Operation(Operated),
    Failed(StoreError),
}

impl Response {
    /// Why the request had no effect, if it had none.
    pub(crate) fn error(&self) -> Option<StoreError> {
        match self {
            Self::Failed(error) => Some(error.clone()),
            Self::Operation(Operated::Failed { message } | Operated::InUse { message }) => {
                Some(StoreError::Unknown {
                    message: message.clone(),
                })
            }
            _ => None,
        }
    }
}

/// The plugin that deletes or recycles a volume in this cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// Not known. Nothing is deleted.
    #[default]
    Unknown,
    /// A plugin of kube-controller-manager.
    InTree,
    External,
    /// None, or it could not be set up.
    Missing {
        message: String,
    },
}

/// The result of an external provisioner's check of one of its volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Not known. Nothing is deleted.
    #[default]
    Unknown,
    Allows,
    Forbids,
}

/// The result of an operation on the storage behind a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operated {
    Done,
    /// The storage is in use, so it could not be done yet.
    InUse {
        message: String,
    },
    Failed {
        message: String,
    },
}

/// The cloud provider's response about a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CloudResponse {
    /// The uid of the queried node.
    pub node_uid: Uid,
    /// Whether there is an instance for the node.
    pub exists: Cloud,
    /// Whether the instance is shut down; meaningless without an instance.
    pub is_shut_down: Cloud,
}

/// The cloud provider's result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cloud {
    Yes,
    No,
    /// The provider does not implement the check; upstream treats it as "no" for the shutdown check.
    NotImplemented,
    Failed(Arc<str>),
}

/// The preconditions that a request contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Upstream's preconditions.
    AsUpstream,
    /// Uid and resourceVersion, so that a stale decision fails instead of deleting another object.
    #[default]
    Strict,
}

/// The preconditions that upstream sends with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    Nothing,
    Uid,
    ResourceVersion,
}

impl Wire {
    /// Options of a delete with the preconditions that go over the wire for an object with this metadata.
    pub(crate) fn options(self, options: DeleteOptions, meta: &ObjectMeta, upstream: Sent) -> DeleteOptions {
        DeleteOptions {
            preconditions: self.preconditions(meta, upstream),
            ..options
        }
    }

    /// The preconditions that go over the wire for an object with this metadata.
    pub fn preconditions(self, meta: &ObjectMeta, upstream: Sent) -> Preconditions {
        self.sent(preconditions(meta), upstream)
    }

    /// Those of all preconditions that go over the wire.
    pub(crate) fn sent(self, mut all: Preconditions, upstream: Sent) -> Preconditions {
        if self == Self::AsUpstream {
            all.uid.take_if(|_| upstream != Sent::Uid);
            all.resource_version
                .take_if(|_| upstream != Sent::ResourceVersion);
        }
        all
    }
}

/// Uid and resourceVersion of an object, each if it is known.
pub fn preconditions(meta: &ObjectMeta) -> Preconditions {
    let version = &meta.resource_version;
    Preconditions {
        uid: (!meta.uid.is_empty()).then(|| meta.uid.clone()),
        resource_version: (!version.is_empty()).then(|| version.clone()),
    }
}

/// The server's own message if there is one: what upstream passes on in Events, conditions and errors.
pub(crate) fn server_message(error: &StoreError) -> String {
    match error {
        StoreError::Conflict { message }
        | StoreError::Invalid { message }
        | StoreError::Refused { message, .. }
        | StoreError::Unknown { message } => message.clone(),
        other => other.to_string(),
    }
}

/// The server's message about a request for this object, which is named if it was not found.
pub(crate) fn server_message_about(object: &ObjectId, error: &StoreError) -> String {
    if *error != StoreError::NotFound {
        return server_message(error);
    }
    let (resource, group) = (object.resource.plural(), object.resource.group());
    let dot = if group.is_empty() { "" } else { "." };
    format!("{resource}{dot}{group} {:?} not found", object.name)
}
