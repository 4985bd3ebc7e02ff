//! Typed records of the objects that controllers read: metadata and, by kind, the relevant fields.
//!
//! Readers of dumps, the simulated API server and live drivers build [`Record`]s; controllers only read
//! records. A field that could not be read is [`Field::Unread`], and no controller makes a decision based on
//! it. A field that the object omits has Go's zero value, as in upstream's decoder.

mod apps;
mod batch;
mod network;
mod node;
mod pod;
mod resource;
mod security;
mod storage;

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

pub use apps::{ControllerRevision, DaemonSet, Deployment, DeploymentStrategy, IntOrPercent, ReplicaSet};
pub use batch::{ClaimRetentionPolicy, CronJob, Job, JobCounts, StatefulSet};
pub use network::{Endpoints, IpAddress, ParentRef, Service, ServiceCidr};
pub use node::{Lease, Namespace, Node, Taint};
pub use pod::{Consumer, Pod, PodVolume, ResourceClaim, Toleration, VolumeSource};
pub use resource::{Body, Resource};
pub use security::{Certificate, CertificateSigningRequest, ConfigMap, Secret, ServiceAccount};
pub use storage::{
    ClaimRef, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource, VolumeAnnotations,
    VolumeAttachment,
};

use crate::{ObjectMeta, SharedMeta, Timestamp, Uid};

/// A field of an object: its value, or the fact that it could not be read.
///
/// The default is the known zero value of `T`: upstream's decoder returns it for a field that the object
/// omits.
///
/// # Examples
/// ```
/// use kubegc_core::record::Field;
/// let replicas: Field<i32> = Field::default();
/// assert_eq!(replicas.known(), Some(&0));
/// assert_eq!(Field::<i32>::Unread.known(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::From)]
pub enum Field<T> {
    #[from]
    Known(T),
    /// The field is missing from the dump, or its value has the wrong type.
    Unread,
}

impl<T: Default> Default for Field<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}

impl<T> Field<T> {
    /// The value; `None` if it was not read.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unread => None,
        }
    }

    pub const fn is_unread(&self) -> bool {
        matches!(self, Self::Unread)
    }

    /// Converts a known value.
    pub fn map<R>(self, convert: impl FnOnce(T) -> R) -> Field<R> {
        match self {
            Self::Known(value) => Field::Known(convert(value)),
            Self::Unread => Field::Unread,
        }
    }
}

/// The identity of one object. Its display form is kubectl's: `job.batch/report -n shop`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub resource: Resource,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Uid; empty if it is unknown.
    pub uid: Uid,
}

impl ObjectId {
    pub fn new(resource: Resource, meta: &ObjectMeta) -> Self {
        Self {
            resource,
            namespace: Arc::clone(&meta.namespace),
            name: Arc::clone(&meta.name),
            uid: meta.uid.clone(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.resource.kubectl_name(), self.name)?;
        match &*self.namespace {
            "" => Ok(()),
            namespace => write!(f, " -n {namespace}"),
        }
    }
}

/// The fields of one object that any controller reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub meta: SharedMeta,
    /// Whether all of [`meta`](Self::meta) was read. Otherwise owner references, finalizers and times may be
    /// missing from it.
    pub has_whole_meta: bool,
    /// The fields of the kind. Clones of a record share them, and so do objects with equal fields.
    pub body: Arc<Body>,
}

impl Record {
    /// An object whose metadata and fields were read.
    pub fn new(meta: impl Into<SharedMeta>, body: impl Into<Arc<Body>>) -> Self {
        Self {
            meta: meta.into(),
            has_whole_meta: true,
            body: body.into(),
        }
    }

    /// An object whose metadata only was read.
    pub fn metadata_only(meta: impl Into<SharedMeta>) -> Self {
        Self::new(meta, Body::unread())
    }

    /// An object whose metadata could be read only in part.
    pub fn unreadable(meta: impl Into<SharedMeta>) -> Self {
        Self {
            meta: meta.into(),
            has_whole_meta: false,
            body: Body::unread(),
        }
    }

    /// Mutable access to the fields of the kind. Copies them if they are shared.
    pub fn body_mut(&mut self) -> &mut Body {
        Arc::make_mut(&mut self.body)
    }

    pub fn id(&self, resource: Resource) -> ObjectId {
        ObjectId::new(resource, &self.meta)
    }
}

impl Body {
    /// [`Body::Unread`], shared: most objects of a cluster have no other body.
    pub fn unread() -> Arc<Self> {
        static UNREAD: LazyLock<Arc<Body>> = LazyLock::new(Arc::default);
        Arc::clone(&UNREAD)
    }
}

/// An entry of `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition {
    /// `type`, such as `Complete`.
    pub condition_type: Arc<str>,
    /// `status`: `True`, `False`, `Unknown`, or any other string.
    pub status: Arc<str>,
    pub reason: Arc<str>,
    pub message: Arc<str>,
    /// `lastTransitionTime`; `None` if unset.
    pub last_transition_time: Option<Timestamp>,
    /// `lastUpdateTime` of certificate signing requests; `None` if unset.
    pub last_update_time: Option<Timestamp>,
    /// `observedGeneration`; 0 if unset.
    pub observed_generation: i64,
}

impl Condition {
    /// A condition with this type and status; all other fields are empty.
    pub fn new(condition_type: &str, status: &str) -> Self {
        Self {
            condition_type: condition_type.into(),
            status: status.into(),
            ..Self::default()
        }
    }

    pub fn is_true(&self) -> bool {
        &*self.status == "True"
    }
}
