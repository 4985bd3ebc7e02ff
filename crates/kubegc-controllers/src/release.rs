//! Feature gates that several controllers read, and changes that are also in patch releases.

use kubegc_core::{Behavior, KubernetesVersion};

/// The feature gate `PodDisruptionConditions`: alpha and off from 1.25, beta and on from 1.26.
pub(crate) const DISRUPTION_CONDITIONS: Behavior =
    Behavior::since(26, 0, "feature gate PodDisruptionConditions is beta");
/// The feature gate `NodeOutOfServiceVolumeDetach`: alpha and off from 1.24, beta and on from 1.26.
pub(crate) const OUT_OF_SERVICE: Behavior =
    Behavior::since(26, 0, "feature gate NodeOutOfServiceVolumeDetach is beta");
/// The feature gate `PodObservedGenerationTracking`: alpha and off from 1.33, beta and on from 1.34.
pub(crate) const OBSERVED_GENERATION: Behavior =
    Behavior::since(34, 0, "feature gate PodObservedGenerationTracking is beta");

/// Whether a release has a change that was picked to patch releases. `picks` has one entry for each minor
/// release with a pick, in order, then the first minor release that has the change from its start.
pub(crate) const fn has_change(version: KubernetesVersion, mut picks: &[Behavior]) -> bool {
    while let [pick, later @ ..] = picks {
        if version.has(*pick) && (later.is_empty() || version.minor() == pick.first().minor()) {
            return true;
        }
        picks = later;
    }
    false
}
