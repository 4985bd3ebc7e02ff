//! The state of a collector for one object, as data.

use kubegc_core::{ObjectRef, OwnerReference, Timestamp, Uid};

use super::{Collector, timers::Timer};
use crate::graph::NodeId;

/// The state of a collector for one object.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Explanation {
    /// The identity in the graph; `None` if the graph has no node for the uid.
    pub identity: Option<ObjectRef>,
    /// The object is known only from references.
    pub is_virtual: bool,
    /// It was observed with a deletionTimestamp.
    pub is_being_deleted: bool,
    pub is_deleting_dependents: bool,
    /// Its owners, as last observed.
    pub owners: Vec<OwnerInGraph>,
    pub dependents: Vec<ObjectRef>,
    /// The dependents that block a deletion in the foreground.
    pub blocking: Vec<ObjectRef>,
    pub is_queued: bool,
    /// When it is retried, if an earlier attempt failed.
    pub retry_at: Option<Timestamp>,
    /// Failed attempts since the last success.
    pub failures: u32,
}

/// An owner as a dependent names it and as the graph knows it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerInGraph {
    pub reference: OwnerReference,
    /// The identity in the graph, if the graph has a node for the uid.
    pub identity: Option<ObjectRef>,
    /// Whether the owner is known only from references.
    pub is_virtual: bool,
}

impl Collector {
    /// Returns the state for the object with this uid.
    ///
    /// # Complexity
    /// O(n log n) in the owners and dependents.
    pub fn explain(&self, uid: &Uid) -> Explanation {
        let Some(node) = self.graph.node(uid) else {
            return Explanation::default();
        };
        let graph = &self.graph;
        let sorted = |nodes: &mut dyn Iterator<Item = NodeId>| {
            let mut objects: Vec<ObjectRef> = nodes.map(|node| graph.identity(node)).collect();
            objects.sort();
            objects
        };
        let owner = |reference: OwnerReference| {
            let owner = graph.node(&reference.uid);
            OwnerInGraph {
                identity: owner.map(|owner| graph.identity(owner)),
                is_virtual: owner.is_some_and(|owner| graph.is_virtual(owner)),
                reference,
            }
        };
        Explanation {
            identity: Some(graph.identity(node)),
            is_virtual: graph.is_virtual(node),
            is_being_deleted: graph.is_being_deleted(node),
            is_deleting_dependents: graph.is_deleting_dependents(node),
            owners: graph.owners(node).map(owner).collect(),
            dependents: sorted(&mut graph.dependents(node).iter().copied()),
            blocking: sorted(&mut graph.blocking_dependents(node)),
            is_queued: self.queue(false).items.is_queued(node),
            retry_at: self.timers.get(Timer::Retry { node, orphan: false }),
            failures: self.queue(false).limiter.failures(node),
        }
    }
}
