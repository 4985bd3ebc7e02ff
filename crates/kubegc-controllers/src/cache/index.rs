//! Secondary indexes over cached objects.

use std::{collections::BTreeSet, sync::OnceLock};

use kubegc_core::record::{Record, Resource};

use super::Key;

/// An index: finds the objects of one resource by keys that are computed from them.
///
/// Each controller declares its indexes as statics next to the code that uses them. A key has a namespace, so
/// that objects are found by the namespace and name of another object.
#[derive(Debug)]
pub struct Index {
    resource: Resource,
    keys: fn(&Record, &mut Vec<Key>),
}

impl Index {
    /// `keys` adds the keys under which an object of the resource is found; duplicates are allowed.
    pub const fn new(resource: Resource, keys: fn(&Record, &mut Vec<Key>)) -> Self {
        Self { resource, keys }
    }

    pub const fn resource(&self) -> Resource {
        self.resource
    }

    pub fn keys_of(&self, record: &Record) -> Vec<Key> {
        let mut keys = Vec::new();
        (self.keys)(record, &mut keys);
        keys
    }

    /// The keys under which a changed object was or is found.
    pub fn keys_of_change(&self, change: &super::Change<'_>) -> Vec<Key> {
        let mut keys = Vec::new();
        for record in change.old.into_iter().chain(change.new) {
            (self.keys)(record, &mut keys);
        }
        keys
    }
}

/// The entries of one index: its keys, each with the key of an object. They are built on first use and
/// updated from then on.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries(OnceLock<BTreeSet<(Key, Key)>>);

impl Entries {
    /// The keys of the objects under a key, in order.
    pub(super) fn under<'a, 'r, R: Iterator<Item = &'r Record>>(
        &'a self,
        index: &Index,
        records: impl FnOnce() -> R,
        key: &Key,
    ) -> impl Iterator<Item = &'a Key> {
        let entries = self.0.get_or_init(|| {
            let entries = records().flat_map(|record| entries(index, Some(record)));
            entries.collect()
        });
        let from = (key.clone(), Key::cluster(""));
        let key = key.clone();
        let range = entries.range(from..).take_while(move |(under, _)| *under == key);
        range.map(|(_, object)| object)
    }

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

fn entries(index: &Index, record: Option<&Record>) -> Vec<(Key, Key)> {
    let Some(record) = record else {
        return Vec::new();
    };
    let object = Key::from(&record.meta);
    let keys = index.keys_of(record).into_iter();
    keys.map(|key| (key, object.clone())).collect()
}
