//! Errors in a kubelet's configuration, with upstream's texts where upstream reports the error.

use std::fmt;

use kubegc_core::{FieldError, KubernetesVersion};

use crate::{GoDuration, aggregate, container::InvalidAge, image::InvalidThresholds};

/// One error in a kubelet's configuration or flags.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Problem {
    /// The kubelet's validation rejects the configuration ([N1.21](crate::rules#n1-21) to
    /// [N1.27](crate::rules#n1-27)), with the kubelet's text. It rejects a low threshold that is not below
    /// the high one; [`image::FreeSpace`](crate::image::FreeSpace) alone accepts equal ones.
    #[error("invalid configuration: {message}")]
    Configuration {
        /// The setting with its value, and the rule.
        message: String,
    },
    /// A maximum age is set in a version without this field. Upstream rejects the unknown field with another
    /// text.
    #[error("imageMaximumGCAge {age} is set, but Kubernetes {version} has no such field")]
    MaximumAgeIsUnknown {
        age: GoDuration,
        version: KubernetesVersion,
    },
    /// The minimum age of containers is negative ([N1.18](crate::rules#n1-18)). The text is the kubelet's,
    /// which reports it after the validation.
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
