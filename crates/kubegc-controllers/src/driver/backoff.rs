//! The delays between lists, watches and discoveries that fail.
//!
//! # Upstream
//! [`NewReflectorWithOptions`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/tools/cache/reflector.go)
//! in client-go: 800 ms to 30 s, reset after two minutes without a failure. Without its jitter.

use std::time::Duration;

use kubegc_core::Timestamp;

use crate::controller::doubled;

/// The delay after the first failure, and the longest one.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(800), Duration::from_secs(30)];
/// After this time without a failure the next one counts as the first.
const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// When the delay after the last failure ends.
    again_at: Option<Timestamp>,
}

impl Backoff {
    /// Returns whether the last failure is long ago.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.again_at.is_none_or(|at| now.since(at) >= FORGET_AFTER)
    }

    /// Counts a failure and returns the time of the retry.
    pub(super) fn failed(&mut self, now: Timestamp) -> Timestamp {
        if self.is_fresh(now) {
            self.failures = 0;
        }
        let again_at = now.saturating_add(doubled(RETRY_AFTER, self.failures));
        self.failures = self.failures.saturating_add(1);
        self.again_at = Some(again_at);
        again_at
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_30_s_and_start_over_after_two_minutes() {
        let mut backoff = Backoff::default();
        let mut now = Timestamp::from_secs(1_000);
        for millis in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let again_at = backoff.failed(now);
            assert_eq!(again_at.since(now), Duration::from_millis(millis));
            now = again_at;
        }
        let almost = now.saturating_add(Duration::from_nanos(119_999_999_999));
        assert_eq!(backoff.failed(almost).since(almost), RETRY_AFTER[1]);
        let later = almost.saturating_add(Duration::from_secs(150));
        assert_eq!(backoff.failed(later).since(later), RETRY_AFTER[0]);
        backoff.succeeded();
        assert_eq!(backoff.failed(later).since(later), RETRY_AFTER[0]);
    }
}
