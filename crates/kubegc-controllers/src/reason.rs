//! Reasons for actions, for keeping objects, and for undetermined ones.

use std::{borrow::Cow, fmt::Write as _, sync::Arc, time::Duration};

use kubegc_core::{
    StoreError,
    record::{ObjectId, Record, Resource},
};

/// The reason why an object is changed or kept: a stable code for programs and a sentence for people.
///
/// # Examples
/// ```
/// use kubegc_controllers::Reason;
/// let reason = Reason::new("TtlExpired", "finished 100s ago, and ttlSecondsAfterFinished is 60");
/// assert_eq!(reason.code(), "TtlExpired");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{message}")]
pub struct Reason {
    code: &'static str,
    message: Cow<'static, str>,
    object: Option<Box<ObjectId>>,
}

impl Reason {
    /// A reason with a code in upper camel case, such as `TtlExpired`.
    pub fn new(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            object: None,
        }
    }

    /// The reason of a request for which the controller gave none.
    pub(crate) fn unspecified() -> Self {
        Self::new("Unspecified", "the controller gave no reason")
    }

    /// The same reason with the other object that it is about, such as the claim of a released volume.
    #[must_use]
    pub fn about(mut self, object: ObjectId) -> Self {
        self.object = Some(Box::new(object));
        self
    }

    pub fn object(&self) -> Option<&ObjectId> {
        self.object.as_deref()
    }

    /// The code. It never changes for the same rule.
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// The sentence, as `Display` prints it.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// A fact that a decision needs and that is not known. No controller acts on an object while a fact that
/// decides it is missing.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Missing {
    /// Not all objects of a resource are known.
    #[display("the list of {} is not complete: {message}", resource.plural())]
    List { resource: Resource, message: Arc<str> },
    /// A field of an object was not read.
    #[display("{object}: {field} could not be read")]
    Field {
        object: ObjectId,
        /// Path of the field, such as `spec.nodeName`.
        field: &'static str,
    },
    /// The metadata of an object was not read in full, or has no uid.
    #[display("{object}: its metadata could not be read in full")]
    Metadata { object: ObjectId },
    /// Only the metadata of an object was read.
    #[display("{object}: only its metadata was read")]
    Object { object: ObjectId },
    /// A system outside the API server was not queried, or could not respond.
    #[display("it is not known {question}{}{message}", if message.is_empty() { "" } else { ": " })]
    Outside {
        /// The question, such as `whether the cloud provider has node/a`.
        question: Arc<str>,
        /// The error; empty without a query.
        message: Arc<str>,
    },
}

/// The error of a list that was never made.
const UNLISTED: &str = "not listed";

impl Missing {
    pub(crate) fn field(object: &ObjectId, field: &'static str) -> Self {
        Self::Field {
            object: object.clone(),
            field,
        }
    }

    pub(crate) fn metadata(resource: Resource, record: &Record) -> Self {
        Self::Metadata {
            object: record.id(resource),
        }
    }

    /// A system outside the API server was not queried.
    pub(crate) fn outside(question: impl Into<Arc<str>>) -> Self {
        Self::Outside {
            question: question.into(),
            message: "".into(),
        }
    }

    pub(crate) fn not_queried(node: &ObjectId) -> Self {
        Self::outside(format!("whether the cloud provider has {node}"))
    }

    /// The list of a resource failed with this error, or was never made.
    pub fn list(resource: Resource, error: &StoreError) -> Self {
        let message = match error {
            StoreError::Unlisted => UNLISTED.into(),
            other => other.to_string().into(),
        };
        Self::List { resource, message }
    }

    /// The resource of a list that was never made.
    pub fn unlisted(&self) -> Option<Resource> {
        match self {
            Self::List { resource, message } if **message == *UNLISTED => Some(*resource),
            _ => None,
        }
    }

    /// A stable code, such as `FieldUnread`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::List { .. } => "ListMissing",
            Self::Field { .. } => "FieldUnread",
            Self::Metadata { .. } => "MetadataUnread",
            Self::Object { .. } => "ObjectUnread",
            Self::Outside { .. } => "OutsideUnknown",
        }
    }

    /// The sentence for a line that already names this object.
    pub fn message_about(&self, object: &ObjectId) -> String {
        let text = self.to_string();
        match text.strip_prefix(&format!("{object}: ")) {
            Some(rest) => rest.to_owned(),
            None => text,
        }
    }

    /// The object that was not read; `None` if the missing fact belongs to no single object.
    pub const fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Field { object, .. } | Self::Metadata { object } | Self::Object { object } => Some(object),
            Self::List { .. } | Self::Outside { .. } => None,
        }
    }
}

/// A length of time in its two largest units, such as `2h10m`; hours up to two days.
pub(crate) fn age(length: Duration) -> String {
    const UNITS: [(u64, char); 4] = [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')];
    let seconds = length.as_secs();
    let first = match seconds {
        0..60 => 3,
        60..3_600 => 2,
        3_600..172_800 => 1,
        _ => 0,
    };
    let (mut text, mut rest) = (String::new(), seconds);
    for (size, unit) in UNITS.into_iter().skip(first).take(2) {
        if rest >= size || (text.is_empty() && size == 1) {
            // Writing to a text does not fail.
            let _ = write!(text, "{}{unit}", rest / size);
        }
        rest %= size;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (680, "11m20s"),
            (3_600, "1h"),
            (7_805, "2h10m"),
            (172_799, "47h59m"),
            (172_800, "2d"),
            (180_000, "2d2h"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }
}
