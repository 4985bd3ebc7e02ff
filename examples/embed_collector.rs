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
    ApiResource, Catalog, Clock, DefaultDeletion, DeleteOptions, KubernetesVersion, ObjectMeta, ObjectStore,
    PartialObjectMetadata, PatchType, PropagationPolicy, ResourceVersion, Scope, StoreError, Timestamp,
    WatchStream,
    deletion::{Deleted, begin_deletion},
    json::MetadataPatch,
    store::{Address, Discovered, MetaList, WatchItem},
};
use kubegc::objects::{Settings, driver};
use kubegc::sim::SimClock;

/// Pages by name, and their changes.
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

    fn create(&self, name: &str, owners: &[&str]) {
        let mut page = ObjectMeta::new("", name, &format!("uid-of-{name}"));
        page.owner_references.extend(owners.iter().map(|owner| {
            let owner = ObjectMeta::new("", owner, &format!("uid-of-{owner}"));
            PartialObjectMetadata::new("wiki.example.com/v1", "Page", owner).controller_reference()
        }));
        self.store(page);
    }

    /// Stores a page with the next version. A terminating page without finalizers is removed.
    fn store(&self, mut page: ObjectMeta) -> ObjectMeta {
        let Pages { by_name, changes } = &mut *self.lock();
        page.resource_version = ResourceVersion::new(&changes.len().to_string());
        if page.is_deleting() && page.finalizers.is_empty() {
            changes.extend(by_name.remove(&*page.name).map(WatchItem::Deleted));
        } else {
            changes.push(WatchItem::Applied(page.clone()));
            by_name.insert(page.name.to_string(), page.clone());
        }
        page
    }

    fn read(&self, name: &str) -> Result<ObjectMeta, StoreError> {
        self.lock().by_name.get(name).cloned().ok_or(StoreError::NotFound)
    }

    fn delete(&self, name: &str, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        let page = self.read(name)?;
        let deleted = begin_deletion(&page, DefaultDeletion::Delete, options, self.clock.now())?;
        match &deleted {
            Deleted::Terminating(page) => {
                self.store((**page).clone());
            }
            Deleted::Removed => {
                let Pages { by_name, changes } = &mut *self.lock();
                changes.extend(by_name.remove(name).map(WatchItem::Deleted));
            }
        }
        Ok(deleted)
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
        self.read(at.name)
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

    async fn patch(&self, at: Address<'_>, format: PatchType, body: &[u8]) -> Result<ObjectMeta, StoreError> {
        let patch: MetadataPatch = serde_json::from_slice(body).map_err(|error| StoreError::Invalid {
            message: error.to_string(),
        })?;
        let mut page = self.read(at.name)?;
        patch.apply(format, &mut page)?;
        Ok(self.store(page))
    }
}

/// The changes since a version; new ones are looked for every second.
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
    for (page, owners) in [
        ("home", &[][..]),
        ("manual", &[]),
        ("setup", &["manual"]),
        ("linux", &["setup"]),
        ("glossary", &["home", "manual"]),
    ] {
        wiki.create(page, owners);
    }
    let report = |report| match report {
        driver::Report::Performed { request, .. } if request.operation.is_write() => {
            println!("collector: {request}");
        }
        _ => {}
    };
    let settings = Settings::new(KubernetesVersion::LATEST);
    let mut collector = pin!(driver::run(&wiki, &wiki.clock, settings, pending(), report));
    for second in 0..15 {
        if second == 5 {
            println!("we delete page/manual (Foreground)");
            let _deleted = wiki.delete("manual", &DeleteOptions::policy(PropagationPolicy::Foreground));
        }
        // Any executor would do. Here each second of simulated time is one poll.
        let _never_ends = collector.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        wiki.clock.set(Timestamp::from_secs(second));
    }
    let left: Vec<String> = wiki.lock().by_name.keys().cloned().collect();
    println!("left: {}", left.join(", "));
}
