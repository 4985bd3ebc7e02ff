//! The owner graph: observed objects, their owners and dependents, and owners known only from references.
//!
//! [`Graph::apply`] processes one event and returns, as [`Effect`]s, which nodes to
//! queue. The graph sends no requests; its knowledge of an object is the last event. A *virtual* node
//! represents an owner that a reference names and that no event has shown: an attempt finds out whether it
//! exists.
//!
//! # Upstream
//! [`graph.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph.go)
//! and
//! [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
//! 1.13 to 1.36; rules
//! [G-1](crate::rules#g-1) to [G-9](crate::rules#g-9) and [G-24](crate::rules#g-24) to
//! [G-35](crate::rules#g-35).
//!
//! # Complexity
//! An event costs O(references of the object), plus O(dependents) if they are all queued. With n objects,
//! r references and names of l bytes on average, memory is about 55 n + 4 r + l n bytes.

mod arena;
mod bulk;
mod dependents;
mod dot;
mod index;
mod ingest;
mod names;
mod record;
mod records;

use std::sync::Arc;

use slab::Slab;

use kubegc_core::{KubernetesVersion, ObjectMeta, ObjectRef, OwnerReference, Uid, metadata};

pub use self::bulk::Listed;
use self::{
    dependents::Dependents,
    names::{Kinds, Namespace, Namespaces},
    record::{BEING_DELETED, CURRENT, Coordinates, DELETING_DEPENDENTS, Reference, VIRTUAL},
    records::Records,
};
pub use self::{
    dot::{DotFilter, SelfEdge},
    names::GraphKind,
    record::NodeId,
};
pub use crate::effect::Effect;

/// Owners and dependents in one cluster, as far as events have shown.
///
/// # Examples
/// ```
/// use kubegc_core::{KubernetesVersion, OwnerReference, Uid};
/// use kubegc_objects::{Graph, graph::{DeletionState, Event, Observed}};
///
/// let mut graph = Graph::new(KubernetesVersion::LATEST);
/// let kind = graph.kind("v1", "ConfigMap");
/// let owner = OwnerReference {
///     api_version: "v1".into(),
///     kind: "ConfigMap".into(),
///     name: "owner".into(),
///     uid: "u1".into(),
///     controller: None,
///     block_owner_deletion: None,
/// };
/// let object = Observed {
///     kind,
///     namespace: "shop",
///     name: "dependent",
///     uid: &Uid::new("u2"),
///     owners: &[owner],
///     deletion: DeletionState::default(),
/// };
/// graph.apply(&Event::Applied { object, old: None }, &mut Vec::new());
/// let owner = graph.node(&Uid::new("u1")).expect("a reference names it");
/// assert!(graph.is_virtual(owner), "no event showed it");
/// assert_eq!(graph.dependents(owner).len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Graph {
    version: KubernetesVersion,
    kinds: Kinds,
    namespaces: Namespaces,
    records: Records,
    owner_lists: Slab<Box<[Reference]>>,
    dependent_sets: Slab<Dependents>,
    /// Number of nodes in the index.
    len: usize,
}

/// The state of an object in an event. The strings are borrowed; the graph keeps the parts that it needs.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The kind of the monitor that observed the object, which need not be the object's own apiVersion
    /// ([G-4](crate::rules#g-4)).
    pub kind: GraphKind,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a Uid,
    /// The owners, in stored order.
    pub owners: &'a [OwnerReference],
    pub deletion: DeletionState,
}

impl<'a> Observed<'a> {
    /// The state in the metadata.
    #[inline]
    pub fn of(kind: GraphKind, meta: &'a ObjectMeta) -> Self {
        Self {
            kind,
            namespace: &meta.namespace,
            name: &meta.name,
            uid: &meta.uid,
            owners: &meta.owner_references,
            deletion: DeletionState::of(meta),
        }
    }
}

/// The parts of an object's deletion that determine whether it waits for its dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeletionState {
    pub deleting: bool,
    /// Has the finalizer `orphan`.
    pub orphan: bool,
    /// Has the finalizer `foregroundDeletion`.
    pub foreground: bool,
}

impl DeletionState {
    /// The state in the metadata.
    #[inline]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self {
            deleting: meta.is_deleting(),
            orphan: meta.has_finalizer(metadata::FINALIZER_ORPHAN),
            foreground: meta.has_finalizer(metadata::FINALIZER_FOREGROUND),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// It was added or modified.
    Applied {
        /// Its state now.
        object: Observed<'a>,
        /// The state of its deletion before, if the monitor knew the object.
        old: Option<DeletionState>,
    },
    Deleted {
        /// Its last state.
        object: Observed<'a>,
    },
    /// A live lookup did not find it under this identity.
    VirtualDeleted {
        /// The identity that was looked up.
        identity: &'a ObjectRef,
    },
}

impl Graph {
    /// An empty graph of the collector of a release.
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            version,
            kinds: Kinds::default(),
            namespaces: Namespaces::default(),
            records: Records::default(),
            owner_lists: Slab::new(),
            dependent_sets: Slab::new(),
            len: 0,
        }
    }

    /// Interns an apiVersion and kind, for the events of a monitor.
    pub fn kind(&mut self, api_version: &str, kind: &str) -> GraphKind {
        self.kinds.intern(api_version, kind)
    }

    /// Number of objects with a node, virtual ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the graph has no node.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The node of a uid ([E-2](crate::rules#e-2)).
    pub fn node(&self, uid: &Uid) -> Option<NodeId> {
        self.records.node_of_uid(uid).map(NodeId)
    }

    /// All nodes in the index, in the arena's order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.records.nodes()
    }

    /// The node's identity: coordinates of the monitor that observed it, or of the reference that named it
    /// ([G-6](crate::rules#g-6)).
    pub fn identity(&self, node: NodeId) -> ObjectRef {
        self.object_ref(Coordinates(node.0), self.records[node.0].namespace)
    }

    /// The identities of nodes, sorted and without duplicates.
    pub fn identities(&self, nodes: impl IntoIterator<Item = NodeId>) -> Vec<ObjectRef> {
        let mut objects: Vec<ObjectRef> = nodes.into_iter().map(|node| self.identity(node)).collect();
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    pub fn uid(&self, node: NodeId) -> Uid {
        self.records.uid(Coordinates(node.0))
    }

    /// The node's namespace; empty for cluster-scoped objects.
    pub fn namespace(&self, node: NodeId) -> &Arc<str> {
        self.namespaces.name(self.records[node.0].namespace)
    }

    /// The node's apiVersion and kind.
    pub fn kind_of(&self, node: NodeId) -> GraphKind {
        self.records.kind(Coordinates(node.0))
    }

    /// Returns whether the node is known only from references.
    pub fn is_virtual(&self, node: NodeId) -> bool {
        self.records[node.0].has(VIRTUAL)
    }

    /// Returns whether the object was observed with a deletionTimestamp.
    pub fn is_being_deleted(&self, node: NodeId) -> bool {
        self.records[node.0].has(BEING_DELETED)
    }

    pub fn is_deleting_dependents(&self, node: NodeId) -> bool {
        self.records[node.0].has(DELETING_DEPENDENTS)
    }

    pub fn is_current(&self, node: NodeId) -> bool {
        self.records[node.0].has(CURRENT)
    }

    /// The nodes whose references name this node's uid.
    pub fn dependents(&self, node: NodeId) -> &[NodeId] {
        self.dependents_of(node.0)
    }

    /// The node's owners as last observed, in stored order.
    pub fn owners(&self, node: NodeId) -> impl Iterator<Item = OwnerReference> {
        self.references(node.0)
            .iter()
            .map(|&reference| self.owner_reference(reference))
    }

    /// The nodes of the owners that have one, in the order of the references.
    pub fn owner_nodes(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.references(node.0)
            .iter()
            .filter_map(|reference| self.records.node(reference.coordinates()))
            .map(NodeId)
    }

    /// The dependents that block a deletion of the node in the foreground ([G-7](crate::rules#g-7)): some
    /// reference with the node's uid, whatever its other coordinates, is blocking.
    pub fn blocking_dependents(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let owner = Coordinates(node.0);
        self.dependents(node).iter().copied().filter(move |dependent| {
            let blocks = |reference: &Reference| {
                reference.is_blocking() && self.records.same_uid(reference.coordinates(), owner)
            };
            self.references(dependent.0).iter().any(blocks)
        })
    }

    /// Number of dependents that leave `blockOwnerDeletion` unset in every reference with the node's uid.
    pub fn dependents_without_block_owner_deletion(&self, node: NodeId) -> usize {
        let owner = Coordinates(node.0);
        let leaves_unset = |dependent: &&NodeId| {
            let mut references = self.references(dependent.0).iter();
            references.all(|reference| {
                reference.block_owner_deletion().is_none()
                    || !self.records.same_uid(reference.coordinates(), owner)
            })
        };
        self.dependents(node).iter().filter(leaves_unset).count()
    }

    /// Marks a node as observed without an event: releases before 1.20 do so if a lookup fails
    /// ([A-4](crate::rules#a-4)).
    pub(crate) fn mark_observed(&mut self, node: NodeId) {
        self.records[node.0].clear(VIRTUAL);
    }

    /// Retains a node, so that it stays valid until it is released.
    pub fn retain(&mut self, node: NodeId) {
        self.records[node.0].retain();
    }

    /// Releases a node that an [`Effect`] or [`retain`](Self::retain) retained.
    pub fn release(&mut self, node: NodeId) {
        self.records[node.0].release();
        self.free_if_unused(node.0);
    }

    /// Returns unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.records.shrink_to_fit();
        self.owner_lists.shrink_to_fit();
        for (_, set) in &mut self.dependent_sets {
            set.shrink_to_fit();
        }
        self.dependent_sets.shrink_to_fit();
    }

    fn object_ref(&self, coordinates: Coordinates, namespace: Namespace) -> ObjectRef {
        let kind = self.records.kind(coordinates);
        ObjectRef {
            kind: Arc::clone(self.kinds.kind(kind)),
            api_version: Arc::clone(self.kinds.api_version(kind)),
            namespace: Arc::clone(self.namespaces.name(namespace)),
            name: self.records.name(coordinates).into(),
            uid: self.records.uid(coordinates),
        }
    }

    fn owner_reference(&self, reference: Reference) -> OwnerReference {
        let coordinates = reference.coordinates();
        let kind = self.records.kind(coordinates);
        OwnerReference {
            api_version: Arc::clone(self.kinds.api_version(kind)),
            kind: Arc::clone(self.kinds.kind(kind)),
            name: self.records.name(coordinates).into(),
            uid: self.records.uid(coordinates),
            controller: reference.controller(),
            block_owner_deletion: reference.block_owner_deletion(),
        }
    }
}
