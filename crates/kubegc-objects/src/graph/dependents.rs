//! The dependents of one owner ([G-2](crate::rules#g-2)).

use hashbrown::HashTable;

use super::record::NodeId;

/// The dependents of one owner, in the order of arrival; the last one fills the gap of a removed one.
#[derive(Clone, Debug, Default)]
pub(super) struct Dependents {
    items: Vec<NodeId>,
    /// Positions by node, for sets that are too large for a scan.
    index: Option<Box<HashTable<u32>>>,
}

/// An owner with two dependents usually gets more.
const CAPACITY_MIN: usize = 8;
/// Up to this size a scan is faster than a hash table.
const SCAN_MAX: usize = 32;

impl Dependents {
    /// The set of these nodes, which must be distinct.
    pub(super) fn of(items: &[NodeId]) -> Self {
        let mut set = Self {
            items: Vec::with_capacity(items.len().max(CAPACITY_MIN)),
            ..Self::default()
        };
        for &item in items {
            set.insert(item, true);
        }
        set
    }

    pub(super) fn items(&self) -> &[NodeId] {
        &self.items
    }

    /// Adds a node and returns whether it was new. `fresh` means that it is, which saves a search.
    pub(super) fn insert(&mut self, node: NodeId, fresh: bool) -> bool {
        if !fresh && self.position(node).is_some() {
            return false;
        }
        self.items.push(node);
        let items = &self.items;
        let hash = |&at: &u32| spread(items[at as usize]);
        let last = (items.len() - 1) as u32;
        if let Some(index) = &mut self.index {
            index.insert_unique(spread(node), last, hash);
        } else if items.len() > SCAN_MAX {
            let index = self.index.insert(Box::default());
            for at in 0..=last {
                index.insert_unique(hash(&at), at, hash);
            }
        }
        true
    }

    pub(super) fn remove(&mut self, node: NodeId) -> bool {
        let Some(at) = self.position(node) else {
            return false;
        };
        if let Some(index) = &mut self.index {
            let last = (self.items.len() - 1) as u32;
            if let Ok(entry) = index.find_entry(spread(node), |&other| other == at) {
                entry.remove();
            }
            let moved = self.items[last as usize];
            if let Some(position) = index.find_mut(spread(moved), |&other| other == last) {
                *position = at;
            }
        }
        self.items.swap_remove(at as usize);
        if self.items.len() == SCAN_MAX {
            self.index = None;
        }
        true
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
        let items = &self.items;
        if let Some(index) = &mut self.index {
            index.shrink_to_fit(|&at| spread(items[at as usize]));
        }
    }

    fn position(&self, node: NodeId) -> Option<u32> {
        let Some(index) = &self.index else {
            let at = self.items.iter().position(|&item| item == node);
            return at.map(|at| at as u32);
        };
        index
            .find(spread(node), |&at| self.items[at as usize] == node)
            .copied()
    }
}

fn spread(node: NodeId) -> u64 {
    u64::from(node.0)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(32)
}
