//! Metadata of an object: owner references, finalizers, deletion state, versions.

use std::{collections::BTreeMap, ops::DerefMut, sync::Arc};

use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::{
    ObjectRef, Timestamp, Uid,
    identity::{kubectl_name, split_api_version},
};

/// The finalizer for which the garbage collector releases the dependents before the object is deleted.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer for which the garbage collector deletes the blocking dependents before the object.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

/// One entry of `metadata.ownerReferences`.
///
/// The two flags distinguish *absent* from *false*: upstream compares them in this way when it checks whether
/// references changed between two reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{api_version}/{kind} {name} (uid {uid})")]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase")
)]
pub struct OwnerReference {
    /// Group and version of the owner's kind, as the author of the reference wrote it.
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
    /// Whether the owner is the managing controller; `None` if the field is absent.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub controller: Option<bool>,
    /// Whether the dependent blocks a foreground deletion of the owner; `None` if the field is absent.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// The owner in kubectl's form, without a namespace: `deployment/web`. See [`kubectl_name`].
    pub fn short(&self) -> String {
        kubectl_name(split_api_version(&self.api_version).0, &self.kind, "", &self.name)
    }

    /// The identity of the owner in this namespace; empty for a cluster-scoped one.
    pub fn object_ref(self, namespace: Arc<str>) -> ObjectRef {
        ObjectRef {
            kind: self.kind,
            api_version: self.api_version,
            namespace,
            name: self.name,
            uid: self.uid,
        }
    }

    /// Whether this reference blocks a foreground deletion of its owner. Absent means no.
    pub fn is_blocking(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }
}

/// The references of one object. One reference is stored in place: few objects have more.
pub type OwnerReferences = SmallVec<[OwnerReference; 1]>;

/// An opaque version of one object, compared for equality only.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display, derive_more::Debug)]
#[debug("ResourceVersion({self})")]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct ResourceVersion(SmolStr);

impl ResourceVersion {
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the version is unknown. Upstream then sends no precondition on it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// The metadata of one object that matters to garbage collection.
///
/// Labels are retained because intents select by them; annotations and managed fields are not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase", default)
)]
pub struct ObjectMeta {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
    /// Version of this state of the object; empty if unknown.
    pub resource_version: ResourceVersion,
    /// Generation of the desired state; 0 if the kind has none.
    pub generation: i64,
    /// The creation time, if known.
    pub creation_timestamp: Option<Timestamp>,
    /// The time of the delete request (plus the grace period, for pods); `None` while the object is not being
    /// deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period in seconds at the time of the delete request.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Names that must all be removed before the object can be removed, in stored order.
    pub finalizers: Vec<Arc<str>>,
    /// The owners, in stored order.
    pub owner_references: OwnerReferences,
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

impl ObjectMeta {
    /// Metadata of a live object without owners, finalizers or labels.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: Uid::new(uid),
            ..Self::default()
        }
    }

    /// Whether its deletion was requested.
    pub const fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The controller reference: the first owner reference with `controller: true`.
    pub fn controller(&self) -> Option<&OwnerReference> {
        let mut references = self.owner_references.iter();
        references.find(|reference| reference.controller == Some(true))
    }

    #[inline]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| &**name == finalizer)
    }
}

/// An object's kind with its metadata, in the form of the API's `PartialObjectMetadata`. Read from JSON, all
/// other fields of the object are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase")
)]
pub struct PartialObjectMetadata {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub metadata: ObjectMeta,
}

impl PartialObjectMetadata {
    pub fn new(api_version: &str, kind: &str, metadata: ObjectMeta) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            metadata,
        }
    }

    pub fn object_ref(&self) -> ObjectRef {
        ObjectRef {
            api_version: Arc::clone(&self.api_version),
            kind: Arc::clone(&self.kind),
            namespace: Arc::clone(&self.metadata.namespace),
            name: Arc::clone(&self.metadata.name),
            uid: self.metadata.uid.clone(),
        }
    }

    /// A reference to this object as an owner, which is its controller and is blocked by the dependent in a
    /// foreground deletion.
    pub fn controller_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: Arc::clone(&self.api_version),
            kind: Arc::clone(&self.kind),
            name: Arc::clone(&self.metadata.name),
            uid: self.metadata.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// Metadata that all copies share: a copy costs no allocation. Mutable access copies the metadata if it is
/// shared.
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, SharedMeta};
/// let observed = SharedMeta::from(ObjectMeta::new("shop", "web", "u-1"));
/// let mut changed = observed.clone();
/// changed.finalizers.push("example.com/hold".into());
/// assert!(observed.finalizers.is_empty());
/// ```
#[derive(
    Clone, PartialEq, Eq, Hash, derive_more::Deref, derive_more::Debug, derive_more::From, derive_more::Into,
)]
#[debug("{_0:?}")]
#[deref(forward)]
pub struct SharedMeta(Arc<ObjectMeta>);

impl DerefMut for SharedMeta {
    fn deref_mut(&mut self) -> &mut ObjectMeta {
        Arc::make_mut(&mut self.0)
    }
}

impl PartialEq<ObjectMeta> for SharedMeta {
    fn eq(&self, other: &ObjectMeta) -> bool {
        *self.0 == *other
    }
}

impl From<ObjectMeta> for SharedMeta {
    fn from(meta: ObjectMeta) -> Self {
        Self(Arc::new(meta))
    }
}

impl From<SharedMeta> for ObjectMeta {
    fn from(meta: SharedMeta) -> Self {
        Arc::unwrap_or_clone(meta.0)
    }
}
