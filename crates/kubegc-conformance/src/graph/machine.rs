//! A graph with its two queues and its memory of absent owners, driven one step at a time.
//!
//! Queues keep nodes in order of arrival; what a step adds is also reported, whether it was queued or not.

use kubegc_core::{Catalog, KubernetesVersion, ObjectRef, version::behavior};
use kubegc_objects::{
    Graph, Request, Response,
    collector::{Conclusion, InvalidNamespace},
    graph::{DeletionState, Effect, Event, NodeId, Observed},
    replay::{AbsentOwners, Context, DeleteAttempt, NoMonitors, OrphanAttempt, Step},
};

use super::format::{EventType, Owner, references};
use crate::Failure;

/// More requests than any attempt makes: a bound for attempts that would not end.
const STEPS_MAX: usize = 10_000;

/// The queue of nodes that may have to be deleted.
pub(super) const DELETE: usize = 0;
/// The queue of nodes whose dependents are orphaned.
pub(super) const ORPHAN: usize = 1;

/// The attempt of a worker; that of a deletion with the response to its last request.
enum Attempt {
    Delete(DeleteAttempt, Option<Response>),
    Orphan(OrphanAttempt),
}

pub(super) struct Machine<'a> {
    pub(super) graph: Graph,
    pub(super) absent: AbsentOwners,
    /// Nodes that the workers for deletions and for orphans attempt.
    pub(super) queues: [Vec<NodeId>; 2],
    version: KubernetesVersion,
    pub(super) catalog: &'a Catalog,
}

#[derive(Default)]
pub(super) struct Seen {
    /// Nodes added to the queues; whether they were queued before the step.
    pub(super) queued: [Vec<(NodeId, bool)>; 2],
    pub(super) virtual_deletes: Vec<ObjectRef>,
    pub(super) warnings: Vec<InvalidNamespace>,
    pub(super) requeued: bool,
    pub(super) handled_error: bool,
}

impl<'a> Machine<'a> {
    pub(super) fn new(version: KubernetesVersion, catalog: &'a Catalog, absent_max: usize) -> Self {
        Self {
            graph: Graph::new(version),
            absent: AbsentOwners::new(absent_max, !version.has(behavior::OWNERS_ARE_VERIFIED)),
            queues: Default::default(),
            version,
            catalog,
        }
    }

    pub(super) fn apply(&mut self, event: &Event<'_>) -> Seen {
        let mut effects = Vec::new();
        self.graph.apply(event, &mut effects);
        self.collect(effects, Seen::default())
    }

    /// Applies an event of an object; of an update, `old` is the state before.
    pub(super) fn observe(
        &mut self,
        event: EventType,
        id: &ObjectRef,
        owners: &[Owner],
        deletion: DeletionState,
        old: Option<DeletionState>,
    ) -> Seen {
        let owners: Vec<_> = references(owners);
        let object = Observed {
            kind: self.graph.kind(&id.api_version, &id.kind),
            namespace: &id.namespace,
            name: &id.name,
            uid: &id.uid,
            owners: &owners,
            deletion,
        };
        self.apply(&match event {
            EventType::Add | EventType::Update => Event::Applied { object, old },
            EventType::Delete => Event::Deleted { object },
        })
    }

    /// Handles a queued node completely. `perform` performs its requests as soon as they are known.
    pub(super) fn attempt(
        &mut self,
        queue: usize,
        node: NodeId,
        mut perform: impl FnMut(&Request) -> Result<Response, Failure>,
    ) -> Result<Seen, Failure> {
        self.queues[queue].retain(|&queued| queued != node);
        let mut attempt = match queue {
            DELETE => Attempt::Delete(DeleteAttempt::new(node), None),
            _ => Attempt::Orphan(OrphanAttempt::new(node)),
        };
        let mut effects = Vec::new();
        for _ in 0..STEPS_MAX {
            let mut context = self.context(&mut effects);
            let step = match &mut attempt {
                Attempt::Delete(attempt, response) => attempt.next(&mut context, response.take()),
                Attempt::Orphan(attempt) => attempt.next(&mut context),
            };
            match (step, &mut attempt) {
                (Step::Request(_, request), Attempt::Delete(_, response)) => {
                    *response = Some(perform(&request)?);
                }
                (Step::Request(lane, request), Attempt::Orphan(attempt)) => {
                    attempt.handle_response(&mut context, lane, perform(&request)?);
                }
                (Step::Wait | Step::Sleep(_), _) => {}
                (Step::Done(outcome), _) => {
                    let error = match &outcome.conclusion {
                        Conclusion::Failed(error) => Some(error),
                        _ => None,
                    };
                    let seen = Seen {
                        requeued: outcome.requeue,
                        // The orphan worker reports every error.
                        handled_error: error.is_some_and(|error| queue == ORPHAN || error.is_reported()),
                        ..Seen::default()
                    };
                    let seen = self.collect(effects, seen);
                    if seen.requeued && !self.queues[queue].contains(&node) {
                        self.queues[queue].push(node);
                    } else {
                        self.graph.release(node);
                    }
                    return Ok(seen);
                }
            }
        }
        Err(Failure::new("attempt", "an end", "no end"))
    }

    fn context<'c>(&'c mut self, effects: &'c mut Vec<Effect>) -> Context<'c> {
        Context {
            version: self.version,
            strict: false,
            graph: &mut self.graph,
            catalog: self.catalog,
            absent: &mut self.absent,
            latest: &NoMonitors,
            effects,
        }
    }

    fn collect(&mut self, effects: Vec<Effect>, mut seen: Seen) -> Seen {
        for effect in effects {
            match effect {
                Effect::AttemptToDelete(node) | Effect::AttemptToDeleteRateLimited(node) => {
                    self.add(DELETE, node, &mut seen);
                }
                Effect::AttemptToOrphan(node) => self.add(ORPHAN, node, &mut seen),
                Effect::OwnerAbsent(owner) => {
                    self.absent.insert(*owner);
                }
                Effect::VirtualDelete(identity) => seen.virtual_deletes.push(*identity),
                Effect::Warn(warning) => seen.warnings.push(*warning),
            }
        }
        seen
    }

    /// The queue retains each of its nodes once.
    fn add(&mut self, queue: usize, node: NodeId, seen: &mut Seen) {
        let is_new = !self.queues[queue].contains(&node);
        if !seen.queued[queue].iter().any(|&(known, _)| known == node) {
            seen.queued[queue].push((node, !is_new));
        }
        if is_new {
            self.queues[queue].push(node);
        } else {
            self.graph.release(node);
        }
    }
}
