//! Fates and reasons in dumps like those of real clusters, and the possible clusters of an incomplete dump.

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_fixtures::{CREATED, merge, object, owned_by};
use kubegc_predict::{
    Assumptions, Cluster, Detail, Fate, Finding, Forecast, Intent, Missing, Question, Wait,
};
use serde_json::{Value, json};

use crate::common;

fn config_map(name: &str, owners: Value) -> Value {
    let rest = json!({ "metadata": { "ownerReferences": owners } });
    object("v1", "ConfigMap", "shop", name, rest)
}

fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    kubegc_fixtures::owner(api_version, kind, name, false)
}

fn cluster(items: &[Value], complete: &[&str]) -> Cluster {
    common::read(&[common::list(items)], complete, Assumptions::default())
}

fn root_deleted(cluster: &Cluster) -> Forecast {
    delete(cluster, "shop/ConfigMap/root", PropagationPolicy::Background)
}

fn outcome<'a>(forecast: &'a Forecast, name: &str) -> &'a Fate {
    &forecast
        .fates
        .iter()
        .find(|fate| *fate.object.name == *name)
        .expect("it is reached")
        .fate
}

fn missing(fate: &Fate) -> Vec<String> {
    match fate {
        Fate::Undetermined { missing, .. } => missing.iter().map(ToString::to_string).collect(),
        other => vec![other.word().to_owned()],
    }
}

/// The other owner of a dependent whose first one is deleted, and its fate or the data to dump.
const OWNERS: &str = "
apps/v1 Deployment web => whether deployment/web -n shop exists: add the output of `kubectl get deployments.apps -A -o json` and declare it complete
v1 Node one => whether node/one exists: add the output of `kubectl get nodes -A -o json` and declare it complete
example.org/v1 Gadget g => what example.org/v1/Gadget is: add the output of `kubectl api-resources`
# The group has a definition in the dump, and may have others that are missing from it.
example.com/v1 Gadget g => what example.com/v1/Gadget is: add the output of `kubectl api-resources`
# A built-in group has no kinds but the known ones, and a defined kind no versions but its definition's.
apps/v1 Gadget g => kept
example.com/v7 Widget w => kept
# Declared complete, and the object does not exist.
v1 ConfigMap gone => deleted
";

#[test]
fn an_unlisted_owner_makes_the_fate_undetermined_and_names_the_list_to_dump() {
    let root = owner("v1", "ConfigMap", "root");
    for row in OWNERS.trim().lines().filter(|row| !row.starts_with('#')) {
        let (other, expected) = row.split_once(" => ").expect("a fate");
        let [api_version, kind, name] = other.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let kind = owner(api_version, kind, name);
        let items = [
            config_map("root", json!([])),
            config_map("below", json!([root, kind])),
            common::widget_definition(),
        ];
        let cluster = cluster(&items, &["configmaps", "customresourcedefinitions"]);
        let forecast = root_deleted(&cluster);
        assert_eq!(missing(outcome(&forecast, "below")), [expected], "{kind}");
    }
}

#[test]
fn each_fate_names_only_the_data_that_it_depends_on() {
    let root = owner("v1", "ConfigMap", "root");
    let items = [
        config_map("root", json!([])),
        config_map("a", json!([root, owner("v1", "Secret", "one")])),
        config_map("b", json!([root, owner("v1", "Secret", "two")])),
        config_map("below-a", json!([owner("v1", "ConfigMap", "a")])),
        config_map("c", json!([root])),
    ];
    let cluster = cluster(&items, &["configmaps"]);
    let forecast = root_deleted(&cluster);
    let one = "whether secret/one -n shop exists: add the output of `kubectl get secrets -A -o json` and declare it complete";
    let two = "whether secret/two -n shop exists: add the output of `kubectl get secrets -A -o json` and declare it complete";
    for (name, expected) in [
        ("root", "deleted"),
        ("a", one),
        ("b", two),
        ("below-a", one),
        ("c", "deleted"),
    ] {
        assert_eq!(missing(outcome(&forecast, name)), [expected], "{name}");
    }
}

#[test]
fn two_owners_that_claim_one_name_are_both_unknown() {
    let claim = |uid: &str| json!({ "apiVersion": "v1", "kind": "Secret", "name": "s", "uid": uid });
    let items = [
        config_map("a", json!([claim("1")])),
        config_map("b", json!([claim("2")])),
    ];
    let cluster = cluster(&items, &["configmaps"]);
    assert_eq!(
        cluster.pending().counts().into_iter().collect::<Vec<_>>(),
        [("undetermined", 2)]
    );
}

#[test]
fn outcomes_that_depend_on_an_unreadable_object_are_undetermined() {
    let mut flawed = config_map("flawed", json!([owner("v1", "ConfigMap", "root")]));
    flawed["metadata"]["finalizers"] = json!(7);
    let items = [
        config_map("root", json!([])),
        flawed,
        config_map("below", json!([owner("v1", "ConfigMap", "flawed")])),
        config_map("beside", json!([owner("v1", "ConfigMap", "root")])),
    ];
    let cluster = cluster(&items, &["configmaps"]);
    let forecast = root_deleted(&cluster);
    for name in ["flawed", "below"] {
        let Fate::Undetermined { missing, .. } = outcome(&forecast, name) else {
            panic!("{name} is decided")
        };
        assert!(
            matches!(&missing[..], [Missing::Flawed { object }] if *object.name == *"flawed"),
            "{name}"
        );
    }
    assert_eq!(outcome(&forecast, "beside").word(), "deleted");
}

#[test]
fn undumped_kinds_may_block_a_deletion() {
    let cluster = cluster(&[config_map("root", json!([]))], &["configmaps"]);
    let forecast = root_deleted(&cluster);
    let [Finding::UnseenDependents { kinds }] = forecast.findings.as_slice() else {
        panic!("{:?}", forecast.findings)
    };
    assert!(kinds.iter().any(|kind| kind == "secrets") && !kinds.iter().any(|kind| kind == "configmaps"));
    // The collector ignores Events, so no Event can block a deletion.
    assert!(!kinds.iter().any(|kind| kind.starts_with("events")), "{kinds:?}");
}

/// A dump as public ones are: a few kinds of one namespace, Pods and ReplicaSets without the objects that own
/// them.
#[test]
fn owners_that_a_partial_dump_lacks_are_unknown_and_never_absent() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/partial");
    let version = kubegc_core::KubernetesVersion::LATEST;
    let mut reader = kubegc_snapshot::Reader::new(version);
    reader
        .read_path(path.as_ref())
        .expect("the files are in the repository");
    let snapshot = reader.finish().expect("nothing is declared");
    let cluster = Cluster::new(version, snapshot, Assumptions::default());
    let open: Vec<String> = cluster
        .pending()
        .fates
        .iter()
        .map(|fate| format!("{}: {}", fate.object.short(), missing(&fate.fate).join("; ")))
        .collect();
    let expected = [
        "pod/router-6c9b7d-x2x4z -n shop-system: whether replicaset/router-6c9b7d -n shop-system exists: add the output of `kubectl get replicasets.apps -A -o json` and declare it complete",
        "pod/scheduler-node-1 -n shop-system: whether node/node-1 exists: add the output of `kubectl get nodes -A -o json` and declare it complete",
        "replicaset/queue-5f -n shop-system: what mail.example.com/v1beta1/Queue is: add the output of `kubectl api-resources`",
    ];
    assert_eq!(open, expected);
}

fn node(name: &str, ready: &str) -> Value {
    let status = json!({ "spec": {}, "status": { "conditions": [{ "type": "Ready", "status": ready }] } });
    object("v1", "Node", "", name, status)
}

fn pod(name: &str, rest: Value) -> Value {
    let fields = json!({ "spec": { "nodeName": "a" }, "status": { "phase": "Running" } });
    let mut pod = object("v1", "Pod", "shop", name, fields);
    merge(&mut pod, rest);
    pod
}

fn terminating(item: Value) -> Value {
    let mut item = item;
    let (at, grace) = match item["kind"] == "Pod" {
        true => ("2026-01-01T00:00:30Z", 30),
        false => ("2026-01-01T00:00:00Z", 0),
    };
    let meta = json!({ "metadata": { "deletionTimestamp": at, "deletionGracePeriodSeconds": grace } });
    merge(&mut item, meta);
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
    let fields = json!({ "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" } });
    let shop = object("v1", "Namespace", "", "shop", fields);
    let settings = object("v1", "ConfigMap", "shop", "settings", json!({}));
    let items = [common::list(&[shop, settings])];
    let cluster = common::read(&items, &["namespaces", "configmaps"], Assumptions::default());
    let forecast = delete(&cluster, "Namespace/shop", PropagationPolicy::Background);
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
            &delete(&cluster, "Namespace/shop", PropagationPolicy::Background),
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
    let owned = owned_by("v1", "ConfigMap", "gone");
    let orphan = object("v1", "Secret", "shop", "orphan", owned);
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
    let forecast = delete(&cluster, "Node/a", PropagationPolicy::Foreground);
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
        delete(&cluster, "shop/Pod/web", PropagationPolicy::Background),
    ] {
        let waits = waits(&forecast, "Pod", "web");
        let node = Some("a".into());
        let overdue_since = None;
        assert_eq!(waits, [Wait::Kubelet { node, overdue_since }]);
        assert_eq!(waits[0].to_string(), "the kubelet of node a, which does not run");
    }
}
