//! Logs of containers, the closures that serve them, and the part of them that a request selects.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use kubegc_core::{Clock, Timestamp};

use crate::{
    ClusterClock,
    http::{LogRequest, PodTarget},
};

type Lines = Pin<Box<dyn Stream<Item = String> + Send>>;

/// The log of a container. The cluster selects the requested part: the last lines, those since a time, a
/// number of bytes, with or without times.
///
/// # Examples
/// ```
/// use kubegc_testkit::{Log, Timestamp};
/// let log = Log::text("listening\n").line(Timestamp::from_secs(1_767_225_600), "first request");
/// assert!(format!("{log:?}").contains("first request"));
/// ```
#[derive(derive_more::Debug, Default)]
pub struct Log {
    lines: Vec<(Option<Timestamp>, String)>,
    #[debug(skip)]
    more: Option<Lines>,
}

impl Log {
    /// The log of a container that wrote nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lines of a text. They count as written at the time of each request.
    pub fn text(text: &str) -> Self {
        Self {
            lines: text.lines().map(|line| (None, line.to_owned())).collect(),
            more: None,
        }
    }

    /// Adds a line that was written at a time.
    #[must_use]
    pub fn line(mut self, at: Timestamp, line: &str) -> Self {
        self.lines.push((Some(at), line.to_owned()));
        self
    }

    /// The lines that a client gets that follows the log. Its response ends with the stream; without one it
    /// ends after the present lines.
    #[must_use]
    pub fn then(mut self, lines: impl Stream<Item = String> + Send + 'static) -> Self {
        self.more = Some(Box::pin(lines));
        self
    }

    /// The body of the response to a request.
    ///
    /// # Upstream
    /// `ReadLogs` in `pkg/kubelet/kuberuntime/logs/logs.go`, 1.20.2.
    pub(crate) fn select(self, request: &LogRequest, clock: ClusterClock) -> LogBody {
        let now = clock.now();
        let mut body = LogBody {
            first: None,
            left: request.limit_bytes,
            more: self.more.filter(|_| request.follow),
            timestamps: request.timestamps,
            clock,
        };
        let tail = request.tail_lines.and_then(|lines| usize::try_from(lines).ok());
        let start = tail.map_or(0, |lines| self.lines.len().saturating_sub(lines));
        let mut text = Vec::new();
        for (at, line) in self.lines.iter().skip(start) {
            let at = at.unwrap_or(now);
            if request.since.is_none_or(|since| at >= since) {
                body.write(at, line, &mut text);
            }
        }
        body.first = (!text.is_empty()).then(|| text.into());
        body
    }
}

pub(crate) struct LogBody {
    first: Option<Bytes>,
    /// Number of bytes that the client may still receive.
    left: Option<u64>,
    more: Option<Lines>,
    timestamps: bool,
    clock: ClusterClock,
}

impl LogBody {
    fn write(&mut self, at: Timestamp, line: &str, out: &mut Vec<u8>) {
        let mut text = String::new();
        if self.timestamps {
            let whole = at.truncate_to_secs().to_string();
            let nanos = at.as_nanos().rem_euclid(1_000_000_000);
            text = format!("{}.{nanos:09}Z ", whole.trim_end_matches('Z'));
        }
        text.push_str(line);
        text.push('\n');
        let mut bytes = text.as_bytes();
        if let Some(left) = &mut self.left {
            let wanted = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            bytes = &bytes[..wanted];
            *left -= wanted as u64;
        }
        out.extend_from_slice(bytes);
    }

    /// All of it, if no further lines are awaited.
    pub(crate) fn whole(&mut self) -> Option<Bytes> {
        self.more.is_none().then(|| self.first.take().unwrap_or_default())
    }

    /// The next part; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.left == Some(0) {
            self.more = None;
        }
        let line = self.more.as_mut()?.next().await?;
        let mut text = Vec::new();
        self.write(self.clock.now(), &line, &mut text);
        Some(text.into())
    }
}

/// The refusal of a request by a node: an HTTP status and the kubelet's text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct NodeError {
    /// HTTP status, 400 to 599; anything else counts as 500.
    pub code: u16,
    pub message: String,
}

impl NodeError {
    pub fn new(code: u16, message: &str) -> Self {
        Self {
            code: if matches!(code, 400..=599) { code } else { 500 },
            message: message.to_owned(),
        }
    }
}

/// The pods and containers that a closure serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(super) pod: Option<(Arc<str>, Arc<str>)>,
    pub(super) container: Option<Arc<str>>,
}

impl Selection {
    fn selects(&self, target: &PodTarget) -> bool {
        let (pod, container) = (self.pod.as_ref(), self.container.as_deref());
        pod.is_none_or(|(namespace, name)| **namespace == *target.namespace && **name == *target.pod)
            && container.is_none_or(|container| container == target.container)
    }
}

pub(crate) type LogHandler = Arc<dyn Fn(&LogRequest) -> Result<Log, NodeError> + Send + Sync>;

/// The closures of a test, in the order in which they were registered.
pub(crate) type Handlers = Vec<(Selection, LogHandler)>;

/// The closure that serves the log of a container: the latest one.
pub(crate) fn find(handlers: &Handlers, target: &PodTarget) -> Option<LogHandler> {
    let mut latest = handlers.iter().rev();
    let found = latest.find(|(selection, _)| selection.selects(target));
    found.map(|(_, handler)| Arc::clone(handler))
}
