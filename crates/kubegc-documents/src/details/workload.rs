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
        ttl_seconds_after_finished: reading.field(spec, |reading, spec| {
            reading.number(
                &spec.ttl_seconds_after_finished,
                SPEC.field("ttlSecondsAfterFinished"),
            )
        }),
        conditions: reading.field(status, |reading, status| conditions(reading, status, is_end)),
        start_time: reading.field(status, |reading, status| {
            reading.time(&status.start_time, STATUS.field("startTime"))
        }),
        parallelism: reading.field(spec, |reading, spec| {
            reading.number(&spec.parallelism, SPEC.field("parallelism"))
        }),
        completions: reading.field(spec, |reading, spec| {
            reading.number(&spec.completions, SPEC.field("completions"))
        }),
        completion_mode: reading.field(spec, |reading, spec| {
            reading.text_or_empty(&spec.completion_mode, SPEC.field("completionMode"))
        }),
        is_suspended: reading.field(spec, |reading, spec| {
            reading.copy_or_zero(&spec.suspend, SPEC.field("suspend"))
        }),
        active_deadline_seconds: reading.field(spec, |reading, spec| {
            let path = SPEC.field("activeDeadlineSeconds");
            Ok(reading.value(&spec.active_deadline_seconds, path)?.copied())
        }),
        backoff_limit: reading.field(spec, |reading, spec| {
            reading.number(&spec.backoff_limit, SPEC.field("backoffLimit"))
        }),
        has_backoff_limit_per_index: reading.field(spec, |reading, spec| {
            reading.is_there(&spec.backoff_limit_per_index, SPEC.field("backoffLimitPerIndex"))
        }),
        has_pod_failure_policy: reading.field(spec, |reading, spec| {
            reading.is_there(&spec.pod_failure_policy, SPEC.field("podFailurePolicy"))
        }),
        has_success_policy: reading.field(spec, |reading, spec| {
            reading.is_there(&spec.success_policy, SPEC.field("successPolicy"))
        }),
        pod_replacement_policy: reading.field(spec, |reading, spec| {
            reading.text_or_empty(&spec.pod_replacement_policy, SPEC.field("podReplacementPolicy"))
        }),
        managed_by: reading.field(spec, |reading, spec| {
            reading.text_or_empty(&spec.managed_by, SPEC.field("managedBy"))
        }),
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
    let indexes = STATUS.field("completedIndexes");
    let completed_indexes = match reading.value(&status.completed_indexes, indexes) {
        // Hardly two Jobs have the same.
        Ok(indexes) => Ok(Arc::from(indexes.map_or("", Text::as_str))),
        Err(error) => Err(error),
    };
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
