//! Fields of CronJobs, Jobs and StatefulSets.

use std::{collections::BTreeMap, sync::Arc};

use super::{Condition, Field};
use crate::{Timestamp, Uid};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CronJob {
    /// `spec.successfulJobsHistoryLimit`; `None` if unset.
    pub successful_jobs_history_limit: Field<Option<i32>>,
    /// `spec.failedJobsHistoryLimit`; `None` if unset.
    pub failed_jobs_history_limit: Field<Option<i32>>,
    /// `spec.jobTemplate.metadata.labels`.
    pub template_labels: Field<BTreeMap<Arc<str>, Arc<str>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Job {
    /// `spec.ttlSecondsAfterFinished`; `None` if unset.
    pub ttl_seconds_after_finished: Field<Option<i32>>,
    /// `status.conditions`. Readers may omit all but those of type `Complete` or `Failed`.
    pub conditions: Field<Vec<Condition>>,
    /// `status.startTime`; `None` if unset.
    pub start_time: Field<Option<Timestamp>>,
    /// `spec.parallelism`; the API server defaults it to 1.
    pub parallelism: Field<Option<i32>>,
    /// `spec.completions`; `None` if unset.
    pub completions: Field<Option<i32>>,
    /// `spec.completionMode`: `NonIndexed` or `Indexed`; empty means `NonIndexed`.
    pub completion_mode: Field<Arc<str>>,
    /// `spec.suspend`.
    pub is_suspended: Field<bool>,
    /// `spec.activeDeadlineSeconds`; `None` if unset.
    pub active_deadline_seconds: Field<Option<i64>>,
    /// `spec.backoffLimit`; the API server defaults it to 6.
    pub backoff_limit: Field<Option<i32>>,
    /// `spec.backoffLimitPerIndex`; `None` if unset.
    pub backoff_limit_per_index: Field<Option<i32>>,
    /// `spec.maxFailedIndexes`; `None` if unset.
    pub max_failed_indexes: Field<Option<i32>>,
    /// Whether `spec.podFailurePolicy` is set.
    pub has_pod_failure_policy: Field<bool>,
    /// Whether `spec.successPolicy` is set.
    pub has_success_policy: Field<bool>,
    /// `spec.podReplacementPolicy`: `TerminatingOrFailed` or `Failed`; empty if unset.
    pub pod_replacement_policy: Field<Arc<str>>,
    /// `spec.managedBy`; empty if unset.
    pub managed_by: Field<Arc<str>>,
    /// `spec.template.spec.restartPolicy`: `OnFailure` or `Never`.
    pub restart_policy: Field<Arc<str>>,
    /// Whether the annotation `batch.kubernetes.io/job-tracking` is set, with any value.
    pub has_tracking_annotation: Field<bool>,
    /// The finished pods that the status counts.
    pub counts: Field<JobCounts>,
}

/// The finished pods that `status` of a Job counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct JobCounts {
    pub succeeded: i32,
    pub failed: i32,
    /// `uncountedTerminatedPods.succeeded`: pods that are counted after the tracking finalizer is removed
    /// from them.
    pub uncounted_succeeded: Vec<Uid>,
    /// `uncountedTerminatedPods.failed`.
    pub uncounted_failed: Vec<Uid>,
    /// `completedIndexes`, such as `1,3-5`.
    pub completed_indexes: Arc<str>,
    /// `failedIndexes`, of Jobs with `spec.backoffLimitPerIndex`.
    pub failed_indexes: Arc<str>,
}

impl Job {
    /// The condition with the outcome of the Job: the first one of type `Complete` or `Failed` that is true.
    /// `None` if the conditions were not read; `Some(None)` while the Job has not finished.
    pub fn finished(&self) -> Option<Option<&Condition>> {
        let conditions = self.conditions.known()?;
        let is_end = |condition: &&Condition| {
            condition.is_true() && matches!(&*condition.condition_type, "Complete" | "Failed")
        };
        Some(conditions.iter().find(is_end))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatefulSet {
    /// `spec.replicas`; the API server defaults it to 1.
    pub replicas: Field<i32>,
    /// `spec.ordinals.start`.
    pub first_ordinal: Field<i32>,
    /// `spec.persistentVolumeClaimRetentionPolicy`; `None` if unset.
    pub retention_policy: Field<Option<ClaimRetentionPolicy>>,
    /// The names in `spec.volumeClaimTemplates`, in stored order.
    pub claim_templates: Field<Vec<Arc<str>>>,
    /// `spec.revisionHistoryLimit`; the API server defaults it to 10.
    pub revision_history_limit: Field<Option<i32>>,
    /// `status.currentRevision`; empty if unset.
    pub current_revision: Field<Arc<str>>,
    /// `status.updateRevision`; empty if unset.
    pub update_revision: Field<Arc<str>>,
    /// `status.observedGeneration`.
    pub observed_generation: Field<i64>,
}

/// `spec.persistentVolumeClaimRetentionPolicy` of a StatefulSet: `Retain`, `Delete`, or any other string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClaimRetentionPolicy {
    pub when_deleted: Arc<str>,
    pub when_scaled: Arc<str>,
}
