//! Owners and dependents in a snapshot, as plain arrays of positions, computed once.

use std::{hash::BuildHasher, ops::Range};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use kubegc_core::{ApiResource, OwnerReference, Uid, identity::split_api_version, metadata};
use kubegc_snapshot::{Details, ObjectView, Snapshot};

use super::{API_SERVICE, DEFINITION, EXTENSIONS, REGISTRATION};

/// The result of resolving an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The object at this position, under exactly the name that the reference gives.
    At(u32),
    /// Nothing: the kind is complete, and no object of that name has the uid.
    Absent,
    /// Unknown: the kind is not complete, or not known to be served.
    Unknown,
    /// Nothing that a lookup could find out: a cluster-scoped object names a namespaced owner, or the kind is
    /// known not to be served.
    Never,
}

impl Owner {
    pub(crate) const fn position(self) -> Option<u32> {
        match self {
            Self::At(position) => Some(position),
            _ => None,
        }
    }
}

/// Facts of one object that a cascade depends on, in one byte.
pub(crate) const DELETING: u8 = 1;
pub(crate) const HAS_FINALIZERS: u8 = 2;
pub(crate) const HAS_COLLECTOR_FINALIZER: u8 = 4;
pub(crate) const FLAWED: u8 = 8;
/// Some reference does not lead to a live object under exactly its name.
pub(crate) const UNRESOLVED_OWNER: u8 = 16;
/// It is a Namespace or a CustomResourceDefinition: other objects are deleted with it.
pub(crate) const HAS_CONTENT: u8 = 32;

/// Owners and dependents by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    owner_starts: Vec<u32>,
    owners: Vec<Owner>,
    dependent_starts: Vec<u32>,
    dependents: Vec<u32>,
    pub(crate) flags: Vec<u8>,
    by_uid: HashTable<u32>,
}

impl Edges {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let count = snapshot.len();
        let mut edges = Self {
            flags: Vec::with_capacity(count),
            by_uid: HashTable::with_capacity(count),
            ..Self::default()
        };
        for (position, object) in snapshot.objects().enumerate() {
            edges.flags.push(flags(&object));
            let rehash = |&at: &u32| snapshot.object(at as usize).map_or(0, |other| hash(other.uid()));
            let by_uid = &mut edges.by_uid;
            by_uid.insert_unique(hash(object.uid()), position as u32, rehash);
        }
        // By uid: the graph's edges. By address: what lookups find.
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        edges.owner_starts.push(0);
        for (position, object) in snapshot.objects().enumerate() {
            for reference in object.owner_references() {
                let owner = edges.owner(snapshot, object.namespace(), &reference);
                let clean = matches!(owner, Owner::At(at) if edges.flags[at as usize] & DELETING == 0);
                if !clean {
                    edges.flags[position] |= UNRESOLVED_OWNER;
                }
                edges.owners.push(owner);
                let owners = edges.positions_of(snapshot, &reference.uid);
                pairs.extend(owners.map(|at| (at, position as u32)));
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

    /// The resolved owner references of an object, in stored order.
    pub(crate) fn owners(&self, position: u32) -> impl Iterator<Item = Owner> {
        self.owners[range(&self.owner_starts, position)].iter().copied()
    }

    /// The objects with a reference to this object's uid.
    pub(crate) fn dependents(&self, position: u32) -> &[u32] {
        &self.dependents[range(&self.dependent_starts, position)]
    }

    /// The objects with this uid: one, if uids are unique.
    pub(crate) fn positions_of<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        uid: &'a Uid,
    ) -> impl Iterator<Item = u32> + 'a {
        let is_its = move |at: &u32| {
            snapshot
                .object(*at as usize)
                .is_some_and(|object| object.uid() == uid)
        };
        self.by_uid.iter_hash(hash(uid)).copied().filter(is_its)
    }

    /// Whether an object is of this kind, in any group that serves the same objects.
    pub(crate) fn is_of(snapshot: &Snapshot, object: &ObjectView<'_>, resource: &ApiResource) -> bool {
        let (group, _) = split_api_version(object.api_version());
        let is_stored_with = || {
            let kind = object.kind_id();
            kind.is_some_and(|kind| snapshot.catalog[kind].storage_group() == resource.storage_group())
        };
        *object.kind() == resource.kind && (*group == *resource.group || is_stored_with())
    }

    /// The result of a live lookup of an owner reference, for a dependent in this namespace.
    fn owner(&self, snapshot: &Snapshot, namespace: &str, reference: &OwnerReference) -> Owner {
        let Some(kind) = snapshot.catalog.mapping(&reference.api_version, &reference.kind) else {
            let unserved = is_unserved(snapshot, &reference.api_version, &reference.kind);
            return if unserved { Owner::Never } else { Owner::Unknown };
        };
        let resource = &snapshot.catalog[kind];
        if resource.is_namespaced() && namespace.is_empty() {
            return Owner::Never;
        }
        let namespace = if resource.is_namespaced() { namespace } else { "" };
        // The uid leads to the owner more quickly than its name, if both agree.
        let is_named = |at: &u32| {
            snapshot.object(*at as usize).is_some_and(|owner| {
                **owner.name() == *reference.name
                    && **owner.namespace() == *namespace
                    && Self::is_of(snapshot, &owner, resource)
            })
        };
        if let Some(at) = self.positions_of(snapshot, &reference.uid).find(is_named) {
            return Owner::At(at);
        }
        let (group, kind) = (&resource.group, &resource.kind);
        if snapshot
            .position(group, kind, namespace, &reference.name)
            .is_some()
        {
            // The name belongs to another object: that is proof, complete or not.
            return Owner::Absent;
        }
        // So is a uid that belongs to another object: it is given once. Several groups may serve one object,
        // under one uid: a lookup may find it.
        let mut listed = self.positions_of(snapshot, &reference.uid);
        let is_absent = match (listed.next(), listed.next()) {
            (Some(at), None) if !reference.uid.is_empty() => {
                snapshot.object(at as usize).is_some_and(|other| {
                    **other.kind() != *reference.kind
                        || **other.name() != *reference.name
                        || **other.namespace() != *namespace
                })
            }
            _ => snapshot
                .completeness
                .in_namespace(group, kind, namespace)
                .is_complete(),
        };
        match is_absent {
            true => Owner::Absent,
            false => Owner::Unknown,
        }
    }
}

/// Whether a kind that is not in the catalog is known not to be served, instead of merely not known.
///
/// The kinds of built-in groups are known, and so are the versions of a kind whose definition was dumped. Any
/// other group may have further definitions, unless all APIServices were dumped: there is one for each group
/// and version that is served.
pub(crate) fn is_unserved(snapshot: &Snapshot, api_version: &str, kind: &str) -> bool {
    // No request can be addressed with it.
    if api_version.matches('/').count() > 1 {
        return true;
    }
    let (group, version) = split_api_version(api_version);
    let resources = snapshot.catalog.iter().map(|(_, resource)| resource);
    let mut in_group = resources.filter(|resource| *resource.group == *group).peekable();
    if in_group.peek().is_none() {
        return is_unregistered(snapshot, &format!("{version}.{group}"));
    }
    in_group.any(|resource| {
        let is_defined = || {
            let (group, kind) = (EXTENSIONS, DEFINITION);
            snapshot
                .position(group, kind, "", &resource.qualified_resource())
                .is_some()
        };
        !resource.custom || (*resource.kind == *kind && is_defined())
    })
}

/// Whether the group and version of an APIService of this name cannot be discovered: it does not exist or is
/// not available.
fn is_unregistered(snapshot: &Snapshot, name: &str) -> bool {
    let (group, kind) = (REGISTRATION, API_SERVICE);
    match snapshot.find(group, kind, "", name) {
        Some(object) => matches!(
            object.details(),
            Some(Details::ApiService(api)) if api.is_available() == Some(false)
        ),
        None => snapshot.completeness.of(group, kind).is_complete(),
    }
}

fn flags(object: &ObjectView<'_>) -> u8 {
    let mut flags = 0;
    for finalizer in object.finalizers() {
        flags |= HAS_FINALIZERS;
        if let metadata::FINALIZER_ORPHAN | metadata::FINALIZER_FOREGROUND = &**finalizer {
            flags |= HAS_COLLECTOR_FINALIZER;
        }
    }
    if object.is_deleting() {
        flags |= DELETING;
    }
    let (group, _) = split_api_version(object.api_version());
    let kind = (group, &**object.kind());
    if let ("", "Namespace") | (EXTENSIONS, DEFINITION) = kind {
        flags |= HAS_CONTENT;
    }
    if object.is_flawed() || object.kind_id().is_none() {
        flags |= FLAWED;
    }
    flags
}

/// The range of an object's entries, which begin at these positions.
fn range(starts: &[u32], position: u32) -> Range<usize> {
    starts[position as usize] as usize..starts[position as usize + 1] as usize
}

fn hash(uid: &Uid) -> u64 {
    FixedState::default().hash_one(uid)
}
