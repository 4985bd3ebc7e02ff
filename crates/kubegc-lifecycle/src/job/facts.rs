//! Fixes what is known of jobs, and which releases delete them.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use kubegc_core::{Behavior, KubernetesVersion, ObjectMeta};

use crate::object::{Condition, Reads};

/// Finished jobs are deleted without a feature gate being set.
const TTL_AFTER_FINISHED: Behavior = Behavior::since(21, 0, "TTLAfterFinished became beta");

/// Whether finished jobs are deleted. Starts from upstream's defaults for a release.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether the controller runs. Default: since 1.21.
    ///
    /// Upstream: feature gate `TTLAfterFinished`, alpha and off from 1.12, beta and on from 1.21, always on from 1.23. Off, finished jobs
    /// stay until somebody else deletes them.
    pub enabled: bool,
}

impl Settings {
    /// Upstream's defaults in a release.
    #[must_use]
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            enabled: version.has(TTL_AFTER_FINISHED),
        }
    }
}

impl Default for Settings {
    /// Upstream's defaults in the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}

/// What a plan rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The jobs as they were listed.
    pub jobs: Vec<Job>,
    /// What live reads found. A job whose listed state has expired and that was not read is kept.
    pub reads: Reads<Job>,
}

/// A job, as far as its deletion depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `spec.ttlSecondsAfterFinished`.
    pub ttl: Ttl,
    /// `status.conditions`, in stored order; `None` where nothing is known of them.
    pub conditions: Option<Vec<Condition>>,
}

/// How long a job stays once it has finished.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ttl {
    /// Nobody knows.
    #[default]
    Unknown,
    /// The field is absent: the job is never deleted for its age.
    Unset,
    /// This many seconds. The API server refuses negative ones; they count as they stand.
    Seconds(i32),
}
