//! A graph with its two queues and its memory of absent owners, driven one step at a time.
//!
//! Queues keep nodes in order of arrival; what a step adds is also reported, whether it was queued or not.

use kubegc_core::{Catalog, KubernetesVersion, ObjectRef, version::behavior};
use kubegc_objects::{
    Graph, Request, Response,
    collector::{AttemptError, Conclusion, InvalidNamespace},
    graph::{DeletionState, Effect, Event, NodeId, Observed},
    replay::{AbsentOwners, Context, DeleteAttempt, NoMonitors, OrphanAttempt, Outcome, Step},
};

use super::format::{EventType, Owner, references};
use crate::Failure;

/// More requests than any attempt makes: a bound for attempts that would not end.
const STEPS_MAX: usize = 10_000;

pub(super) struct Machine<'a> {
    pub(super) graph: Graph,
    pub(super) absent: AbsentOwners,
    pub(super) delete: Vec<NodeId>,
    pub(super) orphan: Vec<NodeId>,
    version: KubernetesVersion,
    catalog: &'a Catalog,
}

#[derive(Default)]
pub(super) struct Seen {
    /// Nodes added to the queues; whether they were queued before the step.
    pub(super) del: Vec<(NodeId, bool)>,
    pub(super) orph: Vec<(NodeId, bool)>,
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
            delete: Vec::new(),
            orphan: Vec::new(),
            version,
            catalog,
        }
    }

    pub(super) const fn catalog(&self) -> &'a Catalog {
        self.catalog
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

    /// Handles a queued node completely. `perform` performs its requests.
    pub(super) fn attempt_delete(
        &mut self,
        node: NodeId,
        mut perform: impl FnMut(&Request) -> Result<Response, Failure>,
    ) -> Result<Seen, Failure> {
        self.delete.retain(|&queued| queued != node);
        let mut attempt = DeleteAttempt::new(node);
        let mut effects = Vec::new();
        let mut response = None;
        for _ in 0..STEPS_MAX {
            match attempt.next(&mut self.context(&mut effects), response.take()) {
                Step::Request(_, request) => response = Some(perform(&request)?),
                Step::Wait | Step::Sleep(_) => {}
                Step::Done(outcome) => {
                    let seen = self.collect(effects, seen_of(&outcome, |error| error.is_reported()));
                    requeue(&mut self.delete, &mut self.graph, node, seen.requeued);
                    return Ok(seen);
                }
            }
        }
        Err(Failure::new("attempt_delete", "an end", "no end"))
    }

    /// The same for the orphan worker. Requests are sent as soon as they are known.
    pub(super) fn attempt_orphan(
        &mut self,
        node: NodeId,
        mut perform: impl FnMut(&Request) -> Result<Response, Failure>,
    ) -> Result<Seen, Failure> {
        self.orphan.retain(|&queued| queued != node);
        let mut attempt = OrphanAttempt::new(node);
        let mut effects = Vec::new();
        for _ in 0..STEPS_MAX {
            match attempt.next(&mut self.context(&mut effects)) {
                Step::Request(lane, request) => {
                    let response = perform(&request)?;
                    attempt.handle_response(&mut self.context(&mut effects), lane, response);
                }
                Step::Wait | Step::Sleep(_) => {}
                Step::Done(outcome) => {
                    // The orphan worker reports every error.
                    let seen = self.collect(effects, seen_of(&outcome, |_| true));
                    requeue(&mut self.orphan, &mut self.graph, node, seen.requeued);
                    return Ok(seen);
                }
            }
        }
        Err(Failure::new("attempt_orphan", "an end", "no end"))
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
                    add(&mut self.delete, &mut seen.del, &mut self.graph, node);
                }
                Effect::AttemptToOrphan(node) => add(&mut self.orphan, &mut seen.orph, &mut self.graph, node),
                Effect::OwnerAbsent(owner) => {
                    self.absent.insert(*owner);
                }
                Effect::VirtualDelete(identity) => seen.virtual_deletes.push(*identity),
                Effect::Warn(warning) => seen.warnings.push(*warning),
            }
        }
        seen
    }
}

fn seen_of(outcome: &Outcome, is_reported: fn(&AttemptError) -> bool) -> Seen {
    let handled_error = matches!(&outcome.conclusion, Conclusion::Failed(error) if is_reported(error));
    Seen {
        requeued: outcome.requeue,
        handled_error,
        ..Seen::default()
    }
}

/// The queue retains each of its nodes once.
fn add(queue: &mut Vec<NodeId>, added: &mut Vec<(NodeId, bool)>, graph: &mut Graph, node: NodeId) {
    let is_new = !queue.contains(&node);
    if !added.iter().any(|&(known, _)| known == node) {
        added.push((node, !is_new));
    }
    if is_new {
        queue.push(node);
    } else {
        graph.release(node);
    }
}

/// Requeues the worker's item, if it is needed.
fn requeue(queue: &mut Vec<NodeId>, graph: &mut Graph, node: NodeId, requeued: bool) {
    if requeued && !queue.contains(&node) {
        queue.push(node);
    } else {
        graph.release(node);
    }
}
