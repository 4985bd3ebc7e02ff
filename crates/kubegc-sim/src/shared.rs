//! The server as an [`ObjectStore`], shared or held by one caller.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use async_trait::async_trait;
use kubegc_core::{
    ApiResource, Clock, DeleteOptions, KindId, ObjectMeta, ObjectStore, PatchType, ResourceVersion,
    StoreError, WatchStream,
    deletion::Deleted,
    store::{Address, Discovered, MetaList, ObjectList, WatchItem},
};
use parking_lot::Mutex;

use crate::{ApiServer, EventType, Filter, Response, ResponseBody, StoredObject, api_server::Key};

/// An [`ApiServer`] with shared ownership. Clones are the same server.
///
/// # Examples
/// ```
/// use kubegc_core::{Catalog, KubernetesVersion, ObjectMeta};
/// use kubegc_sim::{ApiServer, SharedApiServer};
/// let server = ApiServer::new(KubernetesVersion::LATEST, Catalog::builtin(KubernetesVersion::LATEST));
/// let shared = SharedApiServer::new(server);
/// let revision = shared.with(|server| {
///     let secrets = server.catalog().mapping("v1", "Secret").expect("always served");
///     server.insert(secrets, ObjectMeta::new("shop", "key", "u1")).map(|_| server.revision())
/// })?;
/// assert_eq!(shared.with(|server| server.revision()), revision);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone)]
pub struct SharedApiServer(Arc<Inner>);

struct Inner {
    server: Mutex<ApiServer>,
    /// The tasks that wait for the next change.
    watchers: Mutex<Vec<Waker>>,
    clock: Option<Arc<dyn Clock>>,
}

impl std::fmt::Debug for SharedApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharedApiServer").field(&self.0.server).finish()
    }
}

impl SharedApiServer {
    /// Shares a server. Its time changes only when it is set.
    pub fn new(server: ApiServer) -> Self {
        Self::build(server, None)
    }

    /// Shares a server with the time of a clock.
    pub fn with_clock(server: ApiServer, clock: Arc<dyn Clock>) -> Self {
        Self::build(server, Some(clock))
    }

    fn build(server: ApiServer, clock: Option<Arc<dyn Clock>>) -> Self {
        Self(Arc::new(Inner {
            server: Mutex::new(server),
            watchers: Mutex::default(),
            clock,
        }))
    }

    /// Calls a function with exclusive access to the server, and wakes the watches afterwards if something
    /// changed.
    pub fn with<T>(&self, work: impl FnOnce(&mut ApiServer) -> T) -> T {
        let (result, changed) = {
            let mut server = self.0.server.lock();
            if let Some(clock) = &self.0.clock {
                server.set_now(clock.now());
            }
            let before = server.revision();
            let result = work(&mut server);
            (result, server.revision() != before)
        };
        if changed {
            for watcher in std::mem::take(&mut *self.0.watchers.lock()) {
                watcher.wake();
            }
        }
        result
    }

    /// Waits until the server's revision differs from this one, and returns it. Cancel safe.
    pub async fn changed(&self, since: u64) -> u64 {
        poll_fn(|context| {
            // Registered first: a change between the check and the registration would be missed.
            self.register(context.waker());
            match self.0.server.lock().revision() {
                revision if revision != since => Poll::Ready(revision),
                _ => Poll::Pending,
            }
        })
        .await
    }

    fn register(&self, waker: &Waker) {
        let mut watchers = self.0.watchers.lock();
        if !watchers.iter().any(|known| known.will_wake(waker)) {
            watchers.push(waker.clone());
        }
    }

    /// Calls a function with the kind that a resource addresses.
    fn on<T>(
        &self,
        resource: &ApiResource,
        work: impl FnOnce(&mut ApiServer, KindId) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with(|server| {
            let kind = server
                .resolve(&resource.group, &resource.version, &resource.resource)
                .map_err(|response| failure(&response))?;
            work(server, kind)
        })
    }
}

fn failure(response: &Response) -> StoreError {
    let message = "the response is not a failure".to_owned();
    response.error().unwrap_or(StoreError::Unknown { message })
}

fn meta(response: Response) -> Result<ObjectMeta, StoreError> {
    response
        .into_object()
        .map(|object| ObjectMeta::clone(&object.meta))
}

#[async_trait]
impl ObjectStore for SharedApiServer {
    /// Watches from a resourceVersion. Without one (or from `0`), existing objects are delivered first, as
    /// added.
    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        let watch = self.open_watch(resource, since, |object| ObjectMeta::clone(&object.meta))?;
        Ok(Box::new(watch))
    }
    async fn watch_objects(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream<Vec<u8>>>, StoreError> {
        let of_resource = resource.clone();
        let watch = self.open_watch(resource, since, move |object| object.to_document(&of_resource))?;
        Ok(Box::new(watch))
    }

    async fn discover(&self) -> Result<Discovered, StoreError> {
        Ok(self.with(|server| server.discover().into()))
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        if address.resource.is_namespaced() == address.namespace.is_empty() {
            // There is no such URL.
            return Err(StoreError::NotFound);
        }
        self.on(address.resource, |server, kind| {
            meta(server.read(kind, address.namespace, address.name))
        })
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        let (items, resource_version) =
            self.listed(resource, namespace, |object| ObjectMeta::clone(&object.meta))?;
        Ok(MetaList {
            items,
            resource_version,
        })
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        self.on(address.resource, |server, kind| {
            let response = server
                .try_delete(Key::new(kind, address.namespace, address.name), options)
                .map_err(|status| status.to_error())?;
            if response.is_removal {
                return Ok(Deleted::Removed);
            }
            match response.body {
                ResponseBody::Object(object) => {
                    Ok(Deleted::Terminating(Box::new(ObjectMeta::clone(&object.meta))))
                }
                // A graceful deletion in progress of a kind whose response is a status: the object still
                // exists.
                _ => meta(server.read(kind, address.namespace, address.name))
                    .map(|meta| Deleted::Terminating(Box::new(meta))),
            }
        })
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.patch_subresource(address, "", format, body).await
    }

    async fn replace_finalizers(
        &self,
        address: Address<'_>,
        read_at: &ResourceVersion,
        finalizers: &[Arc<str>],
    ) -> Result<ObjectMeta, StoreError> {
        self.on(address.resource, |server, kind| {
            let existing = server.read(kind, address.namespace, address.name).into_object()?;
            let mut written = StoredObject::clone(&existing);
            written.meta.resource_version = read_at.clone();
            written.meta.finalizers = finalizers.to_vec();
            meta(server.update(kind, address.namespace, address.name, written))
        })
    }

    async fn get_object(&self, address: Address<'_>) -> Result<Vec<u8>, StoreError> {
        self.on(address.resource, |server, kind| {
            let object = server.read(kind, address.namespace, address.name).into_object()?;
            Ok(object.to_document(address.resource))
        })
    }

    async fn list_objects(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<ObjectList, StoreError> {
        let (items, resource_version) =
            self.listed(resource, namespace, |object| object.to_document(resource))?;
        Ok(ObjectList {
            items,
            resource_version,
        })
    }

    async fn patch_subresource(
        &self,
        address: Address<'_>,
        subresource: &str,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.on(address.resource, |server, kind| {
            meta(server.patch_subresource(
                kind,
                address.namespace,
                address.name,
                subresource,
                format.content_type(),
                body,
            ))
        })
    }

    async fn replace_subresource(
        &self,
        address: Address<'_>,
        subresource: &str,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        let sent = serde_json::from_slice(body).map_err(|error| StoreError::Refused {
            code: 400,
            message: format!("the body is not JSON: {error}"),
            retry_after: None,
        })?;
        self.on(address.resource, |server, kind| {
            meta(server.update_subresource(kind, address.namespace, address.name, subresource, sent))
        })
    }

    async fn delete_collection(
        &self,
        resource: &ApiResource,
        namespace: &str,
        options: &DeleteOptions,
    ) -> Result<(), StoreError> {
        self.on(resource, |server, kind| {
            let everything = Filter::default();
            let response = server.delete_collection_with(kind, Some(namespace), &everything, options);
            match response.status() {
                Some(status) => Err(status.to_error()),
                None => Ok(()),
            }
        })
    }
}

impl SharedApiServer {
    /// The `view` of each object of a resource, and the revision of the list.
    fn listed<T>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        view: impl Fn(&StoredObject) -> T,
    ) -> Result<(Vec<T>, ResourceVersion), StoreError> {
        self.on(resource, |server, kind| {
            let items = server.objects(kind, namespace);
            let items = items.iter().map(|object| view(object)).collect();
            Ok((items, ResourceVersion::new(&server.revision().to_string())))
        })
    }

    /// Opens a watch that delivers the `view` of each object.
    fn open_watch<T>(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
        view: impl Fn(&StoredObject) -> T + Send + 'static,
    ) -> Result<Watch<T>, StoreError> {
        self.on(resource, |server, kind| {
            let (cursor, first) = match since.as_str() {
                "" | "0" => (server.revision(), server.objects(kind, None)),
                version => {
                    let cursor = version.parse().map_err(|_| StoreError::Refused {
                        code: 400,
                        message: format!("resourceVersion {version} is not a number"),
                        retry_after: None,
                    })?;
                    (cursor, Vec::new())
                }
            };
            if let Err(response) = server.events_since(kind, cursor) {
                return Err(failure(&response));
            }
            Ok(Watch {
                shared: self.clone(),
                kind,
                cursor,
                ready: first
                    .iter()
                    .map(|object| WatchItem::Applied(view(object)))
                    .collect(),
                view: Box::new(view),
            })
        })
    }
}

/// An open watch of one resource.
struct Watch<T> {
    shared: SharedApiServer,
    kind: KindId,
    cursor: u64,
    ready: VecDeque<WatchItem<T>>,
    view: Box<dyn Fn(&StoredObject) -> T + Send>,
}

/// Maximum number of changes in one read from the server.
const BATCH: usize = 64;

impl<T> Watch<T> {
    /// Reads changes from the server. Returns whether the watch continues.
    fn fill(&mut self) -> Result<bool, StoreError> {
        let server = self.shared.0.server.lock();
        match server.events_since(self.kind, self.cursor) {
            Ok(events) => {
                for event in events.take(BATCH) {
                    self.cursor = event.revision;
                    let object = (self.view)(&event.object);
                    self.ready.push_back(match event.event_type {
                        EventType::Added | EventType::Modified => WatchItem::Applied(object),
                        EventType::Deleted => WatchItem::Deleted(object),
                    });
                }
                Ok(true)
            }
            Err(response) if response.code == 404 => Ok(false),
            Err(response) => Err(failure(&response)),
        }
    }
}

#[async_trait]
impl<T: Send> WatchStream<T> for Watch<T> {
    async fn next(&mut self) -> Option<Result<WatchItem<T>, StoreError>> {
        poll_fn(|context| {
            if self.ready.is_empty() {
                // Registered first: a change between the check and the registration would be missed.
                self.shared.register(context.waker());
                match self.fill() {
                    Ok(true) => {}
                    Ok(false) => return Poll::Ready(None),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            match self.ready.pop_front() {
                Some(item) => Poll::Ready(Some(Ok(item))),
                None => Poll::Pending,
            }
        })
        .await
    }
}
