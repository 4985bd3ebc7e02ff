//! Object storage: one table per resource, and the log of its changes.

use std::{
    collections::{BTreeMap, VecDeque, vec_deque::Iter},
    hash::BuildHasher,
    ops::Bound,
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table::Entry};

use crate::StoredObject;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

/// One change of one object.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub revision: u64,
    pub event_type: EventType,
    /// The object after the change. For a removed object: the last stored state, at the revision of the
    /// deletion.
    pub object: Arc<StoredObject>,
    /// The object before the change; `None` where it was created.
    pub previous: Option<Arc<StoredObject>>,
}

/// The objects of one resource in any version, by namespace and name. A hash table of pointers is smaller
/// than an ordered map, and a lookup among 100,000 names touches one of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    namespaces: BTreeMap<Arc<str>, HashTable<Arc<StoredObject>>>,
    len: usize,
    pub(crate) log: EventLog,
}

fn hash(name: &str) -> u64 {
    FixedState::default().hash_one(name)
}

fn hash_of(object: &Arc<StoredObject>) -> u64 {
    hash(&object.meta.name)
}

impl Table {
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<&Arc<StoredObject>> {
        let names = self.namespaces.get(namespace)?;
        names.find(hash(name), |object| *object.meta.name == *name)
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
        let has_name = |other: &Arc<StoredObject>| other.meta.name == object.meta.name;
        match names.entry(hash(&object.meta.name), has_name, hash_of) {
            Entry::Occupied(mut known) => Some(std::mem::replace(known.get_mut(), object)),
            Entry::Vacant(free) => {
                free.insert(object);
                self.len += 1;
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
        let names = self.namespaces.get_mut(namespace)?;
        let found = names.find_entry(hash(name), |object| *object.meta.name == *name);
        let (removed, _) = found.ok()?.remove();
        self.len -= 1;
        if names.is_empty() {
            self.namespaces.remove(namespace);
        } else if names.len() < names.capacity() / 8 {
            // A deleted namespace leaves no large table behind.
            names.shrink_to(names.len() * 2, hash_of);
        }
        Some(removed)
    }

    /// The objects of one namespace or of all, ordered by namespace and name.
    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        let bound = namespace.map_or(Bound::Unbounded, Bound::Included);
        let mut listed = Vec::new();
        for (_, names) in self.namespaces.range::<str, _>((bound, bound)) {
            // With the names next to the pointers, a comparison follows no pointer to an object.
            let named = names.iter().map(|object| (&*object.meta.name, object));
            let mut named: Vec<(&str, &Arc<StoredObject>)> = named.collect();
            named.sort_unstable_by_key(|(name, _)| *name);
            listed.extend(named.into_iter().map(|(_, object)| Arc::clone(object)));
        }
        listed
    }

    /// The namespaces that contain objects, in order.
    pub(crate) fn namespaces(&self) -> Vec<Arc<str>> {
        self.namespaces.keys().cloned().collect()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }
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

    /// The revision of the newest change, retained or dropped.
    pub(crate) fn newest(&self) -> u64 {
        self.events.back().map_or(self.forgotten, |event| event.revision)
    }

    /// Drops everything up to a revision.
    pub(crate) fn forget(&mut self, through: u64) {
        let count = self.events.partition_point(|event| event.revision <= through);
        if let Some(newest) = self.events.drain(..count).next_back() {
            self.forgotten = newest.revision;
        }
    }

    /// The changes after a revision; `None` where some of them were dropped.
    pub(crate) fn since(&self, revision: u64) -> Option<Iter<'_, Event>> {
        (revision >= self.forgotten).then(|| self.retained_since(revision))
    }

    pub(crate) fn retained_since(&self, revision: u64) -> Iter<'_, Event> {
        // A watch that keeps up requests the tail: check the last change before searching.
        let start = match self.events.back() {
            Some(last) if last.revision > revision => {
                self.events.partition_point(|event| event.revision <= revision)
            }
            _ => self.events.len(),
        };
        self.events.range(start..)
    }
}
