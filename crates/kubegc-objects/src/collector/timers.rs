//! The timers of a collector, in one table.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::Entry};

use kubegc_core::Timestamp;

use crate::graph::NodeId;

/// A timer, named by the effect of its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Timer {
    /// Discovery runs again.
    Discover,
    /// The workers start without the missing lists ([G-16](crate::rules#g-16)).
    Start,
    /// A node is queued again after the delay of the rate limiter. The timer retains the node.
    Retry { node: NodeId, orphan: bool },
    /// The attempt at this position continues.
    Resume(u32),
}

impl Timer {
    /// Whether an item or an attempt waits for this timer.
    pub(super) const fn is_work(self) -> bool {
        matches!(self, Self::Retry { .. } | Self::Resume(_))
    }
}

/// The timers that are set. Each is set at most once.
///
/// # Upstream
/// `insert` of client-go's delaying queue, for all queues at once: [`delaying_queue.go`,
/// 1.36](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/client-go/util/workqueue/delaying_queue.go).
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    /// By time; those of one time in the order in which they were set.
    by_time: BTreeMap<(Timestamp, u64), Timer>,
    /// The keys of `by_time`.
    keys: HashMap<Timer, (Timestamp, u64), FixedState>,
    sets: u64,
}

impl Timers {
    /// Sets a timer. One that is set already expires at the earlier of both times. Returns whether it was not
    /// set before.
    pub(super) fn set(&mut self, timer: Timer, at: Timestamp) -> bool {
        self.sets += 1;
        let key = (at, self.sets);
        match self.keys.entry(timer) {
            Entry::Occupied(mut known) => {
                if at < known.get().0 {
                    self.by_time.remove(known.get());
                    self.by_time.insert(key, timer);
                    known.insert(key);
                }
                false
            }
            Entry::Vacant(new) => {
                new.insert(key);
                self.by_time.insert(key, timer);
                true
            }
        }
    }

    /// Unsets a timer, if it is set.
    pub(super) fn cancel(&mut self, timer: Timer) {
        if let Some(key) = self.keys.remove(&timer) {
            self.by_time.remove(&key);
        }
    }

    /// Removes the next timer that has expired.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        let entry = self.by_time.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        let timer = entry.remove();
        self.keys.remove(&timer);
        Some(timer)
    }

    /// When the timer expires; `None` if it is not set.
    pub(super) fn get(&self, timer: Timer) -> Option<Timestamp> {
        self.keys.get(&timer).map(|&(at, _)| at)
    }

    /// The timers in the order in which they expire.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Timestamp, Timer)> {
        self.by_time.iter().map(|(&(at, _), &timer)| (at, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(i64) -> Timestamp = Timestamp::from_secs;

    const fn retry(node: u32) -> Timer {
        Timer::Retry {
            node: NodeId(node),
            orphan: false,
        }
    }

    #[test]
    fn w2_a_timer_is_set_once_and_expires_at_the_earlier_time() {
        let mut timers = Timers::default();
        assert!(timers.set(retry(1), AT(5)));
        for later in 5..100 {
            assert!(!timers.set(retry(1), AT(later)), "it is set already");
        }
        assert_eq!((timers.get(retry(1)), timers.iter().count()), (Some(AT(5)), 1));
        assert!(!timers.set(retry(1), AT(3)));
        assert_eq!((timers.get(retry(1)), timers.iter().count()), (Some(AT(3)), 1));
        assert_eq!(timers.pop(AT(3)), Some(retry(1)));
        assert_eq!((timers.get(retry(1)), timers.pop(AT(100))), (None, None));
        assert!(timers.set(retry(1), AT(4)), "it is not set any more");
        timers.cancel(retry(1));
        assert_eq!((timers.get(retry(1)), timers.pop(AT(100))), (None, None));
    }
}
