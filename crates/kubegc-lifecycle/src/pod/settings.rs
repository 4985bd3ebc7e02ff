//! Says which pods go, and how they are told.

use std::time::Duration;

use kubegc_core::{Behavior, KubernetesVersion};

/// Evicted pods go before other terminated ones.
const EVICTED_GO_FIRST: Behavior = Behavior::since_about(27, "kubernetes #116167");
/// Pods on nodes that are out of service go.
const OUT_OF_SERVICE: Behavior = Behavior::since(26, 0, "NodeOutOfServiceVolumeDetach, beta");
/// Pods are marked as failed before they are deleted.
const PODS_ARE_MARKED: Behavior = Behavior::since(26, 0, "PodDisruptionConditions, beta");

/// The threshold that stands where none is configured.
const THRESHOLD: i32 = 12_500;

/// Which pods go. Starts from upstream's defaults for a release; each field may be changed.
///
/// # Examples
/// ```
/// use kubegc_lifecycle::pod::Settings;
/// assert!(Settings::new("1.26".parse()?).marks_failed);
/// assert!(!Settings::new("1.25".parse()?).marks_failed);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// How many terminated pods may stay, all namespaces together; zero or less: all of them. Default: 12500.
    ///
    /// Too low, and the logs and exit codes of finished jobs go early; too high, and they fill the API server's store. Upstream:
    /// `--terminated-pod-gc-threshold`.
    pub terminated_threshold: i32,
    /// How long a node must have been missing before a live read may prove that it is gone; zero: the same pass. Default: 40 s.
    ///
    /// Too short, and the pods of a node that is created anew under its name go; too long, and orphans count as running meanwhile.
    pub quarantine: Duration,
    /// The time between two passes. Default: 20 s.
    ///
    /// Only [`next_at`](kubegc_core::Plan::next_at) depends on it: a node that left the quarantine without proof is put there again in the next pass.
    pub period: Duration,
    /// Whether evicted pods go before other terminated ones. Default: since about 1.27.
    pub evicted_go_first: bool,
    /// Whether terminating pods on nodes that are out of service go. Default: since 1.26.
    ///
    /// Off, such a pod stays until its node comes back or is removed. Upstream: feature gate `NodeOutOfServiceVolumeDetach`, off in 1.24 and 1.25.
    pub looks_at_out_of_service: bool,
    /// Whether pods without a final phase are marked as failed before they are deleted. Default: since 1.26.
    ///
    /// Off, whoever counts a job's pods may never learn how such a pod ended. Upstream: feature gates `PodDisruptionConditions` (off in 1.25) and, since
    /// 1.28, `JobPodReplacementPolicy`; always since 1.31.
    pub marks_failed: bool,
    /// Whether the mark of an orphan comes with the condition `DisruptionTarget`. Default: since 1.26. Means nothing unless
    /// [`marks_failed`](Self::marks_failed).
    ///
    /// Upstream: feature gate `PodDisruptionConditions`.
    pub tells_disruption: bool,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            terminated_threshold: THRESHOLD,
            quarantine: Duration::from_secs(40),
            period: Duration::from_secs(20),
            evicted_go_first: version.has(EVICTED_GO_FIRST),
            looks_at_out_of_service: version.has(OUT_OF_SERVICE),
            marks_failed: version.has(PODS_ARE_MARKED),
            tells_disruption: version.has(PODS_ARE_MARKED),
        }
    }

    /// The threshold that a configuration file asks for: zero stands for the default there, while the flag's zero switches the sub-pass off.
    #[must_use]
    pub const fn threshold_of_file(configured: i32) -> i32 {
        if configured == 0 { THRESHOLD } else { configured }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
