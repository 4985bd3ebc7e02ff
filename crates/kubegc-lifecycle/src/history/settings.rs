//! Says which jobs count as those of a cron job, and when its status is written.

use kubegc_core::{Behavior, KubernetesVersion};

/// Jobs count whatever their labels are.
const LABELS_DO_NOT_MATTER: Behavior =
    Behavior::since_about(24, "kubernetes #107997, also in patch releases of 1.21 to 1.23");
/// The status is written only after a deletion.
const STATUS_IS_SPARED: Behavior = Behavior::since_about(22, "after 1.20");

/// How histories are pruned. Starts from upstream's defaults for a release; each field may be changed. The limits themselves are each cron job's own.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether only jobs count that have the labels of the cron job's present template. Default: up to about 1.23.
    ///
    /// On, jobs from before a change of the template's labels stay forever.
    pub template_labels_must_match: bool,
    /// Whether the status of a cron job with a limit is written even where no job is or could be deleted. Default: up to about 1.21.
    ///
    /// On, there are writes that change nothing: one for each cron job that has a limit, at every look.
    pub always_writes_status: bool,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            template_labels_must_match: !version.has(LABELS_DO_NOT_MATTER),
            always_writes_status: !version.has(STATUS_IS_SPARED),
        }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}
