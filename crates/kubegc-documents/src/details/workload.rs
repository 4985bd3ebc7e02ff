//! Fields of Jobs and CronJobs.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::json::{Soft, Text};
use kubegc_core::record::{CronJob, Job, JobCounts};

use super::{
    SPEC, STATUS, has_annotation,
    node::conditions,
    reading::{Reading, Unreadable},
    spec_of, status_of,
};
use crate::body::{ANNOTATION_JOB_TRACKING, Body, Spec, Status};

pub(super) fn job(reading: &mut Reading<'_>, body: &Body<'_>) -> Job {
    let spec = spec_of(reading, body);
    let status = status_of(reading, body);
    Job {
        ttl_seconds_after_finished: field!(
            reading, spec.ttl_seconds_after_finished => number("ttlSecondsAfterFinished")
        ),
        conditions: reading.field(status, |reading, status| conditions(reading, status, is_end)),
        start_time: field!(reading, status.start_time => time("startTime")),
        parallelism: field!(reading, spec.parallelism => number("parallelism")),
        completions: field!(reading, spec.completions => number("completions")),
        completion_mode: field!(reading, spec.completion_mode => text_or_empty("completionMode")),
        is_suspended: field!(reading, spec.suspend => copy_or_zero("suspend")),
        active_deadline_seconds: reading.field(spec, |reading, spec| {
            let path = SPEC.field("activeDeadlineSeconds");
            Ok(reading.value(&spec.active_deadline_seconds, path)?.copied())
        }),
        backoff_limit: field!(reading, spec.backoff_limit => number("backoffLimit")),
        backoff_limit_per_index: field!(reading, spec.backoff_limit_per_index => number("backoffLimitPerIndex")),
        max_failed_indexes: field!(reading, spec.max_failed_indexes => number("maxFailedIndexes")),
        has_pod_failure_policy: field!(reading, spec.pod_failure_policy => is_there("podFailurePolicy")),
        has_success_policy: field!(reading, spec.success_policy => is_there("successPolicy")),
        pod_replacement_policy: field!(
            reading, spec.pod_replacement_policy => text_or_empty("podReplacementPolicy")
        ),
        managed_by: field!(reading, spec.managed_by => text_or_empty("managedBy")),
        restart_policy: reading.field(spec, restart_policy),
        has_tracking_annotation: has_annotation(reading, body, ANNOTATION_JOB_TRACKING),
        counts: reading.field(status, counts),
    }
}

/// `spec.template.spec.restartPolicy`.
fn restart_policy(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Result<Arc<str>, Unreadable> {
    let path = SPEC.field("template");
    let template = reading.value(&spec.template, path)?;
    let path = path.field("spec");
    let pod = match template {
        Some(template) => reading.value(&template.spec, path)?,
        None => None,
    };
    let absent = Soft::Absent;
    let policy = pod.map_or(&absent, |pod| &pod.restart_policy);
    reading.text_or_empty(policy, path.field("restartPolicy"))
}

fn counts(reading: &mut Reading<'_>, status: &Status<'_>) -> Result<JobCounts, Unreadable> {
    let succeeded = reading.number_or(&status.succeeded, STATUS.field("succeeded"), 0);
    let failed = reading.number_or(&status.failed, STATUS.field("failed"), 0);
    // Hardly two Jobs have the same.
    let mut indexes = |indexes: &Soft<Text<'_>>, field| {
        let indexes = reading.value(indexes, STATUS.field(field))?;
        Ok(Arc::from(indexes.map_or("", Text::as_str)))
    };
    let completed_indexes = indexes(&status.completed_indexes, "completedIndexes");
    let failed_indexes = indexes(&status.failed_indexes, "failedIndexes");
    let path = STATUS.field("uncountedTerminatedPods");
    let mut counts = JobCounts::default();
    if let Some(uncounted) = reading.value(&status.uncounted_terminated_pods, path)? {
        let succeeded = reading.uids(&uncounted.succeeded, path.field("succeeded"));
        let failed = reading.uids(&uncounted.failed, path.field("failed"));
        counts.uncounted_succeeded = succeeded?;
        counts.uncounted_failed = failed?;
    }
    Ok(JobCounts {
        succeeded: succeeded?,
        failed: failed?,
        completed_indexes: completed_indexes?,
        failed_indexes: failed_indexes?,
        ..counts
    })
}

/// Whether a condition of a Job means that it has ended or is ending.
fn is_end(condition: &str) -> bool {
    matches!(
        condition,
        "Complete" | "Failed" | "FailureTarget" | "SuccessCriteriaMet"
    )
}

pub(super) fn cron_job(reading: &mut Reading<'_>, body: &Body<'_>) -> CronJob {
    let spec = spec_of(reading, body);
    // The API server has a default for each limit.
    let mut limit = |value: fn(&Spec<'_>) -> Soft<i64>, field, default| {
        reading.field(spec, |reading, spec| {
            let path = SPEC.field(field);
            let jobs = reading.number(&value(spec), path).map(|jobs| jobs.map(Some));
            reading.always_filled(jobs, path, || Some(default))
        })
    };
    CronJob {
        successful_jobs_history_limit: limit(
            |spec| spec.successful_jobs_history_limit.clone(),
            "successfulJobsHistoryLimit",
            3,
        ),
        failed_jobs_history_limit: limit(
            |spec| spec.failed_jobs_history_limit.clone(),
            "failedJobsHistoryLimit",
            1,
        ),
        template_labels: reading.field(spec, template_labels),
    }
}

type Labels = BTreeMap<Arc<str>, Arc<str>>;

fn template_labels(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Result<Labels, Unreadable> {
    let template_path = SPEC.field("jobTemplate");
    let Some(template) = reading.value(&spec.job_template, template_path)? else {
        return Ok(Labels::new());
    };
    let meta_path = template_path.field("metadata");
    let Some(meta) = reading.value(&template.metadata, meta_path)? else {
        return Ok(Labels::new());
    };
    reading.labels(&meta.labels, meta_path.field("labels"))
}
