//! Fingerprint of a collector: a digest of the state that determines its next outputs, independent of its
//! history.
//!
//! Positions in the arena, call ids and absolute times are left out. Identities, edges, queue order, retry
//! counts and relative times are included.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;

use kubegc_core::ObjectRef;

use super::{
    Collector,
    timers::Timer,
    workers::{ActiveAttempt, Queue},
};
use crate::{attempt::DigestObject, graph::NodeId};

/// The differences between states that a fingerprint ignores, for an explorer that knows the server.
#[derive(Clone, Copy)]
pub struct FingerprintOptions<'a> {
    /// Hashes the state of an object that monitors and attempts have cached.
    pub seen: DigestObject<'a>,
    /// Whether an owner cached as absent can exist. If not, a request would have the same result.
    pub may_exist: &'a dyn Fn(&ObjectRef) -> bool,
    /// Whether an attempt that starts now for an object can change anything. If not, it does not count as
    /// queued.
    pub matters: &'a dyn Fn(&ObjectRef) -> bool,
}

impl Collector {
    /// A digest of the canonical state: equal fingerprints mean equal next outputs.
    ///
    /// # Complexity
    /// O(n log n) in the objects known.
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint_with(FingerprintOptions {
            seen: &|_, meta, mut hasher| meta.hash(&mut hasher),
            may_exist: &|_| true,
            matters: &|_| true,
        })
    }

    /// The fingerprint without the differences that the options ignore.
    pub fn fingerprint_with(&self, options: FingerprintOptions<'_>) -> u128 {
        let half = |seed: u64| {
            let mut hasher = FixedState::with_seed(seed).build_hasher();
            self.digest(options, &mut hasher);
            hasher.finish()
        };
        u128::from(half(0x6b75_6265)) << 64 | u128::from(half(0x6763_0001))
    }

    fn digest(&self, options: FingerprintOptions<'_>, hasher: &mut impl Hasher) {
        let seen = options.seen;
        let mut nodes: Vec<NodeId> = self.graph.nodes().collect();
        nodes.sort_by_cached_key(|&node| self.graph.identity(node));
        for node in nodes {
            self.digest_node(node, hasher);
        }
        let mut absent: Vec<_> = self
            .absent
            .iter()
            .filter(|owner| (options.may_exist)(owner))
            .collect();
        // The order determines only which entry is evicted first.
        if absent.len() < self.settings.absent_owners_max {
            absent.sort();
        }
        absent.hash(hasher);
        for (resource, synced, known) in self.monitors.known() {
            resource.hash(hasher);
            synced.hash(hasher);
            for meta in known {
                seen(resource, meta, hasher);
            }
        }
        self.digest_queue(self.queue(false), options.matters, hasher);
        self.digest_queue(self.queue(true), &|_| true, hasher);
        // Responses can arrive in any order, so the order of the calls is irrelevant.
        let mut calls: Vec<u64> = self
            .calls
            .values()
            .map(|&(work, _)| self.work_digest(work, options))
            .collect();
        calls.sort_unstable();
        calls.hash(hasher);
        for (work, _, request) in &self.requests {
            request.hash(hasher);
            self.work_digest(*work, options).hash(hasher);
        }
        for &work in &self.orphans_to_poll {
            self.work_digest(work, options).hash(hasher);
        }
        format!("{:?}", self.control).hash(hasher);
        (self.running, self.pausing).hash(hasher);
        for &(node, orphan) in &self.held {
            orphan.hash(hasher);
            self.digest_node(node, hasher);
        }
        let both = self.queues.iter().all(|queue| !queue.items.is_empty());
        (both && self.orphan_next).hash(hasher);
        self.digest_timers(options, hasher);
    }

    fn digest_timers(&self, options: FingerprintOptions<'_>, hasher: &mut impl Hasher) {
        let matters = |node| (options.matters)(&self.graph.identity(node));
        let order = |timer: Timer| match timer {
            Timer::Discover => 0u8,
            Timer::Start => 1,
            Timer::Retry { orphan, .. } => 2 + u8::from(orphan),
            Timer::Resume(_) => 4,
        };
        // The order of timers that expire at the same time is relevant within a queue only.
        let mut timers: Vec<_> = self.timers.iter().collect();
        timers.sort_by_key(|&(at, timer)| (at, order(timer)));
        for (at, timer) in timers {
            match timer {
                Timer::Retry { node, orphan: false } if !matters(node) => continue,
                Timer::Retry { node, orphan } => self.digest_queued(self.queue(orphan), node, hasher),
                Timer::Resume(attempt) => self.work_digest(attempt as usize, options).hash(hasher),
                Timer::Discover | Timer::Start => {}
            }
            (order(timer), at.since(self.now)).hash(hasher);
        }
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

    fn digest_queue(&self, queue: &Queue, matters: &dyn Fn(&ObjectRef) -> bool, hasher: &mut impl Hasher) {
        let matters = |node: &NodeId| matters(&self.graph.identity(*node));
        for node in queue.items.iter().filter(matters) {
            self.digest_queued(queue, node, hasher);
        }
        0xffu8.hash(hasher);
    }

    fn digest_queued(&self, queue: &Queue, node: NodeId, hasher: &mut impl Hasher) {
        queue.limiter.failures(node).hash(hasher);
        self.digest_node(node, hasher);
    }

    fn work_digest(&self, at: usize, options: FingerprintOptions<'_>) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        match &self.attempts[at] {
            Some(ActiveAttempt::Delete(attempt)) => {
                self.digest_node(attempt.node(), &mut hasher);
                attempt.digest(&self.catalog, options.seen, &mut hasher);
                let is_queued = self.queue(false).items.is_queued(attempt.node());
                (is_queued && (options.matters)(&self.graph.identity(attempt.node()))).hash(&mut hasher);
            }
            Some(ActiveAttempt::Orphan(attempt)) => {
                self.digest_node(attempt.node(), &mut hasher);
                attempt.digest(&self.graph, &mut hasher);
                let is_queued = self.queue(true).items.is_queued(attempt.node());
                is_queued.hash(&mut hasher);
            }
            None => 0xfeu8.hash(&mut hasher),
        }
        hasher.finish()
    }
}
