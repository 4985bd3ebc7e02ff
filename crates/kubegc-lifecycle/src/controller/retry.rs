//! How long a unit waits whose work failed and is to be tried again.
//!
//! # Upstream
//! `ItemExponentialFailureRateLimiter` of client-go's workqueue, with the times that the controllers give it. Left out: the bucket that all items of a queue
//! share, 10 a second with a burst of 100, and that an external provisioner gives a volume up for a quarter of an hour after 15 failures.
//!
//! Plugins of volumes within Kubernetes are not asked through such a queue: `exponentialbackoff` of `goroutinemap` blocks the operation of one volume, whatever
//! happens, and what tries again after it is the next change or resync.

use std::time::Duration;

use kubegc_core::Timestamp;

use super::Mechanism;
use crate::period::pass_at;

/// The first and the longest wait of most controllers.
const QUEUE: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1_000)];
/// The same of external provisioners: `NewProvisionController` in `sig-storage-lib-external-provisioner`.
const PROVISIONER: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(1_000)];
/// The same of operations on volumes.
const OPERATION: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(122)];

/// The wait after a failure that `failures` others came before, without a success between.
pub(super) fn wait(mechanism: Mechanism, failures: u32) -> Duration {
    match mechanism {
        Mechanism::ExternalVolumes => doubled(PROVISIONER, failures),
        _ => doubled(QUEUE, failures),
    }
}

/// Up to when an operation on a volume is blocked that failed now, `failures` others having come before; and the first resync after that, counted from now.
pub(super) fn blocked(now: Timestamp, failures: u32, resync: Duration) -> (Timestamp, Timestamp) {
    let until = now.saturating_add(doubled(OPERATION, failures));
    let beyond = until.saturating_add(Duration::from_nanos(1));
    (until, pass_at(now, beyond, resync))
}

fn doubled([first, longest]: [Duration; 2], failures: u32) -> Duration {
    let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_thousand_seconds() {
        for (failures, queue, provisioner) in [
            (0, 5, 15_000),
            (1, 10, 30_000),
            (6, 320, 960_000),
            (7, 640, 1_000_000),
            (17, 655_360, 1_000_000),
            (18, 1_000_000, 1_000_000),
            (31, 1_000_000, 1_000_000),
            (32, 1_000_000, 1_000_000),
            (u32::MAX, 1_000_000, 1_000_000),
        ] {
            for (mechanism, millis) in [
                (Mechanism::Jobs, queue),
                (Mechanism::ExternalVolumes, provisioner),
            ] {
                let expected = Duration::from_millis(millis);
                assert_eq!(wait(mechanism, failures), expected, "{mechanism} {failures}");
            }
        }
    }

    #[test]
    fn l5_5_an_operation_is_blocked_and_tried_at_the_next_resync() {
        let now = Timestamp::from_secs(1_000);
        let resync = Duration::from_secs(15);
        for (failures, millis, again) in [
            (0, 500, 15),
            (4, 8_000, 15),
            (5, 16_000, 30),
            (6, 32_000, 45),
            (7, 64_000, 75),
            (8, 122_000, 135),
            (u32::MAX, 122_000, 135),
        ] {
            let (until, again_at) = blocked(now, failures, resync);
            assert_eq!(until.since(now), Duration::from_millis(millis));
            assert_eq!(again_at.since(now), Duration::from_secs(again));
        }
        // At the very end it is still blocked.
        let (until, again_at) = blocked(now, 0, Duration::from_millis(500));
        assert_eq!(again_at.since(until), Duration::from_millis(500));
    }
}
