//! Says why a token is marked, deleted or left alone.

use std::{fmt, sync::Arc};

use kubegc_core::{Timestamp, time::Date};

/// Why a token is marked, deleted or left alone. Where a time `from` is given, it is when this no longer protects it; `None` beyond what a
/// [`Timestamp`] can tell.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Nobody has used it for a period: it is marked.
    Unused {
        /// The day of its last use; `None` where none was ever seen.
        last_used: Option<Date>,
    },
    /// It has been marked for a period: it is deleted.
    Invalid {
        /// The day of the mark.
        since: Date,
    },
    /// The controller does not run.
    Disabled,
    /// The pass is skipped: what tracks uses was not read.
    TrackingNotKnown,
    /// The pass is skipped: uses are not tracked.
    NotTracked,
    /// The pass is skipped: what tracks uses does not say since when.
    TrackingWithoutDate,
    /// The pass is skipped: what tracks uses does not hold a date.
    TrackingDateBad {
        /// What stands there.
        text: Arc<str>,
    },
    /// The pass is skipped: uses have not been tracked for a period.
    TrackedTooShortly {
        /// The day on which tracking began.
        since: Date,
        /// When it will have been a period.
        from: Option<Timestamp>,
    },
    /// Two listed secrets have this name and are not alike.
    ListedTwice,
    /// A field that decides is not known.
    NotKnown {
        /// The field.
        field: &'static str,
    },
    /// It is not a token of a service account.
    OtherType,
    /// It is younger than a period.
    TooYoung {
        /// When it will be older.
        from: Option<Timestamp>,
    },
    /// Its deletion was asked for already.
    Deleting,
    /// Its last use is not a date.
    LastUseBad {
        /// What stands there.
        text: Arc<str>,
    },
    /// It was used.
    UsedLately {
        /// The day of its last use.
        last_used: Date,
        /// When that will have been over for a period.
        from: Option<Timestamp>,
    },
    /// Service accounts could not be listed.
    AccountsNotListed {
        /// The error.
        message: Arc<str>,
    },
    /// It names no account.
    NoAccount,
    /// Its account does not exist.
    AccountGone {
        /// Name of the account.
        account: Arc<str>,
    },
    /// Its account was deleted, and another made under the name.
    AccountReplaced {
        /// Name of the account.
        account: Arc<str>,
    },
    /// Two listed accounts have the name of its account.
    AccountListedTwice {
        /// Name of the account.
        account: Arc<str>,
    },
    /// Which secrets were made for its account is not known.
    AccountNotKnown {
        /// Name of the account.
        account: Arc<str>,
    },
    /// It was not made for its account: somebody wanted it.
    MadeByHand {
        /// Name of the account.
        account: Arc<str>,
    },
    /// Pods could not be listed.
    PodsNotListed {
        /// The error.
        message: Arc<str>,
    },
    /// Which secrets a pod of its namespace mentions is not known.
    PodNotKnown {
        /// Name of the pod.
        pod: Arc<str>,
    },
    /// A pod mentions it.
    InUse {
        /// Name of the pod, the first one where there are several.
        pod: Arc<str>,
    },
    /// It was marked, and waits for its deletion.
    MarkedLately {
        /// The day of the mark.
        since: Date,
        /// When that will have been over for a period.
        from: Option<Timestamp>,
    },
}

impl Reason {
    /// When it no longer protects.
    pub(super) const fn ends_at(&self) -> Option<Timestamp> {
        match self {
            Self::TrackedTooShortly { from, .. }
            | Self::TooYoung { from }
            | Self::UsedLately { from, .. }
            | Self::MarkedLately { from, .. } => *from,
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused {
                last_used: Some(date),
            } => write!(f, "was last used on {date}"),
            Self::Unused { last_used: None } => f.write_str("was never used since uses are tracked"),
            Self::Invalid { since } => write!(f, "is invalid since {since}"),
            Self::Disabled => f.write_str("unused tokens are not deleted"),
            Self::TrackingNotKnown => f.write_str("since when uses are tracked is not known"),
            Self::NotTracked => f.write_str("uses are not tracked"),
            Self::TrackingWithoutDate => f.write_str("nothing says since when uses are tracked"),
            Self::TrackingDateBad { text } => {
                write!(f, "since when uses are tracked is not a date: {text:?}")
            }
            Self::TrackedTooShortly { since, .. } => write!(f, "uses are tracked only since {since}"),
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::NotKnown { field } => write!(f, "its {field} is not known"),
            Self::OtherType => f.write_str("is not a token of a service account"),
            Self::TooYoung { from: Some(from) } => write!(f, "is too young until {from}"),
            Self::TooYoung { from: None } => f.write_str("is too young for centuries"),
            Self::Deleting => f.write_str("is being deleted"),
            Self::LastUseBad { text } => write!(f, "its last use is not a date: {text:?}"),
            Self::UsedLately { last_used, .. } => write!(f, "was used on {last_used}"),
            Self::AccountsNotListed { message } => write!(f, "service accounts are not known: {message}"),
            Self::NoAccount => f.write_str("names no service account"),
            Self::AccountGone { account } => write!(f, "its service account {account} does not exist"),
            Self::AccountReplaced { account } => {
                write!(f, "its service account {account} was replaced by another")
            }
            Self::AccountListedTwice { account } => {
                write!(f, "its service account {account} is listed twice")
            }
            Self::AccountNotKnown { account } => {
                write!(f, "the secrets of its service account {account} are not known")
            }
            Self::MadeByHand { account } => {
                write!(
                    f,
                    "its service account {account} does not list it: it was made by hand"
                )
            }
            Self::PodsNotListed { message } => write!(f, "pods are not known: {message}"),
            Self::PodNotKnown { pod } => write!(f, "what pod {pod} mentions is not known"),
            Self::InUse { pod } => write!(f, "pod {pod} mentions it"),
            Self::MarkedLately { since, .. } => write!(f, "is invalid since {since}, and waits"),
        }
    }
}
