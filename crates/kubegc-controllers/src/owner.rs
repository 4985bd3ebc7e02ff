//! Lookups by controller reference, which several controllers share.

use std::sync::Arc;

use kubegc_core::{
    ObjectMeta, OwnerReference,
    record::{Record, Resource},
};

use crate::{Context, Index, Key, Missing};

/// The first owner reference that names a managing controller.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let mut references = meta.owner_references.iter();
    references.find(|reference| reference.controller == Some(true))
}

/// Adds the key of the object of this kind that controls a record.
pub(crate) fn push_controller(record: &Record, kind: &str, keys: &mut Vec<Key>) {
    if let Some(owner) = controller_of(&record.meta).filter(|owner| &*owner.kind == kind) {
        keys.push(Key::new(
            Arc::clone(&record.meta.namespace),
            Arc::clone(&owner.name),
        ));
    }
}

/// The objects that an owner controls, out of an index that [`push_controller`] fills.
pub(crate) fn controlled<'a>(
    cx: &Context<'a>,
    index: &'static Index,
    key: &Key,
    owner: &ObjectMeta,
) -> impl Iterator<Item = &'a Record> + use<'a> {
    let uid = owner.uid.clone();
    let records = cx.cache.indexed_records(index, key).into_iter();
    records.filter(move |record| controller_of(&record.meta).is_some_and(|owner| owner.uid == uid))
}

/// Pods whose owners may not be known, by namespace.
pub(crate) static UNREAD_PODS: Index =
    Index::new("pods with unread metadata", Resource::Pods, |record, keys| {
        if !record.has_whole_meta {
            keys.push(Key::new(Arc::clone(&record.meta.namespace), ""));
        }
    });

/// Whether the controllers of all pods of a namespace are known.
///
/// # Errors
/// Pods are not listed, or the metadata of one was not read.
pub(crate) fn require_pod_owners(cx: &Context<'_>, namespace: &Arc<str>) -> Result<(), Missing> {
    cx.cache.require(Resource::Pods)?;
    let unread = cx
        .cache
        .indexed(&UNREAD_PODS, &Key::new(Arc::clone(namespace), ""));
    match unread.first() {
        None => Ok(()),
        Some(name) => Err(Missing::Metadata {
            object: kubegc_core::record::ObjectId {
                resource: Resource::Pods,
                namespace: Arc::clone(namespace),
                name: Arc::clone(name),
                uid: kubegc_core::Uid::default(),
            },
        }),
    }
}
