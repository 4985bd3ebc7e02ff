//! Forecasts of dumps whose layout proves kinds complete.

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy, Uid};
use kubegc_predict::{Assumptions, Cluster, Fate, Forecast, Intent};
use kubegc_snapshot::Reader;
use serde_json::{Value, json};

/// An object of the namespace `shop`, with a controller of this apiVersion, kind and name.
fn object(name: &str, owner: Option<[&str; 3]>, fields: Value) -> Value {
    let owners = owner.map(|[api_version, kind, name]| {
        json!({
            "apiVersion": api_version, "kind": kind, "name": name, "uid": format!("{kind}-{name}"),
            "controller": true, "blockOwnerDeletion": true,
        })
    });
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "shop", "resourceVersion": "5",
            "creationTimestamp": "2026-03-01T08:00:00Z",
            "labels": {"app": "web"},
            "ownerReferences": owners.into_iter().collect::<Vec<Value>>(),
        },
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
    object
}

/// A list as the API server writes it.
fn list(api_version: &str, kind: &str, mut items: Vec<Value>) -> String {
    for item in &mut items {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        item["metadata"]["uid"] = format!("{kind}-{name}").into();
    }
    let (kind, metadata) = (format!("{kind}List"), json!({"resourceVersion": "9"}));
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items}).to_string()
}

/// The files of a must-gather: a Deployment with an old and a new ReplicaSet, a finished Job, a claim that is
/// being deleted, and a ConfigMap whose owner no longer exists.
fn files() -> Vec<(&'static str, String)> {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let workload =
        |replicas: u8| json!({"spec": {"replicas": replicas, "selector": selector, "template": template}});
    let deployment = ["apps/v1", "Deployment", "web"];
    let on_node =
        |phase: &str| json!({"spec": {"nodeName": "n", "containers": []}, "status": {"phase": phase}});
    let mut claim = object("data", None, json!({"spec": {}, "status": {"phase": "Bound"}}));
    claim["metadata"]["deletionTimestamp"] = "2026-03-01T09:00:00Z".into();
    claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    let rest = json!({"spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let mut node = object("n", None, rest);
    if let Some(metadata) = node["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    let mut old = object("web-old", Some(deployment), workload(0));
    old["status"] = json!({"replicas": 0});
    let mut new = object("web-new", Some(deployment), workload(1));
    new["status"] = json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    vec![
        (
            "namespaces/shop/apps/deployments.yaml",
            list("apps/v1", "Deployment", vec![object("web", None, workload(1))]),
        ),
        (
            "namespaces/shop/apps/replicasets.yaml",
            list("apps/v1", "ReplicaSet", vec![new, old]),
        ),
        (
            "namespaces/shop/core/pods.yaml",
            list(
                "v1",
                "Pod",
                vec![
                    object(
                        "web-1",
                        Some(["apps/v1", "ReplicaSet", "web-new"]),
                        on_node("Running"),
                    ),
                    object("once-1", Some(["batch/v1", "Job", "once"]), on_node("Succeeded")),
                ],
            ),
        ),
        (
            "namespaces/shop/batch/jobs.yaml",
            list(
                "batch/v1",
                "Job",
                vec![object("once", None, json!({"spec": {}, "status": {}}))],
            ),
        ),
        (
            "namespaces/shop/core/persistentvolumeclaims.yaml",
            list("v1", "PersistentVolumeClaim", vec![claim]),
        ),
        (
            "namespaces/shop/core/configmaps.yaml",
            list(
                "v1",
                "ConfigMap",
                vec![object("left", Some(["v1", "Service", "gone"]), json!({}))],
            ),
        ),
        (
            "namespaces/shop/core/services.yaml",
            list("v1", "Service", Vec::new()),
        ),
        ("cluster-resources/nodes.json", list("v1", "Node", vec![node])),
    ]
}

fn cluster<'f>(files: impl Iterator<Item = &'f (&'static str, String)>) -> Cluster {
    let version = KubernetesVersion::new(33, 0).expect("1.33 is known");
    let mut reader = Reader::new(version);
    let empty = list("v1", "Secret", Vec::new());
    let secrets = ("namespaces/shop/core/secrets.yaml", empty.as_str());
    let files = files.map(|(path, text)| (*path, text.as_str()));
    for (path, text) in files.chain([secrets]) {
        reader.read(path, text.as_bytes()).expect(path);
    }
    Cluster::new(version, reader.finish().expect("read"), Assumptions::default())
}

/// The determined fates: the object, and whether it exists in the end.
fn determined(forecast: &Forecast) -> Vec<(String, bool)> {
    let is_open = |uid: &Uid| forecast.undetermined.iter().any(|one| one.object.uid == *uid);
    let fates = forecast.fates.iter().filter(|fate| !is_open(&fate.object.uid));
    let fates = fates.filter_map(|fate| match fate.fate {
        Fate::Undetermined { .. } => None,
        Fate::Deleted { .. } => Some((fate.object.short(), false)),
        _ => Some((fate.object.short(), true)),
    });
    fates.collect()
}

#[test]
fn the_lists_of_a_must_gather_determine_the_actions_of_controllers() {
    let files = files();
    let about = |cluster: &Cluster, name: &str| {
        let undetermined = cluster.pending().undetermined.iter();
        undetermined.filter(|one| *one.object.name == *name).count()
    };
    let whole = cluster(files.iter());
    for name in ["web", "web-new", "web-1", "once", "data"] {
        assert_eq!(
            about(&whole, name),
            0,
            "{name}: {:?}",
            whole.pending().undetermined
        );
    }
    let text = whole.pending().to_text(kubegc_predict::Detail::default());
    assert!(text.contains("persistentvolumeclaim/data -n shop"), "{text}");
    // Without the list of the ReplicaSets their number is unknown, for example.
    for (missing, name) in [("replicasets", "web"), ("pods", "data")] {
        let partial = cluster(files.iter().filter(|(path, _)| !path.contains(missing)));
        assert_eq!(about(&partial, name), 1, "{missing}");
    }
    // An owner that the list of its kind lacks contradicts the list. It is not absent for certain.
    let mut fates = whole.pending().fates.iter();
    let left = fates.find(|fate| *fate.object.name == *"left");
    assert!(
        matches!(left.map(|left| &left.fate), Some(Fate::Undetermined { .. })),
        "{left:?}"
    );
}

/// A further file of a must-gather never contradicts what was determined without it.
#[test]
fn a_further_list_contradicts_nothing() {
    let files = files();
    let delete = |cluster: &Cluster| {
        let options = DeleteOptions::policy(PropagationPolicy::Background);
        let intent = Intent::delete("shop/Deployment.apps/web".parse().expect("a name"), options);
        cluster.predict(&[intent]).ok()
    };
    let whole = cluster(files.iter());
    let pending = determined(whole.pending());
    let deleted = determined(&delete(&whole).expect("it is there"));
    let mut compared = 0;
    for chosen in 0..1_u32 << files.len() {
        let some = files.iter().enumerate().filter(|(at, _)| chosen & 1 << at != 0);
        let partial = cluster(some.map(|(_, file)| file));
        let of_delete = delete(&partial).map_or(Vec::new(), |forecast| determined(&forecast));
        for (fates, all) in [(determined(partial.pending()), &pending), (of_delete, &deleted)] {
            for (object, remains) in fates {
                if let Some((_, expected)) = all.iter().find(|(other, _)| *other == object) {
                    compared += 1;
                    assert_eq!(remains, *expected, "{object} with {chosen:b}");
                }
            }
        }
    }
    assert!(compared > 300, "{compared} fates compared");
}
