//! Response bodies: complete ones, and watches that stream as long as the client reads.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use kubegc_core::Timestamp;
use kubegc_sim::Status;

use crate::{
    cluster::{Inner, OpenWatch},
    fault::{Fault, WATCH_EXPIRED},
    http::{Watch, WatchStep},
    nodes::LogBody,
    service::broken,
};

/// The body of a response of a [`ClusterService`](crate::ClusterService). The body of a watch ends with the
/// watch.
pub struct ResponseBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Watch(Box<WatchBody>),
    Log(LogBody),
}

impl ResponseBody {
    pub(crate) const fn whole(body: Bytes) -> Self {
        Self(Kind::Whole(Some(body)))
    }

    pub(crate) const fn log(log: LogBody) -> Self {
        Self(Kind::Log(log))
    }

    pub(crate) fn watch(
        inner: &Arc<Inner>,
        client: &str,
        what: &str,
        watch: Watch,
        fault: Option<Fault>,
    ) -> Self {
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
        Self(Kind::Watch(Box::new(WatchBody {
            inner: Arc::clone(inner),
            number,
            watch: Some(watch),
            end: fault.and_then(|fault| Some((fault.events_before_end()?, fault))),
            woken: None,
        })))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.0 {
            Kind::Whole(body) => {
                let body = body.take().filter(|body| !body.is_empty());
                Poll::Ready(body.map(|body| Ok(Frame::data(body))))
            }
            Kind::Watch(watch) => watch
                .poll(context)
                .map(|lines| lines.map(|lines| lines.map(Frame::data))),
            Kind::Log(log) => log
                .poll(context)
                .map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(body) if body.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Kind::Watch(_) | Kind::Log(_) => SizeHint::default(),
        }
    }
}

/// A watch as far as it has been read.
struct WatchBody {
    inner: Arc<Inner>,
    number: u64,
    /// `None` after its end.
    watch: Option<Watch>,
    /// The fault that ends it, after this number of further events.
    end: Option<(u32, Fault)>,
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
                    let lines = match &mut self.end {
                        Some((events_left, _)) => watch.first_events(&lines, events_left),
                        None => lines,
                    };
                    if lines.is_empty() {
                        continue;
                    }
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
        let (_, fault) = self.end.take_if(|(events_left, _)| *events_left == 0)?;
        let expired = Status::new(410, "Expired", WATCH_EXPIRED).to_json();
        let expired = self.watch.as_ref().map(|watch| watch.error_event(expired));
        self.close();
        Some(match fault {
            Fault::BreakWatch { .. } => Some(Err(broken())),
            Fault::ExpireWatch { .. } => expired.map(Ok),
            _ => None,
        })
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
