//! What has changed of a resource, and how it is read: one by one, or all by one list.
//!
//! An object that cannot be read is read again later, and holds up no other one; a list that fails holds up all reads of its resource.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use kubegc_core::{ApiResource, ObjectMeta, StoreError, Timestamp, store::Address};

use super::{
    super::Report,
    Key,
    backoff::Backoff,
    key,
    work::{Kind, Told, Tools},
};
use crate::{controller::Input, fields::Record, object::Resource};

/// How many objects of one resource are read at the same time.
const READS_AT_ONCE: usize = 8;
/// From how many objects on one list may be better than reading each.
const LIST_FROM: usize = 50;
/// Where one object of so many has changed, one list is better than reading each.
const LIST_SHARE: usize = 4;

/// The objects of one resource that have changed.
pub(super) struct Changes {
    resource: Resource,
    /// Those that are to be read, as the watch told them.
    waiting: BTreeMap<Key, ObjectMeta>,
    /// Those that could not be read, until they are to be read again.
    held: BTreeMap<Key, Held>,
    /// How often those could not be read that have not been read since.
    failed: BTreeMap<Key, Backoff>,
    /// Those that are being read.
    reading: BTreeMap<Key, Reading>,
    /// Whether they are all being read by one list.
    is_listing: bool,
    /// Whether a list has left out what is not readable.
    reads_each: bool,
    /// Of lists.
    backoff: Backoff,
    /// Nothing is read before.
    not_before: Option<Timestamp>,
}

struct Held {
    meta: ObjectMeta,
    until: Timestamp,
}

struct Reading {
    meta: ObjectMeta,
    /// Whether the object was deleted since the read began.
    is_deleted: bool,
}

impl Reading {
    const fn new(meta: ObjectMeta) -> Self {
        Self {
            meta,
            is_deleted: false,
        }
    }
}

impl Changes {
    pub(super) fn new(resource: Resource) -> Self {
        Self {
            resource,
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            failed: BTreeMap::new(),
            reading: BTreeMap::new(),
            is_listing: false,
            reads_each: false,
            backoff: Backoff::default(),
            not_before: None,
        }
    }

    /// Forgets all of them: everything is listed anew.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.held.clear();
        self.failed.clear();
        self.reading.clear();
        self.is_listing = false;
        self.reads_each = false;
        // Whoever would have gone on then is forgotten, too.
        self.not_before = None;
    }

    /// Whether nothing is being read, and nothing is to be read now.
    pub(super) fn is_settled(&self, now: Timestamp) -> bool {
        self.reading.is_empty() && (self.waiting.is_empty() || self.waits(now))
    }

    fn waits(&self, now: Timestamp) -> bool {
        self.not_before.is_some_and(|at| now < at)
    }

    /// An object has changed.
    pub(super) fn applied(&mut self, meta: ObjectMeta) {
        let key = key(&meta);
        match self.held.get_mut(&key) {
            Some(held) => held.meta = meta,
            None => drop(self.waiting.insert(key, meta)),
        }
    }

    /// An object that could not be read is to be read again, if this is the time for it.
    pub(super) fn resume(&mut self, key: &Key, now: Timestamp) {
        if self.held.get(key).is_some_and(|held| held.until <= now)
            && let Some(Held { meta, .. }) = self.held.remove(key)
        {
            self.waiting.insert(key.clone(), meta);
        }
    }

    /// An object that a list has left out is to be read by itself, so that it is told what is wrong with it.
    pub(super) fn unreadable(&mut self, meta: ObjectMeta) {
        self.reads_each = true;
        self.applied(meta);
    }

    /// An object is gone. What is being read of it may be older.
    pub(super) fn deleted(&mut self, meta: &ObjectMeta) {
        let key = key(meta);
        self.waiting.remove(&key);
        self.held.remove(&key);
        self.failed.remove(&key);
        if let Some(reading) = self.reading.get_mut(&key) {
            reading.is_deleted = true;
        }
    }

    /// What is to be begun now, for a resource of so many objects.
    pub(super) fn begin(
        &mut self,
        tools: &Arc<Tools>,
        api: &ApiResource,
        objects: usize,
        now: Timestamp,
    ) -> Vec<BoxFuture<'static, Kind>> {
        if self.is_listing || self.waits(now) {
            return Vec::new();
        }
        let waiting = self.waiting.len();
        if waiting >= LIST_FROM && waiting > objects / LIST_SHARE && !self.reads_each {
            // What is being read one by one comes to its end first.
            return if self.reading.is_empty() {
                vec![self.list(tools, api)]
            } else {
                Vec::new()
            };
        }
        let free = READS_AT_ONCE.saturating_sub(self.reading.len());
        let next = self.waiting.keys().filter(|key| !self.reading.contains_key(*key));
        let next: Vec<Key> = next.take(free).cloned().collect();
        next.into_iter()
            .filter_map(|key| self.read(tools, api, key))
            .collect()
    }

    fn list(&mut self, tools: &Arc<Tools>, api: &ApiResource) -> BoxFuture<'static, Kind> {
        self.is_listing = true;
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        self.reading = waiting.map(|(key, meta)| (key, Reading::new(meta))).collect();
        let (tools, api) = (Arc::clone(tools), api.clone());
        async move { Kind::Refreshed(tools.store.list_objects(&api, None).await.map(|list| list.items)) }.boxed()
    }

    fn read(&mut self, tools: &Arc<Tools>, api: &ApiResource, key: Key) -> Option<BoxFuture<'static, Kind>> {
        let meta = self.waiting.remove(&key)?;
        self.reading.insert(key.clone(), Reading::new(meta));
        let (tools, api) = (Arc::clone(tools), api.clone());
        let read = async move {
            let address = Address {
                resource: &api,
                namespace: &key.0,
                name: &key.1,
            };
            let answer = tools.store.get_object(address).await;
            Kind::Read(key, answer)
        };
        Some(read.boxed())
    }

    /// Takes what one read found. Gives when to read it again, where it failed.
    pub(super) fn take(
        &mut self,
        tools: &Tools,
        now: Timestamp,
        key: &Key,
        answer: Result<Vec<u8>, StoreError>,
        told: &mut Told,
    ) -> Option<Timestamp> {
        let Some(Reading {
            meta,
            is_deleted: false,
        }) = self.reading.remove(key)
        else {
            return None;
        };
        let answer = answer.map(|document| tools.documents.read(self.resource, &document));
        if matches!(answer, Ok(_) | Err(StoreError::NotFound)) {
            self.failed.remove(key);
        }
        match answer {
            Ok(Ok(record)) => self.tell_applied(record, told),
            Ok(Err(error)) => {
                told.reports.push(Report::Unreadable {
                    resource: self.resource,
                    namespace: Arc::clone(&key.0),
                    name: Arc::clone(&key.1),
                    error,
                });
                self.tell_applied(Record::unread(meta), told);
            }
            Err(StoreError::NotFound) => self.tell_gone(meta, told),
            Err(error) => {
                let meta = self.tell_failed(meta, error, told);
                let until = self.failed.entry(key.clone()).or_default().failed(now);
                // What the watch has told since is newer.
                let meta = self.waiting.remove(key).unwrap_or(meta);
                self.held.insert(key.clone(), Held { meta, until });
                return Some(until);
            }
        }
        None
    }

    /// Takes of a list what was to be read: the rest is known, or told by the watch. Gives when to go on, where it failed.
    pub(super) fn take_list(
        &mut self,
        tools: &Tools,
        now: Timestamp,
        answer: Result<Vec<Vec<u8>>, StoreError>,
        told: &mut Told,
    ) -> Option<Timestamp> {
        self.is_listing = false;
        let reading = std::mem::take(&mut self.reading).into_iter();
        let reading = reading.filter(|(_, reading)| !reading.is_deleted);
        let documents = match answer {
            Ok(documents) => documents,
            Err(error) => {
                for (key, Reading { meta, .. }) in reading {
                    let meta = self.tell_failed(meta, error.clone(), told);
                    self.waiting.entry(key).or_insert(meta);
                }
                self.not_before = Some(self.backoff.failed(now));
                return self.not_before;
            }
        };
        self.backoff.succeeded();
        let (records, has_unreadable) = self.parse(tools, &documents);
        self.reads_each = has_unreadable;
        let records = records.into_iter().map(|record| (key(&record.meta), record));
        let mut records: BTreeMap<Key, Record> = records.collect();
        for (key, Reading { meta, .. }) in reading {
            let record = records.remove(&key);
            if record.is_none() && has_unreadable {
                self.waiting.entry(key).or_insert(meta);
                continue;
            }
            self.failed.remove(&key);
            match record {
                Some(record) => self.tell_applied(record, told),
                None => self.tell_gone(meta, told),
            }
        }
        None
    }

    /// What can be read of documents, and whether some cannot.
    pub(super) fn parse(&self, tools: &Tools, documents: &[Vec<u8>]) -> (Vec<Record>, bool) {
        let records: Vec<Record> = documents
            .iter()
            .filter_map(|document| tools.documents.read(self.resource, document).ok())
            .collect();
        let has_unreadable = records.len() < documents.len();
        (records, has_unreadable)
    }

    /// An object has changed, and how is not known.
    fn tell_failed(&self, meta: ObjectMeta, error: StoreError, told: &mut Told) -> ObjectMeta {
        told.reports.push(Report::ReadFailed {
            resource: self.resource,
            namespace: Arc::clone(&meta.namespace),
            name: Arc::clone(&meta.name),
            error,
        });
        self.tell_applied(Record::unread(meta.clone()), told);
        meta
    }

    pub(super) fn tell_applied(&self, record: Record, told: &mut Told) {
        told.inputs.push(Input::Applied {
            resource: self.resource,
            record: Box::new(record),
        });
    }

    pub(super) fn tell_gone(&self, meta: ObjectMeta, told: &mut Told) {
        told.inputs.push(Input::Gone {
            resource: self.resource,
            namespace: meta.namespace,
            name: meta.name,
            uid: meta.uid,
        });
    }
}
