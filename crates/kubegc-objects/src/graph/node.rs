//! One node of the owner graph, in 20 bytes, and the sets of its dependents ([G-2](crate::rules#g-2)).
//!
//! A node is identified by its position in the arena. Queues, attempts and other nodes' dependents store
//! positions, so a node that left the index stays allocated, detached, while it is retained. Upstream's
//! queues store pointers, and a stale node in a queue is processed with its last state.

use hashbrown::HashTable;

use super::{coordinates::Coordinates, names::Namespace};

/// A node of one graph. Valid from when the graph returns it until it is released as often as it was
/// retained.
///
/// Two nodes of one uid are different nodes: a virtual node with another identity is a new node, and the old
/// one can still be queued ([G-3](crate::rules#g-3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// A reference of a node: interned coordinates, and each flag as absent, false or true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reference(pub(super) u32);

impl Reference {
    const BITS: u32 = 28;

    pub(super) fn new(coordinates: Coordinates, controller: Option<bool>, blocking: Option<bool>) -> Self {
        Self(coordinates.0 | tri(controller) << Self::BITS | tri(blocking) << (Self::BITS + 2))
    }

    pub(super) fn coordinates(self) -> Coordinates {
        Coordinates(self.0 & ((1 << Self::BITS) - 1))
    }

    pub(super) fn controller(self) -> Option<bool> {
        untri(self.0 >> Self::BITS & 3)
    }

    pub(super) fn block_owner_deletion(self) -> Option<bool> {
        untri(self.0 >> (Self::BITS + 2) & 3)
    }

    pub(super) fn is_blocking(self) -> bool {
        self.block_owner_deletion() == Some(true)
    }
}

fn tri(flag: Option<bool>) -> u32 {
    flag.map_or(0, |flag| 2 + u32::from(flag))
}

fn untri(bits: u32) -> Option<bool> {
    (bits >= 2).then_some(bits == 3)
}

/// Known only from a reference.
pub(super) const VIRTUAL: u8 = 1;
/// Observed with a deletionTimestamp.
pub(super) const BEING_DELETED: u8 = 2;
/// Waits for its dependents to be deleted.
pub(super) const DELETING_DEPENDENTS: u8 = 4;
/// Not the current node of its uid.
pub(super) const DETACHED: u8 = 8;
/// `owners` is a position in the lists of references.
pub(super) const OWNERS_LISTED: u8 = 16;
/// `owners` is one reference.
pub(super) const OWNER_INLINE: u8 = 32;
/// `dependents` is a position in the sets.
pub(super) const DEPENDENTS_LISTED: u8 = 64;
/// `dependents` is one node.
pub(super) const DEPENDENT_INLINE: u8 = 128;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) coordinates: Coordinates,
    pub(super) namespace: Namespace,
    /// One reference, or the position of a list of references, depending on the flags.
    pub(super) owners: Reference,
    /// One node, or the position of a set of nodes, depending on the flags.
    pub(super) dependents: NodeId,
    /// Flags in the low byte, and above them the number of sets and queues that retain the node.
    state: u32,
}

const PIN: u32 = 1 << 8;
/// A count that reached this stays there: such a node is never freed.
const PINS_MAX: u32 = u32::MAX >> 8;

impl Node {
    pub(super) fn new(coordinates: Coordinates, namespace: Namespace, flags: u8) -> Self {
        Self {
            coordinates,
            namespace,
            owners: Reference(0),
            dependents: NodeId(0),
            state: u32::from(flags),
        }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.state & u32::from(flag) != 0
    }

    pub(super) fn set(&mut self, flag: u8) {
        self.state |= u32::from(flag);
    }

    pub(super) fn clear(&mut self, flag: u8) {
        self.state &= !u32::from(flag);
    }

    pub(super) fn pin(&mut self) {
        if self.state >> 8 < PINS_MAX {
            self.state += PIN;
        }
    }

    pub(super) fn unpin(&mut self) {
        let pins = self.state >> 8;
        if pins > 0 && pins < PINS_MAX {
            self.state -= PIN;
        }
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.state >> 8 > 0
    }
}

/// The dependents of one owner, in the order of arrival; the last one fills the gap of a removed one.
#[derive(Clone, Debug, Default)]
pub(super) struct Dependents {
    items: Vec<NodeId>,
    /// Positions by node, for sets that are too large for a scan.
    index: HashTable<u32>,
}

/// An owner with two dependents usually gets more.
const CAPACITY_MIN: usize = 8;
/// Up to this size a scan is faster than a hash table.
const SCAN_MAX: usize = 32;

impl Dependents {
    /// The set of these nodes, which must be distinct.
    pub(super) fn of(items: &[NodeId]) -> Self {
        let mut set = Self {
            items: Vec::with_capacity(items.len().max(CAPACITY_MIN)),
            ..Self::default()
        };
        for &item in items {
            set.insert(item, true);
        }
        set
    }

    pub(super) fn items(&self) -> &[NodeId] {
        &self.items
    }

    /// Adds a node and returns whether it was new. `fresh` means that it is, which saves a search.
    pub(super) fn insert(&mut self, node: NodeId, fresh: bool) -> bool {
        if !fresh && self.position(node).is_some() {
            return false;
        }
        self.items.push(node);
        let items = &self.items;
        let hash = |&at: &u32| spread(items[at as usize]);
        if items.len() == SCAN_MAX + 1 {
            for at in 0..items.len() as u32 {
                self.index.insert_unique(hash(&at), at, hash);
            }
        } else if items.len() > SCAN_MAX {
            self.index
                .insert_unique(spread(node), (items.len() - 1) as u32, hash);
        }
        true
    }

    pub(super) fn remove(&mut self, node: NodeId) -> bool {
        let Some(at) = self.position(node) else {
            return false;
        };
        if self.items.len() > SCAN_MAX {
            let last = (self.items.len() - 1) as u32;
            if let Ok(entry) = self.index.find_entry(spread(node), |&other| other == at) {
                entry.remove();
            }
            if at != last {
                let moved = self.items[last as usize];
                if let Some(position) = self.index.find_mut(spread(moved), |&other| other == last) {
                    *position = at;
                }
            }
        }
        self.items.swap_remove(at as usize);
        if self.items.len() == SCAN_MAX {
            self.index = HashTable::new();
        }
        true
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
        let items = &self.items;
        self.index.shrink_to_fit(|&at| spread(items[at as usize]));
    }

    fn position(&self, node: NodeId) -> Option<u32> {
        if self.items.len() <= SCAN_MAX {
            return self
                .items
                .iter()
                .position(|&item| item == node)
                .map(|at| at as u32);
        }
        self.index
            .find(spread(node), |&at| self.items[at as usize] == node)
            .copied()
    }
}

fn spread(node: NodeId) -> u64 {
    u64::from(node.0)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(32)
}
