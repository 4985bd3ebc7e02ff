//! A cluster in memory with a clock that nobody waits for, and drivers over it.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt as _, join};
use kubegc_core::{Catalog, Clock as _, DeleteOptions, KindId, KubernetesVersion, ObjectStore, Timestamp};
use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    driver::{Builder, Driver, Made, Outside, Report, Request, Summary},
    object::Call,
};
use kubegc_sim::{ApiServer, FaultPlan, Manifest, SharedApiServer, SimClock, fault::Rule};
use kubegc_snapshot::JsonDocuments;
use serde_json::{Value, json};

/// When every test begins: 2026-01-01 00:00:00 UTC.
pub(crate) const START: i64 = 1_767_225_600;

/// So many seconds after the beginning.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(START + seconds)
}

/// The same, as the API writes it.
pub(crate) fn text(seconds: i64) -> String {
    at(seconds).to_string()
}

/// Nothing goes wrong but what one rule says.
pub(crate) fn plan_of(rule: Rule) -> FaultPlan {
    FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    }
}

pub(crate) fn latest() -> KubernetesVersion {
    KubernetesVersion::LATEST
}

pub(crate) fn only(mechanisms: impl IntoIterator<Item = Mechanism>) -> Settings {
    Settings::only(latest(), mechanisms)
}

/// What a driver tells, with the seconds since the beginning.
#[derive(Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<Vec<(Timestamp, Report)>>>);

impl Reports {
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<(Timestamp, Report)>> {
        self.0.lock().expect("no test panics while it holds this")
    }

    /// The calls that were made.
    pub(crate) fn made(&self) -> Vec<Made> {
        let made = |(_, report): &(Timestamp, Report)| match report {
            Report::Made(made) => Some((**made).clone()),
            _ => None,
        };
        self.all().iter().filter_map(made).collect()
    }

    /// The calls that were made, events aside: when, and what.
    pub(crate) fn calls(&self) -> Vec<(Duration, String)> {
        let is_event = |made: &Made| matches!(made.request, Request::Call(Call::Event { .. }));
        let made = self.made().into_iter().filter(|made| !is_event(made));
        made.map(|made| (made.at.since(at(0)), made.to_string()))
            .collect()
    }

    /// The names of the objects that were deleted, or asked to be, in order.
    pub(crate) fn deletions(&self) -> Vec<String> {
        let deleted = |made: Made| match made.request {
            Request::Call(Call::Delete { object, .. }) => Some(object.to_string()),
            _ => None,
        };
        self.made().into_iter().filter_map(deleted).collect()
    }

    /// The reasons of the events.
    pub(crate) fn events(&self) -> Vec<&'static str> {
        let told = |made: Made| match made.request {
            Request::Call(Call::Event { reason, .. }) => Some(reason),
            _ => None,
        };
        self.made().into_iter().filter_map(told).collect()
    }

    /// What failed to be watched or discovered, with the time.
    pub(crate) fn failures(&self) -> Vec<(Duration, String)> {
        let failed = |(told_at, report): &(Timestamp, Report)| match report {
            Report::WatchFailed { .. } | Report::DiscoveryFailed(_) => {
                Some((told_at.since(at(0)), report.to_string()))
            }
            _ => None,
        };
        self.all().iter().filter_map(failed).collect()
    }
}

/// A cluster.
pub(crate) struct Bench {
    pub(crate) clock: SimClock,
    pub(crate) shared: SharedApiServer,
    pub(crate) reports: Reports,
}

impl Bench {
    /// A cluster of the newest release with these objects, as JSON, and the namespaces that they are in.
    pub(crate) fn new(objects: &[Value]) -> Self {
        Self::of_release(latest(), objects)
    }

    pub(crate) fn of_release(version: KubernetesVersion, objects: &[Value]) -> Self {
        let mut server = ApiServer::new(version, Catalog::builtin(version));
        server.set_now(at(0));
        for name in ["shop", "kube-system", "kube-node-lease"] {
            insert(&mut server, namespace(name));
        }
        for object in objects {
            insert(&mut server, object.clone());
        }
        let clock = SimClock::new(at(0));
        let shared = SharedApiServer::with_clock(server, Arc::new(clock.clone()));
        Self {
            clock,
            shared,
            reports: Reports::default(),
        }
    }

    /// A driver over a store, whose reports are kept.
    pub(crate) fn driver(&self, store: Arc<dyn ObjectStore>, settings: Settings) -> Builder {
        let (reports, clock) = (self.reports.clone(), self.clock.clone());
        Driver::builder(
            store,
            Arc::new(self.clock.clone()),
            Arc::new(JsonDocuments::default()),
        )
        .settings(settings)
        .observer(move |report| reports.all().push((clock.now(), report)))
    }

    /// Runs mechanisms for so many seconds, with nobody else about.
    pub(crate) fn run(&self, settings: Settings, seconds: i64) -> Summary {
        self.run_beside(self.driver(self.store(), settings), seconds, async {})
    }

    /// Runs mechanisms for so many seconds, with somebody beyond the API server.
    pub(crate) fn run_with(&self, outside: Arc<dyn Outside>, settings: Settings, seconds: i64) -> Summary {
        let driver = self.driver(self.store(), settings).outside(outside);
        self.run_beside(driver, seconds, async {})
    }

    /// Runs a driver until so many seconds after the beginning, beside something else.
    pub(crate) fn run_beside(
        &self,
        driver: Builder,
        seconds: i64,
        other: impl Future<Output = ()>,
    ) -> Summary {
        let stop = self.clock.sleep_until(at(seconds));
        let driver: BoxFuture<'_, Summary> = driver.build().run(stop).boxed();
        block_on(&self.clock, join(driver, other)).0
    }

    /// Runs a driver until nothing is due.
    pub(crate) fn run_until_idle(&self, driver: Builder) -> Summary {
        let never = std::future::pending();
        block_on(&self.clock, driver.build().run_until_idle(never))
    }

    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::new(self.shared.clone())
    }

    /// Looks one instant before so many seconds have passed, and one after.
    pub(crate) async fn around<T>(&self, seconds: i64, look: impl Fn(&Self) -> T) -> [T; 2] {
        let instant = |nanos| Timestamp::from_nanos(at(seconds).as_nanos() + nanos);
        self.clock.sleep_until(instant(-1)).await;
        let before = look(self);
        self.clock.sleep_until(instant(1)).await;
        [before, look(self)]
    }

    pub(crate) async fn until(&self, seconds: i64) {
        self.clock.sleep_until(at(seconds)).await;
    }

    pub(crate) fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        self.shared.with(|server| {
            let kind = kind_of(server, kind);
            let object = server.object(kind, namespace, name)?;
            Some(object.to_json(&server.catalog()[kind]))
        })
    }

    pub(crate) fn there(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.object(kind, namespace, name).is_some()
    }

    /// Whether the object is there and nobody has asked for its deletion.
    pub(crate) fn alive(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let object = self.object(kind, namespace, name);
        object.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_null())
    }

    /// A client changes an object by a merge patch.
    pub(crate) fn patch(&self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        self.write(kind, namespace, name, "", patch);
    }

    /// A client changes the status of an object by a merge patch.
    pub(crate) fn patch_status(&self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        self.write(kind, namespace, name, "status", patch);
    }

    fn write(&self, kind: &str, namespace: &str, name: &str, subresource: &str, patch: &Value) {
        let body = patch.to_string().into_bytes();
        let format = "application/merge-patch+json";
        let answer = self.shared.with(|server| {
            let kind = kind_of(server, kind);
            if subresource.is_empty() {
                server.patch(kind, namespace, name, format, &body)
            } else {
                server.patch_subresource(kind, namespace, name, subresource, format, &body)
            }
        });
        assert!(answer.is_success(), "{name}: {answer:?}");
    }

    /// A client creates an object.
    pub(crate) fn create(&self, object: Value) {
        let answer = self.shared.with(|server| {
            let kind = kind_of(server, object["kind"].as_str().expect("a kind"));
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("").to_owned();
            server.create_json(kind, &namespace, object)
        });
        assert!(answer.is_success(), "{answer:?}");
    }

    /// A client deletes an object, at once.
    pub(crate) fn delete(&self, kind: &str, namespace: &str, name: &str) {
        let answer = self.shared.with(|server| {
            let options = DeleteOptions {
                grace_period_seconds: Some(0),
                ..DeleteOptions::default()
            };
            server.delete_with(kind_of(server, kind), namespace, name, &options)
        });
        assert!(answer.is_success(), "{name}: {answer:?}");
    }
}

fn insert(server: &mut ApiServer, object: Value) {
    let manifest = Manifest::read(object).expect("the test's objects are well-formed");
    let kind = server.catalog().mapping(&manifest.api_version, &manifest.kind);
    let kind = kind.unwrap_or_else(|| panic!("{} is served", manifest.kind));
    server.insert(kind, manifest.object).expect("it has a name");
}

/// The preferred version of a kind.
fn kind_of(server: &ApiServer, kind: &str) -> KindId {
    let mut all = server.catalog().iter();
    let found = all.find(|(_, resource)| &*resource.kind == kind && resource.preferred);
    found.unwrap_or_else(|| panic!("{kind} is served")).0
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs a future to its end. Where it waits, time jumps to the next moment that somebody waits for.
pub(crate) fn block_on<T>(clock: &SimClock, future: impl Future<Output = T>) -> T {
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut future = pin!(future);
    loop {
        if flag.0.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return value;
            }
        } else {
            clock.set(clock.next_wake().expect("the future waits for nothing"));
        }
    }
}

// Objects, with uids made of their names.

fn meta(namespace: &str, name: &str) -> Value {
    let uid = format!("uid-of-{name}");
    let mut meta = json!({ "name": name, "uid": uid, "creationTimestamp": text(-10_000) });
    if !namespace.is_empty() {
        meta["namespace"] = namespace.into();
    }
    meta
}

/// Lays one value over another: objects field by field, all else as a whole.
pub(crate) fn with(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Object(mut base), Value::Object(over)) => {
            for (key, value) in over {
                let below = base.remove(&key).unwrap_or(Value::Null);
                base.insert(key, with(below, value));
            }
            Value::Object(base)
        }
        (_, over) => over,
    }
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": meta("", name),
        "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" },
    })
}

/// A job that finished so many seconds after the beginning.
pub(crate) fn job(name: &str, finished: i64, ttl: Option<i32>) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": meta("shop", name),
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [] } } },
        "status": {
            "startTime": text(finished - 60),
            "conditions": [{ "type": "Complete", "status": "True", "lastTransitionTime": text(finished) }],
        },
    });
    if let Some(ttl) = ttl {
        job["spec"]["ttlSecondsAfterFinished"] = ttl.into();
    }
    job
}

pub(crate) fn pod(name: &str, node: &str, phase: &str) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": meta("shop", name),
        "spec": { "containers": [{ "name": "main", "image": "shop" }], "terminationGracePeriodSeconds": 30 },
        "status": { "phase": phase },
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// A pod that mounts a claim.
pub(crate) fn pod_with_claim(name: &str, node: &str, claim: &str) -> Value {
    let volume = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    with(
        pod(name, node, "Running"),
        json!({ "spec": { "volumes": volume } }),
    )
}

pub(crate) fn node(name: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": meta("", name),
        "spec": { "providerID": format!("cloud://{name}") },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    })
}

pub(crate) fn claim(name: &str, volume: &str) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta("shop", name),
        "spec": {}, "status": { "phase": "Bound" },
    });
    if !volume.is_empty() {
        claim["spec"]["volumeName"] = volume.into();
    }
    claim
}

/// A volume of a claim in `shop`.
pub(crate) fn volume(name: &str, claim: &str, phase: &str, policy: &str) -> Value {
    let claim_ref = json!({ "namespace": "shop", "name": claim, "uid": format!("uid-of-{claim}") });
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta("", name),
        "spec": { "persistentVolumeReclaimPolicy": policy, "claimRef": claim_ref },
        "status": { "phase": phase },
    })
}

pub(crate) fn object(api_version: &str, kind: &str, namespace: &str, name: &str, rest: Value) -> Value {
    let base = json!({ "apiVersion": api_version, "kind": kind, "metadata": meta(namespace, name) });
    with(base, rest)
}
