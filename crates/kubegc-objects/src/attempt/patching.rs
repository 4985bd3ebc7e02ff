//! Patches of owner references: strategic merge patch first, then a merge patch of the latest state if the
//! server rejects that format ([P-6](crate::rules#p-6)).
//!
//! As upstream, the rejection is not remembered: the next patch of the same kind starts with the strategic
//! format again.

use std::sync::Arc;

use kubegc_core::{ObjectMeta, OwnerReference, PatchType, Uid};

use super::{Context, Target};
use crate::{
    graph::NodeId,
    patch,
    reason::Reason,
    request::{AttemptError, Operation, Request, Response},
};

/// The change that the patch makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// Removes the references with these uids ([P-1](crate::rules#p-1), [P-2](crate::rules#p-2)).
    RemoveOwners(Vec<Uid>),
    /// Makes the references of the item's node in the graph non-blocking ([P-3](crate::rules#p-3),
    /// [P-4](crate::rules#p-4)).
    Unblock,
}

/// A patch in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Patching {
    target: Target,
    change: Change,
    reason: Reason,
    sent: Sent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sent {
    Nothing,
    Strategic,
    Read,
    Merge,
}

pub(crate) enum Patched {
    Request(Request),
    Done(Response),
}

impl Patching {
    pub(crate) fn new(target: Target, change: Change, reason: Reason) -> Self {
        Self {
            target,
            change,
            reason,
            sent: Sent::Nothing,
        }
    }

    /// Processes the response to the last request. The first call has none.
    ///
    /// `node` is the item's node.
    pub(crate) fn next(
        &mut self,
        context: &Context<'_>,
        node: NodeId,
        response: Option<Response>,
    ) -> Patched {
        match (self.sent, response) {
            (Sent::Strategic, Some(Response::UnsupportedMediaType)) => self.merge_latest(context, node),
            (Sent::Read, Some(Response::Found(latest))) => self.merge(context, node, &latest),
            (Sent::Strategic | Sent::Read | Sent::Merge, Some(response)) => Patched::Done(response),
            (_, _) => self.strategic(context, node),
        }
    }

    fn strategic(&mut self, context: &Context<'_>, node: NodeId) -> Patched {
        self.sent = Sent::Strategic;
        let uid = &self.target.object.uid;
        let body = match &self.change {
            Change::RemoveOwners(owners) => patch::remove_owners(context.semantics, uid, owners),
            Change::Unblock => patch::unblock(context.semantics, uid, &node_owners(context, node)),
        };
        self.request(Operation::Patch {
            format: PatchType::Strategic,
            body,
        })
    }

    fn merge_latest(&mut self, context: &Context<'_>, node: NodeId) -> Patched {
        let object = &self.target.object;
        // Upstream uses the namespace of the node, even if the kind is cluster-scoped: a wrongly guessed
        // namespace is then not found.
        let namespace = if context.strict {
            &object.namespace
        } else {
            &self.target.node_namespace
        };
        if let Some(latest) = context.latest.latest(self.target.kind, namespace, &object.name) {
            return self.merge(context, node, &latest);
        }
        self.sent = Sent::Read;
        let mut request = self.target.request(Operation::Get, Reason::ReadBeforePatch);
        Arc::make_mut(&mut request.target).namespace = Arc::clone(namespace);
        Patched::Request(request)
    }

    fn merge(&mut self, context: &Context<'_>, node: NodeId, latest: &ObjectMeta) -> Patched {
        self.sent = Sent::Merge;
        let read_at = &latest.resource_version;
        let body = match &self.change {
            Change::RemoveOwners(owners) => {
                patch::remove_owners_merge(read_at, &latest.owner_references, owners)
            }
            Change::Unblock => patch::unblock_merge(read_at, &node_owners(context, node)),
        };
        let mut request = self.target.request(
            Operation::Patch {
                format: PatchType::Merge,
                body,
            },
            self.reason.clone(),
        );
        request.expect.resource_version = Some(read_at.clone());
        Patched::Request(request)
    }

    fn request(&self, operation: Operation) -> Patched {
        Patched::Request(self.target.request(operation, self.reason.clone()))
    }

    /// The error for an unsuccessful response.
    pub(crate) fn error(&self, response: Response) -> AttemptError {
        let operation = if self.sent == Sent::Read {
            "read"
        } else {
            "patched"
        };
        AttemptError::RequestFailed {
            target: self.target.object.clone(),
            operation,
            response,
        }
    }
}

fn node_owners(context: &Context<'_>, node: NodeId) -> Vec<OwnerReference> {
    context.graph.owners(node).collect()
}
