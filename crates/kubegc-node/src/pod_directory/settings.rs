//! Says what a release does with what is left of the volumes of an orphaned pod.

use std::time::Duration;

use kubegc_core::{Behavior, KubernetesVersion};

/// How often upstream looks for orphaned directories: the tick of the kubelet's housekeeping.
pub const PERIOD: Duration = Duration::from_secs(2);

/// Volume directories are removed too, and `volumes` only by rmdir.
const VOLUMES_ARE_REMOVED: Behavior = Behavior::since_about(
    21,
    "kubernetes #95301 and #102576, also in patch releases of 1.18 to 1.20",
);
/// What is left of a subpath may be a file.
const SUBPATH_FILES_ARE_REMOVED: Behavior = Behavior::since_about(30, "kubernetes #123052");

/// How orphaned directories are removed. Starts from upstream's defaults for a release; each field may be changed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether what is left of volumes is removed where it is empty. Default: since about 1.21.
    ///
    /// Off, a directory with a volume or a `volume-subpaths` directory stays until somebody clears it by hand, and any other goes as one tree.
    pub removes_volumes: bool,
    /// Whether what is left of a subpath may be a file, not only a directory. Default: since about 1.30.
    ///
    /// Off, the rmdir of such a file fails, and its pod directory stays. Means nothing where volumes are not removed.
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
