//! The part of a cluster that a cascade can reach: all that may be touched, and what those look at.
//!
//! What is in a namespace, and what a definition defines, goes with it, so it takes part where these do.
//!
//! A forecast is simulated on this part alone, so it costs what its cascade costs. What is only looked at keeps no references of
//! its own here: nothing will ever evaluate it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{OwnerReference, identity::split_api_version, metadata};
use kubegc_snapshot::{Details, SnapshotObject};

use super::{
    Cluster, Owner,
    edges::{DELETING, FLAWED, HAS_COLLECTOR_FINALIZER, HAS_CONTENT},
};
use crate::forecast::Pending;

/// How an object takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Member {
    /// It may change.
    Affected,
    /// It is only looked at.
    Context,
}

/// The objects that take part in a cascade, by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) members: BTreeMap<u32, Member>,
    /// References whose owners are neither in the dump nor known to be absent, by the position of the dependent.
    pub(crate) unknown: Vec<(u32, OwnerReference)>,
    /// References that no lookup follows, whose owners are not in the dump: one that is deleted without its dependents releases them all the same.
    pub(crate) out_of_reach: Vec<(u32, OwnerReference)>,
    /// Members of which a part could not be read or whose kind is not known.
    pub(crate) flawed: BTreeSet<u32>,
}

impl Scope {
    /// What a change of these objects can reach.
    ///
    /// # Complexity
    /// O(m log m) for m members.
    pub(crate) fn of(cluster: &Cluster, seeds: impl IntoIterator<Item = u32>) -> Self {
        Self::after(cluster, &cluster.pending, seeds)
    }

    /// The same, once something else has happened than what is pending.
    pub(crate) fn after(
        cluster: &Cluster,
        pending_changes: &Pending,
        seeds: impl IntoIterator<Item = u32>,
    ) -> Self {
        let object_at = |position| cluster.object_after(pending_changes, position);
        let mut scope = Self::default();
        let mut content = Content::new(cluster);
        let mut pending: VecDeque<u32> = seeds.into_iter().collect();
        while let Some(position) = pending.pop_front() {
            if scope.members.insert(position, Member::Affected) == Some(Member::Affected) {
                continue;
            }
            let Some(object) = object_at(position) else {
                scope.members.remove(&position);
                continue;
            };
            if cluster.edges.facts[position as usize] & FLAWED != 0 {
                scope.flawed.insert(position);
            }
            pending.extend(cluster.edges.dependents(position));
            if cluster.edges.facts[position as usize] & HAS_CONTENT != 0 {
                pending.extend(content.of(&object));
            }
            let owners = cluster.edges.owners(position);
            // The pending changes may have removed references: those that are left are found by uid and name.
            let references: Vec<_> = cluster
                .snapshot
                .object(position as usize)
                .map(|original| original.meta.owner_references.into_iter().zip(owners).collect())
                .unwrap_or_default();
            // Where one owner keeps the collector from ever deciding, the others do not matter to it either.
            let never = references.iter().any(|(_, owner)| *owner == Owner::Never);
            for (reference, owner) in references {
                if !object.meta.owner_references.contains(&reference) {
                    continue;
                }
                if owner == Owner::Never && may_orphan(cluster, &reference)
                    || owner == Owner::Unknown && never
                {
                    scope.out_of_reach.push((position, reference.clone()));
                }
                if owner == Owner::Unknown {
                    scope.unknown.push((position, reference.clone()));
                }
                let named = cluster.edges.positions_of(&reference.uid).chain(scope.address(
                    cluster,
                    &object.meta.namespace,
                    &reference,
                ));
                for owner in named {
                    // An owner that waits for its dependents can go when they do, and one that may be gone hangs on owners of its own.
                    if waits(cluster, pending_changes, owner) || pending_changes.undecided.contains(&owner) {
                        pending.push_back(owner);
                    } else {
                        scope.members.entry(owner).or_insert(Member::Context);
                    }
                }
            }
        }
        scope.members.retain(|&position, _| object_at(position).is_some());
        scope
    }

    /// The objects that may change, in order.
    pub(crate) fn affected(&self) -> impl Iterator<Item = u32> + '_ {
        self.members
            .iter()
            .filter(|(_, member)| **member == Member::Affected)
            .map(|(&position, _)| position)
    }

    fn address(&self, cluster: &Cluster, namespace: &str, reference: &OwnerReference) -> Option<u32> {
        let kind = cluster.kind_id(&reference.api_version, &reference.kind)?;
        let resource = &cluster.catalog()[kind];
        let (group, _) = split_api_version(&reference.api_version);
        let namespace = if resource.is_namespaced() { namespace } else { "" };
        let found = cluster
            .snapshot
            .position(group, &reference.kind, namespace, &reference.name);
        found.map(|at| at as u32)
    }
}

/// What goes with namespaces and definitions.
struct Content<'c> {
    cluster: &'c Cluster,
    /// Everything by its namespace, once somebody asks for one.
    by_namespace: Option<HashMap<&'c str, Vec<u32>, FixedState>>,
}

impl<'c> Content<'c> {
    const fn new(cluster: &'c Cluster) -> Self {
        Self {
            cluster,
            by_namespace: None,
        }
    }

    /// What goes with this Namespace or CustomResourceDefinition.
    ///
    /// # Complexity
    /// O(1) and what is found; for the first namespace O(n) for n objects in the dump.
    fn of(&mut self, object: &SnapshotObject) -> Vec<u32> {
        let snapshot = &self.cluster.snapshot;
        if let Some(Details::CustomResourceDefinition(definition)) = object.details.as_deref() {
            let instances = snapshot.positions_of_kind(&definition.group, &definition.kind);
            return instances.map(|position| position as u32).collect();
        }
        if *object.kind != *"Namespace" {
            return Vec::new();
        }
        let by_namespace = self.by_namespace.get_or_insert_with(|| {
            let mut by_namespace = HashMap::<_, Vec<u32>, _>::default();
            for (position, view) in snapshot.views().enumerate() {
                let namespace: &'c str = view.namespace();
                by_namespace.entry(namespace).or_default().push(position as u32);
            }
            by_namespace
        });
        by_namespace.get(&*object.meta.name).cloned().unwrap_or_default()
    }
}

/// Whether the owner that a cluster-scoped object names in a namespace may exist, unseen.
fn may_orphan(cluster: &Cluster, reference: &OwnerReference) -> bool {
    let Some(kind) = cluster.kind_id(&reference.api_version, &reference.kind) else {
        return false;
    };
    let is_listed = cluster.edges.positions_of(&reference.uid).next().is_some();
    !is_listed && cluster.is_unlisted(&cluster.catalog()[kind], "")
}

/// Whether an object is being deleted and the collector has yet to do its part.
fn waits(cluster: &Cluster, pending: &Pending, position: u32) -> bool {
    match pending.changes.get(&position) {
        Some(None) => false,
        Some(Some(meta)) => {
            meta.is_deleting()
                && (meta.has_finalizer(metadata::FINALIZER_FOREGROUND)
                    || meta.has_finalizer(metadata::FINALIZER_ORPHAN))
        }
        None => {
            let facts = cluster.edges.facts[position as usize];
            facts & DELETING != 0 && facts & HAS_COLLECTOR_FINALIZER != 0
        }
    }
}
