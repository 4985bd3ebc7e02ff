//! What is done to a lease, and in which calls.

use kubegc_core::{DeleteOptions, PatchType, Preconditions, PropagationPolicy, Uid};

use super::Reason;
use crate::object::{Act, Call, Change, Form, Object, Wire};

/// What is done to a lease.
#[expect(clippy::exhaustive_enums, reason = "executors must perform each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Deletes the lease.
    Delete {
        /// The lease.
        object: Object,
        /// What the action rests on.
        expect: Preconditions,
        /// What of that upstream sends in the release that was planned for.
        sent: Preconditions,
        /// What happens to its dependents: upstream respects what its finalizers ask for.
        propagation: PropagationPolicy,
        /// Why.
        reason: Reason,
    },
    /// Removes references. Upstream expects the uid only.
    Release {
        /// The lease.
        object: Object,
        /// What the action rests on.
        expect: Preconditions,
        /// The uids of the owners: of those that are gone, then of those that wait, each in stored order.
        owners: Vec<Uid>,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// Why.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        match self {
            Self::Delete { reason, .. } | Self::Release { reason, .. } => reason,
        }
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        match self {
            Self::Delete { object, .. } | Self::Release { object, .. } => object,
        }
    }

    fn expect(&self) -> &Preconditions {
        match self {
            Self::Delete { expect, .. } | Self::Release { expect, .. } => expect,
        }
    }

    fn calls(&self, wire: Wire) -> Vec<Call> {
        vec![match self {
            Self::Delete {
                object,
                expect,
                sent,
                propagation,
                ..
            } => {
                let preconditions = match wire {
                    Wire::AsUpstream => sent.clone(),
                    Wire::Strict => expect.clone(),
                };
                Call::Delete {
                    object: object.clone(),
                    options: DeleteOptions {
                        preconditions,
                        ..DeleteOptions::policy(*propagation)
                    },
                }
            }
            Self::Release {
                object,
                expect,
                owners,
                ..
            } => Call::Change {
                object: object.clone(),
                subresource: "",
                form: Form::Patch(PatchType::Strategic),
                expect: match wire {
                    Wire::AsUpstream => Preconditions {
                        uid: expect.uid.clone(),
                        resource_version: None,
                    },
                    Wire::Strict => expect.clone(),
                },
                changes: vec![Change::RemoveOwnerReferences(owners.clone())],
            },
        }]
    }
}
