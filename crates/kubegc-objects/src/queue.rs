//! A work queue with set semantics ([W-1](crate::rules#w-1)): an item is queued once and processed by one
//! worker at a time. An item that is added while it is processed is queued again afterwards.
//!
//! # Upstream
//! client-go's `workqueue.Type`:
//! [`queue.go`, 1.36](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/client-go/util/workqueue/queue.go).

use std::collections::VecDeque;

use crate::graph::NodeId;

const QUEUED: u8 = 1;
const PROCESSING: u8 = 2;

/// Queued nodes, in order.
///
/// The queue retains each queued node once. [`add`](Self::add) takes over one retain of the caller or returns
/// `false`. [`pop`](Self::pop) passes it on to the caller.
#[derive(Clone, Debug, Default)]
pub struct WorkQueue {
    order: VecDeque<NodeId>,
    /// Flags by node position.
    state: Vec<u8>,
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

    /// Returns whether no node is ready for a worker.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Number of nodes that workers are processing.
    pub const fn processing(&self) -> usize {
        self.processing
    }

    /// The nodes that are ready, in order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.order.iter().copied()
    }

    /// Returns whether the node is queued or was added while it is being processed.
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
}
