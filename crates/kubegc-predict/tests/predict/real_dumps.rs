//! Fates and reasons in dumps like those of real clusters.

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_fixtures::{CREATED, merge, object, owned_by};
use kubegc_predict::{Assumptions, Cluster, Detail, Fate, Forecast, Intent, Missing, Question, Wait};
use serde_json::{Value, json};

use crate::common;

const FOREGROUND: PropagationPolicy = PropagationPolicy::Foreground;
const BACKGROUND: PropagationPolicy = PropagationPolicy::Background;

fn node(name: &str, ready: &str) -> Value {
    let status = json!({ "spec": {}, "status": { "conditions": [{ "type": "Ready", "status": ready }] } });
    object("v1", "Node", "", name, status)
}

fn pod(name: &str, rest: Value) -> Value {
    let mut pod = object(
        "v1",
        "Pod",
        "shop",
        name,
        json!({ "spec": { "nodeName": "a" }, "status": { "phase": "Running" } }),
    );
    merge(&mut pod, rest);
    pod
}

fn terminating(item: Value) -> Value {
    let mut item = item;
    let (at, grace) = match item["kind"] == "Pod" {
        true => ("2026-01-01T00:00:30Z", 30),
        false => ("2026-01-01T00:00:00Z", 0),
    };
    merge(
        &mut item,
        json!({ "metadata": { "deletionTimestamp": at, "deletionGracePeriodSeconds": grace } }),
    );
    item
}

fn delete(cluster: &Cluster, name: &str, policy: PropagationPolicy) -> Forecast {
    let intent = Intent::delete(name.parse().expect("a name"), DeleteOptions::policy(policy));
    cluster.predict(&[intent]).expect("the object is in the dump")
}

fn fate<'a>(forecast: &'a Forecast, kind: &str, name: &str) -> &'a Fate {
    let mut fates = forecast.fates.iter();
    let found = fates.find(|fate| *fate.object.kind == *kind && *fate.object.name == *name);
    &found
        .unwrap_or_else(|| panic!("{kind} {name} is not affected: {forecast:#?}"))
        .fate
}

fn word(forecast: &Forecast, kind: &str, name: &str) -> &'static str {
    fate(forecast, kind, name).word()
}

fn waits<'a>(forecast: &'a Forecast, kind: &str, name: &str) -> &'a [Wait] {
    match fate(forecast, kind, name) {
        Fate::Terminating { waits_for } => waits_for,
        other => panic!("{kind} {name} is {}", other.word()),
    }
}

/// Kinds that were not dumped may have content with finalizers.
#[test]
fn the_fate_of_a_namespace_with_unread_kinds_is_undetermined() {
    let shop = object(
        "v1",
        "Namespace",
        "",
        "shop",
        json!({ "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" } }),
    );
    let settings = object("v1", "ConfigMap", "shop", "settings", json!({}));
    let items = [common::list(&[shop, settings])];
    let cluster = common::read(&items, &["namespaces", "configmaps"], Assumptions::default());
    let forecast = delete(&cluster, "Namespace/shop", BACKGROUND);
    assert_eq!(word(&forecast, "ConfigMap", "settings"), "deleted");
    let Fate::Undetermined { missing, .. } = fate(&forecast, "Namespace", "shop") else {
        panic!("{:?}", fate(&forecast, "Namespace", "shop"));
    };
    let text = missing[0].to_string();
    assert!(matches!(missing[0], Missing::Content { .. }), "{text}");
    assert!(
        text.contains("kubectl get ") && text.contains("-n shop -o json"),
        "{text}"
    );
    // With every kind dumped, nothing is undetermined.
    let cluster = common::read(&items, &["all"], Assumptions::default());
    assert_eq!(
        word(
            &delete(&cluster, "Namespace/shop", BACKGROUND),
            "Namespace",
            "shop"
        ),
        "deleted"
    );
}

/// The pending deletions are those of a forecast of a day.
#[test]
fn pending_work_and_a_forecast_with_a_horizon_agree() {
    let rest = json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] }, "spec": {} });
    let mut claim = terminating(object("v1", "PersistentVolumeClaim", "shop", "free", rest));
    claim["metadata"]["deletionTimestamp"] = CREATED.into();
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    let held = terminating(object("v1", "ConfigMap", "shop", "held", held));
    let orphan = object(
        "v1",
        "Secret",
        "shop",
        "orphan",
        owned_by("v1", "ConfigMap", "gone"),
    );
    let cluster = common::complete(&[claim, held, orphan]);
    let day = Question::new(cluster.version()).up_to(std::time::Duration::from_secs(86_400));
    let day = cluster.forecast(&day).expect("nothing is to be resolved");
    let words = |forecast: &Forecast| -> Vec<(String, &'static str)> {
        let fates = forecast.fates.iter();
        fates
            .map(|fate| (fate.object.short(), fate.fate.word()))
            .collect()
    };
    assert_eq!(words(cluster.pending()), words(&day));
    assert_eq!(word(&day, "PersistentVolumeClaim", "free"), "deleted");
    assert_eq!(word(&day, "Secret", "orphan"), "deleted");
    assert_eq!(
        waits(&day, "ConfigMap", "held")[0].finalizer(),
        Some("example.com/hold")
    );
}

/// The explanation of a namespace reads like its conditions.
#[test]
fn a_terminating_namespace_names_its_remaining_content() {
    let shop = json!({ "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Terminating" } });
    let held = |name: &str| {
        let finalizers = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        object("v1", "ConfigMap", "shop", name, finalizers)
    };
    let cluster = common::complete(&[
        terminating(object("v1", "Namespace", "", "shop", shop)),
        held("a"),
        held("b"),
        node("a", "Unknown"),
        pod("lost", json!({})),
    ]);
    let wait = waits(cluster.pending(), "Namespace", "shop")[0].to_string();
    let expected = "its content, of which these remain: configmaps (2), pods (1); finalizers remaining: \
                    example.com/hold in 2 objects; nothing else is deleted while pods remain";
    assert_eq!(wait, expected);
    let json = cluster.pending().to_json();
    let mut fates = json["fates"].as_array().expect("a list").iter();
    let shop = fates
        .find(|fate| fate["object"]["kind"] == "Namespace")
        .expect("it is affected");
    let remaining = &shop["waitsFor"][0]["remaining"];
    assert_eq!(
        remaining[0],
        json!({ "resource": "configmaps", "count": 2, "finalizers": { "example.com/hold": 2 } })
    );
    let text = cluster.pending().to_text(Detail::default());
    assert!(text.contains("terminating since 2026-01-01 00:00:00"), "{text}");
}

#[test]
fn steps_of_controllers_have_their_reasons() {
    let cluster = common::complete(&[node("a", "True"), pod("web", json!({}))]);
    let forecast = delete(&cluster, "Node/a", FOREGROUND);
    let json = forecast.to_json();
    let steps = json["timeline"].as_array().expect("a list");
    let of_podgc = steps
        .iter()
        .find(|step| step["actor"] == "pod-garbage-collector-controller");
    assert_eq!(of_podgc.expect("it deletes the pod")["reason"], "Orphaned");
}

/// No kubelet ends the pods of a lost node.
#[test]
fn pods_of_a_lost_node_stay_terminating() {
    let cluster = common::complete(&[node("a", "Unknown"), terminating(pod("web", json!({})))]);
    for forecast in [
        cluster.pending().clone(),
        delete(&cluster, "shop/Pod/web", BACKGROUND),
    ] {
        let waits = waits(&forecast, "Pod", "web");
        let node = Some("a".into());
        let overdue_since = None;
        assert_eq!(waits, [Wait::Kubelet { node, overdue_since }]);
        assert_eq!(waits[0].to_string(), "the kubelet of node a, which does not run");
    }
}
