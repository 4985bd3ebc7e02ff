//! The four parts of a sync, the quarantine, and undetermined pods.

use std::{sync::Arc, time::Duration};

use crate::common::{at, cache, line, lines, play, record};
use kubegc_controllers::{
    BatchPlanner, Cache, Change, Context, Controller as _, Deadlines, Decision, End, Input, Key, Manager,
    Output, PodGc, Request, Response, Wire,
};
use kubegc_core::{
    KubernetesVersion, StoreError, Timestamp,
    record::{Body, Field, ObjectId, Record, Resource},
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

fn release(text: &str) -> PodGc {
    PodGc::new(text.parse().expect("a release"))
}

fn latest() -> PodGc {
    PodGc::new(KubernetesVersion::LATEST)
}

fn with_threshold(threshold: i32) -> PodGc {
    let mut controller = latest();
    controller.terminated_pod_threshold = threshold;
    controller
}

/// A time this many seconds after the first sync.
fn second(seconds: i64) -> Timestamp {
    let start = at("2026-03-01T12:00:00Z").as_secs();
    Timestamp::from_secs(start + seconds)
}

/// A pod of this age in minutes.
fn pod(name: &str, phase: &str, node: &str, age: i64) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "shop", "name": name, "generation": 3,
        "creationTimestamp": second(-60 * age).to_string()}, "spec": {"nodeName": node}, "status": {"phase": phase}})
}

fn evicted(mut pod: Value) -> Value {
    pod["status"]["reason"] = "Evicted".into();
    pod
}

fn terminating(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = second(-5).to_string().into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    pod
}

/// A node. `taint` is the key of its taint.
fn node(name: &str, ready: &str, taint: &str) -> Value {
    json!({"kind": "Node", "metadata": {"name": name}, "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

const OUT: &str = "node.kubernetes.io/out-of-service";

/// Syncs one after another, with their quarantine.
#[derive(Debug)]
struct Syncs {
    controller: PodGc,
    cache: Cache,
    deadlines: Deadlines,
}

impl Syncs {
    fn new(controller: PodGc, objects: &[Value]) -> Self {
        let cache = cache(&controller, objects);
        let deadlines = Deadlines::new();
        Self {
            controller,
            cache,
            deadlines,
        }
    }

    fn put(&mut self, object: Value) {
        let (resource, record) = record(object);
        let key = Key::from(&record.meta);
        self.cache.put(resource, &key, Some(record));
    }

    fn remove(&mut self, resource: Resource, key: &str) {
        self.cache.put(resource, &crate::common::key(key), None);
    }

    fn decide(&self, now: Timestamp) -> Decision {
        let cx = Context {
            cache: &self.cache,
            now,
            wire: Wire::AsUpstream,
            deadlines: &self.deadlines,
            cloud: None,
            failures: 0,
        };
        self.controller.reconcile(&cx, &Key::cluster(""))
    }

    /// The lines of a sync; live reads get this response.
    fn sync(&mut self, now: Timestamp, node: &Response) -> Vec<String> {
        let decision = self.decide(now);
        self.deadlines = decision.deadlines.clone().unwrap_or_default();
        let requests = decision.actions.iter().flat_map(|action| &action.requests);
        let mut all: Vec<String> = requests.map(line).collect();
        if let Some(steps) = &decision.steps {
            all.extend(play(steps, |request| match request {
                Request::Get { .. } => node.clone(),
                _ => Response::Done,
            }));
        }
        all
    }

    /// Code and name of each pod that is kept or unknown.
    fn kept(&self, now: Timestamp) -> Vec<String> {
        let decision = self.decide(now);
        let kept = decision
            .kept
            .iter()
            .map(|kept| format!("{} {}", kept.object.name, kept.reason.code()));
        let unknown = decision
            .unknown
            .iter()
            .map(|unknown| format!("{}: {}", unknown.object.name, unknown.reason));
        kept.chain(unknown).collect()
    }

    fn until(&self, node: &str) -> Option<i64> {
        let until = self.deadlines.get(node)?;
        Some(until.as_secs() - second(0).as_secs())
    }
}

fn gone() -> Response {
    Response::Failed(StoreError::NotFound)
}

/// The pods that one sync deletes, by name, in order.
fn deleted(controller: PodGc, objects: &[Value]) -> Vec<String> {
    let decision = Syncs::new(controller, objects).decide(second(0));
    decision
        .actions
        .iter()
        .map(|action| action.object.name.to_string())
        .collect()
}

fn patch(name: &str) -> String {
    format!(r#"patch status of pod/{name} -n shop uid=uid-{name} [Phase("Failed")]"#)
}

fn delete(name: &str) -> String {
    format!("delete pod/{name} -n shop grace=0")
}

#[test]
fn l1_3_to_l1_7_terminated_pods_above_the_threshold_are_deleted() {
    let old_to_young = |phases: [&str; 3]| {
        let names = ["b", "c", "a"];
        names
            .iter()
            .zip(phases)
            .zip([3, 2, 1])
            .map(|((name, phase), age)| pod(name, phase, "", age))
            .collect::<Vec<_>>()
    };
    for (threshold, phases, expected) in [
        (2, ["Failed", "Succeeded", "Failed"], &["b"][..]),
        (1, ["Failed", "Succeeded", "Failed"], &["b", "c"]),
        (3, ["Failed", "Succeeded", "Failed"], &[]),
        (0, ["Failed", "Succeeded", "Failed"], &[]),
        (-1, ["Failed", "Succeeded", "Failed"], &[]),
        (1, ["Pending", "Running", "Failed"], &[]),
        (1, ["Unknown", "", "Failed"], &["c"]),
        (1, ["succeeded", "Running", "Lost"], &["b"]),
    ] {
        assert_eq!(
            deleted(with_threshold(threshold), &old_to_young(phases)),
            expected,
            "{threshold} {phases:?}"
        );
    }
    // Any other phase is terminated, but not final.
    let odd = [pod("odd", "Lost", "", 2), pod("done", "Succeeded", "", 1)];
    assert_eq!(
        lines(&Syncs::new(with_threshold(1), &odd).decide(second(0)), second(0)),
        [
            patch("odd"),
            delete("odd"),
            "keep pod/done -n shop: OthersFirst".into()
        ]
    );
    // Pods that are being deleted count and are deleted again.
    let again = [
        node("n", "True", ""),
        terminating(pod("a", "Failed", "n", 2)),
        pod("b", "Failed", "n", 1),
    ];
    assert_eq!(deleted(with_threshold(1), &again), ["a"]);
    assert_eq!(latest().terminated_pod_threshold, 12_500);
}

#[test]
fn l1_5_the_order_is_evicted_then_age_then_name() {
    let pods = [
        pod("old-1", "Succeeded", "", 9),
        pod("old-2", "Succeeded", "", 8),
        evicted(pod("evicted", "Failed", "", 1)),
        evicted(pod("not-evicted", "Succeeded", "", 1)),
    ];
    for (text, expected) in [("1.26", "old-1"), ("1.27", "evicted"), ("1.36", "evicted")] {
        let mut controller = release(text);
        controller.terminated_pod_threshold = 3;
        assert_eq!(deleted(controller, &pods), [expected], "{text}");
    }
    let mut elsewhere = pod("a", "Failed", "", 1);
    elsewhere["metadata"]["namespace"] = "zoo".into();
    let ties = [pod("b", "Failed", "", 1), elsewhere];
    assert_eq!(
        deleted(with_threshold(1), &ties),
        ["a"],
        "namespaces do not count"
    );
}

#[test]
fn terminated_pods_are_unknown_if_they_depend_on_unread_pods() {
    let known = [
        pod("old", "Failed", "", 3),
        pod("middle", "Failed", "", 2),
        pod("young", "Failed", "", 1),
    ];
    let hide = |path: [&str; 2]| {
        let mut hidden = pod("hidden", "Failed", "", 9);
        hidden[path[0]][path[1]] = json!({"hidden": true});
        hidden
    };
    let mut timeless = pod("hidden", "Failed", "", 9);
    timeless["metadata"]["creationTimestamp"] = Value::Null;
    for (hidden, fact) in [
        (hide(["status", "phase"]), "status.phase could not be read"),
        (hide(["status", "reason"]), "status.reason could not be read"),
        (timeless, "metadata.creationTimestamp could not be read"),
        // Without a uid.
        (
            pod("hidden", "Failed", "", 9),
            "its metadata could not be read in full",
        ),
    ] {
        let is_nameless = fact.contains("in full");
        let fact = format!("pod/hidden -n shop: {fact}");
        for (threshold, deleted, undetermined) in [
            (1, &["old", "middle"][..], &["young"][..]),
            (2, &["old"], &["middle"]),
            (3, &[], &["old"]),
            (4, &[], &[]),
        ] {
            let mut objects = known.to_vec();
            objects.push(hidden.clone());
            let mut syncs = Syncs::new(with_threshold(threshold), &objects);
            if is_nameless {
                let (resource, mut record) = record(hidden.clone());
                record.meta.uid = "".into();
                syncs
                    .cache
                    .put(resource, &crate::common::key("shop/hidden"), Some(record));
            }
            let decision = syncs.decide(second(0));
            let names = |name: &Arc<str>| name.to_string();
            let found: Vec<String> = decision
                .actions
                .iter()
                .map(|action| names(&action.object.name))
                .collect();
            assert_eq!(found, deleted, "{threshold} {fact}");
            let unknown = decision
                .unknown
                .iter()
                .filter(|unknown| &*unknown.object.name != "hidden");
            let unknown: Vec<String> = unknown
                .map(|unknown| {
                    assert_eq!(unknown.reason.to_string(), fact);
                    names(&unknown.object.name)
                })
                .collect();
            assert_eq!(unknown, undetermined, "{threshold} {fact}");
            let is_unknown = decision
                .unknown
                .iter()
                .any(|unknown| &*unknown.object.name == "hidden");
            // Its own outcome is known where no more pods have terminated than are retained.
            assert_eq!(is_unknown, threshold < 4 || is_nameless, "{threshold} {fact}");
        }
    }
}

#[test]
fn l1_8_terminating_pods_on_nodes_out_of_service_are_deleted() {
    for (ready, taint, code) in [
        ("False", OUT, None),
        ("Unknown", OUT, None),
        ("True", OUT, Some("LeftToKubelet")),
        ("False", "node.kubernetes.io/unreachable", Some("LeftToKubelet")),
    ] {
        let objects = [
            node("n", ready, taint),
            terminating(pod("web", "Running", "n", 1)),
            pod("stays", "Running", "n", 1),
        ];
        let syncs = Syncs::new(latest(), &objects);
        let mut expected = vec!["stays NotTerminated".to_owned()];
        match code {
            Some(code) => expected.push(format!("web {code}")),
            None => assert_eq!(
                lines(&syncs.decide(second(0)), second(0))[..2],
                [patch("web"), delete("web")]
            ),
        }
        assert_eq!(syncs.kept(second(0)), expected, "{ready} {taint}");
        // Before 1.26 the taint has no meaning.
        assert_eq!(deleted(release("1.25"), &objects), [""; 0]);
    }
    // Only the first Ready condition counts, and none means not ready.
    let mut first = node("n", "False", OUT);
    first["status"]["conditions"]
        .as_array_mut()
        .expect("conditions")
        .push(json!({"type": "Ready", "status": "True"}));
    let mut none = node("n", "False", OUT);
    none["status"]["conditions"] = json!([]);
    for node in [first, none] {
        assert_eq!(
            deleted(latest(), &[node, terminating(pod("web", "Running", "n", 1))]),
            ["web"]
        );
    }
    for (path, fact) in [
        (["status", "conditions"], "status.conditions"),
        (["spec", "taints"], "spec.taints"),
    ] {
        let mut hidden = node("n", "False", OUT);
        hidden[path[0]][path[1]] = "hidden".into();
        let syncs = Syncs::new(latest(), &[hidden, terminating(pod("web", "Running", "n", 1))]);
        assert_eq!(
            syncs.kept(second(0)),
            [format!("web: node/n: {fact} could not be read")]
        );
    }
}

#[test]
fn l1_10_to_l1_12_orphans_are_deleted_after_the_quarantine_and_a_live_read() {
    let orphan = pod("web", "Running", "gone", 1);
    let mut syncs = Syncs::new(latest(), &[orphan.clone(), pod("db", "Succeeded", "gone", 1)]);
    for seconds in [0, 20, 39] {
        assert_eq!(syncs.sync(second(seconds), &gone()), [""; 0]);
        assert_eq!(syncs.until("gone"), Some(40), "the first end counts");
        assert_eq!(syncs.decide(second(seconds)).requeue_at, Some(second(40)));
        assert_eq!(syncs.kept(second(seconds)), ["db Quarantined", "web Quarantined"]);
    }
    let sync = syncs.sync(second(40), &gone());
    let patched = &sync[2];
    assert_eq!(
        sync,
        ["get node/gone", &delete("db"), patched, &delete("web"), "done"]
    );
    for part in [
        "status of pod/web -n shop uid=uid-web",
        r#"Phase("Failed")"#,
        "DisruptionTarget",
        "DeletionByPodGC",
    ] {
        assert!(patched.contains(part), "{patched}");
    }
    // The node is in quarantine again, whatever the read found.
    assert_eq!(syncs.until("gone"), Some(80));
    for (at, response) in [
        (80, Response::Object(Box::new(record(node("gone", "True", "")).1))),
        (120, gone()),
    ] {
        assert_eq!(syncs.sync(second(at - 1), &gone()), [""; 0]);
        let is_gone = matches!(response, Response::Failed(_));
        assert_eq!(
            syncs.sync(second(at), &response).len(),
            if is_gone { 5 } else { 2 }
        );
        assert_eq!(syncs.until("gone"), Some(at + 40));
    }
    let refused = Response::Failed(StoreError::Unknown {
        message: "timeout".into(),
    });
    assert_eq!(
        syncs.sync(second(160), &refused),
        [
            "get node/gone",
            "failed, retried=false: node/gone: unknown outcome: timeout"
        ]
    );
    assert_eq!(syncs.until("gone"), Some(200));
    // A node that exists again by then, or has no pods, leaves the quarantine without a read.
    syncs.put(node("gone", "True", ""));
    assert_eq!(syncs.until("gone"), Some(200));
    assert_eq!(syncs.sync(second(200), &gone()), [""; 0]);
    assert_eq!(syncs.until("gone"), None);
    let mut syncs = Syncs::new(latest(), &[orphan]);
    syncs.sync(second(0), &gone());
    syncs.remove(Resource::Pods, "shop/web");
    let decision = syncs.decide(second(20));
    assert_eq!(
        (decision.requeue_at, syncs.until("gone")),
        (Some(second(40)), Some(40))
    );
    assert_eq!(syncs.sync(second(41), &gone()), [""; 0]);
    assert!(syncs.deadlines.is_empty());
}

#[test]
fn the_errors_of_one_orphan_do_not_stop_the_others() {
    let objects =
        ["a", "b", "c"].map(|name| pod(name, "Running", if name == "c" { "lost" } else { "gone" }, 1));
    let mut syncs = Syncs::new(latest(), &objects);
    syncs.controller.quarantine = Duration::ZERO;
    let steps = syncs.decide(second(0)).steps.expect("orphans");
    let lines = play(&steps, |request| match request {
        Request::Get { .. } => gone(),
        Request::Write(write) if &*write.object.name == "a" => Response::Failed(StoreError::NotFound),
        Request::Delete { object, .. } if &*object.name == "b" => Response::Failed(StoreError::Unknown {
            message: "timeout".into(),
        }),
        _ => Response::Done,
    });
    let of = |line: &&String| !line.starts_with("patch");
    let lines: Vec<&str> = lines.iter().filter(of).map(String::as_str).collect();
    let failed = "failed, retried=false: pod/a -n shop: not found, and 1 more errors";
    // A patch that fails keeps its pod.
    assert_eq!(
        lines,
        [
            "get node/gone",
            &delete("b"),
            "get node/lost",
            &delete("c"),
            failed
        ]
    );
    assert!(
        syncs
            .decide(second(0))
            .deadlines
            .is_some_and(|deadlines| deadlines.is_empty())
    );
}

#[test]
fn l1_16_a_condition_that_was_true_keeps_its_time() {
    let since = json!("2026-01-01T00:00:00Z");
    for (before, transition) in [
        (None, second(40)),
        (Some("False"), second(40)),
        (Some("Unknown"), second(40)),
        (Some("True"), at("2026-01-01T00:00:00Z")),
    ] {
        for (text, generation) in [("1.26", 0), ("1.33", 0), ("1.34", 3)] {
            let mut orphan = pod("web", "Running", "gone", 1);
            if let Some(status) = before {
                orphan["status"]["conditions"] =
                    json!([{"type": "DisruptionTarget", "status": status, "lastTransitionTime": since}]);
            }
            let mut syncs = Syncs::new(release(text), &[orphan]);
            syncs.sync(second(0), &gone());
            let patched = syncs.sync(second(40), &gone()).remove(1);
            let time = format!("last_transition_time: Some({transition:?})");
            assert!(patched.contains(&time), "{before:?}: {patched}");
            assert!(
                patched.contains(&format!("observed_generation: {generation}")),
                "{text}: {patched}"
            );
        }
    }
}

#[test]
fn l1_14_to_l1_19_releases_differ_in_their_patches() {
    let objects = [
        node("n", "False", OUT),
        terminating(pod("out", "Running", "n", 1)),
        pod("orphan", "Running", "gone", 1),
        terminating(pod("loose", "Pending", "", 1)),
        terminating(pod("failed", "Failed", "", 1)),
        pod("waits", "Pending", "", 1),
    ];
    let condition = "Condition";
    for (text, expected) in [
        (
            "1.20.2",
            vec![delete("failed"), delete("loose"), delete("orphan")],
        ),
        ("1.25", vec![delete("failed"), delete("loose"), delete("orphan")]),
        (
            "1.26",
            vec![
                delete("failed"),
                patch("loose"),
                delete("loose"),
                patch("out"),
                delete("out"),
                condition.into(),
                delete("orphan"),
            ],
        ),
        (
            "1.36",
            vec![
                delete("failed"),
                patch("loose"),
                delete("loose"),
                patch("out"),
                delete("out"),
                condition.into(),
                delete("orphan"),
            ],
        ),
    ] {
        let mut syncs = Syncs::new(release(text), &objects);
        syncs.controller.quarantine = Duration::ZERO;
        let mut lines = syncs.sync(second(0), &gone());
        lines.retain(|line| line != "get node/gone" && line != "done");
        assert_eq!(lines.len(), expected.len(), "{text}: {lines:?}");
        for (line, expected) in lines.iter().zip(&expected) {
            assert!(
                line == expected || (expected == condition && line.contains("Condition(")),
                "{line}"
            );
        }
    }
    let mut plain = latest();
    plain.adds_condition = false;
    let mut syncs = Syncs::new(plain, &objects[2..3]);
    syncs.controller.quarantine = Duration::ZERO;
    assert_eq!(syncs.sync(second(0), &gone())[1], patch("orphan"));
}

#[test]
fn a_pod_that_two_rules_choose_is_deleted_twice() {
    let objects = [
        terminating(pod("loose", "Succeeded", "", 9)),
        pod("orphan", "Succeeded", "gone", 8),
        pod("young", "Succeeded", "", 1),
    ];
    let mut syncs = Syncs::new(with_threshold(1), &objects);
    syncs.controller.quarantine = Duration::ZERO;
    let [loose, orphan] = ["loose", "orphan"].map(delete);
    let expected = [&loose, &orphan, &loose, "get node/gone", &orphan, "done"];
    assert_eq!(syncs.sync(second(0), &gone()), expected);
    assert_eq!(syncs.kept(second(0)), ["young OthersFirst"]);
}

#[test]
fn the_patch_expects_the_version_and_the_deletion_after_it_does_not() {
    let of = |wire| {
        let syncs = Syncs::new(
            latest(),
            &[
                terminating(pod("web", "Pending", "", 1)),
                terminating(pod("end", "Failed", "", 1)),
            ],
        );
        let cx = Context {
            cache: &syncs.cache,
            now: second(0),
            wire,
            deadlines: &Deadlines::new(),
            cloud: None,
            failures: 0,
        };
        let decision = syncs.controller.reconcile(&cx, &Key::cluster(""));
        let requests: Vec<String> = decision
            .actions
            .iter()
            .flat_map(|action| &action.requests)
            .map(line)
            .collect();
        requests
    };
    let patch = r#"patch status of pod/web -n shop uid=uid-web rv=1 [Phase("Failed")]"#;
    let strict = [
        "delete pod/end -n shop grace=0 uid=uid-end rv=1",
        patch,
        "delete pod/web -n shop grace=0 uid=uid-web",
    ];
    assert_eq!(of(Wire::Strict), strict);
    assert_eq!(
        of(Wire::AsUpstream),
        [delete("end"), self::patch("web"), delete("web")]
    );
}

#[test]
fn nothing_is_decided_about_a_pod_whose_fields_were_not_read() {
    let hide = |mut pod: Value, path: [&str; 2]| {
        // Readers read conditions only if the text contains this type.
        pod[path[0]][path[1]] = json!({"hidden": "DisruptionTarget"});
        pod
    };
    for (pod, fact) in [
        (
            hide(terminating(pod("p", "Pending", "", 1)), ["spec", "nodeName"]),
            "spec.nodeName could not be read",
        ),
        (
            hide(terminating(pod("p", "", "", 1)), ["status", "phase"]),
            "status.phase could not be read",
        ),
        (
            hide(pod("p", "", "gone", 1), ["status", "phase"]),
            "status.phase could not be read",
        ),
        (
            hide(pod("p", "Running", "gone", 1), ["status", "conditions"]),
            "status.conditions could not be read",
        ),
    ] {
        let mut syncs = Syncs::new(latest(), &[pod]);
        syncs.controller.quarantine = Duration::ZERO;
        assert_eq!(syncs.kept(second(0)), [format!("p: pod/p -n shop: {fact}")]);
        assert_eq!(syncs.sync(second(0), &gone()), [""; 0]);
    }
    // Before 1.26 the phase of an orphan or an unscheduled pod does not matter.
    let loose = hide(terminating(pod("p", "", "", 1)), ["status", "phase"]);
    assert_eq!(deleted(release("1.25"), &[loose]), ["p"]);
}

#[test]
fn l1_1_an_incomplete_list_ends_the_sync() {
    let objects = [
        terminating(pod("a", "Pending", "", 1)),
        pod("b", "Running", "gone", 1),
    ];
    for (resource, text) in [(Resource::Pods, "pods"), (Resource::Nodes, "nodes")] {
        let mut syncs = Syncs::new(latest(), &objects);
        syncs.sync(second(0), &gone());
        syncs.cache.set_listed(resource, Err(StoreError::Unlisted));
        let decision = syncs.decide(second(60));
        assert!(decision.actions.is_empty() && decision.steps.is_none() && decision.deadlines.is_none());
        let why = format!("the list of {text} is not complete: not listed");
        assert_eq!(syncs.kept(second(60)), [format!("a: {why}"), format!("b: {why}")]);
    }
}

#[test]
fn other_pods_do_not_matter_to_a_pod_on_a_known_node() {
    let mut manager = Manager::new(vec![Arc::new(latest())], Wire::Strict, second(0));
    for resource in [Resource::Pods, Resource::Nodes] {
        let records = Err(StoreError::Unlisted);
        manager.handle(second(0), Input::Listed { resource, records });
    }
    let mut now = 0;
    let mut unknown = |manager: &mut Manager, object: Value| {
        let (resource, record) = record(object);
        let record = Box::new(record);
        manager.handle(second(now), Input::Applied { resource, record });
        now += 20;
        assert!(matches!(manager.poll_output(second(now)), Output::Wait { .. }));
        let unknown = manager.unknown();
        let mut names: Vec<String> = unknown.map(|(_, object, ..)| object.name.to_string()).collect();
        names.sort();
        names.join(" ")
    };
    let mut steps = vec![
        (node("here", "True", ""), ""),
        (pod("running", "Running", "here", 1), ""),
        (pod("ended", "Succeeded", "here", 1), "ended"),
        (pod("orphan", "Running", "elsewhere", 1), "ended orphan"),
        (node("elsewhere", "True", ""), "ended"),
    ];
    steps.push((pod("running", "Failed", "here", 1), "ended running"));
    for (object, expected) in steps {
        let name = object["metadata"]["name"].to_string();
        assert_eq!(unknown(&mut manager, object), expected, "{name}");
    }
}

#[test]
fn only_relevant_changes_cause_a_sync() {
    let node_n = node("n", "True", "");
    let out = node("n", "False", OUT);
    let running = || pod("p", "Running", "n", 1);
    let mut hidden = running();
    hidden["status"]["phase"] = json!({"hidden": true});
    let mut unknown = out.clone();
    unknown["spec"]["taints"] = "hidden".into();
    let none = || Value::Null;
    let with = |labels: &str, mut object: Value| {
        object["metadata"]["labels"] = json!({"a": labels});
        object
    };
    for (node, old, new, expected) in [
        (&node_n, none(), running(), false),
        (&node_n, running(), with("b", running()), false),
        (&node_n, running(), terminating(running()), false),
        (&node_n, terminating(running()), none(), false),
        (&node_n, running(), pod("p", "Succeeded", "n", 1), true),
        (&node_n, pod("p", "Succeeded", "n", 1), none(), false),
        (&node_n, none(), pod("p", "Pending", "", 1), false),
        (
            &node_n,
            pod("p", "Pending", "", 1),
            terminating(pod("p", "Pending", "", 1)),
            true,
        ),
        (&node_n, none(), pod("p", "Running", "gone", 1), true),
        (&node_n, running(), hidden.clone(), true),
        (&node_n, hidden.clone(), running(), true),
        (&node_n, hidden, none(), true),
        (&out, running(), terminating(running()), true),
        (&unknown, running(), terminating(running()), true),
        (&out, none(), running(), false),
        (&node_n, none(), node_n.clone(), false),
        (&node_n, node_n.clone(), with("b", node_n.clone()), false),
        (&out, node_n.clone(), out.clone(), true),
        (&out, out.clone(), with("b", out.clone()), false),
        (&node_n, out.clone(), node_n.clone(), false),
        (&unknown, node_n.clone(), unknown.clone(), true),
        (&node_n, unknown.clone(), node_n.clone(), true),
        (&node_n, node("m", "True", ""), none(), true),
    ] {
        let text = format!("{} -> {}", old, new);
        let read = |object: &Value| (!object.is_null()).then(|| record(object.clone()));
        let (old, new) = (read(&old), read(&new));
        let (resource, any) = old.as_ref().or(new.as_ref()).expect("an object");
        let cache = cache(&latest(), std::slice::from_ref(node));
        let change = Change {
            resource: *resource,
            key: &Key::from(&any.meta),
            old: old.as_ref().map(|(_, record)| record),
            new: new.as_ref().map(|(_, record)| record),
        };
        let mut keys = Vec::new();
        latest().affected(&cache, &change, &mut keys);
        assert_eq!(!keys.is_empty(), expected, "{text}");
    }
}

#[test]
fn a_manager_needs_no_sync_for_pods_with_finalizers_only() {
    let mut held = terminating(pod("web", "Failed", "gone", 1));
    held["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let mut running = held.clone();
    running["status"]["phase"] = "Running".into();
    for (object, requeue_at) in [(held, None), (running, Some(second(40)))] {
        let syncs = Syncs::new(latest(), &[object]);
        assert_eq!(syncs.decide(second(0)).requeue_at, requeue_at);
    }
}

#[test]
fn syncs_of_a_manager_find_and_delete_an_orphan() {
    let mut manager = Manager::new(vec![Arc::new(latest())], Wire::Strict, second(0));
    let records = |objects: &[Value]| Ok(objects.iter().cloned().map(|object| record(object).1).collect());
    let pods = records(&[pod("web", "Running", "gone", 1)]);
    manager.handle(
        second(0),
        Input::Listed {
            resource: Resource::Pods,
            records: pods,
        },
    );
    manager.handle(
        second(0),
        Input::Listed {
            resource: Resource::Nodes,
            records: records(&[]),
        },
    );
    for seconds in [0, 20, 39] {
        let Output::Wait { until } = manager.poll_output(second(seconds)) else {
            panic!("quarantine")
        };
        assert_eq!(until, Some(second(40)));
    }
    let Output::Perform(task) = manager.poll_output(second(40)) else {
        panic!("orphan")
    };
    assert_eq!(task.object.to_string(), "pod/web -n shop");
    let lines = play(&task.work.into_steps(true), |request| match request {
        Request::Get { .. } => gone(),
        _ => Response::Done,
    });
    assert_eq!(lines[2], "delete pod/web -n shop grace=0 uid=uid-web");
    manager.handle(
        second(40),
        Input::Ended {
            task: task.id,
            end: End::Done,
        },
    );
    let deleted = Input::Deleted {
        resource: Resource::Pods,
        key: Key::new("shop", "web"),
        uid: "uid-web".into(),
    };
    manager.handle(second(41), deleted);
    assert!(matches!(
        manager.poll_output(second(80)),
        Output::Wait { until: None }
    ));
}

#[test]
fn the_ends_of_time_cause_no_panic() {
    for nanos in [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX] {
        let mut syncs = Syncs::new(latest(), &[pod("web", "Running", "gone", 1)]);
        syncs.controller.quarantine = Duration::MAX;
        let now = Timestamp::from_nanos(nanos);
        // At the last instant every quarantine is over.
        assert_eq!(syncs.sync(now, &gone()).is_empty(), nanos != i64::MAX, "{nanos}");
    }
}

fn any_pods() -> impl Strategy<Value = Vec<Record>> {
    let phase = select(vec![
        "",
        "Pending",
        "Running",
        "Unknown",
        "Succeeded",
        "Failed",
        "Odd",
    ]);
    let node = select(vec!["", "here", "out", "gone", "lost"]);
    let one = (phase, node, 0..4_i64, any::<[bool; 2]>());
    vec(one, 0..12).prop_map(|seeds| {
        let pod = |(at, (phase, node, age, flags)): (usize, (&str, &str, i64, [bool; 2]))| {
            let [is_deleting, is_evicted] = flags;
            let mut object = pod(&format!("p{at}"), phase, node, age);
            object = if is_evicted { evicted(object) } else { object };
            record(if is_deleting { terminating(object) } else { object }).1
        };
        seeds.into_iter().enumerate().map(pod).collect()
    })
}

fn any_settings() -> impl Strategy<Value = PodGc> {
    (select(vec!["1.20", "1.26", "1.36"]), -1..4).prop_map(|(text, threshold)| {
        let mut controller = release(text);
        controller.terminated_pod_threshold = threshold;
        controller
    })
}

fn any_syncs() -> impl Strategy<Value = Syncs> {
    let waiting = vec((select(vec!["gone", "lost", "here"]), -50..50_i64), 0..3);
    (any_pods(), any_settings(), waiting).prop_map(|(pods, controller, waiting)| {
        let mut syncs = Syncs::new(controller, &[node("here", "True", ""), node("out", "False", OUT)]);
        syncs.cache.replace(Resource::Pods, pods);
        syncs.deadlines = waiting
            .into_iter()
            .map(|(name, seconds)| (name.into(), second(seconds)))
            .collect();
        syncs
    })
}

/// Every request of a sync in which missing nodes do not exist.
fn requests(syncs: &Syncs) -> Vec<String> {
    let decision = syncs.decide(second(0));
    let mut all: Vec<String> = decision
        .actions
        .iter()
        .flat_map(|action| &action.requests)
        .map(line)
        .collect();
    if let Some(steps) = &decision.steps {
        all.extend(play(steps, |request| {
            if request.is_write() {
                Response::Done
            } else {
                gone()
            }
        }));
    }
    all
}

fn hide(record: &mut Record, field: u8) {
    match (record.body_mut(), field) {
        (Body::Pod(pod), 0) => pod.phase = Field::Unread,
        (Body::Pod(pod), 1) => pod.reason = Field::Unread,
        (Body::Pod(pod), 2) => pod.node_name = Field::Unread,
        (Body::Pod(pod), 3) => pod.conditions = Field::Unread,
        (_, 4) => record.meta.uid = "".into(),
        (_, 5) => record.meta.creation_timestamp = None,
        _ => *record = Record::unreadable(record.meta.clone()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn every_pod_is_deleted_or_has_a_reason(syncs in any_syncs()) {
        let plan = BatchPlanner::new(syncs.controller).plan_with(&syncs.cache, second(0), |_| (Some(&syncs.deadlines), None));
        let deleted = plan.actions.iter().map(|action| &action.object);
        let mut all: Vec<_> = deleted.chain(plan.kept.iter().map(|kept| &kept.object)).collect();
        all.sort();
        all.dedup();
        prop_assert_eq!(all.len(), syncs.cache.records(Resource::Pods).count());
        let is_acted = |object: &ObjectId| plan.actions.iter().any(|action| action.object == *object);
        prop_assert!(!plan.kept.iter().any(|kept| is_acted(&kept.object)));
    }

    #[test]
    fn a_second_sync_finds_nothing_to_do(mut syncs in any_syncs()) {
        let all = requests(&syncs);
        syncs.deadlines = syncs.decide(second(0)).deadlines.unwrap_or_default();
        for at in 0..12 {
            let name = format!("p{at}");
            if all.contains(&delete(&name)) {
                syncs.remove(Resource::Pods, &format!("shop/{name}"));
            }
        }
        prop_assert_eq!(requests(&syncs), [""; 0]);
    }

    #[test]
    fn an_unread_fact_causes_no_deletion(
        mut syncs in any_syncs(),
        hidden in vec((0..12_usize, 0..7_u8), 1..4),
    ) {
        let all = requests(&syncs);
        let mut pods: Vec<Record> = syncs.cache.records(Resource::Pods).cloned().collect();
        for (at, field) in hidden {
            if let Some(record) = pods.get_mut(at) {
                hide(record, field);
            }
        }
        syncs.cache.replace(Resource::Pods, pods);
        for request in requests(&syncs) {
            prop_assert!(all.contains(&request), "{}", request);
        }
    }
}
