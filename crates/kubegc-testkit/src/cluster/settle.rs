//! Runs a cluster until it is idle, and advances the time if a test allows it.

use std::{fmt, sync::Arc, time::Duration};

use kubegc_core::{Clock, Timestamp};

use super::{
    Cluster, Inner, NotSettled, Rest,
    control::{ClusterStep, Idle},
    quiet::{TasksIdle, YIELDS_BETWEEN},
};
use crate::audit::Audit;

/// The result of settling: an idle cluster.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The requests that were made meanwhile.
    pub calls: Audit,
    /// Time that passed, by the cluster's clock.
    pub time_passed: Duration,
    pub rest: Rest,
    /// Clients that hold a request or a watch and do not read on, although data is available.
    pub unread: Vec<Arc<str>>,
    /// Clients that had watches and have dropped all of them, such as an operator whose task has ended or
    /// panicked.
    pub ended: Vec<Arc<str>>,
}

impl Cluster {
    /// Runs the tasks of the runtime and the control plane until all are idle. Time does not pass.
    ///
    /// A cluster is idle when no request is in flight, every watch is read to its end, no task has made a
    /// request during many scheduler yields, and the control plane has nothing to do. With a running clock,
    /// it also waits for [some time](crate::Builder::patience). The result contains the pending work.
    ///
    /// # Errors
    /// Fails if more requests than [`Builder::calls_max`](crate::Builder::calls_max) were made. The error
    /// shows the most frequent requests and their clients.
    pub async fn settle(&self) -> Result<Settled, Box<NotSettled>> {
        self.settle_within(Duration::ZERO).await
    }

    /// The same, and advances the time by up to `time`, from one due time to the next: pods terminate, and
    /// the control plane retries failed work.
    ///
    /// If the cluster follows tokio's clock, all of `time` passes, because the timers of tasks are unknown.
    /// Otherwise it ends as soon as nothing is due.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn settle_within(&self, time: Duration) -> Result<Settled, Box<NotSettled>> {
        let inner = &*self.inner;
        let began = inner.clock.now();
        let deadline = began.saturating_add(time);
        let calls_before = inner.calls();
        loop {
            let (idle, tasks) = inner.settle_now(calls_before).await?;
            let now = inner.clock.now();
            let due = idle.next.next_at();
            // A clock that runs has reached it meanwhile.
            if due.is_some_and(|due| idle.at < due && due <= now.min(deadline)) {
                continue;
            }
            let rest = inner.rest(idle);
            let next = match &rest {
                Rest::Waiting { until, .. } => idle.next.retry_at.into_iter().chain([*until]).min(),
                Rest::Retrying { at, .. } => Some(*at),
                Rest::Quiet => None,
            };
            let follows = inner.clock.follows_tokio();
            let next = if follows {
                Some(next.unwrap_or(deadline).min(deadline))
            } else {
                next
            };
            match next {
                Some(next) if now < next && next <= deadline => {
                    inner.advance_until(next, tasks.seen).await;
                }
                _ => {
                    return Ok(Settled {
                        calls: self.audit().after(calls_before),
                        time_passed: now.since(began),
                        rest,
                        unread: tasks.unread,
                        ended: inner.state.lock().ended.iter().map(Arc::clone).collect(),
                    });
                }
            }
        }
    }
}

impl Inner {
    pub(super) fn calls(&self) -> u64 {
        self.state.lock().audit.len() as u64
    }

    /// Runs all tasks and the control plane until nothing is left to do at the current time.
    async fn settle_now(&self, calls_before: u64) -> Result<(Idle, TasksIdle), Box<NotSettled>> {
        loop {
            let tasks = self.wait_for_tasks_within(calls_before).await?;
            loop {
                match self.step() {
                    ClusterStep::Idle(idle) if self.pulse.count() == tasks.seen => {
                        return Ok((idle, tasks));
                    }
                    ClusterStep::Idle(_) => break,
                    ClusterStep::Worked => {}
                    ClusterStep::Requested(_) => {
                        self.yield_to_tasks(YIELDS_BETWEEN).await;
                        self.check_bound(calls_before)?;
                    }
                }
            }
        }
    }

    /// Advances the time to `until`, or until the next event.
    async fn advance_until(&self, until: Timestamp, seen: u64) {
        if self.clock.follows_tokio() {
            tokio::select! {
                biased;
                () = self.pulse.after(seen) => {}
                () = self.clock.sleep_until(until) => {}
            }
        } else {
            self.clock.set(until);
        }
    }
}

impl fmt::Display for Settled {
    /// The pending work, the clients that have ended, and the requests that wrote or failed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rest)?;
        if !self.ended.is_empty() {
            write!(f, "; without a watch by now: {}", self.ended.join(", "))?;
        }
        let shown = self.calls.filter(|entry| entry.is_write() || entry.is_failure());
        write!(f, "\n{shown}")
    }
}
