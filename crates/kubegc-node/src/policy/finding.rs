//! Findings about valid settings that are probably not intended.

use std::fmt;

use kubegc_core::{Quantity, node_facts::FileSystem};

use super::{Policy, PolicySpec, SwitchReason};
use crate::{
    GoDuration,
    eviction::{Amount, Signal, Threshold},
};

/// A deprecated flag of container collection.
#[expect(clippy::exhaustive_enums, reason = "upstream has these three")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerFlag {
    /// `--minimum-container-ttl-duration`.
    MinimumAge,
    /// `--maximum-dead-containers-per-container`.
    PerUnit,
    /// `--maximum-dead-containers`.
    Node,
}

impl ContainerFlag {
    /// The flag.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MinimumAge => "--minimum-container-ttl-duration",
            Self::PerUnit => "--maximum-dead-containers-per-container",
            Self::Node => "--maximum-dead-containers",
        }
    }
}

/// A valid setting that is probably not intended.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// Eviction starts before image collection does, or at the same usage: images are removed by force, or
    /// pods are evicted first. Upstream's defaults meet.
    EvictionComesFirst {
        /// The eviction threshold.
        threshold: Threshold,
        /// The usage from which images are collected.
        high_percent: i32,
    },
    /// A high threshold of 100 does not disable the loop with a maximum age, and room is still made at full
    /// usage ([N1.9](crate::rules#n1-9)).
    HundredIsNotOff {
        /// The maximum age.
        age: GoDuration,
    },
    /// No image is protected by its age. Only the flag can set that: in a configuration file zero means two
    /// minutes ([N1.20](crate::rules#n1-20)).
    MinimumAgeIsZero,
    /// A deprecated flag has another value than its default.
    DeprecatedFlag {
        /// The flag.
        flag: ContainerFlag,
    },
    /// A threshold of `0%` or `100%` is disabled.
    ThresholdIsOff {
        /// The field.
        field: String,
    },
    /// A threshold on the file system of writable layers is replaced by a copy of another one.
    ThresholdIsDropped {
        /// The threshold.
        threshold: Threshold,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EvictionComesFirst {
                threshold,
                high_percent,
            } => write!(
                f,
                "eviction at {threshold} starts no later than image collection at imageGCHighThresholdPercent {high_percent}"
            ),
            Self::HundredIsNotOff { age } => write!(
                f,
                "imageGCHighThresholdPercent 100 does not turn image collection off: imageMaximumGCAge is {age}"
            ),
            Self::MinimumAgeIsZero => f.write_str(
                "imageMinimumGCAge 0s protects no new image; in a configuration file it would mean 2m0s",
            ),
            Self::DeprecatedFlag { flag } => write!(f, "{} is deprecated", flag.as_str()),
            Self::ThresholdIsOff { field } => write!(f, "{field} is disabled by its value"),
            Self::ThresholdIsDropped { threshold } => write!(
                f,
                "{threshold} is replaced by a copy of the threshold on the file system that holds writable layers"
            ),
        }
    }
}

/// The findings about settings that make a policy.
pub(super) fn of_spec(spec: &PolicySpec, policy: &Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let SwitchReason::MaximumAge { age } = policy.switches().images.reason {
        findings.push(Finding::HundredIsNotOff { age });
    }
    if spec.image_minimum_gc_age == GoDuration::ZERO {
        findings.push(Finding::MinimumAgeIsZero);
    }
    let usual = PolicySpec::default();
    let flags = [
        (
            ContainerFlag::MinimumAge,
            spec.minimum_container_ttl != usual.minimum_container_ttl,
        ),
        (
            ContainerFlag::PerUnit,
            spec.maximum_dead_containers_per_container != usual.maximum_dead_containers_per_container,
        ),
        (
            ContainerFlag::Node,
            // All negative numbers mean no limit.
            spec.maximum_dead_containers >= 0,
        ),
    ];
    let set = flags.into_iter().filter(|(_, is_set)| *is_set);
    findings.extend(set.map(|(flag, _)| Finding::DeprecatedFlag { flag }));
    let off = policy.eviction().off().iter().cloned();
    findings.extend(off.map(|field| Finding::ThresholdIsOff { field }));
    let dropped = policy.eviction().dropped().copied();
    findings.extend(dropped.map(|threshold| Finding::ThresholdIsDropped { threshold }));
    findings
}

/// The hard and soft thresholds on bytes of the image file system that are met before image collection
/// starts, or at the same usage.
///
/// Collection starts at a usage of `high` percent, eviction if less than its value is available: both at the
/// same usage if the value is `100 - high` percent. (Upstream's integers move the former by up to one
/// percent, and the image loop runs every five minutes, eviction every ten seconds.)
pub(super) fn eviction_first(policy: &Policy, image_file_system: Option<&FileSystem>) -> Vec<Finding> {
    let high_percent = policy.image().thresholds().high_percent;
    if high_percent >= 100 {
        return Vec::new();
    }
    let left_percent = 100_u64.saturating_sub(u64::try_from(high_percent).unwrap_or(0));
    let capacity = image_file_system
        .and_then(|disk| disk.capacity_bytes)
        .filter(|bytes| *bytes > 0);
    let comes_first = |threshold: &&Threshold| match threshold.value {
        // In thousandths of a percent, so that parts of a percent count and the error of the share does not.
        Amount::Relative(share) => {
            f64::from(share.share()) * 100_000.0 + 0.5 >= left_percent as f64 * 1_000.0
        }
        Amount::Absolute(value) => capacity.is_some_and(|bytes| {
            let left = u128::from(bytes) * u128::from(left_percent) / 100;
            // At most the capacity, which 64 bits hold.
            value >= Quantity::binary_si(u64::try_from(left).unwrap_or(u64::MAX))
        }),
    };
    policy
        .eviction()
        .configured()
        .iter()
        .filter(|threshold| threshold.signal == Signal::ImageFsAvailable)
        .filter(comes_first)
        .map(|threshold| Finding::EvictionComesFirst {
            threshold: *threshold,
            high_percent,
        })
        .collect()
}
