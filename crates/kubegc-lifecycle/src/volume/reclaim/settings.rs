//! Says how volumes are reclaimed in a release.

use std::time::Duration;

use kubegc_core::{Behavior, KubernetesVersion};

/// A volume that is deleted before its claim is still reclaimed, and finalizers keep it until then.
const HONORS_RECLAIM_POLICY: Behavior = Behavior::since(31, 0, "HonorPVReclaimPolicy");

/// How volumes are reclaimed. Starts from upstream's defaults for a release; each field may be changed.
///
/// # Examples
/// ```
/// use kubegc_lifecycle::volume::reclaim::Settings;
/// assert!(Settings::new("1.31".parse()?).honors_reclaim_policy);
/// assert!(!Settings::new("1.30".parse()?).honors_reclaim_policy);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether volumes carry finalizers until what is behind them is gone, and are reclaimed even where they are being deleted
    /// already. Default: since 1.31.
    ///
    /// Off, a volume that is deleted before its claim leaks what is behind it. Upstream: feature gate `HonorPVReclaimPolicy`, also in
    /// 1.23 to 1.30 but off there.
    pub honors_reclaim_policy: bool,
    /// How often a driver goes through all volumes again. Default: 15 s.
    ///
    /// What failed is tried again then, and so is what was left because something was not known. Too low costs calls, too high delays the next attempt. Upstream: `--pvclaimbinder-sync-period`.
    pub resync: Duration,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            honors_reclaim_policy: version.has(HONORS_RECLAIM_POLICY),
            resync: Duration::from_secs(15),
        }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
