//! The owner graph: which objects exist, who owns whom, and which of them were only ever heard of.
//!
//! [`Graph::apply`] takes one event and says, as [`Effect`](crate::effect::Effect)s, what has to be looked at because of it. The graph never
//! asks a cluster anything; what it knows of an object is what the last event said. A *virtual* node stands for an owner that some reference names and no event
//! has shown yet: whether it exists is found out by an attempt, not here.
//!
//! # Upstream
//! `graph.go` and `graph_builder.go` of `pkg/controller/garbagecollector`, 1.13 to 1.36; rules G-1 to G-9 and G-24 to G-35.
//!
//! # Complexity
//! An event costs O(references of the object), plus O(dependents) where they are all queued. With n objects, r references
//! and names of l bytes on average, memory is about 65 n + 4 r + l n bytes.

mod alternate;
mod arena;
mod coordinates;
mod diff;
mod dot;
mod ingest;
mod names;
mod node;

use std::sync::Arc;

use kubegc_core::{ObjectMeta, ObjectRef, OwnerReference, Uid, metadata};

use self::{
    coordinates::{CoordinateTable, Coordinates},
    names::{Kinds, Namespace, Namespaces},
    node::{BEING_DELETED, DELETING_DEPENDENTS, DETACHED, Dependents, Node, Reference, VIRTUAL},
};
pub use self::{
    dot::{DotFilter, SelfEdge},
    names::GraphKind,
    node::NodeId,
};
use crate::Semantics;

/// Who owns whom in one cluster, as far as events have told.
#[derive(Clone, Debug)]
pub struct Graph {
    semantics: Semantics,
    kinds: Kinds,
    namespaces: Namespaces,
    coordinates: CoordinateTable,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    owner_lists: arena::Slab<Box<[Reference]>>,
    dependent_sets: arena::Slab<Dependents>,
    /// Nodes that the index leads to.
    len: usize,
}

/// What an event says of an object. The strings are borrowed; the graph keeps what it needs.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The kind of the monitor that saw the object, which need not be the object's own apiVersion (rule G-4).
    pub kind: GraphKind,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Uid.
    pub uid: &'a Uid,
    /// The owners, in stored order.
    pub owners: &'a [OwnerReference],
    /// How far its deletion is.
    pub deletion: DeletionState,
}

impl<'a> Observed<'a> {
    /// What the metadata says.
    #[must_use]
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

/// What of an object's deletion makes it start to wait for its dependents.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeletionState {
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Has the finalizer `orphan`.
    pub orphan: bool,
    /// Has the finalizer `foregroundDeletion`.
    pub foreground: bool,
}

impl DeletionState {
    /// What the metadata says.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self {
            deleting: meta.is_deleting(),
            orphan: meta.has_finalizer(metadata::FINALIZER_ORPHAN),
            foreground: meta.has_finalizer(metadata::FINALIZER_FOREGROUND),
        }
    }
}

/// Something that happened to an object.
#[expect(
    clippy::exhaustive_enums,
    reason = "upstream's three kinds of event, addition and update being one"
)]
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// It is new or changed.
    Applied {
        /// Its state now.
        object: Observed<'a>,
        /// How far its deletion was before, where the monitor knew the object.
        old: Option<DeletionState>,
    },
    /// It is gone.
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
    /// An empty graph.
    #[must_use]
    pub fn new(semantics: Semantics) -> Self {
        Self {
            semantics,
            kinds: Kinds::default(),
            namespaces: Namespaces::default(),
            coordinates: CoordinateTable::default(),
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            owner_lists: arena::Slab::default(),
            dependent_sets: arena::Slab::default(),
            len: 0,
        }
    }

    /// Makes an apiVersion and kind known, for the events of a monitor.
    pub fn kind(&mut self, api_version: &str, kind: &str) -> GraphKind {
        self.kinds.intern(api_version, kind)
    }

    /// How many objects the graph has a node for, virtual ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the graph has no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The node of a uid.
    #[must_use]
    pub fn node(&self, uid: &Uid) -> Option<NodeId> {
        self.coordinates.node_of_uid(uid).map(NodeId)
    }

    /// Every node that a uid leads to, in the arena's order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| !node.has(DETACHED))
            .map(|(at, _)| NodeId(at as u32))
    }

    /// The identity that the node has: coordinates of the monitor that saw it, or of the reference that it was invented from.
    #[must_use]
    pub fn identity(&self, node: NodeId) -> ObjectRef {
        let Node {
            coordinates,
            namespace,
            ..
        } = self.nodes[node.0 as usize];
        self.object_ref(coordinates, namespace)
    }

    /// The node's uid.
    #[must_use]
    pub fn uid(&self, node: NodeId) -> Uid {
        self.coordinates.uid(self.nodes[node.0 as usize].coordinates)
    }

    /// The namespace that the node has; empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self, node: NodeId) -> &Arc<str> {
        self.namespaces.name(self.nodes[node.0 as usize].namespace)
    }

    /// The apiVersion and kind that the node has.
    #[must_use]
    pub fn kind_of(&self, node: NodeId) -> GraphKind {
        self.coordinates.kind(self.nodes[node.0 as usize].coordinates)
    }

    /// The texts of a kind.
    #[must_use]
    pub fn kind_texts(&self, kind: GraphKind) -> (&Arc<str>, &Arc<str>) {
        (self.kinds.api_version(kind), self.kinds.kind(kind))
    }

    /// Whether the node was only invented from a reference.
    #[must_use]
    pub fn is_virtual(&self, node: NodeId) -> bool {
        self.nodes[node.0 as usize].has(VIRTUAL)
    }

    /// Whether the object was seen with a deletionTimestamp.
    #[must_use]
    pub fn is_being_deleted(&self, node: NodeId) -> bool {
        self.nodes[node.0 as usize].has(BEING_DELETED)
    }

    /// Whether the object waits for its dependents to be deleted.
    #[must_use]
    pub fn is_deleting_dependents(&self, node: NodeId) -> bool {
        self.nodes[node.0 as usize].has(DELETING_DEPENDENTS)
    }

    /// Whether this is the node that the graph has for its uid.
    #[must_use]
    pub fn is_current(&self, node: NodeId) -> bool {
        !self.nodes[node.0 as usize].has(DETACHED)
    }

    /// The nodes whose references name this node's uid.
    #[must_use]
    pub fn dependents(&self, node: NodeId) -> &[NodeId] {
        self.dependents_of(node.0)
    }

    /// The node's owners as last seen, in stored order.
    pub fn owners(&self, node: NodeId) -> impl Iterator<Item = OwnerReference> {
        self.references(node.0)
            .iter()
            .map(|&reference| self.owner_reference(reference))
    }

    /// The nodes of the owners that the graph has a node for, in the order of the references.
    pub fn owner_nodes(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.references(node.0)
            .iter()
            .filter_map(|reference| self.coordinates.node(reference.coordinates()))
            .map(NodeId)
    }

    /// The dependents that hold up a foreground deletion of the node (rule G-7): some reference with the node's uid, whatever its
    /// other coordinates, is blocking.
    pub fn blocking_dependents(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let owner = self.nodes[node.0 as usize].coordinates;
        self.dependents(node).iter().copied().filter(move |dependent| {
            let blocks = |reference: &Reference| {
                reference.is_blocking() && self.coordinates.same_uid(reference.coordinates(), owner)
            };
            self.references(dependent.0).iter().any(blocks)
        })
    }

    /// How many dependents leave `blockOwnerDeletion` unset in every reference with the node's uid.
    #[must_use]
    pub fn dependents_without_block_owner_deletion(&self, node: NodeId) -> usize {
        let owner = self.nodes[node.0 as usize].coordinates;
        let leaves_unset = |dependent: &&NodeId| {
            let mut references = self.references(dependent.0).iter();
            references.all(|reference| {
                reference.block_owner_deletion().is_none()
                    || !self.coordinates.same_uid(reference.coordinates(), owner)
            })
        };
        self.dependents(node).iter().filter(leaves_unset).count()
    }

    /// Counts a node as seen without an event: releases before 1.20 do so when a lookup fails.
    pub(crate) fn mark_observed(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].clear(VIRTUAL);
    }

    /// Holds a node, so that it stays valid until it is released.
    pub fn retain(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].pin();
    }

    /// Gives a node up that an [`Effect`](crate::effect::Effect) or [`retain`](Self::retain) held.
    pub fn release(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].unpin();
        self.free_if_unused(node.0);
    }

    /// Gives unused memory back.
    pub fn shrink_to_fit(&mut self) {
        self.coordinates.shrink_to_fit();
        self.nodes.shrink_to_fit();
        self.free_nodes.shrink_to_fit();
        self.owner_lists.shrink_to_fit();
        for set in self.dependent_sets.iter_mut() {
            set.shrink_to_fit();
        }
        self.dependent_sets.shrink_to_fit();
    }

    /// Bytes that the graph holds in its tables, an estimate by capacity.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.kinds.bytes()
            + self.namespaces.bytes()
            + self.coordinates.bytes()
            + self.nodes.capacity() * size_of::<Node>()
            + self.owner_lists.bytes(|list| size_of_val::<[Reference]>(list))
            + self.dependent_sets.bytes(Dependents::bytes)
            + self.free_nodes.capacity() * 4
    }

    fn object_ref(&self, coordinates: Coordinates, namespace: Namespace) -> ObjectRef {
        let kind = self.coordinates.kind(coordinates);
        ObjectRef {
            kind: Arc::clone(self.kinds.kind(kind)),
            api_version: Arc::clone(self.kinds.api_version(kind)),
            namespace: Arc::clone(self.namespaces.name(namespace)),
            name: self.coordinates.name(coordinates).into(),
            uid: self.coordinates.uid(coordinates),
        }
    }

    fn owner_reference(&self, reference: Reference) -> OwnerReference {
        let coordinates = reference.coordinates();
        let kind = self.coordinates.kind(coordinates);
        OwnerReference {
            api_version: Arc::clone(self.kinds.api_version(kind)),
            kind: Arc::clone(self.kinds.kind(kind)),
            name: self.coordinates.name(coordinates).into(),
            uid: self.coordinates.uid(coordinates),
            controller: reference.controller(),
            block_owner_deletion: reference.block_owner_deletion(),
        }
    }
}
