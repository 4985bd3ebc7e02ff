//! What is read of jobs, cron jobs and stateful sets.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_lifecycle::{
    fields::{CronJob, Job, StatefulSet},
    history::{Limit, StartTime, Status},
    job::Ttl,
    statefulset::Retention,
};

use super::{
    SPEC, STATUS,
    node::conditions,
    reading::{Path, Reading, Unreadable},
    spec_of, status_of,
};
use crate::{
    body::{Body, Spec},
    item::Text,
    soft::Soft,
};

pub(super) fn job(reading: &mut Reading<'_>, body: &Body<'_>) -> Job {
    let mut fields = Job::default();
    if let Ok(Some(spec)) = spec_of(reading, body) {
        let path = SPEC.field("ttlSecondsAfterFinished");
        fields.ttl = match reading.number(&spec.ttl_seconds_after_finished, path) {
            Ok(Some(seconds)) => Ttl::Seconds(seconds),
            Ok(None) => Ttl::Unset,
            Err(Unreadable) => Ttl::Unknown,
        };
    }
    if let Ok(Some(status)) = status_of(reading, body) {
        let conditions = conditions(reading, status, |kind| matches!(kind, "Complete" | "Failed"));
        let start_time = match reading.time(&status.start_time, STATUS.field("startTime")) {
            Ok(Some(time)) => StartTime::At(time),
            Ok(None) => StartTime::Unset,
            Err(Unreadable) => StartTime::Unknown,
        };
        fields.status = conditions.ok().map(|conditions| Status {
            conditions,
            start_time,
        });
    }
    fields
}

pub(super) fn cron_job(reading: &mut Reading<'_>, body: &Body<'_>) -> CronJob {
    let mut fields = CronJob::default();
    if let Ok(Some(spec)) = spec_of(reading, body) {
        // The API server never leaves a limit out: it has a default for each.
        let mut limit = |value, field| {
            let path = SPEC.field(field);
            match reading.number(value, path) {
                Ok(Some(jobs)) => Limit::Jobs(jobs),
                Ok(None) => {
                    reading.missing(path);
                    Limit::Unknown
                }
                Err(Unreadable) => Limit::Unknown,
            }
        };
        fields.successful_limit = limit(&spec.successful_jobs_history_limit, "successfulJobsHistoryLimit");
        fields.failed_limit = limit(&spec.failed_jobs_history_limit, "failedJobsHistoryLimit");
        fields.template_labels = template_labels(reading, spec).ok();
    }
    fields
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

/// `None` where there is no spec, or its templates are of no use: there is no word for that.
pub(super) fn stateful_set(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<StatefulSet> {
    let spec = spec_of(reading, body).ok()??;
    let replicas = reading.number(&spec.replicas, SPEC.field("replicas"));
    let ordinals_path = SPEC.field("ordinals");
    let first_ordinal = match reading.value(&spec.ordinals, ordinals_path) {
        Ok(Some(ordinals)) => reading.number(&ordinals.start, ordinals_path.field("start")),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    let policy_path = SPEC.field("persistentVolumeClaimRetentionPolicy");
    let (when_deleted, when_scaled) = match reading.value(&spec.retention_policy, policy_path) {
        Ok(Some(policy)) => (
            retention(reading, &policy.when_deleted, policy_path.field("whenDeleted")),
            retention(reading, &policy.when_scaled, policy_path.field("whenScaled")),
        ),
        Ok(None) => (Retention::Retain, Retention::Retain),
        Err(Unreadable) => (Retention::Unknown, Retention::Unknown),
    };
    let path = SPEC.field("volumeClaimTemplates");
    let templates = reading.list(&spec.volume_claim_templates, path, |reading, template, path| {
        let path = path.field("metadata");
        let meta = reading.value(&template.metadata, path)?;
        let absent = Soft::Absent;
        let name = meta.map_or(&absent, |meta| &meta.name);
        reading.text_or_empty(name, path.field("name"))
    });
    Some(StatefulSet {
        replicas: replicas.ok().flatten(),
        first_ordinal: first_ordinal.ok().map(Option::unwrap_or_default),
        when_deleted,
        when_scaled,
        templates: templates.ok()?,
    })
}

/// A half of the policy; unset, it is `Retain`.
fn retention(reading: &mut Reading<'_>, value: &Soft<Text<'_>>, path: Path<'_>) -> Retention {
    match reading.text_unless_empty(value, path) {
        Ok(Some(text)) => Retention::from(&*text),
        Ok(None) => Retention::Retain,
        Err(Unreadable) => Retention::Unknown,
    }
}
