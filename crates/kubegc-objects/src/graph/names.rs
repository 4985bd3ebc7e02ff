//! Storage of the graph's strings: kinds, namespaces, and the names of objects in one buffer.
//!
//! Kinds and namespaces are few and shared, so they are interned. Names are many and mostly unique, so a
//! single buffer contains them one after another, each after the kind that it is a name of.

use std::{ops::Range, sync::Arc};

use foldhash::fast::FixedState;
use indexmap::{Equivalent, IndexSet};

/// An apiVersion and kind in one graph. It is meaningless in another graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphKind(pub(super) u32);

/// Position of an interned namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Namespace(u32);

impl Namespace {
    /// The empty namespace of cluster-scoped objects.
    pub(super) const NONE: Self = Self(0);
}

/// The kinds of one graph, each an apiVersion and a kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    kinds: IndexSet<(Arc<str>, Arc<str>), FixedState>,
    /// The latest kind of each place: references name few kinds.
    recent: [u32; RECENT],
}

const RECENT: usize = 16;

#[derive(Hash)]
struct Texts<'a>(&'a str, &'a str);

impl Equivalent<(Arc<str>, Arc<str>)> for Texts<'_> {
    fn equivalent(&self, (api_version, kind): &(Arc<str>, Arc<str>)) -> bool {
        *self.1 == **kind && *self.0 == **api_version
    }
}

impl Kinds {
    pub(super) fn intern(&mut self, api_version: &str, kind: &str) -> GraphKind {
        let texts = Texts(api_version, kind);
        // Among the kinds of Kubernetes, few have both lengths in common.
        let place = (api_version.len() * 3 + kind.len()) % RECENT;
        let recent = self.recent[place];
        let known = self.kinds.get_index(recent as usize);
        if known.is_some_and(|known| texts.equivalent(known)) {
            return GraphKind(recent);
        }
        let found = self.kinds.get_index_of(&texts);
        let at = found.unwrap_or_else(|| self.kinds.insert_full((api_version.into(), kind.into())).0);
        let at = u32::try_from(at).expect("fewer kinds than u32::MAX");
        self.recent[place] = at;
        GraphKind(at)
    }

    pub(super) fn api_version(&self, kind: GraphKind) -> &Arc<str> {
        &self.kinds[kind.0 as usize].0
    }

    pub(super) fn kind(&self, kind: GraphKind) -> &Arc<str> {
        &self.kinds[kind.0 as usize].1
    }
}

#[derive(Clone, Debug)]
pub(super) struct Namespaces {
    names: IndexSet<Arc<str>, FixedState>,
    recent: u32,
}

impl Default for Namespaces {
    fn default() -> Self {
        Self {
            names: IndexSet::from_iter(["".into()]),
            recent: Namespace::NONE.0,
        }
    }
}

impl Namespaces {
    pub(super) fn intern(&mut self, name: &str) -> Namespace {
        if **self.name(Namespace(self.recent)) != *name {
            let found = self.names.get_index_of(name);
            let at = found.unwrap_or_else(|| self.names.insert_full(name.into()).0);
            self.recent = u32::try_from(at).expect("fewer namespaces than u32::MAX");
        }
        Namespace(self.recent)
    }

    pub(super) fn name(&self, namespace: Namespace) -> &Arc<str> {
        &self.names[namespace.0 as usize]
    }
}

/// The kinds and names of all objects, one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct NameBuffer {
    bytes: Vec<u8>,
    /// Bytes of names that are no longer used.
    wasted_bytes: usize,
}

impl NameBuffer {
    /// Stores a kind and a name and returns their offset.
    #[inline]
    pub(super) fn push(&mut self, kind: GraphKind, name: &str) -> u32 {
        let at = self.end();
        if kind.0 < 0x80 && name.len() < 0x80 {
            self.bytes.extend_from_slice(&[kind.0 as u8, name.len() as u8]);
        } else {
            self.push_number(kind.0 as usize);
            self.push_number(name.len());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        at
    }

    #[cold]
    fn push_number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Stores what another buffer has at an offset.
    pub(super) fn copy(&mut self, other: &Self, at: u32) -> u32 {
        let fresh = self.end();
        let (_, name) = other.read(at);
        self.bytes.extend_from_slice(&other.bytes[at as usize..name.end]);
        fresh
    }

    fn end(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("less than 4 GiB of names")
    }

    /// The kind and the bytes of the name at an offset.
    #[inline]
    pub(super) fn at(&self, at: u32) -> (GraphKind, &[u8]) {
        // Almost always each of the two numbers is one byte.
        if let [kind, length, name @ ..] = &self.bytes[at as usize..]
            && (kind | length) < 0x80
        {
            return (GraphKind(u32::from(*kind)), &name[..usize::from(*length)]);
        }
        let (kind, name) = self.read(at);
        (kind, &self.bytes[name])
    }

    #[cold]
    fn read(&self, at: u32) -> (GraphKind, Range<usize>) {
        let (kind, at) = self.number(at as usize);
        let (length, at) = self.number(at);
        (GraphKind(kind), at..at + length as usize)
    }

    /// The number at an offset, seven bits a byte, and the offset after it.
    #[inline]
    fn number(&self, mut at: usize) -> (u32, usize) {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.bytes[at];
            at += 1;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return (number, at);
            }
            shift += 7;
        }
    }

    /// Marks the name at an offset as unused.
    pub(super) fn forget(&mut self, at: u32) {
        self.wasted_bytes += self.read(at).1.end - at as usize;
    }

    /// Returns whether half of the buffer, and at least a megabyte, is unused.
    pub(super) fn wants_compaction(&self) -> bool {
        self.wasted_bytes > 1 << 20 && self.wasted_bytes > self.bytes.len() / 2
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }
}
