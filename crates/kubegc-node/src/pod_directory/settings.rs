//! Settings of the removal of orphaned pod directories, by release.

use std::time::Duration;

use kubegc_core::{Behavior, KubernetesVersion};

/// The period of upstream's check for orphaned directories: the tick of the kubelet's housekeeping.
pub const PERIOD: Duration = Duration::from_secs(2);

/// Volume directories are removed too, and `volumes` only by rmdir.
const VOLUMES_ARE_REMOVED: Behavior = Behavior::since_about(
    21,
    "kubernetes #95301 and #102576, also in patch releases of 1.18 to 1.20",
);
/// The remains of a subpath can be a file.
const SUBPATH_FILES_ARE_REMOVED: Behavior = Behavior::since_about(30, "kubernetes #123052");

/// The removal of orphaned directories. Starts from upstream's defaults for a release; each field can be
/// changed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether empty remains of volumes are removed. Default: since about 1.21.
    ///
    /// Off, a directory with a volume or a `volume-subpaths` directory is kept until it is removed by hand,
    /// and any other is removed as one tree.
    pub removes_volumes: bool,
    /// Whether the remains of a subpath can be a file, not only a directory. Default: since about 1.30.
    ///
    /// Off, the rmdir of such a file fails, and its pod directory is kept. Without meaning if volumes are not
    /// removed.
    pub removes_subpath_files: bool,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            removes_volumes: version.has(VOLUMES_ARE_REMOVED),
            removes_subpath_files: version.has(SUBPATH_FILES_ARE_REMOVED),
        }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
