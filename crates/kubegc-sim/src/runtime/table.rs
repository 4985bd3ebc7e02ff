//! Rows in the order of their creation, found by id or by a prefix of it.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use super::error::BadId;

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
    pub(super) fn key(&self, id: &str) -> Option<u64> {
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

    /// The row with this id, or the only row whose id has this prefix.
    ///
    /// # Upstream
    /// containerd uses a prefix index for ids, so that `crictl rm 3f2` works.
    pub(super) fn find(&self, id: &str) -> Result<Option<u64>, BadId> {
        if id.is_empty() {
            return Err(BadId::Empty);
        }
        if let Some(key) = self.ids.get(id) {
            return Ok(Some(*key));
        }
        let mut like = beginning_with(&self.ids, id);
        match (like.next(), like.next()) {
            (Some(_), Some(_)) => Err(BadId::Ambiguous),
            (only, _) => Ok(only.map(|(_, key)| *key)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_whole_or_by_a_beginning_that_is_theirs_alone() {
        let mut table = Table::default();
        for id in ["abc", "abcd", "bcd"] {
            assert!(table.insert(id.into(), id).is_ok());
        }
        assert_eq!(table.insert("abc".into(), "again"), Err("again"));
        for (id, expected) in [
            ("", Err(BadId::Empty)),
            ("a", Err(BadId::Ambiguous)),
            ("abc", Ok(Some(1))),
            ("abcd", Ok(Some(2))),
            ("abcde", Ok(None)),
            ("b", Ok(Some(3))),
            ("c", Ok(None)),
        ] {
            assert_eq!(table.find(id), expected, "{id}");
        }
        assert_eq!(table.remove("abc"), Some("abc"));
        assert_eq!(table.find("abc"), Ok(Some(2)));
        assert_eq!(table.remove("abc"), None);
    }
}
