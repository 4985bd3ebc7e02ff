//! Decides how a watch with faults delivers: late, twice, or only the newer of two changes.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use kubegc_core::{Clock, ObjectMeta, StoreError, Timestamp, Uid, WatchStream, store::WatchItem};
use parking_lot::Mutex;
use serde_json::Value;

use super::{FaultPlan, State};

/// A watch that lags, repeats and skips, but never reorders.
pub(super) struct FaultyWatch<T> {
    pub(super) stream: Box<dyn WatchStream<T>>,
    pub(super) plan: FaultPlan,
    pub(super) state: Arc<Mutex<State>>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    /// Read from the stream and not yet delivered, with the time before which they are held back.
    pub(super) held: VecDeque<(Option<Timestamp>, WatchItem<T>)>,
    /// How the stream ended, to be told once everything held is delivered.
    pub(super) ended: Option<Option<StoreError>>,
}

impl<T: Watched> FaultyWatch<T> {
    /// Takes what the stream has. Waits only where nothing is held.
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
        let mut state = self.state.lock();
        let rng = &mut state.script.rng;
        if let Some((_, last)) = self.held.back_mut()
            && same_object(last, &item)
            && rng.chance(self.plan.coalesced_per_mille)
        {
            *last = item;
            return;
        }
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

/// An object as a watch delivers it.
pub(super) trait Watched: Clone + Send {
    /// The uid.
    fn uid(&self) -> Uid;
}

impl Watched for ObjectMeta {
    fn uid(&self) -> Uid {
        self.uid.clone()
    }
}

impl Watched for Vec<u8> {
    fn uid(&self) -> Uid {
        let object: Value = serde_json::from_slice(self).unwrap_or_default();
        object["metadata"]["uid"].as_str().unwrap_or_default().into()
    }
}

/// Whether the newer of two changes says all that the older one did.
fn same_object<T: Watched>(older: &WatchItem<T>, newer: &WatchItem<T>) -> bool {
    match (older, newer) {
        (WatchItem::Applied(older), WatchItem::Applied(newer) | WatchItem::Deleted(newer)) => {
            older.uid() == newer.uid()
        }
        _ => false,
    }
}

#[async_trait]
impl<T: Watched> WatchStream<T> for FaultyWatch<T> {
    async fn next(&mut self) -> Option<Result<WatchItem<T>, StoreError>> {
        self.fill().await;
        if let (Some((Some(due), _)), Some(clock)) = (self.held.front(), &self.clock) {
            clock.sleep_until(*due).await;
        }
        if let Some((_, item)) = self.held.pop_front() {
            return Some(Ok(item));
        }
        // Told once; whoever asks again gets the end.
        match self.ended.replace(None) {
            Some(Some(error)) => Some(Err(error)),
            _ => None,
        }
    }
}
