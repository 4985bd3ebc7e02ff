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
    patch::Change,
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
            (Sent::Read, Some(Response::Found(latest))) => self.send(context, node, Some(&latest)),
            (Sent::Strategic | Sent::Read | Sent::Merge, Some(response)) => Patched::Done(response),
            (_, _) => self.send(context, node, None),
        }
    }

    /// Sends the change as a strategic patch, or as a merge patch of the latest state.
    fn send(&mut self, context: &Context<'_>, node: NodeId, latest: Option<&ObjectMeta>) -> Patched {
        let change = match &self.wanted {
            Wanted::RemoveOwners(owners) => Change::RemoveOwners(owners.clone()),
            Wanted::Unblock => Change::Unblock(context.graph.owners(node).collect()),
        };
        let expected = ObjectMeta {
            uid: self.target.object.uid.clone(),
            ..ObjectMeta::default()
        };
        let (sent, format, object) = match latest {
            None => (Sent::Strategic, PatchType::Strategic, &expected),
            Some(latest) => (Sent::Merge, PatchType::Merge, latest),
        };
        self.sent = sent;
        let operation = Operation::Patch {
            format,
            // Only the removal of a finalizer can be without a patch.
            body: change.body(context.version, format, object).unwrap_or_default(),
            change,
        };
        let mut request = self.target.request(operation, self.reason.clone());
        request.expect.resource_version = latest.map(|latest| latest.resource_version.clone());
        Patched::Request(request)
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
            return self.send(context, node, Some(&latest));
        }
        self.sent = Sent::Read;
        let mut request = self.target.request(Operation::Get, Reason::ReadBeforePatch);
        Arc::make_mut(&mut request.target).namespace = Arc::clone(namespace);
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
