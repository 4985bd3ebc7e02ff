//! Watches: initial events, changes, objects that enter or leave the selection, and the end.
//!
//! # Upstream
//! `Cacher` and `cacheWatcher` in `apiserver/pkg/storage/cacher`, 1.20.2; the initial list in the stream as
//! of 1.32.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use kubegc_core::{KindId, Timestamp};
use kubegc_sim::{ApiServer, Event, EventType, Filter, StoredObject};
use serde_json::{Value, json};

use super::{
    accept::Encoding,
    options::{ListOptions, Wanted},
    problem::{self, Refusal},
    protobuf,
    render::View,
};

/// Interval of bookmarks, for a watch that requested them.
///
/// # Upstream
/// The time between the last bookmark and the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// `bookmarkFrequency` in `apiserver/pkg/storage/cacher/cacher.go`, 1.20.2.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Maximum number of events sent in one step, so that a step stays short.
const BATCH: u32 = 256;

/// A watch, as far as it has been read.
///
/// It holds no server: [`poll`](Self::poll) is given one each time, and takes the time from it.
#[derive(Clone, Debug)]
pub struct Watch {
    kind: KindId,
    view: Arc<View>,
    namespace: Option<Arc<str>>,
    filter: Filter,
    /// Every change up to this revision has been sent.
    cursor: u64,
    /// Initial objects that are still to be sent.
    initial: VecDeque<Arc<StoredObject>>,
    is_over: bool,
    /// Whether a bookmark is due when the initial objects have been sent.
    marks_end_of_list: bool,
    /// The time of the next bookmark, for a watch that requested them.
    bookmark_at: Option<Timestamp>,
    ends_at: Timestamp,
    /// The number of events that it may still send; `None` for all.
    pub(crate) events_left: Option<u32>,
}

/// The next step of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchStep {
    /// Sends these events, and is to be polled again: one JSON document a line, or, in protobuf, each after
    /// its length.
    Lines(Bytes),
    /// Has no event before the server changes, or before this time. Earlier polling does no harm.
    Wait {
        /// The time at which it has an event to send even if nothing changes.
        until: Option<Timestamp>,
    },
    /// Ends the stream. Every later step is the same.
    End,
}

impl Watch {
    /// Begins a watch.
    ///
    /// # Errors
    /// 504 if the stream should begin with a list of a version that is not reached.
    pub(super) fn begin(
        server: &ApiServer,
        kind: KindId,
        namespace: Option<&str>,
        options: ListOptions,
        view: View,
    ) -> Result<Self, Refusal> {
        let lists = options.send_initial_events;
        let wanted = match lists {
            Some(true) => options.resource_version.reached(server.revision())?,
            _ => options.resource_version,
        };
        let begins_with_list = lists.unwrap_or(!matches!(wanted, Wanted::At(_)));
        let mut watch = Self {
            kind,
            view: Arc::new(view),
            namespace: namespace.map(Arc::from),
            filter: options.filter,
            cursor: match wanted {
                Wanted::At(revision) if !begins_with_list => revision,
                _ => server.revision(),
            },
            initial: VecDeque::new(),
            is_over: false,
            marks_end_of_list: lists == Some(true) && options.bookmarks,
            bookmark_at: None,
            ends_at: server.now().saturating_add(options.timeout),
            events_left: None,
        };
        if options.bookmarks {
            watch.bookmark_at = watch.next_bookmark(server.now());
        }
        if begins_with_list {
            let objects = server.objects(kind, namespace).into_iter();
            watch.initial = objects.filter(|object| watch.selects(server, object)).collect();
        }
        Ok(watch)
    }

    /// Performs one step.
    ///
    /// # Complexity
    /// O(log n) to find the first of n changes kept, and linear in the changes that come before a few hundred
    /// selected ones.
    pub fn poll(&mut self, server: &ApiServer) -> WatchStep {
        if self.is_over {
            return WatchStep::End;
        }
        let mut lines = self.lines();
        let batch = self.events_left.map_or(BATCH, |left| left.min(BATCH));
        while !self.is_over
            && lines.count < batch
            && let Some(object) = self.initial.pop_front()
        {
            self.push(server, &mut lines, "ADDED", &object);
        }
        if lines.count == 0 && std::mem::take(&mut self.marks_end_of_list) {
            lines.push("BOOKMARK", self.view.bookmark(self.cursor, true));
        }
        if lines.count == 0 {
            match server.events_since(self.kind, self.cursor) {
                Ok(events) => {
                    for event in events {
                        self.cursor = event.revision;
                        if let Some((event_type, object)) = self.seen(server, event) {
                            self.push(server, &mut lines, event_type, &object);
                        }
                        if lines.count == batch || self.is_over {
                            break;
                        }
                    }
                }
                Err(response) if response.code == 410 => {
                    self.is_over = true;
                    lines.push("ERROR", problem::of_response(&response).to_json());
                }
                // The kind is no longer served.
                Err(_) => return self.end(),
            }
        }
        match lines.count {
            0 => self.idle(server),
            _ => lines.into_step(self),
        }
    }

    /// The revision up to which every change has been sent.
    pub const fn revision(&self) -> u64 {
        self.cursor
    }

    pub(super) fn media_type(&self) -> &'static str {
        self.view.encoding.stream_type()
    }

    pub(crate) fn error_event(&self, status: Value) -> Bytes {
        let mut lines = self.lines();
        lines.push("ERROR", status);
        lines.bytes.into()
    }

    /// Adds an event, or the error that ends a watch whose object is not converted.
    fn push(&mut self, server: &ApiServer, lines: &mut Lines, event_type: &str, object: &Arc<StoredObject>) {
        match server.shown(self.kind, object) {
            Ok(object) => {
                // No watch begins with the one form that an object cannot take.
                let shown = self.view.object(&object, server.now()).unwrap_or_default();
                lines.push(event_type, shown);
            }
            Err(status) => {
                self.is_over = true;
                lines.push("ERROR", status.to_json());
            }
        }
    }

    fn lines(&self) -> Lines {
        Lines {
            encoding: self.view.encoding,
            bytes: Vec::new(),
            count: 0,
        }
    }

    /// The time of the next bookmark: after a minute, or 2 s before the timeout.
    ///
    /// # Upstream
    /// `nextBookmarkTime` in
    /// [`cache_watcher.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go).
    fn next_bookmark(&self, now: Timestamp) -> Option<Timestamp> {
        let before_end = self.ends_at.saturating_sub(BOOKMARK_BEFORE_END);
        (before_end > now).then(|| before_end.min(now.saturating_add(BOOKMARK_EVERY)))
    }

    fn idle(&mut self, server: &ApiServer) -> WatchStep {
        let now = server.now();
        if let Some(due) = self.bookmark_at
            && now >= due
        {
            self.bookmark_at = self.next_bookmark(now);
            let mut lines = self.lines();
            let revision = self.cursor.max(server.revision());
            lines.push("BOOKMARK", self.view.bookmark(revision, false));
            return lines.into_step(self);
        }
        if now >= self.ends_at {
            return self.end();
        }
        let until = self.bookmark_at.map_or(self.ends_at, |due| due.min(self.ends_at));
        WatchStep::Wait { until: Some(until) }
    }

    const fn end(&mut self) -> WatchStep {
        self.is_over = true;
        WatchStep::End
    }

    /// The event that the watch sends for a change: none, the change, or that an object entered or left the
    /// selection.
    fn seen(&self, server: &ApiServer, event: &Event) -> Option<(&'static str, Arc<StoredObject>)> {
        let is_selected = |object: &&Arc<StoredObject>| self.selects(server, object);
        let before = event.previous.as_ref().filter(is_selected);
        let after = (event.event_type != EventType::Deleted).then_some(&event.object);
        let after = after.filter(is_selected);
        match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(("ADDED", Arc::clone(after))),
            (Some(_), Some(after)) => Some(("MODIFIED", Arc::clone(after))),
            // The last state that was selected, at the revision of the change.
            (Some(_), None) if event.event_type == EventType::Deleted => {
                Some(("DELETED", Arc::clone(&event.object)))
            }
            (Some(before), None) => {
                let mut last = StoredObject::clone(before);
                last.meta.resource_version = event.object.meta.resource_version.clone();
                Some(("DELETED", Arc::new(last)))
            }
        }
    }

    fn selects(&self, server: &ApiServer, object: &StoredObject) -> bool {
        let namespace = &object.meta.namespace;
        self.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
            && server.matches(self.kind, &self.filter, object)
    }
}

/// Events in their form on the wire.
struct Lines {
    encoding: Encoding,
    bytes: Vec<u8>,
    count: u32,
}

impl Lines {
    fn push(&mut self, event_type: &str, object: Value) {
        if self.encoding == Encoding::Protobuf {
            let event = protobuf::encode_event(event_type, &object)
                .or_else(|why| protobuf::encode_event("ERROR", &problem::internal(why).to_json()));
            // A Status can be encoded.
            self.bytes.extend(event.unwrap_or_default());
        } else {
            let line = json!({"type": event_type, "object": object});
            // A value has text keys and finite numbers only: it can be written.
            self.bytes.extend(serde_json::to_vec(&line).unwrap_or_default());
            self.bytes.push(b'\n');
        }
        self.count += 1;
    }

    fn into_step(self, watch: &mut Watch) -> WatchStep {
        if let Some(left) = &mut watch.events_left {
            *left = left.saturating_sub(self.count);
        }
        WatchStep::Lines(self.bytes.into())
    }
}
