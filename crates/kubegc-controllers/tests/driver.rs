//! The driver: discovery, lists and watches, guards and reports.

use std::{collections::VecDeque, future::pending, pin::pin, sync::Arc};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use kubegc_controllers::{
    Reason, Request, TtlAfterFinished,
    driver::{Driver, Summary},
};
use kubegc_core::{
    ApiResource, Catalog, Clock as _, DeleteOptions, KubernetesVersion, ObjectMeta, ObjectStore, PatchType,
    ResourceVersion, StoreError, Timestamp, WatchStream,
    deletion::Deleted,
    store::{Address, Discovered, MetaList, ObjectList, WatchItem},
};
use kubegc_sim::{ApiServer, Manifest, SharedApiServer, SimClock};
use kubegc_snapshot::JsonDocuments;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::common::at;

const NOON: &str = "2026-03-01T12:00:00Z";
const CONTROLLER: &str = "ttl-after-finished-controller";

/// A Job that finished a minute before noon.
fn job(name: &str, ttl: i32) -> Value {
    let complete =
        json!({"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T11:59:00Z"});
    json!({"apiVersion": "batch/v1", "metadata": {"namespace": "shop", "name": name, "uid": name,
        "creationTimestamp": "2026-03-01T11:00:00Z"},
        "spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [complete]}})
}

type Events = Vec<Result<WatchItem<Vec<u8>>, StoreError>>;

/// The failures of a store, each used once, and its calls.
#[derive(Default)]
struct Script {
    discover: VecDeque<StoreError>,
    list: VecDeque<Result<ObjectList, StoreError>>,
    /// The events of a watch, which then ends.
    watch: VecDeque<Result<Events, StoreError>>,
    get: VecDeque<StoreError>,
    /// The times of calls, in milliseconds after noon.
    calls: Vec<(u128, String)>,
}

#[derive(Clone)]
struct Store {
    server: SharedApiServer,
    clock: SimClock,
    script: Arc<Mutex<Script>>,
    /// The result of discovery, if it is not that of the server.
    catalog: Arc<Mutex<Option<Discovered>>>,
}

struct Scripted(std::vec::IntoIter<Result<WatchItem<Vec<u8>>, StoreError>>);

#[async_trait]
impl WatchStream<Vec<u8>> for Scripted {
    async fn next(&mut self) -> Option<Result<WatchItem<Vec<u8>>, StoreError>> {
        self.0.next()
    }
}

impl Store {
    fn new(script: Script, jobs: &[Value]) -> Self {
        let version = KubernetesVersion::LATEST;
        let mut server = ApiServer::new(version, Catalog::builtin(version));
        let kind = server.catalog().mapping("batch/v1", "Job").unwrap();
        for job in jobs {
            server
                .insert(kind, Manifest::read(job.clone()).unwrap().object)
                .unwrap();
        }
        Self {
            server: SharedApiServer::new(server),
            clock: SimClock::new(at(NOON)),
            script: Arc::new(Mutex::new(script)),
            catalog: Arc::default(),
        }
    }

    fn call(&self, call: String) {
        let at = self.clock.now().since(at(NOON)).as_millis();
        self.script.lock().calls.push((at, call));
    }

    fn jobs(&self) -> Vec<String> {
        self.server.with(|server| {
            let kind = server.catalog().mapping("batch/v1", "Job").unwrap();
            let jobs = server.objects(kind, None).into_iter();
            jobs.filter(|job| !job.meta.is_deleting())
                .map(|job| job.meta.name.to_string())
                .collect()
        })
    }
}

#[async_trait]
impl ObjectStore for Store {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        self.call("discover".to_owned());
        let failure = self.script.lock().discover.pop_front();
        if let Some(error) = failure {
            return Err(error);
        }
        let known = self.catalog.lock().clone();
        match known {
            Some(known) => Ok(known),
            None => self.server.discover().await,
        }
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        self.server.get(address).await
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        self.server.list(resource, namespace).await
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        self.server.watch(resource, since).await
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        self.call(format!("delete {}", address.name));
        self.server.delete(address, options).await
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.server.patch(address, format, body).await
    }

    async fn get_object(&self, address: Address<'_>) -> Result<Vec<u8>, StoreError> {
        self.call(format!("get {}", address.name));
        let failure = self.script.lock().get.pop_front();
        match failure {
            Some(error) => Err(error),
            None => self.server.get_object(address).await,
        }
    }

    async fn list_objects(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<ObjectList, StoreError> {
        self.call(format!("list {}", resource.resource));
        let scripted = self.script.lock().list.pop_front();
        match scripted {
            Some(scripted) => scripted,
            None => {
                let mut list = self.server.list_objects(resource, namespace).await?;
                list.resource_version = ResourceVersion::from("100");
                Ok(list)
            }
        }
    }

    async fn watch_objects(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream<Vec<u8>>>, StoreError> {
        self.call(format!("watch {} since {}", resource.resource, since.as_str()));
        let scripted = self.script.lock().watch.pop_front();
        match scripted {
            Some(events) => Ok(Box::new(Scripted(events?.into_iter()))),
            None => Ok(Box::new(Quiet)),
        }
    }
}

/// A watch without events.
struct Quiet;

#[async_trait]
impl WatchStream<Vec<u8>> for Quiet {
    async fn next(&mut self) -> Option<Result<WatchItem<Vec<u8>>, StoreError>> {
        pending().await
    }
}

struct Run {
    summary: Summary,
    calls: Vec<(u128, String)>,
    reports: Vec<String>,
    store: Store,
}

impl Run {
    fn calls(&self) -> Vec<(u128, &str)> {
        self.calls.iter().map(|(at, call)| (*at, call.as_str())).collect()
    }

    /// The times of a call.
    fn times(&self, call: &str) -> Vec<u128> {
        let calls = self.calls.iter().filter(|(_, made)| made == call);
        calls.map(|(at, _)| *at).collect()
    }

    /// The number of reports that begin so.
    fn reported(&self, begin: &str) -> usize {
        let reports = self.reports.iter();
        reports.filter(|line| line.starts_with(begin)).count()
    }
}

/// Runs the controller of finished Jobs for so many seconds. Time passes from one timer to the next.
fn run(script: Script, jobs: &[Value], seconds: i64) -> Run {
    run_on(Store::new(script, jobs), seconds, false, |_| Ok(()))
}

/// Runs for so many seconds, or until nothing is due before.
fn run_on(
    store: Store,
    seconds: i64,
    until_idle: bool,
    guard: impl Fn(&Request) -> Result<(), Reason> + Send + 'static,
) -> Run {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reports);
    let clock = store.clock.clone();
    let documents = Arc::new(JsonDocuments::default());
    let driver = Driver::new(Arc::new(store.clone()), Arc::new(clock.clone()), documents)
        .controller(TtlAfterFinished::new(KubernetesVersion::LATEST))
        .wire(kubegc_controllers::Wire::AsUpstream)
        .guard(move |_, request| guard(request))
        .observer(move |report| seen.lock().push(report.to_string()));
    let horizon = Timestamp::from_secs(at(NOON).as_secs() + seconds);
    let stop_clock = clock.clone();
    let stop = async move { stop_clock.sleep_until(horizon).await };
    let mut run = match until_idle {
        true => driver.run_until_idle_after(horizon, pending()).boxed(),
        false => driver.run(stop).boxed(),
    };
    for _ in 0..1_000 {
        for _ in 0..50 {
            if let Some(summary) = run.as_mut().now_or_never() {
                let calls = std::mem::take(&mut store.script.lock().calls);
                let reports = std::mem::take(&mut *reports.lock());
                return Run {
                    summary,
                    calls,
                    reports,
                    store,
                };
            }
        }
        let next = clock.next_wake().expect("it waits for something");
        clock.set(next);
    }
    panic!("it does not end")
}

fn unknown() -> StoreError {
    StoreError::Unknown {
        message: "lost".to_owned(),
    }
}

fn document(job: &Value, version: &str) -> Vec<u8> {
    let mut job = job.clone();
    job["kind"] = "Job".into();
    job["metadata"]["resourceVersion"] = version.into();
    serde_json::to_vec(&job).unwrap()
}

const LISTED: [(u128, &str); 3] = [(0, "discover"), (0, "list jobs"), (0, "watch jobs since 100")];

#[test]
fn what_becomes_due_before_the_horizon_is_done() {
    let jobs = [job("a", 30), job("b", 90), job("c", 200)];
    let run = run_on(Store::new(Script::default(), &jobs), 60, true, |_| Ok(()));
    let deletes = [
        (0, "get a"),
        (0, "delete a"),
        (30_000, "get b"),
        (30_000, "delete b"),
    ];
    assert_eq!(run.calls(), [&LISTED[..], &deletes[..]].concat());
    assert_eq!(run.store.jobs(), ["c"]);
    assert_eq!(run.summary.of(CONTROLLER).done, 2);
    assert_eq!(run.summary.next_at, Some(at("2026-03-01T12:02:20Z")));
    assert!(run.summary.unknown.is_empty());
    let delete = |name: &str, age: &str, ttl: u32| {
        format!(
            "{CONTROLLER}: delete job.batch/{name} -n shop: it finished {age} ago, and \
             spec.ttlSecondsAfterFinished is {ttl}"
        )
    };
    for line in [
        delete("a", "1m", 30),
        format!("{CONTROLLER}: job.batch/a -n shop: done"),
        delete("b", "1m30s", 90),
        "nothing to do until 2026-03-01T12:00:30Z".to_owned(),
        "nothing to do until 2026-03-01T12:02:20Z".to_owned(),
    ] {
        assert!(run.reports.contains(&line), "{line}: {:#?}", run.reports);
    }
}

/// After 0.8 s, 1.6 s, ... 30 s.
#[test]
fn discovery_is_retried() {
    let script = Script {
        discover: [unknown(), unknown()].into(),
        ..Script::default()
    };
    let run = run(script, &[job("a", 30)], 60);
    assert_eq!(run.times("discover"), [0, 800, 2_400]);
    assert_eq!(run.store.jobs(), [""; 0]);
    assert_eq!(run.reported("discovery failed: "), 2, "{:#?}", run.reports);
}

/// While a resource is not served, every five minutes; while a group cannot be discovered, as after a
/// failure.
#[test]
fn discovery_is_repeated_until_all_resources_are_served() {
    let discovered = |failed: &[&str]| {
        let failed = failed
            .iter()
            .map(|group| ((*group).to_owned(), "it is down".to_owned()));
        Discovered {
            catalog: Catalog::default(),
            failed: failed.collect(),
        }
    };
    for (failed, seconds, expected, unknown) in [
        (&[][..], 700, vec![0, 300_000, 600_000], 0),
        (&["batch/v1"][..], 3, vec![0, 800, 2_400], 0),
    ] {
        let store = Store::new(Script::default(), &[]);
        *store.catalog.lock() = Some(discovered(failed));
        let run = run_on(store, seconds, false, |_| Ok(()));
        let times: Vec<u128> = run.calls.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, expected, "{:?}", run.calls);
        assert_eq!(run.summary.unknown.len(), unknown);
    }
    // A run until nothing is due does not wait for it.
    let store = Store::new(Script::default(), &[]);
    *store.catalog.lock() = Some(discovered(&[]));
    assert_eq!(run_on(store, 700, true, |_| Ok(())).calls(), [(0, "discover")]);
}

#[test]
fn lists_and_watches_are_retried() {
    let fails = |error: StoreError| Script {
        list: [Err(error.clone()), Err(error)].into(),
        ..Script::default()
    };
    let run_of = run(fails(unknown()), &[job("a", 90)], 60);
    let expected = [
        (0, "discover"),
        (0, "list jobs"),
        (800, "list jobs"),
        (2_400, "list jobs"),
        (2_400, "watch jobs since 100"),
        (30_000, "get a"),
        (30_000, "delete a"),
    ];
    assert_eq!(run_of.calls(), expected);
    assert_eq!(run_of.reported("list or watch of jobs failed: "), 2);

    // A resource that is not found may be served in another version.
    let run_of = run(fails(StoreError::NotFound), &[job("a", 90)], 60);
    assert_eq!(run_of.times("discover"), [0, 800], "{:?}", run_of.calls);

    // An expired version leads to a new list at once.
    let script = Script {
        watch: [Err(StoreError::Expired), Err(StoreError::Expired)].into(),
        ..Script::default()
    };
    let run_of = run(script, &[job("a", 90)], 60);
    let expected = [
        (0, "discover"),
        (0, "list jobs"),
        (0, "watch jobs since 100"),
        (0, "list jobs"),
        (0, "watch jobs since 100"),
        (1_600, "list jobs"),
        (1_600, "watch jobs since 100"),
    ];
    assert_eq!(run_of.calls()[..7], expected);
    assert!(run_of.reports.iter().all(|line| !line.contains("failed")));
}

#[test]
fn a_watch_continues_at_its_last_version() {
    let bookmark = |version: &str| Ok(WatchItem::Bookmark(ResourceVersion::from(version)));
    let a = job("a", 90);
    for (events, since, delay) in [
        (vec![], "100", 800),
        (vec![bookmark("105")], "105", 0),
        (vec![Ok(WatchItem::Applied(document(&a, "110")))], "110", 0),
        (vec![Ok(WatchItem::Deleted(document(&a, "111")))], "111", 0),
        (vec![Ok(WatchItem::Applied(document(&a, "")))], "100", 0),
        (vec![bookmark("105"), Err(unknown())], "105", 800),
    ] {
        let script = Script {
            watch: [Ok(events.clone())].into(),
            ..Script::default()
        };
        let run = run(script, std::slice::from_ref(&a), 20);
        let watch = format!("watch jobs since {since}");
        assert_eq!(run.calls()[3..], [(delay, watch.as_str())], "{events:?}");
    }
    // What the watch delivers is known.
    let b = job("b", 30);
    for (event, is_deleted) in [
        (WatchItem::Applied(document(&b, "110")), true),
        (WatchItem::Deleted(document(&a, "110")), false),
    ] {
        let script = Script {
            watch: [Ok(vec![Ok(event)])].into(),
            ..Script::default()
        };
        let store = Store::new(script, std::slice::from_ref(&a));
        store.server.with(|server| {
            let kind = server.catalog().mapping("batch/v1", "Job").unwrap();
            server
                .insert(kind, Manifest::read(b.clone()).unwrap().object)
                .unwrap();
        });
        // The list does not have the second Job yet.
        store.script.lock().list.push_back(Ok(ObjectList {
            items: vec![document(&a, "90")],
            resource_version: ResourceVersion::from("100"),
        }));
        let run = run_on(store, 20, false, |_| Ok(()));
        assert!(run.times("delete a").is_empty());
        assert_eq!(run.times("delete b").len(), usize::from(is_deleted));
        assert_eq!(
            run.summary.next_at.is_some(),
            is_deleted,
            "the deleted Job is forgotten"
        );
    }
}

#[test]
fn an_object_that_cannot_be_read_leads_to_a_new_list() {
    let broken = || b"{".to_vec();
    let script = Script {
        list: [Ok(ObjectList {
            items: vec![broken()],
            resource_version: ResourceVersion::from("100"),
        })]
        .into(),
        ..Script::default()
    };
    let run_of = run(script, &[job("a", 30)], 20);
    let expected = [
        (0, "discover"),
        (0, "list jobs"),
        (0, "watch jobs since 100"),
        (800, "list jobs"),
        (800, "watch jobs since 100"),
        (800, "get a"),
        (800, "delete a"),
    ];
    assert_eq!(run_of.calls(), expected);
    let unreadable = run_of
        .reports
        .iter()
        .find(|line| line.contains("an object of jobs cannot be read"));
    assert!(unreadable.is_some(), "{:#?}", run_of.reports);
    let script = Script {
        watch: [Ok(vec![Ok(WatchItem::Applied(broken()))])].into(),
        ..Script::default()
    };
    let run_of = run(script, &[job("a", 300)], 20);
    let expected = [&LISTED[..], &[(800, "list jobs"), (800, "watch jobs since 100")]].concat();
    assert_eq!(run_of.calls(), expected);
}

#[test]
fn a_guard_keeps_writes_from_being_sent() {
    let store = Store::new(Script::default(), &[job("a", 30), job("b", 30)]);
    let guard = |request: &Request| match request.object() {
        Some(object) if &*object.name == "a" => Err(Reason::new("Protected", "it is protected")),
        _ => Ok(()),
    };
    let run = run_on(store, 1, true, guard);
    assert_eq!(run.store.jobs(), ["a"]);
    assert!(run.times("delete a").is_empty());
    assert_eq!(run.summary.of(CONTROLLER).done, 2, "{:#?}", run.reports);
    let is_shown = run.reports.iter().any(|line| line.contains("it is protected"));
    assert!(is_shown, "{:#?}", run.reports);
}

#[test]
fn failed_requests_are_counted_and_retried() {
    let script = Script {
        get: [unknown(), StoreError::NotFound].into(),
        ..Script::default()
    };
    let run = run(script, &[job("a", 30)], 60);
    let counts = run.summary.of(CONTROLLER);
    assert_eq!(
        (counts.failed, counts.done + counts.stale),
        (1, 1),
        "{:#?}",
        run.reports
    );
    assert_eq!(run.times("get a").len(), 2);
    assert_eq!(run.store.jobs(), ["a"]);
}

#[test]
fn no_task_starts_after_the_stop() {
    let store = Store::new(Script::default(), &[job("a", 30)]);
    let documents = Arc::new(JsonDocuments::default());
    let driver = Driver::new(Arc::new(store.clone()), Arc::new(store.clock.clone()), documents)
        .controller(TtlAfterFinished::new(KubernetesVersion::LATEST));
    let summary = pin!(driver.run(std::future::ready(()))).now_or_never();
    assert_eq!(summary, Some(Summary::default()));
    assert!(store.script.lock().calls.is_empty());
}
