//! One sync of one Job.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_core::{
    KubernetesVersion, Timestamp, Uid,
    backoff::doubled,
    record::{Condition, Job, JobCounts, ObjectId, Pod, Record, Resource},
};

use super::{
    BACKOFF_BY_COUNT, INTERIM_CONDITIONS, Indexes, JobTracking, LIMIT_PER_INDEX, ORPHANS, PODS_BY_JOB,
    POLICY_WAITS, REPLACEMENT_POLICY, SUSPEND, TRACKING_FINALIZER,
    write::{PodWork, SyncWork, count_without_finalizer, perform},
};
use crate::{
    Context, Decision, Key, Missing, Reason, Steps, Wire,
    controller::Reads as _,
    owner::{controlled, require_pod_owners},
};

/// The most uids that one sync writes to `status.uncountedTerminatedPods`.
const UNCOUNTED_MAX: usize = 500;
/// The first and the longest delay before a failed pod of an index is replaced; it doubles with each failure.
const BACKOFF: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

pub(super) struct JobPod<'a> {
    pub(super) record: &'a Record,
    pub(super) id: ObjectId,
    pod: Result<&'a Pod, Missing>,
    pub(super) has_finalizer: bool,
}

impl JobPod<'_> {
    fn phase(&self) -> Result<&str, Missing> {
        let pod = self.pod.as_ref().map_err(Missing::clone)?;
        Ok(&**self.id.read(&pod.phase, "status.phase")?)
    }

    fn is_deleting(&self) -> bool {
        self.record.meta.is_deleting()
    }

    fn has_finished(&self) -> Result<bool, Missing> {
        Ok(matches!(self.phase()?, "Succeeded" | "Failed"))
    }

    fn is_active(&self) -> Result<bool, Missing> {
        Ok(!self.is_deleting() && !self.has_finished()?)
    }

    /// The completion index, if it is one of the Job.
    fn index(&self, completions: i32) -> Result<Option<i32>, Missing> {
        let pod = self.pod.as_ref().map_err(Missing::clone)?;
        let index = self.id.read(&pod.completion_index, "the completion index")?;
        Ok(index.filter(|index| (0..completions).contains(index)))
    }

    /// The number of earlier failures of its index.
    fn index_failures(&self) -> Result<i32, Missing> {
        let pod = self.pod.as_ref().map_err(Missing::clone)?;
        Ok(*self
            .id
            .read(&pod.index_failure_count, "the failure count of its index")?)
    }
}

#[derive(Clone, Debug)]
struct Finish {
    is_success: bool,
    reason: Arc<str>,
    message: Arc<str>,
    /// Whether the status already has `SuccessCriteriaMet` or `FailureTarget`.
    is_announced: bool,
}

impl Finish {
    fn reason_message(&self) -> String {
        match (&*self.message, self.is_success) {
            ("", true) => "its Job is complete".to_owned(),
            ("", false) => "its Job has failed".to_owned(),
            (message, _) => format!("its Job ends: {message}"),
        }
    }

    fn failed(reason: &str, message: &str) -> Self {
        Self {
            is_success: false,
            reason: reason.into(),
            message: message.into(),
            is_announced: false,
        }
    }

    fn announced(is_success: bool, condition: &Condition) -> Self {
        Self {
            is_success,
            reason: Arc::clone(&condition.reason),
            message: Arc::clone(&condition.message),
            is_announced: true,
        }
    }

    fn condition(&self, kinds: [&str; 2], now: Timestamp) -> Condition {
        Condition {
            reason: Arc::clone(&self.reason),
            message: Arc::clone(&self.message),
            last_transition_time: Some(now.truncate_to_secs()),
            ..Condition::new(kinds[usize::from(self.is_success)], "True")
        }
    }
}

/// Whether a pod loses the finalizer.
enum Removal {
    Now(Reason),
    At(Timestamp),
    No,
}

struct Sync<'a> {
    version: KubernetesVersion,
    now: Timestamp,
    id: &'a ObjectId,
    is_deleting: bool,
    job: &'a Job,
    is_tracked: bool,
    /// `spec.completions` of an Indexed Job.
    indexed: Option<i32>,
    counts: &'a JobCounts,
    pods: Vec<JobPod<'a>>,
}

/// The pods that are counted: those that have finished and are not in the status yet.
struct Counted {
    succeeded: i32,
    failed: i32,
    active: usize,
    has_new_failure: bool,
    /// The failed indexes, if the Job limits failures per index.
    failed_indexes: Option<Indexes>,
}

impl JobTracking {
    pub(super) fn sync(
        &self,
        cx: &Context<'_>,
        key: &Key,
        id: &ObjectId,
        record: &Record,
    ) -> Result<Decision, Missing> {
        let job = id.body(record, Record::job)?;
        if self.is_managed_by_other(job, id)? {
            return id.keep("ManagedByOther", "another controller manages it");
        }
        id.read(&job.conditions, "status.conditions")?;
        if job.finished().flatten().is_some() {
            return id.keep("Finished", "it has finished");
        }
        let is_indexed = match &**id.read(&job.completion_mode, "spec.completionMode")? {
            "" | "NonIndexed" => false,
            "Indexed" => true,
            _ => return id.keep("UnknownCompletionMode", "its completion mode is unknown"),
        };
        let indexed = if is_indexed {
            *id.read(&job.completions, "spec.completions")?
        } else {
            None
        };
        require_pod_owners(cx, &key.namespace)?;
        let annotation = "the annotation batch.kubernetes.io/job-tracking";
        let is_tracked = match [true, false].map(|has_annotation| self.tracks(has_annotation)) {
            [false, _] => false,
            [true, true] => true,
            [true, false] => *id.read(&job.has_tracking_annotation, annotation)?,
        };
        let pods = controlled(cx, &PODS_BY_JOB, id).map(|record| {
            let pod_id = record.id(Resource::Pods);
            JobPod {
                record,
                pod: pod_id.body(record, Record::pod),
                has_finalizer: record.meta.has_finalizer(TRACKING_FINALIZER),
                id: pod_id,
            }
        });
        let sync = Sync {
            version: self.version,
            now: cx.now,
            id,
            is_deleting: record.meta.is_deleting(),
            job,
            is_tracked,
            indexed,
            counts: id.read(&job.counts, "the counts of finished pods")?,
            pods: pods.collect(),
        };
        sync.decide(cx.wire, record)
    }
}

impl Sync<'_> {
    fn decide(&self, wire: Wire, record: &Record) -> Result<Decision, Missing> {
        let mut decision = Decision::default();
        let mut work = SyncWork::new(self.id, record, wire);
        let counted = self.count();
        let finish = counted
            .as_ref()
            .map_err(Missing::clone)
            .and_then(|counted| self.finish(counted));
        // The reason why it is unknown which active pods are deleted and whether the Job ends.
        let (finish, mut missing) = match finish {
            Ok(finish) => (finish, None),
            Err(missing) => (None, Some(missing).filter(|_| !self.is_deleting)),
        };
        let is_undetermined = missing.is_some();
        match (&finish, &counted) {
            (Some(finish), _) => {
                let reason = Reason::new("JobFinishing", finish.reason_message());
                work.deletes = self
                    .active()
                    .map(|pod| PodWork::new(pod, false, reason.clone()))
                    .collect();
            }
            (None, Ok(counted)) if !is_undetermined && !self.is_deleting => match self.surplus(counted) {
                Ok(deletes) => work.deletes = deletes,
                Err(why) => missing = Some(why),
            },
            _ => {}
        }
        if finish.is_none()
            && let Ok(Some(deadline)) = self.deadline()
        {
            decision = decision.requeue_at(deadline);
        }
        let mut undecided = self.track(finish.as_ref(), &counted, &mut work, &mut decision);
        undecided.retain(|pod| is_undetermined || pod.is_active() != Ok(false) || pod.has_finalizer);
        for pod in undecided {
            let is_missing = is_undetermined || pod.is_active() != Ok(false);
            match missing.as_ref().filter(|_| is_missing) {
                Some(missing) => decision.add_unknown(pod.id.clone(), missing.clone()),
                None if pod.has_finalizer && self.is_tracked => {
                    let reason = Reason::new("PodNotFinished", "it has not finished, and its Job is active");
                    decision.add_kept(pod.id.clone(), reason);
                }
                None => {}
            }
        }
        if !work.is_empty() {
            let work = Arc::new(work);
            decision.steps = Some(Steps::new(self.id.clone(), move |port| {
                perform(Arc::clone(&work), port)
            }));
        } else if decision.unknown.is_empty() {
            let reason = Reason::new("NothingToCount", "it has no pods to count or delete");
            decision.add_kept(self.id.clone(), reason);
        }
        Ok(decision)
    }

    /// Returns whether a terminating pod counts only once it has finished.
    fn waits_for_failure(&self) -> Result<bool, Missing> {
        let by_policy = self.version.has(POLICY_WAITS)
            && *self
                .id
                .read(&self.job.has_pod_failure_policy, "spec.podFailurePolicy")?;
        Ok(by_policy
            || (self.version.has(REPLACEMENT_POLICY)
                && &**self
                    .id
                    .read(&self.job.pod_replacement_policy, "spec.podReplacementPolicy")?
                    == "Failed"))
    }

    fn is_failed(&self, pod: &JobPod<'_>) -> Result<bool, Missing> {
        Ok(match pod.phase()? {
            "Failed" => true,
            "Succeeded" => false,
            _ => pod.is_deleting() && self.is_tracked && !self.waits_for_failure()?,
        })
    }

    fn count(&self) -> Result<Counted, Missing> {
        let (counts, is_tracked) = (self.counts, self.is_tracked);
        let old = |count: i32, uncounted: &[Uid]| {
            count.saturating_add(i32::try_from(uncounted.len()).unwrap_or(i32::MAX))
        };
        let mut counted = Counted {
            succeeded: if is_tracked {
                old(counts.succeeded, &counts.uncounted_succeeded)
            } else {
                0
            },
            failed: if is_tracked {
                old(counts.failed, &counts.uncounted_failed)
            } else {
                0
            },
            active: 0,
            has_new_failure: false,
            failed_indexes: self.failed_indexes()?,
        };
        let mut new_indexes = Vec::new();
        for pod in &self.pods {
            counted.active = counted.active.saturating_add(usize::from(pod.is_active()?));
            let uid = &pod.record.meta.uid;
            if is_tracked && !pod.has_finalizer {
                continue;
            }
            if let Some(completions) = self.indexed {
                let Some(index) = pod.index(completions)? else {
                    continue;
                };
                if pod.phase()? == "Succeeded" {
                    new_indexes.push(index);
                }
            }
            if pod.phase()? == "Succeeded" && !(is_tracked && counts.uncounted_succeeded.contains(uid)) {
                counted.succeeded = counted.succeeded.saturating_add(1);
            }
            if self.is_failed(pod)? && !(is_tracked && counts.uncounted_failed.contains(uid)) {
                counted.failed = counted.failed.saturating_add(1);
            }
        }
        counted.has_new_failure = counted.failed > counts.failed;
        if let Some(completions) = self.indexed {
            let mut indexes = if is_tracked {
                Indexes::parse(&counts.completed_indexes, completions)
            } else {
                Indexes::default()
            };
            indexes.extend(new_indexes);
            counted.succeeded = indexes.total();
        }
        Ok(counted)
    }

    /// The limit of failures per index; `None` if there is none.
    fn limit_per_index(&self) -> Result<Option<i32>, Missing> {
        if self.indexed.is_none() || !self.version.has(LIMIT_PER_INDEX) {
            return Ok(None);
        }
        Ok(*self
            .id
            .read(&self.job.backoff_limit_per_index, "spec.backoffLimitPerIndex")?)
    }

    /// The indexes that failed more often than the limit per index; `None` if there is no such limit.
    /// Failures are counted without the rules of a pod failure policy.
    fn failed_indexes(&self) -> Result<Option<Indexes>, Missing> {
        let (Some(completions), Some(limit)) = (self.indexed, self.limit_per_index()?) else {
            return Ok(None);
        };
        let mut failed = Vec::new();
        for pod in self.pods.iter().filter(|pod| pod.has_finalizer) {
            if let Some(index) = pod.index(completions)?
                && self.is_failed(pod)?
                && pod.index_failures()? >= limit
            {
                failed.push(index);
            }
        }
        let mut indexes = Indexes::parse(&self.counts.failed_indexes, completions);
        indexes.extend(failed);
        Ok(Some(indexes))
    }

    /// When the active deadline passes; `None` if there is none.
    fn deadline(&self) -> Result<Option<Timestamp>, Missing> {
        let seconds = *self
            .id
            .read(&self.job.active_deadline_seconds, "spec.activeDeadlineSeconds")?;
        let (Some(seconds), false) = (seconds, self.is_suspended()?) else {
            return Ok(None);
        };
        let started = *self.id.read(&self.job.start_time, "status.startTime")?;
        let allowed = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Ok(started.and_then(|started| started.checked_add(allowed)))
    }

    fn is_suspended(&self) -> Result<bool, Missing> {
        Ok(self.version.has(SUSPEND) && *self.id.read(&self.job.is_suspended, "spec.suspend")?)
    }

    /// Returns whether the Job ends now, and how.
    fn finish(&self, counted: &Counted) -> Result<Option<Finish>, Missing> {
        let (job, id) = (self.job, self.id);
        let conditions = id.read(&job.conditions, "status.conditions")?;
        let find = |kind: &str| {
            conditions
                .iter()
                .find(|known| *known.condition_type == *kind && known.is_true())
        };
        if let Some(met) = find("SuccessCriteriaMet") {
            return Ok(Some(Finish::announced(true, met)));
        }
        if let Some(target) = find("FailureTarget") {
            return Ok(Some(Finish::announced(false, target)));
        }
        let is_uncounted = |pod: &JobPod<'_>| pod.has_finalizer || !self.is_tracked;
        let has_new_failure = || -> Result<bool, Missing> {
            for pod in self.pods.iter().filter(|pod| is_uncounted(pod)) {
                if self.is_failed(pod)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if *id.read(&job.has_pod_failure_policy, "spec.podFailurePolicy")? && has_new_failure()? {
            return Err(Missing::outside(format!(
                "whether a rule of spec.podFailurePolicy fails {id}"
            )));
        }
        let limit = id.read(&job.backoff_limit, "spec.backoffLimit")?.unwrap_or(6);
        let parallelism = id.read(&job.parallelism, "spec.parallelism")?.unwrap_or(1);
        let is_new = counted.has_new_failure && usize::try_from(parallelism) != Ok(counted.active);
        let exceeds = counted.failed > limit && (self.version.has(BACKOFF_BY_COUNT) || is_new);
        if exceeds || self.exceeds_restarts(limit)? {
            let message = "Job has reached the specified backoff limit";
            return Ok(Some(Finish::failed("BackoffLimitExceeded", message)));
        }
        if self.deadline()?.is_some_and(|deadline| deadline <= self.now) {
            let message = "Job was active longer than specified deadline";
            return Ok(Some(Finish::failed("DeadlineExceeded", message)));
        }
        if self.indexed.is_some() {
            if let Some(end) = self.failed_by_indexes(counted)? {
                return Ok(Some(end));
            }
            if *id.read(&job.has_success_policy, "spec.successPolicy")? && counted.succeeded > 0 {
                return Err(Missing::outside(format!("whether {id} meets spec.successPolicy")));
            }
        }
        let completions = *id.read(&job.completions, "spec.completions")?;
        let is_complete = match completions {
            None => counted.succeeded > 0,
            Some(completions) => counted.succeeded >= completions,
        };
        Ok((is_complete && counted.active == 0).then(|| Finish {
            is_success: true,
            reason: "".into(),
            message: "".into(),
            is_announced: false,
        }))
    }

    /// The end of a Job because of its failed indexes.
    fn failed_by_indexes(&self, counted: &Counted) -> Result<Option<Finish>, Missing> {
        let (Some(completions), Some(indexes)) = (self.indexed, &counted.failed_indexes) else {
            return Ok(None);
        };
        let failed = indexes.total();
        let limit = *self
            .id
            .read(&self.job.max_failed_indexes, "spec.maxFailedIndexes")?;
        Ok(if limit.is_some_and(|limit| failed > limit) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            Some(Finish::failed("MaxFailedIndexesExceeded", message))
        } else if failed > 0 && failed.saturating_add(counted.succeeded) >= completions {
            Some(Finish::failed("FailedIndexes", "Job has failed indexes"))
        } else {
            None
        })
    }

    /// Returns whether the containers of running and pending pods were restarted as often as failures are
    /// allowed.
    fn exceeds_restarts(&self, limit: i32) -> Result<bool, Missing> {
        if &**self
            .id
            .read(&self.job.restart_policy, "spec.template.spec.restartPolicy")?
            != "OnFailure"
        {
            return Ok(false);
        }
        let mut restarts: i64 = 0;
        for pod in &self.pods {
            if matches!(pod.phase()?, "Running" | "Pending") {
                let body = pod.pod.as_ref().map_err(Missing::clone)?;
                restarts = restarts.saturating_add(*pod.id.read(&body.restart_count, "restart counts")?);
            }
        }
        Ok(restarts >= i64::from(limit.max(1)))
    }

    /// The active pods that the Job does not need.
    fn surplus(&self, counted: &Counted) -> Result<Vec<PodWork>, Missing> {
        let wanted = self.wanted(counted)?;
        let surplus = counted.active.saturating_sub(wanted);
        if surplus > 0 && wanted > 0 {
            return Err(Missing::outside(format!(
                "which {surplus} of {} active pods {} deletes",
                counted.active, self.id
            )));
        }
        let reason = if self.is_suspended()? {
            Reason::new("JobSuspended", "its Job is suspended")
        } else {
            Reason::new("JobSurplus", "its Job needs no active pods")
        };
        let surplus = self.active().take(surplus);
        Ok(surplus
            .map(|pod| PodWork::new(pod, self.is_tracked, reason.clone()))
            .collect())
    }

    fn active(&self) -> impl Iterator<Item = &JobPod<'_>> {
        self.pods.iter().filter(|pod| pod.is_active() == Ok(true))
    }

    /// The number of active pods that the Job needs; `usize::MAX` if it keeps all that run.
    fn wanted(&self, counted: &Counted) -> Result<usize, Missing> {
        if self.is_suspended()? {
            return Ok(0);
        }
        let parallelism = self
            .id
            .read(&self.job.parallelism, "spec.parallelism")?
            .unwrap_or(1);
        let wanted = match *self.id.read(&self.job.completions, "spec.completions")? {
            None if counted.succeeded > 0 => return Ok(usize::MAX),
            None => parallelism,
            Some(completions) => completions.saturating_sub(counted.succeeded).min(parallelism),
        };
        let wanted = usize::try_from(wanted).unwrap_or(0);
        if let Some(completions) = self.indexed.filter(|_| wanted > 0) {
            // Pods without a valid index, or with that of another active pod, are always deleted.
            let mut seen = BTreeSet::new();
            for pod in self.active() {
                let index = pod.index(completions)?;
                if !index.is_some_and(|index| seen.insert(index)) {
                    return Ok(seen.len().min(wanted).max(1));
                }
            }
        }
        Ok(wanted)
    }

    /// Chooses the pods that lose the finalizer, and counts them. Returns the pods that are neither deleted
    /// nor lose it.
    fn track(
        &self,
        finish: Option<&Finish>,
        counted: &Result<Counted, Missing>,
        work: &mut SyncWork,
        decision: &mut Decision,
    ) -> Vec<&JobPod<'_>> {
        let deleted: BTreeSet<Uid> = work.deletes.iter().map(|pod| pod.meta.uid.clone()).collect();
        let (deleted_pods, rest): (Vec<_>, Vec<_>) = self
            .pods
            .iter()
            .partition(|pod| deleted.contains(&pod.record.meta.uid));
        if !self.is_tracked {
            if self.version.has(ORPHANS) {
                let reason = Reason::new("NotTracked", "its Job is not tracked with finalizers");
                let with_finalizer = self.pods.iter().filter(|pod| pod.has_finalizer);
                work.finalizer_removals = with_finalizer
                    .map(|pod| PodWork::new(pod, true, reason.clone()))
                    .collect();
            }
            self.end(finish, work);
            return rest;
        }
        let with_finalizer = self.pods.iter().filter(|pod| pod.has_finalizer);
        work.with_finalizer = with_finalizer.map(|pod| pod.record.meta.uid.clone()).collect();
        work.counts = self.counts.clone();
        count_without_finalizer(&mut work.counts, &work.with_finalizer);
        let mut indexes = self
            .indexed
            .map(|completions| Indexes::parse(&self.counts.completed_indexes, completions));
        let mut new_indexes = Vec::new();
        let mut undecided = Vec::new();
        let mut is_full = false;
        // Surplus pods lose the finalizer before they are deleted; others that are deleted lose it here.
        for pod in rest
            .into_iter()
            .chain(deleted_pods.into_iter().filter(|_| finish.is_some()))
        {
            let reason = match self.removal_reason(pod, finish, counted) {
                _ if !pod.has_finalizer => None,
                Ok(Removal::Now(reason)) => Some(reason),
                Ok(Removal::At(at)) => {
                    *decision = std::mem::take(decision).requeue_at(at);
                    None
                }
                Ok(Removal::No) => None,
                Err(missing) => {
                    decision.add_unknown(pod.id.clone(), missing);
                    continue;
                }
            };
            let Some(reason) = reason else {
                undecided.push(pod);
                continue;
            };
            if is_full {
                let reason = Reason::new("CountedNext", "the next sync counts it: one sync counts 500 pods");
                decision.add_kept(pod.id.clone(), reason);
                continue;
            }
            self.add_count(pod, finish, indexes.as_ref(), &mut new_indexes, &mut work.counts);
            work.finalizer_removals.push(PodWork::new(pod, true, reason));
            let uncounted = [
                work.counts.uncounted_succeeded.len(),
                work.counts.uncounted_failed.len(),
            ];
            is_full = uncounted.iter().sum::<usize>().saturating_add(new_indexes.len()) >= UNCOUNTED_MAX;
        }
        if let Some(indexes) = &mut indexes {
            indexes.extend(new_indexes);
            work.counts.succeeded = indexes.total();
            work.counts.completed_indexes = indexes.to_string().into();
        }
        if let Ok(Counted {
            failed_indexes: Some(failed),
            ..
        }) = counted
        {
            work.counts.failed_indexes = failed.to_string().into();
        }
        work.is_flushed = work.counts != *self.counts;
        if !is_full {
            self.end(finish, work);
        }
        undecided
    }

    /// Whether and why a pod loses the finalizer.
    fn removal_reason(
        &self,
        pod: &JobPod<'_>,
        finish: Option<&Finish>,
        counted: &Result<Counted, Missing>,
    ) -> Result<Removal, Missing> {
        let now = |code, message: &'static str| Ok(Removal::Now(Reason::new(code, message)));
        if self.is_deleting {
            return now("JobTerminating", "its Job is being deleted");
        }
        if let Some(finish) = finish {
            return Ok(Removal::Now(Reason::new("JobFinishing", finish.reason_message())));
        }
        if pod.phase()? == "Succeeded" {
            return now("PodSucceeded", "it has succeeded");
        }
        if !self.is_failed(pod)? {
            return Ok(Removal::No);
        }
        if *self
            .id
            .read(&self.job.has_pod_failure_policy, "spec.podFailurePolicy")?
        {
            let question = format!("whether spec.podFailurePolicy of {} counts {}", self.id, pod.id);
            return Err(Missing::outside(question));
        }
        if self.limit_per_index()?.is_some() {
            let counted = counted.as_ref().map_err(Missing::clone)?;
            if let Some(at) = self.replaced_at(pod, counted)?.filter(|at| *at > self.now) {
                return Ok(Removal::At(at));
            }
        }
        now("PodFailed", "it has failed")
    }

    /// The time at which a failed pod is replaced, if it keeps the finalizer until then: the last failed pod
    /// of an index does, because the new pod continues its count of failures. Upstream:
    /// `getPodsWithDelayedDeletionPerIndex`.
    fn replaced_at(&self, pod: &JobPod<'_>, counted: &Counted) -> Result<Option<Timestamp>, Missing> {
        let (Some(completions), Some(failed)) = (self.indexed, &counted.failed_indexes) else {
            return Ok(None);
        };
        let succeeded = Indexes::parse(&self.counts.completed_indexes, completions);
        let Some(index) = pod.index(completions)? else {
            return Ok(None);
        };
        if failed.has(index) || succeeded.has(index) {
            return Ok(None);
        }
        let failures = pod.index_failures()?;
        for other in self.pods.iter().filter(|other| other.id != pod.id) {
            if other.index(completions)? != Some(index) {
                continue;
            }
            let is_newer =
                other.has_finalizer && self.is_failed(other)? && other.index_failures()? > failures;
            if other.is_active()? || other.phase()? == "Succeeded" || is_newer {
                return Ok(None);
            }
        }
        if counted.active >= self.wanted(counted)? {
            return Err(Missing::outside(format!("when {} replaces {}", self.id, pod.id)));
        }
        // The times at which containers ended are not read: a pod that is not terminating has ended earlier.
        let ended = pod.record.meta.deletion_timestamp.unwrap_or(Timestamp::EPOCH);
        let delay = doubled(BACKOFF, u32::try_from(failures).unwrap_or(0));
        Ok(Some(ended.saturating_add(delay)))
    }

    /// Counts a pod that loses the finalizer. A phase that was not read is not counted.
    fn add_count(
        &self,
        pod: &JobPod<'_>,
        finish: Option<&Finish>,
        indexes: Option<&Indexes>,
        new_indexes: &mut Vec<i32>,
        counts: &mut JobCounts,
    ) {
        let uid = &pod.record.meta.uid;
        let index = self
            .indexed
            .map(|completions| pod.index(completions).ok().flatten());
        let has_failed = || {
            let is_ended = finish.is_some_and(|finish| !finish.is_success);
            is_ended || self.is_failed(pod) == Ok(true)
        };
        match pod.phase() {
            Ok("Succeeded") if !counts.uncounted_failed.contains(uid) => match index {
                Some(Some(index)) if indexes.is_some_and(|known| !known.has(index)) => {
                    new_indexes.push(index)
                }
                Some(_) => {}
                None if !counts.uncounted_succeeded.contains(uid) => {
                    counts.uncounted_succeeded.push(uid.clone())
                }
                None => {}
            },
            Ok(_) if has_failed() && index != Some(None) && !counts.uncounted_failed.contains(uid) => {
                counts.uncounted_failed.push(uid.clone());
            }
            _ => {}
        }
    }

    /// Adds the conditions of the end: `SuccessCriteriaMet` or `FailureTarget`, then `Complete` or `Failed`
    /// once no pod is terminating.
    fn end(&self, finish: Option<&Finish>, work: &mut SyncWork) {
        let Some(finish) = finish else {
            return;
        };
        let announces = self.version.has(INTERIM_CONDITIONS);
        if announces && !finish.is_announced {
            work.announcement = Some(finish.condition(["FailureTarget", "SuccessCriteriaMet"], self.now));
        }
        let is_terminating = |pod: &JobPod<'_>| pod.is_deleting() && pod.has_finished() != Ok(true);
        let waits = !work.deletes.is_empty() || self.pods.iter().any(is_terminating);
        if !(announces && waits) {
            work.end = Some(finish.condition(["Failed", "Complete"], self.now));
        }
    }
}
