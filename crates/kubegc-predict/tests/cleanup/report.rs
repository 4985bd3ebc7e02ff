//! Reports of a forecast as text and as JSON: one small cluster word by word, and laws for every
//! cluster.

use std::{collections::BTreeMap, time::Duration};

use kubegc_core::{ObjectRef, Timestamp};
use kubegc_fixtures::{Fixture, owned_by};
use kubegc_predict::{Cluster, Detail, Forecast};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::{
    JOBS, VERSION, at, bare_name, cluster_under, cluster_with_all, condition, predict, question,
    without_instances,
};

/// A forecast of six hours.
pub(crate) fn forecast_of(cluster: &Cluster) -> Forecast {
    predict(cluster, &question().up_to(Duration::from_secs(6 * 3_600)))
}

/// A forecast of six hours; the instance of the node `c` does not exist.
pub(crate) fn forecast(fixture: &Fixture) -> Forecast {
    forecast_of(&cluster_under(
        fixture,
        VERSION,
        &["all"],
        without_instances(&["c"]),
    ))
}

pub(crate) fn pod(fixture: &mut Fixture, name: &str, node: &str, phase: &str, rest: Value) {
    let pod = json!({
        "spec": { "nodeName": node, "containers": [], "terminationGracePeriodSeconds": 30 },
        "status": { "phase": phase },
    });
    fixture.add("v1", "Pod", "shop", name, pod);
    fixture.change_last(rest);
}

pub(crate) fn job(fixture: &mut Fixture, name: &str, finished: i64, ttl: i64) {
    let mut job =
        json!({ "spec": { "ttlSecondsAfterFinished": ttl }, "status": condition("Complete", finished) });
    job["status"]["startTime"] = at(finished - 60).into();
    fixture.add("batch/v1", "Job", "shop", name, job);
}

pub(crate) fn node(fixture: &mut Fixture, name: &str, is_ready: bool) {
    let kind = if is_ready { "Ready" } else { "DiskPressure" };
    let node = json!({ "spec": { "providerID": "cloud://1" }, "status": condition(kind, -3_600) });
    fixture.add("v1", "Node", "", name, node);
}

/// A claim that is being deleted, and its volume.
fn deleted_claim(fixture: &mut Fixture, name: &str) {
    let claim = json!({
        "metadata": {
            "finalizers": ["kubernetes.io/pvc-protection"],
            "deletionTimestamp": at(-60),
            "deletionGracePeriodSeconds": 0,
        },
        "spec": { "volumeName": format!("pv-{name}") },
        "status": { "phase": "Bound" },
    });
    fixture.add("v1", "PersistentVolumeClaim", "shop", name, claim);
    let volume = json!({
        "metadata": {
            "annotations": { "pv.kubernetes.io/provisioned-by": "disk.csi.example.com" },
            "finalizers": ["kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": { "namespace": "shop", "name": name, "uid": format!("persistentvolumeclaim-{name}") },
        },
        "status": { "phase": "Bound" },
    });
    fixture.add("v1", "PersistentVolume", "", &format!("pv-{name}"), volume);
}

fn bootstrap_token(fixture: &mut Fixture, name: &str, expires: i64) {
    let token =
        json!({ "type": "bootstrap.kubernetes.io/token", "stringData": { "expiration": at(expires) } });
    fixture.add("v1", "Secret", "kube-system", name, token);
}

/// A cluster with nearly every kind.
fn small_cluster() -> Fixture {
    let mut fixture = Fixture::default();
    node(&mut fixture, "a", true);
    node(&mut fixture, "c", false);
    for name in ["import", "export"] {
        job(&mut fixture, name, -100, 600);
        for number in 1..=2 {
            let (owned, pod_name) = (owned_by("batch/v1", "Job", name), format!("{name}-{number}"));
            pod(&mut fixture, &pod_name, "a", "Succeeded", owned);
        }
    }
    let uses = json!({ "spec": { "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "scratch" } }] } });
    fixture.change_last(uses);
    deleted_claim(&mut fixture, "scratch");
    pod(&mut fixture, "on-c", "c", "Running", json!({}));
    let owners = owned_by("apps/v1", "ReplicaSet", "removed");
    pod(&mut fixture, "left-over", "a", "Running", owners);
    let held = json!({ "metadata": {
        "finalizers": ["example.com/hold"],
        "deletionTimestamp": at(-60),
        "deletionGracePeriodSeconds": 0,
    } });
    pod(&mut fixture, "held", "", "Pending", held);
    bootstrap_token(&mut fixture, "bootstrap-token-one", 3_600);
    bootstrap_token(&mut fixture, "bootstrap-token-two", 36_000);
    fixture
}

#[test]
fn a_small_cluster_word_by_word() {
    let text = forecast(&small_cluster()).to_text(Detail::default());
    assert_eq!(text, GOLDEN);
}

const GOLDEN: &str = include_str!("small_cluster.txt");

#[test]
fn missing_data_is_named() {
    let mut fixture = Fixture::default();
    job(&mut fixture, "import", -100, 600);
    fixture.add("batch/v1", "Job", "shop", "bare-1", json!({}));
    fixture.add("batch/v1", "Job", "shop", "bare-2", json!({}));
    let owners = owned_by("cert-manager.io/v1", "Certificate", "tls");
    fixture.add("v1", "Secret", "shop", "tls", owners);
    let forecast = forecast_of(&cluster_with_all(&fixture, &["jobs", "pods"]));
    let text = forecast.to_text(Detail::default());
    for expected in [
        "Undetermined: 3",
        "2 jobs -n shop (bare-1, bare-2): ttl-after-finished-controller: ",
        "secret/tls -n shop: ",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    let undecided = &forecast.to_json()["undetermined"];
    let jobs = undecided
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["controller"] == JOBS);
    assert_eq!(
        jobs.map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["bare-1", "bare-2"]
    );
}

#[test]
fn a_forecast_without_changes_reports_none() {
    let text = forecast(&Fixture::default()).to_text(Detail::default());
    assert!(
        text.starts_with("2026-05-01 12:00:00 UTC to 2026-05-01 18:00:00 UTC (6h): nothing changes\n"),
        "{text}"
    );
}

#[test]
fn names_and_instants_are_cut_with_counts() {
    let mut fixture = Fixture::default();
    for number in 0..5 {
        job(&mut fixture, &format!("same-{number}"), -100, 600);
    }
    for number in 0..3 {
        job(&mut fixture, &format!("later-{number}"), -100, 700 + number * 100);
    }
    let detail = Detail {
        objects_max: 2,
        instants_max: 2,
        ..Detail::default()
    };
    let text = forecast(&fixture).to_text(detail);
    for expected in [
        "5 jobs: it finished 10m ago",
        "shop/same-0, shop/same-1 and 3 more\n",
        "and from 2026-05-01 12:11:40 to 2026-05-01 12:13:20: 2 jobs\n",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
}

#[test]
fn json_has_stable_names() {
    let forecast = forecast(&small_cluster());
    let value = forecast.to_json();
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names.join(" "),
        "assumptions began controllers durationSeconds events fates findings nextAt removals schema summary \
         targets timeline undetermined until warnings"
    );
    assert_eq!(value["began"], "2026-05-01T12:00:00Z");
    assert_eq!(value["until"], "2026-05-01T18:00:00Z");
    assert_eq!(value["removals"]["batch/v1/Job"], 2);
    assert_eq!(
        value["assumptions"]["cloud"],
        json!([{ "node": "c", "exists": false, "isShutdown": null }])
    );
    let events = value["events"].as_array().unwrap();
    let job = events
        .iter()
        .find(|event| event["object"]["name"] == "import")
        .unwrap();
    assert_eq!(
        (&job["at"], &job["removedAt"], &job["end"], &job["actor"],),
        (
            &json!("2026-05-01T12:08:20Z"),
            &json!("2026-05-01T12:08:20Z"),
            &json!("removed"),
            &json!(JOBS),
        )
    );
    let with: Vec<&Value> = job["with"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["object"]["name"])
        .collect();
    assert_eq!(with, ["import-1", "import-2"]);
}

/// An object that is removed, or is not.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// When it finished, its TTL, and whether each of its pods runs.
    Job(i64, i64, Vec<bool>),
    /// When it expires.
    Token(i64),
    LostPod,
    LeftOver,
    HeldPod,
    /// Whether a pod uses it.
    Claim(bool),
    /// Since when it is denied.
    Request(i64),
    /// The number of objects in it.
    Namespace(usize),
}

pub(crate) fn part() -> impl Strategy<Value = Part> {
    let pods = prop::collection::vec(any::<bool>(), 0..4);
    let job = (-4_000..0_i64, 0..9_000_i64, pods);
    prop_oneof![
        job.prop_map(|(finished, ttl, pods)| Part::Job(finished, ttl, pods)),
        (-100..30_000_i64).prop_map(Part::Token),
        Just(Part::LostPod),
        Just(Part::LeftOver),
        Just(Part::HeldPod),
        any::<bool>().prop_map(Part::Claim),
        (-9_000..0_i64).prop_map(Part::Request),
        (0..3_usize).prop_map(Part::Namespace),
    ]
}

/// No name is a part of another.
pub(crate) fn fixture(parts: &[Part]) -> Fixture {
    let mut fixture = Fixture::default();
    node(&mut fixture, "a", true);
    for (number, part) in parts.iter().enumerate() {
        let name = format!("t{number:02}");
        match part {
            Part::Job(finished, ttl, pods) => {
                job(&mut fixture, &name, *finished, *ttl);
                for (at, is_running) in pods.iter().enumerate() {
                    let phase = if *is_running { "Running" } else { "Failed" };
                    let (owned, pod_name) =
                        (owned_by("batch/v1", "Job", &name), format!("p{at}of{number:02}"));
                    pod(&mut fixture, &pod_name, "a", phase, owned);
                }
            }
            Part::Token(expires) => bootstrap_token(&mut fixture, &name, *expires),
            Part::LostPod => pod(&mut fixture, &name, "lost", "Running", json!({})),
            Part::LeftOver => {
                let owned = owned_by("v1", "ConfigMap", "removed");
                fixture.add("v1", "ConfigMap", "shop", &name, owned);
            }
            Part::HeldPod => {
                let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
                pod(&mut fixture, &name, "lost", "Running", held);
            }
            Part::Claim(has_user) => {
                deleted_claim(&mut fixture, &name);
                if *has_user {
                    let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": name } }]);
                    let uses = json!({ "spec": { "volumes": volumes } });
                    pod(&mut fixture, &format!("u{number:02}"), "a", "Running", uses);
                }
            }
            Part::Request(since) => {
                let denied = json!({ "spec": {}, "status": condition("Denied", *since) });
                let (group, kind) = ("certificates.k8s.io/v1", "CertificateSigningRequest");
                fixture.add(group, kind, "", &name, denied);
            }
            Part::Namespace(objects) => {
                let deleted = json!({
                    "metadata": { "deletionTimestamp": at(-1) },
                    "spec": { "finalizers": ["kubernetes"] },
                    "status": { "phase": "Terminating" },
                });
                fixture.add("v1", "Namespace", "", &name, deleted);
                for object in 0..*objects {
                    let content = format!("c{object}of{number:02}");
                    fixture.add("v1", "ConfigMap", &name, &content, json!({}));
                }
            }
        }
    }
    fixture
}

/// The text without the namespaces that follow `-n`.
pub(crate) fn without_namespaces(text: &str) -> String {
    let mut words = text.split_inclusive([' ', '\n']);
    let mut rest = String::new();
    while let Some(word) = words.next() {
        if word.trim_end() == "-n" {
            words.next();
        } else {
            rest.push_str(word);
        }
    }
    rest
}

/// The words of a text that may be names: without namespaces.
fn names(text: &str) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    let text = without_namespaces(text);
    let is_part =
        |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '/' || letter == '.';
    for word in text.split(|letter: char| !is_part(letter)) {
        let name = word.rsplit('/').next().unwrap_or_default();
        *names.entry(name.to_owned()).or_insert(0) += 1;
    }
    names
}

/// The events of a report that happen for certain.
pub(crate) fn events_of(text: &str) -> &str {
    let (_, events) = text.split_once("\nEvents:\n").unwrap_or_default();
    let ends = [
        "\nEvents if",
        "\nReleased:",
        "\nRequests:",
        "\nNext reconcile:",
        "\nNotes:",
        "\nAssumed:",
    ];
    let end = ends.into_iter().filter_map(|end| events.find(end)).min();
    &events[..end.unwrap_or(events.len())]
}

/// The removed objects, with the time.
fn collected(forecast: &Forecast) -> Vec<(String, Timestamp)> {
    let mut collected: Vec<_> = forecast
        .removals()
        .map(|removed| (removed.object.short(), removed.at))
        .collect();
    collected.sort();
    collected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The timeline of the text names every removed object once, within 120 columns.
    #[test]
    fn texts_name_each_deleted_object_once(parts in prop::collection::vec(part(), 0..12)) {
        let forecast = forecast(&fixture(&parts));
        let text = forecast.to_text(Detail::everything());
        let timeline = events_of(&text);
        let named = names(timeline);
        for (object, _) in collected(&forecast) {
            let name = bare_name(&object);
            prop_assert_eq!(named.get(name), Some(&1), "{} in\n{}", object, text);
        }
        prop_assert!(text.lines().all(|line| line.chars().count() <= 120), "{}", text);
        let all = forecast.removals().count();
        let first = text.lines().next().unwrap_or_default();
        prop_assert_eq!(all > 0, first.contains(" deleted"));
    }

    /// The events of the JSON contain every removed object once, at its time, and are in order.
    #[test]
    fn json_has_each_deleted_object_once(parts in prop::collection::vec(part(), 0..12)) {
        let forecast = forecast(&fixture(&parts));
        let value = forecast.to_json();
        let events = value["events"].as_array().unwrap();
        let subjects = events.iter().flat_map(|event| {
            std::iter::once(event).chain(event["with"].as_array().unwrap())
        });
        let mut removed: Vec<(String, Timestamp)> = subjects
            .filter(|subject| subject["end"] == "removed")
            .map(|subject| {
                let object: ObjectRef = serde_json::from_value(subject["object"].clone()).unwrap();
                (object.short(), Timestamp::parse(subject["removedAt"].as_str().unwrap()).unwrap())
            })
            .collect();
        removed.sort();
        prop_assert_eq!(removed, collected(&forecast));
        let times: Vec<Timestamp> = events
            .iter()
            .map(|event| Timestamp::parse(event["at"].as_str().unwrap()).unwrap())
            .collect();
        prop_assert!(times.is_sorted());
        let counted: u64 = value["removals"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        prop_assert_eq!(counted, forecast.removals().count() as u64);
        // Only events without a cause come first, and no caused event is later than its place in the list.
        for event in events {
            let begins = event["at"].as_str().unwrap();
            for follower in event["with"].as_array().unwrap() {
                let gone_at = follower["removedAt"].as_str();
                prop_assert!(gone_at.is_none_or(|gone_at| Timestamp::parse(gone_at).unwrap() >= Timestamp::parse(begins).unwrap()));
            }
        }
    }

    /// Texts depend on the forecast alone, not on the order of the dump.
    #[test]
    fn the_order_of_the_dump_does_not_matter(parts in prop::collection::vec(part(), 0..8), seed in any::<u64>()) {
        let here = fixture(&parts);
        let mut there = here.clone();
        let mut seed = seed | 1;
        for at in (1..there.objects.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            there.objects.swap(at, (seed >> 33) as usize % (at + 1));
        }
        let detail = Detail::everything();
        prop_assert_eq!(forecast(&here).to_text(detail), forecast(&there).to_text(detail));
    }
}
