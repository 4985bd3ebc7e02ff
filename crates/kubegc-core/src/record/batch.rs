//! Fields of workloads.

use std::{collections::BTreeMap, sync::Arc};

use super::{Condition, Field};
use crate::Timestamp;

/// Fields of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CronJob {
    /// `spec.successfulJobsHistoryLimit`; `None` where unset.
    pub successful_jobs_history_limit: Field<Option<i32>>,
    /// `spec.failedJobsHistoryLimit`; `None` where unset.
    pub failed_jobs_history_limit: Field<Option<i32>>,
    /// `spec.jobTemplate.metadata.labels`.
    pub template_labels: Field<BTreeMap<Arc<str>, Arc<str>>>,
}

/// Fields of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Job {
    /// `spec.ttlSecondsAfterFinished`; `None` where unset.
    pub ttl_seconds_after_finished: Field<Option<i32>>,
    /// `status.conditions`. Readers may leave out all but those of type `Complete` or `Failed`.
    pub conditions: Field<Vec<Condition>>,
    /// `status.startTime`; `None` where unset.
    pub start_time: Field<Option<Timestamp>>,
}

impl Job {
    /// The condition that says how the Job ended: the first one of type `Complete` or `Failed` that is true. `None` where the conditions
    /// were not read; `Some(None)` while the Job has not finished.
    #[must_use]
    pub fn finished(&self) -> Option<Option<&Condition>> {
        let conditions = self.conditions.known()?;
        let is_end = |condition: &&Condition| {
            condition.is_true() && matches!(&*condition.condition_type, "Complete" | "Failed")
        };
        Some(conditions.iter().find(is_end))
    }
}

/// Fields of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatefulSet {
    /// `spec.replicas`; the API server defaults it to 1.
    pub replicas: Field<i32>,
    /// `spec.ordinals.start`.
    pub first_ordinal: Field<i32>,
    /// `spec.persistentVolumeClaimRetentionPolicy`; `None` where unset.
    pub retention_policy: Field<Option<ClaimRetentionPolicy>>,
    /// The names in `spec.volumeClaimTemplates`, in stored order.
    pub claim_templates: Field<Vec<Arc<str>>>,
}

/// `spec.persistentVolumeClaimRetentionPolicy` of a StatefulSet: `Retain`, `Delete`, or any other text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClaimRetentionPolicy {
    /// `whenDeleted`.
    pub when_deleted: Arc<str>,
    /// `whenScaled`.
    pub when_scaled: Arc<str>,
}
