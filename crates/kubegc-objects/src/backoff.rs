//! How long a failed item waits: the longer of its own growing delay and its place in a bucket that all items share (rules W-2 and W-3).
//!
//! # Upstream
//! `DefaultControllerRateLimiter` of client-go's workqueue: 5 ms doubling to 1000 s an item, and 10 a second with a burst of 100 for the queue.

use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use kubegc_core::Timestamp;

use crate::NodeId;

const BASE: Duration = Duration::from_millis(5);
const DELAY_MAX: Duration = Duration::from_secs(1000);
/// From here on the doubled delay is beyond the maximum.
const DOUBLINGS_MAX: u32 = 18;
const BUCKET_BURST: i64 = 100;
const TOKEN_EVERY: Duration = Duration::from_millis(100);

/// The limiter of one queue.
#[derive(Clone, Debug, Default)]
pub struct Limiter {
    failures: HashMap<NodeId, u32, FixedState>,
    /// When the bucket was or will be full of tokens, counting the reservations made: the later, the emptier.
    full_at: Option<Timestamp>,
}

impl Limiter {
    /// The delay of an item that failed just now; counts the failure and takes a token.
    pub fn when(&mut self, node: NodeId, now: Timestamp) -> Duration {
        let failures = self.failures.entry(node).or_insert(0);
        let own = if *failures >= DOUBLINGS_MAX {
            DELAY_MAX
        } else {
            BASE * (1 << *failures)
        };
        *failures = failures.saturating_add(1);
        own.max(self.reserve(now))
    }

    /// Forgets the failures of an item.
    pub fn forget(&mut self, node: NodeId) {
        self.failures.remove(&node);
    }

    /// How often the item has failed since it was last forgotten.
    #[must_use]
    pub fn failures(&self, node: NodeId) -> u32 {
        self.failures.get(&node).copied().unwrap_or(0)
    }

    /// Takes one token, perhaps one of the future, and says how far in the future it is.
    fn reserve(&mut self, now: Timestamp) -> Duration {
        let full_at = self
            .full_at
            .map_or(now, |at| at.max(now))
            .saturating_add(TOKEN_EVERY);
        self.full_at = Some(full_at);
        let missing = full_at.since(now);
        missing.saturating_sub(TOKEN_EVERY * BUCKET_BURST as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w2_delays_double_up_to_a_thousand_seconds() {
        let mut limiter = Limiter::default();
        let mut now = Timestamp::EPOCH;
        for failures in 0..40u32 {
            let expected = if failures >= 18 {
                DELAY_MAX
            } else {
                BASE * (1 << failures)
            };
            assert_eq!(
                limiter.when(NodeId(7), now),
                expected,
                "after {failures} failures"
            );
            now = now.saturating_add(Duration::from_secs(1));
        }
        limiter.forget(NodeId(7));
        assert_eq!(limiter.when(NodeId(7), now), BASE);
    }

    #[test]
    fn w2_the_bucket_gives_a_hundred_at_once_and_ten_a_second_then() {
        let mut limiter = Limiter::default();
        let delays: Vec<_> = (0..102)
            .map(|node| limiter.when(NodeId(node), Timestamp::EPOCH))
            .collect();
        assert!(delays[..100].iter().all(|&delay| delay == BASE));
        assert_eq!(delays[100], Duration::from_millis(100));
        assert_eq!(delays[101], Duration::from_millis(200));
        let later = Timestamp::EPOCH.saturating_add(Duration::from_secs(60));
        assert_eq!(
            limiter.when(NodeId(200), later),
            BASE,
            "a minute later the bucket is full again"
        );
    }
}
