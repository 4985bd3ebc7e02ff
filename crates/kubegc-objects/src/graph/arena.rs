//! Allocation of nodes. Slots are reused when no queue, attempt or set retains a node, so a graph with a
//! steady number of objects does not grow.

use super::{
    Graph, NodeId,
    coordinates::{Coordinates, NO_NODE},
    names::Namespace,
    node::{
        DEPENDENT_INLINE, DEPENDENTS_LISTED, DETACHED, Dependents, Node, OWNER_INLINE, OWNERS_LISTED,
        Reference,
    },
};

/// Values by position, with reused positions.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Default> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.values[at as usize] = value;
            return at;
        }
        self.values.push(value);
        // At most one value per node, and nodes have 32-bit positions.
        (self.values.len() - 1) as u32
    }

    pub(super) fn remove(&mut self, at: u32) -> T {
        self.free.push(at);
        std::mem::take(&mut self.values[at as usize])
    }

    pub(super) fn at(&self, at: u32) -> &T {
        &self.values[at as usize]
    }

    pub(super) fn at_mut(&mut self, at: u32) -> &mut T {
        &mut self.values[at as usize]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.values.shrink_to_fit();
        self.free.shrink_to_fit();
    }
}

impl Graph {
    /// Adds a node to the arena and the index. One use of its coordinates is already counted.
    #[inline]
    pub(super) fn insert_node(&mut self, coordinates: Coordinates, namespace: Namespace, flags: u8) -> u32 {
        let node = Node::new(coordinates, namespace, flags);
        let at = match self.free_nodes.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                let at = self.nodes.len();
                assert!(at < NO_NODE as usize, "a graph holds fewer than 2^32 nodes");
                self.nodes.push(node);
                at as u32
            }
        };
        self.coordinates.set_node(coordinates, at);
        self.len += 1;
        at
    }

    /// Removes a node from the index. The slot stays in use while the node is retained.
    pub(super) fn detach_node(&mut self, node: u32) {
        let coordinates = self.nodes[node as usize].coordinates;
        if self.coordinates.node(coordinates) == Some(node) {
            self.coordinates.set_node(coordinates, NO_NODE);
        }
        self.nodes[node as usize].set(DETACHED);
        self.len -= 1;
    }

    /// Frees a node that is neither in the index nor retained.
    ///
    /// Its dependents lose one retain each and can become free in turn, so this is a loop, not a recursion.
    pub(super) fn free_if_unused(&mut self, node: u32) {
        let mut pending = Vec::new();
        let mut next = Some(node);
        while let Some(at) = next {
            let candidate = &self.nodes[at as usize];
            if candidate.has(DETACHED) && !candidate.is_pinned() && candidate.namespace != FREED {
                self.free_node(at, &mut pending);
            }
            next = pending.pop();
        }
    }

    fn free_node(&mut self, node: u32, pending: &mut Vec<u32>) {
        for reference in self.take_references(node) {
            self.coordinates.release(reference.coordinates());
        }
        let at = node as usize;
        if self.nodes[at].has(DEPENDENTS_LISTED) {
            let set = self.dependent_sets.remove(self.nodes[at].dependents.0);
            for dependent in set.items() {
                self.nodes[dependent.0 as usize].unpin();
                pending.push(dependent.0);
            }
        } else if self.nodes[at].has(DEPENDENT_INLINE) {
            let dependent = self.nodes[at].dependents.0;
            self.nodes[dependent as usize].unpin();
            pending.push(dependent);
        }
        let coordinates = self.nodes[at].coordinates;
        self.nodes[at] = Node::new(Coordinates(0), FREED, DETACHED);
        self.coordinates.release(coordinates);
        self.free_nodes.push(node);
    }

    /// The references that the node has.
    #[inline]
    pub(super) fn references(&self, node: u32) -> &[Reference] {
        let node = &self.nodes[node as usize];
        if node.has(OWNERS_LISTED) {
            self.owner_lists.at(node.owners.0)
        } else if node.has(OWNER_INLINE) {
            std::slice::from_ref(&node.owners)
        } else {
            &[]
        }
    }

    /// Takes the references from the node, with the uses that they count.
    pub(super) fn take_references(&mut self, node: u32) -> smallvec::SmallVec<[Reference; 4]> {
        let at = node as usize;
        let references = smallvec::SmallVec::from_slice(self.references(node));
        if self.nodes[at].has(OWNERS_LISTED) {
            drop(self.owner_lists.remove(self.nodes[at].owners.0));
        }
        self.nodes[at].clear(OWNERS_LISTED | OWNER_INLINE);
        references
    }

    /// Sets the references of a node that has none. Their uses are already counted.
    #[inline]
    pub(super) fn put_references(&mut self, node: u32, references: &[Reference]) {
        let at = node as usize;
        match references {
            [] => {}
            [one] => {
                self.nodes[at].owners = *one;
                self.nodes[at].set(OWNER_INLINE);
            }
            many => {
                self.nodes[at].owners = Reference(self.owner_lists.insert(many.into()));
                self.nodes[at].set(OWNERS_LISTED);
            }
        }
    }

    /// The dependents that the node has.
    #[inline]
    pub(super) fn dependents_of(&self, node: u32) -> &[NodeId] {
        let node = &self.nodes[node as usize];
        if node.has(DEPENDENTS_LISTED) {
            self.dependent_sets.at(node.dependents.0).items()
        } else if node.has(DEPENDENT_INLINE) {
            std::slice::from_ref(&node.dependents)
        } else {
            &[]
        }
    }

    /// The position of a node's set of dependents.
    pub(super) fn dependent_set(&self, node: u32) -> Option<u32> {
        let node = &self.nodes[node as usize];
        node.has(DEPENDENTS_LISTED).then_some(node.dependents.0)
    }

    /// Adds a dependent to an owner. `fresh` means that it is not in the set yet, which saves a search.
    pub(super) fn add_dependent(&mut self, owner: u32, dependent: u32, fresh: bool) {
        let at = owner as usize;
        let id = NodeId(dependent);
        let added = if self.nodes[at].has(DEPENDENTS_LISTED) {
            self.dependent_sets
                .at_mut(self.nodes[at].dependents.0)
                .insert(id, fresh)
        } else if self.nodes[at].has(DEPENDENT_INLINE) {
            let first = self.nodes[at].dependents;
            first != id && {
                self.nodes[at].clear(DEPENDENT_INLINE);
                self.nodes[at].set(DEPENDENTS_LISTED);
                self.nodes[at].dependents = NodeId(self.dependent_sets.insert(Dependents::of(&[first, id])));
                true
            }
        } else {
            self.nodes[at].set(DEPENDENT_INLINE);
            self.nodes[at].dependents = id;
            true
        };
        if added {
            self.nodes[dependent as usize].pin();
        }
    }

    /// Removes a dependent, by node and not by uid, from an owner.
    pub(super) fn remove_dependent(&mut self, owner: u32, dependent: u32) {
        let at = owner as usize;
        let id = NodeId(dependent);
        let removed = if self.nodes[at].has(DEPENDENTS_LISTED) {
            let position = self.nodes[at].dependents.0;
            let removed = self.dependent_sets.at_mut(position).remove(id);
            if self.dependent_sets.at(position).items().is_empty() {
                self.nodes[at].clear(DEPENDENTS_LISTED);
                drop(self.dependent_sets.remove(position));
            }
            removed
        } else if self.nodes[at].has(DEPENDENT_INLINE) && self.nodes[at].dependents == id {
            self.nodes[at].clear(DEPENDENT_INLINE);
            true
        } else {
            false
        };
        if removed {
            self.nodes[dependent as usize].unpin();
        }
    }
}

/// The namespace that marks a free slot: no namespace has this position.
const FREED: Namespace = Namespace(u32::MAX);
