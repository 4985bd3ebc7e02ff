//! How does a store of my own get a garbage collector? Implement `ObjectStore` for it and run the driver.
//!
//! `cargo run -p kubegc-examples --example embed_collector`
//!
//! A wiki keeps pages in a map. Prints `expected/embed_collector.txt`.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{
    collections::BTreeMap,
    future::pending,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use async_trait::async_trait;
use kubegc::core::{
    ApiResource, Catalog, Clock, DeleteOptions, KubernetesVersion, ObjectMeta, ObjectStore, OwnerReference,
    PatchType, ResourceVersion, Scope, StoreError, Timestamp, WatchStream,
    store::{Address, Deleted, Discovered, MetaList, WatchItem},
};
use kubegc::objects::{Settings, driver};
use kubegc::sim::SimClock;

/// Pages by name, and their changes. They have no finalizers, so a deleted page is removed at once.
#[derive(Default)]
struct Pages {
    by_name: BTreeMap<String, ObjectMeta>,
    changes: Vec<WatchItem>,
}

#[derive(Clone, Default)]
struct Wiki {
    pages: Arc<Mutex<Pages>>,
    clock: SimClock,
}

impl Wiki {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create(&self, name: &str, owner: Option<&str>) {
        let mut page = ObjectMeta::new("", name, &format!("uid-of-{name}"));
        page.owner_references.extend(owner.map(|owner| OwnerReference {
            api_version: "wiki.example.com/v1".into(),
            kind: "Page".into(),
            name: owner.into(),
            uid: format!("uid-of-{owner}").into(),
            controller: None,
            block_owner_deletion: None,
        }));
        let mut pages = self.lock();
        pages.changes.push(WatchItem::Applied(page.clone()));
        pages.by_name.insert(name.to_owned(), page);
    }

    fn delete(&self, name: &str, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        let Pages { by_name, changes } = &mut *self.lock();
        let page = by_name.get(name).ok_or(StoreError::NotFound)?;
        if options
            .preconditions
            .uid
            .as_ref()
            .is_some_and(|uid| *uid != page.uid)
        {
            let message = format!("{name} is another page now");
            return Err(StoreError::Conflict { message });
        }
        changes.extend(by_name.remove(name).map(WatchItem::Deleted));
        Ok(Deleted::Removed)
    }
}

#[async_trait]
impl ObjectStore for Wiki {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        let mut kinds = Catalog::new();
        let page = ApiResource::new("wiki.example.com/v1", "Page", "pages", Scope::Cluster).custom();
        kinds.add(page).map_err(|error| StoreError::Unknown {
            message: error.to_string(),
        })?;
        Ok(kinds.into())
    }

    async fn get(&self, at: Address<'_>) -> Result<ObjectMeta, StoreError> {
        self.lock()
            .by_name
            .get(at.name)
            .cloned()
            .ok_or(StoreError::NotFound)
    }

    async fn list(&self, _: &ApiResource, _: Option<&str>) -> Result<MetaList, StoreError> {
        let pages = self.lock();
        let resource_version = ResourceVersion::new(&pages.changes.len().to_string());
        Ok(MetaList {
            items: pages.by_name.values().cloned().collect(),
            resource_version,
        })
    }

    async fn watch(
        &self,
        _: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        let seen = since.as_str().parse().map_err(|_| StoreError::Expired)?;
        Ok(Box::new(Watch(self.clone(), seen)))
    }

    async fn delete(&self, at: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        self.delete(at.name, options)
    }

    async fn patch(&self, _: Address<'_>, _: PatchType, _: &[u8]) -> Result<ObjectMeta, StoreError> {
        // Only needed where pages have several owners, or finalizers.
        Err(StoreError::NotSupported {
            operation: "patching",
        })
    }
}

/// The deletions after a change, by the second.
struct Watch(Wiki, usize);

#[async_trait]
impl WatchStream for Watch {
    async fn next(&mut self) -> Option<Result<WatchItem, StoreError>> {
        loop {
            let change = self.0.lock().changes.get(self.1).cloned();
            if let Some(change) = change {
                self.1 += 1;
                return Some(Ok(change));
            }
            let clock = &self.0.clock;
            clock
                .sleep_until(clock.now().saturating_add(Duration::from_secs(1)))
                .await;
        }
    }
}

fn main() {
    let wiki = Wiki::default();
    for (page, owner) in [
        ("home", None),
        ("manual", None),
        ("setup", Some("manual")),
        ("linux", Some("setup")),
    ] {
        wiki.create(page, owner);
    }
    let report = |report| match report {
        driver::Report::Performed { request, .. } if request.operation.is_write() => {
            println!(
                "the collector deletes {}: {}",
                request.target.short(),
                request.reason
            );
        }
        _ => {}
    };
    let settings = Settings::new(KubernetesVersion::LATEST);
    let mut collector = pin!(driver::run(&wiki, &wiki.clock, settings, pending(), report));
    for second in 0..10 {
        if second == 5 {
            println!("we delete Page/manual");
            let _gone = wiki.delete("manual", &DeleteOptions::default());
        }
        // Any executor would do. Here each second of simulated time is one poll.
        let _never_ends = collector.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        wiki.clock.set(Timestamp::from_secs(second));
    }
    let left: Vec<String> = wiki.lock().by_name.keys().cloned().collect();
    println!("left: {}", left.join(", "));
}
