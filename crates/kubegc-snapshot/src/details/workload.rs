//! Fields of Jobs, CronJobs and StatefulSets.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::record::{ClaimRetentionPolicy, CronJob, Field, Job, StatefulSet};

use super::{
    SPEC, STATUS,
    node::conditions,
    reading::{Found, Reading, Unreadable},
    spec_of, status_of,
};
use crate::{
    body::{Body, Spec},
    soft::Soft,
};

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
        parallelism: Field::Unread,
        completions: Field::Unread,
        completion_mode: Field::Unread,
        is_suspended: Field::Unread,
        active_deadline_seconds: Field::Unread,
        backoff_limit: Field::Unread,
        has_backoff_limit_per_index: Field::Unread,
        has_pod_failure_policy: Field::Unread,
        has_success_policy: Field::Unread,
        pod_replacement_policy: Field::Unread,
        managed_by: Field::Unread,
        restart_policy: Field::Unread,
        has_tracking_annotation: Field::Unread,
        counts: Field::Unread,
    }
}

/// Whether a condition of a Job says that it has ended or is ending.
fn is_end(condition: &str) -> bool {
    matches!(
        condition,
        "Complete" | "Failed" | "FailureTarget" | "SuccessCriteriaMet"
    )
}

pub(super) fn cron_job(reading: &mut Reading<'_>, body: &Body<'_>) -> CronJob {
    let spec = spec_of(reading, body);
    // The API server has a default for each limit.
    let mut limit = |value: fn(&Spec<'_>) -> Soft<i64>, field| {
        reading.field(spec, |reading, spec| {
            let path = SPEC.field(field);
            let jobs = reading.number(&value(spec), path).map(|jobs| jobs.map(Some));
            reading.always_filled(jobs, path)
        })
    };
    CronJob {
        successful_jobs_history_limit: limit(
            |spec| spec.successful_jobs_history_limit.clone(),
            "successfulJobsHistoryLimit",
        ),
        failed_jobs_history_limit: limit(
            |spec| spec.failed_jobs_history_limit.clone(),
            "failedJobsHistoryLimit",
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
    let path = meta_path.field("labels");
    let Some(pairs) = reading.value(&meta.labels, path)? else {
        return Ok(Labels::new());
    };
    let mut labels = Ok(Labels::new());
    for (key, value) in &pairs.0 {
        let value = reading.text_or_empty(value, path.key(key.as_str()));
        match (&mut labels, value) {
            (Ok(labels), Ok(value)) => {
                labels.insert(reading.texts.share(key.as_str()), value);
            }
            (labels, Err(error)) => *labels = Err(error),
            (Err(Unreadable), Ok(_)) => {}
        }
    }
    labels
}

pub(super) fn stateful_set(reading: &mut Reading<'_>, body: &Body<'_>) -> StatefulSet {
    let spec = spec_of(reading, body);
    StatefulSet {
        replicas: reading.field(spec, |reading, spec| {
            let replicas = reading.number(&spec.replicas, SPEC.field("replicas"))?;
            Ok(replicas.unwrap_or(1))
        }),
        first_ordinal: reading.field(spec, |reading, spec| {
            let path = SPEC.field("ordinals");
            let start = match reading.value(&spec.ordinals, path)? {
                Some(ordinals) => reading.number(&ordinals.start, path.field("start"))?,
                None => None,
            };
            Ok(start.unwrap_or(0))
        }),
        retention_policy: reading.field(spec, retention_policy),
        claim_templates: reading.field(spec, |reading, spec| {
            let path = SPEC.field("volumeClaimTemplates");
            reading.list(&spec.volume_claim_templates, path, |reading, template, path| {
                let path = path.field("metadata");
                let meta = reading.value(&template.metadata, path)?;
                let absent = Soft::Absent;
                let name = meta.map_or(&absent, |meta| &meta.name);
                reading.text_or_empty(name, path.field("name"))
            })
        }),
        revision_history_limit: Field::Unread,
        current_revision: Field::Unread,
        update_revision: Field::Unread,
        observed_generation: Field::Unread,
    }
}

fn retention_policy(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Found<ClaimRetentionPolicy> {
    let path = SPEC.field("persistentVolumeClaimRetentionPolicy");
    let Some(policy) = reading.value(&spec.retention_policy, path)? else {
        return Ok(None);
    };
    let when_deleted = reading.text_or_empty(&policy.when_deleted, path.field("whenDeleted"));
    let when_scaled = reading.text_or_empty(&policy.when_scaled, path.field("whenScaled"));
    Ok(Some(ClaimRetentionPolicy {
        when_deleted: when_deleted?,
        when_scaled: when_scaled?,
    }))
}
