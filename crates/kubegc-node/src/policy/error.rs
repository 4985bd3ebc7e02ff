//! What is wrong with a node's settings, in upstream's words where upstream has any.

use std::fmt;

use kubegc_core::{FieldError, KubernetesVersion};

use crate::{GoDuration, aggregate, container::InvalidAge, image::InvalidThresholds};

/// One thing that is wrong with a node's settings.
///
/// The texts that begin with `invalid configuration: ` are those of the kubelet's validation, as is that of
/// [`MinimumContainerAge`](Self::MinimumContainerAge), with which the kubelet fails a step later.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Problem {
    /// The high threshold is no percentage.
    #[error(
        "invalid configuration: imageGCHighThresholdPercent (--image-gc-high-threshold) {percent} must be between 0 and 100, inclusive"
    )]
    HighThreshold {
        /// What was asked for.
        percent: i32,
    },
    /// The low threshold is no percentage.
    #[error(
        "invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) {percent} must be between 0 and 100, inclusive"
    )]
    LowThreshold {
        /// What was asked for.
        percent: i32,
    },
    /// The low threshold is not below the high one. [`image::Policy`](crate::image::Policy) alone takes equal ones.
    #[error(
        "invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) {low_percent} must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) {high_percent}"
    )]
    ThresholdsCrossed {
        /// The low threshold.
        low_percent: i32,
        /// The high threshold.
        high_percent: i32,
    },
    /// A maximum age is set and its gate is off.
    #[error(
        "invalid configuration: ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge"
    )]
    MaximumAgeGateIsOff,
    /// A maximum age is set in a version that knows none. Upstream refuses the unknown field; the text is ours.
    #[error("imageMaximumGCAge {age} is set, but Kubernetes {version} knows no such setting")]
    MaximumAgeIsUnknown {
        /// What was asked for.
        age: GoDuration,
        /// The version.
        version: KubernetesVersion,
    },
    /// The minimum age lies below zero.
    #[error("invalid configuration: imageMinimumGCAge {age} must not be negative")]
    MinimumAge {
        /// What was asked for.
        age: GoDuration,
    },
    /// The maximum age lies below zero.
    #[error("invalid configuration: imageMaximumGCAge {age} must not be negative")]
    MaximumAge {
        /// What was asked for.
        age: GoDuration,
    },
    /// The maximum age does not lie above the minimum age.
    #[error(
        "invalid configuration: imageMaximumGCAge {age_max} must be greater than imageMinimumGCAge {age_min}"
    )]
    AgesCrossed {
        /// The maximum age.
        age_max: GoDuration,
        /// The minimum age.
        age_min: GoDuration,
    },
    /// The minimum age of containers lies below zero.
    #[error(transparent)]
    MinimumContainerAge(InvalidAge),
    /// The image policy refuses what the version's validation lets pass: a minimum age below zero, up to 1.28.
    #[error(transparent)]
    Image(InvalidThresholds),
    /// An eviction threshold, grace period or minimum reclaim makes no sense. The text is ours.
    #[error(transparent)]
    Eviction(FieldError),
}

/// All that is wrong with a node's settings.
///
/// Its text is that of an aggregate: one message alone, several as `[a, b]`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InvalidPolicy {
    /// The problems: those of the configuration, of the containers' minimum age, of eviction.
    pub problems: Vec<Problem>,
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&aggregate(self.problems.iter().map(Problem::to_string)).unwrap_or_default())
    }
}

impl std::error::Error for InvalidPolicy {}
