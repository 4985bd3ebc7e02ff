//! Decides how one notices that something happens: by a count, and by waking.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// Counts what happens, and wakes those who wait for more.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    waiting: Notify,
}

impl Pulse {
    /// Something happened.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::SeqCst);
        self.waiting.notify_waiters();
    }

    /// How much has happened.
    pub(crate) fn count(&self) -> u64 {
        self.beats.load(Ordering::SeqCst)
    }

    /// Waits until more than that has happened. Cancel safe.
    pub(crate) async fn after(&self, seen: u64) {
        loop {
            let mut woken = pin!(self.waiting.notified());
            // Before the look: a beat between the two would be missed.
            woken.as_mut().enable();
            if self.count() != seen {
                return;
            }
            woken.await;
        }
    }
}
