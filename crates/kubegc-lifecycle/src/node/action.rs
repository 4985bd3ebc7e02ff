//! What is done to a node, and in which calls.

use kubegc_core::{DeleteOptions, PatchType, Preconditions};

use super::{EFFECT, Reason, TAINT_SHUTDOWN};
use crate::object::{Act, Call, Change, Form, Object, Sent, Taint, Wire};

/// What is done to a node.
#[expect(clippy::exhaustive_enums, reason = "executors must perform each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Tells about the deletion, then deletes the node. Upstream expects nothing of it.
    Delete {
        /// The node.
        object: Object,
        /// What the action rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
    /// Adds the taint of a shutdown.
    AddShutdownTaint {
        /// The node.
        object: Object,
        /// What the action rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
    /// Takes the taint of a shutdown away.
    RemoveShutdownTaint {
        /// The node.
        object: Object,
        /// What the action rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// Why.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        match self {
            Self::Delete { reason, .. }
            | Self::AddShutdownTaint { reason, .. }
            | Self::RemoveShutdownTaint { reason, .. } => reason,
        }
    }

    /// What to tell after the action failed with this error; `None` where upstream tells nothing.
    #[must_use]
    pub fn told_failed(&self, error: &str) -> Option<Call> {
        let Self::Delete { object, .. } = self else {
            return None;
        };
        Some(Call::Event {
            object: object.clone(),
            is_warning: true,
            reason: "DeletingNodeFailed",
            message: format!("Failed deleting node {}: {error}", object.name),
        })
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        match self {
            Self::Delete { object, .. }
            | Self::AddShutdownTaint { object, .. }
            | Self::RemoveShutdownTaint { object, .. } => object,
        }
    }

    fn expect(&self) -> &Preconditions {
        match self {
            Self::Delete { expect, .. }
            | Self::AddShutdownTaint { expect, .. }
            | Self::RemoveShutdownTaint { expect, .. } => expect,
        }
    }

    fn calls(&self, wire: Wire) -> Vec<Call> {
        let taint = || Taint {
            key: TAINT_SHUTDOWN.into(),
            effect: EFFECT.into(),
        };
        let change = |change| Call::Change {
            object: self.object().clone(),
            subresource: "",
            form: Form::Patch(PatchType::Strategic),
            expect: self.expect().clone(),
            changes: vec![change],
        };
        match self {
            Self::Delete { object, expect, .. } => {
                let name = &object.name;
                let told = Call::Event {
                    object: object.clone(),
                    is_warning: false,
                    reason: "DeletingNode",
                    message: format!("Deleting node {name} because it does not exist in the cloud provider"),
                };
                let deleted = Call::delete(object, expect, wire, Sent::Nothing, DeleteOptions::default());
                vec![told, deleted]
            }
            Self::AddShutdownTaint { .. } => vec![change(Change::AddTaint(taint()))],
            Self::RemoveShutdownTaint { .. } => vec![change(Change::RemoveTaint(taint()))],
        }
    }
}
