//! Looks at one cron job at a time, with the jobs that it controls.

use std::sync::Arc;

use kubegc_core::{Planner, StoreError, Timestamp};

use super::{Look, OnFailure};
use crate::{
    controller::{
        Reason, Work,
        index::{Kind, moved, touched},
        table::{Key, key_of},
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
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    match change.resource {
        Resource::CronJobs => keys.push(change.key.clone()),
        Resource::Jobs => {
            keys.extend(JOBS.into_iter().flat_map(|kind| touched(kind, change)));
            // Of the jobs of which it is not known who controls them, the first by name is named.
            let of_anybody = moved(Kind::JobUnknown, change).into_iter();
            for key in of_anybody.filter(|key| key.1.is_empty()) {
                if tables
                    .names(Kind::JobUnknown)
                    .has_none_before(&key, &change.key.1)
                {
                    let cron_jobs = tables.of(Resource::CronJobs).of_namespace(&key.0);
                    keys.extend(cron_jobs.map(|cron_job| key_of(&cron_job.meta)));
                }
            }
        }
        _ => {}
    }
}

/// Also what controls jobs and is not known: it may be a cron job that was not listed. And nobody, where it was not read who controls a job.
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
    let unlisted = tables.any_not_listed(&[Resource::CronJobs, Resource::Jobs]);
    let unknown = unlisted.or_else(|| match record {
        Some(_) => of_anybody(tables, &key.0),
        None => key.1.is_empty().then_some(Reason::Unread),
    });
    if let Some(reason) = unknown {
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

/// A failed deletion is no more than told in the pass itself. What fails is a read or a write of the cron job, and upstream then looks at it again.
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

/// Why the jobs of a cron job are not all known: one of its namespace was not read, not even who controls it.
fn of_anybody(tables: &Tables, namespace: &Arc<str>) -> Option<Reason> {
    let key = (Arc::clone(namespace), Arc::from(""));
    let job = tables.names(Kind::JobUnknown).of(&key).next()?;
    Some(Reason::NotListed {
        resource: Resource::Jobs.plural(),
        message: format!("who controls {job} was not read").into(),
    })
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
