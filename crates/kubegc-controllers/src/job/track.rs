//! The pods of a Job that lose the tracking finalizer, and the counts and conditions in its status.

use std::collections::BTreeSet;

use kubegc_core::{backoff::doubled, record::JobCounts};

use super::{
    INTERIM_CONDITIONS, Indexes, ORPHANS,
    sync::{Counted, Finish, JobPod, Sync},
    write::{SyncWork, count_without_finalizer},
};
use crate::prelude::*;

/// The most uids that one sync writes to `status.uncountedTerminatedPods`.
const UNCOUNTED_MAX: usize = 500;
/// The first and the longest delay before a failed pod of an index is replaced; it doubles with each failure.
const BACKOFF: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

enum Removal {
    Now(Reason),
    At(Timestamp),
    No,
}

impl Sync<'_> {
    /// Chooses the pods that lose the finalizer, and counts them. Returns the pods that are neither deleted
    /// nor lose it.
    pub(super) fn track(
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
            if self.cx.has(ORPHANS) {
                let reason = Reason::new("NotTracked", "its Job is not tracked with finalizers");
                let with_finalizer = self.pods.iter().filter(|pod| pod.has_finalizer);
                work.finalizer_removals = with_finalizer.map(|pod| pod.work(true, reason.clone())).collect();
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
            work.finalizer_removals.push(pod.work(true, reason));
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

    fn removal_reason(
        &self,
        pod: &JobPod<'_>,
        finish: Option<&Finish>,
        counted: &Result<Counted, Missing>,
    ) -> Result<Removal, Missing> {
        let now = |code, message: &'static str| Ok(Removal::Now(Reason::new(code, message)));
        if self.record.meta.is_deleting() {
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
            if let Some(at) = self.replaced_at(pod, counted)?.filter(|at| *at > self.cx.now) {
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
        let announces = self.cx.has(INTERIM_CONDITIONS);
        if announces && !finish.is_announced {
            work.announcement = Some(finish.condition(["FailureTarget", "SuccessCriteriaMet"], self.cx.now));
        }
        let is_terminating = |pod: &JobPod<'_>| pod.is_deleting() && pod.has_finished() != Ok(true);
        let waits = !work.deletes.is_empty() || self.pods.iter().any(is_terminating);
        if !(announces && waits) {
            work.end = Some(finish.condition(["Failed", "Complete"], self.cx.now));
        }
    }
}
