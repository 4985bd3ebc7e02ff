//! Decides when a cluster is at rest, and lets time pass where a test allows it.

use std::{fmt, sync::Arc, time::Duration};

use kubegc_core::{Clock, Timestamp};

use super::{
    Cluster, Inner, NotSettled, Rest,
    control::{Idle, Turned},
    quiet::{Stillness, TURNS_BETWEEN},
};
use crate::audit::Audit;

/// How a cluster came to rest.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The requests that were made meanwhile.
    pub calls: Audit,
    /// How much time passed, by the cluster's clock.
    pub time_passed: Duration,
    /// What is left to wait for.
    pub rest: Rest,
    /// Clients that hold a request or a watch and do not read on, although there is something to read.
    pub unread: Vec<Arc<str>>,
}

impl Cluster {
    /// Lets the tasks of the runtime and the control plane work until nobody has anything to do. Time does not pass.
    ///
    /// At rest means: no request is under way, every watch has been read to its end, no task has asked for anything during many turns (with a running clock: and
    /// for [some time](crate::Builder::patience)), and the control plane is idle. The answer says what is left to wait for.
    ///
    /// # Errors
    /// More requests than [`Builder::calls_max`](crate::Builder::calls_max) were made: the error shows who asks for what again and again.
    pub async fn settle(&self) -> Result<Settled, Box<NotSettled>> {
        self.settle_within(Duration::ZERO).await
    }

    /// The same, and lets up to this much time pass, from one due time to the next: pods end, the control plane tries again what did not work.
    ///
    /// Where the cluster follows tokio's clock, all of it passes, since nobody knows which timers tasks have. Otherwise it ends as soon as
    /// nothing is due.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn settle_within(&self, time: Duration) -> Result<Settled, Box<NotSettled>> {
        let inner = &*self.inner;
        let began = inner.clock.now();
        let deadline = began.saturating_add(time);
        let calls_before = inner.calls();
        loop {
            let (idle, stillness) = inner.settle_now(calls_before).await?;
            let now = inner.clock.now();
            let due = idle.due_at();
            // A clock that runs has reached it meanwhile.
            if due.is_some_and(|due| idle.at < due && due <= now.min(deadline)) {
                continue;
            }
            let rest = inner.rest(idle);
            let next = match &rest {
                Rest::Waiting { until, .. } => idle.retry_at.into_iter().chain([*until]).min(),
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
                    inner.pass_until(next, stillness.seen).await;
                }
                _ => {
                    return Ok(Settled {
                        calls: self.audit().after(calls_before),
                        time_passed: now.since(began),
                        rest,
                        unread: stillness.unread,
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

    /// Lets everybody work until nobody has anything to do now.
    async fn settle_now(&self, calls_before: u64) -> Result<(Idle, Stillness), Box<NotSettled>> {
        loop {
            let stillness = self.quieten_within(calls_before).await?;
            loop {
                match self.turn() {
                    Turned::Idle(idle) if self.pulse.count() == stillness.seen => {
                        return Ok((idle, stillness));
                    }
                    Turned::Idle(_) => break,
                    Turned::Worked => {}
                    Turned::Called(_) => {
                        self.give_turns(TURNS_BETWEEN).await;
                        self.check_bound(calls_before)?;
                    }
                }
            }
        }
    }

    /// Lets time pass until then, or until somebody does something.
    async fn pass_until(&self, until: Timestamp, seen: u64) {
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
    /// What is left, and the writes that were made.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.rest)?;
        write!(f, "{}", self.calls.writes())
    }
}
