//! Actions, reasons and findings of an image plan.

use std::{fmt, sync::Arc};

use kubegc_core::{
    PlannedAction,
    node_facts::{Container, Image},
};

use super::{Error, Records};
use crate::{GoDuration, event::Event};

/// An action of an image plan.
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
        /// The handler of its record; empty if there is none.
        runtime_handler: Arc<str>,
        /// The reason.
        reason: RemovalReason,
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

/// The reason why an image is removed. The names are the values of upstream's metric.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovalReason {
    /// It was not used for longer than the maximum age.
    Age {
        /// The time since its last use; the maximum if it was never used.
        idle: GoDuration,
        /// The maximum age.
        age_max: GoDuration,
    },
    /// Room was needed, and it was unused for the longest time.
    Space {
        /// The bytes that were still to free.
        wanted_bytes: i64,
    },
}

/// The subject of an entry in an image plan.
#[expect(
    clippy::exhaustive_enums,
    reason = "an image, a container, or the node as a whole"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One image.
    Image(Arc<Image>),
    /// One container, because of its image.
    Container(Arc<Container>),
    /// The node as a whole.
    Node,
}

/// The reason why an image is kept, or a finding.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A container has it, or mounts it.
    InUse,
    /// The runtime pins it.
    Pinned,
    /// The run was a detection.
    OnlyDetected,
    /// The usage of the file system is below the threshold.
    BelowThreshold {
        /// The usage.
        usage_percent: i64,
        /// The threshold.
        high_percent: i32,
    },
    /// It has not reached the minimum age.
    TooYoung {
        /// Time since first detection.
        age: GoDuration,
        /// The minimum age.
        age_min: GoDuration,
    },
    /// It was in use at the start of the run, or later.
    UsedSince,
    /// Enough was freed before it was considered.
    EnoughFreed {
        /// The freed bytes.
        freed_bytes: i64,
    },
    /// Removing it failed.
    RemovalFailed(Box<str>),
    /// The run ended before it was considered.
    RunEnded(Box<Error>),

    /// The container does not name its image.
    UseUnknown,
    /// Its id is listed more than once; the last entry counts.
    Repeated,
    /// The key of its record has no image id.
    InvalidId,
    /// Its size does not fit into a signed 64-bit integer.
    SizeOverflow,
    /// It was first detected or last used after the start of the run: a clock is wrong.
    InFuture,
    /// More is available than the capacity; nothing counts as used.
    AvailableAboveCapacity,
    /// The usage of the file system cannot be computed in 64 bits.
    ArithmeticOverflow,
    /// Less can be freed than wanted.
    Shortfall {
        /// The missing bytes.
        missing_bytes: i64,
    },
}

/// The summary of an image plan.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The records for the next run.
    pub records: Records,
    /// The usage of the file system, if it was measured.
    pub usage_percent: Option<i64>,
    /// The bytes to free, if the disk was measured and too full.
    pub to_free_bytes: Option<i64>,
    /// The bytes freed to make room, by the sizes of the listing; `None` without a space step.
    pub freed_bytes: Option<i64>,
    /// How much was freed by age, by the sizes of the listing.
    pub freed_by_age_bytes: i64,
    /// The error, if the run failed.
    pub error: Option<Error>,
    /// Events for the node.
    pub events: Vec<Event>,
    /// The input of the hooks after the space step, if they run.
    pub hook: Option<Hook>,
}

impl Summary {
    /// The bytes that were to be freed and were not; zero if none.
    #[must_use]
    pub fn shortfall_bytes(&self) -> i64 {
        match (self.to_free_bytes, self.freed_bytes) {
            (Some(wanted), Some(freed)) => wanted.saturating_sub(freed).max(0),
            _ => 0,
        }
    }
}

/// The input of upstream's hooks after the space step ([N3.48](crate::rules#n3-48)).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hook {
    /// Ids of images that were considered and kept. Images in use, pinned ones and those after an early end
    /// are *not* included.
    pub remaining: Vec<Arc<str>>,
    /// The start of the run.
    pub began_at: kubegc_core::Timestamp,
}

impl RemovalReason {
    /// The reason's name: a value of upstream's metric `kubelet_image_garbage_collected_total`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Age { .. } => "age",
            Self::Space { .. } => "space",
        }
    }
}

impl fmt::Display for RemovalReason {
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
            } => f.write_str("all unused images are removed"),
            Self::Space { wanted_bytes } => {
                write!(f, "unused for the longest, {wanted_bytes} bytes left to free")
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
            Self::UsedSince => f.write_str("used since the run began"),
            Self::EnoughFreed { freed_bytes } => write!(f, "{freed_bytes} bytes were enough"),
            Self::RemovalFailed(why) => write!(f, "could not be removed: {why}"),
            Self::RunEnded(why) => write!(f, "the run ended: {why}"),
            Self::UseUnknown => f.write_str("does not name its image"),
            Self::Repeated => f.write_str("listed more than once; the last entry counts"),
            Self::InvalidId => f.write_str("its record has no image id"),
            Self::SizeOverflow => f.write_str("its size does not fit into a signed 64-bit integer"),
            Self::InFuture => f.write_str("its record is in the future"),
            Self::AvailableAboveCapacity => f.write_str("more is available than the capacity"),
            Self::ArithmeticOverflow => f.write_str("the usage of the disk cannot be computed in 64 bits"),
            Self::Shortfall { missing_bytes } => write!(f, "{missing_bytes} bytes cannot be freed"),
        }
    }
}
