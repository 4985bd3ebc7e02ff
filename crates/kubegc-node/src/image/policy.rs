//! The validated thresholds of image collection ([N1.28](crate::rules#n1-28) to
//! [N1.31](crate::rules#n1-31)).

use crate::{GoDuration, Order, Semantics};

/// The arithmetic of percentages and sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Wrapping 64-bit integers, as upstream. An overflow is a finding.
    Upstream,
    /// If a product overflows, no image is removed to free space, and the overflow is a finding. Sums of
    /// sizes saturate. The results equal upstream's for capacities below 92 PB.
    #[default]
    Checked,
}

/// Thresholds of image collection. `Default` is upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thresholds {
    /// Usage in percent from which space is freed ([N3.32](crate::rules#n3-32)). Too low: images are removed
    /// that are pulled again soon. Too high: eviction starts first.
    pub high_percent: i32,
    /// Usage in percent down to which space is freed.
    pub low_percent: i32,
    /// Time since the first detection of an image for which it is not removed to free space. Too short: an
    /// image is removed between its pull and its first use.
    pub age_min: GoDuration,
    /// Time since its last use after which an image is removed; zero: never.
    pub age_max: GoDuration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            high_percent: 85,
            low_percent: 80,
            age_min: GoDuration::from_secs(120),
            age_max: GoDuration::ZERO,
        }
    }
}

/// An invalid threshold. The texts on percentages are those of upstream's constructor.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum InvalidThresholds {
    /// The high threshold is not a percentage.
    #[error("invalid HighThresholdPercent {percent}, must be in range [0-100]")]
    High { percent: i32 },
    /// The low threshold is not a percentage.
    #[error("invalid LowThresholdPercent {percent}, must be in range [0-100]")]
    Low { percent: i32 },
    /// The low threshold is above the high one. Equal ones are valid here and invalid in a kubelet's
    /// configuration.
    #[error("LowThresholdPercent {low_percent} can not be higher than HighThresholdPercent {high_percent}")]
    Crossed { low_percent: i32, high_percent: i32 },
    /// An age is negative. Upstream rejects it in the kubelet's configuration.
    #[error("{field} {age} must not be negative")]
    NegativeAge {
        /// The field of the kubelet's configuration.
        field: &'static str,
        age: GoDuration,
    },
}

/// The task of an image run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// Update the records without removals: the detection loop. Upstream: `detectImages`.
    Detect,
    /// Remove images that are unused for longer than the maximum age, and free space if the usage reaches the
    /// high threshold: the image loop. Upstream: `GarbageCollect`.
    #[default]
    Collect,
    /// Remove all unused images, as under node pressure. Upstream: `DeleteUnusedImages`.
    DeleteUnused,
    /// Free this number of bytes, independently of the usage. Upstream: `freeSpace`.
    Free {
        /// Bytes to free. With zero or less, one image is still removed.
        bytes: i64,
    },
}

/// Planner for images. See the [module](super).
///
/// `Default` has upstream's thresholds and the newest release. [`new`](Self::new) validates thresholds.
///
/// # Examples
/// ```
/// use kubegc_core::{Planner, Timestamp, node_facts::Image};
/// use kubegc_node::{Inventory, image::FreeSpace};
///
/// let images = [Image::new("sha256:a", 700), Image::new("sha256:b", 900)];
/// let mut inventory = Inventory::new().with_images(images);
/// let planner = FreeSpace::default().free(500);
/// // An image is kept for two minutes after its first detection. The records of a plan belong to the next.
/// inventory.image_records = planner.plan(&inventory, Timestamp::from_secs(0)).summary.records;
/// assert_eq!(planner.plan(&inventory, Timestamp::from_secs(600)).to_string(), "\
/// actions (1):
///   remove image sha256:a (700 B): unused for the longest, 500 B left to free
/// kept (1):
///   enough was freed: 700 B (1): image sha256:b
/// ");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FreeSpace {
    pub thresholds: Thresholds,
    /// The version and its feature gates.
    pub semantics: Semantics,
    pub arithmetic: Arithmetic,
    /// The order among entries with equal sort keys.
    pub order: Order,
    pub task: Task,
}

impl FreeSpace {
    /// Creates a planner whose other fields have their defaults.
    ///
    /// # Errors
    /// The first invalid threshold.
    pub fn new(thresholds: Thresholds, semantics: Semantics) -> Result<Self, InvalidThresholds> {
        let Thresholds {
            high_percent,
            low_percent,
            age_min,
            age_max,
        } = thresholds;
        if !(0..=100).contains(&high_percent) {
            return Err(InvalidThresholds::High {
                percent: high_percent,
            });
        }
        if !(0..=100).contains(&low_percent) {
            return Err(InvalidThresholds::Low { percent: low_percent });
        }
        if low_percent > high_percent {
            return Err(InvalidThresholds::Crossed {
                low_percent,
                high_percent,
            });
        }
        for (field, age) in [("imageMinimumGCAge", age_min), ("imageMaximumGCAge", age_max)] {
            if age.is_negative() {
                return Err(InvalidThresholds::NegativeAge { field, age });
            }
        }
        Ok(Self {
            thresholds,
            semantics,
            ..Self::default()
        })
    }

    /// The same planner, which frees this number of bytes independently of the usage. It ignores the
    /// thresholds except for the minimum age.
    #[must_use]
    pub const fn free(self, bytes: i64) -> Self {
        Self {
            task: Task::Free { bytes },
            ..self
        }
    }
}
