//! Facts of Jobs and CronJobs.

use std::sync::Arc;

use kubegc_core::{
    json::JsonType,
    record::{CronJob, Job, JobCounts},
};
use serde_json::{Value, json};

use super::{
    facts::{By, Fact, Facts, Filled, In, Object, Plain, Present, Set},
    node::Conditions,
    reading::{At, Reading, Unreadable},
};
use crate::fields::ANNOTATION_JOB_TRACKING;

/// The types of the conditions by which a Job has ended or is ending.
const ENDS: &[&str] = &["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];

facts! {
    Job {
        spec {
            ttl_seconds_after_finished: "ttlSecondsAfterFinished" => Plain,
            parallelism: "parallelism" => Plain,
            completions: "completions" => Plain,
            completion_mode: "completionMode" => Filled,
            is_suspended: "suspend" => Plain,
            active_deadline_seconds: "activeDeadlineSeconds" => Plain,
            backoff_limit: "backoffLimit" => Plain,
            backoff_limit_per_index: "backoffLimitPerIndex" => Plain,
            max_failed_indexes: "maxFailedIndexes" => Plain,
            has_pod_failure_policy: "podFailurePolicy" => Present,
            has_success_policy: "successPolicy" => Present,
            pod_replacement_policy: "podReplacementPolicy" => Filled,
            managed_by: "managedBy" => Filled,
            restart_policy: "template" => In("spec", In("restartPolicy", Filled)),
        }
        status {
            conditions: "conditions" => Conditions(ENDS),
            start_time: "startTime" => Plain,
            counts: "" => Plain,
        }
        metadata {
            has_tracking_annotation: "annotations" => In(ANNOTATION_JOB_TRACKING, Set("")),
        }
    }
    CronJob {
        spec {
            successful_jobs_history_limit: "successfulJobsHistoryLimit" => By(limit(3)),
            failed_jobs_history_limit: "failedJobsHistoryLimit" => By(limit(1)),
            template_labels: "jobTemplate" => In("metadata", In("labels", Plain)),
        }
    }
}

/// A limit for which the API server has this default.
fn limit(default: i32) -> impl Fn(&mut Reading<'_>, At<'_, '_>) -> Result<Option<i32>, Unreadable> {
    move |reading, at| match reading.number(at)? {
        Some(limit) => Ok(Some(limit)),
        None => reading.always_filled(at, Some(default)),
    }
}

/// The fields of the status that count pods.
impl Fact for JobCounts {
    const TYPE: JsonType = JsonType::Map;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        // Hardly two Jobs have the same.
        let indexes = |reading: &mut Reading<'_>, field: &str| -> Result<Arc<str>, Unreadable> {
            let indexes = reading.str(at.field(field))?;
            Ok(indexes.unwrap_or_default().into())
        };
        let uncounted = at.field("uncountedTerminatedPods");
        all!(Self {
            succeeded: Fact::read(reading, at.field("succeeded")),
            failed: Fact::read(reading, at.field("failed")),
            completed_indexes: indexes(reading, "completedIndexes"),
            failed_indexes: indexes(reading, "failedIndexes"),
            uncounted_succeeded: reading
                .map(uncounted)
                .and_then(|_| Fact::read(reading, uncounted.field("succeeded"))),
            uncounted_failed: Fact::read(reading, uncounted.field("failed")),
        })
    }

    fn write(&self) -> Value {
        if *self == Self::default() {
            return Value::Null;
        }
        json!({
            "succeeded": self.succeeded,
            "failed": self.failed,
            "uncountedTerminatedPods": {
                "succeeded": self.uncounted_succeeded.write(),
                "failed": self.uncounted_failed.write(),
            },
            "completedIndexes": self.completed_indexes,
            "failedIndexes": self.failed_indexes,
        })
    }

    fn unread() -> Value {
        json!({ "succeeded": false })
    }
}
