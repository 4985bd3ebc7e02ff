//! The attempt to delete one item ([A-1](crate::rules#a-1) to [A-13](crate::rules#a-13)): it is deleted,
//! loses owner references, or is kept.
//!
//! [`Attempt`] is resumable: it returns one request at a time and continues with the response. It needs as
//! many requests as [A-10](crate::rules#a-10) states.
//!
//! # Upstream
//! `attemptToDeleteWorker`, `attemptToDeleteItem` and `processDeletingDependentsItem` in
//! [`garbagecollector.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/garbagecollector.go),
//! `deleteObject` in
//! [`operations.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/operations.go);
//! 1.13, 1.20.2, 1.28 and 1.36.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use kubegc_core::{
    Catalog, ObjectMeta, OwnerReference, Preconditions, PropagationPolicy, Uid, metadata, version::behavior,
};

use super::{
    Context, DigestObject, Target,
    finalizer::{Removal, Removing},
    patching::{Patched, Patching, Wanted},
};
use crate::{
    classify::{OwnerState, Resolved, Verdict, decide},
    graph::NodeId,
    reason::Reason,
    request::{AttemptError, Conclusion, Lane, Operation, Outcome, Request, Response, Step},
};

/// One item whose owners are being verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    node: NodeId,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Start,
    Item(Target),
    /// The owner of the reference at `resolved.len()` is being looked up.
    Owner(Box<Owners>, Target),
    /// References are being removed.
    Release(Patching),
    /// References are being made non-blocking before a delete in the foreground.
    Unblock(Patching, Box<Deletion>),
    /// The item is being deleted.
    Delete(Box<Deletion>),
    /// After a conflict the item is being read again.
    Recheck(Box<Deletion>),
    /// The item is being deleted with its uid as the only precondition.
    DeleteAgain(Target),
    Finalize(Removing),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owners {
    item: Target,
    live: Arc<ObjectMeta>,
    resolved: Vec<Resolved>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Deletion {
    item: Target,
    live: Arc<ObjectMeta>,
    policy: PropagationPolicy,
    reason: Reason,
    sent: Preconditions,
}

impl Deletion {
    fn request(&self, expect: Preconditions, wire: Preconditions) -> Request {
        let operation = Operation::Delete {
            wire,
            propagation: self.policy,
        };
        Request {
            expect,
            ..self.item.request(operation, self.reason.clone())
        }
    }
}

type Next = Result<Step, AttemptError>;

impl Attempt {
    /// Starts with a node of the graph. The caller must retain the node until the attempt is done.
    pub const fn new(node: NodeId) -> Self {
        Self {
            node,
            state: State::Start,
        }
    }

    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Hashes the state that determines the next steps, without the node's position.
    pub(crate) fn digest(&self, catalog: &Catalog, seen: DigestObject<'_>, hasher: &mut impl Hasher) {
        std::mem::discriminant(&self.state).hash(hasher);
        let deletion = |deletion: &Deletion, hasher: &mut _| {
            let Deletion {
                item,
                live,
                policy,
                reason,
                sent: _,
            } = deletion;
            (item, policy, reason).hash(hasher);
            seen(&catalog[item.kind], live, hasher);
        };
        match &self.state {
            State::Start | State::Over => {}
            State::Item(item) | State::DeleteAgain(item) => item.hash(hasher),
            State::Owner(owners, owner) => {
                let Owners { item, live, resolved } = &**owners;
                (item, resolved, owner).hash(hasher);
                seen(&catalog[item.kind], live, hasher);
            }
            State::Release(patching) => patching.hash(hasher),
            State::Unblock(patching, next) => {
                patching.hash(hasher);
                deletion(next, hasher);
            }
            State::Delete(next) | State::Recheck(next) => deletion(next, hasher),
            State::Finalize(removing) => removing.hash(hasher),
        }
    }

    /// Processes the response to the last request. The first call, and the call after a sleep, have none.
    /// After [`Step::Done`] the attempt stays done.
    pub fn next(&mut self, context: &mut Context<'_>, response: Option<Response>) -> Step {
        let state = std::mem::replace(&mut self.state, State::Over);
        self.resume(state, context, response).unwrap_or_else(|error| {
            let is_unlisted = matches!(
                error,
                AttemptError::RequestFailed {
                    response: Response::Unlisted,
                    ..
                }
            );
            let requeue = !is_unlisted && error != AttemptError::NamespacedOwnerOfClusterScoped;
            Step::Done(Outcome {
                requeue,
                conclusion: Conclusion::Failed(error),
            })
        })
    }

    fn resume(&mut self, state: State, context: &mut Context<'_>, response: Option<Response>) -> Next {
        let Some(response) = response else {
            return match state {
                State::Finalize(removing) => self.finalize(removing, context, None),
                State::Start => self.start(context),
                // A call without a response has no result, so the item is retried later.
                _ => Ok(done(Conclusion::Stale, true)),
            };
        };
        match state {
            State::Item(item) => self.item_read(item, context, response),
            State::Owner(mut owners, owner) => {
                let reference = &owners.live.owner_references[owners.resolved.len()];
                let live = match &response {
                    Response::Found(live) => Some(&**live),
                    Response::NotFound => None,
                    _ => {
                        return Err(AttemptError::failed(owner.object, "read", response));
                    }
                };
                let state = OwnerState::of_live(reference, live);
                if matches!(state, OwnerState::NotFound | OwnerState::Replaced { .. }) {
                    context.absent.insert(Arc::unwrap_or_clone(owner.object));
                }
                let reference = reference.clone();
                owners.resolved.push(Resolved { reference, state });
                self.resolve(*owners, context)
            }
            State::Release(patching) => self.release(patching, context, Some(response)),
            State::Unblock(patching, deletion) => self.unblock(patching, deletion, context, Some(response)),
            State::Delete(deletion) => self.deleted(deletion, context, response),
            State::Recheck(deletion) => self.rechecked(*deletion, context, response),
            State::DeleteAgain(item) => match response {
                Response::Applied(_) => Ok(done(Conclusion::Deleted, self.is_virtual(context))),
                response => self.delete_failed(item, context, response),
            },
            State::Finalize(removing) => self.finalize(removing, context, Some(response)),
            State::Start | State::Over => Ok(done(Conclusion::Stale, false)),
        }
    }

    /// [W-6](crate::rules#w-6), [W-8](crate::rules#w-8) and [A-1](crate::rules#a-1) to
    /// [A-3](crate::rules#a-3). An item with another finalizer ends here, so its owner waits
    /// ([R-6](crate::rules#r-6)).
    fn start(&mut self, context: &mut Context<'_>) -> Next {
        let node = self.node;
        if context.version.has(behavior::OWNERS_ARE_VERIFIED) && context.graph.is_virtual(node) {
            let current = context.graph.node(&context.graph.uid(node));
            if current.is_none_or(|current| !context.graph.is_virtual(current)) {
                return Ok(done(Conclusion::Stale, false));
            }
        }
        if context.graph.is_being_deleted(node) && !context.graph.is_deleting_dependents(node) {
            return Ok(done(Conclusion::BeingDeleted, self.is_virtual(context)));
        }
        let identity = context.graph.identity(node);
        let mapping @ (_, namespaced) = context.mapping(&identity.api_version, &identity.kind)?;
        if context.version.has(behavior::OWNERS_ARE_VERIFIED) && namespaced && identity.namespace.is_empty() {
            return Err(AttemptError::NamespacedOwnerOfClusterScoped);
        }
        let item = Target::mapped(mapping, identity);
        let request = item.request(Operation::Get, Reason::VerifyItem);
        self.state = State::Item(item);
        Ok(Step::Request(Lane::ITEM, request))
    }

    /// [A-4](crate::rules#a-4), [A-5](crate::rules#a-5) and [A-6](crate::rules#a-6).
    fn item_read(&mut self, item: Target, context: &mut Context<'_>, response: Response) -> Next {
        let live = match response {
            Response::Found(live) if live.uid == item.object.uid => live,
            Response::Found(_) | Response::NotFound => return Ok(self.absent(context)),
            response => return Err(AttemptError::failed(item.object, "read", response)),
        };
        if context.graph.is_deleting_dependents(self.node) {
            return self.process_deleting_dependents(item, context);
        }
        if live.owner_references.is_empty() {
            return Ok(done(Conclusion::NoOwners, self.is_virtual(context)));
        }
        let resolved = Vec::with_capacity(live.owner_references.len());
        self.resolve(Owners { item, live, resolved }, context)
    }

    /// [A-4](crate::rules#a-4): the object does not exist under the node's identity.
    fn absent(&self, context: &mut Context<'_>) -> Step {
        let identity = context.graph.identity(self.node);
        context.virtual_delete(identity);
        if !context.version.has(behavior::OWNERS_ARE_VERIFIED) {
            context.graph.mark_observed(self.node);
        }
        done(Conclusion::Absent, false)
    }

    /// [A-7](crate::rules#a-7) and [A-9](crate::rules#a-9): resolves owners until one has to be read, then
    /// decides. An owner of a kind that is not served ends the attempt ([R-2](crate::rules#r-2)).
    fn resolve(&mut self, mut owners: Owners, context: &mut Context<'_>) -> Next {
        let Owners { item, live, resolved } = &mut owners;
        // Upstream uses the namespace of the node, even if the kind is cluster-scoped: a wrongly guessed
        // namespace then leads to the lookup of an owner that no cluster-scoped object can have.
        let namespace = if context.strict {
            &item.object.namespace
        } else {
            context.graph.namespace(self.node)
        };
        while let Some(reference) = live.owner_references.get(resolved.len()) {
            let mut is_absent = |namespace| context.absent.contains(reference.clone().object_ref(namespace));
            if is_absent(Arc::default()) || is_absent(Arc::clone(namespace)) {
                let state = OwnerState::RememberedAbsent;
                resolved.push(Resolved {
                    reference: reference.clone(),
                    state,
                });
                continue;
            }
            let (kind, namespaced) = context.mapping(&reference.api_version, &reference.kind)?;
            if context.version.has(behavior::OWNERS_ARE_VERIFIED) && namespaced && namespace.is_empty() {
                return Err(AttemptError::NamespacedOwnerOfClusterScoped);
            }
            let lookup_namespace = if namespaced {
                Arc::clone(namespace)
            } else {
                "".into()
            };
            let owner = Target::owner(kind, reference, lookup_namespace);
            let request = owner.request(Operation::Get, Reason::LookUpOwner);
            self.state = State::Owner(Box::new(owners), owner);
            return Ok(Step::Request(Lane::ITEM, request));
        }
        self.decide(owners, context)
    }

    /// [A-8](crate::rules#a-8).
    fn decide(&mut self, owners: Owners, context: &mut Context<'_>) -> Next {
        let Owners { item, live, resolved } = owners;
        let has_dependents = !context.graph.dependents(self.node).is_empty();
        let verdict = decide(&live, &resolved, has_dependents);
        let resolved: Arc<[Resolved]> = resolved.into();
        let deletion = |item, policy, reason| {
            Box::new(Deletion {
                item,
                live,
                policy,
                reason,
                sent: Preconditions::default(),
            })
        };
        match verdict {
            Verdict::NoOwners => Ok(done(Conclusion::NoOwners, self.is_virtual(context))),
            Verdict::Keep => Ok(done(Conclusion::Kept, self.is_virtual(context))),
            Verdict::Release(uids) => {
                let patching = Patching::new(
                    item,
                    Wanted::RemoveOwners(uids),
                    Reason::SomeOwnersAbsent(resolved),
                );
                self.release(patching, context, None)
            }
            Verdict::Delete(policy) => {
                self.delete(deletion(item, policy, Reason::NoOwnerLeft(resolved)), context)
            }
            Verdict::DeleteBeforeOwner => {
                let reason = Reason::OwnerWaits(Arc::clone(&resolved));
                let deletion = deletion(item.clone(), PropagationPolicy::Foreground, reason);
                let graph = &context.graph;
                let circular = graph
                    .dependents(self.node)
                    .iter()
                    .any(|&node| graph.is_deleting_dependents(node));
                if !circular {
                    return self.delete(deletion, context);
                }
                let patching = Patching::new(item, Wanted::Unblock, Reason::BreakCycle(resolved));
                self.unblock(patching, deletion, context, None)
            }
        }
    }

    fn release(&mut self, mut patching: Patching, context: &Context<'_>, response: Option<Response>) -> Next {
        match patching.next(context, self.node, response) {
            Patched::Request(request) => {
                self.state = State::Release(patching);
                Ok(Step::Request(Lane::ITEM, request))
            }
            Patched::Done(Response::Applied(_)) => Ok(done(Conclusion::Released, self.is_virtual(context))),
            Patched::Done(response) => Err(patching.error(response)),
        }
    }

    /// [A-11](crate::rules#a-11). Cycles of blocking references end here ([R-9](crate::rules#r-9)).
    fn unblock(
        &mut self,
        mut patching: Patching,
        deletion: Box<Deletion>,
        context: &mut Context<'_>,
        response: Option<Response>,
    ) -> Next {
        match patching.next(context, self.node, response) {
            Patched::Request(request) => {
                self.state = State::Unblock(patching, deletion);
                Ok(Step::Request(Lane::ITEM, request))
            }
            Patched::Done(Response::Applied(patched)) => self.unblocked(deletion, context, patched),
            Patched::Done(response) => Err(patching.error(response)),
        }
    }

    /// Deletes the item after its own patch. Upstream still expects the resourceVersion from before the
    /// patch, so from 1.34 on the delete meets a conflict. In strict mode the expected version is that of the
    /// patched item, if the patch changed nothing else that the decision depends on.
    fn unblocked(
        &mut self,
        mut deletion: Box<Deletion>,
        context: &mut Context<'_>,
        patched: Option<Arc<ObjectMeta>>,
    ) -> Next {
        // A store that does not return the object leaves the old version: after a conflict the item is
        // verified again.
        if let Some(patched) = patched.filter(|_| context.strict) {
            if !same_owners(&deletion.live, &patched) {
                let target = deletion.item.object;
                return Err(AttemptError::failed(target, "deleted", Response::Conflict));
            }
            deletion.live = patched;
        }
        self.delete(deletion, context)
    }

    /// [A-12](crate::rules#a-12).
    fn delete(&mut self, mut deletion: Box<Deletion>, context: &mut Context<'_>) -> Next {
        let expect = expectation(&deletion.item.object.uid, &deletion.live);
        let mut wire = expect.clone();
        if !context.version.has(behavior::DELETES_EXPECT_RESOURCE_VERSION) && !context.strict {
            wire.resource_version = None;
        }
        deletion.sent = wire.clone();
        let request = deletion.request(expect, wire);
        self.state = State::Delete(deletion);
        Ok(Step::Request(Lane::ITEM, request))
    }

    fn deleted(&mut self, deletion: Box<Deletion>, context: &mut Context<'_>, response: Response) -> Next {
        match response {
            Response::Applied(_) => Ok(done(Conclusion::Deleted, self.is_virtual(context))),
            Response::Conflict if deletion.sent.resource_version.is_some() => {
                let request = deletion
                    .item
                    .request(Operation::Get, Reason::RecheckAfterConflict);
                self.state = State::Recheck(deletion);
                Ok(Step::Request(Lane::ITEM, request))
            }
            response => self.delete_failed(deletion.item, context, response),
        }
    }

    /// The last column of the table of [A-12](crate::rules#a-12): a change of the owner references keeps the
    /// object, any other change does not.
    fn rechecked(&mut self, deletion: Deletion, context: &mut Context<'_>, response: Response) -> Next {
        let uid = &deletion.item.object.uid;
        match response {
            Response::NotFound if context.version.has(behavior::DELETE_NOT_FOUND_IS_ABSENCE) => {
                Ok(self.absent(context))
            }
            Response::NotFound => Ok(done(Conclusion::Deleted, self.is_virtual(context))),
            Response::Found(now)
                if now.uid == *uid
                    && Some(&now.resource_version) != deletion.sent.resource_version.as_ref()
                    && now.owner_references == deletion.live.owner_references =>
            {
                let expect = expectation(uid, &now);
                let mut wire = Preconditions::uid(uid.clone());
                if context.strict {
                    wire = expect.clone();
                }
                let request = deletion.request(expect, wire);
                self.state = State::DeleteAgain(deletion.item);
                Ok(Step::Request(Lane::ITEM, request))
            }
            // If the read failed, the result is the conflict.
            _ => Err(AttemptError::failed(
                deletion.item.object,
                "deleted",
                Response::Conflict,
            )),
        }
    }

    fn delete_failed(&self, item: Target, context: &mut Context<'_>, response: Response) -> Next {
        if response == Response::NotFound && context.version.has(behavior::DELETE_NOT_FOUND_IS_ABSENCE) {
            return Ok(self.absent(context));
        }
        Err(AttemptError::failed(item.object, "deleted", response))
    }

    /// [A-13](crate::rules#a-13). An owner waits for blocking dependents only ([R-5](crate::rules#r-5)), and
    /// an object that blocks itself waits forever ([R-8](crate::rules#r-8)).
    fn process_deleting_dependents(&mut self, item: Target, context: &mut Context<'_>) -> Next {
        let blocking: Vec<NodeId> = context.graph.blocking_dependents(self.node).collect();
        if blocking.is_empty() {
            let reason = Reason::NothingBlocks {
                dependents: context.graph.dependents(self.node).len(),
                unset: context.graph.dependents_without_block_owner_deletion(self.node),
            };
            let removing = Removing::new(item, metadata::FINALIZER_FOREGROUND, reason);
            return self.finalize(removing, context, None);
        }
        for dependent in blocking {
            if !context.graph.is_deleting_dependents(dependent) {
                context.attempt_to_delete(dependent);
            }
        }
        Ok(done(Conclusion::WaitsForDependents, self.is_virtual(context)))
    }

    fn finalize(
        &mut self,
        mut removing: Removing,
        context: &Context<'_>,
        response: Option<Response>,
    ) -> Next {
        Ok(match removing.next(context, response) {
            Removal::Request(request) => {
                self.state = State::Finalize(removing);
                Step::Request(Lane::ITEM, request)
            }
            Removal::Sleep(wait) => {
                self.state = State::Finalize(removing);
                Step::Sleep(wait)
            }
            Removal::Done(result) => {
                result?;
                done(Conclusion::Finalized, self.is_virtual(context))
            }
        })
    }

    /// The last row of [W-6](crate::rules#w-6): a node that is still virtual is verified again.
    fn is_virtual(&self, context: &Context<'_>) -> bool {
        context.graph.is_virtual(self.node)
    }
}

/// Returns whether both are states of one object with the same owner references, `blockOwnerDeletion` aside.
fn same_owners(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    let owners = |meta: &ObjectMeta| -> Vec<OwnerReference> {
        let unblocked = |reference: &OwnerReference| OwnerReference {
            block_owner_deletion: None,
            ..reference.clone()
        };
        meta.owner_references.iter().map(unblocked).collect()
    };
    before.uid == after.uid && owners(before) == owners(after)
}

fn done(conclusion: Conclusion, requeue: bool) -> Step {
    Step::Done(Outcome { requeue, conclusion })
}

/// The preconditions of a delete: the uid, and the version that was read if there is one.
pub(crate) fn expectation(uid: &Uid, live: &ObjectMeta) -> Preconditions {
    let version = &live.resource_version;
    Preconditions {
        uid: Some(uid.clone()),
        resource_version: (!version.is_empty()).then(|| version.clone()),
    }
}
