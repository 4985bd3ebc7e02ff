//! Nodes, with their owners and dependents. A node is freed when it has left the index and no queue, attempt
//! or set retains it, so a graph with a steady number of objects does not grow.

use smallvec::SmallVec;

use super::{
    Graph, NodeId,
    dependents::Dependents,
    names::Namespace,
    record::{CURRENT, Coordinates, DETACHED, NODE, NONE, Reference, list_of, listed},
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
    /// Adds a node to the index. One use of its coordinates is already counted.
    #[inline]
    pub(super) fn insert_node(&mut self, coordinates: Coordinates, namespace: Namespace, flags: u8) -> u32 {
        let at = if self.records[coordinates.0].has(DETACHED) {
            self.records.duplicate(coordinates)
        } else {
            coordinates.0
        };
        let record = &mut self.records[at];
        record.namespace = namespace;
        record.set(CURRENT | flags);
        self.len += 1;
        at
    }

    /// Removes a node from the index. It keeps its record while it is retained.
    pub(super) fn detach_node(&mut self, node: u32) {
        self.records[node].clear(CURRENT);
        self.records[node].set(DETACHED);
        self.len -= 1;
    }

    /// Frees a node that is neither in the index nor retained.
    ///
    /// Its dependents lose one retain each and can become free in turn, so this is a loop, not a recursion.
    pub(super) fn free_if_unused(&mut self, node: u32) {
        let mut pending = Vec::new();
        let mut next = Some(node);
        while let Some(at) = next {
            let candidate = &self.records[at];
            if candidate.has(DETACHED) && !candidate.is_pinned() {
                self.free_node(at, &mut pending);
            }
            next = pending.pop();
        }
    }

    fn free_node(&mut self, node: u32, pending: &mut Vec<u32>) {
        for reference in self.take_references(node) {
            self.records.release(reference.coordinates());
        }
        let dependents = std::mem::replace(&mut self.records[node].dependents, NodeId(NONE));
        let mut lose = |dependent: NodeId| {
            self.records[dependent.0].unpin();
            pending.push(dependent.0);
        };
        if let Some(set) = list_of(dependents.0) {
            let set = self.dependent_sets.remove(set);
            set.items().iter().copied().for_each(lose);
        } else if dependents.0 != NONE {
            lose(dependents);
        }
        self.records[node].clear(NODE);
        self.records.release(Coordinates(node));
    }

    /// The references that the node has.
    #[inline]
    pub(super) fn references(&self, node: u32) -> &[Reference] {
        let owners = &self.records[node].owners;
        match list_of(owners.0) {
            Some(list) => self.owner_lists.at(list),
            None if owners.0 == NONE => &[],
            None => std::slice::from_ref(owners),
        }
    }

    /// Takes the references from the node, with the uses that they count.
    pub(super) fn take_references(&mut self, node: u32) -> SmallVec<[Reference; 4]> {
        let references = SmallVec::from_slice(self.references(node));
        let owners = std::mem::replace(&mut self.records[node].owners, Reference(NONE));
        if let Some(list) = list_of(owners.0) {
            self.owner_lists.remove(list);
        }
        references
    }

    /// Sets the references of a node that has none. Their uses are already counted.
    #[inline]
    pub(super) fn put_references(&mut self, node: u32, references: &[Reference]) {
        self.records[node].owners = match references {
            [] => Reference(NONE),
            [one] => *one,
            many => Reference(listed(self.owner_lists.insert(many.into()))),
        };
    }

    /// The dependents that the node has.
    #[inline]
    pub(super) fn dependents_of(&self, node: u32) -> &[NodeId] {
        let dependents = &self.records[node].dependents;
        match list_of(dependents.0) {
            Some(list) => self.dependent_sets.at(list).items(),
            None if dependents.0 == NONE => &[],
            None => std::slice::from_ref(dependents),
        }
    }

    /// Sets the dependents of a node that has none, and retains them.
    pub(super) fn put_dependents(&mut self, node: u32, dependents: &[NodeId]) {
        self.records[node].dependents = match dependents {
            [] => NodeId(NONE),
            [one] => *one,
            many => NodeId(listed(self.dependent_sets.insert(Dependents::of(many)))),
        };
        for dependent in dependents {
            self.records[dependent.0].pin();
        }
    }

    /// Adds a dependent to an owner. `fresh` means that it is not in the set yet, which saves a search.
    pub(super) fn add_dependent(&mut self, owner: u32, dependent: u32, fresh: bool) {
        let id = NodeId(dependent);
        let known = self.records[owner].dependents;
        if let Some(set) = list_of(known.0) {
            if !self.dependent_sets.at_mut(set).insert(id, fresh) {
                return;
            }
        } else if known == id {
            return;
        } else if known.0 == NONE {
            self.records[owner].dependents = id;
        } else {
            let set = self.dependent_sets.insert(Dependents::of(&[known, id]));
            self.records[owner].dependents = NodeId(listed(set));
        }
        self.records[dependent].pin();
    }

    /// Removes a dependent, by node and not by uid, from an owner.
    pub(super) fn remove_dependent(&mut self, owner: u32, dependent: u32) {
        let id = NodeId(dependent);
        let known = self.records[owner].dependents;
        let mut is_empty = known == id;
        if let Some(at) = list_of(known.0) {
            let set = self.dependent_sets.at_mut(at);
            if !set.remove(id) {
                return;
            }
            is_empty = set.items().is_empty();
            if is_empty {
                self.dependent_sets.remove(at);
            }
        } else if known != id {
            return;
        }
        if is_empty {
            self.records[owner].dependents = NodeId(NONE);
        }
        self.records[dependent].unpin();
    }
}
