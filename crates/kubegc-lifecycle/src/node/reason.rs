//! Why a node goes, is tainted or is left alone.

use std::{fmt, sync::Arc};

use kubegc_core::{StoreError, Timestamp};

/// Why a node goes, is tainted or is left alone.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Goes: the cloud has no instance for it.
    Absent,
    /// Is tainted: its instance is shut down.
    Shutdown,
    /// Loses the taint of a shutdown: it is ready.
    ReadyAgain,
    /// Stays: it is ready.
    Ready,
    /// Stays: its instance exists and is not shut down.
    Running,
    /// Stays: its instance is shut down, and the taint says so already.
    AlreadyTainted,
    /// Stays, for now: it is young and nobody has initialized it yet, as far as is known.
    Uninitialized {
        /// When it is judged.
        until: Timestamp,
    },
    /// Stays: it may not be initialized yet, and its age is not known.
    AgeUnknown,
    /// Stays: whether it is ready is not known.
    ConditionsUnknown,
    /// Stays as it is: its taints are not known.
    TaintsUnknown,
    /// Stays, for now: nobody asked whether it exists.
    ExistenceNotAsked,
    /// Stays: whether it exists could not be found out.
    ExistenceUnknown {
        /// The error.
        message: Arc<str>,
    },
    /// Stays, for now: nobody asked whether it is shut down.
    ShutdownNotAsked,
    /// Stays: whether it is shut down could not be found out.
    ShutdownUnknown {
        /// The error.
        message: Arc<str>,
    },
    /// Stays: it was listed twice, in two states or with two identities.
    ListedTwice,
    /// Stays as it is: it has no uid that a call could expect.
    IdentityUnknown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("does not exist in the cloud"),
            Self::Shutdown => f.write_str("is shut down in the cloud"),
            Self::ReadyAgain => f.write_str("is ready again"),
            Self::Ready => f.write_str("is ready"),
            Self::Running => f.write_str("exists in the cloud and is not shut down"),
            Self::AlreadyTainted => f.write_str("is shut down in the cloud and tainted"),
            Self::Uninitialized { until } => write!(f, "may not be initialized yet; judged from {until}"),
            Self::AgeUnknown => f.write_str("may not be initialized yet, and its age is not known"),
            Self::ConditionsUnknown => f.write_str("its conditions are not known"),
            Self::TaintsUnknown => f.write_str("its taints are not known"),
            Self::ExistenceNotAsked => f.write_str("nobody asked the cloud whether it exists"),
            Self::ExistenceUnknown { message } => {
                write!(f, "the cloud cannot say whether it exists: {message}")
            }
            Self::ShutdownNotAsked => f.write_str("nobody asked the cloud whether it is shut down"),
            Self::ShutdownUnknown { message } => {
                write!(f, "the cloud cannot say whether it is shut down: {message}")
            }
            Self::ListedTwice => f.write_str("listed twice, in two states"),
            Self::IdentityUnknown => f.write_str("its uid is not known"),
        }
    }
}

/// What a pass amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The nodes of which the cloud is to be asked whether they exist, by name.
    pub ask_exists: Vec<Arc<str>>,
    /// The nodes of which the cloud is to be asked whether they are shut down, by name.
    pub ask_shutdown: Vec<Arc<str>>,
    /// Why nothing was planned: the nodes were not listed.
    pub error: Option<StoreError>,
}
