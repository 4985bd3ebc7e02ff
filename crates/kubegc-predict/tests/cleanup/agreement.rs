//! Drivers on a simulated server remove the objects of the forecast at the times of the forecast.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use kubegc_control_plane::{ControlPlane, Settings, StepResult};
use kubegc_controllers::{
    Controller, ExternalProvisioner, Guard, Operated, Operation, Plugin,
    driver::{Driver, Outside},
};
use kubegc_core::{Catalog, Timestamp, identity::kubectl_name, record::ObjectId};
use kubegc_fixtures::{Fixture, merge, owned_by, owner, uid};
use kubegc_predict::Question;
use kubegc_sim::{ApiServer, EventType, Manifest, SharedApiServer, SimClock};
use kubegc_snapshot::JsonDocuments;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::{DAY, NODES, VERSION, at, at_most, cluster, condition, noon, predict, question};

const PROVISIONER: &str = "disk.csi.example.com";
pub(crate) const HORIZON: Duration = Duration::from_secs(3 * 3_600);

/// A volume plugin that deletes storage on request.
struct Plugins;

#[async_trait]
impl Outside for Plugins {
    async fn find_plugin(&self, _volume: &ObjectId, _document: &[u8], _operation: Operation) -> Plugin {
        Plugin::External
    }

    async fn operate(&self, _volume: &ObjectId, _document: &[u8], _operation: Operation) -> Operated {
        Operated::Done
    }

    async fn may_delete(&self, _volume: &ObjectId, _document: &[u8]) -> Guard {
        Guard::Allows
    }
}

pub(crate) fn controllers() -> Vec<Arc<dyn Controller>> {
    let question = Question::new(VERSION)
        .up_to(DAY)
        // There is no cloud.
        .without(NODES)
        .with(at_most(3))
        .with(ExternalProvisioner::new(PROVISIONER));
    question.controllers
}

/// A server with the objects.
fn server(fixture: &Fixture) -> ApiServer {
    let settings = kubegc_sim::Settings {
        namespaces_must_exist: false,
        ..kubegc_sim::Settings::default()
    };
    let mut server = ApiServer::new(VERSION, Catalog::builtin(VERSION)).with_settings(settings);
    server.set_now(noon());
    for object in &fixture.objects {
        let manifest = Manifest::read(object.clone()).unwrap();
        let kind = server
            .catalog()
            .mapping(&manifest.api_version, &manifest.kind)
            .unwrap();
        server.insert(kind, manifest.object).unwrap();
    }
    server
}

pub(crate) type Removal = (Timestamp, String);

/// The removals of the forecast.
pub(crate) fn forecast_removals(fixture: &Fixture) -> Vec<Removal> {
    let mut question = question().up_to(HORIZON);
    question.controllers = controllers();
    let forecast = predict(&cluster(fixture), &question);
    let mut removals: Vec<Removal> = forecast
        .removals()
        .map(|removed| (removed.at, removed.object.short()))
        .collect();
    removals.sort();
    removals
}

/// The removals of the drivers and the control plane.
fn simulated_removals(fixture: &Fixture) -> Vec<Removal> {
    let clock = SimClock::new(noon());
    let until = noon().saturating_add(HORIZON);
    let shared = SharedApiServer::with_clock(server(fixture), Arc::new(clock.clone()));
    // The driver runs the controllers; the garbage collector and the kubelets are simulated.
    let settings = Settings {
        controllers: Vec::new(),
        nodes_matter: true,
        ..Settings::new(VERSION)
    };
    let mut plane = shared.with(|server| ControlPlane::new(server, settings));
    let store = Arc::new(shared.clone());
    let driver = Driver::new(store, Arc::new(clock.clone()), Arc::new(JsonDocuments::default()))
        .controllers(controllers())
        .outside(Arc::new(Plugins));
    let mut running = pin!(driver.run(std::future::pending::<()>()));
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = shared.with(|server| server.revision());
    let mut removals = Vec::new();
    for _ in 0..100_000 {
        let before = shared.with(|server| server.revision());
        // The driver waits only for changes and the clock, so polling it again is enough.
        for _ in 0..20 {
            if let Poll::Ready(summary) = running.as_mut().poll(&mut context) {
                panic!("the driver ended: {summary:?}");
            }
        }
        let certain_at = loop {
            if let StepResult::Idle(idle) = shared.with(|server| plane.step(server)) {
                break idle.certain_at;
            }
        };
        let now = kubegc_core::Clock::now(&clock);
        shared.with(|server| {
            for change in server.changes_since(seen) {
                if change.event.event_type == EventType::Deleted {
                    let meta = &change.event.object.meta;
                    let kind = &server.catalog()[change.kind];
                    let name = kubectl_name(&kind.group, &kind.kind, &meta.namespace, &meta.name);
                    removals.push((now, name));
                }
            }
            seen = server.revision();
        });
        if seen != before {
            continue;
        }
        let next = clock.next_wake().into_iter().chain(certain_at).min();
        match next {
            Some(next) if next <= until => clock.set(next),
            _ => {
                removals.sort();
                return removals;
            }
        }
    }
    panic!("changes continue after 100,000 steps");
}

/// A part of a generated cluster: the numbers that its fields are drawn from.
#[derive(Clone, Debug)]
pub(crate) struct Part(Vec<u16>);

pub(crate) fn part() -> impl Strategy<Value = Part> {
    prop::collection::vec(any::<u16>(), DRAWS).prop_map(Part)
}

impl Part {
    /// Whether it is a volume without a provisioner.
    pub(crate) fn has_unknown_plugin(&self) -> bool {
        let mut draws = Draws(self.0.iter());
        draws.number(0..KINDS) == VOLUME && {
            draws.policy();
            !draws.flag()
        }
    }
}

/// The number of kinds of parts.
const KINDS: i64 = 8;
/// The kind of a volume without a claim.
const VOLUME: i64 = 6;
/// At least as many as any part needs.
const DRAWS: usize = 20;

/// The remaining numbers of a part.
struct Draws<'p>(std::slice::Iter<'p, u16>);

impl Draws<'_> {
    fn number(&mut self, range: std::ops::Range<i64>) -> i64 {
        let drawn = i64::from(*self.0.next().expect("a part has enough numbers"));
        range.start + drawn % (range.end - range.start)
    }

    fn flag(&mut self) -> bool {
        self.number(0..2) == 1
    }

    fn some(&mut self, range: std::ops::Range<i64>) -> Option<i64> {
        self.flag().then(|| self.number(range))
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.number(0..texts.len() as i64) as usize]
    }

    fn policy(&mut self) -> &'static str {
        self.one_of(&["Delete", "Retain"])
    }

    fn phase(&mut self) -> &'static str {
        self.one_of(&["Running", "Succeeded", "Failed", "Pending", ""])
    }
}

pub(crate) fn fixture(parts: &[Part]) -> Fixture {
    let mut fixture = Fixture::default();
    let node = |ready: &str| json!({ "spec": {}, "status": { "conditions": [{ "type": "Ready", "status": ready }] } });
    fixture.add("v1", "Node", "", "n1", node("True"));
    fixture.add("v1", "Node", "", "n2", node("Unknown"));
    fixture.change_last(json!({ "spec": { "taints": [{
        "key": "node.kubernetes.io/out-of-service", "value": "yes", "effect": "NoExecute",
    }] } }));
    for (number, part) in parts.iter().enumerate() {
        add_part(&mut fixture, number, part);
    }
    fixture
}

fn add_part(fixture: &mut Fixture, number: usize, part: &Part) {
    let mut draws = Draws(part.0.iter());
    let name = |what: &str| format!("{what}-{number}");
    let pod = |node: &str, phase: &str| json!({ "spec": { "nodeName": node, "containers": [], "terminationGracePeriodSeconds": 30 }, "status": { "phase": phase } });
    match draws.number(0..KINDS) {
        0 => {
            let mut job = json!({ "spec": {}, "status": condition("Complete", draws.number(-2_000..30)) });
            if let Some(ttl) = draws.some(0..4_000) {
                job["spec"]["ttlSecondsAfterFinished"] = ttl.into();
            }
            fixture.add("batch/v1", "Job", "shop", &name("job"), job);
            for index in 0..draws.number(0..3) {
                let pod_name = format!("job-{number}-pod-{index}");
                fixture.add("v1", "Pod", "shop", &pod_name, pod("n1", "Running"));
                let owners = [owner("batch/v1", "Job", &name("job"), index == 0)];
                fixture.change_last(json!({ "metadata": { "ownerReferences": owners } }));
            }
        }
        1 => {
            let (successful, failed) = (draws.number(0..3), draws.number(0..3));
            let spec = json!({ "successfulJobsHistoryLimit": successful, "failedJobsHistoryLimit": failed, "jobTemplate": {} });
            let cron_job = json!({ "spec": spec });
            fixture.add("batch/v1", "CronJob", "shop", &name("cron"), cron_job);
            for index in 0..draws.number(0..6) {
                let kind = draws.one_of(&["Complete", "Failed"]);
                let mut job = json!({ "spec": {}, "status": condition(kind, -50) });
                if let Some(started) = draws.some(-500..-100) {
                    job["status"]["startTime"] = at(started).into();
                }
                merge(&mut job, owned_by("batch/v1", "CronJob", &name("cron")));
                fixture.add("batch/v1", "Job", "shop", &format!("cron-{number}-{index}"), job);
            }
        }
        2 => {
            let node = draws.one_of(&["n1", "n2", "missing", ""]);
            fixture.add("v1", "Pod", "shop", &name("pod"), pod(node, draws.phase()));
            let mut metadata = json!({ "creationTimestamp": at(draws.number(-9_000..-8_000)) });
            if draws.flag() {
                metadata["deletionTimestamp"] = at(7_200).into();
                metadata["deletionGracePeriodSeconds"] = 7_260.into();
            }
            fixture.change_last(json!({ "metadata": metadata }));
        }
        3 => {
            let since = draws.number(-5_000..0);
            let mut status = match draws.one_of(&["Approved", "Denied", "Failed", ""]) {
                "" => json!({}),
                kind => condition(kind, since),
            };
            if draws.flag() {
                status["certificate"] = "bm8gUEVN".into();
            }
            let request = json!({ "metadata": { "creationTimestamp": at(since - 84_000) }, "spec": {}, "status": status });
            let api_version = "certificates.k8s.io/v1";
            fixture.add(
                api_version,
                "CertificateSigningRequest",
                "",
                &name("csr"),
                request,
            );
        }
        4 => {
            let secret = json!({
                "type": "bootstrap.kubernetes.io/token",
                "stringData": { "expiration": at(draws.number(-100..5_000)) },
            });
            fixture.add("v1", "Secret", "kube-system", &name("bootstrap-token"), secret);
        }
        5 => {
            let mut claim = json!({
                "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] },
                "spec": { "volumeName": name("pv") },
                "status": { "phase": "Bound" },
            });
            if draws.flag() {
                claim["metadata"]["deletionTimestamp"] = at(-10).into();
                claim["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            }
            fixture.add("v1", "PersistentVolumeClaim", "shop", &name("claim"), claim);
            let uid = uid("PersistentVolumeClaim", &name("claim"));
            let claim_ref = json!({ "namespace": "shop", "name": name("claim"), "uid": uid });
            volume(fixture, &name("pv"), draws.policy(), true, claim_ref);
            let phase = draws.phase();
            for index in 0..draws.number(0..3) {
                let mut user = pod(if index == 0 { "missing" } else { "" }, phase);
                user["spec"]["volumes"] =
                    json!([{ "name": "v", "persistentVolumeClaim": { "claimName": name("claim") } }]);
                fixture.add("v1", "Pod", "shop", &format!("user-{number}-{index}"), user);
            }
        }
        VOLUME => {
            let claim = json!({ "namespace": "shop", "name": "never", "uid": "never" });
            volume(fixture, &name("pv"), draws.policy(), draws.flag(), claim);
        }
        _ => add_set(fixture, &name("set"), &mut draws),
    }
}

/// A StatefulSet with claims and pods, of which the last may exceed its replicas.
fn add_set(fixture: &mut Fixture, name: &str, draws: &mut Draws<'_>) {
    let spec = json!({
        "replicas": draws.number(0..3),
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": draws.policy(), "whenScaled": draws.policy() },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
    });
    fixture.add("apps/v1", "StatefulSet", "shop", name, json!({ "spec": spec }));
    if draws.flag() {
        fixture.change_last(json!({ "metadata": {
            "finalizers": ["foregroundDeletion"],
            "deletionTimestamp": at(-5),
            "deletionGracePeriodSeconds": 0,
        } }));
    }
    for ordinal in 0..draws.number(0..4) {
        let claim = json!({
            "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] },
            "spec": {},
            "status": { "phase": "Bound" },
        });
        let claim_name = format!("data-{name}-{ordinal}");
        fixture.add("v1", "PersistentVolumeClaim", "shop", &claim_name, claim);
    }
    for ordinal in 0..draws.number(0..3) {
        let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": format!("data-{name}-{ordinal}") } });
        let mut pod = json!({
            "metadata": { "ownerReferences": [owner("apps/v1", "StatefulSet", name, true)] },
            "spec": { "nodeName": "n1", "containers": [], "volumes": [volume], "terminationGracePeriodSeconds": 30 },
            "status": { "phase": "Running" },
        });
        if draws.flag() {
            pod["metadata"]["deletionTimestamp"] = at(20).into();
            pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        }
        fixture.add("v1", "Pod", "shop", &format!("{name}-{ordinal}"), pod);
    }
}

fn volume(fixture: &mut Fixture, name: &str, policy: &str, provisioned: bool, claim: Value) {
    let mut volume = json!({
        "metadata": { "finalizers": ["kubernetes.io/pv-protection"] },
        "spec": { "persistentVolumeReclaimPolicy": policy, "claimRef": claim },
        "status": { "phase": "Bound" },
    });
    if provisioned {
        volume["metadata"]["annotations"] = json!({ "pv.kubernetes.io/provisioned-by": PROVISIONER });
        volume["spec"]["csi"] = json!({ "driver": PROVISIONER, "volumeHandle": name });
    } else {
        volume["spec"]["nfs"] = json!({ "server": "nfs.example.com", "path": "/" });
    }
    fixture.add("v1", "PersistentVolume", "", name, volume);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn drivers_remove_the_objects_of_the_forecast_at_its_times(parts in prop::collection::vec(part(), 0..8)) {
        let fixture = fixture(&parts);
        prop_assert_eq!(forecast_removals(&fixture), simulated_removals(&fixture));
    }
}
