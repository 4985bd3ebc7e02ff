//! Keeps up with one resource: lists it, watches it, reads what has changed, and begins again where that breaks off.
//!
//! The metadata list comes first, then a watch from its version, then the list of whole objects: what changes in between is told by the watch. A
//! change is told with metadata only, so that the object is read after it.

mod backoff;
mod changes;
mod work;

use std::{collections::BTreeSet, sync::Arc};

use futures_util::FutureExt as _;
use kubegc_core::{ApiResource, ObjectMeta, ResourceVersion, StoreError, Timestamp, store::WatchItem};

use self::{
    changes::Changes,
    work::{Kind, Opened, open, read_some},
};
use super::Report;
use crate::{
    controller::Input,
    fields::{Fields, Record},
    object::Resource,
};

pub(super) use backoff::Backoff;
pub(super) use work::{Step, Told, Tools};

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

fn key(meta: &ObjectMeta) -> Key {
    (Arc::clone(&meta.namespace), Arc::clone(&meta.name))
}

/// One resource that is watched.
pub(super) struct Watched {
    resource: Resource,
    /// How it is addressed; `None` while it is not served, or while that is not known.
    api: Option<ApiResource>,
    /// Steps of an earlier beginning are of no use any more.
    epoch: u64,
    /// Whether it was ever listed.
    is_listed: bool,
    /// What the controller was told while it was not listed: that nothing of it is there, or why it is not known.
    unlisted: Option<Result<(), StoreError>>,
    /// Whether it is being listed, and not waiting to be.
    is_opening: bool,
    /// The version up to which everything was delivered; empty where none is known.
    version: ResourceVersion,
    /// Whether the watch that is open has delivered anything.
    has_delivered: bool,
    backoff: Backoff,
    /// How many objects were listed.
    objects: usize,
    changes: Changes,
}

impl Watched {
    pub(super) fn new(resource: Resource) -> Self {
        Self {
            resource,
            api: None,
            epoch: 0,
            is_listed: false,
            unlisted: None,
            is_opening: false,
            version: ResourceVersion::default(),
            has_delivered: false,
            backoff: Backoff::default(),
            objects: 0,
            changes: Changes::new(resource),
        }
    }

    /// Whether nothing is under way but waits.
    pub(super) fn is_settled(&self, now: Timestamp) -> bool {
        let is_told = self.is_listed || self.unlisted.is_some();
        is_told && !self.is_opening && self.changes.is_settled(now)
    }

    /// Whether discovery has said how it is addressed.
    pub(super) const fn is_served(&self) -> bool {
        self.api.is_some()
    }

    /// Takes what discovery says, and begins where that is new.
    pub(super) fn discovered(
        &mut self,
        tools: &Arc<Tools>,
        api: Result<&ApiResource, StoreError>,
        told: &mut Told,
    ) {
        match api {
            Ok(api) if !api.verbs.list || !api.verbs.watch => {
                let error = StoreError::NotSupported {
                    operation: "watching",
                };
                self.tell_unlisted(Err(error), told);
            }
            Ok(api) if self.api.as_ref() == Some(api) => {}
            Ok(api) => {
                self.api = Some(api.clone());
                self.version = ResourceVersion::default();
                self.open(tools, None, told);
            }
            // Nothing of it can be there. What was served before is not gone for that.
            Err(StoreError::NoMapping { .. }) => self.tell_unlisted(Ok(()), told),
            Err(error) => self.tell_unlisted(Err(error), told),
        }
    }

    /// Tells that there is nothing of it, or why it is not known; unless it was listed before: then what is known stays until it is listed again.
    pub(super) fn tell_unlisted(&mut self, answer: Result<(), StoreError>, told: &mut Told) {
        if self.is_listed || self.unlisted.as_ref() == Some(&answer) {
            return;
        }
        told.inputs.push(Input::Listed {
            resource: self.resource,
            records: answer.clone().map(|()| Vec::new()),
        });
        self.unlisted = Some(answer);
    }

    /// Begins with a list, now or later.
    fn open(&mut self, tools: &Arc<Tools>, at: Option<Timestamp>, told: &mut Told) {
        let Some(api) = self.api.clone() else {
            return;
        };
        self.epoch += 1;
        self.is_opening = at.is_none();
        self.changes.clear();
        let wants_documents = Fields::matter_to(self.resource);
        let tools = Arc::clone(tools);
        self.begin(told, async move {
            tools.wait(at).await;
            Kind::Opened(open(&*tools.store, &api, wants_documents).await.map(Box::new))
        });
    }

    /// Watches from the last version on, now or later; with a list first where none is known.
    fn reopen(&mut self, tools: &Arc<Tools>, at: Option<Timestamp>, told: &mut Told) {
        let Some(api) = self.api.clone().filter(|_| !self.version.is_empty()) else {
            return self.open(tools, at, told);
        };
        let tools = Arc::clone(tools);
        let version = self.version.clone();
        self.begin(told, async move {
            tools.wait(at).await;
            Kind::Reopened(tools.store.watch(&api, &version).await)
        });
    }

    fn begin(&self, told: &mut Told, work: impl Future<Output = Kind> + Send + 'static) {
        let (resource, epoch) = (self.resource, self.epoch);
        let step = work.map(move |kind| Step {
            resource,
            epoch,
            kind,
        });
        told.work.push(step.boxed());
    }

    /// Goes on after a step.
    pub(super) fn take(&mut self, tools: &Arc<Tools>, now: Timestamp, step: Step, told: &mut Told) {
        if step.epoch != self.epoch {
            return;
        }
        let again = match step.kind {
            Kind::Opened(Ok(opened)) => {
                self.listed(tools, *opened, told);
                None
            }
            Kind::Opened(Err(error)) => {
                self.is_opening = false;
                self.tell_unlisted(Err(error.clone()), told);
                self.failed(tools, now, error, told);
                None
            }
            Kind::Reopened(Ok(stream)) => {
                self.has_delivered = false;
                self.begin(told, read_some(stream));
                None
            }
            Kind::Reopened(Err(error)) => {
                self.failed(tools, now, error, told);
                None
            }
            Kind::Items { items, ended, stream } => {
                items.into_iter().for_each(|item| self.follow(item, told));
                match ended {
                    None => self.begin(told, read_some(stream)),
                    Some(None) => {
                        let at = (!self.has_delivered).then(|| self.backoff.failed(now));
                        self.reopen(tools, at, told);
                    }
                    Some(Some(error)) => self.failed(tools, now, error, told),
                }
                None
            }
            Kind::Read(key, answer) => {
                let at = self.changes.take(tools, now, &key, answer, told);
                at.map(|at| (at, Some(key)))
            }
            Kind::Refreshed(answer) => {
                let at = self.changes.take_list(tools, now, answer, told);
                at.map(|at| (at, None))
            }
            Kind::Retry(key) => {
                if let Some(key) = key {
                    self.changes.resume(&key, now);
                }
                None
            }
        };
        if let Some((at, key)) = again {
            let tools = Arc::clone(tools);
            self.begin(told, async move {
                tools.wait(Some(at)).await;
                Kind::Retry(key)
            });
        }
        if let Some(api) = &self.api {
            let reads = self.changes.begin(tools, api, self.objects, now);
            reads.into_iter().for_each(|read| self.begin(told, read));
        }
    }

    /// Begins again after a failure, later.
    fn failed(&mut self, tools: &Arc<Tools>, now: Timestamp, error: StoreError, told: &mut Told) {
        let is_first = self.backoff.is_fresh(now);
        let at = self.backoff.failed(now);
        if error == StoreError::Expired {
            // That versions grow old is no failure, unless the new list is too old at once.
            self.version = ResourceVersion::default();
            return self.open(tools, (!is_first).then_some(at), told);
        }
        if matches!(error, StoreError::NotFound | StoreError::NoMapping { .. }) {
            // When it is served again, it may be in another version.
            self.version = ResourceVersion::default();
            told.rediscovers = true;
        }
        told.reports.push(Report::WatchFailed {
            resource: self.resource,
            error,
        });
        self.reopen(tools, Some(at), told);
    }

    /// Hands all objects in.
    fn listed(&mut self, tools: &Arc<Tools>, opened: Opened, told: &mut Told) {
        let Opened {
            metas,
            version,
            stream,
            documents,
        } = opened;
        self.is_opening = false;
        self.is_listed = true;
        self.version = version;
        self.has_delivered = false;
        self.begin(told, read_some(stream));
        let records = match documents {
            None => metas.into_iter().map(Record::unread).collect(),
            Some(documents) => {
                let (mut records, has_unreadable) = self.changes.parse(tools, &documents);
                if has_unreadable {
                    let readable: BTreeSet<Key> = records.iter().map(|record| key(&record.meta)).collect();
                    let others = metas.into_iter().filter(|meta| !readable.contains(&key(meta)));
                    for meta in others {
                        records.push(Record::unread(meta.clone()));
                        self.changes.unreadable(meta);
                    }
                }
                records
            }
        };
        self.objects = records.len();
        told.inputs.push(Input::Listed {
            resource: self.resource,
            records: Ok(records),
        });
    }

    /// Takes one change.
    fn follow(&mut self, item: WatchItem, told: &mut Told) {
        let version = match &item {
            WatchItem::Applied(meta) | WatchItem::Deleted(meta) => &meta.resource_version,
            WatchItem::Bookmark(version) => version,
        };
        self.has_delivered = true;
        self.backoff.succeeded();
        if !version.is_empty() {
            self.version = version.clone();
        }
        match item {
            WatchItem::Applied(meta) if Fields::matter_to(self.resource) => self.changes.applied(meta),
            WatchItem::Applied(meta) => self.changes.tell_applied(Record::unread(meta), told),
            WatchItem::Deleted(meta) => {
                self.changes.deleted(&meta);
                self.changes.tell_gone(meta, told);
            }
            WatchItem::Bookmark(_) => {}
        }
    }
}
