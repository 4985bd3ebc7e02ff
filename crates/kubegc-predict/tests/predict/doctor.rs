//! Diagnoses: the causes that keep objects in deletion, terminating objects and wrong owner references.

use kubegc_fixtures::check_transcript;
use kubegc_predict::{Assumptions, Cluster, Diagnosis, document::AnswerStatus};
use serde_json::{Value, json};

use crate::common;

fn cluster(version: &str, complete: &[&str], items: &[Value]) -> Cluster {
    common::of_release(version, items, complete, Assumptions::default())
}

fn item(api_version: &str, kind: &str, namespace: &str, name: &str, owners: Value) -> Value {
    let mut meta = json!({ "name": name, "uid": format!("uid-{namespace}-{name}"), "resourceVersion": "5", "ownerReferences": owners });
    if !namespace.is_empty() {
        meta["namespace"] = namespace.into();
    }
    json!({ "apiVersion": api_version, "kind": kind, "metadata": meta })
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid })
}

/// Dependents with API version, kind, name and uid of their owner.
const DEPENDENTS: &str = "\
right v1 ConfigMap config uid-shop-config
right-lower-case v1 configmap config uid-shop-config
right-of-cluster v1 Node node-1 uid--node-1
bad-version a/b/c ConfigMap config uid-shop-config
core-group core/v1 ConfigMap config uid-shop-config
upper-case v1 CONFIGMAP config uid-shop-config
plural v1 configmaps config uid-shop-config
old-version apps/v1beta1 Deployment web uid-web
unknown-kind example.com/v1 Widget w uid-w
other-namespace v1 ConfigMap elsewhere uid-test-elsewhere
other-name v1 ConfigMap renamed uid-shop-config
other-kind v1 Secret config uid-shop-config
other-uid v1 ConfigMap config uid-before-restore
missing v1 ConfigMap absent uid-absent
not-listed batch/v1 Job import uid-import
";

/// The cases of kubectl-check-ownerreferences, and more: each dependent with the problem of its references
/// and its fate in this version.
fn references(version: &str) -> Diagnosis {
    let config = "uid-shop-config";
    let dependent = |line: &str| {
        let [name, api_version, kind, of, uid] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let owners = json!([owner(api_version, kind, of, uid)]);
        item("v1", "Secret", "shop", name, owners)
    };
    let mut two = item("v1", "Secret", "shop", "two-controllers", json!([]));
    let controller = |name: &str, uid: &str| {
        let mut owner = owner("v1", "ConfigMap", name, uid);
        owner["controller"] = true.into();
        owner
    };
    two["metadata"]["ownerReferences"] = json!([
        controller("config", config),
        controller("other", "uid-shop-other")
    ]);
    let mut items = vec![
        item("v1", "ConfigMap", "shop", "config", json!([])),
        item("v1", "ConfigMap", "shop", "other", json!([])),
        item("v1", "ConfigMap", "test", "elsewhere", json!([])),
        item("v1", "Node", "", "node-1", json!([])),
    ];
    items.extend(DEPENDENTS.lines().map(dependent));
    let namespaced = json!([owner("v1", "ConfigMap", "config", config)]);
    let group = "rbac.authorization.k8s.io/v1";
    items.push(item(group, "ClusterRole", "", "role", namespaced));
    items.push(two);
    let complete = ["configmaps", "secrets", "nodes", "deployments", "clusterroles"];
    cluster(version, &complete, &items).doctor()
}

#[test]
fn wrong_references_have_a_problem_and_an_outcome() {
    let diagnosis = references("1.34");
    let found: Vec<(&str, &str, &str)> = diagnosis
        .references
        .iter()
        .map(|one| (&*one.object.name, one.problem, one.fate.word()))
        .collect();
    let mut expected = [
        ("bad-version", "ApiVersionInvalid", "kept"),
        ("core-group", "CoreGroup", "undetermined"),
        ("upper-case", "KindNotServed", "kept"),
        ("plural", "KindNotServed", "kept"),
        ("old-version", "KindNotServed", "kept"),
        ("unknown-kind", "KindUnknown", "undetermined"),
        ("other-namespace", "OtherNamespace", "deleted"),
        ("other-name", "OtherName", "deleted"),
        ("other-kind", "OtherKind", "deleted"),
        ("other-uid", "OtherUid", "deleted"),
        ("missing", "OwnerMissing", "deleted"),
        ("not-listed", "OwnerUnknown", "undetermined"),
        ("role", "OwnerNamespaced", "kept"),
        ("two-controllers", "SeveralControllers", "kept"),
    ];
    let mut found = found;
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(!diagnosis.is_healthy());
    let short = diagnosis.to_text(1);
    assert!(short.contains("\n  and 2 more\n"), "{short}");
}

#[test]
fn repairs_keep_correct_references() {
    let diagnosis = references("1.34");
    let command = |name: &str| {
        let references = diagnosis.references.iter();
        let mut found = references.filter(|one| *one.object.name == *name);
        let fix = found.next().and_then(|one| one.fix.clone());
        fix.map(|fix| fix.command).unwrap_or_default()
    };
    assert_eq!(
        command("other-uid"),
        "kubectl patch secrets other-uid -n shop --type=json -p '[\
         {\"op\":\"test\",\"path\":\"/metadata/ownerReferences/0/uid\",\"value\":\"uid-before-restore\"},\
         {\"op\":\"replace\",\"path\":\"/metadata/ownerReferences/0/uid\",\"value\":\"uid-shop-config\"}]'"
    );
    assert!(command("missing").contains("\"op\":\"remove\",\"path\":\"/metadata/ownerReferences/0\""));
    assert!(
        command("upper-case").contains("\"value\":\"ConfigMap\""),
        "{}",
        command("upper-case")
    );
    assert!(
        command("old-version").contains("\"value\":\"apps/v1\""),
        "{}",
        command("old-version")
    );
    assert_eq!(command("not-listed"), "");
    assert!(
        command("role").starts_with("kubectl patch clusterroles.rbac.authorization.k8s.io role --type=json")
    );
}

/// Before 1.20 an owner in another namespace counts, and the order of events decides about namespaced owners
/// of cluster-scoped objects.
#[test]
fn outcomes_are_those_of_the_version() {
    let fate = |version: &str, name: &str| {
        let diagnosis = references(version);
        let found = diagnosis.references.iter().find(|one| *one.object.name == *name);
        found.map(|one| one.fate.word())
    };
    assert_eq!(fate("1.19", "missing"), Some("deleted"));
    assert_eq!(fate("1.19", "role"), Some("undetermined"));
    assert_eq!(fate("1.34", "role"), Some("kept"));
    assert_eq!(fate("1.19", "other-namespace"), Some("kept"));
    assert_eq!(fate("1.34", "other-namespace"), Some("deleted"));
}

/// Up to 1.15 two groups serve Deployments: the owner is there, under the other group.
#[test]
fn an_owner_of_another_group_is_never_absent() {
    let items = [
        item("apps/v1", "Deployment", "shop", "web", json!([])),
        item(
            "v1",
            "Secret",
            "shop",
            "a",
            json!([owner("extensions/v1beta1", "Deployment", "web", "uid-shop-web")]),
        ),
    ];
    let cluster = cluster("1.15", &["deployments", "secrets"], &items);
    let mut fates = cluster.pending().fates.iter();
    let secret = fates.find(|fate| *fate.object.kind == *"Secret");
    assert_ne!(secret.map(|fate| fate.fate.word()), Some("deleted"));
}

#[test]
fn sarif_has_a_result_for_each_problem() {
    let diagnosis = references("1.34");
    let log = diagnosis.to_sarif();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let results = run["results"].as_array().expect("a list");
    assert_eq!(results.len(), diagnosis.references.len());
    let rules: Vec<&Value> = run["tool"]["driver"]["rules"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|rule| &rule["id"])
        .collect();
    for (result, reference) in results.iter().zip(&diagnosis.references) {
        assert_eq!(result["ruleId"], reference.problem);
        assert!(rules.contains(&&result["ruleId"]), "{rules:?}");
        let level = if reference.is_certain { "error" } else { "note" };
        assert_eq!(result["level"], level);
        let location = &result["locations"][0]["logicalLocations"][0];
        assert_eq!(location["fullyQualifiedName"], reference.object.short());
    }
}

/// The first line of an input is the release and the kinds that are complete. The dump follows.
fn diagnosis(input: &str) -> Diagnosis {
    let (first, dump) = input.split_once('\n').expect("a dump");
    let mut words = first.split(' ');
    let release = words.next().unwrap_or_default();
    let complete: Vec<&str> = words.collect();
    // A text without a final line break may be cut off.
    let dump = format!("{dump}\n");
    common::of_dump(release, &dump, &complete, Assumptions::default()).doctor()
}

#[test]
fn each_cause_has_its_evidence_and_repair() {
    check_transcript("tests/predict/causes.txt", |input| {
        let text = diagnosis(input).to_text(8);
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    });
}

/// ConfigMaps with the finalizer of an operator, and the newest time of the dump.
fn held(count: usize, newest: &str) -> Diagnosis {
    let mut input = format!(
        "1.36 all\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: clock, namespace: shop, uid: c, \
         creationTimestamp: \"2026-01-02T{newest}Z\"}}\n"
    );
    for number in 0..count {
        input.push_str(&format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: held-{number}, namespace: shop, uid: h{number}, \
             deletionTimestamp: \"2026-01-02T00:00:00Z\", finalizers: [example.org/hold]}}\n"
        ));
    }
    diagnosis(&input)
}

/// Without anything newer in the dump, the time since the deletion is unknown.
#[test]
fn a_deletion_that_began_a_moment_ago_is_no_problem() {
    for (newest, is_recent, status) in [
        ("00:00:00", false, AnswerStatus::Problem),
        ("00:00:01", true, AnswerStatus::Ok),
        ("00:00:59", true, AnswerStatus::Ok),
        ("00:01:00", false, AnswerStatus::Problem),
    ] {
        let diagnosis = held(1, newest);
        assert_eq!(diagnosis.causes[0].is_recent, is_recent, "{newest}");
        assert_eq!(diagnosis.terminating[0].is_stuck, !is_recent, "{newest}");
        assert_eq!(diagnosis.status(), status, "{newest}");
    }
}

#[test]
fn objects_with_one_cause_are_below_one_entry() {
    let diagnosis = held(5, "10:00:00");
    assert_eq!(diagnosis.causes.len(), 1);
    let cause = &diagnosis.causes[0];
    assert_eq!((cause.blocks.len(), cause.fixes.len()), (5, 3));
    assert!(
        cause.fixes[2].risk.ends_with("; 2 more objects need the same"),
        "{:?}",
        cause.fixes
    );
    let log = diagnosis.to_sarif();
    let results = log["runs"][0]["results"].as_array().expect("a list");
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["ruleId"], "OperatorFinalizer");
    let document = diagnosis.to_json();
    assert_eq!(document["causes"][0]["cause"], "OperatorFinalizer");
    let finalizer = &document["terminating"][0]["foreignFinalizers"][0]["name"];
    assert_eq!(finalizer, "example.org/hold");
    assert_eq!(document["causes"][0]["blocks"][4]["object"]["name"], "held-4");
}

/// Nothing is in deletion, and the ReplicaSet lacks pods.
#[test]
fn what_refuses_the_requests_of_controllers_is_in_the_document() {
    let message = "pods \\\"web-\\\" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4";
    let diagnosis = diagnosis(&format!(
        "1.36 all\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: web, namespace: shop, uid: r1}}\n\
         status: {{replicas: 4, conditions: [{{type: ReplicaFailure, status: \"True\", message: \"{message}\"}}]}}\n"
    ));
    assert_eq!(diagnosis.status(), AnswerStatus::Problem);
    let document = diagnosis.to_json();
    let cause = &document["causes"][0];
    assert_eq!(cause["cause"], "QuotaExceeded");
    assert_eq!(cause["proof"], "seen");
    assert_eq!(cause["blocks"][0]["refusedRequest"], "creation of pods");
    assert_eq!(cause["blocks"][0]["object"]["name"], "web");
    let command = "kubectl get resourcequota compute -n shop -o yaml";
    assert_eq!(cause["fixes"][0]["command"], command);
}
