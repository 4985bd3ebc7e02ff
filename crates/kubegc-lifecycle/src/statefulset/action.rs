//! What is done to a claim.

use kubegc_core::{OwnerReference, Preconditions};

use super::Reason;
use crate::object::{Act, Call, Change, Form, Object, Wire};

/// What is done to a claim, or told of it.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Writes the claim back with these owners.
    SetOwners {
        /// The claim.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
        /// All its references, in order.
        references: Vec<OwnerReference>,
        /// The set that is warned first, where somebody else, or a former set or pod, controls the claim.
        warns: Option<Object>,
    },
    /// Only warns the set: somebody else controls a claim of a pod whose other claims are put right.
    Warn {
        /// The set.
        object: Object,
        /// What the decision rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
        /// The claim.
        claim: Object,
    },
}

impl Action {
    /// Why this is done.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        match self {
            Self::SetOwners { reason, .. } | Self::Warn { reason, .. } => reason,
        }
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        match self {
            Self::SetOwners { object, .. } | Self::Warn { object, .. } => object,
        }
    }

    fn expect(&self) -> &Preconditions {
        match self {
            Self::SetOwners { expect, .. } | Self::Warn { expect, .. } => expect,
        }
    }

    /// The write is of the whole object, which carries uid and version either way.
    fn calls(&self, _wire: Wire) -> Vec<Call> {
        match self {
            Self::SetOwners {
                object,
                expect,
                references,
                warns,
                ..
            } => {
                let write = Call::Change {
                    object: object.clone(),
                    subresource: "",
                    form: Form::Replace,
                    expect: expect.clone(),
                    changes: vec![Change::OwnerReferences(references.clone())],
                };
                let warned = warns.iter().map(|set| warning(set, object));
                warned.chain([write]).collect()
            }
            Self::Warn { object, claim, .. } => vec![warning(object, claim)],
        }
    }
}

/// The misspelling is upstream's.
fn warning(set: &Object, claim: &Object) -> Call {
    Call::Event {
        object: set.clone(),
        is_warning: true,
        reason: "ConflictingController",
        message: format!(
            "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, \
             the retention policy is ignored for this claim",
            claim.name
        ),
    }
}
