//! A work queue with set semantics ([W-1](crate::rules#w-1)): an item is queued once and processed by one
//! worker at a time. An item that is added while it is processed is queued again afterwards.
//!
//! # Upstream
//! client-go's `workqueue.Type`, and `insert` of its delaying queue: [`delaying_queue.go`,
//! 1.36](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/client-go/util/workqueue/delaying_queue.go).

use std::collections::{BTreeMap, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::Entry};

use kubegc_core::Timestamp;

use crate::NodeId;

const QUEUED: u8 = 1;
const PROCESSING: u8 = 2;

/// Queued and delayed nodes, in order.
///
/// The queue retains each node at most twice: once while it is queued and once while it is delayed.
/// [`add`](Self::add) and [`add_at`](Self::add_at) take over one retain of the caller or return `false`.
/// [`pop`](Self::pop) and [`pop_due`](Self::pop_due) pass it on to the caller.
#[derive(Clone, Debug, Default)]
pub struct WorkQueue {
    order: VecDeque<NodeId>,
    /// Flags by node position.
    state: Vec<u8>,
    /// Delayed nodes in the order in which they become due; those due at the same time in the order in which
    /// they were delayed.
    delayed: BTreeMap<(Timestamp, u64), NodeId>,
    /// The keys of `delayed`, by node.
    due: HashMap<NodeId, (Timestamp, u64), FixedState>,
    arrivals: u64,
    processing: usize,
}

impl WorkQueue {
    /// Adds a node. Returns whether the queue takes over the caller's retain; otherwise the node was already
    /// queued.
    #[must_use = "a node that the queue does not take over must be released"]
    pub fn add(&mut self, node: NodeId) -> bool {
        let state = self.state_of(node);
        if *state & QUEUED != 0 {
            return false;
        }
        *state |= QUEUED;
        if *state & PROCESSING == 0 {
            self.order.push_back(node);
        }
        true
    }

    /// Adds a node at a later time. A node that is already delayed becomes due at the earlier of both times.
    /// Returns whether the queue takes over the caller's retain; otherwise the node was already delayed.
    #[must_use = "a node that the queue does not take over must be released"]
    pub fn add_at(&mut self, node: NodeId, at: Timestamp) -> bool {
        self.arrivals += 1;
        let key = (at, self.arrivals);
        match self.due.entry(node) {
            Entry::Occupied(mut known) => {
                if at < known.get().0 {
                    self.delayed.remove(known.get());
                    self.delayed.insert(key, node);
                    known.insert(key);
                }
                false
            }
            Entry::Vacant(new) => {
                new.insert(key);
                self.delayed.insert(key, node);
                true
            }
        }
    }

    /// Takes the first node for a worker. The caller must release it.
    pub fn pop(&mut self) -> Option<NodeId> {
        let node = self.order.pop_front()?;
        let state = self.state_of(node);
        *state = PROCESSING;
        self.processing += 1;
        Some(node)
    }

    /// Marks the node as processed. If it was added in the meantime, it is queued now.
    pub fn done(&mut self, node: NodeId) {
        let state = self.state_of(node);
        *state &= !PROCESSING;
        let again = *state & QUEUED != 0;
        self.processing -= 1;
        if again {
            self.order.push_back(node);
        }
    }

    /// Removes the next node whose delay is over. The caller must release it.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<NodeId> {
        let entry = self.delayed.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        let node = entry.remove();
        self.due.remove(&node);
        Some(node)
    }

    /// When the next delay ends.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.delayed.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Returns whether no node is ready for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Number of nodes that are ready for a worker.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Number of nodes that workers are processing.
    #[must_use]
    pub const fn processing(&self) -> usize {
        self.processing
    }

    /// The nodes that are ready, in order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.order.iter().copied()
    }

    /// The delayed nodes, in order.
    pub fn delayed(&self) -> impl Iterator<Item = (Timestamp, NodeId)> {
        self.delayed.iter().map(|(&(at, _), &node)| (at, node))
    }

    /// When the delay of a node ends; `None` if it is not delayed.
    #[must_use]
    pub fn due(&self, node: NodeId) -> Option<Timestamp> {
        self.due.get(&node).map(|&(at, _)| at)
    }

    /// Returns whether the node is queued or was added while it is being processed.
    #[must_use]
    pub fn is_queued(&self, node: NodeId) -> bool {
        self.state
            .get(node.0 as usize)
            .is_some_and(|state| state & QUEUED != 0)
    }

    fn state_of(&mut self, node: NodeId) -> &mut u8 {
        let at = node.0 as usize;
        if at >= self.state.len() {
            self.state.resize(at + 1, 0);
        }
        &mut self.state[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w1_a_node_is_queued_once_and_never_processed_concurrently() {
        let (a, b) = (NodeId(0), NodeId(1));
        let mut queue = WorkQueue::default();
        assert!(queue.add(a) && queue.add(b));
        assert!(!queue.add(a), "queued already");
        assert_eq!(queue.pop(), Some(a));
        assert!(queue.add(a), "added again while it is processed");
        assert!(!queue.add(a));
        assert_eq!(queue.pop(), Some(b));
        assert_eq!(queue.pop(), None, "a is still being processed");
        queue.done(a);
        assert_eq!(queue.pop(), Some(a));
        queue.done(a);
        queue.done(b);
        assert!(queue.is_empty() && queue.processing() == 0);
    }

    #[test]
    fn w2_delays_end_in_order() {
        let mut queue = WorkQueue::default();
        let at = Timestamp::from_secs;
        for (node, due) in [(2, 2), (1, 1), (3, 1)] {
            assert!(queue.add_at(NodeId(node), at(due)));
        }
        assert_eq!(queue.next_due(), Some(at(1)));
        assert_eq!(queue.pop_due(at(0)), None);
        assert_eq!(
            [queue.pop_due(at(2)), queue.pop_due(at(2)), queue.pop_due(at(2))],
            [1, 3, 2].map(|at| Some(NodeId(at)))
        );
    }

    #[test]
    fn a_node_is_delayed_once_and_becomes_due_at_the_earlier_time() {
        let mut queue = WorkQueue::default();
        let at = Timestamp::from_secs;
        assert!(queue.add_at(NodeId(1), at(5)));
        for later in 5..100 {
            assert!(!queue.add_at(NodeId(1), at(later)), "the queue holds it already");
        }
        assert_eq!((queue.due(NodeId(1)), queue.delayed().count()), (Some(at(5)), 1));
        assert!(!queue.add_at(NodeId(1), at(3)));
        assert_eq!((queue.due(NodeId(1)), queue.delayed().count()), (Some(at(3)), 1));
        assert_eq!(queue.pop_due(at(3)), Some(NodeId(1)));
        assert_eq!(
            (queue.due(NodeId(1)), queue.next_due(), queue.pop_due(at(100))),
            (None, None, None)
        );
        assert!(queue.add_at(NodeId(1), at(4)), "it is not delayed any more");
    }
}
