//! The API server's operations that a collector needs, as one small trait.
//!
//! The simulator implements it in memory, and the kube adapter over HTTP; embedders can implement it over any
//! store. Implementations report failures as [`StoreError`]s.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{
    ApiResource, Catalog, DeleteOptions, ObjectMeta, ResourceVersion, deletion::Deleted, error::StoreError,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.content_type())]
pub enum PatchType {
    /// RFC 7396.
    Merge,
    /// Kubernetes' own format, with merge keys and directives; refused for custom resources.
    Strategic,
    /// RFC 6902.
    Json,
}

impl PatchType {
    /// The media type on the wire.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for PatchType {
    /// The media type.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.content_type())
    }
}

/// The address of one object: the resource, the namespace (empty for cluster-scoped ones) and the name.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// The resource, in the version of the request.
    pub resource: &'a ApiResource,
    /// Namespace; empty for cluster-scoped resources.
    pub namespace: &'a str,
    pub name: &'a str,
}

/// The objects of one resource at one version of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaList {
    /// Their metadata, in the store's order.
    pub items: Vec<ObjectMeta>,
    /// The version from which a watch continues.
    pub resource_version: ResourceVersion,
}

/// The complete objects of one resource at one version of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectList {
    /// Each object as JSON.
    pub items: Vec<Vec<u8>>,
    /// The version from which a watch continues.
    pub resource_version: ResourceVersion,
}

/// A watch event. `T` is the object: its metadata, or the complete object as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem<T = ObjectMeta> {
    /// The object was added or modified.
    Applied(T),
    /// The object was deleted; this is its last state.
    Deleted(T),
    /// Everything up to this version has been delivered.
    Bookmark(ResourceVersion),
}

#[derive(Clone, Debug, Default)]
pub struct Discovered {
    pub catalog: Catalog,
    /// The error of each group version that could not be discovered, by its apiVersion: its kinds are
    /// unknown, not absent. The empty apiVersion means discovery as a whole.
    pub failed: BTreeMap<String, String>,
}

impl From<Catalog> for Discovered {
    fn from(catalog: Catalog) -> Self {
        Self {
            catalog,
            failed: BTreeMap::new(),
        }
    }
}

/// The changes of one resource, in their order. `T` is as in [`WatchItem`].
#[async_trait]
pub trait WatchStream<T = ObjectMeta>: Send {
    /// Waits for the next change; `None` when the watch has ended and must be restarted. Cancel safe.
    ///
    /// # Errors
    /// [`StoreError::Expired`] requires a relist; every other error a retry.
    async fn next(&mut self) -> Option<Result<WatchItem<T>, StoreError>>;
}

/// An API server, with the operations that a collector needs.
///
/// # Assumptions
/// Reads are never older than the events that the watch has delivered, as with upstream's live reads. A write
/// that fails with [`StoreError::Unknown`] may have been applied; every other error means that nothing
/// changed.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// The currently served kinds. An error if discovery failed completely.
    async fn discover(&self) -> Result<Discovered, StoreError>;

    /// One object's metadata.
    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError>;

    /// The metadata of all objects of a resource, or of one namespace. The list is consistent: it contains
    /// every write that was finished before the call.
    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError>;

    /// The metadata of all objects of a resource, for starting a watch. The list has the version `at_least`
    /// or a newer one, and any version where `at_least` is empty, so a store may serve it from a cache. By
    /// default it is a consistent [`list`](Self::list).
    async fn list_for_watch(
        &self,
        resource: &ApiResource,
        _at_least: &ResourceVersion,
    ) -> Result<MetaList, StoreError> {
        self.list(resource, None).await
    }

    /// The changes of a resource since a version.
    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError>;

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError>;

    /// Patches one object's metadata and returns the result.
    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError>;

    /// Writes one object back as it was read at a version, with other finalizers. Only releases before 1.15
    /// remove finalizers in this way.
    async fn replace_finalizers(
        &self,
        _address: Address<'_>,
        _read_at: &ResourceVersion,
        _finalizers: &[std::sync::Arc<str>],
    ) -> Result<ObjectMeta, StoreError> {
        not_supported("replacing an object")
    }

    /// One complete object as JSON.
    async fn get_object(&self, _address: Address<'_>) -> Result<Vec<u8>, StoreError> {
        not_supported("reading whole objects")
    }

    /// All complete objects of a resource as JSON, or those of one namespace.
    async fn list_objects(
        &self,
        _resource: &ApiResource,
        _namespace: Option<&str>,
    ) -> Result<ObjectList, StoreError> {
        not_supported("listing whole objects")
    }

    /// The changes of a resource since a version, with complete objects as JSON.
    async fn watch_objects(
        &self,
        _resource: &ApiResource,
        _since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream<Vec<u8>>>, StoreError> {
        not_supported("watching whole objects")
    }

    /// Patches a subresource such as `status` or `finalize`.
    async fn patch_subresource(
        &self,
        _address: Address<'_>,
        _subresource: &str,
        _format: PatchType,
        _body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        not_supported("patching subresources")
    }

    /// Replaces a subresource such as `finalize` by its JSON form, and returns the object. The version in it
    /// must be the stored one.
    ///
    /// Some subresources, such as `finalize` of namespaces, do not support patches.
    async fn replace_subresource(
        &self,
        _address: Address<'_>,
        _subresource: &str,
        _body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        not_supported("replacing subresources")
    }

    /// Deletes all objects of a resource in a namespace.
    async fn delete_collection(
        &self,
        _resource: &ApiResource,
        _namespace: &str,
        _options: &DeleteOptions,
    ) -> Result<(), StoreError> {
        not_supported("deleting collections")
    }
}

const fn not_supported<T>(operation: &'static str) -> Result<T, StoreError> {
    Err(StoreError::NotSupported { operation })
}
