//! What is done to tokens.

use kubegc_core::{DeleteOptions, PatchType, Preconditions, StoreError, time::Date};

use super::{LABEL_INVALID_SINCE, Reason};
use crate::object::{Act, Call, Change, Failure, Form, Object, Sent, Wire};

/// What is done to a token.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Marks the token as invalid: the API server refuses it from now on.
    Mark {
        /// The secret.
        object: Object,
        /// The secret as it was listed. Upstream expects the uid alone.
        expect: Preconditions,
        /// The day of the mark, in UTC.
        date: Date,
        /// Why.
        reason: Reason,
    },
    /// Deletes the token.
    Delete {
        /// The secret.
        object: Object,
        /// The secret as it was listed. Upstream expects the version alone.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// What upstream makes of a failure: a deletion may find the token gone or changed, all else is told, and the next pass tries again.
    #[must_use]
    pub const fn failure(&self, error: &StoreError) -> Failure {
        match self {
            Self::Mark { .. } => Failure::Told,
            Self::Delete { .. } => Failure::unless_gone_or_changed(error),
        }
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        let (Self::Mark { object, .. } | Self::Delete { object, .. }) = self;
        object
    }

    fn expect(&self) -> &Preconditions {
        let (Self::Mark { expect, .. } | Self::Delete { expect, .. }) = self;
        expect
    }

    fn calls(&self, wire: Wire) -> Vec<Call> {
        let call = match self {
            Self::Mark {
                object, expect, date, ..
            } => {
                let value = date.to_string();
                let key = LABEL_INVALID_SINCE;
                Call::Change {
                    object: object.clone(),
                    subresource: "",
                    form: Form::Patch(PatchType::Merge),
                    expect: wire.says(expect, Sent::Uid),
                    changes: vec![Change::Label { key, value }],
                }
            }
            Self::Delete { object, expect, .. } => {
                Call::delete(object, expect, wire, Sent::Version, DeleteOptions::default())
            }
        };
        vec![call]
    }
}
