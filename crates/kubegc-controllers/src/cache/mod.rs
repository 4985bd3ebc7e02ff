//! Cached objects with secondary indexes: the counterpart of client-go's shared informer caches.

mod index;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use kubegc_core::{
    ObjectMeta, SharedMeta, StoreError,
    record::{ObjectId, Record, Resource},
};

pub use index::Index;

use self::{index::Entries, table::Table};
use crate::Missing;

/// Namespace and name of an object; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{namespace}{}{name}", if namespace.is_empty() { "" } else { "/" })]
pub struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self::new("", name)
    }
}

impl From<&ObjectMeta> for Key {
    fn from(meta: &ObjectMeta) -> Self {
        Self::new(Arc::clone(&meta.namespace), Arc::clone(&meta.name))
    }
}

impl From<&ObjectId> for Key {
    fn from(object: &ObjectId) -> Self {
        Self::new(Arc::clone(&object.namespace), Arc::clone(&object.name))
    }
}

impl From<&SharedMeta> for Key {
    fn from(meta: &SharedMeta) -> Self {
        Self::from(&**meta)
    }
}

/// A change of one object. The cache has the new state already.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub resource: Resource,
    pub key: &'a Key,
    /// The state before; `None` if the object was not known.
    pub old: Option<&'a Record>,
    /// The state now; `None` if the object no longer exists.
    pub new: Option<&'a Record>,
}

/// All objects that controllers read.
///
/// A resource is *listed* if all its objects are known, *failed* if the list failed, and neither before the
/// first list. Clones share the lists: the cost of a clone depends on the changes since.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    tables: BTreeMap<Resource, Table>,
    indexes: Vec<(&'static Index, Entries)>,
}

impl Cache {
    pub fn new(
        resources: impl IntoIterator<Item = Resource>,
        indexes: impl IntoIterator<Item = &'static Index>,
    ) -> Self {
        let mut all: Vec<(&'static Index, Entries)> = Vec::new();
        for index in indexes {
            if !all.iter().any(|(known, _)| std::ptr::eq(*known, index)) {
                all.push((index, Entries::default()));
            }
        }
        Self {
            tables: resources
                .into_iter()
                .map(|resource| (resource, Table::default()))
                .collect(),
            indexes: all,
        }
    }

    pub fn has(&self, resource: Resource) -> bool {
        self.tables.contains_key(&resource)
    }

    pub fn resources(&self) -> impl Iterator<Item = Resource> + '_ {
        self.tables.keys().copied()
    }

    fn table(&self, resource: Resource) -> &Table {
        static EMPTY: LazyLock<Table> = LazyLock::new(Table::default);
        self.tables.get(&resource).unwrap_or(&EMPTY)
    }

    /// The object of this name; `None` if none is known.
    ///
    /// # Complexity
    /// O(log n) for `n` objects.
    pub fn get(&self, resource: Resource, key: &Key) -> Option<&Record> {
        self.table(resource).get(key)
    }

    /// The object of this name; `None` if there is none.
    pub(crate) fn find(&self, resource: Resource, key: &Key) -> Result<Option<&Record>, Missing> {
        match self.get(resource, key) {
            None => self.require_in(resource, &key.namespace).map(|()| None),
            found => Ok(found),
        }
    }

    /// All objects of a resource that are known, by namespace and name.
    pub fn records(&self, resource: Resource) -> impl Iterator<Item = &Record> {
        self.table(resource).records()
    }

    /// The keys of all objects of a resource that are known, in order.
    pub fn keys(&self, resource: Resource) -> impl Iterator<Item = Key> + '_ {
        self.records(resource).map(|record| Key::from(&record.meta))
    }

    /// The objects of a resource in a namespace, by name.
    pub fn in_namespace<'a>(
        &'a self,
        resource: Resource,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = &'a Record> + use<'a> {
        self.with_prefix(resource, namespace, "")
    }

    /// The objects of a resource in a namespace whose names start with a prefix, by name.
    pub(crate) fn with_prefix<'a>(
        &'a self,
        resource: Resource,
        namespace: &Arc<str>,
        prefix: &str,
    ) -> impl Iterator<Item = &'a Record> + use<'a> {
        self.table(resource).with_prefix(namespace, prefix)
    }

    /// Returns whether all objects of a resource are known.
    ///
    /// # Errors
    /// The reason why they are not.
    pub fn require(&self, resource: Resource) -> Result<(), Missing> {
        let listed = &self.table(resource).listed;
        listed
            .as_ref()
            .map_err(|error| Missing::list(resource, error))
            .copied()
    }

    /// Returns whether all objects of a resource in a namespace are known.
    ///
    /// # Errors
    /// The reason why they are not.
    pub fn require_in(&self, resource: Resource, namespace: &str) -> Result<(), Missing> {
        match self.table(resource).listed_in.contains(namespace) {
            true => Ok(()),
            false => self.require(resource),
        }
    }

    /// Returns whether all objects of these resources are known.
    ///
    /// # Errors
    /// The reason for the first of them that is not.
    pub fn require_all(&self, resources: &[Resource]) -> Result<(), Missing> {
        resources.iter().try_for_each(|resource| self.require(*resource))
    }

    /// Checks that no object of a namespace is under the empty name of an index, where those are found whose
    /// field was not read.
    pub(crate) fn require_read(
        &self,
        index: &'static Index,
        namespace: &Arc<str>,
        field: &'static str,
    ) -> Result<(), Missing> {
        let unread = self.first_indexed(index, &Key::new(Arc::clone(namespace), ""));
        unread.map_or(Ok(()), |record| {
            Err(Missing::field(&record.id(index.resource()), field))
        })
    }

    /// Returns whether the resource was listed at least once, even if the list failed.
    pub(crate) fn is_attempted(&self, resource: Resource) -> bool {
        self.table(resource).is_attempted
    }

    /// The keys of the objects under a key of an index, in order.
    ///
    /// # Complexity
    /// O(log n + k) for `k` objects; the first use of an index is O(n log n). An index that the cache was not
    /// built with costs O(n log n) each time.
    pub fn indexed(&self, index: &'static Index, key: &Key) -> Vec<Key> {
        self.look_up(index, key, usize::MAX, |object| Some(object.clone()))
    }

    /// The objects under a key of an index, in any namespace, by namespace and name. The complexity is that
    /// of [`indexed`](Self::indexed).
    pub fn indexed_records(&self, index: &'static Index, key: &Key) -> Vec<&Record> {
        let table = self.table(index.resource());
        self.look_up(index, key, usize::MAX, |object| table.get(object))
    }

    /// The first object under a key of an index, by namespace and name. The complexity is that of
    /// [`indexed`](Self::indexed) for one object.
    pub(crate) fn first_indexed(&self, index: &'static Index, key: &Key) -> Option<&Record> {
        let table = self.table(index.resource());
        let first = self.look_up(index, key, 1, |object| table.get(object));
        first.first().copied()
    }

    fn look_up<T>(
        &self,
        index: &'static Index,
        key: &Key,
        at_most: usize,
        found: impl Fn(&Key) -> Option<T>,
    ) -> Vec<T> {
        let unregistered = Entries::default();
        let mut registered = self.indexes.iter();
        let known = registered.find(|(known, _)| std::ptr::eq(*known, index));
        let entries = known.map_or(&unregistered, |(_, entries)| entries);
        let under = entries.under(index, || self.records(index.resource()), key);
        under.filter_map(found).take(at_most).collect()
    }

    /// Sets whether all objects of a resource are known. Returns whether that has changed.
    pub fn set_listed(&mut self, resource: Resource, listed: Result<(), StoreError>) -> bool {
        let Some(table) = self.tables.get_mut(&resource) else {
            return false;
        };
        let has_changed = !table.is_attempted || table.listed != listed;
        table.is_attempted = true;
        table.listed = listed;
        has_changed
    }

    /// Sets the namespaces in which all objects of a resource are known, even if its list fails.
    pub fn set_listed_in(&mut self, resource: Resource, namespaces: BTreeSet<Arc<str>>) {
        if let Some(table) = self.tables.get_mut(&resource) {
            table.listed_in = namespaces;
        }
    }

    /// Replaces all objects of a resource. A name that occurs twice with different contents becomes unknown.
    pub fn replace(&mut self, resource: Resource, records: Vec<Record>) {
        for (index, entries) in &mut self.indexes {
            if index.resource() == resource {
                *entries = Entries::default();
            }
        }
        if let Some(table) = self.tables.get_mut(&resource) {
            table.replace(records);
        }
    }

    /// Replaces or removes an object. Returns the previous one.
    pub fn put(&mut self, resource: Resource, key: &Key, new: Option<Record>) -> Option<Record> {
        let table = self.tables.get_mut(&resource)?;
        let is_removed = new.is_none();
        let old = table.put(key, new);
        let indexes = self.indexes.iter_mut();
        let mut indexes = indexes
            .filter(|(index, _)| index.resource() == resource)
            .peekable();
        if indexes.peek().is_some() {
            let new = if is_removed { None } else { table.get(key) };
            indexes.for_each(|(index, entries)| entries.apply(index, old.as_ref(), new));
        }
        old
    }
}

#[cfg(test)]
mod tests;
