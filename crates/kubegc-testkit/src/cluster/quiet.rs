//! Waits until the tasks of the runtime are idle: no task makes requests, and no watch has unread events.

use std::{sync::Arc, time::Duration};

use super::{Inner, NotSettled};
use crate::clock::tokio_is_paused;

/// Number of scheduler yields without a request after which tasks count as idle. Each hop between tasks takes
/// one: from the watch's body to the reflector, to the reconciler, to the client's queue.
const YIELDS: u32 = 64;
/// The same after a step of the control plane, which need not wait for every task.
pub(super) const YIELDS_BETWEEN: u32 = 8;
/// Factor for waiting longer while a request or an unread event is pending.
const LONGER: u32 = 10;

pub(super) struct TasksIdle {
    pub(super) seen: u64,
    /// The clients and watches with unread events.
    pub(super) unread: Vec<Arc<str>>,
}

impl Inner {
    /// Yields and then pauses, until a request or another end. Returns whether there was neither.
    async fn stays_quiet(&self, yields: u32, pauses: u32, ends: impl Fn() -> bool) -> bool {
        let seen = self.pulse.count();
        for round in 0..yields.saturating_add(pauses) {
            if self.pulse.count() != seen || ends() {
                return false;
            }
            if round < yields {
                tokio::task::yield_now().await;
            } else {
                pause().await;
            }
        }
        self.pulse.count() == seen
    }

    /// Yields to tasks until `yields` yields in a row see no request.
    pub(super) async fn yield_to_tasks(&self, yields: u32) {
        let mut seen = self.pulse.count();
        let mut still = 0;
        for _ in 0..yields * LONGER {
            tokio::task::yield_now().await;
            let now = self.pulse.count();
            still = if now == seen { still + 1 } else { 0 };
            seen = now;
            if still == yields {
                return;
            }
        }
    }

    /// Runs tasks until they are idle, or have made as many requests as one settle may.
    pub(super) async fn wait_for_tasks(&self) {
        // `settle` reports a hot loop.
        let _rest = self.wait_for_tasks_within(self.calls()).await;
    }

    pub(super) async fn wait_for_tasks_within(
        &self,
        calls_before: u64,
    ) -> Result<TasksIdle, Box<NotSettled>> {
        // Tasks on other threads, and timers of a clock that runs, need real time.
        let pauses = match tokio::runtime::Handle::try_current() {
            Ok(_) if !tokio_is_paused() => u32::try_from(self.patience.as_millis()).unwrap_or(u32::MAX),
            _ => 0,
        };
        loop {
            self.check_bound(calls_before)?;
            let seen = self.pulse.count();
            if !self.stays_quiet(YIELDS, pauses, || false).await {
                continue;
            }
            let unread = self.unread();
            // Clients that do not read their watches get enough time to read.
            let is_read = || self.unread().is_empty();
            if unread.is_empty()
                || self
                    .stays_quiet(YIELDS * LONGER, pauses.saturating_mul(LONGER), is_read)
                    .await
            {
                return Ok(TasksIdle { seen, unread });
            }
        }
    }

    /// Requests that have begun and are not held back, and watches with something to read.
    fn unread(&self) -> Vec<Arc<str>> {
        self.shared.with(|server| {
            let state = self.state.lock();
            let now = server.now();
            let waiting = state.requests.values();
            let waiting = waiting.filter(|held| held.is_none_or(|until| until <= now));
            let behind = state.watches.values();
            let behind = behind.filter(|watch| watch.caught_up_at != Some(server.revision()));
            let requests = waiting.map(|_| Arc::from("a request"));
            requests
                .chain(behind.map(|watch| Arc::clone(&watch.what)))
                .collect()
        })
    }
}

/// A short real time. Needs no timers, which a runtime may lack.
async fn pause() {
    let slept = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)));
    // It cannot panic; when the runtime shuts down, the wait is over anyway.
    let _done = slept.await;
}
