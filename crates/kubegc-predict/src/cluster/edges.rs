//! Who owns whom in a snapshot, as plain arrays: positions of owners and of dependents, found once.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use kubegc_core::{OwnerReference, Uid, identity::split_api_version};
use kubegc_snapshot::{Snapshot, SnapshotObject};

/// What a reference of an object leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The object at this position, under exactly the name that the reference gives.
    At(u32),
    /// Nothing: the kind is complete, and no object of that name has the uid.
    Absent,
    /// Unknown: the kind is not complete, or not served as far as is known.
    Unknown,
    /// Nothing that a lookup could find out: a cluster-scoped object names a namespaced owner, or the kind is known not to be served.
    Never,
}

const ABSENT: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
const NEVER: u32 = u32::MAX - 2;

impl Owner {
    const fn pack(self) -> u32 {
        match self {
            Self::At(position) => position,
            Self::Absent => ABSENT,
            Self::Unknown => UNKNOWN,
            Self::Never => NEVER,
        }
    }

    const fn unpack(packed: u32) -> Self {
        match packed {
            ABSENT => Self::Absent,
            UNKNOWN => Self::Unknown,
            NEVER => Self::Never,
            position => Self::At(position),
        }
    }
}

/// Facts of one object that a cascade turns on, in one byte.
pub(crate) const DELETING: u8 = 1;
pub(crate) const HAS_FINALIZERS: u8 = 2;
pub(crate) const HAS_COLLECTOR_FINALIZER: u8 = 4;
pub(crate) const FLAWED: u8 = 8;
/// Some reference does not lead to a live object under exactly its name.
pub(crate) const ODD_OWNER: u8 = 16;

/// Owners and dependents by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    owner_starts: Vec<u32>,
    owners: Vec<u32>,
    dependent_starts: Vec<u32>,
    dependents: Vec<u32>,
    pub(crate) facts: Vec<u8>,
    by_uid: HashTable<u32>,
    uids: Vec<Uid>,
}

impl Edges {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let count = snapshot.len();
        let mut edges = Self { uids: Vec::with_capacity(count), ..Self::default() };
        edges.facts.reserve(count);
        for (position, object) in snapshot.objects().enumerate() {
            edges.facts.push(facts(&object));
            edges.uids.push(object.meta.uid.clone());
            let uids = &edges.uids;
            edges.by_uid.insert_unique(hash(&object.meta.uid), position as u32, |&at| hash(&uids[at as usize]));
        }
        // By uid: the graph's edges. By address: what lookups find.
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        edges.owner_starts.push(0);
        for (position, object) in snapshot.objects().enumerate() {
            for reference in &object.meta.owner_references {
                let owner = edges.owner(snapshot, &object, reference);
                let clean = matches!(owner, Owner::At(at) if edges.facts[at as usize] & DELETING == 0);
                if !clean {
                    edges.facts[position] |= ODD_OWNER;
                }
                edges.owners.push(owner.pack());
                pairs.extend(edges.positions_of(&reference.uid).map(|at| (at, position as u32)));
            }
            edges.owner_starts.push(edges.owners.len() as u32);
        }
        pairs.sort_unstable();
        pairs.dedup();
        edges.dependent_starts = vec![0; count + 1];
        for &(owner, _) in &pairs {
            edges.dependent_starts[owner as usize + 1] += 1;
        }
        for at in 0..count {
            edges.dependent_starts[at + 1] += edges.dependent_starts[at];
        }
        edges.dependents = pairs.into_iter().map(|(_, dependent)| dependent).collect();
        edges
    }

    /// What each reference of an object leads to, in stored order.
    pub(crate) fn owners(&self, position: u32) -> impl Iterator<Item = Owner> {
        let range = self.owner_starts[position as usize] as usize..self.owner_starts[position as usize + 1] as usize;
        self.owners[range].iter().map(|&packed| Owner::unpack(packed))
    }

    /// The objects with a reference to this object's uid.
    pub(crate) fn dependents(&self, position: u32) -> &[u32] {
        let starts = &self.dependent_starts;
        &self.dependents[starts[position as usize] as usize..starts[position as usize + 1] as usize]
    }

    /// The objects with this uid: one, where uids are what they should be.
    pub(crate) fn positions_of<'a>(&'a self, uid: &'a Uid) -> impl Iterator<Item = u32> + 'a {
        self.by_uid.iter_hash(hash(uid)).copied().filter(move |&at| self.uids[at as usize] == *uid)
    }

    pub(crate) fn at_address(
        &self,
        snapshot: &Snapshot,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<u32> {
        let object = snapshot.find(group, kind, namespace, name)?;
        self.positions_of(&object.meta.uid).find(|&at| {
            snapshot.object(at as usize).is_some_and(|other| {
                other.meta.name == object.meta.name
                    && other.meta.namespace == object.meta.namespace
                    && other.kind == object.kind
                    && split_api_version(&other.api_version).0 == group
            })
        })
    }

    /// What a live lookup of the owner that a reference names would find.
    fn owner(&self, snapshot: &Snapshot, object: &SnapshotObject, reference: &OwnerReference) -> Owner {
        let (group, _) = split_api_version(&reference.api_version);
        let Some(kind) = snapshot.catalog.mapping(&reference.api_version, &reference.kind) else {
            let known = snapshot.catalog.iter().any(|(_, resource)| *resource.group == *group);
            return if known { Owner::Never } else { Owner::Unknown };
        };
        let resource = &snapshot.catalog[kind];
        let namespace = if resource.is_namespaced() { &*object.meta.namespace } else { "" };
        if resource.is_namespaced() && namespace.is_empty() {
            return Owner::Never;
        }
        match self.at_address(snapshot, &resource.group, &resource.kind, namespace, &reference.name) {
            Some(at) if self.uids[at as usize] == reference.uid => Owner::At(at),
            // The name belongs to another object: that is proof, complete or not.
            Some(_) => Owner::Absent,
            None if snapshot.completeness.in_namespace(&resource.group, &resource.kind, namespace).is_complete() => {
                Owner::Absent
            }
            None => Owner::Unknown,
        }
    }
}

fn facts(object: &SnapshotObject) -> u8 {
    let meta = &object.meta;
    let collectors = meta.has_finalizer(kubegc_core::metadata::FINALIZER_ORPHAN)
        || meta.has_finalizer(kubegc_core::metadata::FINALIZER_FOREGROUND);
    [
        (meta.is_deleting(), DELETING),
        (!meta.finalizers.is_empty(), HAS_FINALIZERS),
        (collectors, HAS_COLLECTOR_FINALIZER),
        (object.flawed || object.kind_id.is_none(), FLAWED),
    ]
    .into_iter()
    .filter_map(|(holds, flag)| holds.then_some(flag))
    .sum()
}

fn hash(uid: &Uid) -> u64 {
    FixedState::default().hash_one(uid)
}
