//! A collection at an earlier revision: the current one with every later change undone.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::KindId;
use kubegc_sim::{ApiServer, StoredObject};

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

/// The objects of a resource, or of one namespace, as they were at a revision, ordered by namespace and name.
/// `None` if the changes since then are no longer retained.
///
/// Objects that were inserted without an event count as having been there always.
///
/// # Complexity
/// O((n + m) log m) for n objects and m changes since.
pub(super) fn objects_at(
    server: &ApiServer,
    kind: KindId,
    namespace: Option<&str>,
    revision: u64,
) -> Option<Vec<Arc<StoredObject>>> {
    let mut then: BTreeMap<Key, Option<Arc<StoredObject>>> = BTreeMap::new();
    if revision < server.revision() {
        let events = server.events_since(kind, revision).ok()?;
        for event in events {
            let meta = &event.object.meta;
            if namespace.is_none_or(|namespace| *meta.namespace == *namespace) {
                // The first change holds the state before all of them.
                then.entry(key(&event.object))
                    .or_insert_with(|| event.previous.clone());
            }
        }
    }
    let now = server.objects(kind, namespace);
    if then.is_empty() {
        return Some(now);
    }
    let untouched = now.into_iter().filter(|object| !then.contains_key(&key(object)));
    let mut objects: Vec<_> = untouched.collect();
    objects.extend(then.values().flatten().cloned());
    objects.sort_by(|a, b| page_key(a).cmp(&page_key(b)));
    Some(objects)
}

fn key(object: &StoredObject) -> Key {
    (Arc::clone(&object.meta.namespace), Arc::clone(&object.meta.name))
}

pub(super) fn page_key(object: &StoredObject) -> (&str, &str) {
    (&object.meta.namespace, &object.meta.name)
}
