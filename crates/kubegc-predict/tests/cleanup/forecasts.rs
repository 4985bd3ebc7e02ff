//! Forecasts of small clusters: times, actors and missing data.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_predict::{Fate, Forecast, Question, trace::Actor};
use serde_json::json;

use crate::fixture::{DAY, Fixture, JOBS, PODS, VERSION, at, condition, noon, owner, predict};

fn forecast(fixture: &Fixture) -> Forecast {
    predict(&fixture.cluster(), &Question::new(VERSION).up_to(DAY).at(noon()))
}

/// The removed objects, with the seconds after noon and the actor.
fn removed(forecast: &Forecast) -> Vec<(String, u64, String)> {
    let collected = forecast.removals();
    collected
        .map(|removed| {
            let seconds = removed.at.since(noon()).as_secs();
            (removed.object.short(), seconds, removed.step.actor.to_string())
        })
        .collect()
}

fn row(object: &str, seconds: u64, actor: &str) -> (String, u64, String) {
    (object.to_owned(), seconds, actor.to_owned())
}

fn finished_job(fixture: &mut Fixture, name: &str, finished: i64, ttl: i64) {
    let mut job =
        json!({ "spec": { "ttlSecondsAfterFinished": ttl }, "status": condition("Complete", finished) });
    job["status"]["startTime"] = at(finished - 60).into();
    fixture.add("batch/v1", "Job", "shop", name, job);
}

fn node(fixture: &mut Fixture, name: &str) {
    let ready = json!({ "spec": { "providerID": "cloud://1" }, "status": condition("Ready", -3_600) });
    fixture.add("v1", "Node", "", name, ready);
}

fn pod(fixture: &mut Fixture, name: &str, node: &str, phase: &str, rest: serde_json::Value) {
    let spec = json!({ "spec": { "nodeName": node, "containers": [] }, "status": { "phase": phase } });
    fixture.add("v1", "Pod", "shop", name, spec);
    fixture.change_last(rest);
}

#[test]
fn an_expired_job_is_deleted_with_its_pods() {
    let mut fixture = Fixture::default();
    node(&mut fixture, "a");
    finished_job(&mut fixture, "report", -100, 600);
    let owned = json!({ "metadata": { "ownerReferences": owner("batch/v1", "Job", "report", true) } });
    pod(&mut fixture, "report-1", "a", "Succeeded", owned);
    let forecast = forecast(&fixture);
    assert_eq!(
        removed(&forecast),
        [
            row("pod/report-1 -n shop", 500, "garbage collector"),
            row("job/report -n shop", 500, "garbage collector"),
        ]
    );
    let first = &forecast.timeline[0];
    assert_eq!(first.actor, Actor::Controller(JOBS));
    assert_eq!(
        format!("{}", first.at.as_secs()),
        "500",
        "the request is sent at that very time"
    );
    assert!(forecast.undetermined.is_empty(), "{:?}", forecast.undetermined);
}

#[test]
fn the_horizon_is_part_of_the_forecast_and_nothing_after_it_is() {
    let mut fixture = Fixture::default();
    finished_job(&mut fixture, "report", -100, 600);
    let cluster = fixture.cluster();
    let question = Question::new(VERSION).up_to(DAY).at(noon());
    let at_the_end = predict(&cluster, &question.clone().up_to(Duration::from_secs(500)));
    assert_eq!(at_the_end.removals().count(), 1);
    let before = predict(
        &cluster,
        &question.up_to(Duration::from_secs(500) - Duration::from_nanos(1)),
    );
    assert_eq!(before.removals().count(), 0);
    assert_eq!(before.next_at, Some(Timestamp::from_secs(noon().as_secs() + 500)));
}

#[test]
fn a_chain_through_all_controllers() {
    // The job's TTL has expired; its pod is deleted; no pod uses the terminating claim any more; its volume
    // is released and deleted.
    let mut fixture = Fixture::default();
    node(&mut fixture, "a");
    finished_job(&mut fixture, "import", -100, 600);
    let owned = json!({
        "metadata": { "ownerReferences": owner("batch/v1", "Job", "import", true) },
        "spec": { "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }] },
    });
    pod(&mut fixture, "import-1", "a", "Succeeded", owned);
    fixture.add(
        "v1",
        "PersistentVolumeClaim",
        "shop",
        "data",
        json!({
            "metadata": {
                "finalizers": ["kubernetes.io/pvc-protection"],
                "deletionTimestamp": at(-60),
                "deletionGracePeriodSeconds": 0,
            },
            "spec": { "volumeName": "pv-1" },
            "status": { "phase": "Bound" },
        }),
    );
    fixture.add(
        "v1",
        "PersistentVolume",
        "",
        "pv-1",
        json!({
            "metadata": {
                "annotations": { "pv.kubernetes.io/provisioned-by": "disk.csi.example.com" },
                "finalizers": ["kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"],
            },
            "spec": {
                "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": { "namespace": "shop", "name": "data", "uid": "persistentvolumeclaim-data" },
            },
            "status": { "phase": "Bound" },
        }),
    );
    let forecast = forecast(&fixture);
    let names: Vec<String> = removed(&forecast)
        .into_iter()
        .map(|(name, at, _)| format!("{name} {at}"))
        .collect();
    assert_eq!(
        names,
        [
            "pod/import-1 -n shop 500",
            "job/import -n shop 500",
            "persistentvolumeclaim/data -n shop 500",
            "persistentvolume/pv-1 500",
        ],
        "{:#?}",
        forecast.timeline
    );
}

#[test]
fn pods_of_a_missing_node_are_deleted_after_its_quarantine() {
    let mut fixture = Fixture::default();
    node(&mut fixture, "a");
    pod(&mut fixture, "on-a", "a", "Running", json!({}));
    pod(&mut fixture, "on-b", "b", "Running", json!({}));
    assert_eq!(removed(&forecast(&fixture)), [row("pod/on-b -n shop", 40, PODS)]);
}

#[test]
fn histories_are_pruned_at_once() {
    let mut fixture = Fixture::default();
    let limits = json!({ "spec": { "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1, "jobTemplate": {} } });
    fixture.add("batch/v1", "CronJob", "shop", "nightly", limits);
    for (name, started) in [("n1", -300), ("n2", -200), ("n3", -100)] {
        let mut job = json!({
            "metadata": { "ownerReferences": owner("batch/v1", "CronJob", "nightly", true) },
            "spec": {},
            "status": condition("Complete", started + 10),
        });
        job["status"]["startTime"] = at(started).into();
        fixture.add("batch/v1", "Job", "shop", name, job);
    }
    let rows = ["job/n1 -n shop", "job/n2 -n shop"].map(|name| row(name, 0, "cronjob-controller"));
    assert_eq!(removed(&forecast(&fixture)), rows);
}

#[test]
fn certificates_wait_for_the_hourly_sync() {
    let mut fixture = Fixture::default();
    let denied = json!({ "spec": {}, "status": condition("Denied", -60) });
    fixture.add(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "",
        "denied",
        denied,
    );
    // Denied a minute ago: its hour ends in 59 minutes, and the sync of the first hour finds it.
    assert_eq!(
        removed(&forecast(&fixture)),
        [row(
            "certificatesigningrequest/denied",
            3_600,
            "certificatesigningrequest-cleaner-controller"
        )]
    );
}

#[test]
fn the_content_of_a_terminating_namespace_is_deleted() {
    let mut fixture = Fixture::default();
    fixture.add(
        "v1",
        "Namespace",
        "",
        "shop",
        json!({
            "metadata": { "deletionTimestamp": at(-1) },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Terminating" },
        }),
    );
    fixture.add("v1", "ConfigMap", "shop", "settings", json!({}));
    let cluster = fixture.cluster();
    let pending = cluster.pending();
    let fate = |name: &str| {
        let mut fates = pending.fates.iter();
        fates
            .find(|fate| *fate.object.name == *name)
            .map(|fate| fate.fate.word())
    };
    assert_eq!(
        (fate("settings"), fate("shop")),
        (Some("deleted"), Some("deleted"))
    );
    let names: Vec<String> = removed(&forecast(&fixture))
        .into_iter()
        .map(|(name, ..)| name)
        .collect();
    assert_eq!(names, ["configmap/settings -n shop", "namespace/shop"]);
}

#[test]
fn unread_objects_are_undetermined_and_stay() {
    let mut fixture = Fixture::default();
    // Metadata only: it is unknown whether it has finished.
    fixture.add("batch/v1", "Job", "shop", "bare", json!({}));
    pod(&mut fixture, "lost", "b", "Running", json!({}));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": fixture.objects });
    let mut reader = kubegc_snapshot::Reader::new(VERSION)
        .complete("pods")
        .complete("jobs");
    reader.read("fixture.json", list.to_string().as_bytes()).unwrap();
    let assumptions = kubegc_predict::Assumptions::default();
    let cluster = kubegc_predict::Cluster::new(VERSION, reader.finish().unwrap(), assumptions);
    let forecast = predict(&cluster, &Question::new(VERSION).up_to(DAY).at(noon()));
    assert_eq!(forecast.removals().count(), 0);
    let undecided: Vec<_> = forecast
        .undetermined
        .iter()
        .map(|undecided| (undecided.controller, undecided.object.to_string()))
        .collect();
    assert!(
        undecided.contains(&(JOBS, "job.batch/bare -n shop".to_owned())),
        "{undecided:?}"
    );
    assert!(
        undecided.contains(&(PODS, "pod/lost -n shop".to_owned())),
        "{undecided:?}"
    );
}

#[test]
fn an_owner_that_was_not_dumped_makes_the_fate_undetermined_not_the_time() {
    let mut fixture = Fixture::default();
    finished_job(&mut fixture, "report", -100, 600);
    let owned = json!({ "metadata": { "ownerReferences": owner("example.com/v1", "Report", "r", true) } });
    fixture.objects[0]["metadata"]["ownerReferences"] = owned["metadata"]["ownerReferences"].clone();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": fixture.objects });
    let mut reader = kubegc_snapshot::Reader::new(VERSION)
        .complete("jobs")
        .complete("pods")
        .complete("nodes");
    reader.read("fixture.json", list.to_string().as_bytes()).unwrap();
    let cluster = kubegc_predict::Cluster::new(VERSION, reader.finish().unwrap(), Default::default());
    let forecast = predict(&cluster, &Question::new(VERSION).up_to(DAY).at(noon()));
    // It is removed in every case: for its age, or because its owner does not exist.
    assert_eq!(forecast.removals().count(), 1);
    let fate = &forecast.fates[0].fate;
    assert!(
        matches!(fate, Fate::Deleted { .. } | Fate::Undetermined { .. }),
        "{fate:?}"
    );
}

#[test]
fn only_the_selected_controllers_run() {
    let mut fixture = Fixture::default();
    finished_job(&mut fixture, "report", -100, 0);
    let question = Question::new(VERSION).up_to(DAY).at(noon()).only(&[PODS]);
    assert_eq!(predict(&fixture.cluster(), &question).removals().count(), 0);
    let question = Question::new(VERSION).up_to(DAY).at(noon()).only(&[JOBS]);
    assert_eq!(predict(&fixture.cluster(), &question).removals().count(), 1);
}

#[test]
fn an_object_with_finalizers_is_deleted_once_not_in_every_sync() {
    let mut fixture = Fixture::default();
    pod(
        &mut fixture,
        "on-b",
        "b",
        "Running",
        json!({ "metadata": { "finalizers": ["example.com/hold"] } }),
    );
    let forecast = forecast(&fixture);
    let requested = forecast
        .timeline
        .iter()
        .filter(|step| step.actor == Actor::Controller(PODS));
    // The mark, and the deletion.
    assert_eq!(requested.count(), 2, "{:#?}", forecast.timeline);
    let fate = &forecast.fates[0].fate;
    assert!(
        matches!(fate, Fate::Terminating { waits_for } if waits_for[0].finalizer() == Some("example.com/hold")),
        "{fate:?}"
    );
}

#[test]
fn a_claim_that_its_stateful_set_owns_stays_with_it() {
    let mut fixture = Fixture::default();
    node(&mut fixture, "a");
    fixture.add(
        "apps/v1",
        "StatefulSet",
        "shop",
        "db",
        json!({ "spec": {
            "replicas": 1,
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Retain" },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
        } }),
    );
    let owned = json!({ "metadata": { "ownerReferences": owner("apps/v1", "StatefulSet", "db", true) } });
    pod(&mut fixture, "db-0", "a", "Running", owned);
    let claim =
        json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] }, "spec": {}, "status": {} });
    fixture.add("v1", "PersistentVolumeClaim", "shop", "data-db-0", claim);
    let forecast = forecast(&fixture);
    assert_eq!(removed(&forecast), []);
    let steps: Vec<_> = forecast.timeline.iter().map(|step| step.actor).collect();
    assert_eq!(steps, [Actor::Controller("statefulset-controller")]);
    let mut fates = forecast.fates.iter();
    let stuck = fates.find(|fate| matches!(fate.fate, Fate::Terminating { .. }));
    assert!(stuck.is_none(), "{stuck:?}");
}
