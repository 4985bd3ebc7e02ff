//! Secondary indexes over cached objects.

use std::{collections::BTreeSet, fmt, sync::Arc, sync::OnceLock};

use kubegc_core::record::{Record, Resource};

use super::{Key, table::Records};

/// An index: finds the objects of one resource by keys that are computed from them.
///
/// Each controller declares its indexes as statics next to the code that uses them. A key has a namespace, so
/// that objects are found by the namespace and name of another object.
pub struct Index {
    name: &'static str,
    resource: Resource,
    keys: fn(&Record, &mut Vec<Key>),
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

impl Index {
    /// An index with a unique name, such as `pods by claim`. `keys` adds the keys under which an object is
    /// found; duplicates are allowed.
    #[must_use]
    pub const fn new(name: &'static str, resource: Resource, keys: fn(&Record, &mut Vec<Key>)) -> Self {
        Self { name, resource, keys }
    }

    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The resource of the objects that are found.
    #[must_use]
    pub const fn resource(&self) -> Resource {
        self.resource
    }

    /// The keys under which an object is found.
    #[must_use]
    pub fn keys_of(&self, record: &Record) -> Vec<Key> {
        let mut keys = Vec::new();
        (self.keys)(record, &mut keys);
        keys
    }

    /// The keys under which a changed object was or is found.
    #[must_use]
    pub fn keys_of_change(&self, change: &super::Change<'_>) -> Vec<Key> {
        let mut keys = Vec::new();
        for record in change.old.into_iter().chain(change.new) {
            (self.keys)(record, &mut keys);
        }
        keys
    }
}

/// Namespace and name of the key, then of the object.
type Entry = (Arc<str>, Arc<str>, Arc<str>, Arc<str>);

/// The entries of one index. They are built on first use and updated from then on.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(OnceLock<BTreeSet<Entry>>);

impl Names {
    /// Namespaces and names of the objects under a key, in order.
    pub(super) fn under<'a, 'r>(
        &'a self,
        index: &Index,
        records: impl FnOnce() -> Records<'r>,
        key: &Key,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)> {
        let entries = self.0.get_or_init(|| {
            let mut entries: Vec<Entry> = records()
                .flat_map(|record| entries(index, Some(record)))
                .collect();
            // A tree is built fastest from sorted entries.
            entries.sort_unstable();
            entries.into_iter().collect()
        });
        let (namespace, name) = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        let from = (
            Arc::clone(&namespace),
            Arc::clone(&name),
            Arc::from(""),
            Arc::from(""),
        );
        entries
            .range(from..)
            .take_while(move |(under, key, ..)| *under == namespace && *key == name)
            .map(|(_, _, namespace, name)| (namespace, name))
    }

    /// Updates the entries for a change of one object.
    pub(super) fn apply(&mut self, index: &Index, old: Option<&Record>, new: Option<&Record>) {
        let Some(gathered) = self.0.get_mut() else {
            return;
        };
        let (old, new) = (entries(index, old), entries(index, new));
        if old != new {
            for entry in &old {
                gathered.remove(entry);
            }
            gathered.extend(new);
        }
    }
}

fn entries(index: &Index, record: Option<&Record>) -> Vec<Entry> {
    let Some(record) = record else {
        return Vec::new();
    };
    let (namespace, name) = (&record.meta.namespace, &record.meta.name);
    let keys = index.keys_of(record).into_iter();
    keys.map(|key| (key.namespace, key.name, Arc::clone(namespace), Arc::clone(name)))
        .collect()
}
