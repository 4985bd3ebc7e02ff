//! Lists and watches one resource.

use std::{sync::Arc, task::Poll};

use futures_util::{FutureExt as _, future::BoxFuture, poll};
use kubegc_core::{
    ApiResource, Clock, ObjectStore, ResourceVersion, StoreError, Timestamp, WatchStream,
    record::{Record, Resource},
    store::{ObjectList, WatchItem},
};

use super::{Outside, Report, backoff::Backoff};
use crate::{DocumentError, Documents, Input, Key};

/// Maximum number of events that are taken from a watch at once.
const EVENTS_AT_ONCE: usize = 256;

/// Shared state of concurrent operations.
pub(super) struct Tools {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) documents: Arc<dyn Documents>,
    pub(super) outside: Arc<dyn Outside>,
}

impl Tools {
    /// Sleeps until a time, if there is one.
    pub(super) async fn wait(&self, at: Option<Timestamp>) {
        if let Some(at) = at {
            self.clock.sleep_until(at).await;
        }
    }
}

/// The effects of a step of a watch.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) inputs: Vec<Input>,
    pub(super) reports: Vec<Report>,
    pub(super) work: Vec<BoxFuture<'static, Step>>,
    /// Whether discovery must be repeated.
    pub(super) needs_discovery: bool,
}

/// The result of a list or of a read from a watch.
pub(super) struct Step {
    pub(super) resource: Resource,
    epoch: u64,
    kind: Kind,
}

type Stream = Box<dyn WatchStream<Vec<u8>>>;

enum Kind {
    Listed(Result<(ObjectList, Stream), StoreError>),
    Opened(Result<Stream, StoreError>),
    Events {
        events: Vec<WatchItem<Vec<u8>>>,
        /// The end of the watch, if it ended.
        ended: Option<Option<StoreError>>,
        stream: Stream,
    },
}

/// One resource that is listed and watched.
pub(super) struct Watched {
    resource: Resource,
    /// The address of the resource; `None` if it is not served or unknown.
    api: Option<ApiResource>,
    /// Steps of an earlier epoch are ignored.
    epoch: u64,
    is_listed: bool,
    /// The first input to the manager, before the first list: no objects, or the error of the list.
    unlisted: Option<Result<(), StoreError>>,
    /// Whether a list is in progress, and not waiting for its time.
    is_listing: bool,
    /// The version up to which everything was delivered; empty if none is known.
    version: ResourceVersion,
    /// Whether the open watch has delivered anything.
    has_delivered: bool,
    backoff: Backoff,
}

impl Watched {
    pub(super) fn new(resource: Resource) -> Self {
        Self {
            resource,
            api: None,
            epoch: 0,
            is_listed: false,
            unlisted: None,
            is_listing: false,
            version: ResourceVersion::default(),
            has_delivered: false,
            backoff: Backoff::default(),
        }
    }

    /// Returns whether the resource was listed or could not be, and no list is in progress.
    pub(super) const fn is_settled(&self) -> bool {
        (self.is_listed || self.unlisted.is_some()) && !self.is_listing
    }

    /// Returns whether discovery has returned the address of the resource.
    pub(super) const fn is_served(&self) -> bool {
        self.api.is_some()
    }

    /// Processes the discovery result for the resource.
    pub(super) fn discovered(
        &mut self,
        tools: &Arc<Tools>,
        api: Result<&ApiResource, StoreError>,
        effects: &mut Effects,
    ) {
        match api {
            Ok(api) if !api.verbs.list || !api.verbs.watch => {
                let error = StoreError::NotSupported {
                    operation: "watching",
                };
                self.report_unlisted(Err(error), effects);
            }
            Ok(api) if self.api.as_ref() == Some(api) => {}
            Ok(api) => {
                self.api = Some(api.clone());
                self.version = ResourceVersion::default();
                self.list(tools, None, effects);
            }
            // A resource that is not served has no objects. What was served before keeps what is known.
            Err(StoreError::NoMapping { .. }) => self.report_unlisted(Ok(()), effects),
            Err(error) => self.report_unlisted(Err(error), effects),
        }
    }

    /// Returns the manager an empty list, or the error of the list, unless the resource was listed before.
    pub(super) fn report_unlisted(&mut self, response: Result<(), StoreError>, effects: &mut Effects) {
        if self.is_listed || self.unlisted.as_ref() == Some(&response) {
            return;
        }
        effects.inputs.push(Input::Listed {
            resource: self.resource,
            records: response.clone().map(|()| Vec::new()),
        });
        self.unlisted = Some(response);
    }

    /// Lists, and watches from the version of the list.
    fn list(&mut self, tools: &Arc<Tools>, at: Option<Timestamp>, effects: &mut Effects) {
        let Some(api) = self.api.clone() else {
            return;
        };
        self.epoch += 1;
        self.is_listing = at.is_none();
        let tools = Arc::clone(tools);
        self.begin(effects, async move {
            tools.wait(at).await;
            Kind::Listed(list_and_watch(&*tools.store, &api).await)
        });
    }

    /// Watches from the last version; lists first if none is known.
    fn watch(&mut self, tools: &Arc<Tools>, at: Option<Timestamp>, effects: &mut Effects) {
        let Some(api) = self.api.clone().filter(|_| !self.version.is_empty()) else {
            return self.list(tools, at, effects);
        };
        let tools = Arc::clone(tools);
        let version = self.version.clone();
        self.begin(effects, async move {
            tools.wait(at).await;
            Kind::Opened(tools.store.watch_objects(&api, &version).await)
        });
    }

    fn begin(&self, effects: &mut Effects, work: impl Future<Output = Kind> + Send + 'static) {
        let (resource, epoch) = (self.resource, self.epoch);
        let step = work.map(move |kind| Step {
            resource,
            epoch,
            kind,
        });
        effects.work.push(step.boxed());
    }

    /// Processes the result of a step.
    pub(super) fn take(&mut self, tools: &Arc<Tools>, now: Timestamp, step: Step, effects: &mut Effects) {
        if step.epoch != self.epoch {
            return;
        }
        match step.kind {
            Kind::Listed(Ok((list, stream))) => self.listed(tools, now, list, stream, effects),
            Kind::Listed(Err(error)) => {
                self.is_listing = false;
                self.report_unlisted(Err(error.clone()), effects);
                self.failed(tools, now, error, effects);
            }
            Kind::Opened(Ok(stream)) => {
                self.has_delivered = false;
                self.begin(effects, next_events(stream));
            }
            Kind::Opened(Err(error)) => self.failed(tools, now, error, effects),
            Kind::Events {
                events,
                ended,
                stream,
            } => {
                for event in events {
                    if let Err(error) = self.event(tools, event, effects) {
                        // The next list names the object again, until it can be read.
                        self.version = ResourceVersion::default();
                        return self.failed(tools, now, unreadable(self.resource, &error), effects);
                    }
                }
                match ended {
                    None => self.begin(effects, next_events(stream)),
                    Some(None) => {
                        let at = (!self.has_delivered).then(|| self.backoff.failed(now));
                        self.watch(tools, at, effects);
                    }
                    Some(Some(error)) => self.failed(tools, now, error, effects),
                }
            }
        }
    }

    /// Retries later.
    fn failed(&mut self, tools: &Arc<Tools>, now: Timestamp, error: StoreError, effects: &mut Effects) {
        let is_first = self.backoff.is_fresh(now);
        let at = self.backoff.failed(now);
        if error == StoreError::Expired {
            // An expired version is not a failure, unless the new list expires at once.
            self.version = ResourceVersion::default();
            return self.list(tools, (!is_first).then_some(at), effects);
        }
        if matches!(error, StoreError::NotFound | StoreError::NoMapping { .. }) {
            // The resource may be served in another version from now on.
            self.version = ResourceVersion::default();
            effects.needs_discovery = true;
        }
        effects.reports.push(Report::WatchFailed {
            resource: self.resource,
            error,
        });
        self.watch(tools, Some(at), effects);
    }

    fn listed(
        &mut self,
        tools: &Arc<Tools>,
        now: Timestamp,
        list: ObjectList,
        stream: Stream,
        effects: &mut Effects,
    ) {
        self.is_listing = false;
        let records = list
            .items
            .iter()
            .map(|item| tools.documents.read(self.resource, item));
        let records: Result<Vec<Record>, DocumentError> = records.collect();
        let records = match records {
            Ok(records) => records,
            Err(error) => {
                let error = unreadable(self.resource, &error);
                self.report_unlisted(Err(error.clone()), effects);
                return self.failed(tools, now, error, effects);
            }
        };
        self.is_listed = true;
        self.version = list.resource_version;
        self.has_delivered = false;
        self.begin(effects, next_events(stream));
        effects.inputs.push(Input::Listed {
            resource: self.resource,
            records: Ok(records),
        });
    }

    fn event(
        &mut self,
        tools: &Tools,
        event: WatchItem<Vec<u8>>,
        effects: &mut Effects,
    ) -> Result<(), DocumentError> {
        self.has_delivered = true;
        self.backoff.succeeded();
        let (document, is_deleted) = match event {
            WatchItem::Applied(document) => (document, false),
            WatchItem::Deleted(document) => (document, true),
            WatchItem::Bookmark(version) => {
                self.version = version;
                return Ok(());
            }
        };
        let record = tools.documents.read(self.resource, &document)?;
        if !record.meta.resource_version.is_empty() {
            self.version = record.meta.resource_version.clone();
        }
        effects.inputs.push(if is_deleted {
            Input::Deleted {
                resource: self.resource,
                key: Key::from(&record.meta),
                uid: record.meta.uid.clone(),
            }
        } else {
            Input::Applied {
                resource: self.resource,
                record: Box::new(record),
            }
        });
        Ok(())
    }
}

fn unreadable(resource: Resource, error: &DocumentError) -> StoreError {
    StoreError::Invalid {
        message: format!("an object of {} cannot be read: {error}", resource.plural()),
    }
}

/// Lists, then watches from the version of the list, so that no change is missed.
async fn list_and_watch(
    store: &dyn ObjectStore,
    api: &ApiResource,
) -> Result<(ObjectList, Stream), StoreError> {
    let list = store.list_objects(api, None).await?;
    let stream = store.watch_objects(api, &list.resource_version).await?;
    Ok((list, stream))
}

/// Waits for an event, and returns it with those that are already available.
async fn next_events(mut stream: Stream) -> Kind {
    let mut events = Vec::new();
    let mut next = stream.next().await;
    let ended = loop {
        match next {
            Some(Ok(event)) => events.push(event),
            Some(Err(error)) => break Some(Some(error)),
            None => break Some(None),
        }
        if events.len() >= EVENTS_AT_ONCE {
            break None;
        }
        next = match poll!(stream.next()) {
            Poll::Ready(next) => next,
            Poll::Pending => break None,
        };
    };
    Kind::Events {
        events,
        ended,
        stream,
    }
}
