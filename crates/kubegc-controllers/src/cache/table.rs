//! The objects of one resource, by namespace and name.
//!
//! Clones of a cache share a list, and later changes are an overlay: the cost of a clone depends on the
//! overlay. A list that is not shared is changed itself.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map},
    hash::BuildHasher as _,
    iter::Peekable,
    ops::Bound,
    sync::{Arc, OnceLock},
};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use kubegc_core::{ObjectMeta, StoreError, record::Record};

use super::Key;

/// All objects of one resource that are known.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Whether all objects are known, or why not.
    pub(super) listed: Result<(), StoreError>,
    /// Namespaces whose objects are all known although the list failed.
    pub(super) listed_in: BTreeSet<Arc<str>>,
    pub(super) is_attempted: bool,
    /// The last list.
    base: Option<Arc<List>>,
    /// The objects of the list that have changed since, by their position in it; `None` if they no longer
    /// exist.
    changed: BTreeMap<usize, Option<Arc<Record>>>,
    /// The objects that were added since.
    added: BTreeMap<Key, Arc<Record>>,
}

impl Default for Table {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Table {
    /// Nothing was listed.
    pub(super) const EMPTY: Self = Self {
        listed: Err(StoreError::Unlisted),
        listed_in: BTreeSet::new(),
        is_attempted: false,
        base: None,
        changed: BTreeMap::new(),
        added: BTreeMap::new(),
    };

    fn base(&self) -> &[Listed] {
        self.base.as_deref().map_or(&[], |list| list.objects.as_slice())
    }

    /// The object of this name.
    ///
    /// # Complexity
    /// O(log c) for `c` changes since the list; the first time O(n) for `n` objects.
    pub(super) fn get(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&Record> {
        match self.position_of(namespace, name) {
            Some(at) => match self.changed.get(&at) {
                Some(changed) => changed.as_deref(),
                None => self.base().get(at)?.record.as_ref(),
            },
            None if self.added.is_empty() => None,
            None => {
                let key = Key::new(Arc::clone(namespace), Arc::clone(name));
                self.added.get(&key).map(|added| &**added)
            }
        }
    }

    /// The position of an object of this name in the list.
    fn position_of(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<usize> {
        self.base.as_deref()?.position_of(namespace, name)
    }

    pub(super) fn put(&mut self, key: &Key, new: Option<Record>) {
        match (self.position_of(&key.namespace, &key.name), new) {
            (Some(at), new) => match self.base.as_mut().and_then(Arc::get_mut) {
                Some(list) if self.changed.is_empty() => list.put(at, new),
                _ => drop(self.changed.insert(at, new.map(Arc::new))),
            },
            (None, Some(new)) => {
                self.added.insert(key.clone(), Arc::new(new));
            }
            (None, None) => {
                self.added.remove(key);
            }
        }
        let removed = self.base.as_deref().map_or(0, |list| list.removed);
        let changes = self.changed.len().saturating_add(self.added.len());
        if removed > (self.base().len() / 2).saturating_add(CHANGES_MIN)
            && let Some(list) = self.base.as_mut().and_then(Arc::get_mut)
            && self.changed.is_empty()
        {
            list.shrink();
        } else if changes > self.base().len().saturating_add(CHANGES_MIN) {
            let all: Vec<Record> = self.records().cloned().collect();
            self.replace(all);
        }
    }

    /// Replaces everything by a list that [`sorted`] made.
    pub(super) fn replace(&mut self, records: Vec<Record>) {
        let objects = records.into_iter().map(|record| Listed {
            namespace: Arc::clone(&record.meta.namespace),
            name: Arc::clone(&record.meta.name),
            record: Some(record),
        });
        let list = List {
            objects: objects.collect(),
            removed: 0,
            by_name: OnceLock::new(),
        };
        self.base = Some(Arc::new(list));
        self.changed.clear();
        self.added.clear();
    }

    /// All objects, in order.
    pub(super) fn records(&self) -> Records<'_> {
        Records {
            base: Existing {
                objects: self.base(),
                at: 0,
                changed: self.changed.range(..).peekable(),
            }
            .peekable(),
            added: self.added.range::<Key, _>(..).peekable(),
            within: None,
        }
    }

    /// The objects of a namespace whose names start with a prefix, in order.
    pub(super) fn with_prefix(&self, namespace: &Arc<str>, prefix: &str) -> Records<'_> {
        let from = Key::new(Arc::clone(namespace), prefix);
        let base = self.base();
        let at = base.partition_point(|listed| listed.key() < (&from.namespace, &from.name));
        let rest = base.get(at..).unwrap_or_default();
        let within = rest.partition_point(|listed| is_within(&from, listed.key()));
        let objects = base.get(..at.saturating_add(within)).unwrap_or_default();
        let added = self.added.range((Bound::Included(&from), Bound::Unbounded));
        Records {
            base: Existing {
                objects,
                at,
                changed: self.changed.range(at..).peekable(),
            }
            .peekable(),
            added: added.peekable(),
            within: Some(from),
        }
    }
}

/// One object of a list; without a record if it was removed from a list that no clone shares.
#[derive(Clone, Debug)]
struct Listed {
    namespace: Arc<str>,
    name: Arc<str>,
    record: Option<Record>,
}

impl Listed {
    fn key(&self) -> (&Arc<str>, &Arc<str>) {
        (&self.namespace, &self.name)
    }
}

#[derive(Clone, Debug)]
struct List {
    /// By namespace and name, each once.
    objects: Vec<Listed>,
    /// The number of objects without a record.
    removed: usize,
    /// Positions by name, built on first use.
    by_name: OnceLock<HashTable<u32>>,
}

impl List {
    fn put(&mut self, at: usize, new: Option<Record>) {
        if let Some(listed) = self.objects.get_mut(at) {
            let (was_present, is_present) = (listed.record.is_some(), new.is_some());
            listed.record = new;
            match (was_present, is_present) {
                (true, false) => self.removed = self.removed.saturating_add(1),
                (false, true) => self.removed = self.removed.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Drops the objects without a record, in place: a copy of a long list would double its memory.
    fn shrink(&mut self) {
        self.objects.retain(|listed| listed.record.is_some());
        self.objects.shrink_to_fit();
        self.removed = 0;
        self.by_name = OnceLock::new();
    }

    fn position_of(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<usize> {
        let hash = |name: (&Arc<str>, &Arc<str>)| FixedState::default().hash_one(name);
        let hash_at = |at: &u32| {
            self.objects
                .get(*at as usize)
                .map_or(0, |listed| hash(listed.key()))
        };
        let by_name = self.by_name.get_or_init(|| {
            let mut by_name = HashTable::with_capacity(self.objects.len());
            // More than `u32::MAX` objects do not fit in memory.
            for at in (0..self.objects.len()).map_while(|at| u32::try_from(at).ok()) {
                by_name.insert_unique(hash_at(&at), at, hash_at);
            }
            by_name
        });
        let has_name = |at: &u32| {
            let listed = self.objects.get(*at as usize);
            listed.is_some_and(|listed| listed.key() == (namespace, name))
        };
        by_name
            .find(hash((namespace, name)), has_name)
            .map(|at| *at as usize)
    }
}

/// A list is rebuilt if its overlay has at least this many changes, and more than the list has objects, or if
/// this many and half of its objects were removed.
const CHANGES_MIN: usize = 1_000;

/// The objects of the list that still exist, in their present state, in order.
#[derive(Clone, Debug)]
struct Existing<'a> {
    objects: &'a [Listed],
    at: usize,
    changed: Peekable<btree_map::Range<'a, usize, Option<Arc<Record>>>>,
}

impl<'a> Iterator for Existing<'a> {
    type Item = &'a Record;

    fn next(&mut self) -> Option<&'a Record> {
        loop {
            let at = self.at;
            let listed = self.objects.get(at)?;
            self.at += 1;
            let record = match self.changed.next_if(|(changed, _)| **changed == at) {
                None => listed.record.as_ref(),
                Some((_, changed)) => changed.as_deref(),
            };
            if record.is_some() {
                return record;
            }
        }
    }
}

/// Objects by namespace and name.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    base: Peekable<Existing<'a>>,
    added: Peekable<btree_map::Range<'a, Key, Arc<Record>>>,
    /// Only new objects of this namespace whose names start like this. They come first.
    within: Option<Key>,
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a Record;

    fn next(&mut self) -> Option<&'a Record> {
        let listed = self.base.peek().map(|record| name_of(&record.meta));
        let added = self.added.peek().map(|(key, _)| (&key.namespace, &key.name));
        let within = self.within.as_ref();
        let added = added.filter(|name| within.is_none_or(|within| is_within(within, *name)));
        // No name is in both.
        match (listed, added) {
            (None, None) => None,
            (Some(listed), Some(added)) if added < listed => self.next_added(),
            (Some(_), _) => self.base.next(),
            (None, Some(_)) => self.next_added(),
        }
    }
}

impl<'a> Records<'a> {
    fn next_added(&mut self) -> Option<&'a Record> {
        self.added.next().map(|(_, record)| &**record)
    }
}

/// The objects of a list by namespace and name, each once. A name that occurs twice with different contents
/// becomes unknown, its uid included.
pub(crate) fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    let is_sorted = records.is_sorted_by(|a, b| name_of(&a.meta) < name_of(&b.meta));
    if !is_sorted {
        records.sort_by(|a, b| name_of(&a.meta).cmp(&name_of(&b.meta)));
        records.dedup_by(|next, kept| {
            let is_twice = name_of(&next.meta) == name_of(&kept.meta);
            if is_twice && next != kept {
                let meta = ObjectMeta::new(&kept.meta.namespace, &kept.meta.name, "");
                *kept = Record::unreadable(meta);
            }
            is_twice
        });
    }
    records
}

/// Returns whether a name is in a namespace and starts with a prefix.
fn is_within(within: &Key, (namespace, name): (&Arc<str>, &Arc<str>)) -> bool {
    *namespace == within.namespace && name.starts_with(&*within.name)
}

fn name_of(meta: &ObjectMeta) -> (&Arc<str>, &Arc<str>) {
    (&meta.namespace, &meta.name)
}
