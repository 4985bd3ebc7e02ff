//! Requests of the driver to a store, and the watches that it follows.

use std::{collections::VecDeque, sync::Mutex};

use async_trait::async_trait;
use futures_util::future::pending;
use kubegc_core::{
    ApiResource, DeleteOptions, ObjectMeta, ObjectStore, PatchType, Preconditions, PropagationPolicy,
    ResourceVersion, StoreError, WatchStream,
    deletion::Propagation,
    store::{Address, Deleted, Discovered, MetaList, WatchItem},
};
use kubegc_objects::driver::Report;
use kubegc_sim::SharedApiServer;

use crate::{
    common::cluster::{CONFIG_MAP, Object, SECRET},
    driver::Bench,
};

type Items = VecDeque<Result<WatchItem, StoreError>>;

/// A store that records deletes, and the lists and watches of config maps. The first watches of config maps
/// deliver given items; later ones wait.
struct Recorder {
    store: SharedApiServer,
    watches: Mutex<VecDeque<Items>>,
    notes: Mutex<Vec<String>>,
    deletes: Mutex<Vec<(String, DeleteOptions)>>,
}

impl Recorder {
    fn new(bench: &Bench, watches: impl IntoIterator<Item = Vec<Result<WatchItem, StoreError>>>) -> Self {
        Self {
            store: bench.shared.clone(),
            watches: Mutex::new(watches.into_iter().map(VecDeque::from).collect()),
            notes: Mutex::default(),
            deletes: Mutex::default(),
        }
    }

    fn note(&self, resource: &ApiResource, text: String) {
        if &*resource.resource == "configmaps" {
            self.notes.lock().expect("one thread").push(text);
        }
    }
}

struct Given(Option<Items>);

#[async_trait]
impl WatchStream for Given {
    async fn next(&mut self) -> Option<Result<WatchItem, StoreError>> {
        match &mut self.0 {
            Some(items) => items.pop_front(),
            None => pending().await,
        }
    }
}

#[async_trait]
impl ObjectStore for Recorder {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        self.store.discover().await
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        self.store.get(address).await
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        self.note(resource, "list".to_owned());
        let mut list = self.store.list(resource, namespace).await?;
        list.resource_version = "7".into();
        Ok(list)
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        self.note(resource, format!("watch {since}"));
        let is_given = &*resource.resource == "configmaps";
        let mut watches = self.watches.lock().expect("one thread");
        Ok(Box::new(Given(if is_given { watches.pop_front() } else { None })))
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        let delete = (address.name.to_owned(), options.clone());
        self.deletes.lock().expect("one thread").push(delete);
        self.store.delete(address, options).await
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.store.patch(address, format, body).await
    }
}

#[test]
fn a_delete_has_its_propagation_and_its_preconditions() {
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    let bench = Bench::new("1.36", &[&item]);
    let store = Recorder::new(&bench, []);
    let read_at = bench
        .shared
        .with(|server| item.live(server).expect("it exists").resource_version);
    bench.run(&store, 5_000, 0, |_| {});
    let options = DeleteOptions {
        propagation: Some(Propagation::Policy(PropagationPolicy::Background)),
        preconditions: Preconditions {
            uid: Some("u-item".into()),
            resource_version: Some(read_at),
        },
        ..DeleteOptions::default()
    };
    let deletes = store.deletes.into_inner().expect("one thread");
    assert_eq!(deletes, [("item".to_owned(), options)]);
}

#[test]
fn a_watch_continues_at_bookmarks_and_lists_again_when_its_resource_was_not_found() {
    let bench = Bench::new("1.36", &[]);
    let down = StoreError::Unknown {
        message: "down".to_owned(),
    };
    let watches = [
        vec![Ok(WatchItem::Bookmark("500".into()))],
        vec![Ok(WatchItem::Bookmark("".into())), Err(StoreError::NotFound)],
        vec![Err(down.clone())],
    ];
    let store = Recorder::new(&bench, watches);
    let (_, reports) = bench.run(&store, 9_000, 0, |_| {});
    let notes = store.notes.into_inner().expect("one thread");
    let expected = ["list", "watch 7", "watch 500", "list", "watch 7", "watch 7"];
    assert_eq!(notes, expected);
    let failures: Vec<_> = reports
        .into_iter()
        .filter_map(|(at, report)| match report {
            Report::WatchFailed { error, failures, .. } => Some((at, error, failures)),
            _ => None,
        })
        .collect();
    assert_eq!(failures, [(0, StoreError::NotFound, 1), (1_000, down, 2)]);
}

/// So many that the driver looks for inputs in between.
#[test]
fn g27_each_warning_is_reported_at_once() {
    let owner = Object::new(CONFIG_MAP, "red", "owner");
    let mut objects: Vec<Object> = (0..600)
        .map(|at| Object::new(SECRET, "blue", &format!("item{at}")).owned_by(&owner))
        .collect();
    objects.push(owner);
    let bench = Bench::new("1.36", &objects.iter().collect::<Vec<_>>());
    let (_, reports) = bench.run(&bench.shared, 9_000, 0, |_| {});
    let mut warned = std::collections::BTreeSet::new();
    for (at, report) in &reports {
        if let Report::Warning(warning) = report {
            assert_eq!(*at, 0);
            assert_eq!(&*warning.reference.name, "owner");
            warned.insert(warning.dependent.name.clone());
        }
    }
    assert_eq!(warned.len(), 600);
}
