//! Runs one future on a simulated clock. If the future waits, time advances to the next wake-up.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use kubegc_sim::SimClock;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs a future to its end.
///
/// # Panics
/// The future waits for something that never happens.
pub(crate) fn block_on<T>(clock: &SimClock, future: impl Future<Output = T>) -> T {
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut future = pin!(future);
    loop {
        if flag.0.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return value;
            }
        } else {
            clock.set(clock.next_wake().expect("the future waits for nothing"));
        }
    }
}
