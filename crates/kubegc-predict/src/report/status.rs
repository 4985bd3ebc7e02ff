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
pub enum AnswerStatus {
    /// The report is complete, and nothing is wrong.
    #[default]
    Ok,
    /// The dump cannot be read, or has no object.
    Unreadable,
    /// The question cannot be read, or contradicts itself.
    Invalid,
    /// An object stays terminating, an extension of the API server is broken, or an owner reference is wrong.
    Problem,
    /// The dump has no such object or resource type.
    NotFound,
    /// The outcome of an object depends on missing data.
    Undetermined,
    /// The API server refuses a delete, or a kubelet its settings.
    Refused,
    /// kubegc failed. This is a bug.
    Internal,
}

impl AnswerStatus {
    /// The exit code of a command line tool.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Unreadable => 1,
            Self::Invalid => 2,
            Self::Problem => 3,
            Self::NotFound => 4,
            Self::Undetermined => 5,
            Self::Refused => 6,
            // That of a panic.
            Self::Internal => 101,
        }
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

/// The reason why there is no report.
pub(super) struct Failure {
    pub(super) status: AnswerStatus,
    pub(super) message: String,
}

impl Failure {
    pub(super) const fn invalid(message: String) -> Self {
        Self {
            status: AnswerStatus::Invalid,
            message,
        }
    }

    /// The status and the message of an error, with its causes.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self {
            status: AnswerStatus::of(error),
            message,
        }
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}
