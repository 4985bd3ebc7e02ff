//! Response bodies: complete ones, and watches that stream as long as the client reads.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kubegc_sim::Status;

use crate::{
    cluster::{Inner, OpenWatch},
    fault::{Fault, WATCH_EXPIRED},
    http::{Watch, WatchStep},
};

/// The body of a response of a [`ClusterService`](crate::ClusterService). The body of a watch ends with the
/// watch.
pub type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// The error of a connection that a fault breaks.
pub(crate) fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "connection reset: injected by the test",
    )
}

pub(crate) fn whole(body: Bytes) -> ResponseBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn streamed(parts: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> ResponseBody {
    // Readers may poll a body after its end.
    StreamBody::new(parts.fuse().map_ok(Frame::data)).boxed_unsync()
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
    let watch = WatchBody {
        inner: Arc::clone(inner),
        number,
        watch: Some(watch),
        fault,
    };
    streamed(stream::unfold(watch, |mut watch| async move {
        let part = watch.next().await?;
        Some((part, watch))
    }))
}

struct WatchBody {
    inner: Arc<Inner>,
    number: u64,
    /// `None` after its end.
    watch: Option<Watch>,
    /// The fault that ends it once no events are left.
    fault: Option<Fault>,
}

impl WatchBody {
    /// The next part; `None` at the end.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(last) = self.ended_by_fault() {
                return last;
            }
            let watch = self.watch.as_mut()?;
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
                    return Some(Ok(lines));
                }
                WatchStep::End => {
                    self.close();
                    return None;
                }
                WatchStep::Wait { until } => until,
            };
            tokio::select! {
                biased;
                _ = self.inner.shared.changed(revision) => {}
                () = self.inner.clock.sleep_in_background_until(until) => {}
            }
        }
    }

    /// The last event or error that the client receives, once the fault is due.
    fn ended_by_fault(&mut self) -> Option<Option<io::Result<Bytes>>> {
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
        self.inner.state.lock().watches.remove(&self.number);
        self.inner.pulse.beat();
    }
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.inner.state.lock().drop_watch(self.number);
    }
}
