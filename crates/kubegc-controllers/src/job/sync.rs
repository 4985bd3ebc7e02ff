//! One sync of one Job.

use std::collections::BTreeSet;

use kubegc_core::record::{Job, JobCounts};

use super::{
    BACKOFF_BY_COUNT, Indexes, LIMIT_PER_INDEX, PODS_BY_JOB, POLICY_WAITS, REPLACEMENT_POLICY, SUSPEND,
    TRACKING_FINALIZER, is_managed_by_other, tracks,
    write::{PodWork, SyncWork, perform},
};
use crate::{
    owner::{controlled, require_pod_owners},
    prelude::*,
};

pub(super) struct JobPod<'a> {
    pub(super) record: &'a Record,
    pub(super) id: ObjectId,
    pub(super) has_finalizer: bool,
}

impl JobPod<'_> {
    /// The deletion of the pod, or the removal of its finalizer.
    pub(super) fn work(&self, removes_finalizer: bool, reason: Reason) -> PodWork {
        PodWork {
            id: self.id.clone(),
            meta: self.record.meta.clone(),
            removes_finalizer: removes_finalizer && self.has_finalizer,
            reason,
        }
    }

    fn body(&self) -> Result<&Pod, Missing> {
        self.id.body(self.record, Record::pod)
    }

    pub(super) fn phase(&self) -> Result<&str, Missing> {
        Ok(self.id.read(&self.body()?.phase, "status.phase")?)
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.record.meta.is_deleting()
    }

    pub(super) fn has_finished(&self) -> Result<bool, Missing> {
        Ok(matches!(self.phase()?, "Succeeded" | "Failed"))
    }

    pub(super) fn is_active(&self) -> Result<bool, Missing> {
        Ok(!self.is_deleting() && !self.has_finished()?)
    }

    /// The completion index, if it is one of the Job.
    pub(super) fn index(&self, completions: i32) -> Result<Option<i32>, Missing> {
        let index = &self.body()?.completion_index;
        let index = self.id.read(index, "the completion index")?;
        Ok(index.filter(|index| (0..completions).contains(index)))
    }

    /// The number of earlier failures of its index.
    pub(super) fn index_failures(&self) -> Result<i32, Missing> {
        let count = &self.body()?.index_failure_count;
        self.id.read(count, "the failure count of its index").copied()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Finish {
    pub(super) is_success: bool,
    reason: Arc<str>,
    message: Arc<str>,
    /// Whether the status already has `SuccessCriteriaMet` or `FailureTarget`.
    pub(super) is_announced: bool,
}

impl Finish {
    pub(super) fn reason_message(&self) -> String {
        match (&*self.message, self.is_success) {
            ("", true) => "its Job is complete".to_owned(),
            ("", false) => "its Job has failed".to_owned(),
            (message, _) => format!("its Job ends: {message}"),
        }
    }

    fn new(is_success: bool, reason: &str, message: &str) -> Self {
        Self {
            is_success,
            reason: reason.into(),
            message: message.into(),
            is_announced: false,
        }
    }

    pub(super) fn condition(&self, kinds: [&str; 2], now: Timestamp) -> Condition {
        Condition {
            reason: Arc::clone(&self.reason),
            message: Arc::clone(&self.message),
            last_transition_time: Some(now.truncate_to_secs()),
            ..Condition::new(kinds[usize::from(self.is_success)], "True")
        }
    }
}

pub(super) struct Sync<'a> {
    pub(super) cx: &'a RuleContext<'a>,
    pub(super) id: &'a ObjectId,
    pub(super) record: &'a Record,
    pub(super) job: &'a Job,
    pub(super) is_tracked: bool,
    /// `spec.completions` of an Indexed Job.
    pub(super) indexed: Option<i32>,
    pub(super) counts: &'a JobCounts,
    pub(super) pods: Vec<JobPod<'a>>,
}

/// The pods that are counted: those that have finished and are not in the status yet.
#[derive(Default)]
pub(super) struct Counted {
    succeeded: i32,
    failed: i32,
    pub(super) active: usize,
    has_new_failure: bool,
    /// The failed indexes, if the Job limits failures per index.
    pub(super) failed_indexes: Option<Indexes>,
}

pub(super) fn sync(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let job = id.body(record, Record::job)?;
    if is_managed_by_other(cx, job, id)? {
        return id.keep("ManagedByOther", "another controller manages it");
    }
    id.read(&job.conditions, "status.conditions")?;
    if job.finished().flatten().is_some() {
        return id.keep("Finished", "it has finished");
    }
    let indexed = match &**id.read(&job.completion_mode, "spec.completionMode")? {
        "" | "NonIndexed" => None,
        "Indexed" => *id.read(&job.completions, "spec.completions")?,
        _ => return id.keep("UnknownCompletionMode", "its completion mode is unknown"),
    };
    require_pod_owners(cx, &id.namespace)?;
    let annotation = "the annotation batch.kubernetes.io/job-tracking";
    let is_tracked = match [true, false].map(|has_annotation| tracks(cx.version, has_annotation)) {
        [false, _] => false,
        [true, true] => true,
        [true, false] => *id.read(&job.has_tracking_annotation, annotation)?,
    };
    let pods = controlled(cx, &PODS_BY_JOB, id).map(|record| JobPod {
        record,
        has_finalizer: record.meta.has_finalizer(TRACKING_FINALIZER),
        id: record.id(Resource::Pods),
    });
    let sync = Sync {
        cx,
        id,
        record,
        job,
        is_tracked,
        indexed,
        counts: id.read(&job.counts, "the counts of finished pods")?,
        pods: pods.collect(),
    };
    Ok(sync.decide())
}

impl Sync<'_> {
    fn decide(&self) -> Decision {
        let mut decision = Decision::default();
        let is_deleting = self.record.meta.is_deleting();
        let mut work = SyncWork::new(self.id, self.record, self.cx.wire);
        let counted = self.count();
        let counted_now = counted.as_ref().map_err(Missing::clone);
        // The reason why it is unknown which active pods are deleted and whether the Job ends.
        let (finish, mut missing) = match counted_now.and_then(|counted| self.finish(counted)) {
            Ok(finish) => (finish, None),
            Err(missing) => (None, Some(missing).filter(|_| !is_deleting)),
        };
        let is_undetermined = missing.is_some();
        match (&finish, &counted) {
            (Some(finish), _) => {
                let reason = Reason::new("JobFinishing", finish.reason_message());
                let deletes = self.active().map(|pod| pod.work(false, reason.clone()));
                work.deletes = deletes.collect();
            }
            (None, Ok(counted)) if !is_undetermined && !is_deleting => match self.surplus(counted) {
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
            decision.steps = Some(Steps::of(self.id, work, perform));
        } else if decision.unknown.is_empty() {
            let reason = Reason::new("NothingToCount", "it has no pods to count or delete");
            decision.add_kept(self.id.clone(), reason);
        }
        decision
    }

    /// Returns whether a terminating pod counts only once it has finished.
    fn waits_for_failure(&self) -> Result<bool, Missing> {
        let Self { cx, id, job, .. } = self;
        if cx.has(POLICY_WAITS) && *id.read(&job.has_pod_failure_policy, "spec.podFailurePolicy")? {
            return Ok(true);
        }
        let policy = || id.read(&job.pod_replacement_policy, "spec.podReplacementPolicy");
        Ok(cx.has(REPLACEMENT_POLICY) && **policy()? == *"Failed")
    }

    pub(super) fn is_failed(&self, pod: &JobPod<'_>) -> Result<bool, Missing> {
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
            failed_indexes: self.failed_indexes()?,
            ..Counted::default()
        };
        if is_tracked {
            counted.succeeded = old(counts.succeeded, &counts.uncounted_succeeded);
            counted.failed = old(counts.failed, &counts.uncounted_failed);
        }
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

    pub(super) fn limit_per_index(&self) -> Result<Option<i32>, Missing> {
        if self.indexed.is_none() || !self.cx.has(LIMIT_PER_INDEX) {
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
        Ok(self.cx.has(SUSPEND) && *self.id.read(&self.job.is_suspended, "spec.suspend")?)
    }

    fn finish(&self, counted: &Counted) -> Result<Option<Finish>, Missing> {
        let (job, id) = (self.job, self.id);
        let conditions = id.read(&job.conditions, "status.conditions")?;
        for (is_success, kind) in [(true, "SuccessCriteriaMet"), (false, "FailureTarget")] {
            let mut known = conditions.iter();
            if let Some(known) = known.find(|known| *known.condition_type == *kind && known.is_true()) {
                return Ok(Some(Finish {
                    is_announced: true,
                    ..Finish::new(is_success, &known.reason, &known.message)
                }));
            }
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
        let exceeds = counted.failed > limit && (self.cx.has(BACKOFF_BY_COUNT) || is_new);
        if exceeds || self.exceeds_restarts(limit)? {
            let message = "Job has reached the specified backoff limit";
            return Ok(Some(Finish::new(false, "BackoffLimitExceeded", message)));
        }
        if self.deadline()?.is_some_and(|deadline| deadline <= self.cx.now) {
            let message = "Job was active longer than specified deadline";
            return Ok(Some(Finish::new(false, "DeadlineExceeded", message)));
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
        Ok((is_complete && counted.active == 0).then(|| Finish::new(true, "", "")))
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
            Some(Finish::new(false, "MaxFailedIndexesExceeded", message))
        } else if failed > 0 && failed.saturating_add(counted.succeeded) >= completions {
            Some(Finish::new(false, "FailedIndexes", "Job has failed indexes"))
        } else {
            None
        })
    }

    /// Returns whether the containers of running and pending pods were restarted as often as failures are
    /// allowed.
    fn exceeds_restarts(&self, limit: i32) -> Result<bool, Missing> {
        let policy = self
            .id
            .read(&self.job.restart_policy, "spec.template.spec.restartPolicy")?;
        if **policy != *"OnFailure" {
            return Ok(false);
        }
        let mut restarts: i64 = 0;
        for pod in &self.pods {
            if matches!(pod.phase()?, "Running" | "Pending") {
                let count = pod.id.read(&pod.body()?.restart_count, "restart counts")?;
                restarts = restarts.saturating_add(*count);
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
        let (code, message) = match self.is_suspended()? {
            true => ("JobSuspended", "its Job is suspended"),
            false => ("JobSurplus", "its Job needs no active pods"),
        };
        let reason = Reason::new(code, message);
        let surplus = self.active().take(surplus);
        let delete = |pod: &JobPod<'_>| pod.work(self.is_tracked, reason.clone());
        Ok(surplus.map(delete).collect())
    }

    fn active(&self) -> impl Iterator<Item = &JobPod<'_>> {
        self.pods.iter().filter(|pod| pod.is_active() == Ok(true))
    }

    /// The number of active pods that the Job needs; `usize::MAX` if it keeps all that run.
    pub(super) fn wanted(&self, counted: &Counted) -> Result<usize, Missing> {
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
}
