//! Says why a certificate request is deleted or stays.

use std::{fmt, sync::Arc};

use kubegc_core::Timestamp;

/// The rules, in upstream's order.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// It was approved and issued long ago.
    Issued,
    /// It was denied long ago.
    Denied,
    /// It failed long ago.
    Failed,
    /// It was created long ago and nobody has decided.
    Pending,
    /// Its certificate has expired.
    CertificateExpired,
    /// It was approved long ago and never issued.
    Unissued,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Issued => "it is issued",
            Self::Denied => "it is denied",
            Self::Failed => "it has failed",
            Self::Pending => "nobody has decided on it",
            Self::CertificateExpired => "its certificate is expired",
            Self::Unissued => "it is approved and was not issued",
        })
    }
}

/// Why a request is deleted or stays.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A rule holds; where several do, the one that came true first.
    Due {
        /// The rule.
        rule: Rule,
        /// Since when it holds.
        since: Timestamp,
    },
    /// A rule will hold.
    NotDue {
        /// The rule that comes first.
        rule: Rule,
        /// From when on it holds.
        from: Timestamp,
    },
    /// No rule will ever hold for it as it is.
    NoRule,
    /// Its deletion was asked for already.
    Deleting,
    /// Two listed requests have this identity and are not alike.
    ListedTwice,
    /// A field that decides is not known.
    NotKnown {
        /// The field.
        field: &'static str,
    },
    /// Its certificate cannot be read, and this release then leaves the whole request alone.
    BadCertificate {
        /// The error.
        message: Arc<str>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due { rule, since } => write!(f, "{rule}, and its time was over at {since}"),
            Self::NotDue { rule, from } => write!(f, "{rule}, and stays until {from}"),
            Self::NoRule => f.write_str("no rule applies to it"),
            Self::Deleting => f.write_str("is being deleted"),
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::NotKnown { field } => write!(f, "its {field} is not known"),
            Self::BadCertificate { message } => f.write_str(message),
        }
    }
}
