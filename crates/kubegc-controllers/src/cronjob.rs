//! Deletes the oldest finished Jobs of CronJobs beyond their history limits.
//!
//! The rules are [L3.1](crate::rules#l3-1) to [L3.9](crate::rules#l3-9).
//!
//! Not modelled: reconciles at the times of the schedule. Beyond upstream: a negative limit, which the API
//! server refuses and which ends upstream's process, keeps all Jobs; with [`Wire::Strict`] the CronJob is
//! read before the first deletion.
//!
//! **Incomplete data.** A Job whose status or uid is not known can be of any age. It can make others exceed
//! the limit, but never keeps one, so of `n` known Jobs and a limit of `m` the oldest `n - m` are deleted
//! anyway. If a start time is missing, no Job of the class is deleted.
//!
//! # Upstream
//! [`cleanupFinishedJobs`, `removeOldestJobs` and
//! `getJobsToBeReconciled`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/cronjob/cronjob_controllerv2.go)
//! in `cronjob_controllerv2.go`; before 1.21
//! [`groupJobsByParent`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/cronjob/utils.go)
//! in `utils.go`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_core::{
    Behavior, DeleteOptions, KubernetesVersion, PropagationPolicy, Timestamp, Uid,
    record::{CronJob, Field, ObjectId, Record, Resource},
};

use crate::{
    Cache, Change, Context, Controller, Decision, End, EventRequest, FieldChange, Index, Info, Key, Missing,
    Read, Reason, Sent, Steps, Timing, Wire, Write,
    action::require_unchanged,
    controller::{Reads as _, require_version, whole},
    request::{preconditions, server_message_about},
    sequence::Port,
};

/// The second controller, which matches by name.
const SECOND_CONTROLLER: Behavior = Behavior::since(21, 0, "feature gate CronJobControllerV2 is beta");
/// The labels of Jobs do not matter. Before, the second controller requires those of `spec.jobTemplate`.
/// Picks for 1.21 to 1.23 are not known.
const ANY_LABELS: Behavior = Behavior::since(24, 0, "kubernetes #107997");
/// The status is written only after a deletion. Before, every reconcile writes it if there is a limit.
const STATUS_AFTER_DELETION: Behavior = Behavior::since(24, 0, "kubernetes #107470");

/// The part of the CronJob controller that limits the history of CronJobs.
#[derive(Clone, Copy, Debug)]
pub struct CronJobHistory {
    /// Whether the Jobs of a CronJob are those of any namespace whose controller is of kind `CronJob` and has
    /// its uid. CronJobs are then reconciled every 10 s. Default: before 1.21, where the feature gate
    /// `CronJobControllerV2` is off.
    pub groups_by_uid: bool,
    version: KubernetesVersion,
}

impl CronJobHistory {
    /// Upstream's default in a release.
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            groups_by_uid: !version.has(SECOND_CONTROLLER),
            version,
        }
    }

    /// The same with the second controller, as the feature gate `CronJobControllerV2` enables it in 1.20.
    #[must_use]
    pub const fn with_second_controller(self) -> Self {
        Self {
            groups_by_uid: false,
            ..self
        }
    }

    /// The Jobs of the CronJob of this key; `uid` is empty if the CronJob is not known.
    fn jobs<'a>(&self, cache: &'a Cache, key: &Key, uid: &Uid) -> Vec<&'a Record> {
        if self.groups_by_uid && !uid.is_empty() {
            return cache.indexed_records(&JOBS_BY_UID, &Key::cluster(uid.text().as_str()));
        }
        cache.indexed_records(&JOBS_BY_NAME, key)
    }

    /// A Job that may belong to any CronJob of the namespace, because its metadata could not be read.
    fn unreadable(&self, cache: &Cache, namespace: &Arc<str>) -> Result<(), Missing> {
        let unreadable = if self.groups_by_uid {
            cache.indexed_records(&JOBS_BY_UID, &Key::cluster(""))
        } else {
            cache.indexed_records(&JOBS_BY_NAME, &Key::new(Arc::clone(namespace), ""))
        };
        unreadable
            .first()
            .map_or(Ok(()), |job| Err(Missing::metadata(Resource::Jobs, job)))
    }

    /// Limits the history of one CronJob with these Jobs.
    fn limit(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
        jobs: &[&Record],
    ) -> Result<Decision, Missing> {
        for resource in [Resource::CronJobs, Resource::Jobs] {
            match self.groups_by_uid {
                true => cx.cache.require(resource)?,
                false => cx.cache.require_in(resource, &id.namespace)?,
            }
        }
        self.unreadable(cx.cache, &id.namespace)?;
        let cron_job = id.body(record, Record::cron_job)?;
        require_version(id, &record.meta)?;
        let mut decision = Decision::default();
        let [successful, failed] = self.classify(id, cron_job, jobs, &mut decision)?;
        let limits = [
            &cron_job.successful_jobs_history_limit,
            &cron_job.failed_jobs_history_limit,
        ];
        let mut deletions = Vec::new();
        for (class, limit) in [successful, failed].into_iter().zip(limits) {
            class.prune(cx, id, limit, &mut deletions, &mut decision);
        }
        let is_limited = limits.iter().any(|limit| {
            limit
                .known()
                .is_some_and(|limit| limit.is_some_and(|limit| limit >= 0))
        });
        let always_writes_status = !self.version.has(STATUS_AFTER_DELETION);
        if deletions.is_empty() && !(always_writes_status && is_limited) {
            decision.add_kept(
                id.clone(),
                Reason::new("NothingToPrune", "no Job of it is deleted"),
            );
            return Ok(decision);
        }
        let pruning = Arc::new(Pruning {
            cron_job: id.clone(),
            read: (cx.wire == Wire::Strict).then(|| Read::unchanged(Resource::CronJobs, record)),
            deletions,
            update: Write::update(id, "status", preconditions(&record.meta), Vec::new()),
            always_writes_status,
            is_retried: !self.groups_by_uid,
        });
        decision.steps = Some(Steps::new(id.clone(), move |port| {
            prune(Arc::clone(&pruning), port)
        }));
        Ok(decision)
    }

    /// The finished Jobs, successful ones first. The others are kept, or unknown.
    fn classify<'a>(
        &self,
        id: &ObjectId,
        cron_job: &CronJob,
        jobs: &[&'a Record],
        decision: &mut Decision,
    ) -> Result<[Class<'a>; 2], Missing> {
        let no_labels = BTreeMap::new();
        let labels = if !self.groups_by_uid && !self.version.has(ANY_LABELS) {
            id.read(&cron_job.template_labels, "spec.jobTemplate.metadata.labels")?
        } else {
            &no_labels
        };
        let [mut successful, mut failed] = [
            Class::new("successful", "spec.successfulJobsHistoryLimit"),
            Class::new("failed", "spec.failedJobsHistoryLimit"),
        ];
        for &record in jobs {
            let job_id = record.id(Resource::Jobs);
            let has_label = |(key, value)| record.meta.labels.get(key) == Some(value);
            if !labels.iter().all(has_label) {
                let message = "it does not have the labels of spec.jobTemplate of its CronJob";
                decision.add_kept(job_id, Reason::new("LabelsDiffer", message));
                continue;
            }
            let job = match job_id.body(record, Record::job) {
                Ok(job) if !job.conditions.is_unread() => job,
                other => {
                    let unread = || Missing::field(&job_id, "status.conditions");
                    let missing = other.err().unwrap_or_else(unread);
                    successful.add_unread(&missing);
                    failed.add_unread(&missing);
                    decision.add_unknown(job_id, missing);
                    continue;
                }
            };
            let Some(finished) = job.finished().flatten() else {
                decision.add_kept(job_id, unfinished());
                continue;
            };
            let class = match &*finished.condition_type {
                "Complete" => &mut successful,
                _ => &mut failed,
            };
            if record.meta.uid.is_empty() {
                let missing = Missing::metadata(Resource::Jobs, record);
                class.add_unread(&missing);
                decision.add_unknown(job_id, missing);
            } else {
                class.finished.push((&job.start_time, record));
            }
        }
        Ok([successful, failed])
    }
}

fn unfinished() -> Reason {
    Reason::new("Unfinished", "it has not finished")
}

/// A finished Job and its start time.
type Finished<'a> = (&'a Field<Option<Timestamp>>, &'a Record);

/// The oldest Job comes first, those that never started come last.
fn age_order<'a>(&(start_time, job): &Finished<'a>) -> (bool, Option<Timestamp>, &'a str, &'a str) {
    let start_time = start_time.known().copied().flatten();
    (
        start_time.is_none(),
        start_time,
        &job.meta.name,
        &job.meta.namespace,
    )
}

/// The Jobs of one CronJob that ended in one way.
struct Class<'a> {
    adjective: &'static str,
    /// Path of the limit.
    path: &'static str,
    finished: Vec<Finished<'a>>,
    /// The number of further Jobs of any age, and the missing fact of the first of them.
    unread: usize,
    first_unread: Option<Missing>,
}

impl Class<'_> {
    const fn new(adjective: &'static str, path: &'static str) -> Self {
        Self {
            adjective,
            path,
            finished: Vec::new(),
            unread: 0,
            first_unread: None,
        }
    }

    fn add_unread(&mut self, missing: &Missing) {
        self.unread = self.unread.saturating_add(1);
        self.first_unread.get_or_insert_with(|| missing.clone());
    }

    /// Splits the Jobs into deleted, kept and undetermined ones.
    fn prune(
        mut self,
        cx: &Context<'_>,
        cron_job: &ObjectId,
        limit: &Field<Option<i32>>,
        deletions: &mut Vec<Deletion>,
        decision: &mut Decision,
    ) {
        let count = self.finished.len();
        let limit = match cron_job.read(limit, self.path) {
            Ok(Some(limit)) => *limit,
            Ok(None) => {
                return self.keep_all(
                    Reason::new("NoLimit", "its CronJob does not limit its history"),
                    decision,
                );
            }
            Err(missing) => return self.leave_all(&missing, decision),
        };
        let Ok(allowed) = usize::try_from(limit) else {
            let reason = Reason::new("InvalidLimit", "the history limit of its CronJob is negative");
            return self.keep_all(reason, decision);
        };
        let is_unread = |(start_time, _): &&Finished<'_>| start_time.is_unread();
        let deleted_max = count.saturating_add(self.unread).saturating_sub(allowed);
        if deleted_max > 0
            && let Some((_, job)) = self.finished.iter().find(is_unread)
        {
            let missing = Missing::field(&job.id(Resource::Jobs), "status.startTime");
            return self.leave_all(&missing, decision);
        }
        self.finished.sort_by(|a, b| age_order(a).cmp(&age_order(b)));
        let deleted = count.saturating_sub(allowed);
        for (at, (_, job)) in self.finished.iter().enumerate() {
            let object = job.id(Resource::Jobs);
            if at < deleted {
                let other = match job.meta.controller() {
                    Some(controller) if controller.uid != cron_job.uid => {
                        "; its controller reference names another object of that name"
                    }
                    _ => "",
                };
                let message = format!(
                    "cronjob/{} has {count} {} Jobs, and {} is {limit}{other}",
                    cron_job.name, self.adjective, self.path
                );
                let options = DeleteOptions::policy(PropagationPolicy::Background);
                deletions.push(Deletion {
                    object,
                    options: cx.wire.options(options, &job.meta, Sent::Nothing),
                    reason: Reason::new("OverHistoryLimit", message),
                });
            } else if let Some(missing) = self.first_unread.as_ref().filter(|_| at < deleted_max) {
                decision.add_unknown(object, missing.clone());
            } else {
                let message = "the history limit of its CronJob is not exceeded, or older Jobs are deleted";
                decision.add_kept(object, Reason::new("WithinHistoryLimit", message));
            }
        }
    }

    fn keep_all(self, reason: Reason, decision: &mut Decision) {
        for (_, job) in self.finished {
            decision.add_kept(job.id(Resource::Jobs), reason.clone());
        }
    }

    fn leave_all(self, missing: &Missing, decision: &mut Decision) {
        for (_, job) in self.finished {
            decision.add_unknown(job.id(Resource::Jobs), missing.clone());
        }
    }
}

struct Deletion {
    object: ObjectId,
    options: DeleteOptions,
    reason: Reason,
}

struct Pruning {
    cron_job: ObjectId,
    read: Option<Read>,
    deletions: Vec<Deletion>,
    /// The update of the status, still without changes.
    update: Write,
    always_writes_status: bool,
    /// Whether a failed update of the status is retried with backoff.
    is_retried: bool,
}

/// Deletes the Jobs and removes them from the status.
async fn prune(pruning: Arc<Pruning>, port: Port) -> End {
    if let Err(end) = require_unchanged(pruning.read.as_slice(), &port, End::failed).await {
        return end;
    }
    let mut end = End::Done;
    let mut update = pruning.update.clone();
    for Deletion {
        object,
        options,
        reason,
    } in &pruning.deletions
    {
        port.set_reason(reason.clone());
        let event = match port.delete(object.clone(), options.clone()).await {
            Ok(()) => {
                update.changes.push(FieldChange::RemoveActive(object.uid.clone()));
                let message = format!("Deleted job {}", object.name);
                EventRequest::new(&pruning.cron_job, false, "SuccessfulDelete", message)
            }
            Err(error) => {
                let message = format!("Deleted job: {}", server_message_about(object, &error));
                // The next reconcile tries again.
                end = End::failed_about(object, "", error, false);
                EventRequest::new(&pruning.cron_job, true, "FailedDelete", message)
            }
        };
        port.event(event).await;
    }
    if update.changes.is_empty() && !pruning.always_writes_status {
        return end;
    }
    let message = if update.changes.is_empty() {
        "its status is written by every reconcile"
    } else {
        "Jobs of it were deleted"
    };
    port.set_reason(Reason::new("StatusUpdate", message));
    match port.write(update).await {
        Ok(_) => end,
        Err(error) => End::failed_about(&pruning.cron_job, "", error, pruning.is_retried),
    }
}

static JOBS_BY_NAME: Index = Index::new(Resource::Jobs, |record, keys| {
    let namespace = Arc::clone(&record.meta.namespace);
    if !record.has_whole_meta {
        keys.push(Key::new(namespace, ""));
    } else if let Some(controller) = record.meta.controller() {
        keys.push(Key::new(namespace, Arc::clone(&controller.name)));
    }
});

static JOBS_BY_UID: Index = Index::new(Resource::Jobs, |record, keys| {
    let controller = record.meta.controller();
    if !record.has_whole_meta {
        keys.push(Key::cluster(""));
    } else if let Some(controller) = controller.filter(|controller| &*controller.kind == "CronJob") {
        keys.push(Key::cluster(controller.uid.text().as_str()));
    }
});

static CRON_JOBS_BY_UID: Index = Index::new(Resource::CronJobs, |record, keys| {
    keys.push(Key::cluster(record.meta.uid.text().as_str()));
});

static INFO: Info = Info {
    name: "cronjob-controller",
    summary: "deletes finished Jobs of CronJobs beyond the history limits",
    resources: &[Resource::CronJobs, Resource::Jobs],
    indexes: &[&JOBS_BY_NAME, &JOBS_BY_UID, &CRON_JOBS_BY_UID],
    permissions: &[
        (Resource::Jobs, "", &["delete"]),
        (Resource::CronJobs, "status", &["update"]),
    ],
    may_change: &[],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/cronjob/cronjob_controllerv2.go",
    ..Info::BASE
};

impl Controller for CronJobHistory {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn timing(&self) -> Timing {
        if self.groups_by_uid {
            return Timing::every(Duration::from_secs(10));
        }
        Timing::DEFAULT
    }

    fn affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        if change.resource == Resource::CronJobs {
            keys.push(change.key.clone());
            return;
        }
        if self.groups_by_uid {
            for uid in JOBS_BY_UID.keys_of_change(change) {
                if uid.name.is_empty() {
                    keys.extend(cache.keys(Resource::CronJobs));
                }
                keys.extend(cache.indexed(&CRON_JOBS_BY_UID, &uid));
            }
            return;
        }
        for key in JOBS_BY_NAME.keys_of_change(change) {
            if key.name.is_empty() {
                let cron_jobs = cache.in_namespace(Resource::CronJobs, &key.namespace);
                keys.extend(cron_jobs.map(|cron_job| Key::from(&cron_job.meta)));
            } else {
                keys.push(key);
            }
        }
    }

    /// The CronJobs and, if these are not listed, the controllers of the known Jobs: each may be a
    /// CronJob.
    fn keys(&self, cache: &Cache, keys: &mut Vec<Key>) {
        keys.extend(cache.keys(Resource::CronJobs));
        if cache.require(Resource::CronJobs).is_err() {
            let jobs = cache.records(Resource::Jobs);
            keys.extend(jobs.flat_map(|job| JOBS_BY_NAME.keys_of(job)));
        }
    }

    /// # Complexity
    /// O(k log n) for `k` Jobs of the CronJob.
    fn reconcile(&self, cx: &Context<'_>, key: &Key) -> Decision {
        let found = cx.cache.get(Resource::CronJobs, key);
        let id = found.map(|record| whole(Resource::CronJobs, record));
        let uid = match &id {
            Some(Ok(id)) => id.uid.clone(),
            _ => Uid::default(),
        };
        let jobs = self.jobs(cx.cache, key, &uid);
        let (mut decision, missing) = match found.zip(id) {
            Some((record, id)) => match id.and_then(|id| self.limit(cx, &id, record, &jobs)) {
                Ok(decision) => return decision,
                Err(missing) => {
                    let id = record.id(Resource::CronJobs);
                    (Decision::unknown(id, missing.clone()), missing)
                }
            },
            None => match cx.cache.require_in(Resource::CronJobs, &key.namespace) {
                Ok(()) => return Decision::default(),
                Err(missing) => (Decision::default(), missing),
            },
        };
        if let Some(job) = missing
            .object()
            .filter(|object| object.resource == Resource::Jobs)
        {
            decision.add_unknown(job.clone(), missing.clone());
        }
        for job in jobs {
            let is_unfinished = job.job().is_some_and(|job| job.finished() == Some(None));
            if is_unfinished {
                decision.add_kept(job.id(Resource::Jobs), unfinished());
            } else {
                decision.add_unknown(job.id(Resource::Jobs), missing.clone());
            }
        }
        decision
    }
}
