//! Exponential backoff.

use std::time::Duration;

use crate::Timestamp;

/// The delay of a retry after this many earlier consecutive failures: it doubles from the first to the
/// longest.
pub fn doubled([first, longest]: [Duration; 2], failures: u32) -> Duration {
    let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// Counts failures in a row, and gives the time of each retry.
#[derive(Debug)]
pub struct Backoff {
    delays: [Duration; 2],
    forget_after: Duration,
    failures: u32,
    /// When the delay after the last failure ends.
    again_at: Option<Timestamp>,
}

impl Backoff {
    /// A backoff with the delay after the first failure and the longest one. A failure that is `forget_after`
    /// later than the last retry counts as the first; with [`Duration::MAX`] none does.
    pub const fn new(delays: [Duration; 2], forget_after: Duration) -> Self {
        Self {
            delays,
            forget_after,
            failures: 0,
            again_at: None,
        }
    }

    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns whether a failure at this time counts as the first.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.again_at.is_none_or(|at| now.since(at) >= self.forget_after)
    }

    /// Counts a failure and returns the time of the retry.
    #[must_use = "the retry is the caller's"]
    pub fn failed(&mut self, now: Timestamp) -> Timestamp {
        if self.is_fresh(now) {
            self.failures = 0;
        }
        let again_at = now.saturating_add(doubled(self.delays, self.failures));
        self.failures = self.failures.saturating_add(1);
        self.again_at = Some(again_at);
        again_at
    }

    /// Starts over.
    pub const fn succeeded(&mut self) {
        self.failures = 0;
        self.again_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_over_after_a_time_without_failures() {
        let delays = [Duration::from_millis(800), Duration::from_secs(30)];
        let mut backoff = Backoff::new(delays, Duration::from_secs(120));
        let mut now = Timestamp::from_secs(1_000);
        for millis in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let again_at = backoff.failed(now);
            assert_eq!(again_at.since(now), Duration::from_millis(millis));
            now = again_at;
        }
        let almost = now.saturating_add(Duration::from_nanos(119_999_999_999));
        assert_eq!(backoff.failed(almost).since(almost), delays[1]);
        let later = almost.saturating_add(Duration::from_secs(150));
        assert_eq!(backoff.failed(later).since(later), delays[0]);
        assert_eq!(backoff.failures(), 1);
        backoff.succeeded();
        assert_eq!(backoff.failed(later).since(later), delays[0]);
    }
}
