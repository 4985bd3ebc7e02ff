//! A clock for the adapters: the wall clock at the start, then the monotonic clock of tokio.
//!
//! The adapters re-export [`TokioClock`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use kubegc_core::{Clock, Timestamp};
use tokio::time::{Instant, sleep_until};

/// The wall clock at its creation, and tokio's monotonic clock since then.
///
/// # Guarantees
/// It never goes backwards, even if the wall clock is set. While tokio's clock is paused, it does not
/// advance.
///
/// # Assumptions
/// It is used within a tokio runtime whose time is enabled.
///
/// The wall clock is read once, when this clock is created, and must be correct then. A device that boots in
/// 1970 and sets its time from the network should create the clock afterwards. Otherwise times from other
/// sources, such as creation times of containers, are in the future (their age is zero) or too old. Times of
/// this clock, such as the first detection of an image, are consistent with each other, but not with those of
/// another clock. The length of a sleep is always correct. Time while the machine is suspended does not
/// count.
///
/// # Examples
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// use std::time::Duration;
/// use kubegc_core::{Clock, Timestamp};
/// use kubegc_tokio::TokioClock;
/// let clock = TokioClock::starting_at(Timestamp::from_secs(100));
/// clock.sleep_until(Timestamp::from_secs(130)).await;
/// assert_eq!(clock.now().since(Timestamp::from_secs(130)), Duration::ZERO);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    base: Timestamp,
    start: Instant,
}

impl TokioClock {
    /// A clock that starts at the time of the wall clock.
    pub fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the only place that reads the clock")]
        let now = SystemTime::now();
        // A wall clock before the epoch counts as the epoch.
        let passed = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::starting_at(Timestamp::EPOCH.saturating_add(passed))
    }

    /// A clock that starts at this time.
    pub fn starting_at(now: Timestamp) -> Self {
        Self {
            base: now,
            start: Instant::now(),
        }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.base.saturating_add(self.start.elapsed())
    }

    async fn sleep_until(&self, until: Timestamp) {
        loop {
            let left = until.since(self.now());
            if left.is_zero() {
                return;
            }
            // A time that tokio cannot represent is never reached.
            match Instant::now().checked_add(left) {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
