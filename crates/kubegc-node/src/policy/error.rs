//! Errors in a kubelet's configuration, with upstream's texts where upstream reports the error.

use std::fmt;

use kubegc_core::{FieldError, KubernetesVersion};

use crate::{GoDuration, aggregate, container::InvalidAge, image::InvalidThresholds};

/// One error in a kubelet's configuration or flags.
///
/// The texts that start with `invalid configuration: ` are those of the kubelet's validation. The text of
/// [`MinimumContainerAge`](Self::MinimumContainerAge) is also the kubelet's, which reports it after the
/// validation.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Problem {
    /// The high threshold is not a percentage ([N1.21](crate::rules#n1-21)).
    #[error(
        "invalid configuration: imageGCHighThresholdPercent (--image-gc-high-threshold) {percent} must be between 0 and 100, inclusive"
    )]
    HighThreshold {
        /// The requested value.
        percent: i32,
    },
    /// The low threshold is not a percentage ([N1.22](crate::rules#n1-22)).
    #[error(
        "invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) {percent} must be between 0 and 100, inclusive"
    )]
    LowThreshold {
        /// The requested value.
        percent: i32,
    },
    /// The low threshold is not below the high one ([N1.23](crate::rules#n1-23)).
    /// [`image::FreeSpace`](crate::image::FreeSpace) alone accepts equal ones.
    #[error(
        "invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) {low_percent} must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) {high_percent}"
    )]
    ThresholdsCrossed {
        /// The low threshold.
        low_percent: i32,
        /// The high threshold.
        high_percent: i32,
    },
    /// A maximum age is set and its gate is off ([N1.24](crate::rules#n1-24)).
    #[error(
        "invalid configuration: ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge"
    )]
    MaximumAgeGateIsOff,
    /// A maximum age is set in a version without this field. Upstream rejects the unknown field with another
    /// text.
    #[error("imageMaximumGCAge {age} is set, but Kubernetes {version} has no such field")]
    MaximumAgeIsUnknown {
        /// The requested value.
        age: GoDuration,
        version: KubernetesVersion,
    },
    /// The minimum age is negative ([N1.25](crate::rules#n1-25)).
    #[error("invalid configuration: imageMinimumGCAge {age} must not be negative")]
    MinimumAge {
        /// The requested value.
        age: GoDuration,
    },
    /// The maximum age is negative ([N1.26](crate::rules#n1-26)).
    #[error("invalid configuration: imageMaximumGCAge {age} must not be negative")]
    MaximumAge {
        /// The requested value.
        age: GoDuration,
    },
    /// The maximum age is not above the minimum age ([N1.27](crate::rules#n1-27)).
    #[error(
        "invalid configuration: imageMaximumGCAge {age_max} must be greater than imageMinimumGCAge {age_min}"
    )]
    AgesCrossed {
        /// The maximum age.
        age_max: GoDuration,
        /// The minimum age.
        age_min: GoDuration,
    },
    /// The minimum age of containers is negative ([N1.18](crate::rules#n1-18)).
    #[error(transparent)]
    MinimumContainerAge(InvalidAge),
    /// The image policy rejects a value that the kubelet's validation accepts: a negative minimum age, up to
    /// 1.28.
    #[error(transparent)]
    Image(InvalidThresholds),
    /// An eviction threshold, grace period or minimum reclaim is invalid. The text differs from upstream's.
    #[error(transparent)]
    Eviction(FieldError),
}

/// All errors in a kubelet's configuration and flags.
///
/// `Display` writes one message as it is, and several as `[a, b]`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InvalidPolicy {
    /// The errors, in this order: configuration, minimum age of containers, eviction.
    pub problems: Vec<Problem>,
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&aggregate(self.problems.iter().map(Problem::to_string)).unwrap_or_default())
    }
}

impl std::error::Error for InvalidPolicy {}
