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

use kubegc_core::{PropagationPolicy, record::CronJob};

use crate::{
    action::require_unchanged,
    prelude::*,
    request::{preconditions, server_message_about},
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

    /// The Jobs of the CronJob of this key; `uid` is empty if the CronJob is not known.
    fn jobs<'a>(&self, cache: &'a Cache, key: &Key, uid: &Uid) -> Vec<&'a Record> {
        if self.groups_by_uid && !uid.is_empty() {
            return cache.indexed_records(&JOBS_BY_UID, &Key::cluster(uid.text().as_str()));
        }
        cache.indexed_records(&JOBS_BY_NAME, key)
    }

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
        // A Job may belong to any CronJob if its metadata could not be read.
        let (index, key) = match self.groups_by_uid {
            true => (&JOBS_BY_UID, Key::cluster("")),
            false => (&JOBS_BY_NAME, namespace_key(&id.namespace)),
        };
        if let Some(job) = cx.cache.first_indexed(index, &key) {
            return Err(Missing::metadata(Resource::Jobs, job));
        }
        let cron_job = id.body(record, Record::cron_job)?;
        require_version(id, &record.meta)?;
        let mut decision = Decision::default();
        let classes = self.classify(id, cron_job, jobs, &mut decision)?;
        let limits = [
            &cron_job.successful_jobs_history_limit,
            &cron_job.failed_jobs_history_limit,
        ];
        let mut deletions = Vec::new();
        for (class, limit) in classes.into_iter().zip(limits) {
            class.prune(cx, id, limit, &mut deletions, &mut decision);
        }
        let is_limit = |limit: &Option<i32>| limit.is_some_and(|limit| limit >= 0);
        let is_limited = limits.iter().any(|limit| limit.known().is_some_and(is_limit));
        let always_writes_status = !self.version.has(STATUS_AFTER_DELETION);
        if deletions.is_empty() && !(always_writes_status && is_limited) {
            let reason = Reason::new("NothingToPrune", "no Job of it is deleted");
            decision.add_kept(id.clone(), reason);
            return Ok(decision);
        }
        let pruning = Pruning {
            cron_job: id.clone(),
            read: (cx.wire == Wire::Strict).then(|| Read::unchanged(Resource::CronJobs, record)),
            deletions,
            update: Write::update(id, "status", preconditions(&record.meta), Vec::new()),
            always_writes_status,
            is_retried: !self.groups_by_uid,
        };
        decision.steps = Some(Steps::of(id, pruning, prune));
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
        let has_labels = !self.groups_by_uid && !self.version.has(ANY_LABELS);
        let labels = has_labels.then(|| {
            let labels = &cron_job.template_labels;
            id.read(labels, "spec.jobTemplate.metadata.labels")
        });
        let labels = labels.transpose()?;
        let mut classes = [
            ("successful", "spec.successfulJobsHistoryLimit"),
            ("failed", "spec.failedJobsHistoryLimit"),
        ]
        .map(|(adjective, path)| Class {
            adjective,
            path,
            finished: Vec::new(),
            unread: Vec::new(),
        });
        for &record in jobs {
            let job_id = record.id(Resource::Jobs);
            let has_label = |(key, value)| record.meta.labels.get(key) == Some(value);
            if !labels.into_iter().flatten().all(has_label) {
                let message = "it does not have the labels of spec.jobTemplate of its CronJob";
                decision.add_kept(job_id, Reason::new("LabelsDiffer", message));
                continue;
            }
            let body = job_id.body(record, Record::job);
            let job = body.and_then(|job| job_id.read(&job.conditions, "status.conditions").map(|_| job));
            let missing = match job.map(|job| (job, job.finished().flatten())) {
                Ok((_, None)) => {
                    decision.add_kept(job_id, unfinished());
                    continue;
                }
                Ok((job, Some(finished))) => {
                    let class = &mut classes[usize::from(&*finished.condition_type != "Complete")];
                    if !record.meta.uid.is_empty() {
                        class.finished.push((&job.start_time, record));
                        continue;
                    }
                    let missing = Missing::metadata(Resource::Jobs, record);
                    class.unread.push(missing.clone());
                    missing
                }
                Err(missing) => {
                    for class in &mut classes {
                        class.unread.push(missing.clone());
                    }
                    missing
                }
            };
            decision.add_unknown(job_id, missing);
        }
        Ok(classes)
    }
}

fn unfinished() -> Reason {
    Reason::new("Unfinished", "it has not finished")
}

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
    path: &'static str,
    finished: Vec<Finished<'a>>,
    /// The missing facts of further Jobs, which may be of any age.
    unread: Vec<Missing>,
}

impl Class<'_> {
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
        let keep_all = |code, message: &'static str| Err(Ok(Reason::new(code, message)));
        let allowed = match cron_job.read(limit, self.path) {
            Ok(None) => keep_all("NoLimit", "its CronJob does not limit its history"),
            Ok(Some(limit)) => match usize::try_from(*limit) {
                Ok(allowed) => Ok((*limit, allowed)),
                Err(_) => keep_all("InvalidLimit", "the history limit of its CronJob is negative"),
            },
            Err(missing) => Err(Err(missing)),
        };
        let is_unread = |(start_time, _): &&Finished<'_>| start_time.is_unread();
        let of_unread = |(_, job): &Finished<'_>| Missing::field(&job.id(Resource::Jobs), "status.startTime");
        let deleted_max = |allowed: usize| (count + self.unread.len()).saturating_sub(allowed);
        let allowed = allowed.and_then(|(limit, allowed)| {
            let unread = self.finished.iter().find(is_unread);
            match unread.filter(|_| deleted_max(allowed) > 0) {
                Some(job) => Err(Err(of_unread(job))),
                None => Ok((limit, allowed, deleted_max(allowed))),
            }
        });
        let (limit, allowed, deleted_max) = match allowed {
            Ok(allowed) => allowed,
            Err(judged) => {
                for (_, job) in self.finished {
                    match &judged {
                        Ok(reason) => decision.add_kept(job.id(Resource::Jobs), reason.clone()),
                        Err(missing) => decision.add_unknown(job.id(Resource::Jobs), missing.clone()),
                    }
                }
                return;
            }
        };
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
                let options = cx.wire.options(options, &job.meta, Sent::Nothing);
                deletions.push((object, options, Reason::new("OverHistoryLimit", message)));
            } else if let Some(missing) = self.unread.first().filter(|_| at < deleted_max) {
                decision.add_unknown(object, missing.clone());
            } else {
                let message = "the history limit of its CronJob is not exceeded, or older Jobs are deleted";
                decision.add_kept(object, Reason::new("WithinHistoryLimit", message));
            }
        }
    }
}

type Deletion = (ObjectId, DeleteOptions, Reason);

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

async fn prune(pruning: Arc<Pruning>, port: Port) -> Result<End, End> {
    require_unchanged(pruning.read.as_slice(), &port, End::failed).await?;
    let mut end = End::Done;
    let mut update = pruning.update.clone();
    for (object, options, reason) in &pruning.deletions {
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
        return Ok(end);
    }
    let message = if update.changes.is_empty() {
        "its status is written by every reconcile"
    } else {
        "Jobs of it were deleted"
    };
    port.set_reason(Reason::new("StatusUpdate", message));
    let failed = |error| End::failed_about(&pruning.cron_job, "", error, pruning.is_retried);
    port.write(update).await.map_err(failed).map(|_| end)
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
