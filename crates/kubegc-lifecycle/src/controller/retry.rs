//! How long a unit waits whose work failed and is to be tried again.
//!
//! # Upstream
//! `ItemExponentialFailureRateLimiter` of client-go's workqueue. Left out: the bucket that all items of a queue share, 10 a second with a burst of 100.

use std::time::Duration;

const WAIT_MIN: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_secs(1_000);

/// The wait after a failure that `failures` others came before, without a success between.
pub(super) fn wait(failures: u32) -> Duration {
    let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
    WAIT_MIN.saturating_mul(factor).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_thousand_seconds() {
        for (failures, millis) in [
            (0, 5),
            (1, 10),
            (17, 655_360),
            (18, 1_000_000),
            (31, 1_000_000),
            (32, 1_000_000),
            (u32::MAX, 1_000_000),
        ] {
            assert_eq!(
                wait(failures),
                Duration::from_millis(millis),
                "{failures} failures"
            );
        }
    }
}
