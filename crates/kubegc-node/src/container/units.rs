//! Evict units: the dead containers of one pod and container name, the newest first
//! ([N2.9](crate::rules#n2-9)).

use std::{cmp::Reverse, ops::Range, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashSet, HashTable};
use kubegc_core::{Timestamp, Uid, node_facts::Container};

use crate::Order;

/// The fields of a dead container that the limits use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dead {
    pub(super) created_at: Timestamp,
    /// Its index in the listing.
    pub(super) at: u32,
    /// The index of its unit while containers are added.
    unit: u32,
}

/// The dead containers of one pod and container name: a range of [`Units::dead`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) start: u32,
    /// The number of containers that are still kept. The others of the range are removed.
    pub(super) len: u32,
}

/// All dead containers that reached the minimum age, by unit. Units are sorted by pod uid and container name.
#[derive(Default)]
pub(super) struct Units {
    pub(super) dead: Vec<Dead>,
    pub(super) units: Vec<Unit>,
    /// The pod uid of each unit, ascending.
    pub(super) pods: Vec<Uid>,
}

/// A unit while containers are added.
struct Key<'a> {
    uid: Uid,
    name: &'a str,
    hash: u64,
    /// The number of its containers.
    len: u32,
}

/// Groups dead containers by unit.
#[derive(Default)]
pub(super) struct Grouping<'a> {
    /// The names of the keys. Each name has one text, which stays in the CPU cache: a node has few names.
    names: HashSet<&'a str, FixedState>,
    /// A hash table of indexes of keys.
    table: HashTable<u32>,
    keys: Vec<Key<'a>>,
    /// The dead containers in the order of the listing.
    dead: Vec<Dead>,
}

impl<'a> Grouping<'a> {
    pub(super) fn with_capacity(containers: usize) -> Self {
        Self {
            dead: Vec::with_capacity(containers),
            ..Self::default()
        }
    }

    /// Adds a container of this pod and name, which have this hash.
    pub(super) fn add(&mut self, uid: &Uid, name: &'a str, hash: u64, created_at: Timestamp, at: usize) {
        let keys = &mut self.keys;
        let same = |&unit: &u32| {
            let key = &keys[unit as usize];
            key.hash == hash && key.uid == *uid && key.name == name
        };
        let unit = if let Some(&unit) = self.table.find(hash, same) {
            unit
        } else {
            let unit = index(keys.len());
            keys.push(Key {
                uid: uid.clone(),
                name: self.names.get_or_insert(name),
                hash,
                len: 0,
            });
            self.table
                .insert_unique(hash, unit, |&unit| keys[unit as usize].hash);
            unit
        };
        keys[unit as usize].len += 1;
        self.dead.push(Dead {
            created_at,
            at: index(at),
            unit,
        });
    }

    /// Sorts the units by key, and the containers of each unit.
    pub(super) fn finish(self, listing: &[Arc<Container>], order: Order) -> Units {
        // Counting sort: add the lengths of the units up to starts, then copy each container.
        let mut units = Units {
            dead: self.dead.clone(),
            units: Vec::with_capacity(self.keys.len()),
            pods: Vec::with_capacity(self.keys.len()),
        };
        let mut next = vec![0; self.keys.len()];
        let mut start = 0;
        for unit in self.sorted_keys() {
            let Key { uid, len, .. } = &self.keys[unit];
            units.pods.push(uid.clone());
            units.units.push(Unit { start, len: *len });
            next[unit] = start;
            start += len;
        }
        for dead in &self.dead {
            let next = &mut next[dead.unit as usize];
            units.dead[*next as usize] = *dead;
            *next += 1;
        }
        for unit in &units.units {
            newest_first(&mut units.dead[unit.range()], listing, order);
        }
        units
    }

    /// The indexes of the keys, sorted by pod uid and container name.
    fn sorted_keys(&self) -> impl Iterator<Item = usize> {
        let key = |&(_, at): &(u64, u32)| (&self.keys[at as usize].uid, self.keys[at as usize].name);
        let prefixes = self.keys.iter().map(|key| prefix(&key.uid));
        let mut sorted: Vec<(u64, u32)> = prefixes.zip(0..).collect();
        sorted.sort_unstable_by_key(|&(prefix, _)| prefix);
        for same in sorted.chunk_by_mut(|(a, _), (b, _)| a == b) {
            same.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        }
        sorted.into_iter().map(|(_, at)| at as usize)
    }
}

/// The listing, with a clone of each dead container's `Arc`. The clones are made while the containers are in
/// the CPU cache.
#[derive(Default)]
pub(super) struct Shared<'a> {
    pub(super) listing: &'a [Arc<Container>],
    /// The clones by index in the listing.
    pub(super) clones: Vec<Option<Arc<Container>>>,
    /// The ascending indexes of dead containers whose state is unknown.
    pub(super) unknown: Vec<u32>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(listing: &'a [Arc<Container>]) -> Self {
        Self {
            listing,
            clones: Vec::with_capacity(listing.len()),
            unknown: Vec::new(),
        }
    }

    /// Moves the container's clone out, for a report. Each is moved once.
    pub(super) fn take(&mut self, dead: Dead) -> Arc<Container> {
        let at = dead.at as usize;
        self.clones[at]
            .take()
            .unwrap_or_else(|| Arc::clone(&self.listing[at]))
    }

    /// Returns whether the clone was moved out.
    pub(super) fn is_taken(&self, dead: Dead) -> bool {
        self.clones[dead.at as usize].is_none()
    }
}

impl Unit {
    /// The containers that are still kept, as a range of [`Units::dead`].
    pub(super) const fn range(self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// The first eight bytes of a uid's text as a number, so that most comparisons need no text.
fn prefix(uid: &Uid) -> u64 {
    let mut prefix = [0; 8];
    if let Some([a, b, c, d, ..]) = uid.as_uuid() {
        let digits = [a, b, c, d].map(|byte| [byte >> 4, byte & 15]);
        for (digit, &value) in prefix.iter_mut().zip(digits.as_flattened()) {
            *digit = b"0123456789abcdef"[usize::from(value)];
        }
    } else {
        let text = uid.text();
        let length = text.len().min(8);
        prefix[..length].copy_from_slice(&text.as_bytes()[..length]);
    }
    u64::from_be_bytes(prefix)
}

impl Units {
    pub(super) fn total(&self) -> u32 {
        self.units.iter().map(|unit| unit.len).sum()
    }
}

/// Sorts by creation time, the newest first. Containers of the same time are sorted by id, or keep their
/// order.
pub(super) fn newest_first(dead: &mut [Dead], listing: &[Arc<Container>], order: Order) {
    match order {
        Order::Total => {
            dead.sort_unstable_by_key(|dead| Reverse(dead.created_at));
            for same in dead.chunk_by_mut(|a, b| a.created_at == b.created_at) {
                same.sort_unstable_by_key(|dead| &listing[dead.at as usize].id);
            }
        }
        Order::Listing => dead.sort_by_key(|dead| Reverse(dead.created_at)),
    }
}

/// An index as 32 bits. Saturation cannot happen: four billion containers do not fit into memory.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
