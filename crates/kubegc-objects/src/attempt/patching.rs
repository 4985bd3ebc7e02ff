//! Patches of owner references: strategic merge patch first, then a merge patch of the latest state if the
//! server rejects that format ([P-6](crate::rules#p-6)).
//!
//! As upstream, the rejection is not remembered: the next patch of the same kind starts with the strategic
//! format again.

use std::sync::Arc;

use kubegc_core::{ObjectMeta, PatchType, Uid};

use super::{Context, Target};
use crate::{
    graph::NodeId,
    patch::{self, Body, Change},
    reason::Reason,
    request::{AttemptError, Operation, Request, Response},
};

/// The change to make; its data is complete when the patch is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    RemoveOwners(Vec<Uid>),
    /// Makes the references of the item's node in the graph non-blocking.
    Unblock,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Patching {
    target: Target,
    wanted: Wanted,
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
    pub(crate) fn new(target: Target, wanted: Wanted, reason: Reason) -> Self {
        Self {
            target,
            wanted,
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
        let (change, body) = self.patch(context, node, None);
        let operation = Operation::Patch {
            format: PatchType::Strategic,
            body,
            change,
        };
        Patched::Request(self.target.request(operation, self.reason.clone()))
    }

    /// The change with its bytes: a strategic patch, or a merge patch of the latest state.
    fn patch(&self, context: &Context<'_>, node: NodeId, latest: Option<&ObjectMeta>) -> (Change, Body) {
        let uid = &self.target.object.uid;
        match &self.wanted {
            Wanted::RemoveOwners(owners) => {
                let body = match latest {
                    None => patch::remove_owners(context.semantics, uid, owners),
                    Some(latest) => {
                        patch::remove_owners_merge(&latest.resource_version, &latest.owner_references, owners)
                    }
                };
                (Change::RemoveOwners(owners.clone()), body)
            }
            Wanted::Unblock => {
                let owners: Vec<_> = context.graph.owners(node).collect();
                let body = match latest {
                    None => patch::unblock(context.semantics, uid, &owners),
                    Some(latest) => patch::unblock_merge(&latest.resource_version, &owners),
                };
                (Change::Unblock(owners), body)
            }
        }
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
        let (change, body) = self.patch(context, node, Some(latest));
        let operation = Operation::Patch {
            format: PatchType::Merge,
            body,
            change,
        };
        let mut request = self.target.request(operation, self.reason.clone());
        request.expect.resource_version = Some(latest.resource_version.clone());
        Patched::Request(request)
    }

    pub(crate) fn error(&self, response: Response) -> AttemptError {
        let operation = if self.sent == Sent::Read {
            "read"
        } else {
            "patched"
        };
        AttemptError::failed(self.target.object.clone(), operation, response)
    }
}
