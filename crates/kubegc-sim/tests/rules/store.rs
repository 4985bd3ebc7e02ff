//! The server as an `ObjectStore`.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use kubegc_core::{
    ApiResource, Clock, DeleteOptions, ObjectMeta, ObjectStore, PatchType, PropagationPolicy,
    ResourceVersion, StoreError, Timestamp, WatchStream,
    deletion::Deleted,
    store::{Address, WatchItem},
};
use kubegc_sim::{SharedApiServer, SimClock};
use serde_json::{Value, json};

use crate::world::{open_world, world};

/// Drives a future that never has to wait.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

pub(crate) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let world = world();
    let catalog = world.server.catalog();
    catalog[catalog.mapping(api_version, kind).unwrap()].clone()
}

pub(crate) fn shared() -> SharedApiServer {
    SharedApiServer::new(open_world().server)
}

pub(crate) fn insert(store: &SharedApiServer, resource: &ApiResource, name: &str, finalizers: &[&str]) {
    let mut meta = ObjectMeta::new("ns", name, &format!("uid-{name}"));
    meta.finalizers = finalizers.iter().map(|name| Arc::from(*name)).collect();
    store.with(|server| {
        let kind = server
            .catalog()
            .mapping(&resource.api_version(), &resource.kind)
            .unwrap();
        assert_eq!(server.create(kind, "ns", meta.into()).code, 201);
    });
}

fn address<'a>(resource: &'a ApiResource, name: &'a str) -> Address<'a> {
    Address {
        resource,
        namespace: "ns",
        name,
    }
}

#[test]
fn refusals_map_to_the_error_classes_of_a_collector() {
    let store = shared();
    let (children, secrets) = (resource("test.dev/v1", "Child"), resource("v1", "Secret"));
    let unserved = ApiResource::new("nowhere.dev/v1", "Odd", "odds", kubegc_core::Scope::Cluster);
    insert(&store, &children, "a", &["x.dev/a"]);
    let patch = |format, body: &str| now(store.patch(address(&children, "a"), format, body.as_bytes()));
    assert_eq!(now(store.get(address(&secrets, "a"))), Err(StoreError::NotFound));
    assert_eq!(now(store.get(address(&unserved, "a"))), Err(StoreError::NotFound));
    assert_eq!(
        patch(PatchType::Strategic, "{}"),
        Err(StoreError::UnsupportedMediaType)
    );
    assert!(matches!(
        patch(PatchType::Merge, r#"{"metadata":{"resourceVersion":"1"}}"#),
        Err(StoreError::Conflict { .. })
    ));
    assert!(matches!(
        patch(PatchType::Merge, r#"{"metadata":{"uid":"other"}}"#),
        Err(StoreError::Invalid { .. })
    ));
    assert!(matches!(
        patch(PatchType::Json, "nonsense"),
        Err(StoreError::Refused { code: 400, .. })
    ));
}

#[test]
fn responses_to_deletions_show_whether_the_object_was_removed() {
    let store = shared();
    let accounts = resource("v1", "ServiceAccount");
    insert(&store, &accounts, "a", &[]);
    insert(&store, &accounts, "b", &["x.dev/a"]);
    let background = DeleteOptions::policy(PropagationPolicy::Background);
    let delete = |name| now(store.delete(address(&accounts, name), &background)).unwrap();
    assert_eq!(delete("a"), Deleted::Removed, "though the response is the object");
    assert!(matches!(delete("b"), Deleted::Terminating(meta) if meta.is_deleting()));
    let read = now(store.get(address(&accounts, "b"))).unwrap();
    let stale = ResourceVersion::new("1");
    assert!(matches!(
        now(store.replace_finalizers(address(&accounts, "b"), &stale, &[])),
        Err(StoreError::Conflict { .. })
    ));
    let left = now(store.replace_finalizers(address(&accounts, "b"), &read.resource_version, &[])).unwrap();
    assert!(left.finalizers.is_empty());
    assert_eq!(now(store.get(address(&accounts, "b"))), Err(StoreError::NotFound));
}

#[test]
fn whole_objects_collections_and_subresources_are_served() {
    let store = shared();
    let pods = resource("v1", "Pod");
    insert(&store, &pods, "a", &[]);
    insert(&store, &pods, "b", &[]);
    let patched = now(store.patch_subresource(
        address(&pods, "a"),
        "status",
        PatchType::Merge,
        br#"{"status":{"phase":"Running"}}"#,
    ));
    assert!(patched.is_ok());
    let object: Value = serde_json::from_slice(&now(store.get_object(address(&pods, "a"))).unwrap()).unwrap();
    assert_eq!(
        (&object["kind"], &object["status"]["phase"]),
        (&json!("Pod"), &json!("Running"))
    );
    assert_eq!(now(store.list_objects(&pods, Some("ns"))).unwrap().items.len(), 2);
    assert_eq!(now(store.list(&pods, Some("other"))).unwrap().items.len(), 0);
    now(store.delete_collection(&pods, "ns", &DeleteOptions::default())).unwrap();
    assert_eq!(now(store.list(&pods, None)).unwrap().items.len(), 0);
    let served = now(store.discover()).unwrap().catalog;
    assert!(served.mapping("v1", "Pod").is_some());
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The next item, if it is there; otherwise the waker is registered.
pub(crate) fn poll_next(
    watch: &mut Box<dyn WatchStream>,
    waker: &Waker,
) -> Poll<Option<Result<WatchItem, StoreError>>> {
    pin!(watch.next()).poll(&mut Context::from_waker(waker))
}

fn name(item: &Poll<Option<Result<WatchItem, StoreError>>>) -> Option<(bool, &str)> {
    match item {
        Poll::Ready(Some(Ok(WatchItem::Applied(meta)))) => Some((true, &meta.name)),
        Poll::Ready(Some(Ok(WatchItem::Deleted(meta)))) => Some((false, &meta.name)),
        _ => None,
    }
}

#[test]
fn a_watch_continues_after_a_list_and_wakes_on_an_event() {
    let store = shared();
    let (secrets, pods) = (resource("v1", "Secret"), resource("v1", "Pod"));
    insert(&store, &secrets, "a", &[]);
    let list = now(store.list(&secrets, None)).unwrap();
    assert_eq!(list.items.len(), 1);
    let mut watch = now(store.watch(&secrets, &list.resource_version)).unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    assert!(poll_next(&mut watch, &waker).is_pending());
    insert(&store, &secrets, "b", &[]);
    insert(&store, &pods, "p", &[]);
    assert!(count.0.load(Ordering::Relaxed) > 0);
    assert_eq!(name(&poll_next(&mut watch, &waker)), Some((true, "b")));
    assert!(poll_next(&mut watch, &waker).is_pending());
    now(store.delete(address(&secrets, "a"), &DeleteOptions::default())).unwrap();
    assert_eq!(name(&poll_next(&mut watch, &waker)), Some((false, "a")));
    let mut fresh = now(store.watch(&secrets, &ResourceVersion::default())).unwrap();
    assert_eq!(name(&poll_next(&mut fresh, &waker)), Some((true, "b")));
    assert!(poll_next(&mut fresh, &waker).is_pending());
}

#[test]
fn an_expired_watch_must_relist() {
    let store = shared();
    let secrets = resource("v1", "Secret");
    insert(&store, &secrets, "a", &[]);
    insert(&store, &secrets, "b", &[]);
    let old = ResourceVersion::new("1");
    let mut watch = now(store.watch(&secrets, &old)).unwrap();
    store.with(|server| server.prune_events(server.revision()));
    assert_eq!(
        poll_next(&mut watch, Waker::noop()),
        Poll::Ready(Some(Err(StoreError::Expired)))
    );
    assert_eq!(
        now(store.watch(&secrets, &old)).map(|_| ()),
        Err(StoreError::Expired)
    );
}

#[test]
fn time_comes_from_the_clock() {
    let clock = SimClock::new(Timestamp::from_secs(100));
    let store = SharedApiServer::with_clock(open_world().server, Arc::new(clock.clone()));
    let secrets = resource("v1", "Secret");
    insert(&store, &secrets, "a", &["x.dev/a"]);
    clock.advance(Duration::from_millis(7_900));
    assert_eq!(clock.now(), Timestamp::from_nanos(107_900_000_000));
    let Ok(Deleted::Terminating(meta)) = now(store.delete(address(&secrets, "a"), &DeleteOptions::default()))
    else {
        panic!("its finalizer keeps it");
    };
    assert_eq!(meta.creation_timestamp, Some(Timestamp::from_secs(100)));
    assert_eq!(
        meta.deletion_timestamp,
        Some(Timestamp::from_secs(107)),
        "stored in whole seconds"
    );
}
