//! Actions, reasons and findings of an image plan.

use std::{fmt, sync::Arc};

use kubegc_core::{
    PlannedAction,
    node_facts::{Container, Image},
};

use super::{Error, Records};
use crate::{Bytes, GoDuration, event::Event};

/// An action of an image plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Action {
    /// Remove an image with all its tags.
    Remove {
        /// The image, as last listed.
        image: Arc<Image>,
        /// The runtime handler of its record; empty if it has none.
        runtime_handler: Arc<str>,
        #[cfg_attr(feature = "serde", serde(flatten))]
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
    /// It was unused for longer than the maximum age.
    Age {
        /// The time since its last use; the maximum if it was never used.
        idle: GoDuration,
        /// The maximum age.
        age_max: GoDuration,
    },
    /// Space was needed, and it was unused for the longest time.
    Space {
        /// The bytes to free before this removal.
        wanted_bytes: i64,
    },
}

/// The subject of an entry in an image plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Subject {
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
    /// A container has it as its image, or mounts it as a volume.
    InUse,
    /// The runtime pins it.
    Pinned,
    /// The run only detects images.
    OnlyDetected,
    /// The usage of the file system is below the threshold.
    BelowThreshold {
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
    /// It was used at the start of the run, or later.
    UsedSince,
    /// Enough space was freed before it was considered.
    EnoughFreed { freed_bytes: i64 },
    /// Removing it failed.
    RemovalFailed(Box<str>),
    /// The run failed before it was considered.
    RunFailed(Box<Error>),

    /// The container has neither an image reference nor an image id.
    UseUnknown,
    /// Its id is listed more than once; the last entry is used.
    Repeated,
    /// The key of its record has no image id.
    InvalidId,
    /// Its size does not fit into a signed 64-bit integer.
    SizeOverflow,
    /// The time of its first detection or last use is after the start of the run: a clock is wrong.
    InFuture,
    /// The available bytes exceed the capacity, so the usage is treated as zero.
    AvailableAboveCapacity,
    /// The usage of the file system cannot be computed in 64 bits.
    ArithmeticOverflow,
    /// Less can be freed than required.
    Shortfall { missing_bytes: i64 },
}

/// The summary of an image plan.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Summary {
    /// The records for the next run.
    pub records: Records,
    /// The usage of the file system, if it was measured.
    pub usage_percent: Option<i64>,
    /// The bytes to free, if the usage reached the high threshold.
    pub to_free_bytes: Option<i64>,
    /// The bytes that the space step freed, by the sizes of the listing; `None` without a space step.
    pub freed_bytes: Option<i64>,
    /// The bytes that the age step freed, by the sizes of the listing.
    pub freed_by_age_bytes: i64,
    /// The error, if the run failed.
    pub error: Option<Error>,
    /// Events for the node.
    pub events: Vec<Event>,
    /// The input of the hooks after the space step, if they run.
    pub hook: Option<Hook>,
}

impl Summary {
    /// The bytes to free that were not freed; zero if none.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Hook {
    /// Ids of the images that the space step considered and kept. Images in use, pinned images, and images
    /// that it did not consider because enough was freed, are *not* included.
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
                "never used, and image collection started more than {age_max} ago"
            ),
            Self::Age { idle, age_max } => write!(f, "not used for {idle}, longer than {age_max}"),
            Self::Space {
                wanted_bytes: i64::MAX,
            } => f.write_str("unused, and all unused images are removed"),
            Self::Space { wanted_bytes } => {
                let left = Bytes::from(*wanted_bytes);
                write!(f, "unused for the longest, {left} left to free")
            }
        }
    }
}

impl Reason {
    /// The reason's name, in the form of an Event's reason.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::InUse => "InUse",
            Self::Pinned => "Pinned",
            Self::OnlyDetected => "OnlyDetected",
            Self::BelowThreshold { .. } => "BelowThreshold",
            Self::TooYoung { .. } => "TooYoung",
            Self::UsedSince => "UsedSince",
            Self::EnoughFreed { .. } => "EnoughFreed",
            Self::RemovalFailed(_) => "RemovalFailed",
            Self::RunFailed(_) => "RunFailed",
            Self::UseUnknown => "UseUnknown",
            Self::Repeated => "Repeated",
            Self::InvalidId => "InvalidId",
            Self::SizeOverflow => "SizeOverflow",
            Self::InFuture => "InFuture",
            Self::AvailableAboveCapacity => "AvailableAboveCapacity",
            Self::ArithmeticOverflow => "ArithmeticOverflow",
            Self::Shortfall { .. } => "Shortfall",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("in use"),
            Self::Pinned => f.write_str("pinned"),
            Self::OnlyDetected => f.write_str("this run only detects images"),
            Self::BelowThreshold {
                usage_percent,
                high_percent,
            } => write!(f, "the disk usage is {usage_percent}%, below {high_percent}%"),
            Self::TooYoung { age, age_min } => {
                write!(f, "first detected {age} ago, less than {age_min}")
            }
            Self::UsedSince => f.write_str("used since the run started"),
            Self::EnoughFreed { freed_bytes } => {
                write!(f, "enough was freed: {}", Bytes::from(*freed_bytes))
            }
            Self::RemovalFailed(error) => write!(f, "could not be removed: {error}"),
            Self::RunFailed(error) => {
                let missing = match **error {
                    Error::ListImages(_) => "the images are unknown",
                    Error::ListPods(_) => "the containers are unknown",
                    Error::ImageVolumes(_) => "the images that are mounted as volumes are unknown",
                    Error::FileSystem(_) => "the usage of the image file system is unknown",
                    _ => "the run failed",
                };
                write!(f, "{missing}: {error}")
            }
            Self::UseUnknown => f.write_str("has neither an image reference nor an image id"),
            Self::Repeated => f.write_str("listed more than once; the last entry is used"),
            Self::InvalidId => f.write_str("its record has no image id"),
            Self::SizeOverflow => f.write_str("its size does not fit into a signed 64-bit integer"),
            Self::InFuture => f.write_str("a time of its record is in the future"),
            Self::AvailableAboveCapacity => f.write_str("the available bytes exceed the capacity"),
            Self::ArithmeticOverflow => f.write_str("the usage of the disk cannot be computed in 64 bits"),
            Self::Shortfall { missing_bytes } => {
                write!(f, "{} cannot be freed", Bytes::from(*missing_bytes))
            }
        }
    }
}

serialize_reason!(RemovalReason, Reason);

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Remove { image, reason, .. } = self;
        write!(
            f,
            "remove image {} ({}): {reason}",
            image.name(),
            Bytes::from(image.size_bytes)
        )
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(image) => write!(f, "image {}", image.name()),
            Self::Container(container) => write!(f, "container {}", container.id),
            Self::Node => f.write_str("node"),
        }
    }
}
