//! All records of a graph, and an index from uids to them ([G-1](crate::rules#g-1)).
//!
//! Almost every uid has one record. It has several if an object is observed in two versions, if a reference
//! names it wrongly, or if a detached node keeps the record that the next node would have.

use std::ops;

use foldhash::fast::FixedState;
use indexmap::IndexSet;

use kubegc_core::Uid;

use super::{
    index::{Gap, Index},
    names::{GraphKind, NameBuffer},
    record::{CURRENT, Coordinates, DUPLICATE, Key, NodeId, RECORDS_MAX, Record, SHARED},
};

/// Records by position, with reused positions.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    records: Vec<Record>,
    free: Vec<u32>,
    /// Positions by the hash of the uid. The records of one uid are all in it.
    index: Index,
    names: NameBuffer,
    /// Uids that are not canonical UUIDs. One for each distinct uid.
    texts: IndexSet<Uid, FixedState>,
}

impl ops::Index<u32> for Records {
    type Output = Record;

    #[inline]
    fn index(&self, at: u32) -> &Record {
        &self.records[at as usize]
    }
}

impl ops::IndexMut<u32> for Records {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Record {
        &mut self.records[at as usize]
    }
}

impl Records {
    /// Interns coordinates and counts one use.
    pub(super) fn intern(&mut self, kind: GraphKind, name: &str, uid: &Uid) -> Coordinates {
        let key = Key::of_uuid(uid).unwrap_or_else(|| Key::of_text(self.texts.insert_full(uid.clone()).0));
        let hash = key.hash();
        let mut sibling = None;
        let found = self.index.find(hash, |at| {
            let record = &self.records[at as usize];
            if record.key() != key {
                return false;
            }
            let is_it = !record.has(DUPLICATE) && self.names.at(record.name) == (kind, name.as_bytes());
            if !is_it {
                sibling = Some(at);
            }
            is_it
        });
        let gap = match found {
            Ok(at) => {
                self[at].uses += 1;
                return Coordinates(at);
            }
            Err(gap) => gap,
        };
        let mut flags = 0;
        if let Some(sibling) = sibling {
            self[sibling].set(SHARED);
            flags = SHARED;
        }
        let name = self.names.push(kind, name);
        Coordinates(self.insert(gap, key, name, flags))
    }

    /// Moves one use of coordinates to a new record, for a node.
    #[cold]
    pub(super) fn duplicate(&mut self, coordinates: Coordinates) -> u32 {
        let original = &mut self[coordinates.0];
        original.set(SHARED);
        original.uses -= 1;
        let (key, name) = (original.key(), original.name);
        let found = self.index.find(key.hash(), |_| false);
        let gap = found.expect_err("nothing is accepted");
        self.insert(gap, key, name, SHARED | DUPLICATE)
    }

    /// Puts a record into a free position, or at the end. It is a part of the hot `intern`.
    #[inline(always)]
    fn insert(&mut self, gap: Gap, key: Key, name: u32, flags: u8) -> u32 {
        let record = Record::new(key, name, flags);
        let at = if let Some(at) = self.free.pop() {
            self[at] = record;
            at
        } else {
            let at = self.records.len();
            assert!(at < RECORDS_MAX, "a graph holds fewer than 2^28 - 1 records");
            self.records.push(record);
            at as u32
        };
        self.index.insert(gap, at);
        at
    }

    /// Counts one more use.
    pub(super) fn retain(&mut self, coordinates: Coordinates) {
        self[coordinates.0].uses += 1;
    }

    /// Counts one use less and frees an unused record.
    pub(super) fn release(&mut self, coordinates: Coordinates) {
        let at = coordinates.0;
        let record = &mut self[at];
        record.uses -= 1;
        if record.uses > 0 {
            return;
        }
        let (hash, name) = (record.key().hash(), record.name);
        self.index.remove(hash, at);
        self.free.push(at);
        self.names.forget(name);
        if self.names.wants_compaction() {
            self.compact_names();
        }
    }

    /// The current node of the coordinates' uid.
    #[inline]
    pub(super) fn node(&self, coordinates: Coordinates) -> Option<u32> {
        let record = &self[coordinates.0];
        if record.has(CURRENT) {
            return Some(coordinates.0);
        }
        if record.has(SHARED) {
            return self.other_node(coordinates);
        }
        None
    }

    #[cold]
    fn other_node(&self, coordinates: Coordinates) -> Option<u32> {
        self.node_of_key(self.key(coordinates))
    }

    pub(super) fn node_of_uid(&self, uid: &Uid) -> Option<u32> {
        let key = Key::of_uuid(uid).or_else(|| Some(Key::of_text(self.texts.get_index_of(uid)?)))?;
        self.node_of_key(key)
    }

    fn node_of_key(&self, key: Key) -> Option<u32> {
        let is_it = |at| self[at].has(CURRENT) && self[at].key() == key;
        self.index.find(key.hash(), is_it).ok()
    }

    /// All current nodes, by position.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let records = (0..).zip(&self.records);
        let current = records.filter(|(_, record)| record.has(CURRENT));
        current.map(|(at, _)| NodeId(at))
    }

    pub(super) fn same_uid(&self, a: Coordinates, b: Coordinates) -> bool {
        a == b || self.key(a) == self.key(b)
    }

    /// Returns whether a node has exactly these coordinates.
    pub(super) fn is(&self, node: u32, coordinates: Coordinates) -> bool {
        node == coordinates.0
            || self[node].has(DUPLICATE)
                && self.same_uid(Coordinates(node), coordinates)
                && self.kind_and_name(Coordinates(node)) == self.kind_and_name(coordinates)
    }

    pub(super) fn key(&self, coordinates: Coordinates) -> Key {
        self[coordinates.0].key()
    }

    pub(super) fn uid(&self, coordinates: Coordinates) -> Uid {
        let key = self.key(coordinates);
        match key.text() {
            None => Uid::from_uuid(key.bytes),
            Some(at) => self.texts[at].clone(),
        }
    }

    pub(super) fn kind(&self, coordinates: Coordinates) -> GraphKind {
        self.kind_and_name(coordinates).0
    }

    pub(super) fn name(&self, coordinates: Coordinates) -> &str {
        // Only whole strings are stored.
        std::str::from_utf8(self.kind_and_name(coordinates).1).unwrap_or_default()
    }

    pub(super) fn kind_and_name(&self, coordinates: Coordinates) -> (GraphKind, &[u8]) {
        self.names.at(self[coordinates.0].name)
    }

    /// Reads the first place in the index of a uid with this hash.
    pub(super) fn read_home(&self, hash: u32) -> u32 {
        self.index.read_home(hash)
    }

    /// A record with this hash. It is read from the index alone, so it can be one of several.
    pub(super) fn likely(&self, hash: u32) -> Option<u32> {
        self.index.find(hash, |_| true).ok()
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.records.reserve(additional);
        self.index.reserve(additional);
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.compact_names();
        self.records.shrink_to_fit();
        self.free.shrink_to_fit();
        self.index.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    fn compact_names(&mut self) {
        let mut fresh = NameBuffer::default();
        for record in self.records.iter_mut().filter(|record| record.uses > 0) {
            record.name = fresh.copy(&self.names, record.name);
        }
        self.names = fresh;
    }
}
