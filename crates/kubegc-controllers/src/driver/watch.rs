//! Lists and watches one resource.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{FutureExt as _, future::BoxFuture};
use kubegc_core::{
    ApiResource, Clock, ObjectStore, ResourceVersion, StoreError, Timestamp, WatchStream,
    backoff::Backoff,
    record::{Record, Resource},
    reflector::{Listed, Pace, Progress, Reflector, Request, Response, Source},
    store::WatchItem,
};

use super::{Outside, Report};
use crate::{Documents, Input, Key};

/// Maximum number of events that are taken from a watch at once.
const EVENTS_AT_ONCE: usize = 256;
/// The delay after the first failure, and the longest one, as in client-go's
/// [`NewReflectorWithOptions`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/tools/cache/reflector.go).
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(800), Duration::from_secs(30)];
/// After this time without a failure the next one counts as the first, as there.
const FORGET_AFTER: Duration = Duration::from_secs(120);

pub(super) const fn retries() -> Backoff {
    Backoff::new(RETRY_AFTER, FORGET_AFTER)
}

#[derive(Clone)]
pub(super) struct Tools {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) documents: Arc<dyn Documents>,
    pub(super) outside: Arc<dyn Outside>,
}

#[derive(Default)]
pub(super) struct Effects {
    pub(super) inputs: Vec<Input>,
    pub(super) reports: Vec<Report>,
    pub(super) work: Vec<BoxFuture<'static, Step>>,
    pub(super) needs_discovery: bool,
}

/// The response to a request of a watch.
pub(super) struct Step {
    pub(super) resource: Resource,
    epoch: u64,
    response: Response<Record>,
}

pub(super) struct Watched {
    resource: Resource,
    /// The address of the resource; `None` if it is not served or unknown.
    api: Option<ApiResource>,
    /// Steps of an earlier epoch are ignored.
    epoch: u64,
    is_listed: bool,
    /// The first input to the manager, before the first list: no objects, or the error of the list.
    unlisted: Option<Result<(), StoreError>>,
    reflector: Reflector,
}

impl Watched {
    pub(super) fn new(resource: Resource) -> Self {
        Self {
            resource,
            api: None,
            epoch: 0,
            is_listed: false,
            unlisted: None,
            reflector: Reflector::new(Pace {
                backoff: retries(),
                reopen_after: None,
                events_at_once: EVENTS_AT_ONCE,
            }),
        }
    }

    /// Returns whether the resource was listed or could not be, and no list is in progress.
    pub(super) const fn is_settled(&self) -> bool {
        (self.is_listed || self.unlisted.is_some()) && !self.reflector.is_listing()
    }

    /// Returns whether discovery has returned the address of the resource.
    pub(super) const fn is_served(&self) -> bool {
        self.api.is_some()
    }

    pub(super) fn discovered(
        &mut self,
        tools: &Tools,
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
                self.epoch += 1;
                let first = self.reflector.start();
                self.begin(tools, first, effects);
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

    fn begin(&self, tools: &Tools, request: Request<Record>, effects: &mut Effects) {
        let Some(api) = self.api.clone() else {
            return;
        };
        let (resource, epoch) = (self.resource, self.epoch);
        let source = Objects {
            tools: tools.clone(),
            resource,
            api,
        };
        let step = async move {
            let response = request.perform(&source, &*source.tools.clock).await;
            Step {
                resource,
                epoch,
                response,
            }
        };
        effects.work.push(step.boxed());
    }

    pub(super) fn take(&mut self, tools: &Tools, now: Timestamp, step: Step, effects: &mut Effects) {
        if step.epoch != self.epoch {
            return;
        }
        let resource = self.resource;
        let Progress {
            listed,
            events,
            failed,
            next,
        } = self.reflector.handle(now, step.response);
        match listed {
            Some(Ok(records)) => {
                self.is_listed = true;
                let records = Ok(records);
                effects.inputs.push(Input::Listed { resource, records });
            }
            Some(Err(error)) => self.report_unlisted(Err(error), effects),
            None => {}
        }
        for event in events {
            effects.inputs.push(match event {
                WatchItem::Applied(record) => Input::Applied {
                    resource,
                    record: Box::new(record),
                },
                WatchItem::Deleted(record) => Input::Deleted {
                    resource,
                    key: Key::from(&record.meta),
                    uid: record.meta.uid.clone(),
                },
                WatchItem::Bookmark(_) => continue,
            });
        }
        if let Some(error) = failed {
            // The resource may be served in another version from now on.
            effects.needs_discovery = matches!(error, StoreError::NotFound | StoreError::NoMapping { .. });
            effects.reports.push(Report::WatchFailed { resource, error });
        }
        self.begin(tools, next, effects);
    }
}

#[derive(Clone)]
struct Objects {
    tools: Tools,
    resource: Resource,
    api: ApiResource,
}

impl Objects {
    fn read(&self, document: &[u8]) -> Result<Record, StoreError> {
        let record = self.tools.documents.read(self.resource, document);
        record.map_err(|error| StoreError::Invalid {
            message: format!("an object of {} cannot be read: {error}", self.resource.plural()),
        })
    }
}

#[async_trait]
impl Source<Record> for Objects {
    /// Lists, and watches from the version of the list: objects are known only once they are watched.
    async fn list(&self, _at_least: &ResourceVersion) -> Result<Listed<Record>, StoreError> {
        let list = self.tools.store.list_objects(&self.api, None).await?;
        let stream = self.watch(&list.resource_version).await?;
        let items = list.items.iter().map(|item| self.read(item));
        Ok(Listed {
            items: items.collect::<Result<_, _>>()?,
            resource_version: list.resource_version,
            stream: Some(stream),
        })
    }

    async fn watch(&self, since: &ResourceVersion) -> Result<Box<dyn WatchStream<Record>>, StoreError> {
        let stream = self.tools.store.watch_objects(&self.api, since).await?;
        let objects = self.clone();
        Ok(Box::new(Records { stream, objects }))
    }

    fn version_of<'o>(&self, record: &'o Record) -> &'o ResourceVersion {
        &record.meta.resource_version
    }
}

struct Records {
    stream: Box<dyn WatchStream<Vec<u8>>>,
    objects: Objects,
}

#[async_trait]
impl WatchStream<Record> for Records {
    async fn next(&mut self) -> Option<Result<WatchItem<Record>, StoreError>> {
        let event = self.stream.next().await?;
        Some(event.and_then(|event| {
            Ok(match event {
                WatchItem::Applied(document) => WatchItem::Applied(self.objects.read(&document)?),
                WatchItem::Deleted(document) => WatchItem::Deleted(self.objects.read(&document)?),
                WatchItem::Bookmark(version) => WatchItem::Bookmark(version),
            })
        }))
    }
}
