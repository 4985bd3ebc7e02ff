//! A counter of events that wakes its waiters.

use tokio::sync::watch;

#[derive(Debug, Default)]
pub(crate) struct Pulse(watch::Sender<u64>);

impl Pulse {
    pub(crate) fn beat(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub(crate) fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the count differs from `seen`. Cancel safe.
    pub(crate) async fn after(&self, seen: u64) {
        let mut counts = self.0.subscribe();
        // It does not fail: the sender lives as long as this.
        let _changed = counts.wait_for(|count| *count != seen).await;
    }
}
