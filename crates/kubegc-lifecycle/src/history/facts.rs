//! Fixes what is known of cron jobs and jobs.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ObjectMeta, OwnerReference, StoreError, Timestamp};

use super::Class;
use crate::object::Condition;

/// How many successful jobs of a cron job stay where it does not say.
pub const SUCCESSFUL_LIMIT: i32 = 3;
/// How many failed jobs of a cron job stay where it does not say.
pub const FAILED_LIMIT: i32 = 1;

/// What a plan rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The cron jobs. Where they could not be listed, nothing is planned.
    pub cron_jobs: Result<Vec<CronJob>, StoreError>,
    /// All jobs of the namespaces of these cron jobs. Where they could not be listed, nothing is planned.
    pub jobs: Result<Vec<Job>, StoreError>,
}

impl Facts {
    /// Complete lists.
    #[must_use]
    pub const fn new(cron_jobs: Vec<CronJob>, jobs: Vec<Job>) -> Self {
        Self {
            cron_jobs: Ok(cron_jobs),
            jobs: Ok(jobs),
        }
    }
}

/// A cron job, as far as its history depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CronJob {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `spec.successfulJobsHistoryLimit`.
    pub successful_limit: Limit,
    /// `spec.failedJobsHistoryLimit`.
    pub failed_limit: Limit,
    /// The labels in `spec.jobTemplate.metadata`; `None` where they are not known. Only old releases look at them.
    pub template_labels: Option<BTreeMap<Arc<str>, Arc<str>>>,
}

impl CronJob {
    /// A cron job with the limits that the API server sets where there are none, and without labels in its template.
    #[must_use]
    pub const fn new(meta: ObjectMeta) -> Self {
        Self {
            meta,
            successful_limit: Limit::Jobs(SUCCESSFUL_LIMIT),
            failed_limit: Limit::Jobs(FAILED_LIMIT),
            template_labels: Some(BTreeMap::new()),
        }
    }

    /// The limit for a class of jobs.
    #[must_use]
    pub const fn limit(&self, class: Class) -> Limit {
        match class {
            Class::Successful => self.successful_limit,
            Class::Failed => self.failed_limit,
        }
    }
}

/// How many finished jobs of a class may stay.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Not known.
    #[default]
    Unknown,
    /// Not set, which only happens where the API server's defaults were bypassed: all of them.
    Unset,
    /// So many; zero: none.
    Jobs(i32),
}

/// A job, as far as the history of its cron job depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Metadata.
    pub meta: ObjectMeta,
    /// The status; `None` where it is not known.
    pub status: Option<Status>,
}

impl Job {
    /// The reference to the job's controller: the first that says it is one.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        let references = &self.meta.owner_references;
        references
            .iter()
            .find(|reference| reference.controller == Some(true))
    }
}

/// What matters of a job's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status {
    /// `status.conditions`, in stored order.
    pub conditions: Vec<Condition>,
    /// `status.startTime`.
    pub start_time: StartTime,
}

/// When a job started.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StartTime {
    /// Not known. While too many jobs of a class are there, none of the class goes then: nobody can say which are the oldest.
    #[default]
    Unknown,
    /// Not set: the job has not started.
    Unset,
    /// Then.
    At(Timestamp),
}

impl Status {
    /// How the job ended, as its first true condition of an end says; `None` where it has not (L3.3).
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        let ends = self.conditions.iter().filter(|condition| condition.is_true());
        let mut classes = ends.filter_map(|condition| match &*condition.kind {
            "Complete" => Some(Class::Successful),
            "Failed" => Some(Class::Failed),
            _ => None,
        });
        classes.next()
    }
}
