//! Digests the canonical state of a collector: what will decide its next outputs, and nothing of how it came about.
//!
//! Positions in the arena, call numbers and absolute times do not count; identities, edges, queue order, retry counts and times relative to now do.

use std::hash::{Hash, Hasher};

use foldhash::fast::FixedState;
use std::hash::BuildHasher;

use super::{
    Collector,
    workers::{Queue, Work},
};
use crate::NodeId;

impl Collector {
    /// A digest of the canonical state: equal fingerprints, equal next outputs.
    ///
    /// # Complexity
    /// O(n log n) in the objects known.
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        let half = |seed: u64| {
            let mut hasher = FixedState::with_seed(seed).build_hasher();
            self.digest(&mut hasher);
            hasher.finish()
        };
        u128::from(half(0x6b75_6265)) << 64 | u128::from(half(0x6763_0001))
    }

    fn digest(&self, hasher: &mut impl Hasher) {
        let mut nodes: Vec<NodeId> = self.graph.nodes().collect();
        nodes.sort_by_cached_key(|&node| self.graph.identity(node));
        for node in nodes {
            self.digest_node(node, hasher);
        }
        for owner in self.absent.iter() {
            owner.hash(hasher);
        }
        for (resource, synced, known) in self.monitors.known() {
            resource.hash(hasher);
            synced.hash(hasher);
            known.hash(hasher);
        }
        self.digest_queue(&self.attempt_to_delete, hasher);
        self.digest_queue(&self.attempt_to_orphan, hasher);
        // Works in the order of what they asked: positions are reused and mean nothing.
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_by_key(|(id, _)| **id);
        for (_, (work, lane)) in calls {
            format!("{lane:?}").hash(hasher);
            self.digest_work(*work, hasher);
        }
        for (work, _, ask) in &self.asks {
            ask.hash(hasher);
            self.digest_work(*work, hasher);
        }
        for &(at, work) in self.sleeping.keys() {
            at.since(self.now).hash(hasher);
            self.digest_work(work, hasher);
        }
        for &work in &self.unfolding {
            self.digest_work(work, hasher);
        }
        format!("{:?}", self.control).hash(hasher);
        (self.running, self.orphan_next).hash(hasher);
        self.start_deadline.map(|at| at.since(self.now)).hash(hasher);
        self.discover_at.map(|at| at.since(self.now)).hash(hasher);
    }

    fn digest_node(&self, node: NodeId, hasher: &mut impl Hasher) {
        let graph = &self.graph;
        graph.identity(node).hash(hasher);
        let flags = (
            graph.is_virtual(node),
            graph.is_being_deleted(node),
            graph.is_deleting_dependents(node),
        );
        flags.hash(hasher);
        graph.is_current(node).hash(hasher);
        for owner in graph.owners(node) {
            owner.hash(hasher);
        }
        let mut dependents: Vec<_> = graph
            .dependents(node)
            .iter()
            .map(|&node| graph.identity(node))
            .collect();
        dependents.sort();
        dependents.hash(hasher);
    }

    fn digest_queue(&self, queue: &Queue, hasher: &mut impl Hasher) {
        for node in queue.items.iter() {
            self.digest_queued(queue, node, hasher);
        }
        0xffu8.hash(hasher);
        for (at, node) in queue.items.delayed() {
            at.since(self.now).hash(hasher);
            self.digest_queued(queue, node, hasher);
        }
        0xffu8.hash(hasher);
    }

    fn digest_queued(&self, queue: &Queue, node: NodeId, hasher: &mut impl Hasher) {
        queue.limiter.failures(node).hash(hasher);
        self.digest_node(node, hasher);
    }

    fn digest_work(&self, at: usize, hasher: &mut impl Hasher) {
        match &self.works[at] {
            Some(Work::Delete(attempt)) => {
                self.digest_node(attempt.node(), hasher);
                attempt.digest(hasher);
                self.attempt_to_delete
                    .items
                    .is_queued(attempt.node())
                    .hash(hasher);
            }
            Some(Work::Orphan(attempt)) => {
                self.digest_node(attempt.node(), hasher);
                attempt.digest(&self.graph, hasher);
                self.attempt_to_orphan
                    .items
                    .is_queued(attempt.node())
                    .hash(hasher);
            }
            None => 0xfeu8.hash(hasher),
        }
    }
}
