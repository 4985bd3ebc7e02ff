//! Storage of the graph's strings: kinds, namespaces, and the names of objects in one buffer.
//!
//! Kinds and namespaces are few and shared, so they are interned. Names are many and mostly unique, so a
//! single buffer contains them one after another with their lengths, and a name is the offset of its length.

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// An apiVersion and kind in one graph. It is meaningless in another graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphKind(pub(super) u32);

/// Position of an interned namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Namespace(pub(super) u32);

impl Namespace {
    /// The empty namespace of cluster-scoped objects.
    pub(super) const NONE: Self = Self(0);
}

/// A kind is packed together with its flags.
const KINDS_MAX: usize = 1 << 24;

/// The kinds of one graph, each an apiVersion and a kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    kinds: Vec<(Arc<str>, Arc<str>)>,
    index: HashTable<u32>,
    /// The latest kind of each place: references name few kinds.
    recent: [u32; RECENT],
}

const RECENT: usize = 16;

impl Kinds {
    pub(super) fn intern(&mut self, api_version: &str, kind: &str) -> GraphKind {
        // Among the kinds of Kubernetes, few have both lengths in common.
        let place = (api_version.len() * 3 + kind.len()) % RECENT;
        let recent = self.recent[place];
        if let Some((known_version, known_kind)) = self.kinds.get(recent as usize)
            && **known_kind == *kind
            && **known_version == *api_version
        {
            return GraphKind(recent);
        }
        let at = self.find_or_insert(api_version, kind);
        self.recent[place] = at;
        GraphKind(at)
    }

    fn find_or_insert(&mut self, api_version: &str, kind: &str) -> u32 {
        let hash = FixedState::default().hash_one((api_version, kind));
        let kinds = &mut self.kinds;
        let is_it = |at: &u32| *kinds[*at as usize].1 == *kind && *kinds[*at as usize].0 == *api_version;
        if let Some(&at) = self.index.find(hash, is_it) {
            return at;
        }
        assert!(
            kinds.len() < KINDS_MAX,
            "a graph holds fewer than 2^24 distinct kinds"
        );
        let at = kinds.len() as u32;
        kinds.push((api_version.into(), kind.into()));
        self.index.insert_unique(hash, at, |at| {
            FixedState::default().hash_one((&*kinds[*at as usize].0, &*kinds[*at as usize].1))
        });
        at
    }

    pub(super) fn api_version(&self, kind: GraphKind) -> &Arc<str> {
        &self.kinds[kind.0 as usize].0
    }

    pub(super) fn kind(&self, kind: GraphKind) -> &Arc<str> {
        &self.kinds[kind.0 as usize].1
    }
}

/// The namespaces of one graph.
#[derive(Clone, Debug)]
pub(super) struct Namespaces {
    names: Vec<Arc<str>>,
    index: HashTable<u32>,
    recent: u32,
}

impl Default for Namespaces {
    fn default() -> Self {
        let mut namespaces = Self {
            names: Vec::new(),
            index: HashTable::new(),
            recent: 0,
        };
        namespaces.intern("");
        namespaces
    }
}

impl Namespaces {
    pub(super) fn intern(&mut self, name: &str) -> Namespace {
        if let Some(known) = self.names.get(self.recent as usize)
            && **known == *name
        {
            return Namespace(self.recent);
        }
        let hash = FixedState::default().hash_one(name);
        let names = &mut self.names;
        let at = match self.index.find(hash, |at| *names[*at as usize] == *name) {
            Some(&at) => at,
            None => {
                let at = u32::try_from(names.len()).expect("fewer namespaces than u32::MAX");
                names.push(name.into());
                self.index.insert_unique(hash, at, |at| {
                    FixedState::default().hash_one(&*names[*at as usize])
                });
                at
            }
        };
        self.recent = at;
        Namespace(at)
    }

    pub(super) fn name(&self, namespace: Namespace) -> &Arc<str> {
        &self.names[namespace.0 as usize]
    }
}

/// The names of all objects, one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct NameBuffer {
    bytes: Vec<u8>,
    /// Bytes of names that are no longer used.
    pub(super) wasted_bytes: usize,
}

impl NameBuffer {
    /// Stores a name and returns its offset.
    #[inline]
    pub(super) fn push(&mut self, name: &str) -> u32 {
        let at = u32::try_from(self.bytes.len()).expect("less than 4 GiB of names");
        let mut length = name.len();
        while length >= 0x80 {
            self.bytes.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        self.bytes.push(length as u8);
        self.bytes.extend_from_slice(name.as_bytes());
        at
    }

    /// The bytes of the name at an offset.
    #[inline]
    pub(super) fn bytes_at(&self, at: u32) -> &[u8] {
        let mut at = at as usize;
        let first = self.bytes[at];
        at += 1;
        let mut length = usize::from(first & 0x7f);
        let mut shift = 7;
        let mut more = first >= 0x80;
        while more {
            let byte = self.bytes[at];
            at += 1;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            more = byte >= 0x80;
        }
        &self.bytes[at..at + length]
    }

    /// The name at an offset.
    pub(super) fn name(&self, at: u32) -> &str {
        // Only whole strings are stored.
        std::str::from_utf8(self.bytes_at(at)).unwrap_or_default()
    }

    /// Marks the name at an offset as unused.
    pub(super) fn forget(&mut self, at: u32) {
        self.wasted_bytes += self.bytes_at(at).len() + 1;
    }

    /// Returns whether half of the buffer, and at least a megabyte, is unused.
    pub(super) fn wants_compaction(&self) -> bool {
        self.wasted_bytes > 1 << 20 && self.wasted_bytes > self.bytes.len() / 2
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }
}
