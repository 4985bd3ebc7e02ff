//! One record of the owner graph, in 40 bytes.
//!
//! A record contains *coordinates*: the apiVersion, kind, name and uid of an object, as observed or as a
//! reference names it. So comparing a reference with an object is comparing two positions. It also contains
//! the node with these coordinates, if there is one: dependents can name an owner that has no node any more.
//!
//! Queues, attempts and dependents store positions, so a node that left the index keeps its record, detached,
//! while it is retained. Upstream's queues store pointers, and a stale node in a queue is processed with its
//! last state.

use kubegc_core::Uid;

use super::names::Namespace;

/// A node of one graph. Valid from when the graph returns it until it is released as often as it was
/// retained.
///
/// Two nodes of one uid are different nodes: a virtual node with another identity is a new node, and the old
/// one can still be queued ([G-3](crate::rules#g-3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// Position of a record, of which the coordinates are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Coordinates(pub(super) u32);

/// A reference of a node: coordinates, and each flag as absent, false or true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reference(pub(super) u32);

/// Records have positions below this: a reference packs a position and its flags into 32 bits.
pub(super) const RECORDS_MAX: usize = (1 << Reference::BITS) - 1;

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

/// In place of a reference or node: there is none.
pub(super) const NONE: u32 = u32::MAX;
/// In place of a reference or node: the highest bits of a list's position. No reference has them, see `tri`,
/// and no position of a record.
const LISTED: u32 = 1;
const LISTED_SHIFT: u32 = 30;

/// The position of a list, to be stored in place of a reference or node.
pub(super) fn listed(at: u32) -> u32 {
    LISTED << LISTED_SHIFT | at
}

/// The position of a list that is stored in place of a reference or node.
#[inline]
pub(super) fn list_of(raw: u32) -> Option<u32> {
    (raw >> LISTED_SHIFT == LISTED).then_some(raw & ((1 << LISTED_SHIFT) - 1))
}

/// The record is the current node of its uid.
pub(super) const CURRENT: u8 = 1;
/// The record is a node that left the index.
pub(super) const DETACHED: u8 = 2;
/// Known only from a reference.
pub(super) const VIRTUAL: u8 = 4;
/// Observed with a deletionTimestamp.
pub(super) const BEING_DELETED: u8 = 8;
/// Waits for its dependents to be deleted.
pub(super) const DELETING_DEPENDENTS: u8 = 16;
/// `uid` is the number of a text.
pub(super) const UID_IS_TEXT: u8 = 32;
/// There is, or was, another record with this uid.
pub(super) const SHARED: u8 = 64;
/// A node whose coordinates already had a record, of a detached node. No reference has this position.
pub(super) const DUPLICATE: u8 = 128;

/// The flags of a node.
pub(super) const NODE: u8 = CURRENT | DETACHED | VIRTUAL | BEING_DELETED | DELETING_DEPENDENTS;

/// A uid in 16 bytes: a UUID, or with the flag the number of another text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) bytes: [u8; 16],
    /// `UID_IS_TEXT` or 0.
    flag: u8,
}

impl Key {
    /// The key of a UUID; none of another text.
    #[inline]
    pub(super) fn of_uuid(uid: &Uid) -> Option<Self> {
        let bytes = *uid.as_uuid()?;
        Some(Self { bytes, flag: 0 })
    }

    pub(super) fn of_text(at: usize) -> Self {
        Self {
            bytes: (at as u128).to_le_bytes(),
            flag: UID_IS_TEXT,
        }
    }

    /// The number of the text that is not a UUID.
    pub(super) fn text(self) -> Option<usize> {
        (self.flag != 0).then_some(u128::from_le_bytes(self.bytes) as usize)
    }

    /// Mixes the two halves. Seeds are fixed: no result may depend on the order of the index.
    #[inline]
    pub(super) fn hash(self) -> u32 {
        let bits = u128::from_le_bytes(self.bytes);
        let folded = u128::from(bits as u64 ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from((bits >> 64) as u64 ^ 0xd1b5_4a32_d192_ed03);
        let mixed = folded as u64 ^ (folded >> 64) as u64;
        (mixed >> 32) as u32 ^ u32::from(self.flag)
    }
}

/// Coordinates, and the node that has them.
#[derive(Clone, Debug)]
pub(super) struct Record {
    uid: [u8; 16],
    /// Offset of the kind and name.
    pub(super) name: u32,
    /// Number of references with the coordinates; a node counts as one more. 0: the record is free.
    pub(super) uses: u32,
    pub(super) namespace: Namespace,
    /// One reference, the position of a list, or none.
    pub(super) owners: Reference,
    /// One node, the position of a set, or none.
    pub(super) dependents: NodeId,
    /// Flags in the low byte, and above them the number of sets and queues that retain the node.
    state: u32,
}

const RETAIN: u32 = 1 << 8;
/// A count that reached this stays there: such a node is never freed.
const RETAINS_MAX: u32 = u32::MAX >> 8;

impl Record {
    /// Coordinates in use once, without a node.
    pub(super) fn new(key: Key, name: u32, flags: u8) -> Self {
        Self {
            uid: key.bytes,
            name,
            uses: 1,
            namespace: Namespace::NONE,
            owners: Reference(NONE),
            dependents: NodeId(NONE),
            state: u32::from(flags | key.flag),
        }
    }

    #[inline]
    pub(super) fn key(&self) -> Key {
        Key {
            bytes: self.uid,
            flag: self.state as u8 & UID_IS_TEXT,
        }
    }

    /// Reads both ends of the record, which can be in two cache lines.
    pub(super) fn ends(&self) -> usize {
        usize::from(self.uid[15]) ^ self.name as usize
    }

    pub(super) fn has(&self, flags: u8) -> bool {
        self.state & u32::from(flags) != 0
    }

    pub(super) fn set(&mut self, flags: u8) {
        self.state |= u32::from(flags);
    }

    pub(super) fn clear(&mut self, flags: u8) {
        self.state &= !u32::from(flags);
    }

    pub(super) fn retain(&mut self) {
        if self.state >> 8 < RETAINS_MAX {
            self.state += RETAIN;
        }
    }

    pub(super) fn release(&mut self) {
        let retains = self.state >> 8;
        if retains > 0 && retains < RETAINS_MAX {
            self.state -= RETAIN;
        }
    }

    /// The number of sets and queues that retain the node, up to a maximum.
    pub(super) fn retains(&self) -> u32 {
        self.state >> 8
    }
}
