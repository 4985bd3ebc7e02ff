//! Retry delays: per-item exponential backoff, and a token bucket that all items of a queue share
//! ([W-2](crate::rules#w-2) and [W-3](crate::rules#w-3)).
//!
//! # Upstream
//! [`DefaultControllerRateLimiter`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/client-go/util/workqueue/default_rate_limiters.go)
//! of client-go's workqueue: 5 ms doubling to 1000 s for an item, and 10 a second with a burst of 100 for the
//! queue.

use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use kubegc_core::{Timestamp, backoff::doubled};

use crate::graph::NodeId;

/// The delay after the first failure of an item, and the longest one.
const DELAYS: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1000)];
/// With this many failures the doubled delay exceeds the maximum.
const DOUBLINGS_MAX: u32 = 18;
const BUCKET_BURST: i64 = 100;
const TOKEN_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Default)]
pub(crate) struct Limiter {
    failures: HashMap<NodeId, u32, FixedState>,
    /// When the bucket is full again, reservations included.
    full_at: Option<Timestamp>,
}

impl Limiter {
    /// Counts a failure of the item, takes a token and returns the delay before the next try.
    pub(crate) fn when(&mut self, node: NodeId, now: Timestamp) -> Duration {
        let failures = self.failures.entry(node).or_insert(0);
        let own = doubled(DELAYS, *failures);
        *failures = failures.saturating_add(1);
        own.max(self.reserve(now))
    }

    /// Counts as many failures of the item as the longest delay needs, and returns that delay.
    pub(crate) fn exhaust(&mut self, node: NodeId) -> Duration {
        self.failures.insert(node, DOUBLINGS_MAX);
        DELAYS[1]
    }

    /// Resets the failure count of an item.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.failures.remove(&node);
    }

    /// Failures of the item since its count was last reset.
    pub(crate) fn failures(&self, node: NodeId) -> u32 {
        self.failures.get(&node).copied().unwrap_or(0)
    }

    /// Takes one token, possibly a future one, and returns the time until it is available.
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
    fn w2_the_bucket_has_a_burst_of_a_hundred_and_refills_ten_a_second() {
        let mut limiter = Limiter::default();
        let delays: Vec<_> = (0..102)
            .map(|node| limiter.when(NodeId(node), Timestamp::EPOCH))
            .collect();
        assert!(delays[..100].iter().all(|&delay| delay == DELAYS[0]));
        assert_eq!(delays[100], Duration::from_millis(100));
        assert_eq!(delays[101], Duration::from_millis(200));
        let later = Timestamp::EPOCH.saturating_add(Duration::from_secs(60));
        assert_eq!(
            limiter.when(NodeId(200), later),
            DELAYS[0],
            "a minute later the bucket is full again"
        );
    }
}
