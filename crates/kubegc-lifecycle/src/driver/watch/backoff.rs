//! How long to wait after a failure.
//!
//! # Upstream
//! `NewReflectorWithOptions` in client-go: 800 ms to 30 s, from the beginning after two minutes without a failure. Without its jitter.

use std::time::Duration;

use kubegc_core::Timestamp;

/// The wait after a first failure. Each further one in a row doubles it.
const RETRY_AFTER: Duration = Duration::from_millis(800);
/// The longest wait after a failure.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// After so much time without a failure the next one counts as the first.
const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(in crate::driver) struct Backoff {
    failures: u32,
    /// When the wait after the last one is over.
    again_at: Option<Timestamp>,
}

impl Backoff {
    /// Whether nothing has failed lately.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.again_at.is_none_or(|at| now.since(at) >= FORGET_AFTER)
    }

    /// Counts a failure and says when to try again.
    pub(in crate::driver) fn failed(&mut self, now: Timestamp) -> Timestamp {
        if self.is_fresh(now) {
            self.failures = 0;
        }
        // Beyond six doublings the maximum is reached.
        let wait = RETRY_AFTER * (1 << self.failures.min(6));
        self.failures = self.failures.saturating_add(1);
        let again_at = now.saturating_add(wait.min(RETRY_AFTER_MAX));
        self.again_at = Some(again_at);
        again_at
    }

    pub(in crate::driver) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute_and_begin_anew_after_two_quiet_ones() {
        let mut backoff = Backoff::default();
        let mut now = Timestamp::from_secs(1_000);
        for millis in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let again_at = backoff.failed(now);
            assert_eq!(again_at.since(now), Duration::from_millis(millis));
            now = again_at;
        }
        let almost = now.saturating_add(Duration::from_nanos(119_999_999_999));
        assert_eq!(backoff.failed(almost).since(almost), RETRY_AFTER_MAX);
        let later = almost.saturating_add(Duration::from_secs(150));
        assert_eq!(backoff.failed(later).since(later), RETRY_AFTER);
        backoff.succeeded();
        assert_eq!(backoff.failed(later).since(later), RETRY_AFTER);
    }
}
