//! A counter of events that wakes its waiters.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// Counts events, and wakes tasks that wait for more.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    waiting: Notify,
}

impl Pulse {
    /// Records one event.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::SeqCst);
        self.waiting.notify_waiters();
    }

    /// Number of events so far.
    pub(crate) fn count(&self) -> u64 {
        self.beats.load(Ordering::SeqCst)
    }

    /// Waits until the count differs from `seen`. Cancel safe.
    pub(crate) async fn after(&self, seen: u64) {
        loop {
            let mut woken = pin!(self.waiting.notified());
            // Register before reading the count: an event between the two would be missed.
            woken.as_mut().enable();
            if self.count() != seen {
                return;
            }
            woken.await;
        }
    }
}
