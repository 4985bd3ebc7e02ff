//! Rows in the order of their creation, found by id.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

/// Rows by creation.
#[derive(Clone, Debug)]
pub(super) struct Table<T> {
    rows: BTreeMap<u64, T>,
    ids: BTreeMap<Arc<str>, u64>,
    arrivals: u64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            ids: BTreeMap::new(),
            arrivals: 0,
        }
    }
}

impl<T> Table<T> {
    /// Adds a row under a new id; returns the row if the id exists.
    pub(super) fn insert(&mut self, id: Arc<str>, row: T) -> Result<u64, T> {
        if self.ids.contains_key(&id) {
            return Err(row);
        }
        self.arrivals += 1;
        self.ids.insert(id, self.arrivals);
        self.rows.insert(self.arrivals, row);
        Ok(self.arrivals)
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<T> {
        self.ids.remove(id).and_then(|key| self.rows.remove(&key))
    }

    /// The row with exactly this id.
    pub(super) fn find(&self, id: &str) -> Option<u64> {
        self.ids.get(id).copied()
    }

    pub(super) fn get(&self, key: u64) -> Option<&T> {
        self.rows.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        self.rows.get_mut(&key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.rows.iter().map(|(key, row)| (*key, row))
    }
}

/// All entries whose keys have this prefix.
pub(super) fn beginning_with<'a, V>(
    map: &'a BTreeMap<Arc<str>, V>,
    beginning: &'a str,
) -> impl Iterator<Item = (&'a Arc<str>, &'a V)> {
    let bounds = (Bound::Included(beginning), Bound::Unbounded);
    map.range::<str, _>(bounds)
        .take_while(move |(text, _)| text.starts_with(beginning))
}
