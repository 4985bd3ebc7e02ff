//! The clock of a cluster: set by the test, or following tokio's clock.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kubegc_core::{Clock, Timestamp};
use kubegc_sim::SimClock;
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::Instant};

/// The clock of a [`Cluster`](crate::Cluster). Clones show the same time.
///
/// The clock is manual and is advanced by [`Cluster::advance`](crate::Cluster::advance), or it follows
/// tokio's clock. It follows tokio's clock if that was paused when the cluster was built, or if
/// [`Builder::follow_tokio_clock`](crate::Builder::follow_tokio_clock) requested it. Then advancing one of
/// the two advances both, including tokio's automatic advancing of a paused clock.
#[derive(Clone, Debug)]
pub struct ClusterClock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The second clock shows the same time; its waiters are not counted.
    Manual(SimClock, SimClock),
    Tokio(Arc<Followed>),
}

#[derive(Debug)]
struct Followed {
    /// The cluster's time when tokio's clock showed `base`.
    began: Timestamp,
    base: Instant,
    /// The latest time that was returned. Callers outside of the runtime get it, because tokio's clock
    /// differs there.
    shown: Mutex<Timestamp>,
}

impl ClusterClock {
    /// A clock that begins at a time. It follows tokio's clock if `follow` is set and there is a runtime.
    pub(crate) fn new(began: Timestamp, follow: bool) -> Self {
        if follow && Handle::try_current().is_ok() {
            return Self(Source::Tokio(Arc::new(Followed {
                began,
                base: Instant::now(),
                shown: Mutex::new(began),
            })));
        }
        Self(Source::Manual(SimClock::new(began), SimClock::new(began)))
    }

    /// Whether the clock follows tokio's.
    pub const fn follows_tokio(&self) -> bool {
        matches!(self.0, Source::Tokio(_))
    }

    /// The earliest time that a task waits for on this clock. Always `None` if the clock follows tokio's,
    /// which does not expose its timers.
    pub fn next_wake(&self) -> Option<Timestamp> {
        match &self.0 {
            Source::Manual(clock, _) => clock.next_wake(),
            Source::Tokio(_) => None,
        }
    }

    /// Advances the time: at once, or as tokio's clock does it, stopping at each timer on the way.
    pub(crate) async fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Manual(clock, _) => self.set(clock.now().saturating_add(by)),
            Source::Tokio(_) => tokio::time::sleep(whole_millis(by)).await,
        }
    }

    pub(crate) fn set(&self, now: Timestamp) {
        if let Source::Manual(clock, background) = &self.0 {
            background.set(now);
            clock.set(now);
        }
    }

    /// Waits like [`Clock::sleep_until`], or forever if there is no time to wait for. It is not reported by
    /// [`next_wake`](Self::next_wake). For tasks that never end.
    pub(crate) async fn sleep_in_background_until(&self, until: Option<Timestamp>) {
        match (until, &self.0) {
            (None, _) => std::future::pending().await,
            (Some(until), Source::Manual(_, background)) => background.sleep_until(until).await,
            (Some(until), Source::Tokio(_)) => self.sleep_until(until).await,
        }
    }
}

/// Rounds up to the resolution of tokio's timers.
fn whole_millis(by: Duration) -> Duration {
    let millis = by.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

impl Followed {
    fn now(&self) -> Timestamp {
        let mut shown = self.shown.lock();
        if Handle::try_current().is_ok() {
            let now = self
                .began
                .saturating_add(Instant::now().saturating_duration_since(self.base));
            *shown = now.max(*shown);
        }
        *shown
    }
}

#[async_trait]
impl Clock for ClusterClock {
    fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Manual(clock, _) => clock.now(),
            Source::Tokio(followed) => followed.now(),
        }
    }

    async fn sleep_until(&self, until: Timestamp) {
        match &self.0 {
            Source::Manual(clock, _) => clock.sleep_until(until).await,
            Source::Tokio(followed) => {
                // A timer may be early by less than its resolution.
                while let Some(wait) = Some(until.since(followed.now())).filter(|wait| !wait.is_zero()) {
                    tokio::time::sleep(whole_millis(wait)).await;
                }
            }
        }
    }
}

/// Whether tokio's clock is paused, which means that it does not follow the machine's clock.
pub(crate) fn tokio_is_paused() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let (paused, real) = (Instant::now(), machine_now());
    // A tick of the machine's clock: well below a microsecond.
    while machine_now() == real {
        std::hint::spin_loop();
    }
    Instant::now() == paused
}

/// The machine's time of day.
#[expect(
    clippy::disallowed_methods,
    reason = "a cluster whose clock runs begins now; no other time is read from the machine"
)]
pub(crate) fn machine_time() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A machine whose clock is before 1970 gets the beginning of 1970.
    Timestamp::EPOCH.saturating_add(since_epoch.unwrap_or_default())
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with tokio's clock to detect whether that clock advances; no decision depends on its value"
)]
fn machine_now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_detected_and_followed() {
        assert!(tokio_is_paused());
        let clock = ClusterClock::new(Timestamp::from_secs(100), true);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), Timestamp::from_secs(105));
        clock.sleep_until(Timestamp::from_secs(107)).await;
        assert_eq!(clock.now(), Timestamp::from_secs(107));
        clock.advance(Duration::from_micros(1)).await;
        assert_eq!(clock.now().as_nanos(), 107_001_000_000, "whole milliseconds");
        tokio::time::resume();
        assert!(!tokio_is_paused());
    }

    #[test]
    fn without_a_runtime_a_clock_is_advanced_manually_or_does_not_advance() {
        assert!(!tokio_is_paused());
        assert!(!ClusterClock::new(Timestamp::EPOCH, true).follows_tokio());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let clock = runtime.block_on(async {
            let clock = ClusterClock::new(Timestamp::EPOCH, true);
            clock.advance(Duration::from_secs(1)).await;
            clock
        });
        assert_eq!(clock.now(), Timestamp::EPOCH, "no time was read before");
        runtime.block_on(async { assert_eq!(clock.now(), Timestamp::from_secs(1)) });
        assert_eq!(clock.now(), Timestamp::from_secs(1));
    }
}
