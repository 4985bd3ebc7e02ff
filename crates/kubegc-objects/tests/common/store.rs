//! A store over the simulated API server. It records requests, and the lists and watches of config maps can
//! fail, be late or end.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::pending;
use kubegc_core::{
    ApiResource, Clock, DeleteOptions, ObjectMeta, ObjectStore, PatchType, ResourceVersion, StoreError,
    Timestamp, WatchStream,
    deletion::Deleted,
    store::{Address, Discovered, MetaList, WatchItem},
};
use kubegc_sim::{SharedApiServer, SimClock};

type Items = VecDeque<Result<WatchItem, StoreError>>;

/// The watches of config maps.
pub(crate) enum Watches {
    /// The server's: each delivers this number of changes and ends.
    Ending(usize),
    /// None can be opened.
    Broken,
    /// The first ones deliver these items and end. Later ones wait.
    Given(VecDeque<Items>),
}

impl Watches {
    pub(crate) fn given(watches: impl IntoIterator<Item = Vec<Result<WatchItem, StoreError>>>) -> Self {
        Self::Given(watches.into_iter().map(VecDeque::from).collect())
    }
}

pub(crate) struct Store {
    server: SharedApiServer,
    clock: SimClock,
    start: Timestamp,
    /// The duration of each call on an object.
    pub(crate) latency: Duration,
    /// The seconds in which config maps are served.
    pub(crate) served: Range<u64>,
    /// The second from which on config maps can be listed.
    pub(crate) listed_from: u64,
    /// The version of lists, in the place of the server's.
    pub(crate) list_version: Option<ResourceVersion>,
    pub(crate) watches: Mutex<Watches>,
    /// Watches of config maps that were dropped.
    pub(crate) dropped: Arc<AtomicUsize>,
    /// The minimum version that each list of config maps requested.
    pub(crate) at_least: Mutex<Vec<String>>,
    pub(crate) deletes: Mutex<Vec<(String, DeleteOptions)>>,
    notes: Mutex<Vec<(u64, String)>>,
}

impl Store {
    pub(crate) fn new(server: &SharedApiServer, clock: &SimClock, watches: Watches) -> Self {
        Self {
            server: server.clone(),
            clock: clock.clone(),
            start: clock.now(),
            latency: Duration::ZERO,
            served: 0..u64::MAX,
            listed_from: 0,
            list_version: None,
            watches: Mutex::new(watches),
            dropped: Arc::default(),
            at_least: Mutex::default(),
            deletes: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.clock.now().since(self.start).as_millis()).expect("minutes")
    }

    fn note(&self, resource: &ApiResource, text: String) {
        if &*resource.resource == "configmaps" {
            self.notes.lock().expect("one thread").push((self.millis(), text));
        }
    }

    /// The lists and watches of config maps, with the milliseconds since the start.
    pub(crate) fn notes(&self) -> Vec<(u64, String)> {
        self.notes.lock().expect("one thread").clone()
    }

    async fn pause(&self) {
        let end = self.clock.now().saturating_add(self.latency);
        self.clock.sleep_until(end).await;
    }
}

pub(crate) fn down() -> StoreError {
    StoreError::Unknown {
        message: "the conversion webhook is down".to_owned(),
    }
}

struct Watch {
    source: Source,
    dropped: Arc<AtomicUsize>,
}

enum Source {
    Server(Box<dyn WatchStream>, usize),
    Given(Items),
    Idle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl WatchStream for Watch {
    async fn next(&mut self) -> Option<Result<WatchItem, StoreError>> {
        match &mut self.source {
            Source::Server(stream, left) => {
                *left = left.checked_sub(1)?;
                stream.next().await
            }
            Source::Given(items) => items.pop_front(),
            Source::Idle => pending().await,
        }
    }
}

#[async_trait]
impl ObjectStore for Store {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        let mut discovered = self.server.discover().await?;
        if !self.served.contains(&(self.millis() / 1_000))
            && let Some(kind) = discovered.catalog.mapping("v1", "ConfigMap")
        {
            discovered.catalog.remove(kind);
        }
        Ok(discovered)
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        self.pause().await;
        self.server.get(address).await
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        if &*resource.resource == "configmaps" && self.millis() < self.listed_from * 1_000 {
            return Err(down());
        }
        let mut list = self.server.list(resource, namespace).await?;
        if let Some(version) = &self.list_version {
            list.resource_version = version.clone();
        }
        self.note(resource, format!("list {}", list.resource_version));
        Ok(list)
    }

    async fn list_for_watch(
        &self,
        resource: &ApiResource,
        at_least: &ResourceVersion,
    ) -> Result<MetaList, StoreError> {
        if &*resource.resource == "configmaps" {
            let at_least = at_least.as_str().to_owned();
            self.at_least.lock().expect("one thread").push(at_least);
        }
        self.list(resource, None).await
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        self.note(resource, format!("watch {since}"));
        let server = || self.server.watch(resource, since);
        if &*resource.resource != "configmaps" {
            return server().await;
        }
        let given = match &mut *self.watches.lock().expect("one thread") {
            Watches::Broken => return Err(down()),
            Watches::Ending(items) => Err(*items),
            Watches::Given(watches) => Ok(watches.pop_front().map_or(Source::Idle, Source::Given)),
        };
        let source = match given {
            Ok(source) => source,
            Err(items) => Source::Server(server().await?, items),
        };
        Ok(Box::new(Watch {
            source,
            dropped: Arc::clone(&self.dropped),
        }))
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        let delete = (address.name.to_owned(), options.clone());
        self.deletes.lock().expect("one thread").push(delete);
        self.pause().await;
        self.server.delete(address, options).await
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.pause().await;
        self.server.patch(address, format, body).await
    }
}
