//! Errors of fields and of stores.

use std::time::Duration;

/// The reason why the value of one field was refused, with the field's path.
///
/// The display form is that of the API server's own messages: `<field>: <problem>`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FieldError {
    /// The value has the right type but is not allowed.
    #[error("{field}: Invalid value: {value:?}: {problem}")]
    Invalid {
        /// Path of the field, such as `metadata.uid`.
        field: String,
        value: String,
        problem: String,
    },
    /// The value is not a supported one.
    #[error(
        "{field}: Unsupported value: {value:?}: supported values: {}",
        quoted(supported)
    )]
    NotSupported {
        field: String,
        value: String,
        /// The supported values, in upstream's order.
        supported: Vec<&'static str>,
    },
    #[error("{field}: Required value: {problem}")]
    Required { field: String, problem: String },
    /// The change is not allowed.
    #[error("{field}: Forbidden: {problem}")]
    Forbidden { field: String, problem: String },
}

fn quoted(values: &[&str]) -> String {
    values
        .iter()
        .map(|value| format!("{value:?}"))
        .collect::<Vec<_>>()
        .join(", ")
}

impl FieldError {
    pub fn invalid(field: &str, value: &str, problem: &str) -> Self {
        Self::Invalid {
            field: field.to_owned(),
            value: value.to_owned(),
            problem: problem.to_owned(),
        }
    }

    pub fn field(&self) -> &str {
        match self {
            Self::Invalid { field, .. }
            | Self::NotSupported { field, .. }
            | Self::Required { field, .. }
            | Self::Forbidden { field, .. } => field,
        }
    }
}

/// The error of a request to an [`ObjectStore`](crate::ObjectStore), in the classes that affect a collector's
/// next step.
///
/// [`Unknown`](Self::Unknown) is *not* a refusal. The write may have been applied, so the object must be read
/// again.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// The object does not exist (404).
    #[error("not found")]
    NotFound,
    /// A precondition or a resourceVersion did not match (409).
    #[error("conflict: {message}")]
    Conflict {
        /// The server's message.
        message: String,
    },
    /// The kind is not served, so the object cannot be addressed.
    #[error("unable to get REST mapping for {api_version}/{kind}")]
    NoMapping {
        /// Requested group and version.
        api_version: String,
        kind: String,
    },
    /// The patch format is not accepted for this resource (415).
    #[error("unsupported media type")]
    UnsupportedMediaType,
    /// The result would not be a valid object (422).
    #[error("invalid: {message}")]
    Invalid {
        /// The server's message.
        message: String,
    },
    /// The server refused and definitely changed nothing (400, 403, 429).
    #[error("refused with {code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// The server's message.
        message: String,
        /// The delay before a retry, if the server sent one.
        retry_after: Option<Duration>,
    },
    /// The response was lost or does not show the outcome of the write (timeouts, 5xx): it may have been
    /// applied.
    #[error("unknown outcome: {message}")]
    Unknown {
        /// The known facts.
        message: String,
    },
    /// The list does not cover this object: whether it exists is unknown.
    #[error("not listed: whether the object exists is unknown")]
    Unlisted,
    /// The store no longer has this version (410), or has not reached it yet: the watch requires a relist.
    #[error("resource version not available")]
    Expired,
    #[error("{operation} is not supported by this store")]
    NotSupported { operation: &'static str },
}

impl StoreError {
    /// The error for a response with this HTTP status code. Codes 2xx and 3xx are not errors and give an
    /// [unknown outcome](Self::Unknown).
    ///
    /// 408 and 5xx codes do not show the outcome of the write.
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::StoreError;
    /// assert_eq!(StoreError::from_status(404, "pods \"a\" not found", None), StoreError::NotFound);
    /// let error = StoreError::from_status(504, "timeout", None);
    /// assert_eq!(error.to_string(), "unknown outcome: timeout");
    /// ```
    pub fn from_status(code: u16, message: impl Into<String>, retry_after: Option<Duration>) -> Self {
        let message = message.into();
        match code {
            404 => Self::NotFound,
            409 => Self::Conflict { message },
            410 => Self::Expired,
            415 => Self::UnsupportedMediaType,
            422 => Self::Invalid { message },
            408 => Self::Unknown { message },
            400..=499 => Self::Refused {
                code,
                message,
                retry_after,
            },
            _ if message.is_empty() => Self::Unknown {
                message: format!("status {code}"),
            },
            _ => Self::Unknown { message },
        }
    }

    /// The HTTP status code of the error; `None` for an error without a unique code.
    pub const fn status(&self) -> Option<u16> {
        Some(match self {
            Self::NotFound => 404,
            Self::Conflict { .. } => 409,
            Self::Expired => 410,
            Self::UnsupportedMediaType => 415,
            Self::Invalid { .. } => 422,
            Self::Refused { code, .. } => *code,
            Self::NoMapping { .. } | Self::Unknown { .. } | Self::Unlisted | Self::NotSupported { .. } => {
                return None;
            }
        })
    }
}
