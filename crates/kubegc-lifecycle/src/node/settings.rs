//! Says how long a new node is left alone, and how often all nodes are looked at.

use std::time::Duration;

use kubegc_core::KubernetesVersion;

/// How nodes are judged. Starts from upstream's defaults; each field may be changed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The age from which a node is judged that has no provider id and is not initialized yet. Default: 1 min.
    ///
    /// Too low, and a node goes that its cloud does not list yet; too high, and one that failed to start stays for longer.
    pub uninitialized_grace: Duration,
    /// The time between two passes. Default: 5 s. No plan depends on it: it is for whoever drives passes or foresees them.
    ///
    /// Too low, and the cloud is asked so often that it refuses; too high, and pods of lost nodes start anew late. Upstream: `--node-monitor-period`.
    pub period: Duration,
}

impl Settings {
    /// Upstream's defaults in a release. They are the same in all that the recordings describe.
    #[must_use]
    pub const fn new(_version: KubernetesVersion) -> Self {
        Self {
            uninitialized_grace: Duration::from_secs(60),
            period: Duration::from_secs(5),
        }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
