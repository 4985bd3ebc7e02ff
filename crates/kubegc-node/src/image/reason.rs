//! The words of an image plan: what is done, to which image, and why.

use std::{fmt, sync::Arc};

use kubegc_core::{
    PlannedAction,
    node_facts::{Container, Image},
};

use super::{Error, Records};
use crate::{GoDuration, event::Event};

/// What an executor does for an image plan.
#[expect(
    clippy::exhaustive_enums,
    reason = "a new action must break executors at compile time"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Remove an image with all its tags.
    Remove {
        /// The image, as last listed.
        image: Arc<Image>,
        /// The handler that its record holds; empty where there is none.
        runtime_handler: Arc<str>,
        /// Why.
        reason: RemovedBecause,
    },
}

impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        let Self::Remove { image, .. } = self;
        Subject::Image(Arc::clone(image))
    }

    fn is_deletion(&self) -> bool {
        true
    }
}

/// Why an image goes. The names are the values of upstream's metric.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovedBecause {
    /// It was not used for longer than the maximum age.
    Age {
        /// For how long it was not used; the maximum where it never was.
        idle: GoDuration,
        /// The maximum age.
        age_max: GoDuration,
    },
    /// Room was needed, and it was the one unused for the longest.
    Space {
        /// How much of the amount to free was still wanted.
        wanted_bytes: i64,
    },
}

/// What an image plan speaks of.
#[expect(
    clippy::exhaustive_enums,
    reason = "an image, a container, or the node as a whole"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One image.
    Image(Arc<Image>),
    /// One container, for what it says of its image.
    Container(Arc<Container>),
    /// The node as a whole.
    Node,
}

/// Why an image stays, or what is odd about the facts.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A container was made from it, or mounts it.
    InUse,
    /// The runtime has it pinned.
    Pinned,
    /// The pass only looked at what there is.
    OnlyDetected,
    /// The file system is less full than the threshold.
    BelowThreshold {
        /// How full it is.
        usage_percent: i64,
        /// The threshold.
        high_percent: i32,
    },
    /// It was first detected too short a time ago to make room with it.
    TooYoung {
        /// Time since first detection.
        age: GoDuration,
        /// The minimum age.
        age_min: GoDuration,
    },
    /// It was in use when the pass began, or later.
    UsedSince,
    /// Enough was freed before its turn came.
    EnoughFreed {
        /// How much was freed.
        freed_bytes: i64,
    },
    /// Removing it failed.
    RemovalFailed(Box<str>),
    /// The pass ended before its turn came.
    PassEnded(Box<Error>),

    /// The container does not say what image it was made from.
    UseUnknown,
    /// Its id stands in the listing more than once; the last counts.
    Repeated,
    /// The key of its record names no image.
    InvalidId,
    /// Its size leaves 64 bits with a sign.
    SizeOverflow,
    /// It was first detected or last used after the pass began: some clock is wrong.
    InFuture,
    /// More is said to be available than there is; nothing counts as used.
    AvailableAboveCapacity,
    /// How full the file system is cannot be computed in 64 bits.
    ArithmeticOverflow,
    /// Less can be freed than is wanted.
    Shortfall {
        /// How much is missing.
        missing_bytes: i64,
    },
}

/// What an image plan amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The records to hand in next time.
    pub records: Records,
    /// How full the file system is, where it was looked at.
    pub usage_percent: Option<i64>,
    /// How much was to be freed, where the disk was looked at and found too full.
    pub to_free_bytes: Option<i64>,
    /// How much was freed to make room, by the sizes of the listing; `None` where the pass did not come to that.
    pub freed_bytes: Option<i64>,
    /// How much was freed by age, by the sizes of the listing.
    pub freed_by_age_bytes: i64,
    /// Why the pass failed, if it did.
    pub error: Option<Error>,
    /// Events for the node.
    pub events: Vec<Event>,
    /// What the hooks after making room are told, where they run.
    pub hook: Option<Hook>,
}

impl Summary {
    /// How much of the amount to free was not freed; zero where nothing is missing.
    #[must_use]
    pub fn shortfall_bytes(&self) -> i64 {
        match (self.to_free_bytes, self.freed_bytes) {
            (Some(wanted), Some(freed)) => wanted.saturating_sub(freed).max(0),
            _ => 0,
        }
    }
}

/// What upstream tells its hooks after making room.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hook {
    /// Ids of images that were looked at and stay. Images in use, pinned ones and those after an early end are *not* among them.
    pub remaining: Vec<Arc<str>>,
    /// When the pass began.
    pub began_at: kubegc_core::Timestamp,
}

impl RemovedBecause {
    /// The reason's name: a value of upstream's metric `kubelet_image_garbage_collected_total`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Age { .. } => "age",
            Self::Space { .. } => "space",
        }
    }
}

impl fmt::Display for RemovedBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Age {
                idle: GoDuration::MAX,
                age_max,
            } => write!(
                f,
                "never seen in use, and image collection has run for longer than {age_max}"
            ),
            Self::Age { idle, age_max } => write!(f, "not used for {idle}, longer than {age_max}"),
            Self::Space {
                wanted_bytes: i64::MAX,
            } => f.write_str("all unused images go"),
            Self::Space { wanted_bytes } => {
                write!(f, "unused for the longest, {wanted_bytes} bytes still wanted")
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("in use"),
            Self::Pinned => f.write_str("pinned"),
            Self::OnlyDetected => f.write_str("only detected"),
            Self::BelowThreshold {
                usage_percent,
                high_percent,
            } => write!(f, "the disk is {usage_percent}% full, below {high_percent}%"),
            Self::TooYoung { age, age_min } => {
                write!(f, "first detected {age} ago, less than {age_min}")
            }
            Self::UsedSince => f.write_str("used since the pass began"),
            Self::EnoughFreed { freed_bytes } => write!(f, "{freed_bytes} bytes were enough"),
            Self::RemovalFailed(why) => write!(f, "could not be removed: {why}"),
            Self::PassEnded(why) => write!(f, "the pass ended: {why}"),
            Self::UseUnknown => f.write_str("does not say what image it was made from"),
            Self::Repeated => f.write_str("listed more than once; the last counts"),
            Self::InvalidId => f.write_str("its record names no image"),
            Self::SizeOverflow => f.write_str("its size is no 64-bit number with a sign"),
            Self::InFuture => f.write_str("its record lies in the future"),
            Self::AvailableAboveCapacity => f.write_str("more is said to be free than there is"),
            Self::ArithmeticOverflow => f.write_str("how full the disk is cannot be computed in 64 bits"),
            Self::Shortfall { missing_bytes } => write!(f, "{missing_bytes} bytes too few can be freed"),
        }
    }
}
