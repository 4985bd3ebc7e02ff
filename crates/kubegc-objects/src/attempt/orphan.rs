//! The attempt to orphan the dependents of an owner ([O-1](crate::rules#o-1) to [O-6](crate::rules#o-6)), and
//! then to remove the owner's finalizer.
//!
//! All dependents that the graph has at the start are patched concurrently. If one patch fails, the owner
//! keeps its finalizer and everything is retried.
//!
//! [`Attempt`] is resumable: it returns patches that can run concurrently and continues with the responses.
//!
//! # Upstream
//! `attemptToOrphanWorker` and `orphanDependents` in
//! [`garbagecollector.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/garbagecollector.go),
//! 1.13 to 1.36.

use std::{collections::BTreeMap, hash::Hash, sync::Arc};

use kubegc_core::{ObjectRef, metadata};

use super::{
    Context, Target,
    finalizer::{Removal, Removing},
    patching::{Patched, Patching, Wanted},
};
use crate::{
    graph::{Graph, NodeId},
    reason::Reason,
    request::{AttemptError, Conclusion, Lane, Outcome, Request, Response, Step},
};

/// One owner whose dependents are being orphaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    node: NodeId,
    owner: Option<Arc<ObjectRef>>,
    dependents: Vec<NodeId>,
    /// The next dependent to start with.
    started: usize,
    in_flight: BTreeMap<Lane, Patching>,
    /// Steps that responses have caused.
    ready: Vec<Step>,
    failed: usize,
    first_failure: Option<AttemptError>,
    removing: Option<Removing>,
    outcome: Option<Outcome>,
}

impl Attempt {
    /// Starts with a node of the graph. The caller must retain the node until the attempt is done.
    pub const fn new(node: NodeId) -> Self {
        Self {
            node,
            owner: None,
            dependents: Vec::new(),
            started: 0,
            in_flight: BTreeMap::new(),
            ready: Vec::new(),
            failed: 0,
            first_failure: None,
            removing: None,
            outcome: None,
        }
    }

    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Hashes the state that determines the next steps, without positions of nodes.
    pub(crate) fn digest(&self, graph: &Graph, hasher: &mut impl std::hash::Hasher) {
        for &dependent in &self.dependents[self.started.min(self.dependents.len())..] {
            graph.identity(dependent).hash(hasher);
        }
        (&self.in_flight, &self.ready, self.failed, &self.removing).hash(hasher);
    }

    /// Returns the next step. Dependents are started one by one, so a busy driver can stop calling.
    pub fn next(&mut self, context: &mut Context<'_>) -> Step {
        if let Some(outcome) = &self.outcome {
            return Step::Done(outcome.clone());
        }
        if self.owner.is_none() {
            self.start(context);
        }
        if let Some(step) = self.ready.pop() {
            return step;
        }
        while let Some(&dependent) = self.dependents.get(self.started) {
            let lane = Lane(self.started as u32);
            self.started += 1;
            let identity = context.graph.identity(dependent);
            context.graph.release(dependent);
            if let Some(request) = self.release(lane, identity, context) {
                return Step::Request(lane, request);
            }
        }
        if !self.in_flight.is_empty() {
            return Step::Wait;
        }
        if let Some(first) = self.first_failure.take() {
            let identity = || Arc::new(context.graph.identity(self.node));
            let owner = self.owner.clone().unwrap_or_else(identity);
            let (dependents, failed) = (self.dependents.len(), self.failed);
            return self.finish(Err(AttemptError::Orphaning {
                owner,
                dependents,
                failed,
                first: Box::new(first),
            }));
        }
        if self.removing.is_none() {
            let target = match Target::of(context, context.graph.identity(self.node)) {
                Ok(target) => target,
                Err(error) => return self.finish(Err(error)),
            };
            let reason = Reason::DependentsReleased;
            self.removing = Some(Removing::new(target, metadata::FINALIZER_ORPHAN, reason));
        }
        match &self.removing {
            Some(removing) if removing.is_waiting() => Step::Wait,
            _ => self.finalize(context, None),
        }
    }

    /// Processes the response to one request. The next call of [`next`](Self::next) returns the next step.
    pub fn handle_response(&mut self, context: &mut Context<'_>, lane: Lane, response: Response) {
        if lane == Lane::ITEM {
            let step = self.finalize(context, Some(response));
            // The attempt keeps its outcome.
            if !matches!(step, Step::Wait | Step::Done(_)) {
                self.ready.push(step);
            }
            return;
        }
        let Some(mut patching) = self.in_flight.remove(&lane) else {
            return;
        };
        match patching.next(context, self.node, Some(response)) {
            Patched::Request(request) => {
                self.in_flight.insert(lane, patching);
                self.ready.push(Step::Request(lane, request));
            }
            Patched::Done(Response::Applied(_) | Response::NotFound) => {}
            Patched::Done(response) => self.fail(patching.error(response)),
        }
    }

    /// [O-1](crate::rules#o-1): the dependents are those that the graph has now. Dependents observed later
    /// are not orphaned ([R-7](crate::rules#r-7)).
    fn start(&mut self, context: &mut Context<'_>) {
        self.owner = Some(Arc::new(context.graph.identity(self.node)));
        self.dependents = context.graph.dependents(self.node).to_vec();
        for &dependent in &self.dependents {
            context.graph.retain(dependent);
        }
    }

    /// [O-2](crate::rules#o-2). A dependent without references fails ([O-6](crate::rules#o-6)).
    fn release(&mut self, lane: Lane, dependent: ObjectRef, context: &Context<'_>) -> Option<Request> {
        let owner = Arc::clone(self.owner.as_ref()?);
        let target = match Target::of(context, dependent) {
            Ok(target) => target,
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        let wanted = Wanted::RemoveOwners(vec![owner.uid.clone()]);
        let mut patching = Patching::new(target, wanted, Reason::OwnerOrphans(owner));
        match patching.next(context, self.node, None) {
            Patched::Request(request) => {
                self.in_flight.insert(lane, patching);
                Some(request)
            }
            // A patch always starts with a request.
            Patched::Done(response) => {
                self.fail(patching.error(response));
                None
            }
        }
    }

    /// [O-3](crate::rules#o-3): counts a failure.
    fn fail(&mut self, error: AttemptError) {
        self.failed += 1;
        self.first_failure.get_or_insert(error);
    }

    /// [O-4](crate::rules#o-4) and [O-5](crate::rules#o-5).
    fn finalize(&mut self, context: &Context<'_>, response: Option<Response>) -> Step {
        let Some(removing) = &mut self.removing else {
            return Step::Wait;
        };
        match removing.next(context, response) {
            Removal::Request(request) => Step::Request(Lane::ITEM, request),
            Removal::Sleep(wait) => Step::Sleep(wait),
            Removal::Done(result) => self.finish(result),
        }
    }

    fn finish(&mut self, result: Result<(), AttemptError>) -> Step {
        let outcome = match result {
            Ok(()) => Outcome {
                requeue: false,
                conclusion: Conclusion::Finalized,
            },
            Err(error) => Outcome {
                requeue: true,
                conclusion: Conclusion::Failed(error),
            },
        };
        self.outcome = Some(outcome.clone());
        Step::Done(outcome)
    }
}
