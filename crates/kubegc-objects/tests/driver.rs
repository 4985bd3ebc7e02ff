//! The driver over the store and clock traits: cascades complete, a stop loses no response, watches and lists
//! restart, and one resource that fails does not stop the others.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::{join, pending, ready};
use kubegc_core::{
    ApiResource, Clock, DeleteOptions, ObjectMeta, ObjectStore, PatchType,
    PropagationPolicy::{Background, Foreground},
    ResourceVersion, StoreError, Timestamp, WatchStream,
    metadata::FINALIZER_FOREGROUND,
    store::{Address, Deleted, Discovered, MetaList, WatchItem},
};
use kubegc_objects::{
    Collector, Settings,
    collector::{Conclusion, WaitReason},
    driver::{Report, run},
};
use kubegc_sim::{
    FaultPlan, Faulty, SharedApiServer, SimClock,
    fault::{Call, Fault, Rule},
};

use crate::common::{
    cluster::{CONFIG_MAP, KINDS, Object, SECRET, WIDGET, delete, server, version},
    executor::block_on,
};

pub(crate) struct Bench {
    clock: SimClock,
    pub(crate) shared: SharedApiServer,
    settings: Settings,
    start: Timestamp,
}

impl Bench {
    pub(crate) fn new(release: &str, objects: &[&Object]) -> Self {
        let mut server = server(version(release), &KINDS);
        objects.iter().for_each(|object| object.insert(&mut server));
        let start = server.now();
        let clock = SimClock::new(start);
        let shared = SharedApiServer::with_clock(server, Arc::new(clock.clone()));
        Self {
            clock,
            shared,
            settings: Settings::new(version(release)),
            start,
        }
    }

    fn after(&self, millis: u64) -> Timestamp {
        self.start.saturating_add(Duration::from_millis(millis))
    }

    /// Runs over a store until a given time, with one action of a client at another time.
    pub(crate) fn run(
        &self,
        store: &impl ObjectStore,
        stop_millis: u64,
        act_millis: u64,
        act: impl FnOnce(&SharedApiServer),
    ) -> (Collector, Vec<(u64, Report)>) {
        let mut reports = Vec::new();
        let note = |report| {
            let at = self.clock.now().since(self.start).as_millis();
            reports.push((u64::try_from(at).expect("minutes"), report));
        };
        let stop = self.clock.sleep_until(self.after(stop_millis));
        let client = async {
            self.clock.sleep_until(self.after(act_millis)).await;
            act(&self.shared);
        };
        let driver = run(store, &self.clock, self.settings.clone(), stop, note);
        let (collector, ()) = block_on(&self.clock, join(driver, client));
        (collector.expect("the clock never goes backwards"), reports)
    }

    fn there(&self, object: &Object) -> bool {
        self.shared.with(|server| object.live(server).is_some())
    }
}

fn broken(call: Call, resource: &str, times: u32, error: StoreError) -> FaultPlan {
    let fault = Fault::Refuse(error);
    let rule = Rule {
        call: Some(call),
        resource: Some(resource.into()),
        name: None,
        skip: 0,
        times,
        fault,
    };
    FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    }
}

fn down() -> StoreError {
    StoreError::Unknown {
        message: "the conversion webhook is down".to_owned(),
    }
}

fn watch_failures(reports: &[(u64, Report)]) -> Vec<u64> {
    let failed = |(at, report): &(u64, Report)| matches!(report, Report::WatchFailed { .. }).then_some(*at);
    reports.iter().filter_map(failed).collect()
}

fn family() -> [Object; 3] {
    let root = Object::new(CONFIG_MAP, "red", "root");
    let middle = Object::new(WIDGET, "red", "middle").blocking(&root);
    let leaf = Object::new(SECRET, "red", "leaf").blocking(&middle);
    [root, middle, leaf]
}

#[test]
fn a_cascade_completes() {
    let family = family();
    for release in ["1.13", "1.20.2", "1.28", "1.36"] {
        for policy in [Background, Foreground] {
            let other = Object::new(SECRET, "red", "other");
            let bench = Bench::new(release, &[&family[0], &family[1], &family[2], &other]);
            let (collector, reports) = bench.run(&bench.shared, 40_000, 5_000, |shared| {
                shared.with(|server| delete(server, &family[0], Some(policy)));
            });
            assert!(
                family.iter().all(|object| !bench.there(object)),
                "{release} {policy}"
            );
            assert!(bench.there(&other));
            let waited = bench.shared.with(|server| {
                let objects = server.changes_since(0).map(|change| &change.event.object.meta);
                let mut middle = objects.filter(|meta| *meta.name == *family[1].meta.name);
                middle.any(|meta| meta.has_finalizer(FINALIZER_FOREGROUND))
            });
            assert_eq!(
                waited,
                policy == Foreground,
                "{release} {policy}: the delete of a dependent has the policy of its owner's deletion"
            );
            let performed = reports
                .iter()
                .filter(|(_, report)| matches!(report, Report::Performed { .. }))
                .count();
            assert_eq!(performed as u64, collector.calls_made());
            assert_eq!(
                collector.graph().len(),
                1,
                "{release}: a removed object leaves no node in the graph"
            );
        }
    }
}

#[test]
fn a_watch_at_an_expired_version_relists() {
    let family = family();
    let bench = Bench::new("1.36", &[&family[0], &family[1], &family[2]]);
    let store = Faulty::new(
        bench.shared.clone(),
        broken(Call::Watch, "configmaps", 2, StoreError::Expired),
    );
    let (_, reports) = bench.run(&store, 30_000, 5_000, |shared| {
        shared.with(|server| delete(server, &family[0], Some(Background)));
    });
    assert_eq!(store.injected(), 2);
    assert!(
        watch_failures(&reports).is_empty(),
        "an expired watch is not a failure"
    );
    assert!(family.iter().all(|object| !bench.there(object)));
}

#[test]
fn a_list_that_fails_is_retried_with_delays_that_double_up_to_half_a_minute() {
    let family = family();
    let bench = Bench::new("1.36", &[&family[0], &family[1], &family[2]]);
    let store = Faulty::new(bench.shared.clone(), broken(Call::List, "secrets", 8, down()));
    let (_, reports) = bench.run(&store, 140_000, 5_000, |shared| {
        shared.with(|server| delete(server, &family[0], Some(Foreground)));
    });
    let seconds = [0, 1, 3, 7, 15, 31, 61, 91];
    assert_eq!(watch_failures(&reports), seconds.map(|at| at * 1_000));
    assert!(family.iter().all(|object| !bench.there(object)));
}

#[test]
fn one_kind_that_cannot_be_listed_stops_the_others_up_to_1_31_only() {
    for (release, collects) in [("1.20.2", false), ("1.31", false), ("1.32", true), ("1.36", true)] {
        let family = family();
        let bench = Bench::new(release, &[&family[0], &family[1], &family[2]]);
        let store = Faulty::new(
            bench.shared.clone(),
            broken(Call::List, "tenants", u32::MAX, down()),
        );
        let (_, reports) = bench.run(&store, 60_000, 1_000, |shared| {
            shared.with(|server| delete(server, &family[0], Some(Background)));
        });
        assert_eq!(watch_failures(&reports).len(), 6, "{release}");
        assert_eq!(!bench.there(&family[2]), collects, "{release}");
        let first = reports
            .iter()
            .find(|(_, report)| matches!(report, Report::Performed { .. }));
        assert_eq!(first.map(|(at, _)| *at), collects.then_some(30_000), "{release}");
    }
}

fn sync_reports(reports: &[(u64, Report)]) -> Vec<(u64, String)> {
    let text = |(at, report): &(u64, Report)| match report {
        Report::WaitingForSync(waiting) => Some((*at, waiting.to_string())),
        Report::Started { unsynced } => {
            let names: Vec<String> = unsynced
                .iter()
                .map(|resource| resource.qualified_resource())
                .collect();
            Some((*at, format!("started without [{}]", names.join(", "))))
        }
        _ => None,
    };
    reports.iter().filter_map(text).collect()
}

#[test]
fn a_start_that_waits_for_a_list_is_reported_with_the_resource_and_the_failure() {
    let tenants = "tenants.example.com (unknown outcome: the conversion webhook is down)";
    let bench = Bench::new("1.20.2", &[]);
    let store = Faulty::new(bench.shared.clone(), broken(Call::List, "tenants", 8, down()));
    let (_, reports) = bench.run(&store, 200_000, 0, |_| {});
    let waiting = format!(
        "garbage collection has not started: waiting for the initial list of {tenants}; \
         up to Kubernetes 1.31 nothing is collected until every resource is listed"
    );
    let expected = [
        (10_000, &*waiting),
        (70_000, &*waiting),
        (121_000, "started without []"),
    ];
    assert_eq!(
        sync_reports(&reports),
        expected.map(|(at, text)| (at, text.to_owned()))
    );

    let bench = Bench::new("1.36", &[]);
    let store = Faulty::new(bench.shared.clone(), broken(Call::List, "tenants", 8, down()));
    let (_, reports) = bench.run(&store, 200_000, 0, |_| {});
    let waiting = format!(
        "garbage collection has not started: waiting for the initial list of {tenants}; \
         it starts at {} in any case",
        bench.after(30_000)
    );
    let expected = [
        (10_000, &*waiting),
        (30_000, "started without [tenants.example.com]"),
    ];
    assert_eq!(
        sync_reports(&reports),
        expected.map(|(at, text)| (at, text.to_owned()))
    );
}

#[test]
fn a_start_that_waits_for_discovery_is_reported() {
    let bench = Bench::new("1.36", &[]);
    let rule = Rule {
        call: Some(Call::Discover),
        resource: None,
        name: None,
        skip: 0,
        times: 4,
        fault: Fault::Refuse(down()),
    };
    let plan = FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    };
    let store = Faulty::new(bench.shared.clone(), plan);
    let (_, reports) = bench.run(&store, 20_000, 0, |_| {});
    let expected = [
        (
            10_000,
            "garbage collection has not started: API discovery has not succeeded yet",
        ),
        (15_000, "started without []"),
    ];
    assert_eq!(
        sync_reports(&reports),
        expected.map(|(at, text)| (at, text.to_owned()))
    );
}

#[test]
fn a_pause_for_a_new_resource_that_cannot_be_listed_is_reported() {
    let bench = Bench::new("1.20.2", &[]);
    let mut store = Ending::new(&bench, 0);
    // Config maps are served again after a while, and cannot be listed for some time after that.
    store.served_from = Some(20);
    store.listed_from = Some(75);
    let (_, reports) = bench.run(&store, 120_000, 0, |_| {});
    let paused = "garbage collection is paused: waiting for the initial list of configmaps (unknown outcome: the \
         conversion webhook is down); up to Kubernetes 1.31 nothing is collected until every resource is listed";
    let expected = [
        (0, "started without []"),
        (40_000, paused),
        (91_000, "started without []"),
    ];
    assert_eq!(
        sync_reports(&reports),
        expected.map(|(at, text)| (at, text.to_owned()))
    );
}

#[test]
fn a_discovery_that_fails_is_retried() {
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    let bench = Bench::new("1.36", &[&item]);
    let fault = Fault::Refuse(down());
    let rule = Rule {
        call: Some(Call::Discover),
        resource: None,
        name: None,
        skip: 0,
        times: 2,
        fault,
    };
    let store = Faulty::new(
        bench.shared.clone(),
        FaultPlan {
            rules: vec![rule],
            ..FaultPlan::default()
        },
    );
    let (_, reports) = bench.run(&store, 20_000, 0, |_| {});
    let failed = reports
        .iter()
        .filter(|(_, report)| matches!(report, Report::DiscoveryFailed(_)));
    assert_eq!(failed.map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1_000]);
    assert!(!bench.there(&item));
}

#[test]
fn lost_responses_and_refusals_only_delay_a_cascade() {
    for seed in 0..20 {
        let family = family();
        let bench = Bench::new("1.36", &[&family[0], &family[1], &family[2]]);
        let plan = FaultPlan {
            seed,
            faults_per_mille: 200,
            faults: vec![
                Fault::LoseResponse,
                Fault::of_code(429).expect("an error"),
                Fault::of_code(500).expect("an error"),
            ],
            duplicates_per_mille: 200,
            watch_delay_max: Duration::from_millis(50),
            ..FaultPlan::default()
        };
        let store = Faulty::new(bench.shared.clone(), plan).with_clock(Arc::new(bench.clock.clone()));
        bench.run(&store, 240_000, 5_000, |shared| {
            shared.with(|server| delete(server, &family[0], Some(Foreground)));
        });
        assert!(family.iter().all(|object| !bench.there(object)), "seed {seed}");
    }
}

#[test]
fn a_stop_waits_for_the_calls_in_flight() {
    let gone = Object::new(CONFIG_MAP, "red", "gone");
    let items: Vec<Object> = (0..5)
        .map(|at| Object::new(SECRET, "red", &format!("item-{at}")).owned_by(&gone))
        .collect();
    // Each call takes a second: reads of the owner until 1 s, of the items until 2 s, deletes until 3 s.
    for stop_millis in [500, 1_500, 2_500] {
        let bench = Bench::new("1.36", &items.iter().collect::<Vec<_>>());
        let slow = Slow {
            store: bench.shared.clone(),
            clock: bench.clock.clone(),
        };
        let (collector, reports) = bench.run(&slow, stop_millis, 0, |_| {});
        assert_eq!(collector.calls_in_flight(), 0);
        let performed = reports
            .iter()
            .filter(|(_, report)| matches!(report, Report::Performed { .. }))
            .count() as u64;
        assert!(
            performed > 0 && performed == collector.calls_made(),
            "{performed} of {}",
            collector.calls_made()
        );
        let ended = bench.clock.now().since(bench.start).as_millis();
        assert!(
            ended > u128::from(stop_millis) && ended <= u128::from(stop_millis) + 1_000,
            "ended after {ended} ms"
        );
    }
}

/// A store whose calls on objects take one second.
struct Slow {
    store: SharedApiServer,
    clock: SimClock,
}

impl Slow {
    async fn pause(&self) {
        self.clock
            .sleep_until(self.clock.now().saturating_add(Duration::from_secs(1)))
            .await;
    }
}

#[async_trait]
impl ObjectStore for Slow {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        self.store.discover().await
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        self.pause().await;
        self.store.get(address).await
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        self.store.list(resource, namespace).await
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        self.store.watch(resource, since).await
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        self.pause().await;
        self.store.delete(address, options).await
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.pause().await;
        self.store.patch(address, format, body).await
    }
}

/// A store whose watches of config maps end on request, and which records each list and watch of them.
struct Ending {
    store: SharedApiServer,
    clock: SimClock,
    start: Timestamp,
    /// Number of changes that a watch delivers before it ends. With none available it ends at once.
    items: usize,
    /// Whether watches cannot be opened.
    broken: bool,
    /// Seconds after which config maps are no longer served.
    gone_after: Option<u64>,
    /// Seconds after which config maps are served; from the start if `None`.
    served_from: Option<u64>,
    /// Seconds after which config maps can be listed; from the start if `None`.
    listed_from: Option<u64>,
    /// Watches that were dropped.
    dropped: Arc<AtomicUsize>,
    /// The minimum version that each list requested.
    at_least: Mutex<Vec<String>>,
    notes: Mutex<Vec<(u64, String)>>,
}

impl Ending {
    fn new(bench: &Bench, items: usize) -> Self {
        Self {
            store: bench.shared.clone(),
            clock: bench.clock.clone(),
            start: bench.start,
            items,
            broken: false,
            gone_after: None,
            served_from: None,
            listed_from: None,
            dropped: Arc::default(),
            at_least: Mutex::default(),
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

    fn notes(&self) -> Vec<(u64, String)> {
        self.notes.lock().expect("one thread").clone()
    }
}

struct EndingWatch {
    inner: Option<Box<dyn WatchStream>>,
    left: usize,
    dropped: Arc<AtomicUsize>,
}

impl Drop for EndingWatch {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl WatchStream for EndingWatch {
    async fn next(&mut self) -> Option<Result<WatchItem, StoreError>> {
        let Some(inner) = &mut self.inner else {
            return pending().await;
        };
        self.left = self.left.checked_sub(1)?;
        inner.next().await
    }
}

#[async_trait]
impl ObjectStore for Ending {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        let mut discovered = self.store.discover().await?;
        let not_served = self
            .gone_after
            .is_some_and(|seconds| self.millis() >= seconds * 1_000);
        let not_yet = self
            .served_from
            .is_some_and(|seconds| self.millis() < seconds * 1_000);
        if (not_served || not_yet)
            && let Some(kind) = discovered.catalog.mapping("v1", "ConfigMap")
        {
            discovered.catalog.remove(kind);
        }
        Ok(discovered)
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        self.store.get(address).await
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        let not_yet = self
            .listed_from
            .is_some_and(|seconds| self.millis() < seconds * 1_000);
        if not_yet && &*resource.resource == "configmaps" {
            return Err(down());
        }
        let list = self.store.list(resource, namespace).await?;
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
        if &*resource.resource != "configmaps" {
            return self.store.watch(resource, since).await;
        }
        if self.broken {
            return Err(down());
        }
        // The collector watches a resource until it is no longer served.
        let inner = match self.gone_after {
            None => Some(self.store.watch(resource, since).await?),
            Some(_) => None,
        };
        Ok(Box::new(EndingWatch {
            inner,
            left: self.items,
            dropped: Arc::clone(&self.dropped),
        }))
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
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
fn a_watch_that_ended_resumes_at_the_last_version_without_a_relist() {
    let gone = Object::new(SECRET, "red", "gone");
    let items: Vec<Object> = (0..4)
        .map(|at| Object::new(CONFIG_MAP, "red", &format!("item-{at}")).owned_by(&gone))
        .collect();
    let bench = Bench::new("1.36", &items.iter().collect::<Vec<_>>());
    let store = Ending::new(&bench, 2);
    bench.run(&store, 20_000, 5_000, |_| {});
    let notes = store.notes();
    let lists = notes.iter().filter(|(_, text)| text.starts_with("list")).count();
    assert_eq!(lists, 1, "{notes:?}");
    let versions: Vec<u64> = notes
        .iter()
        .filter_map(|(_, text)| text.strip_prefix("watch ")?.parse().ok())
        .collect();
    // Four deletes come as two watches of two items, and a third watch waits.
    assert_eq!(versions.len(), 3, "{notes:?}");
    assert!(versions.is_sorted_by(|one, next| one < next), "{notes:?}");
    assert!(items.iter().all(|item| !bench.there(item)));
}

#[test]
fn the_first_list_may_be_old_and_a_relist_is_not_older_than_the_last_version() {
    let gone = Object::new(SECRET, "red", "gone");
    let item = Object::new(CONFIG_MAP, "red", "item").owned_by(&gone);
    let bench = Bench::new("1.36", &[&item]);
    // The first watch delivers the deletion and ends. The second one is too old.
    let mut rule = broken(Call::Watch, "configmaps", 1, StoreError::Expired);
    rule.rules[0].skip = 1;
    let store = Faulty::new(Ending::new(&bench, 1), rule);
    let (_, reports) = bench.run(&store, 20_000, 5_000, |_| {});
    assert!(watch_failures(&reports).is_empty());
    let versions: Vec<String> = store
        .store()
        .notes()
        .into_iter()
        .filter_map(|(_, text)| Some(text.strip_prefix("watch ")?.to_owned()))
        .collect();
    let at_least = store.store().at_least.lock().expect("one thread").clone();
    assert_eq!(at_least.len(), 2, "{at_least:?}");
    assert_eq!(at_least[0], "", "any version");
    assert!(
        !at_least[1].is_empty() && at_least[1] != versions[0],
        "{at_least:?} {versions:?}"
    );
}

#[test]
fn a_watch_that_delivers_nothing_is_opened_again_once_a_second() {
    let bench = Bench::new("1.36", &[]);
    let store = Ending::new(&bench, 0);
    bench.run(&store, 3_500, 0, |_| {});
    let notes = store.notes();
    let expected: Vec<(u64, String)> = [
        (0, "list"),
        (0, "watch"),
        (1_000, "watch"),
        (2_000, "watch"),
        (3_000, "watch"),
    ]
    .into_iter()
    .zip(std::iter::repeat(notes[1].1.trim_start_matches("watch ")))
    .map(|((at, what), version)| (at, format!("{what} {version}")))
    .collect();
    assert_eq!(notes, expected);
}

#[test]
fn a_watch_that_cannot_be_opened_is_retried_at_its_version_with_delays_that_double() {
    let bench = Bench::new("1.36", &[]);
    let mut store = Ending::new(&bench, 0);
    store.broken = true;
    let (_, reports) = bench.run(&store, 80_000, 0, |_| {});
    let seconds = [0, 1, 3, 7, 15, 31, 61];
    assert_eq!(watch_failures(&reports), seconds.map(|at| at * 1_000));
    let lists = store
        .notes()
        .iter()
        .filter(|(_, text)| text.starts_with("list"))
        .count();
    assert_eq!(lists, 1);
}

#[test]
fn a_watch_that_expires_again_at_once_relists_with_a_delay() {
    let bench = Bench::new("1.36", &[]);
    let store = Faulty::new(
        bench.shared.clone(),
        broken(Call::Watch, "configmaps", u32::MAX, StoreError::Expired),
    );
    bench.run(&store, 80_000, 0, |_| {});
    // At 0 s twice, then after 2, 4, 8, 16 and 30 s.
    assert_eq!(store.injected(), 8 - 1);
}

#[test]
fn a_resource_that_is_no_longer_served_is_no_longer_watched() {
    let bench = Bench::new("1.36", &[]);
    let mut store = Ending::new(&bench, 0);
    store.gone_after = Some(20);
    bench.run(&store, 29_000, 0, |_| {});
    assert_eq!(store.dropped.load(Ordering::SeqCst), 1, "when the run ends");
    let bench = Bench::new("1.36", &[]);
    let mut store = Ending::new(&bench, 0);
    store.gone_after = Some(20);
    let dropped = Arc::clone(&store.dropped);
    let seen = Mutex::new(None);
    let watching = async {
        bench
            .clock
            .sleep_until(bench.clock.now().saturating_add(Duration::from_secs(31)))
            .await;
        *seen.lock().expect("one thread") = Some(dropped.load(Ordering::SeqCst));
        bench
            .clock
            .sleep_until(bench.clock.now().saturating_add(Duration::from_secs(1)))
            .await;
    };
    let driver = run(&store, &bench.clock, bench.settings.clone(), watching, |_| {});
    block_on(&bench.clock, driver).expect("the clock never goes backwards");
    assert_eq!(
        *seen.lock().expect("one thread"),
        Some(1),
        "a second after discovery reported it"
    );
}

#[test]
fn a_run_that_is_already_stopped_starts_nothing() {
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    let bench = Bench::new("1.36", &[&item]);
    let store = Ending::new(&bench, 0);
    let driver = run(&store, &bench.clock, bench.settings.clone(), ready(()), |_| {});
    let collector = block_on(&bench.clock, driver).expect("the clock never goes backwards");
    assert_eq!((collector.calls_made(), store.notes()), (0, Vec::new()));
}

#[test]
fn attempts_and_waits_are_reported() {
    let item = Object::new(SECRET, "red", "item").owned_by(&Object::new(CONFIG_MAP, "red", "gone"));
    let mut bench = Bench::new("1.36", &[&item]);
    bench.settings.record_conclusions = true;
    let (_, reports) = bench.run(&bench.shared, 10_000, 0, |_| {});
    let deleted = reports.iter().any(|(_, report)| {
        matches!(report, Report::Concluded { object, conclusion: Conclusion::Deleted } if &*object.name == "item")
    });
    assert!(deleted, "{reports:?}");
    let waits: Vec<WaitReason> = reports
        .iter()
        .filter_map(|(_, report)| match report {
            Report::Waiting(wait) => Some(wait.why),
            _ => None,
        })
        .collect();
    assert_eq!(waits.first(), Some(&WaitReason::Sync));
    assert_eq!(waits.last(), Some(&WaitReason::Events));
}
