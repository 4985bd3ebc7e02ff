//! Fates and reasons in dumps like those of real clusters.

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_fixtures::{CREATED, merge, object, owned_by};
use kubegc_predict::{
    Assumptions, Cluster, Detail, Fate, Finding, Forecast, Intent, Missing, Question, Wait,
};
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

/// No kubelet ends the pods of a lost node.
#[test]
fn pods_of_a_lost_node_stay_terminating() {
    let cluster = common::complete(&[node("a", "Unknown"), terminating(pod("web", json!({})))]);
    for forecast in [
        cluster.pending().clone(),
        delete(&cluster, "shop/Pod/web", BACKGROUND),
    ] {
        let waits = waits(&forecast, "Pod", "web");
        assert_eq!(
            waits,
            [Wait::Kubelet {
                node: Some("a".into()),
                overdue_since: None,
            }]
        );
        assert_eq!(waits[0].to_string(), "the kubelet of node a, which does not run");
    }
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

/// A kind that is declared complete can be missing from the dump.
#[test]
fn kinds_that_are_declared_complete_and_missing_are_found() {
    let of_job = |name: &str| pod(name, owned_by("batch/v1", "Job", "report"));
    let pods: Vec<Value> = ["a", "b", "c"].into_iter().map(of_job).collect();
    let cluster = common::complete(&pods);
    let forecast = cluster.pending();
    assert_eq!(forecast.counts(), [("deleted", 3)].into());
    let missing = |finding: &Finding| match finding {
        Finding::KindMissing { .. } => Some(finding.to_string()),
        _ => None,
    };
    let found: Vec<String> = forecast.findings.iter().filter_map(missing).collect();
    assert_eq!(
        found,
        [
            "3 objects name a Job as their owner, and the dump has no Job although jobs.batch are declared complete: \
             check with `kubectl get jobs.batch -A`",
            "3 pods run on nodes, and the dump has no Node although nodes are declared complete: check with \
             `kubectl get nodes`",
        ]
    );
    let mut all = pods;
    all.push(node("a", "True"));
    all.push(object("batch/v1", "Job", "shop", "other", json!({})));
    assert_eq!(
        common::complete(&all)
            .pending()
            .findings
            .iter()
            .filter_map(missing)
            .count(),
        0
    );
}

/// Reasons name the object of the right group.
#[test]
fn two_kinds_of_one_name_are_distinguished() {
    let definition = json!({
        "spec": {
            "group": "serving.knative.dev",
            "scope": "Namespaced",
            "names": { "plural": "services", "kind": "Service" },
            "versions": [{ "name": "v1", "served": true, "storage": true }],
        },
        "status": { "conditions": [{ "type": "Established", "status": "True" }] },
    });
    let name = "services.serving.knative.dev";
    let mut owner = owned_by("serving.knative.dev/v1", "Service", "web");
    owner["metadata"]["ownerReferences"][0]["uid"] = "knative-web".into();
    let knative = json!({ "metadata": { "uid": "knative-web" } });
    let cluster = common::complete(&[
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "",
            name,
            definition,
        ),
        object("serving.knative.dev/v1", "Service", "shop", "web", knative),
        object("v1", "Service", "shop", "web", owner),
    ]);
    let forecast = delete(&cluster, "shop/Service.serving.knative.dev/web", BACKGROUND);
    let of = |group: &str| {
        let mut fates = forecast.fates.iter();
        fates
            .find(|fate| fate.object.group() == group)
            .expect("it is affected")
    };
    let by = |fate: &Fate| match fate {
        Fate::Deleted { by } => by.to_string(),
        other => other.word().to_owned(),
    };
    assert_eq!(by(&of("serving.knative.dev").fate), "you");
    assert_eq!(by(&of("").fate), "garbage collector");
    assert_eq!(
        forecast
            .explain(&of("serving.knative.dev").object)
            .statements
            .len(),
        2
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

/// An undetermined object is listed with the missing fact, also if the fact is about the object itself.
#[test]
fn each_undetermined_object_is_listed() {
    let claim = json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] } });
    let items = [common::list(&[object(
        "v1",
        "PersistentVolumeClaim",
        "shop",
        "data",
        claim,
    )])];
    let cluster = common::read(&items, &["persistentvolumeclaims"], Assumptions::default());
    let forecast = delete(&cluster, "shop/PersistentVolumeClaim/data", BACKGROUND);
    let text = forecast.to_text(Detail::default());
    assert!(
        text.contains(
            "Undetermined: 1\n  - persistentvolumeclaim/data -n shop: deleted, or terminating: the list of pods is not complete"
        ),
        "{text}"
    );
}

/// Manifests have no uid, status or phase.
#[test]
fn manifests_can_be_used_as_a_dump() {
    let manifest = |mut object: Value| {
        let meta = object["metadata"].as_object_mut().expect("metadata");
        meta.retain(|field, _| field != "uid" && field != "resourceVersion");
        for owner in object["metadata"]["ownerReferences"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            owner.as_object_mut().expect("a reference").remove("uid");
        }
        object
    };
    let pod = object("v1", "Pod", "shop", "web", owned_by("v1", "ConfigMap", "owner"));
    let objects = [
        object("v1", "Namespace", "", "shop", json!({})),
        object("v1", "ConfigMap", "shop", "owner", json!({})),
        pod,
    ];
    let manifests: Vec<Value> = objects.iter().cloned().map(manifest).collect();
    for objects in [&objects[..2], &manifests[..]] {
        let cluster = common::complete(objects);
        let forecast = delete(&cluster, "Namespace/shop", BACKGROUND);
        assert_eq!(
            forecast.counts().into_iter().collect::<Vec<_>>(),
            [("deleted", objects.len())],
            "{}",
            forecast.to_text(Detail::default())
        );
    }
}
