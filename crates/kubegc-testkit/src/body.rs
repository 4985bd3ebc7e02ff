//! Response bodies: complete ones, and watches that stream as long as the client reads.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kubegc_core::Timestamp;
use kubegc_sim::Status;

use crate::{
    cluster::{Inner, OpenWatch},
    fault::{Fault, WATCH_EXPIRED},
    http::{Watch, WatchStep},
    service::broken,
};

/// The body of a response of a [`ClusterService`](crate::ClusterService). The body of a watch ends with the
/// watch.
pub type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

pub(crate) fn whole(body: Bytes) -> ResponseBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

/// A body whose parts are polled one after another.
pub(crate) fn streamed(
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> + Send + 'static,
) -> ResponseBody {
    let frames =
        stream::poll_fn(move |context| poll(context).map(|part| part.map(|part| part.map(Frame::data))));
    StreamBody::new(frames).boxed_unsync()
}

pub(crate) fn watched(
    inner: &Arc<Inner>,
    client: &str,
    what: &str,
    mut watch: Watch,
    fault: Option<Fault>,
) -> ResponseBody {
    let number = {
        let mut state = inner.state.lock();
        let number = state.number();
        let open = OpenWatch {
            client: client.into(),
            what: format!("{client} watching {what}").into(),
            caught_up_at: None,
        };
        state.ended.remove(client);
        state.watches.insert(number, open);
        number
    };
    watch.events_left = fault.as_ref().and_then(Fault::events_before_end);
    let mut watch = WatchBody {
        inner: Arc::clone(inner),
        number,
        watch: Some(watch),
        fault,
        woken: None,
    };
    streamed(move |context| watch.poll(context))
}

/// A watch as far as it has been read.
struct WatchBody {
    inner: Arc<Inner>,
    number: u64,
    /// `None` after its end.
    watch: Option<Watch>,
    /// The fault that ends it once no events are left.
    fault: Option<Fault>,
    woken: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl WatchBody {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        loop {
            if let Some(last) = self.ended_by_fault() {
                return Poll::Ready(last);
            }
            let Some(watch) = &mut self.watch else {
                return Poll::Ready(None);
            };
            let (step, revision) = self.inner.shared.with(|server| {
                let step = watch.poll(server);
                if let WatchStep::Wait { .. } = step
                    && let Some(open) = self.inner.state.lock().watches.get_mut(&self.number)
                {
                    open.caught_up_at = Some(server.revision());
                }
                (step, server.revision())
            });
            let until = match step {
                WatchStep::Lines(lines) => {
                    self.inner.pulse.beat();
                    return Poll::Ready(Some(Ok(lines)));
                }
                WatchStep::End => {
                    self.close();
                    return Poll::Ready(None);
                }
                WatchStep::Wait { until } => until,
            };
            if !self.is_woken(context, revision, until) {
                return Poll::Pending;
            }
        }
    }

    /// Waits for a change after a revision, and for a time. Returns whether one of them has already occurred.
    fn is_woken(&mut self, context: &mut Context<'_>, revision: u64, until: Option<Timestamp>) -> bool {
        let inner = Arc::clone(&self.inner);
        let woken = self.woken.insert(Box::pin(async move {
            tokio::select! {
                biased;
                _ = inner.shared.changed(revision) => {}
                () = inner.clock.sleep_in_background_until(until) => {}
            }
        }));
        woken.as_mut().poll(context).is_ready()
    }

    /// The last event or error that the client receives, once the fault is due.
    fn ended_by_fault(&mut self) -> Option<Option<Result<Bytes, io::Error>>> {
        let watch = self.watch.as_ref().filter(|watch| watch.events_left == Some(0))?;
        let last = match &self.fault {
            Some(Fault::BreakWatch { .. }) => Some(Err(broken())),
            Some(Fault::ExpireWatch { .. }) => {
                let expired = Status::new(410, "Expired", WATCH_EXPIRED).to_json();
                Some(Ok(watch.error_event(expired)))
            }
            _ => None,
        };
        self.close();
        Some(last)
    }

    /// Stops waiting for this watch.
    fn close(&mut self) {
        self.watch = None;
        self.woken = None;
        self.inner.state.lock().watches.remove(&self.number);
        self.inner.pulse.beat();
    }
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.inner.state.lock().drop_watch(self.number);
    }
}
