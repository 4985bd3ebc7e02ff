//! What was listed and watched of one resource, by namespace and name.
//!
//! A list stays as it came, shared by all copies of the controller, and what has changed since lies over it: a copy costs what has changed.

use std::{
    collections::{BTreeMap, btree_map},
    hash::BuildHasher as _,
    iter::Peekable,
    ops::Bound,
    sync::{Arc, OnceLock},
};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use kubegc_core::{ObjectMeta, StoreError};

use crate::fields::Record;

/// Namespace and name.
pub(super) type Key = (Arc<str>, Arc<str>);

/// All objects of one resource, or why they are not known.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Whether all objects are here.
    pub(super) listed: Result<(), StoreError>,
    /// Whether anything was said of the resource yet, be it an error.
    pub(super) is_told: bool,
    /// What was listed.
    base: Option<Arc<List>>,
    /// What has changed since of that, by its place there; `None` where it is gone.
    changed: BTreeMap<usize, Option<Arc<Record>>>,
    /// What has come since.
    added: BTreeMap<Key, Arc<Record>>,
}

impl Default for Table {
    fn default() -> Self {
        Self::NEW
    }
}

impl Table {
    /// Nothing was listed.
    pub(super) const NEW: Self = Self {
        listed: Err(StoreError::Unlisted),
        is_told: false,
        base: None,
        changed: BTreeMap::new(),
        added: BTreeMap::new(),
    };

    fn base(&self) -> &[Record] {
        self.base.as_deref().map_or(&[], |list| list.records.as_slice())
    }

    /// The object of this name.
    ///
    /// # Complexity
    /// O(log c) for `c` changes since the list; the first time O(n) for `n` objects.
    pub(super) fn get(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&Record> {
        match self.place_of(namespace, name) {
            Some(at) => match self.changed.get(&at) {
                Some(changed) => changed.as_deref(),
                None => self.base().get(at),
            },
            None if self.added.is_empty() => None,
            None => {
                let key = (Arc::clone(namespace), Arc::clone(name));
                self.added.get(&key).map(|added| &**added)
            }
        }
    }

    /// Where an object of this name was listed.
    fn place_of(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<usize> {
        self.base.as_deref()?.place_of(namespace, name)
    }

    /// Puts an object into the place of what is known of its name, which may be nothing.
    pub(super) fn put(&mut self, key: &Key, new: Option<Record>) {
        let new = new.map(Arc::new);
        match (self.place_of(&key.0, &key.1), new) {
            (Some(at), new) => {
                self.changed.insert(at, new);
            }
            (None, Some(new)) => {
                self.added.insert(key.clone(), new);
            }
            (None, None) => {
                self.added.remove(key);
            }
        }
        let changes = self.changed.len().saturating_add(self.added.len());
        if changes > self.base().len().saturating_add(CHANGES_MIN) {
            let all: Vec<Record> = self.values().cloned().collect();
            self.rest_on(all);
        }
    }

    /// Takes a list in the place of all that was known. It is as [`sorted`] has it.
    pub(super) fn rest_on(&mut self, records: Vec<Record>) {
        let list = List {
            records,
            by_name: OnceLock::new(),
        };
        self.base = Some(Arc::new(list));
        self.changed.clear();
        self.added.clear();
    }

    /// All objects, in order.
    pub(super) fn values(&self) -> Objects<'_> {
        Objects {
            base: Listed {
                records: self.base(),
                at: 0,
                changed: self.changed.range(..).peekable(),
            }
            .peekable(),
            added: self.added.range::<Key, _>(..).peekable(),
            within: None,
        }
    }

    /// The names of all objects, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.values().map(|record| key_of(&record.meta))
    }

    /// The objects of a namespace, in order.
    pub(super) fn of_namespace(&self, namespace: &str) -> Objects<'_> {
        self.with_prefix(&namespace.into(), "")
    }

    /// The objects of a namespace whose names begin like this, in order.
    pub(super) fn with_prefix(&self, namespace: &Arc<str>, prefix: &str) -> Objects<'_> {
        let from: Key = (Arc::clone(namespace), prefix.into());
        let base = self.base();
        let at = base.partition_point(|record| name_of(&record.meta) < (&from.0, &from.1));
        let rest = base.get(at..).unwrap_or_default();
        let within = rest.partition_point(|record| is_within(&from, name_of(&record.meta)));
        let records = base.get(..at.saturating_add(within)).unwrap_or_default();
        let added = self.added.range((Bound::Included(&from), Bound::Unbounded));
        Objects {
            base: Listed {
                records,
                at,
                changed: self.changed.range(at..).peekable(),
            }
            .peekable(),
            added: added.peekable(),
            within: Some(from),
        }
    }
}

/// A list as it came.
#[derive(Clone, Debug)]
struct List {
    /// In the order of namespace and name, each once.
    records: Vec<Record>,
    /// Where each stands, once somebody asks for a name.
    by_name: OnceLock<HashTable<usize>>,
}

impl List {
    fn place_of(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<usize> {
        let hash = |name: (&Arc<str>, &Arc<str>)| FixedState::default().hash_one(name);
        let hash_at = |at: &usize| {
            self.records
                .get(*at)
                .map_or(0, |record| hash(name_of(&record.meta)))
        };
        let by_name = self.by_name.get_or_init(|| {
            let mut by_name = HashTable::with_capacity(self.records.len());
            for at in 0..self.records.len() {
                by_name.insert_unique(hash_at(&at), at, hash_at);
            }
            by_name
        });
        let is_it = |at: &usize| {
            let record = self.records.get(*at);
            record.is_some_and(|record| name_of(&record.meta) == (namespace, name))
        };
        by_name.find(hash((namespace, name)), is_it).copied()
    }
}

/// So many changes lie over any list before there is a new one.
const CHANGES_MIN: usize = 1_000;

/// What was listed and is still there, as it is now, in the order of namespace and name.
#[derive(Clone, Debug)]
struct Listed<'a> {
    records: &'a [Record],
    at: usize,
    changed: Peekable<btree_map::Range<'a, usize, Option<Arc<Record>>>>,
}

impl<'a> Iterator for Listed<'a> {
    type Item = &'a Record;

    fn next(&mut self) -> Option<&'a Record> {
        loop {
            let at = self.at;
            let listed = self.records.get(at)?;
            self.at += 1;
            match self.changed.next_if(|(changed, _)| **changed == at) {
                None => return Some(listed),
                Some((_, Some(changed))) => return Some(changed),
                Some((_, None)) => {}
            }
        }
    }
}

/// Objects in the order of namespace and name.
#[derive(Clone, Debug)]
pub(super) struct Objects<'a> {
    base: Peekable<Listed<'a>>,
    added: Peekable<btree_map::Range<'a, Key, Arc<Record>>>,
    /// Of what has come since, only those of this namespace whose names begin like this. They stand together, and first.
    within: Option<Key>,
}

impl<'a> Iterator for Objects<'a> {
    type Item = &'a Record;

    fn next(&mut self) -> Option<&'a Record> {
        let listed = self.base.peek().map(|record| name_of(&record.meta));
        let added = self.added.peek().map(|((namespace, name), _)| (namespace, name));
        let within = self.within.as_ref();
        let added = added.filter(|name| within.is_none_or(|within| is_within(within, *name)));
        // No name is among both.
        match (listed, added) {
            (None, None) => None,
            (Some(listed), Some(added)) if added < listed => self.next_added(),
            (Some(_), _) => self.base.next(),
            (None, Some(_)) => self.next_added(),
        }
    }
}

impl<'a> Objects<'a> {
    fn next_added(&mut self) -> Option<&'a Record> {
        self.added.next().map(|(_, record)| &**record)
    }
}

/// The objects of a list in order, each once. Of a name that comes twice and not alike nothing is known, not even the uid.
pub(super) fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    let is_sorted = records.is_sorted_by(|a, b| name_of(&a.meta) < name_of(&b.meta));
    if !is_sorted {
        records.sort_by(|a, b| name_of(&a.meta).cmp(&name_of(&b.meta)));
        records.dedup_by(|next, kept| {
            let is_twice = name_of(&next.meta) == name_of(&kept.meta);
            if is_twice && next != kept {
                let meta = ObjectMeta::new(&kept.meta.namespace, &kept.meta.name, "");
                *kept = Record::unread_metadata(meta);
            }
            is_twice
        });
    }
    records
}

/// Whether a name is one of a namespace and begins like this.
fn is_within((of, prefix): &Key, (namespace, name): (&Arc<str>, &Arc<str>)) -> bool {
    namespace == of && name.starts_with(&**prefix)
}

/// Namespace and name of an object.
pub(super) fn key_of(meta: &ObjectMeta) -> Key {
    (Arc::clone(&meta.namespace), Arc::clone(&meta.name))
}

fn name_of(meta: &ObjectMeta) -> (&Arc<str>, &Arc<str>) {
    (&meta.namespace, &meta.name)
}
