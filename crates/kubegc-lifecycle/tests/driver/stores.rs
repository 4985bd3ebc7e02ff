//! Stores that are deaf, that garble, that count, and that end their watches.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use kubegc_core::{
    ApiResource, Clock as _, DeleteOptions, ObjectMeta, ObjectStore, PatchType, ResourceVersion, StoreError,
    WatchStream,
    store::{Address, Deleted, Discovered, MetaList, WatchItem},
};
use kubegc_sim::{SharedApiServer, SimClock};

/// What is odd about a store.
#[derive(Default)]
pub(crate) struct Oddity {
    /// Watches of these resources deliver nothing.
    pub(crate) deaf: Vec<&'static str>,
    /// Watches of these resources end after so many changes.
    pub(crate) ends_after: BTreeMap<&'static str, usize>,
    /// The object of this name is answered as no object at all.
    pub(crate) garbled: Option<&'static str>,
    /// Group versions that discovery does not answer for: what they serve is missing.
    pub(crate) undiscovered: Vec<&'static str>,
    /// How long each list takes.
    pub(crate) lists_take: Option<(SimClock, Duration)>,
}

/// An odd store, which counts its calls.
pub(crate) struct Odd {
    server: SharedApiServer,
    pub(crate) oddity: Mutex<Oddity>,
    counts: Mutex<BTreeMap<String, usize>>,
}

impl Odd {
    pub(crate) fn new(server: &SharedApiServer, oddity: Oddity) -> Self {
        Self {
            server: server.clone(),
            oddity: Mutex::new(oddity),
            counts: Mutex::default(),
        }
    }

    pub(crate) fn shared(server: &SharedApiServer, oddity: Oddity) -> Arc<Self> {
        Arc::new(Self::new(server, oddity))
    }

    /// How often a call was made, such as `get_object jobs`.
    pub(crate) fn count(&self, call: &str) -> usize {
        let counts = self.counts.lock().expect("no test panics while it holds this");
        counts.get(call).copied().unwrap_or(0)
    }

    fn note(&self, call: &str, resource: &ApiResource) {
        self.count_one(format!("{call} {}", resource.resource));
    }

    fn count_one(&self, call: String) {
        let mut counts = self.counts.lock().expect("no test panics while it holds this");
        *counts.entry(call).or_default() += 1;
    }

    fn odd<T>(&self, ask: impl FnOnce(&Oddity) -> T) -> T {
        ask(&self.oddity.lock().expect("no test panics while it holds this"))
    }

    async fn wait_for_list(&self) {
        if let Some((clock, takes)) = self.odd(|oddity| oddity.lists_take.clone()) {
            clock.sleep_until(clock.now().saturating_add(takes)).await;
        }
    }

    fn garbled(&self, document: Vec<u8>) -> Vec<u8> {
        let name = self.odd(|oddity| oddity.garbled);
        let needle = name.map(|name| format!("\"name\":\"{name}\""));
        match needle {
            Some(needle) if String::from_utf8_lossy(&document).contains(&needle) => {
                b"{\"metadata\":7}".to_vec()
            }
            _ => document,
        }
    }
}

struct Watch {
    stream: Box<dyn WatchStream>,
    left: Option<usize>,
    is_deaf: bool,
}

#[async_trait]
impl WatchStream for Watch {
    async fn next(&mut self) -> Option<Result<WatchItem, StoreError>> {
        if self.is_deaf {
            std::future::pending::<()>().await;
        }
        if self.left == Some(0) {
            return None;
        }
        let item = self.stream.next().await;
        self.left = self.left.map(|left| left - 1);
        item
    }
}

#[async_trait]
impl ObjectStore for Odd {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        self.count_one("discover".to_owned());
        let mut discovered = self.server.discover().await?;
        let failed = self.odd(|oddity| oddity.undiscovered.clone());
        for api_version in failed {
            let kinds: Vec<_> = discovered
                .catalog
                .iter()
                .filter(|(_, resource)| resource.api_version() == api_version)
                .map(|(kind, _)| kind)
                .collect();
            for kind in kinds {
                discovered.catalog.remove(kind);
            }
            discovered.failed.insert(api_version.to_owned(), String::new());
        }
        Ok(discovered)
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        self.note("get", address.resource);
        self.server.get(address).await
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        self.note("list", resource);
        self.wait_for_list().await;
        self.server.list(resource, namespace).await
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        self.note("watch", resource);
        let stream = self.server.watch(resource, since).await?;
        let name = &*resource.resource;
        let (left, is_deaf) = self.odd(|oddity| {
            let left = oddity.ends_after.get(name).copied();
            (left, oddity.deaf.contains(&name))
        });
        Ok(Box::new(Watch {
            stream,
            left,
            is_deaf,
        }))
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        self.note("delete", address.resource);
        self.server.delete(address, options).await
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.note("patch", address.resource);
        self.server.patch(address, format, body).await
    }

    async fn get_object(&self, address: Address<'_>) -> Result<Vec<u8>, StoreError> {
        self.note("get_object", address.resource);
        Ok(self.garbled(self.server.get_object(address).await?))
    }

    async fn list_objects(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        self.note("list_objects", resource);
        self.wait_for_list().await;
        let documents = self.server.list_objects(resource, namespace).await?;
        Ok(documents
            .into_iter()
            .map(|document| self.garbled(document))
            .collect())
    }

    async fn patch_subresource(
        &self,
        address: Address<'_>,
        subresource: &str,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.note("patch_subresource", address.resource);
        self.server
            .patch_subresource(address, subresource, format, body)
            .await
    }

    async fn replace_subresource(
        &self,
        address: Address<'_>,
        subresource: &str,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.note("replace_subresource", address.resource);
        self.server.replace_subresource(address, subresource, body).await
    }

    async fn delete_collection(
        &self,
        resource: &ApiResource,
        namespace: &str,
        options: &DeleteOptions,
    ) -> Result<(), StoreError> {
        self.note("delete_collection", resource);
        self.server.delete_collection(resource, namespace, options).await
    }
}
