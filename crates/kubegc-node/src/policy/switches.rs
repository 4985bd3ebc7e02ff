//! The loops that are enabled, and the reasons ([N1.6](crate::rules#n1-6) to [N1.10](crate::rules#n1-10)).
//!
//! Disabling image collection disables its loop and nothing else: images are still detected, and a node under
//! pressure still removes them.

use crate::{GoDuration, Semantics, image, schedule::Loop, semantics::behavior};

kubegc_core::reasons! {
    /// The reason why a loop is enabled or disabled.
    #[derive(Copy)]
    pub enum SwitchReason {
        CannotBeDisabled = "it cannot be disabled";
        HighThreshold { percent: i32 } = "imageGCHighThresholdPercent is {percent}, below 100";
        /// This version has no maximum age.
        HighThresholdIsHundred = "imageGCHighThresholdPercent is 100";
        NoMaximumAge = "imageGCHighThresholdPercent is 100 and imageMaximumGCAge is not set";
        MaximumAgeGateIsOff =
            "imageGCHighThresholdPercent is 100 and the feature gate ImageMaximumGCAge is off";
        MaximumAge { age: GoDuration } =
            "imageGCHighThresholdPercent is 100, but imageMaximumGCAge is {age}; space is still freed at a usage \
             of 100 %";
    }
}

/// Whether a loop is enabled, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Switch {
    pub enabled: bool,
    pub reason: SwitchReason,
}

impl Switch {
    const ALWAYS: Self = Self {
        enabled: true,
        reason: SwitchReason::CannotBeDisabled,
    };
}

/// The garbage collection loops of a node, each enabled or disabled.
///
/// # Upstream
/// `StartGarbageCollection` in
/// [`kubelet.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kubelet.go). Up to 1.28 a
/// high threshold of 100 disables the image loop; from 1.29 only together with no maximum age, or its gate
/// off.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Switches {
    /// The loop that removes dead containers, sandboxes and logs.
    pub containers: Switch,
    /// The loop that removes images.
    pub images: Switch,
    /// The loop that detects images and their use.
    pub detection: Switch,
    /// The removal of containers and images under node pressure.
    pub forced: Switch,
}

impl Switches {
    /// Determines the enabled loops for these thresholds.
    pub const fn new(thresholds: &image::Thresholds, semantics: Semantics) -> Self {
        Self {
            containers: Switch::ALWAYS,
            images: images(thresholds, semantics),
            detection: Switch::ALWAYS,
            forced: Switch::ALWAYS,
        }
    }

    /// The enabled garbage collection loops, for a [`Schedule`](crate::schedule::Schedule).
    /// [`Loop::Eviction`] and [`Loop::ImageList`] are not included.
    pub fn loops(&self) -> Vec<Loop> {
        [
            (self.containers, Loop::Containers),
            (self.images, Loop::Images),
            (self.detection, Loop::Detection),
        ]
        .into_iter()
        .filter(|(switch, _)| switch.enabled)
        .map(|(_, which)| which)
        .collect()
    }
}

const fn images(thresholds: &image::Thresholds, semantics: Semantics) -> Switch {
    let (enabled, reason) = if thresholds.high_percent != 100 {
        (
            true,
            SwitchReason::HighThreshold {
                percent: thresholds.high_percent,
            },
        )
    } else if !semantics.version.has(behavior::MAXIMUM_AGE) {
        (false, SwitchReason::HighThresholdIsHundred)
    } else if thresholds.age_max.as_nanos() == 0 {
        (false, SwitchReason::NoMaximumAge)
    } else if !semantics.maximum_age {
        (false, SwitchReason::MaximumAgeGateIsOff)
    } else {
        (
            true,
            SwitchReason::MaximumAge {
                age: thresholds.age_max,
            },
        )
    };
    Switch { enabled, reason }
}
