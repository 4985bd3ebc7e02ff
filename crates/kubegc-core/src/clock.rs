//! Time as drivers see it: a value that never goes back, and a way to wait.

use async_trait::async_trait;

use crate::Timestamp;

/// The clock of a driver. Planners and state machines get their time as an argument instead.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The present. Never earlier than what an earlier call returned.
    fn now(&self) -> Timestamp;

    /// Waits until `now() >= until`. Returns at once where that is already so. Cancel safe.
    async fn sleep_until(&self, until: Timestamp);
}
