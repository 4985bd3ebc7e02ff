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

use crate::fixture::{DAY, NODES, VERSION, at, at_most, cluster, condition, noon, predict};

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
    let mut question = Question::new(VERSION).up_to(DAY).at(noon()).up_to(HORIZON);
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
    let driver = Driver::builder(store, Arc::new(clock.clone()), Arc::new(JsonDocuments::default()))
        .controllers(controllers())
        .outside(Arc::new(Plugins))
        .build();
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

/// A part of a generated cluster.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Job {
        finished: i64,
        ttl: Option<i64>,
        pods: usize,
    },
    CronJob {
        successful: i64,
        failed: i64,
        jobs: Vec<(bool, Option<i64>)>,
    },
    Pod {
        node: usize,
        phase: &'static str,
        created: i64,
        terminating: bool,
    },
    Request {
        condition: Option<&'static str>,
        since: i64,
        certificate: bool,
    },
    Bootstrap {
        expires: i64,
    },
    Claim {
        users: usize,
        deleting: bool,
        policy: &'static str,
        phase: &'static str,
    },
    Volume {
        policy: &'static str,
        provisioned: bool,
    },
    Set {
        deleting: bool,
        when_deleted: &'static str,
        when_scaled: &'static str,
        replicas: usize,
        claims: usize,
        pods: Vec<bool>,
    },
}

pub(crate) fn part() -> impl Strategy<Value = Part> {
    let phase = || prop::sample::select(vec!["Running", "Succeeded", "Failed", "Pending", ""]);
    let policy = || prop::sample::select(vec!["Delete", "Retain"]);
    prop_oneof![
        (-2_000..30_i64, prop::option::of(0..4_000_i64), 0..3_usize)
            .prop_map(|(finished, ttl, pods)| Part::Job { finished, ttl, pods }),
        (
            0..3_i64,
            0..3_i64,
            prop::collection::vec((any::<bool>(), prop::option::of(-500..-100_i64)), 0..6)
        )
            .prop_map(|(successful, failed, jobs)| Part::CronJob {
                successful,
                failed,
                jobs
            }),
        (0..4_usize, phase(), -9_000..-8_000_i64, any::<bool>()).prop_map(
            |(node, phase, created, terminating)| Part::Pod {
                node,
                phase,
                created,
                terminating
            }
        ),
        (
            prop::option::of(prop::sample::select(vec!["Approved", "Denied", "Failed"])),
            -5_000..0_i64,
            any::<bool>()
        )
            .prop_map(|(condition, since, certificate)| Part::Request {
                condition,
                since,
                certificate
            }),
        (-100..5_000_i64).prop_map(|expires| Part::Bootstrap { expires }),
        (0..3_usize, any::<bool>(), policy(), phase()).prop_map(|(users, deleting, policy, phase)| {
            Part::Claim {
                users,
                deleting,
                policy,
                phase,
            }
        }),
        (policy(), any::<bool>()).prop_map(|(policy, provisioned)| Part::Volume { policy, provisioned }),
        (
            any::<bool>(),
            policy(),
            policy(),
            0..3_usize,
            0..4_usize,
            prop::collection::vec(any::<bool>(), 0..3)
        )
            .prop_map(
                |(deleting, when_deleted, when_scaled, replicas, claims, pods)| Part::Set {
                    deleting,
                    when_deleted,
                    when_scaled,
                    replicas,
                    claims,
                    pods
                }
            ),
    ]
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
    let name = |what: &str| format!("{what}-{number}");
    let pod = |node: &str, phase: &str| json!({ "spec": { "nodeName": node, "containers": [], "terminationGracePeriodSeconds": 30 }, "status": { "phase": phase } });
    match part {
        Part::Job { finished, ttl, pods } => {
            let mut job = json!({ "spec": {}, "status": condition("Complete", *finished) });
            if let Some(ttl) = ttl {
                job["spec"]["ttlSecondsAfterFinished"] = (*ttl).into();
            }
            fixture.add("batch/v1", "Job", "shop", &name("job"), job);
            for index in 0..*pods {
                fixture.add(
                    "v1",
                    "Pod",
                    "shop",
                    &format!("job-{number}-pod-{index}"),
                    pod("n1", "Running"),
                );
                let owners = [owner("batch/v1", "Job", &name("job"), index == 0)];
                fixture.change_last(json!({ "metadata": { "ownerReferences": owners } }));
            }
        }
        Part::CronJob {
            successful,
            failed,
            jobs,
        } => {
            let spec = json!({ "successfulJobsHistoryLimit": successful, "failedJobsHistoryLimit": failed, "jobTemplate": {} });
            fixture.add(
                "batch/v1",
                "CronJob",
                "shop",
                &name("cron"),
                json!({ "spec": spec }),
            );
            for (index, (succeeded, started)) in jobs.iter().enumerate() {
                let kind = if *succeeded { "Complete" } else { "Failed" };
                let mut job = json!({ "spec": {}, "status": condition(kind, -50) });
                if let Some(started) = started {
                    job["status"]["startTime"] = at(*started).into();
                }
                merge(&mut job, owned_by("batch/v1", "CronJob", &name("cron")));
                fixture.add("batch/v1", "Job", "shop", &format!("cron-{number}-{index}"), job);
            }
        }
        Part::Pod {
            node,
            phase,
            created,
            terminating,
        } => {
            let node = ["n1", "n2", "missing", ""][*node];
            fixture.add("v1", "Pod", "shop", &name("pod"), pod(node, phase));
            let mut metadata = json!({ "creationTimestamp": at(*created) });
            if *terminating {
                metadata["deletionTimestamp"] = at(7_200).into();
                metadata["deletionGracePeriodSeconds"] = 7_260.into();
            }
            fixture.change_last(json!({ "metadata": metadata }));
        }
        Part::Request {
            condition: kind,
            since,
            certificate,
        } => {
            let mut status = kind.map_or_else(|| json!({}), |kind| condition(kind, *since));
            if *certificate {
                status["certificate"] = "bm8gUEVN".into();
            }
            let request = json!({ "metadata": { "creationTimestamp": at(since - 84_000) }, "spec": {}, "status": status });
            fixture.add(
                "certificates.k8s.io/v1",
                "CertificateSigningRequest",
                "",
                &name("csr"),
                request,
            );
        }
        Part::Bootstrap { expires } => {
            let secret = json!({
                "type": "bootstrap.kubernetes.io/token",
                "stringData": { "expiration": at(*expires) },
            });
            fixture.add("v1", "Secret", "kube-system", &name("bootstrap-token"), secret);
        }
        Part::Claim {
            users,
            deleting,
            policy,
            phase,
        } => {
            let mut claim = json!({
                "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] },
                "spec": { "volumeName": name("pv") },
                "status": { "phase": "Bound" },
            });
            if *deleting {
                claim["metadata"]["deletionTimestamp"] = at(-10).into();
                claim["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            }
            fixture.add("v1", "PersistentVolumeClaim", "shop", &name("claim"), claim);
            let uid = uid("PersistentVolumeClaim", &name("claim"));
            volume(
                fixture,
                &name("pv"),
                policy,
                true,
                json!({ "namespace": "shop", "name": name("claim"), "uid": uid }),
            );
            for index in 0..*users {
                let mut user = pod(if index == 0 { "missing" } else { "" }, phase);
                user["spec"]["volumes"] =
                    json!([{ "name": "v", "persistentVolumeClaim": { "claimName": name("claim") } }]);
                fixture.add("v1", "Pod", "shop", &format!("user-{number}-{index}"), user);
            }
        }
        Part::Set { .. } => add_set(fixture, &name("set"), part),
        Part::Volume { policy, provisioned } => {
            let claim = json!({ "namespace": "shop", "name": "never", "uid": "never" });
            volume(fixture, &name("pv"), policy, *provisioned, claim);
        }
    }
}

/// A StatefulSet with claims and pods, of which the last may exceed its replicas.
fn add_set(fixture: &mut Fixture, name: &str, part: &Part) {
    let Part::Set {
        deleting,
        when_deleted,
        when_scaled,
        replicas,
        claims,
        pods,
    } = part
    else {
        return;
    };
    let spec = json!({
        "replicas": replicas,
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": when_deleted, "whenScaled": when_scaled },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
    });
    fixture.add("apps/v1", "StatefulSet", "shop", name, json!({ "spec": spec }));
    if *deleting {
        fixture.change_last(json!({ "metadata": {
            "finalizers": ["foregroundDeletion"],
            "deletionTimestamp": at(-5),
            "deletionGracePeriodSeconds": 0,
        } }));
    }
    for ordinal in 0..*claims {
        let claim = json!({
            "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] },
            "spec": {},
            "status": { "phase": "Bound" },
        });
        let claim_name = format!("data-{name}-{ordinal}");
        fixture.add("v1", "PersistentVolumeClaim", "shop", &claim_name, claim);
    }
    for (ordinal, deleting) in pods.iter().enumerate() {
        let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": format!("data-{name}-{ordinal}") } });
        let mut pod = json!({
            "metadata": { "ownerReferences": [owner("apps/v1", "StatefulSet", name, true)] },
            "spec": { "nodeName": "n1", "containers": [], "volumes": [volume], "terminationGracePeriodSeconds": 30 },
            "status": { "phase": "Running" },
        });
        if *deleting {
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
