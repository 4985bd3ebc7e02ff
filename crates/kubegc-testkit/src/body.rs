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
use serde_json::Value;

use crate::{
    cluster::{Inner, OpenWatch},
    fault::Fault,
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
        end: Option<WatchEnd>,
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
            end,
            changed: None,
            due: None,
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

/// The way in which a fault ends a watch.
pub(crate) struct WatchEnd {
    events_left: u32,
    how: End,
}

#[derive(Clone, Copy)]
enum End {
    Close,
    Break,
    Expire,
}

impl WatchEnd {
    pub(crate) const fn of(fault: Option<&Fault>) -> Option<Self> {
        let (events_left, how) = match fault {
            Some(Fault::EndWatch { after_events }) => (*after_events, End::Close),
            Some(Fault::BreakWatch { after_events }) => (*after_events, End::Break),
            Some(Fault::ExpireWatch { after_events }) => (*after_events, End::Expire),
            _ => return None,
        };
        Some(Self { events_left, how })
    }
}

/// The Status that makes a client relist.
fn expired() -> Value {
    let message = "The resourceVersion for the provided watch is too old.";
    Status::new(410, "Expired", message).to_json()
}

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A watch as far as it has been read.
struct WatchBody {
    inner: Arc<Inner>,
    number: u64,
    /// `None` after its end.
    watch: Option<Watch>,
    end: Option<WatchEnd>,
    changed: Option<Waiting<u64>>,
    due: Option<(Timestamp, Waiting<()>)>,
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
                        Some(end) => watch.first_events(&lines, &mut end.events_left),
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
        let shared = self.inner.shared.clone();
        let mut changed: Waiting<u64> = Box::pin(async move { shared.changed(revision).await });
        let mut woken = changed.as_mut().poll(context).is_ready();
        self.changed = Some(changed);
        match until {
            None => self.due = None,
            Some(until) => {
                if self.due.as_ref().is_none_or(|(due, _)| *due != until) {
                    let clock = self.inner.clock.clone();
                    let sleep = Box::pin(async move { clock.sleep_in_background_until(until).await });
                    self.due = Some((until, sleep));
                }
                if let Some((_, sleep)) = &mut self.due
                    && sleep.as_mut().poll(context).is_ready()
                {
                    self.due = None;
                    woken = true;
                }
            }
        }
        woken
    }

    /// The last event or error that the client receives, once the fault is due.
    fn ended_by_fault(&mut self) -> Option<Option<Result<Bytes, io::Error>>> {
        let end = self.end.as_ref().filter(|end| end.events_left == 0)?;
        let how = end.how;
        self.end = None;
        let expired = self.watch.as_ref().map(|watch| watch.error_event(expired()));
        self.close();
        Some(match how {
            End::Close => None,
            End::Break => Some(Err(broken())),
            End::Expire => expired.map(Ok),
        })
    }

    /// Stops waiting for this watch.
    fn close(&mut self) {
        self.watch = None;
        self.changed = None;
        self.due = None;
        self.inner.state.lock().watches.remove(&self.number);
        self.inner.pulse.beat();
    }
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.inner.state.lock().drop_watch(self.number);
    }
}
