//! Interned coordinates (apiVersion, kind, name, uid), so that comparing a reference with an object is
//! comparing two numbers, and an index from uids to nodes ([G-1](crate::rules#g-1)).
//!
//! The first coordinates of a uid are its *head*: the hash index leads to them, and they store the uid's
//! node. Other coordinates with the same uid (a wrong reference, an object observed in two versions) are
//! linked to the head.

use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use smallvec::SmallVec;

use kubegc_core::Uid;

use super::{
    index::Index,
    names::{GraphKind, NameBuffer},
};

/// Position of interned coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Coordinates(pub(super) u32);

/// No node.
pub(super) const NO_NODE: u32 = u32::MAX;
/// A reference packs coordinates and its flags into 32 bits.
const COORDINATES_MAX: usize = 1 << 28;

/// `uid` holds a position in `texts`.
const UID_IS_TEXT: u8 = 1;
/// Linked to a head.
const CHAINED: u8 = 2;
/// Other coordinates are linked to it.
const HAS_CHAIN: u8 = 4;

#[derive(Clone, Debug)]
struct Entry32 {
    uid: [u8; 16],
    name: u32,
    /// On a head: the node of the uid.
    node: u32,
    /// Uses by nodes, references and linked coordinates. 0: a free slot.
    uses: u32,
    /// The kind in the low 24 bits, flags above.
    kind_flags: u32,
}

impl Entry32 {
    fn flags(&self) -> u8 {
        (self.kind_flags >> 24) as u8
    }

    fn kind(&self) -> u32 {
        self.kind_flags & 0x00ff_ffff
    }

    fn text_flag(&self) -> u8 {
        self.flags() & UID_IS_TEXT
    }

    #[inline]
    fn key(&self) -> Key {
        Key {
            bytes: self.uid,
            flag: self.text_flag(),
        }
    }
}

/// A uid in 16 bytes: a UUID, or with a flag the position of a text.
#[derive(Clone, Copy, PartialEq)]
struct Key {
    bytes: [u8; 16],
    flag: u8,
}

impl Key {
    fn of_text(at: u32) -> Self {
        Self {
            bytes: u128::from(at).to_le_bytes(),
            flag: UID_IS_TEXT,
        }
    }

    /// Mixes the two halves. Seeds are fixed: no result may depend on the order of the index.
    #[inline]
    fn hash(self) -> u32 {
        let bits = u128::from_le_bytes(self.bytes);
        let folded = u128::from(bits as u64 ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from((bits >> 64) as u64 ^ 0xd1b5_4a32_d192_ed03);
        let mixed = folded as u64 ^ (folded >> 64) as u64;
        (mixed >> 32) as u32 ^ u32::from(self.flag)
    }
}

/// All coordinates of a graph.
#[derive(Clone, Debug, Default)]
pub(super) struct CoordinateTable {
    entries: Vec<Entry32>,
    index: Index,
    free: Vec<u32>,
    names: NameBuffer,
    /// Uids that are not canonical UUIDs.
    text_of: Vec<Uid>,
    /// The positions of these.
    texts: HashTable<u32>,
    chains: HashMap<u32, SmallVec<[u32; 2]>, FixedState>,
    head_of: HashMap<u32, u32, FixedState>,
}

impl CoordinateTable {
    /// Interns coordinates and counts one use.
    pub(super) fn intern(&mut self, kind: GraphKind, name: &str, uid: &Uid) -> Coordinates {
        let key = self.key(uid);
        let hash = key.hash();
        let Some(head) = self.find(hash, key) else {
            let fresh = Entry32 {
                uid: key.bytes,
                name: self.names.push(name),
                node: NO_NODE,
                uses: 1,
                kind_flags: kind.0 | u32::from(key.flag) << 24,
            };
            let at = place(&mut self.entries, &mut self.free, fresh);
            self.index.insert(hash, at);
            return Coordinates(at);
        };
        if self.is(head, kind, name) {
            self.entries[head as usize].uses += 1;
            return Coordinates(head);
        }
        self.intern_chained(head, kind, name)
    }

    fn intern_chained(&mut self, head: u32, kind: GraphKind, name: &str) -> Coordinates {
        if let Some(chain) = self.chains.get(&head)
            && let Some(&at) = chain.iter().find(|&&at| self.is(at, kind, name))
        {
            self.entries[at as usize].uses += 1;
            return Coordinates(at);
        }
        let owner = &mut self.entries[head as usize];
        owner.uses += 1;
        owner.kind_flags |= u32::from(HAS_CHAIN) << 24;
        let fresh = Entry32 {
            uid: owner.uid,
            name: self.names.push(name),
            node: NO_NODE,
            uses: 1,
            kind_flags: kind.0 | u32::from(owner.text_flag() | CHAINED) << 24,
        };
        let at = place(&mut self.entries, &mut self.free, fresh);
        self.chains.entry(head).or_default().push(at);
        self.head_of.insert(at, head);
        Coordinates(at)
    }

    /// Counts one more use.
    pub(super) fn retain(&mut self, coordinates: Coordinates) {
        self.entries[coordinates.0 as usize].uses += 1;
    }

    /// Counts one use less and frees unused coordinates.
    pub(super) fn release(&mut self, coordinates: Coordinates) {
        let at = coordinates.0;
        let entry = &mut self.entries[at as usize];
        entry.uses -= 1;
        if entry.uses > 0 {
            return;
        }
        let (key, flags, name) = (entry.key(), entry.flags(), entry.name);
        self.names.forget(name);
        self.free.push(at);
        if flags & CHAINED != 0 {
            // Set together with the flag.
            if let Some(head) = self.head_of.remove(&at) {
                if let Some(chain) = self.chains.get_mut(&head) {
                    chain.retain(|other| *other != at);
                    if chain.is_empty() {
                        self.chains.remove(&head);
                        self.entries[head as usize].kind_flags &= !(u32::from(HAS_CHAIN) << 24);
                    }
                }
                self.release(Coordinates(head));
            }
        } else {
            self.index.remove(key.hash(), at);
        }
        if self.names.wants_compaction() {
            self.compact_names();
        }
    }

    /// The head of the coordinates' uid.
    #[inline]
    pub(super) fn head(&self, coordinates: Coordinates) -> Coordinates {
        if self.entries[coordinates.0 as usize].flags() & CHAINED == 0 {
            return coordinates;
        }
        self.head_of
            .get(&coordinates.0)
            .map_or(coordinates, |&head| Coordinates(head))
    }

    /// Returns whether two coordinates have the same uid.
    pub(super) fn same_uid(&self, a: Coordinates, b: Coordinates) -> bool {
        a == b || self.head(a) == self.head(b)
    }

    /// The node of a uid, if the uid is known.
    pub(super) fn node_of_uid(&self, uid: &Uid) -> Option<u32> {
        let key = match uid.as_uuid() {
            Some(bytes) => Key {
                bytes: *bytes,
                flag: 0,
            },
            None => Key::of_text(self.text_number(uid)?),
        };
        let head = self.find(key.hash(), key)?;
        let node = self.entries[head as usize].node;
        (node != NO_NODE).then_some(node)
    }

    /// The hash of a uid, if it is a UUID.
    pub(super) fn hash_of(&self, uid: &Uid) -> Option<u32> {
        uid.as_uuid().map(|bytes| {
            Key {
                bytes: *bytes,
                flag: 0,
            }
            .hash()
        })
    }

    /// The head with a hash. It is read from the index alone, so it can be one of several with this hash.
    pub(super) fn likely_head(&self, hash: u32) -> Option<u32> {
        self.index.find(hash, |_| true)
    }

    pub(super) fn read_home(&self, hash: u32) -> u32 {
        self.index.read_home(hash)
    }

    pub(super) fn read_entry(&self, head: u32) -> u32 {
        self.entries[head as usize].node
    }

    pub(super) fn node_of_head(&self, head: u32) -> Option<u32> {
        let node = self.entries[head as usize].node;
        (node != NO_NODE).then_some(node)
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
        self.index.reserve(additional);
    }

    /// The node of the coordinates' uid.
    #[inline]
    pub(super) fn node(&self, coordinates: Coordinates) -> Option<u32> {
        let node = self.entries[self.head(coordinates).0 as usize].node;
        (node != NO_NODE).then_some(node)
    }

    /// Sets the node of the coordinates' uid.
    #[inline]
    pub(super) fn set_node(&mut self, coordinates: Coordinates, node: u32) {
        let head = self.head(coordinates);
        self.entries[head.0 as usize].node = node;
    }

    pub(super) fn kind(&self, coordinates: Coordinates) -> GraphKind {
        GraphKind(self.entries[coordinates.0 as usize].kind())
    }

    pub(super) fn name_bytes(&self, coordinates: Coordinates) -> &[u8] {
        self.names.bytes_at(self.entries[coordinates.0 as usize].name)
    }

    pub(super) fn name(&self, coordinates: Coordinates) -> &str {
        self.names.name(self.entries[coordinates.0 as usize].name)
    }

    pub(super) fn uid(&self, coordinates: Coordinates) -> Uid {
        let entry = &self.entries[coordinates.0 as usize];
        if entry.text_flag() == 0 {
            return Uid::from_uuid(entry.uid);
        }
        self.text_of[text_position(&entry.uid)].clone()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.compact_names();
        self.entries.shrink_to_fit();
        self.free.shrink_to_fit();
        self.index.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    #[inline]
    fn find(&self, hash: u32, key: Key) -> Option<u32> {
        self.index.find(hash, |at| self.entries[at as usize].key() == key)
    }

    #[inline]
    fn is(&self, at: u32, kind: GraphKind, name: &str) -> bool {
        let entry = &self.entries[at as usize];
        entry.kind() == kind.0 && self.names.bytes_at(entry.name) == name.as_bytes()
    }

    /// The number of a uid that is not a canonical UUID, if it is known.
    fn text_number(&self, uid: &Uid) -> Option<u32> {
        let is_it = |at: &u32| self.text_of[*at as usize] == *uid;
        self.texts.find(text_hash(uid), is_it).copied()
    }

    fn key(&mut self, uid: &Uid) -> Key {
        if let Some(bytes) = uid.as_uuid() {
            return Key {
                bytes: *bytes,
                flag: 0,
            };
        }
        let at = self.text_number(uid).unwrap_or_else(|| {
            // One entry for each distinct uid: bounded by the coordinates.
            let at = self.text_of.len() as u32;
            self.text_of.push(uid.clone());
            let text_of = &self.text_of;
            self.texts
                .insert_unique(text_hash(uid), at, |at| text_hash(&text_of[*at as usize]));
            at
        });
        Key::of_text(at)
    }

    fn compact_names(&mut self) {
        let mut fresh = NameBuffer::default();
        for entry in self.entries.iter_mut().filter(|entry| entry.uses > 0) {
            entry.name = fresh.push(self.names.name(entry.name));
        }
        self.names = fresh;
    }
}

/// Puts an entry into a free slot, or at the end.
#[inline]
fn place(entries: &mut Vec<Entry32>, free: &mut Vec<u32>, fresh: Entry32) -> u32 {
    if let Some(at) = free.pop() {
        entries[at as usize] = fresh;
        return at;
    }
    let at = entries.len();
    assert!(
        at < COORDINATES_MAX,
        "a graph holds fewer than 2^28 distinct coordinates"
    );
    entries.push(fresh);
    at as u32
}

fn text_hash(uid: &Uid) -> u64 {
    FixedState::default().hash_one(uid)
}

fn text_position(key: &[u8; 16]) -> usize {
    u128::from_le_bytes(*key) as usize
}
