//! A manually advanced clock. No call sleeps in real time.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use kubegc_core::{Clock, Timestamp};
use parking_lot::Mutex;

/// A manually advanced clock. Clones share the time.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use kubegc_core::{Clock, Timestamp};
/// use kubegc_sim::SimClock;
/// let clock = SimClock::new(Timestamp::from_secs(100));
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.now(), Timestamp::from_secs(105));
/// clock.set(Timestamp::EPOCH);
/// assert_eq!(clock.now(), Timestamp::from_secs(105), "it never moves backwards");
/// ```
#[derive(Clone, Debug, Default)]
pub struct SimClock(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    now: Timestamp,
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    sleepers_seen: u64,
}

impl SimClock {
    /// A clock at a time.
    pub fn new(now: Timestamp) -> Self {
        let state = State {
            now,
            ..State::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Advances the time, and wakes all tasks that wait for it.
    pub fn advance(&self, by: Duration) {
        let until = self.0.lock().now.saturating_add(by);
        self.set(until);
    }

    /// Sets the time. An earlier time than the current one has no effect.
    pub fn set(&self, now: Timestamp) {
        let due = {
            let mut state = self.0.lock();
            let now = state.now.max(now);
            state.now = now;
            let later = state.sleepers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut state.sleepers, later)
        };
        // Woken after the lock is released: a waker may read the time.
        for waker in due.into_values() {
            waker.wake();
        }
    }

    /// The earliest time that a task waits for.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let state = self.0.lock();
        state.sleepers.first_key_value().map(|((until, _), _)| *until)
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.0.lock().now
    }

    async fn sleep_until(&self, until: Timestamp) {
        Sleep {
            clock: self,
            until,
            ticket: None,
        }
        .await;
    }
}

/// Waits for a time. The clock drops it when it is dropped.
struct Sleep<'a> {
    clock: &'a SimClock,
    until: Timestamp,
    ticket: Option<u64>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.clock.0.lock();
        if state.now >= this.until {
            return Poll::Ready(());
        }
        let ticket = *this.ticket.get_or_insert_with(|| {
            state.sleepers_seen += 1;
            state.sleepers_seen
        });
        state
            .sleepers
            .insert((this.until, ticket), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.clock.0.lock().sleepers.remove(&(self.until, ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<T>(future: &mut Pin<Box<impl Future<Output = T> + ?Sized>>) -> Poll<T> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn sleepers_wake_at_their_time_and_leave_nothing_behind() {
        let clock = SimClock::default();
        let (early, late) = (Timestamp::from_secs(1), Timestamp::from_secs(2));
        let mut first = clock.sleep_until(early);
        let mut second = clock.sleep_until(late);
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        assert_eq!(clock.next_wake(), Some(early));
        clock.set(early);
        assert!(poll(&mut first).is_ready() && poll(&mut second).is_pending());
        assert_eq!(clock.next_wake(), Some(late));
        drop(second);
        assert_eq!(clock.next_wake(), None);
        assert!(poll(&mut clock.sleep_until(early)).is_ready());
    }
}
