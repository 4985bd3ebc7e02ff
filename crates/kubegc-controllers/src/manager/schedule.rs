//! The times of periodic syncs and of retries.
//!
//! # Upstream
//! Syncs:
//! [`wait.UntilWithContext`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apimachinery/pkg/util/wait/backoff.go)
//! after `WaitForCacheSync`: the first sync when all resources are listed, each other a period after the
//! previous one. Syncs are assumed to need no time. Retries:
//! [`ItemExponentialFailureRateLimiter`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/util/workqueue/default_rate_limiters.go).
//! Not modelled: the token bucket that all keys of a queue share.

use std::time::Duration;

use kubegc_core::Timestamp;

use crate::Timing;

/// Delay before a stale key is reconciled again if the object that was read is not put into the cache: the
/// watch delivers it.
pub(super) const STALE_DELAY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct Syncs {
    /// When the last sync started; before the first, when it may start.
    anchor: Timestamp,
    has_begun: bool,
    /// Whether every resource of the controller has been listed.
    pub(super) is_complete: bool,
}

impl Syncs {
    /// No sync has started; the first is due at this time.
    pub(super) const fn new(anchor: Timestamp, is_complete: bool) -> Self {
        Self {
            anchor,
            has_begun: false,
            is_complete,
        }
    }

    /// The first sync that reconciles a key that is due at this time.
    pub(super) fn sync_at(&self, period: Duration, due: Timestamp) -> Timestamp {
        let earliest = if self.has_begun {
            self.anchor.saturating_add(Duration::from_nanos(1))
        } else {
            self.anchor
        };
        multiple_at(self.anchor, due.max(earliest), period)
    }

    /// A sync starts. The next ones count from here.
    pub(super) const fn begin(&mut self, now: Timestamp) {
        (self.anchor, self.has_begun) = (now, true);
    }
}

/// The first time at or after `due` that is a multiple of `period` after `anchor`; `due` itself if there
/// is no period.
pub(super) fn multiple_at(anchor: Timestamp, due: Timestamp, period: Duration) -> Timestamp {
    let passed = due.since(anchor).as_nanos();
    let Some(rest) = passed.checked_rem(period.as_nanos()) else {
        return due;
    };
    if due <= anchor {
        return anchor;
    }
    let wait = if rest == 0 { 0 } else { period.as_nanos() - rest };
    due.saturating_add(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
}

/// The time until which an operation that failed now is blocked, and the first resync after it.
pub(super) fn blocked(timing: &Timing, now: Timestamp, failures: u32) -> (Timestamp, Timestamp) {
    let until = now.saturating_add(timing.retry_delay(failures));
    let after_block = until.saturating_add(Duration::from_nanos(1));
    let again = timing
        .resync
        .map_or(after_block, |resync| multiple_at(now, after_block, resync));
    (until, again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_handles_the_keys_that_are_due_by_then() {
        let at = Timestamp::from_secs;
        let period = Duration::from_secs(20);
        let mut syncs = Syncs::new(at(100), true);
        assert_eq!(syncs.sync_at(period, at(50)), at(100));
        assert_eq!(syncs.sync_at(period, at(101)), at(120));
        syncs.begin(at(100));
        assert_eq!(syncs.sync_at(period, at(100)), at(120), "that sync has started");
        assert_eq!(syncs.sync_at(period, at(120)), at(120));
        assert_eq!(multiple_at(at(0), at(7), Duration::ZERO), at(7));
    }

    #[test]
    fn l5_5_an_operation_is_blocked_and_tried_at_the_next_resync() {
        let now = Timestamp::from_secs(1_000);
        let timing = Timing {
            resync: Some(Duration::from_secs(15)),
            backoff: [Duration::from_millis(500), Duration::from_secs(122)],
            ..Timing::DEFAULT
        };
        for (failures, millis, again) in [
            (0, 500, 15),
            (4, 8_000, 15),
            (5, 16_000, 30),
            (6, 32_000, 45),
            (7, 64_000, 75),
            (8, 122_000, 135),
            (u32::MAX, 122_000, 135),
        ] {
            let (until, again_at) = blocked(&timing, now, failures);
            assert_eq!(until.since(now), Duration::from_millis(millis));
            assert_eq!(again_at.since(now), Duration::from_secs(again));
        }
    }
}
