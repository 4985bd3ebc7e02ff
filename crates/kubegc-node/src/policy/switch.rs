//! The condition under which the image loop runs ([N1.6](crate::rules#n1-6) to [N1.10](crate::rules#n1-10)).
//!
//! Disabling image collection disables its loop and nothing else: images are still detected, and a node under
//! pressure still removes them.

use crate::{GoDuration, Semantics, image, semantics::behavior};

kubegc_core::reasons! {
    /// The reason why the image loop is enabled or disabled.
    #[derive(Copy)]
    pub enum SwitchReason {
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

/// Whether the image loop is enabled, and the reason. All other loops always are.
///
/// # Upstream
/// `StartGarbageCollection` in
/// [`kubelet.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/kubelet.go). Up to 1.28 a
/// high threshold of 100 disables the image loop; from 1.29 only together with no maximum age, or its gate
/// off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Switch {
    pub enabled: bool,
    pub reason: SwitchReason,
}

impl Switch {
    pub(super) const fn new(thresholds: &image::Thresholds, semantics: Semantics) -> Self {
        let (percent, age) = (thresholds.high_percent, thresholds.age_max);
        let (enabled, reason) = if percent != 100 {
            (true, SwitchReason::HighThreshold { percent })
        } else if !semantics.version.has(behavior::MAXIMUM_AGE) {
            (false, SwitchReason::HighThresholdIsHundred)
        } else if age.as_nanos() == 0 {
            (false, SwitchReason::NoMaximumAge)
        } else if !semantics.maximum_age {
            (false, SwitchReason::MaximumAgeGateIsOff)
        } else {
            (true, SwitchReason::MaximumAge { age })
        };
        Self { enabled, reason }
    }
}
