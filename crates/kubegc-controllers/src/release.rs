//! Feature gates that several controllers read.

use kubegc_core::Behavior;

/// The feature gate `PodDisruptionConditions`: alpha and off from 1.25, beta and on from 1.26.
pub(crate) const DISRUPTION_CONDITIONS: Behavior =
    Behavior::since(26, 0, "feature gate PodDisruptionConditions is beta");
/// The feature gate `NodeOutOfServiceVolumeDetach`: alpha and off from 1.24, beta and on from 1.26.
pub(crate) const OUT_OF_SERVICE: Behavior =
    Behavior::since(26, 0, "feature gate NodeOutOfServiceVolumeDetach is beta");
/// The feature gate `PodObservedGenerationTracking`: alpha and off from 1.33, beta and on from 1.34.
pub(crate) const OBSERVED_GENERATION: Behavior =
    Behavior::since(34, 0, "feature gate PodObservedGenerationTracking is beta");
