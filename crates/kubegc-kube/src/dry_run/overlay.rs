//! An overlay over a store with the results of the writes of a dry run, which later reads and watches return.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use kubegc_core::{
    ApiResource, DeleteOptions, ObjectMeta, ObjectRef, ObjectStore, PatchType, ResourceVersion, StoreError,
    Uid, WatchStream,
    store::{Address, Deleted, Discovered, MetaList, WatchItem},
};
use serde_json::Value;
use tokio::sync::Notify;

use super::report::{NotFollowed, Terminating};

/// A store whose writes change nothing; later reads reflect the responses to these writes.
///
/// Later reads do not find an object that a write would have removed, and its watch delivers the deletion. An
/// object that a write would have changed is read and watched in that state. A further write to such an
/// object that only removes finalizers is evaluated here. If the object differs from the stored one only in
/// its owner references, the store evaluates the write. Other writes cannot be evaluated, and the report
/// lists them.
///
/// # Assumptions
/// The store responds to writes as if they were performed and performs none:
/// [`KubeStore::dry`](crate::KubeStore::dry).
pub(crate) struct DryRun<S> {
    store: S,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    overlay: Mutex<Overlay>,
    changed: Notify,
}

/// Group and plural name: versions of a resource share their objects.
type GroupResource = (Arc<str>, Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group_resource: GroupResource,
    namespace: Arc<str>,
    name: Arc<str>,
}

/// The state of one object after the writes.
struct Entry {
    object: ObjectRef,
    state: State,
}

enum State {
    Removed,
    Stays(Box<ObjectMeta>),
}

#[derive(Default)]
struct Overlay {
    objects: BTreeMap<Key, Entry>,
    /// Events that watches have yet to deliver.
    pending: BTreeMap<GroupResource, VecDeque<WatchItem>>,
    not_followed: BTreeMap<(ObjectRef, &'static str), ()>,
}

/// The outcomes of the objects that writes touched.
#[derive(Default)]
pub(super) struct Touched {
    pub(super) removed: Vec<ObjectRef>,
    pub(super) terminating: Vec<Terminating>,
    pub(super) not_followed: Vec<NotFollowed>,
}

const UNFOLLOWED: StoreError = StoreError::NotSupported {
    operation: "a write to an object that the dry run has changed",
};

fn group_resource(resource: &ApiResource) -> GroupResource {
    (Arc::clone(&resource.group), Arc::clone(&resource.resource))
}

fn key(address: Address<'_>) -> Key {
    Key {
        group_resource: group_resource(address.resource),
        namespace: address.namespace.into(),
        name: address.name.into(),
    }
}

fn object_ref(resource: &ApiResource, meta: &ObjectMeta) -> ObjectRef {
    ObjectRef {
        kind: Arc::clone(&resource.kind),
        api_version: resource.api_version().into(),
        namespace: Arc::clone(&meta.namespace),
        name: Arc::clone(&meta.name),
        uid: meta.uid.clone(),
    }
}

/// Kinds whose deletion makes other controllers delete objects, which a dry run does not evaluate.
fn effect_not_followed(resource: &ApiResource) -> Option<&'static str> {
    match (&*resource.group, &*resource.resource) {
        ("", "namespaces") => Some("its deletion would delete all objects in the namespace"),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            Some("its deletion would delete all objects of the kind")
        }
        _ => None,
    }
}

/// Whether an object in this state is removed by the write that led to it.
///
/// # Upstream
/// [`ShouldDeleteDuringUpdate`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go).
/// Namespaces also wait for `spec.finalizers`, which the metadata does not contain.
fn is_removed(resource: &ApiResource, meta: &ObjectMeta) -> bool {
    let graceful = meta
        .deletion_grace_period_seconds
        .is_some_and(|seconds| seconds != 0);
    let is_namespace = resource.group.is_empty() && &*resource.resource == "namespaces";
    meta.is_deleting() && meta.finalizers.is_empty() && !graceful && !is_namespace
}

impl<S: ObjectStore> DryRun<S> {
    pub(crate) fn new(store: S) -> Self {
        Self {
            store,
            shared: Arc::default(),
        }
    }

    fn overlay(&self) -> MutexGuard<'_, Overlay> {
        self.shared.overlay()
    }

    /// The outcomes of the objects that writes touched, sorted.
    pub(super) fn touched(&self) -> Touched {
        let overlay = self.overlay();
        let mut touched = Touched::default();
        for entry in overlay.objects.values() {
            match &entry.state {
                State::Removed => touched.removed.push(entry.object.clone()),
                State::Stays(meta) if meta.is_deleting() => touched.terminating.push(Terminating {
                    object: entry.object.clone(),
                    finalizers: meta.finalizers.clone(),
                    grace_period_seconds: meta.deletion_grace_period_seconds,
                }),
                State::Stays(_) => {}
            }
        }
        touched.not_followed = overlay
            .not_followed
            .keys()
            .map(|(object, what)| NotFollowed {
                object: object.clone(),
                what,
            })
            .collect();
        touched
    }

    /// The state that the writes so far would have led to: `None` if they did not touch the object.
    fn overlaid(&self, address: Address<'_>) -> Result<Option<ObjectMeta>, StoreError> {
        match self
            .overlay()
            .objects
            .get(&key(address))
            .map(|entry| &entry.state)
        {
            None => Ok(None),
            Some(State::Removed) => Err(StoreError::NotFound),
            Some(State::Stays(meta)) => Ok(Some(ObjectMeta::clone(meta))),
        }
    }

    /// Records the state in which a write would have left an object.
    fn record(&self, address: Address<'_>, meta: ObjectMeta, removed: bool) {
        let resource = address.resource;
        let object = object_ref(resource, &meta);
        {
            let mut overlay = self.overlay();
            if (removed || meta.is_deleting())
                && let Some(what) = effect_not_followed(resource)
            {
                overlay.not_followed.insert((object.clone(), what), ());
            }
            let (state, item) = if removed {
                (State::Removed, WatchItem::Deleted(meta))
            } else {
                (State::Stays(Box::new(meta.clone())), WatchItem::Applied(meta))
            };
            overlay
                .pending
                .entry(group_resource(resource))
                .or_default()
                .push_back(item);
            overlay.objects.insert(key(address), Entry { object, state });
        }
        self.shared.changed.notify_waiters();
    }

    fn cannot_follow(&self, address: Address<'_>, meta: &ObjectMeta, what: &'static str) -> StoreError {
        let object = object_ref(address.resource, meta);
        self.overlay().not_followed.insert((object, what), ());
        UNFOLLOWED
    }

    /// Removes finalizers from an object that the dry run has changed.
    fn finalize(
        &self,
        address: Address<'_>,
        mut meta: ObjectMeta,
        read_at: Option<&str>,
        finalizers: Vec<Arc<str>>,
    ) -> Result<ObjectMeta, StoreError> {
        let read_at = read_at.filter(|version| !version.is_empty());
        if read_at.is_some_and(|version| version != meta.resource_version.as_str()) {
            return Err(StoreError::Conflict {
                message: "the object has been modified".to_owned(),
            });
        }
        if finalizers
            .iter()
            .any(|finalizer| !meta.finalizers.contains(finalizer))
        {
            return Err(self.cannot_follow(address, &meta, "finalizers would be added to it"));
        }
        meta.finalizers = finalizers;
        let removed = is_removed(address.resource, &meta);
        self.record(address, meta.clone(), removed);
        Ok(meta)
    }

    /// Records the response of the store to a write.
    fn record_response(&self, address: Address<'_>, meta: &ObjectMeta) {
        self.record(address, meta.clone(), is_removed(address.resource, meta));
    }
}

impl Shared {
    fn overlay(&self) -> MutexGuard<'_, Overlay> {
        // Each change is one insertion, so a panic while the lock is held leaves a consistent state.
        self.overlay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overlay {
    /// The watch event of a real change; `None` if the overlay replaces the object.
    fn filter(&mut self, resource: &ApiResource, item: WatchItem) -> Option<WatchItem> {
        let (WatchItem::Applied(meta) | WatchItem::Deleted(meta)) = &item else {
            return Some(item);
        };
        let key = Key {
            group_resource: group_resource(resource),
            namespace: Arc::clone(&meta.namespace),
            name: Arc::clone(&meta.name),
        };
        let Some(entry) = self.objects.get_mut(&key) else {
            return Some(item);
        };
        if entry.object.uid != meta.uid {
            // Another object has the name now.
            if matches!(item, WatchItem::Applied(_)) {
                self.objects.remove(&key);
            }
            return Some(item);
        }
        match (&item, &entry.state) {
            (WatchItem::Deleted(_), State::Removed) => None,
            (WatchItem::Deleted(_), State::Stays(_)) => {
                entry.state = State::Removed;
                Some(item)
            }
            _ => {
                let what = "another client changed it during the dry run";
                let object = entry.object.clone();
                self.not_followed.insert((object, what), ());
                None
            }
        }
    }
}

/// A merge patch that only sets the finalizers.
struct FinalizerPatch {
    /// The version that it expects.
    read_at: Option<String>,
    /// The uid that it expects.
    uid: Option<Uid>,
    finalizers: Vec<Arc<str>>,
}

impl FinalizerPatch {
    /// Reads a patch; `None` if it changes other fields.
    fn read(format: PatchType, patch: &[u8]) -> Option<Self> {
        if format != PatchType::Merge {
            return None;
        }
        let patch: Value = serde_json::from_slice(patch).ok()?;
        let patch = patch.as_object()?;
        let meta = patch.get("metadata")?.as_object()?;
        let known = |field: &String| matches!(field.as_str(), "resourceVersion" | "finalizers" | "uid");
        if patch.len() != 1 || !meta.keys().all(known) {
            return None;
        }
        let finalizers = match meta.get("finalizers")? {
            Value::Null => Vec::new(),
            Value::Array(list) => list
                .iter()
                .map(|name| name.as_str().map(Arc::from))
                .collect::<Option<_>>()?,
            _ => return None,
        };
        let text = |field: &str| meta.get(field).and_then(Value::as_str);
        Some(Self {
            read_at: text("resourceVersion").map(str::to_owned),
            uid: text("uid").map(Uid::new),
            finalizers,
        })
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for DryRun<S> {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        self.store.discover().await
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        match self.overlaid(address)? {
            Some(meta) => Ok(meta),
            None => self.store.get(address).await,
        }
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        let mut list = self.store.list(resource, namespace).await?;
        let mut overlay = self.overlay();
        // The list includes the pending events.
        overlay.pending.remove(&group_resource(resource));
        list.items.retain_mut(|meta| {
            let key = Key {
                group_resource: group_resource(resource),
                namespace: Arc::clone(&meta.namespace),
                name: Arc::clone(&meta.name),
            };
            match overlay.objects.get(&key) {
                Some(entry) if entry.object.uid != meta.uid => true,
                Some(Entry {
                    state: State::Removed,
                    ..
                }) => false,
                Some(Entry {
                    state: State::Stays(overlaid),
                    ..
                }) => {
                    *meta = ObjectMeta::clone(overlaid);
                    true
                }
                None => true,
            }
        });
        Ok(list)
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        Ok(Box::new(DryWatch {
            inner: self.store.watch(resource, since).await?,
            shared: Arc::clone(&self.shared),
            resource: resource.clone(),
        }))
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        let overlaid = self.overlaid(address)?;
        if let Some(meta) = overlaid.as_ref().filter(|meta| meta.is_deleting()) {
            return Err(self.cannot_follow(address, meta, "it would be deleted a second time"));
        }
        let before = match overlaid {
            Some(meta) => meta,
            // A watch delivers a removed object in its last state.
            None => self.store.get(address).await?,
        };
        let deleted = self.store.delete(address, options).await?;
        match &deleted {
            Deleted::Removed => self.record(address, before, true),
            Deleted::Terminating(meta) => {
                let mut meta = ObjectMeta::clone(meta);
                meta.owner_references = before.owner_references;
                self.record(address, meta, false);
            }
        }
        Ok(deleted)
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        let Some(before) = self.overlaid(address)? else {
            let after = self.store.patch(address, format, body).await?;
            self.record_response(address, &after);
            return Ok(after);
        };
        if let Some(wanted) = FinalizerPatch::read(format, body) {
            if wanted.uid.is_some_and(|uid| uid != before.uid) {
                return Err(StoreError::Conflict {
                    message: "the uid of the object differs from the precondition".to_owned(),
                });
            }
            return self.finalize(address, before, wanted.read_at.as_deref(), wanted.finalizers);
        }
        if before.is_deleting() {
            return Err(self.cannot_follow(
                address,
                &before,
                "it would be changed while it is being deleted",
            ));
        }
        let mut after = self.store.patch(address, format, body).await?;
        // The store still has references that an earlier write removed.
        let known = |uid: &Uid| {
            before
                .owner_references
                .iter()
                .any(|reference| reference.uid == *uid)
        };
        after.owner_references.retain(|reference| known(&reference.uid));
        self.record_response(address, &after);
        Ok(after)
    }

    async fn replace_finalizers(
        &self,
        address: Address<'_>,
        read_at: &ResourceVersion,
        finalizers: &[Arc<str>],
    ) -> Result<ObjectMeta, StoreError> {
        match self.overlaid(address)? {
            Some(before) => self.finalize(address, before, Some(read_at.as_str()), finalizers.to_vec()),
            None => {
                let after = self
                    .store
                    .replace_finalizers(address, read_at, finalizers)
                    .await?;
                self.record_response(address, &after);
                Ok(after)
            }
        }
    }
}

/// A watch that delivers the dry run's changes between the real changes.
struct DryWatch {
    inner: Box<dyn WatchStream>,
    shared: Arc<Shared>,
    resource: ApiResource,
}

#[async_trait]
impl WatchStream for DryWatch {
    async fn next(&mut self) -> Option<Result<WatchItem, StoreError>> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // Registered first: a change between the read and the registration would be missed.
            changed.as_mut().enable();
            let pending = {
                let mut overlay = self.shared.overlay();
                let queue = overlay.pending.get_mut(&group_resource(&self.resource));
                queue.and_then(VecDeque::pop_front)
            };
            if let Some(item) = pending {
                return Some(Ok(item));
            }
            let real = tokio::select! {
                biased;
                () = changed => continue,
                real = self.inner.next() => real?,
            };
            match real {
                Ok(item) => {
                    let visible = self.shared.overlay().filter(&self.resource, item);
                    if let Some(item) = visible {
                        return Some(Ok(item));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
