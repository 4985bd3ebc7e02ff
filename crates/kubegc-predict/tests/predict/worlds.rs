//! The possible clusters of an incomplete dump, and the reports where their outcomes differ.

use kubegc_core::PropagationPolicy;
use kubegc_predict::{Assumptions, Cluster, Fate, Finding, Forecast, Missing};
use serde_json::{Value, json};

use crate::common;

fn config_map(name: &str, owners: Value) -> Value {
    let rest = json!({ "metadata": { "ownerReferences": owners } });
    kubegc_fixtures::object("v1", "ConfigMap", "shop", name, rest)
}

fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    kubegc_fixtures::owner(api_version, kind, name, false)
}

fn cluster(items: &[Value], complete: &[&str]) -> Cluster {
    common::read(&[common::list(items)], complete, Assumptions::default())
}

fn root_deleted(cluster: &Cluster) -> Forecast {
    let options = kubegc_core::DeleteOptions::policy(PropagationPolicy::Background);
    let name = "shop/ConfigMap/root".parse().expect("three parts");
    cluster
        .predict(&[kubegc_predict::Intent::delete(name, options)])
        .expect("it is there")
}

fn fate<'a>(forecast: &'a Forecast, name: &str) -> &'a Fate {
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
        assert_eq!(missing(fate(&forecast, "below")), [expected], "{kind}");
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
        assert_eq!(missing(fate(&forecast, name)), [expected], "{name}");
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
        let Fate::Undetermined { missing, .. } = fate(&forecast, name) else {
            panic!("{name} is decided")
        };
        assert!(
            matches!(&missing[..], [Missing::Flawed { object }] if *object.name == *"flawed"),
            "{name}"
        );
    }
    assert_eq!(fate(&forecast, "beside").word(), "deleted");
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
    let cluster = Cluster::new(
        version,
        reader.finish().expect("nothing is declared"),
        Assumptions::default(),
    );
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
