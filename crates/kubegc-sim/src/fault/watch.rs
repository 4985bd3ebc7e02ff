//! Watches with faults: changes are delivered late or twice.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use kubegc_core::{Clock, RequestMatcher, StoreError, Timestamp, WatchStream, store::WatchItem};
use parking_lot::Mutex;

use super::{Fault, FaultPlan, script::Script};

/// A watch that delays and repeats changes, but never reorders them.
pub(super) struct FaultyWatch<T> {
    pub(super) stream: Box<dyn WatchStream<T>>,
    pub(super) plan: FaultPlan,
    pub(super) script: Arc<Mutex<Script<RequestMatcher, Fault>>>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    /// Received from the stream and not yet delivered, each with its earliest delivery time.
    pub(super) held: VecDeque<(Option<Timestamp>, WatchItem<T>)>,
    /// The end of the stream, which is returned after all held changes are delivered.
    pub(super) ended: Option<Option<StoreError>>,
}

impl<T: Clone> FaultyWatch<T> {
    /// Receives the available items of the stream. Waits only if no item is held.
    async fn fill(&mut self) {
        while self.ended.is_none() {
            let wait = self.held.is_empty();
            let next = {
                let mut next = pin!(self.stream.next());
                poll_fn(|context| match next.as_mut().poll(context) {
                    Poll::Ready(item) => Poll::Ready(Some(item)),
                    Poll::Pending if wait => Poll::Pending,
                    Poll::Pending => Poll::Ready(None),
                })
                .await
            };
            match next {
                None => return,
                Some(Some(Ok(item))) => self.hold(item),
                Some(Some(Err(error))) => self.ended = Some(Some(error)),
                Some(None) => self.ended = Some(None),
            }
        }
    }

    fn hold(&mut self, item: WatchItem<T>) {
        let mut script = self.script.lock();
        let rng = script.rng();
        let micros = u64::try_from(self.plan.watch_delay_max.as_micros()).unwrap_or(u64::MAX);
        let due = self.clock.as_ref().filter(|_| micros > 0).map(|clock| {
            let delay = Duration::from_micros(rng.below(micros.saturating_add(1)));
            clock.now().saturating_add(delay)
        });
        let twice = rng.chance(self.plan.duplicates_per_mille);
        if twice {
            self.held.push_back((due, item.clone()));
        }
        self.held.push_back((due, item));
    }
}

#[async_trait]
impl<T: Clone + Send> WatchStream<T> for FaultyWatch<T> {
    async fn next(&mut self) -> Option<Result<WatchItem<T>, StoreError>> {
        self.fill().await;
        if let (Some((Some(due), _)), Some(clock)) = (self.held.front(), &self.clock) {
            clock.sleep_until(*due).await;
        }
        if let Some((_, item)) = self.held.pop_front() {
            return Some(Ok(item));
        }
        // Returned once; later calls return the end.
        match self.ended.replace(None) {
            Some(Some(error)) => Some(Err(error)),
            _ => None,
        }
    }
}
