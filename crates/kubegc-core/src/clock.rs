//! The clock of drivers: a monotonic time, and a way to wait.

use async_trait::async_trait;

use crate::Timestamp;

/// The clock of a driver. Planners and state machines receive the time as an argument instead.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The current time. Never earlier than the result of an earlier call.
    fn now(&self) -> Timestamp;

    /// Waits until `now() >= until`. Returns immediately if that is already so. Cancel safe.
    async fn sleep_until(&self, until: Timestamp);
}
