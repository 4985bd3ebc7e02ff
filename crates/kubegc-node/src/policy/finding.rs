//! Findings about valid settings that are probably not intended.

use kubegc_core::{Quantity, node_facts::FileSystem};

use super::{Policy, PolicySpec, SwitchReason};
use crate::{
    GoDuration,
    eviction::{Amount, Signal, Threshold},
};

kubegc_core::reasons! {
    /// A valid setting that is probably not intended.
    pub enum Finding {
        /// All unused images are removed, or pods are evicted, before image collection starts. With
        /// upstream's defaults both start at the same usage.
        EvictionComesFirst { threshold: Threshold, high_percent: i32 } =
            "eviction at {threshold} starts no later than image collection at imageGCHighThresholdPercent \
             {high_percent}";
        /// Space is still freed at a usage of 100 percent ([N1.9](crate::rules#n1-9)).
        HighThresholdDoesNotDisable { age: GoDuration } =
            "imageGCHighThresholdPercent 100 does not turn image collection off: imageMaximumGCAge is {age}";
        /// Only the flag can set that ([N1.20](crate::rules#n1-20)).
        MinimumAgeIsZero =
            "imageMinimumGCAge 0s protects no new image; in a configuration file it would mean 2m0s";
        /// The value of a deprecated flag differs from its default.
        DeprecatedFlag {
            /// Without dashes.
            flag: &'static str,
        } = "--{flag} is deprecated";
        /// Its value is `0%` or `100%`.
        ThresholdIsDisabled {
            field: String,
        } = "{field} is disabled by its value";
        /// It is one of `containerfs`.
        ThresholdIsReplaced { threshold: Threshold } =
            "{threshold} is replaced by a copy of the threshold on the file system that contains the writable \
             layers";
    }
}

/// The findings about a valid configuration.
pub(super) fn of_spec(spec: &PolicySpec, policy: &Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let SwitchReason::MaximumAge { age } = policy.image_loop().reason {
        findings.push(Finding::HighThresholdDoesNotDisable { age });
    }
    if spec.image_minimum_gc_age == GoDuration::ZERO {
        findings.push(Finding::MinimumAgeIsZero);
    }
    let counted = PolicySpec {
        // Every negative number means no limit.
        maximum_dead_containers: spec.maximum_dead_containers.max(-1),
        ..spec.clone()
    };
    // Settings without a field are deprecated flags.
    let flags = counted.changed().filter(|setting| setting.field.is_none());
    let flags = flags.filter_map(|setting| setting.flag);
    findings.extend(flags.map(|flag| Finding::DeprecatedFlag { flag }));
    let disabled = policy.eviction.disabled().iter().cloned();
    findings.extend(disabled.map(|field| Finding::ThresholdIsDisabled { field }));
    let replaced = policy.eviction.replaced().copied();
    findings.extend(replaced.map(|threshold| Finding::ThresholdIsReplaced { threshold }));
    findings
}

/// The hard and soft thresholds on `imagefs.available` that are met at a lower usage than the one at which
/// image collection starts, or at the same one.
///
/// Collection starts at a usage of `high` percent. Eviction starts when less than its value is available.
/// Both start at the same usage if the value is `100 - high` percent. Not considered: upstream's integer
/// arithmetic shifts the former by up to one percent, and the loops have different periods.
pub(super) fn eviction_first(policy: &Policy, image_file_system: Option<&FileSystem>) -> Vec<Finding> {
    let high_percent = policy.image.thresholds.high_percent;
    if high_percent >= 100 {
        return Vec::new();
    }
    let available_percent = 100_u64.saturating_sub(u64::try_from(high_percent).unwrap_or(0));
    let capacity = image_file_system
        .and_then(|disk| disk.capacity_bytes)
        .filter(|bytes| *bytes > 0);
    let comes_first = |threshold: &&Threshold| match threshold.value {
        // Compared in thousandths of a percent, which is coarser than the rounding error of the fraction.
        Amount::Relative(percent) => {
            f64::from(percent.as_fraction()) * 100_000.0 + 0.5 >= available_percent as f64 * 1_000.0
        }
        Amount::Absolute(value) => capacity.is_some_and(|bytes| {
            let available = u128::from(bytes) * u128::from(available_percent) / 100;
            // At most the capacity, which is a 64-bit integer.
            value >= Quantity::binary_si(u64::try_from(available).unwrap_or(u64::MAX))
        }),
    };
    policy
        .eviction
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
