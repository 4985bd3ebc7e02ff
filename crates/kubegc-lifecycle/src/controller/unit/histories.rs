//! Looks at one cron job at a time, with the jobs that it controls.

use kubegc_core::{Planner, StoreError, Timestamp};

use super::{Look, OnFailure};
use crate::{
    controller::{
        Reason, Work,
        index::{Kind, touched},
        table::Key,
        tables::{Change, Tables},
    },
    fields::{self, Fields, Record},
    history::{CronJob, Facts, Job, Limit, Pass, Settings},
    object::{Failure, Object, Resource, Wire},
};

/// Jobs that have not finished are in none: they stay, whatever the limits.
const JOBS: [Kind; 3] = [Kind::JobSucceeded, Kind::JobFailed, Kind::JobUnknown];

pub(in crate::controller) fn concerned(
    _settings: &Settings,
    _tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    match change.resource {
        Resource::CronJobs => keys.push(change.key.clone()),
        Resource::Jobs => keys.extend(JOBS.into_iter().flat_map(|kind| touched(kind, change))),
        _ => {}
    }
}

/// Also what controls jobs and is not known: it may be a cron job that was not listed.
pub(in crate::controller) fn all(_settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    keys.extend(tables.of(Resource::CronJobs).keys());
    for kind in JOBS {
        let entries = tables.names(kind).all();
        let mut controllers: Vec<Key> = entries
            .map(|(namespace, key, _)| (namespace.clone(), key.clone()))
            .collect();
        controllers.dedup();
        keys.extend(controllers);
    }
}

/// # Complexity
/// O(l log n) where no class of jobs is over its limit, `l` being the limits; O(k log n) for `k` finished jobs elsewhere.
pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    _wire: Wire,
) -> Look {
    let record = tables.get(Resource::CronJobs, key);
    if let Some(reason) = tables.any_not_listed(&[Resource::CronJobs, Resource::Jobs]) {
        let jobs = jobs(tables, key).map(|job| Object::new(Resource::Jobs, &job.meta));
        let cron_job = record.map(|record| Object::new(Resource::CronJobs, &record.meta));
        return Look {
            undecided: jobs
                .chain(cron_job)
                .map(|object| (object, reason.clone()))
                .collect(),
            ..Look::default()
        };
    }
    let Some(cron_job) = record.map(cron_job) else {
        return Look::default();
    };
    if is_settled(settings, tables, key, &cron_job) {
        return Look::default();
    }
    let facts = Facts::new(vec![cron_job], jobs(tables, key).map(job).collect());
    let plan = settings.plan(&facts, now);
    let mut look = Look::default();
    look.keep(plan.kept, Reason::History);
    if !plan.actions.is_empty() {
        let pass = Pass::new(settings, plan.actions);
        look.works.push(Work::History(Box::new(pass)));
    }
    look
}

/// A failed deletion is no more than told in the pass itself: what fails is the status of the cron job, and upstream then looks at it again.
pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    const fn failure(_error: &StoreError) -> Failure {
        Failure::Retried
    }
    failure
}

/// Whether a plan would do nothing and leave nothing undecided, as far as counting tells.
fn is_settled(settings: &Settings, tables: &Tables, key: &Key, cron_job: &CronJob) -> bool {
    let is_known = !cron_job.meta.uid.is_empty() && !cron_job.meta.resource_version.is_empty();
    let is_over = |kind, limit| match limit {
        Limit::Unset => false,
        Limit::Unknown => true,
        Limit::Jobs(limit) => {
            usize::try_from(limit).is_ok_and(|limit| tables.names(kind).of(key).nth(limit).is_some())
        }
    };
    is_known
        && !settings.always_writes_status
        && (!settings.template_labels_must_match || cron_job.template_labels.is_some())
        && tables.names(Kind::JobUnknown).of(key).next().is_none()
        && !is_over(Kind::JobSucceeded, cron_job.successful_limit)
        && !is_over(Kind::JobFailed, cron_job.failed_limit)
}

/// The jobs that have finished, or may have.
fn jobs<'a>(tables: &'a Tables, key: &'a Key) -> impl Iterator<Item = &'a Record> {
    let names = JOBS.into_iter().flat_map(move |kind| tables.names(kind).of(key));
    names.filter_map(move |name| tables.of(Resource::Jobs).get(&key.0, name))
}

fn cron_job(record: &Record) -> CronJob {
    let unread = fields::CronJob::default();
    let fields = match &record.fields {
        Fields::CronJob(fields) => fields,
        _ => &unread,
    };
    CronJob {
        meta: record.meta.clone(),
        successful_limit: fields.successful_limit,
        failed_limit: fields.failed_limit,
        template_labels: fields.template_labels.clone(),
    }
}

fn job(record: &Record) -> Job {
    let status = match &record.fields {
        Fields::Job(fields) => fields.status.clone(),
        _ => None,
    };
    Job {
        meta: record.meta.clone(),
        status,
    }
}
