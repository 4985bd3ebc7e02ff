//! Evict units: the dead containers of one pod and container name. Each unit is sorted, the newest first,
//! only if a limit applies to it ([N2.9](crate::rules#n2-9)).

use std::{cmp::Reverse, hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table::Entry as Slot};
use kubegc_core::{Timestamp, Uid, node_facts::Container};

use crate::Order;

/// The fields of a dead container that the limits use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dead {
    /// The index of its unit.
    pub(super) unit: u32,
    /// Its index in the listing.
    pub(super) at: u32,
    /// Whether its state is unknown.
    pub(super) is_unknown: bool,
    pub(super) created_at: Timestamp,
}

/// The dead containers of one pod and container name: a range of [`Units::dead`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) start: u32,
    /// The number of containers that are still kept. The others of the range are removed.
    pub(super) len: u32,
}

/// All dead containers that reached the minimum age, by unit. Units are sorted by pod uid and container name.
pub(super) struct Units {
    pub(super) dead: Vec<Dead>,
    pub(super) units: Vec<Unit>,
    /// The pod uid of each unit, ascending.
    pub(super) pods: Vec<Uid>,
    /// A clone of each container's `Arc`, by index in the listing; [`take`](Self::take) moves it out. The
    /// clones are made while the containers are in the CPU cache.
    pub(super) shared: Vec<Option<Arc<Container>>>,
}

/// The key of a unit.
pub(super) struct Key<'a> {
    uid: Uid,
    name: &'a str,
    hash: u64,
}

/// A hash table from pod uid and container name to the index of the unit.
#[derive(Default)]
pub(super) struct Table<'a> {
    hasher: FixedState,
    slots: HashTable<u32>,
    pub(super) keys: Vec<Key<'a>>,
}

impl<'a> Table<'a> {
    pub(super) fn unit(&mut self, uid: &Uid, name: &'a str) -> u32 {
        let hash = self.hasher.hash_one((uid, name));
        let keys = &mut self.keys;
        let same = |&unit: &u32| {
            let key = &keys[unit as usize];
            key.uid == *uid && (std::ptr::eq(key.name, name) || key.name == name)
        };
        match self.slots.entry(hash, same, |&unit| keys[unit as usize].hash) {
            Slot::Occupied(slot) => *slot.get(),
            Slot::Vacant(slot) => {
                let unit = index(keys.len());
                slot.insert(unit);
                keys.push(Key {
                    uid: uid.clone(),
                    name,
                    hash,
                });
                unit
            }
        }
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
    /// Creates an empty value with capacity for this number of containers.
    pub(super) fn with_capacity(containers: usize) -> Self {
        Self {
            dead: Vec::with_capacity(containers),
            units: Vec::new(),
            pods: Vec::new(),
            shared: vec![None; containers],
        }
    }

    /// Groups the containers by unit. Units are sorted by key; the containers of a unit keep the order of the
    /// listing.
    pub(super) fn arrange(&mut self, keys: &[Key<'_>]) {
        let count = keys.len();
        let mut order: Vec<(u64, u32)> = keys.iter().map(|key| prefix(&key.uid)).zip(0..).collect();
        order.sort_unstable_by(|(a, a_at), (b, b_at)| {
            let key = |at: u32| (&keys[at as usize].uid, keys[at as usize].name);
            a.cmp(b).then_with(|| key(*a_at).cmp(&key(*b_at)))
        });
        let mut rank = vec![0_u32; count];
        for (to, &(_, from)) in (0..).zip(&order) {
            rank[from as usize] = to;
        }
        self.pods = order
            .iter()
            .map(|&(_, from)| keys[from as usize].uid.clone())
            .collect();
        // Counting sort: count the containers of each unit, add the counts up to starts, then copy.
        let mut starts = vec![0_u32; count + 1];
        for dead in &mut self.dead {
            dead.unit = rank[dead.unit as usize];
            starts[dead.unit as usize + 1] += 1;
        }
        for unit in 0..count {
            starts[unit + 1] += starts[unit];
        }
        self.units = (0..count)
            .map(|unit| Unit {
                start: starts[unit],
                len: starts[unit + 1] - starts[unit],
            })
            .collect();
        let mut sorted = self.dead.clone();
        for dead in &self.dead {
            let next = &mut starts[dead.unit as usize];
            sorted[*next as usize] = *dead;
            *next += 1;
        }
        self.dead = sorted;
    }

    /// The containers of a unit that are still kept.
    pub(super) fn kept(&self, unit: Unit) -> &[Dead] {
        &self.dead[unit.start as usize..(unit.start + unit.len) as usize]
    }

    /// Moves the container's clone out, for a report.
    pub(super) fn take(&mut self, dead: Dead, listing: &[Arc<Container>]) -> Arc<Container> {
        let at = dead.at as usize;
        self.shared[at].take().unwrap_or_else(|| Arc::clone(&listing[at]))
    }

    pub(super) fn total(&self) -> u32 {
        self.units.iter().map(|unit| unit.len).sum()
    }
}

/// Sorts by creation time, the newest first. Containers of the same time are sorted by id, or keep their
/// order.
pub(super) fn newest_first(dead: &mut [Dead], listing: &[Arc<Container>], order: Order) {
    match order {
        Order::Total => dead.sort_unstable_by(|a, b| {
            b.created_at
                .cmp(&a.created_at)
                .then_with(|| listing[a.at as usize].id.cmp(&listing[b.at as usize].id))
        }),
        Order::Listing => dead.sort_by_key(|dead| Reverse(dead.created_at)),
    }
}

/// An index as 32 bits. Saturation cannot happen: four billion containers do not fit into memory.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
