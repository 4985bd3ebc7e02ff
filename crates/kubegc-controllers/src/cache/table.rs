//! The objects of one resource, by namespace and name.
//!
//! Clones of a cache share a list, and later changes are an overlay: the cost of a clone depends on the
//! overlay. A list that is not shared is changed itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{ObjectMeta, StoreError, record::Record};

use super::Key;

/// A list is rebuilt if its overlay has at least this many changes, and more than the list has objects.
const CHANGES_MIN: usize = 1_000;

#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Whether all objects are known, or why not.
    pub(super) listed: Result<(), StoreError>,
    /// Namespaces whose objects are all known although the list failed.
    pub(super) listed_in: BTreeSet<Arc<str>>,
    pub(super) is_attempted: bool,
    /// The last list.
    base: Arc<BTreeMap<Key, Record>>,
    /// The objects that have changed since; `None` if they no longer exist.
    changed: BTreeMap<Key, Option<Record>>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            listed: Err(StoreError::Unlisted),
            listed_in: BTreeSet::new(),
            is_attempted: false,
            base: Arc::default(),
            changed: BTreeMap::new(),
        }
    }
}

impl Table {
    pub(super) fn get(&self, key: &Key) -> Option<&Record> {
        match self.changed.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.base.get(key),
        }
    }

    pub(super) fn put(&mut self, key: &Key, new: Option<Record>) -> Option<Record> {
        if self.changed.is_empty()
            && let Some(list) = Arc::get_mut(&mut self.base)
        {
            return match new {
                Some(new) => list.insert(key.clone(), new),
                None => list.remove(key),
            };
        }
        let changed = self.changed.insert(key.clone(), new);
        let old = changed.unwrap_or_else(|| self.base.get(key).cloned());
        if self.changed.len() > self.base.len().saturating_add(CHANGES_MIN) {
            let all: Vec<Record> = self.records().cloned().collect();
            self.replace(all);
        }
        old
    }

    /// Of a name that occurs twice with different contents, the uid becomes unknown too.
    pub(super) fn replace(&mut self, records: Vec<Record>) {
        let mut records: Vec<_> = records
            .into_iter()
            .map(|record| (Key::from(&record.meta), record))
            .collect();
        records.sort_by(|(a, _), (b, _)| a.cmp(b));
        records.dedup_by(|(key, next), (kept_key, kept)| {
            let is_twice = key == kept_key;
            if is_twice && next != kept {
                *kept = Record::unreadable(ObjectMeta::new(&key.namespace, &key.name, ""));
            }
            is_twice
        });
        // A tree is built fastest from sorted entries.
        self.base = Arc::new(records.into_iter().collect());
        self.changed.clear();
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.from(&Key::cluster("")).map(|(_, record)| record)
    }

    /// The objects of a namespace whose names start with a prefix, in order.
    pub(super) fn with_prefix<'a>(
        &'a self,
        namespace: &Arc<str>,
        prefix: &str,
    ) -> impl Iterator<Item = &'a Record> + use<'a> {
        let from = Key::new(Arc::clone(namespace), prefix);
        let records = self.from(&from);
        let within = records
            .take_while(move |(key, _)| key.namespace == from.namespace && key.name.starts_with(&*from.name));
        within.map(|(_, record)| record)
    }

    /// The objects from a key on, in order.
    fn from<'a>(&'a self, from: &Key) -> impl Iterator<Item = (&'a Key, &'a Record)> + use<'a> {
        let mut base = self.base.range(from..).peekable();
        let mut changed = self.changed.range(from..).peekable();
        let next = move || {
            let is_changed = match (base.peek(), changed.peek()) {
                (Some((listed, _)), Some((changed, _))) => changed <= listed,
                (_, changed) => changed.is_some(),
            };
            if !is_changed {
                return base.next().map(|(key, record)| (key, Some(record)));
            }
            let (key, record) = changed.next()?;
            base.next_if(|(listed, _)| *listed == key);
            Some((key, record.as_ref()))
        };
        std::iter::from_fn(next).filter_map(|(key, record)| Some((key, record?)))
    }
}
