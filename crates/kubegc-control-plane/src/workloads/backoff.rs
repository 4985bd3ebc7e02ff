//! The time that a Job waits before it replaces failed pods.
//!
//! # Upstream
//! [`newBackoffRecord`, `getFinishedTime`,
//! `getRemainingTime`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/controller/job/backoff_utils.go),
//! and `manageJob` in `job_controller.go`.

use std::time::Duration;

use kubegc_controllers::job::TRACKING_FINALIZER;
use kubegc_core::{Behavior, KubernetesVersion, Timestamp, backoff::doubled};
use kubegc_sim::StoredObject;
use serde_json::Value;

use super::player::{find_condition, list_at};

/// A pod is created only after the backoff. Before, the work queue delays some syncs of the Job.
const REPLACEMENTS_WAIT: Behavior = Behavior::since(27, 0, "kubernetes #114768");
/// The longest backoff is ten minutes; before, six.
const LONGEST_IS_TEN_MINUTES: Behavior = Behavior::since(28, 0, "kubernetes #118615");
/// The backoff after the first failure; it doubles with each.
const FIRST: Duration = Duration::from_secs(10);

/// The failures of a Job since its last success, as its controller remembers them.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    /// The numbers of succeeded and failed pods at the last sync.
    counted: [u64; 2],
    number: u32,
    /// When the last pod failed.
    last: Option<Timestamp>,
}

impl Failures {
    /// The failures of a Job at its first sync: those that it has counted already do not delay a pod.
    pub(super) fn new(job: &StoredObject) -> Self {
        Self {
            counted: counts(job, &[]),
            ..Self::default()
        }
    }

    /// Adds the pods that were counted since the last sync. A failed pod that no longer exists failed `now`.
    pub(super) fn update(&mut self, job: &StoredObject, ended: &[&StoredObject], now: Timestamp) {
        let counts = counts(job, ended);
        let [succeeded, failed] = [0, 1].map(|at| counts[at].saturating_sub(self.counted[at]));
        self.counted = counts;
        let (successes, failures): (Vec<_>, Vec<_>) =
            ended.iter().copied().partition(|pod| has_succeeded(pod));
        let mut added = u32::try_from(failed).unwrap_or(u32::MAX);
        if succeeded > 0 {
            (self.number, self.last) = (0, None);
            // Only failures after the last success count.
            let success = successes.iter().map(|pod| finished_at(pod)).max();
            let later = failures.iter().filter(|pod| Some(finished_at(pod)) > success);
            added = added.min(u32::try_from(later.count()).unwrap_or(u32::MAX));
        }
        if added > 0 {
            self.number = self.number.saturating_add(added);
            let newest = failures.iter().map(|pod| finished_at(pod)).max();
            self.last = newest.filter(|newest| self.last.is_none_or(|last| *newest > last));
            self.last = self.last.or(Some(now));
        }
    }

    /// When the next pod is created; `None` if nothing delays it.
    pub(super) fn due(&self, version: KubernetesVersion) -> Option<Timestamp> {
        let max = match version.has(LONGEST_IS_TEN_MINUTES) {
            true => 600,
            false => 360,
        };
        let delay = doubled([FIRST, Duration::from_secs(max)], self.number.checked_sub(1)?);
        let due = self.last?.saturating_add(delay);
        version.has(REPLACEMENTS_WAIT).then_some(due)
    }
}

fn has_succeeded(pod: &StoredObject) -> bool {
    pod.text_at(&["status", "phase"]) == "Succeeded"
}

/// The numbers of succeeded and failed pods: those in the status, and those that are not counted there yet.
fn counts(job: &StoredObject, ended: &[&StoredObject]) -> [u64; 2] {
    let status = job.at(&["status"]).unwrap_or(&Value::Null);
    [("succeeded", true), ("failed", false)].map(|(field, is_success)| {
        let uncounted = list_at(&status["uncountedTerminatedPods"], field);
        let is_new = |pod: &&&StoredObject| {
            let uid = pod.meta.uid.to_string();
            let is_known = uncounted.iter().any(|known| known.as_str() == Some(&*uid));
            has_succeeded(pod) == is_success && pod.meta.has_finalizer(TRACKING_FINALIZER) && !is_known
        };
        let uncounted = uncounted
            .len()
            .saturating_add(ended.iter().filter(is_new).count());
        let uncounted = u64::try_from(uncounted).unwrap_or(u64::MAX);
        status[field].as_u64().unwrap_or(0).saturating_add(uncounted)
    })
}

/// When a pod ended: its last container, else when it was no longer ready, else when it was deleted.
fn finished_at(pod: &StoredObject) -> Timestamp {
    let time = |value: &Value| Timestamp::parse(value.as_str()?).ok();
    let statuses = list_at(pod.at(&["status"]).unwrap_or(&Value::Null), "containerStatuses").iter();
    let ends = statuses.map(|status| time(&status["state"]["terminated"]["finishedAt"]));
    let last_end = ends
        .collect::<Option<Vec<_>>>()
        .and_then(|ends| ends.into_iter().max());
    let ready = find_condition(pod, "Ready");
    let unready = || time(&ready["lastTransitionTime"]).filter(|_| ready["status"] == "False");
    let deleted = || {
        let grace = pod.meta.deletion_grace_period_seconds.unwrap_or(0);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        Some(pod.meta.deletion_timestamp?.saturating_sub(grace))
    };
    let ended = last_end.or_else(unready).or_else(deleted);
    ended.or(pod.meta.creation_timestamp).unwrap_or_default()
}
