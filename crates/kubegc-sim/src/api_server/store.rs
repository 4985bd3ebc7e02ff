//! Object storage: one table per resource, two hash lookups per object, and the log of changes.

use std::{collections::VecDeque, hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use crate::StoredObject;

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The object was created.
    Added,
    /// The object changed.
    Modified,
    /// The object was removed.
    Deleted,
}

/// One change of one object.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision of the change.
    pub revision: u64,
    /// The type of the change.
    pub event_type: EventType,
    /// The object after the change. For a removed object: the last stored state, at the revision of the
    /// deletion.
    pub object: Arc<StoredObject>,
    /// The object before the change; `None` where it was created.
    pub previous: Option<Arc<StoredObject>>,
}

/// The objects of one resource, in any version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    namespaces: HashMap<Arc<str>, Names, FixedState>,
    len: usize,
    pub(crate) log: EventLog,
}

/// The objects of one namespace, by name.
#[derive(Clone, Debug, Default)]
struct Names(HashTable<Arc<StoredObject>>);

impl Names {
    /// The objects, ordered by name.
    fn list(&self) -> impl Iterator<Item = Arc<StoredObject>> {
        // With the names next to the pointers, a comparison follows no pointer to an object and its metadata.
        let mut named: Vec<(&str, &Arc<StoredObject>)> =
            self.0.iter().map(|object| (&*object.meta.name, object)).collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        named.into_iter().map(|(_, object)| Arc::clone(object))
    }
}

impl Table {
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<&Arc<StoredObject>> {
        self.namespaces
            .get(namespace)?
            .0
            .find(hash(name), |object| *object.meta.name == *name)
    }

    /// Stores an object under its own name and returns the object that it replaces.
    pub(crate) fn put(&mut self, object: Arc<StoredObject>) -> Option<Arc<StoredObject>> {
        let names = match self.namespaces.get_mut(&object.meta.namespace) {
            Some(names) => names,
            None => self
                .namespaces
                .entry(Arc::clone(&object.meta.namespace))
                .or_default(),
        };
        let hash_of = |object: &Arc<StoredObject>| hash(&object.meta.name);
        let entry = names.0.entry(
            hash(&object.meta.name),
            |stored| stored.meta.name == object.meta.name,
            hash_of,
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(mut stored) => {
                Some(std::mem::replace(stored.get_mut(), object))
            }
            hashbrown::hash_table::Entry::Vacant(free) => {
                free.insert(object);
                self.len += 1;
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
        let names = self.namespaces.get_mut(namespace)?;
        let entry = names
            .0
            .find_entry(hash(name), |object| *object.meta.name == *name)
            .ok()?;
        let (object, _) = entry.remove();
        self.len -= 1;
        // A deleted namespace leaves no large table behind.
        if names.0.len() < names.0.capacity() / 8 {
            names
                .0
                .shrink_to(names.0.len() * 2, |object| hash(&object.meta.name));
        }
        if names.0.is_empty() {
            self.namespaces.remove(namespace);
        }
        Some(object)
    }

    /// The objects of one namespace or of all, ordered by namespace and name.
    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        let mut namespaces: Vec<(&Arc<str>, &Names)> = match namespace {
            Some(namespace) => self.namespaces.get_key_value(namespace).into_iter().collect(),
            None => self.namespaces.iter().collect(),
        };
        namespaces.sort_unstable_by_key(|(namespace, _)| *namespace);
        namespaces
            .into_iter()
            .flat_map(|(_, names)| names.list())
            .collect()
    }

    /// The namespaces that contain objects, in order.
    pub(crate) fn namespaces(&self) -> Vec<Arc<str>> {
        let mut namespaces: Vec<_> = self.namespaces.keys().cloned().collect();
        namespaces.sort_unstable();
        namespaces
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

fn hash(name: &str) -> u64 {
    FixedState::default().hash_one(name)
}

/// The changes of one resource in their order, as far as they are retained.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    events: VecDeque<Event>,
    /// The newest revision that was dropped.
    pub(crate) forgotten: u64,
}

impl EventLog {
    pub(crate) fn push(&mut self, event: Event, events_max: usize) {
        if self.events.len() >= events_max
            && let Some(oldest) = self.events.pop_front()
        {
            self.forgotten = oldest.revision;
        }
        if events_max == 0 {
            self.forgotten = event.revision;
        } else {
            self.events.push_back(event);
        }
    }

    /// The revision of the oldest retained change.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.events.front().map(|event| event.revision)
    }

    /// Drops everything up to a revision.
    pub(crate) fn forget(&mut self, through: u64) {
        while self.events.front().is_some_and(|event| event.revision <= through) {
            if let Some(oldest) = self.events.pop_front() {
                self.forgotten = oldest.revision;
            }
        }
    }

    /// The changes after a revision; `None` where some of them were dropped.
    pub(crate) fn since(&self, revision: u64) -> Option<std::collections::vec_deque::Iter<'_, Event>> {
        if revision < self.forgotten {
            return None;
        }
        // A watch that keeps up requests the tail: check the last change before searching.
        let start = match self.events.back() {
            Some(last) if last.revision > revision => {
                self.events.partition_point(|event| event.revision <= revision)
            }
            _ => self.events.len(),
        };
        Some(self.events.range(start..))
    }

    pub(crate) fn at(&self, revision: u64) -> Option<&Event> {
        let found = self
            .events
            .binary_search_by_key(&revision, |event| event.revision)
            .ok()?;
        self.events.get(found)
    }
}
