//! One look at all cron jobs and their jobs. Where too little was read of some jobs, more of the others may be too many.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{Kept, Plan, PlanOf, Planner, StoreError, Timestamp, Uid};

use super::{Action, Class, CronJob, Facts, Job, Limit, Reason, Settings, StartTime, Summary};
use crate::object::{Object, Resource, by_identity, expected};

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans for all cron jobs, one after the other: the deletion of successful jobs, then of failed ones, then the status. `next_at` is always `None`.
    ///
    /// To carry the plan out as upstream does, drive a [`Pass`](super::Pass): a status is to be written only for the jobs that were deleted.
    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let (cron_jobs, jobs) = match (&facts.cron_jobs, &facts.jobs) {
            (Ok(cron_jobs), Ok(jobs)) => (cron_jobs, jobs),
            (Err(error), _) | (_, Err(error)) => return not_listed(facts, error),
        };
        let mut plan = Plan::default();
        let cron_jobs = by_identity(Resource::CronJobs, cron_jobs, |cron_job| &cron_job.meta);
        let mut histories = by_name(&cron_jobs);
        for (object, job) in by_identity(Resource::Jobs, jobs, |job| &job.meta) {
            let found = match job {
                Some(job) => self.find(job, &object, &mut histories),
                None => Err(listed_twice(&object, &mut histories)),
            };
            match found {
                Ok((history, finished)) => history.push((finished, object)),
                Err(reason) => plan.kept.push(Kept { object, reason }),
            }
        }
        for (object, cron_job) in cron_jobs {
            let key = (Arc::clone(&object.namespace), Arc::clone(&object.name));
            match (cron_job, histories.remove(&key)) {
                (Some(cron_job), Some(Ok(history))) => {
                    self.prune(object, cron_job, history, &mut plan);
                }
                (Some(cron_job), Some(Err(Reason::CronJobUnknown))) => {
                    let reason = unchecked(cron_job).unwrap_or(Reason::ListedTwice);
                    plan.kept.push(Kept { object, reason });
                }
                _ => plan.kept.push(Kept {
                    object,
                    reason: Reason::ListedTwice,
                }),
            }
        }
        plan
    }
}

/// Without both lists nothing is done.
fn not_listed(facts: &Facts, error: &StoreError) -> PlanOf<Settings> {
    let cron_jobs = facts.cron_jobs.as_deref().unwrap_or_default();
    let jobs = facts.jobs.as_deref().unwrap_or_default();
    let cron_jobs = by_identity(Resource::CronJobs, cron_jobs, |cron_job| &cron_job.meta);
    let jobs = by_identity(Resource::Jobs, jobs, |job| &job.meta);
    let kept = cron_jobs.into_keys().chain(jobs.into_keys()).map(|object| Kept {
        object,
        reason: Reason::NotListed,
    });
    Plan {
        kept: kept.collect(),
        summary: Summary {
            deleted: 0,
            error: Some(error.clone()),
        },
        ..Plan::default()
    }
}

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

/// A finished job.
struct Finished<'a> {
    class: Class,
    start_time: StartTime,
    job: &'a Job,
}

type Line<'a> = Vec<(Finished<'a>, Object)>;

/// The finished jobs of one cron job.
struct History<'a> {
    cron_job: &'a CronJob,
    finished: Line<'a>,
    /// How many more there may be of each class, of whatever age.
    unread: [usize; 2],
}

impl History<'_> {
    /// There is one more, of this class or of any.
    fn add_unread(&mut self, class: Option<Class>) {
        for of in [Class::Successful, Class::Failed] {
            if class.is_none_or(|class| class == of) {
                let unread = &mut self.unread[of as usize];
                *unread = unread.saturating_add(1);
            }
        }
    }
}

/// The histories by the names of their cron jobs, or why those of a name stay as they are.
type Histories<'a> = BTreeMap<Key, Result<History<'a>, Reason>>;

/// The histories, still empty.
fn by_name<'a>(cron_jobs: &BTreeMap<Object, Option<&'a CronJob>>) -> Histories<'a> {
    let mut all = Histories::new();
    for (object, cron_job) in cron_jobs {
        let key = (Arc::clone(&object.namespace), Arc::clone(&object.name));
        let history = match *cron_job {
            None => Err(Reason::CronJobListedTwice),
            Some(cron_job) if unchecked(cron_job).is_some() => Err(Reason::CronJobUnknown),
            Some(cron_job) => Ok(History {
                cron_job,
                finished: Vec::new(),
                unread: [0; 2],
            }),
        };
        all.entry(key)
            .and_modify(|seen| *seen = Err(Reason::CronJobListedTwice))
            .or_insert(history);
    }
    all
}

/// A job of which nobody knows in which of two states it is may be in any history of its namespace.
fn listed_twice(job: &Object, histories: &mut Histories<'_>) -> Reason {
    let first: Key = (Arc::clone(&job.namespace), "".into());
    let of_namespace = histories.range_mut(first..);
    for (_, history) in of_namespace.take_while(|((namespace, _), _)| *namespace == job.namespace) {
        if let Ok(history) = history {
            history.add_unread(None);
        }
    }
    Reason::ListedTwice
}

/// Why the API server could not tell that a cron job is still the one that was read; `None` where it can.
fn unchecked(cron_job: &CronJob) -> Option<Reason> {
    let expect = expected(&cron_job.meta);
    match (expect.uid, expect.resource_version) {
        (None, _) => Some(Reason::UidUnknown),
        (_, None) => Some(Reason::VersionUnknown),
        _ => None,
    }
}

impl Settings {
    /// The history that a job is in, and as what (L3.2, L3.3).
    fn find<'h, 'a>(
        &self,
        job: &'a Job,
        object: &Object,
        histories: &'h mut Histories<'a>,
    ) -> Result<(&'h mut Line<'a>, Finished<'a>), Reason> {
        let controller = job.controller().ok_or(Reason::NotOfCronJob)?;
        let key = (Arc::clone(&object.namespace), Arc::clone(&controller.name));
        let history = histories.get_mut(&key).ok_or(Reason::NotOfCronJob)?;
        let history = history.as_mut().map_err(|reason| reason.clone())?;
        if self.template_labels_must_match {
            let template = history.cron_job.template_labels.as_ref();
            let mut wanted = template.ok_or(Reason::TemplateUnknown)?.iter();
            if !wanted.all(|(key, value)| job.meta.labels.get(key) == Some(value)) {
                return Err(Reason::LabelsDiffer);
            }
        }
        let Some(status) = &job.status else {
            history.add_unread(None);
            return Err(Reason::StatusUnknown);
        };
        let class = status.class().ok_or(Reason::Unfinished)?;
        let finished = Finished {
            class,
            start_time: status.start_time,
            job,
        };
        if job.meta.uid.is_empty() {
            history.add_unread(Some(class));
            return Err(Reason::UidUnknown);
        }
        Ok((&mut history.finished, finished))
    }

    /// L3.1 and L3.4 to L3.7, for one cron job.
    fn prune(&self, object: Object, cron_job: &CronJob, history: History<'_>, plan: &mut PlanOf<Self>) {
        let (successful, failed): (Vec<_>, Vec<_>) = history
            .finished
            .into_iter()
            .partition(|(finished, _)| finished.class == Class::Successful);
        let mut deleted: Vec<Uid> = Vec::new();
        for (class, mut line) in [(Class::Successful, successful), (Class::Failed, failed)] {
            let verdict = verdict(
                cron_job.limit(class),
                class,
                &line,
                history.unread[class as usize],
            );
            // The names differ within a namespace; should they not, the objects do.
            line.sort_by(|(a, a_object), (b, b_object)| {
                age_order(a)
                    .cmp(&age_order(b))
                    .then_with(|| a_object.cmp(b_object))
            });
            for (at, (finished, job)) in line.into_iter().enumerate() {
                if at >= verdict.goes {
                    let is_open = at < verdict.may_go;
                    let reason = if is_open { &verdict.open } else { &verdict.stays };
                    let reason = reason.clone();
                    plan.kept.push(Kept { object: job, reason });
                    continue;
                }
                if !is_controller(finished.job, &object) {
                    plan.findings.push(Kept {
                        object: job.clone(),
                        reason: Reason::ControllerDiffers,
                    });
                }
                deleted.push(job.uid.clone());
                plan.actions.push(Action::Delete {
                    object: job,
                    cron_job: object.clone(),
                    expect: expected(&finished.job.meta),
                    reason: verdict.reason.clone(),
                });
            }
        }
        plan.summary.deleted = plan.summary.deleted.saturating_add(deleted.len());
        let is_limited = || {
            let limits = [cron_job.successful_limit, cron_job.failed_limit];
            limits
                .iter()
                .any(|limit| matches!(limit, Limit::Jobs(jobs) if *jobs >= 0))
        };
        let reason = if !deleted.is_empty() {
            Reason::JobsDeleted
        } else if self.always_writes_status && is_limited() {
            Reason::AlwaysWritten
        } else {
            let reason = Reason::NothingToPrune;
            plan.kept.push(Kept { object, reason });
            return;
        };
        plan.actions.push(Action::UpdateStatus {
            object,
            expect: expected(&cron_job.meta),
            jobs: deleted,
            reason,
        });
    }
}

/// The oldest come first, those that never started last.
const fn age_order(finished: &Finished<'_>) -> (bool, Option<Timestamp>) {
    match finished.start_time {
        StartTime::At(time) => (false, Some(time)),
        StartTime::Unset | StartTime::Unknown => (true, None),
    }
}

/// What becomes of the jobs of one class, the oldest first.
struct Verdict {
    /// How many go, whatever else there is.
    goes: usize,
    /// How many may go, these among them.
    may_go: usize,
    /// Why they go.
    reason: Reason,
    /// Why it is not known whether the next ones go.
    open: Reason,
    /// Why the others stay.
    stays: Reason,
}

/// Of `n` jobs of which `m` may stay, the oldest `n - m` go also where there are more than are known, and as many more may go as are not known.
fn verdict(limit: Limit, class: Class, line: &[(Finished<'_>, Object)], unread: usize) -> Verdict {
    let finished = line.len();
    let all_stay = |reason: Reason| Verdict {
        goes: 0,
        may_go: 0,
        reason: reason.clone(),
        open: reason.clone(),
        stays: reason,
    };
    let limit = match limit {
        Limit::Unset => return all_stay(Reason::LimitUnset { class }),
        Limit::Unknown => return all_stay(Reason::LimitUnknown { class }),
        Limit::Jobs(limit) => limit,
    };
    let Ok(may_stay) = usize::try_from(limit) else {
        return all_stay(Reason::LimitInvalid { class, limit });
    };
    let may_go = finished.saturating_add(unread).saturating_sub(may_stay);
    let is_unknown = |(finished, _): &(Finished<'_>, Object)| finished.start_time == StartTime::Unknown;
    if may_go > 0 && line.iter().any(is_unknown) {
        return all_stay(Reason::StartTimeUnknown {
            class,
            finished,
            limit,
        });
    }
    Verdict {
        goes: finished.saturating_sub(may_stay),
        may_go,
        reason: Reason::OverLimit {
            class,
            finished,
            limit,
        },
        open: Reason::PlaceUnknown {
            class,
            finished,
            unread,
            limit,
        },
        stays: Reason::WithinLimit {
            class,
            finished,
            limit,
        },
    }
}

/// Whether the controller that a job names is the cron job itself. Upstream only compares the name.
fn is_controller(job: &Job, cron_job: &Object) -> bool {
    job.controller()
        .is_some_and(|controller| &*controller.kind == "CronJob" && controller.uid == cron_job.uid)
}
