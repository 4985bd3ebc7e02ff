//! Actions, reasons and findings of an image plan.

use std::{fmt, sync::Arc};

use kubegc_core::{PlannedAction, node_facts::Image};

use super::{Error, Records};
use crate::{Bytes, GoDuration, Subject, event::Event};

/// An action of an image plan: remove an image with all its tags.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("remove image {} ({}): {reason}", image.name(), Bytes::from(image.size_bytes))]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "action", rename = "remove", rename_all = "camelCase")
)]
pub struct Action {
    /// The image, as last listed.
    pub image: Arc<Image>,
    /// The runtime handler of its record; empty if it has none.
    pub runtime_handler: Arc<str>,
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub reason: RemovalReason,
}

impl PlannedAction for Action {
    type Object = Subject;

    fn object(&self) -> Subject {
        (&self.image).into()
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
        age_max: GoDuration,
    },
    /// Space was needed, and it was unused for the longest time.
    Space {
        /// The bytes to free before this removal.
        wanted_bytes: i64,
    },
}

kubegc_core::reasons! {
    /// The reason why an image is kept, or a finding.
    pub enum Reason {
        /// A container has it as its image, or mounts it as a volume.
        InUse = "in use";
        Pinned = "pinned";
        OnlyDetected = "this run only detects images";
        BelowThreshold { usage_percent: i64, high_percent: i32 } =
            "the disk usage is {usage_percent}%, below {high_percent}%";
        TooYoung { age: GoDuration, age_min: GoDuration } = "first detected {age} ago, less than {age_min}";
        UsedSince = "used since the run started";
        /// Enough space was freed before it was considered.
        EnoughFreed { freed_bytes: i64 } = "enough was freed: {}", Bytes::from(*freed_bytes);
        RemovalFailed(error: Box<str>) = "could not be removed: {error}";
        /// The run failed before it was considered.
        RunFailed(error: Box<Error>) = "{}: {error}", match **error {
            Error::ListImages(_) => "the images are unknown",
            Error::ListPods(_) => "the containers are unknown",
            Error::ImageVolumes(_) => "the images that are mounted as volumes are unknown",
            Error::FileSystem(_) => "the usage of the image file system is unknown",
            _ => "the run failed",
        };

        UseUnknown = "has neither an image reference nor an image id";
        Repeated = "listed more than once; the last entry is used";
        InvalidId = "its record has no image id";
        SizeOverflow = "its size does not fit into a signed 64-bit integer";
        /// The time of its first detection or last use is after the start of the run: a clock is wrong.
        InFuture = "a time of its record is in the future";
        /// The usage is treated as zero.
        AvailableAboveCapacity = "the available bytes exceed the capacity";
        ArithmeticOverflow = "the usage of the disk cannot be computed in 64 bits";
        Shortfall { missing_bytes: i64 } = "{} cannot be freed", Bytes::from(*missing_bytes);
    }
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
    pub events: Vec<Event>,
    /// The input of the hooks after the space step, if they run.
    pub hook: Option<Hook>,
}

impl Summary {
    /// The bytes to free that were not freed; zero if none.
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
    pub const fn name(self) -> &'static str {
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

#[cfg(feature = "serde")]
impl serde::Serialize for RemovalReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        kubegc_core::planner::serialize_reason(self.name(), self, serializer)
    }
}
