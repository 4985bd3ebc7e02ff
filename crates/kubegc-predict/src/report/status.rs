//! The result of a question in a word.

use std::error::Error;

use kubegc_core::FieldError;
use kubegc_node::policy::InvalidPolicy;
use kubegc_snapshot::SnapshotError;
use serde::Serialize;

use crate::PredictError;

/// The result of a question in a word, which command line tools return as their exit code.
///
/// # Examples
/// ```
/// use kubegc_predict::{PredictError, document::AnswerStatus};
/// let error = PredictError::Selection { problem: "give no names".to_owned() };
/// assert_eq!(AnswerStatus::of(&error), AnswerStatus::Invalid);
/// assert_eq!(AnswerStatus::of(&error).exit_code(), 2);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[repr(u8)]
pub enum AnswerStatus {
    /// The report is complete, and nothing is wrong.
    #[default]
    Ok = 0,
    /// The dump cannot be read, or has no object.
    Unreadable = 1,
    /// The question cannot be read, or contradicts itself.
    Invalid = 2,
    /// An object stays terminating, an extension of the API server is broken, or an owner reference is wrong.
    Problem = 3,
    /// The dump has no such object or resource type.
    NotFound = 4,
    /// The outcome of an object depends on missing data.
    Undetermined = 5,
    /// The API server refuses a delete, or a kubelet its settings.
    Refused = 6,
    /// kubegc failed. This is a bug. The exit code is that of a panic.
    Internal = 101,
}

impl AnswerStatus {
    /// The exit code of a command line tool.
    pub const fn exit_code(self) -> u8 {
        self as u8
    }

    /// The status of an error; [`Unreadable`](Self::Unreadable) for those of other crates.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        if let Some(error) = error.downcast_ref::<SnapshotError>() {
            return match error {
                SnapshotError::Declaration { .. } => Self::Invalid,
                _ => Self::Unreadable,
            };
        }
        match error.downcast_ref::<PredictError>() {
            Some(PredictError::UnknownKind { .. } | PredictError::UnknownObject { .. }) => Self::NotFound,
            Some(_) => Self::Invalid,
            None if error.is::<InvalidPolicy>() => Self::Refused,
            None if error.is::<FieldError>() => Self::Invalid,
            None => Self::Unreadable,
        }
    }
}
