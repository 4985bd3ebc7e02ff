//! Workloads: Deployments, StatefulSets, DaemonSets, Jobs and their pods, by the rules of a test.

mod budgets;
mod deployments;
mod jobs;
mod nodes;
mod stateful_sets;

use std::time::Duration;

use kubegc_core::{KubernetesVersion, deletion::DeleteOptionsSpec};
use kubegc_testkit::{ClaimFate, Cluster, PodFate, Rest, Workloads};
use serde_json::{Value, json};

const RELEASES: [&str; 3] = ["1.20.2", "1.27.3", "1.36.0"];

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {team: shop}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: 'web:1'}]}
";

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ready_after(after: u64) -> PodFate {
    PodFate::Ready {
        after: seconds(after),
    }
}

fn builder(version: &str, workloads: Workloads, yaml: &str) -> kubegc_testkit::Builder {
    let version: KubernetesVersion = version.parse().unwrap();
    Cluster::builder()
        .version(version)
        .workloads(workloads)
        .yaml(yaml)
}

fn cluster(version: &str, workloads: Workloads, yaml: &str) -> Cluster {
    builder(version, workloads, yaml).build().unwrap()
}

/// A cluster of the latest release.
fn latest(workloads: Workloads, yaml: &str) -> Cluster {
    cluster("1.36.0", workloads, yaml)
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ControllerRevision" => "apps/v1",
        "Job" => "batch/v1",
        _ => "v1",
    }
}

/// All objects of a kind, by name.
fn all(cluster: &Cluster, kind: &str) -> Vec<Value> {
    cluster.server().with(|server| {
        let kind = server.catalog().mapping(api_version(kind), kind).unwrap();
        let objects = server.objects(kind, None);
        let objects = objects
            .iter()
            .map(|object| object.to_json(&server.catalog()[kind]));
        objects.collect()
    })
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects
        .iter()
        .map(|object| object["metadata"]["name"].as_str().unwrap())
        .collect()
}

fn uids(objects: &[Value]) -> Vec<&Value> {
    let mut uids: Vec<&Value> = objects.iter().map(|object| &object["metadata"]["uid"]).collect();
    uids.sort_by_key(|uid| uid.to_string());
    uids
}

fn get(cluster: &Cluster, kind: &str, name: &str) -> Value {
    let namespace = if kind == "Node" { "" } else { "default" };
    cluster.get(api_version(kind), kind, namespace, name).unwrap()
}

fn patch(cluster: &Cluster, kind: &str, name: &str, patch: Value) {
    let response = cluster.server().with(|server| {
        let namespace = if kind == "Node" { "" } else { "default" };
        let kind = server.catalog().mapping(api_version(kind), kind).unwrap();
        let patch = patch.to_string();
        server.patch(
            kind,
            namespace,
            name,
            "application/merge-patch+json",
            patch.as_bytes(),
        )
    });
    assert_eq!(response.code, 200, "{:?}", response.status());
}

fn delete(cluster: &Cluster, kind: &str, name: &str, policy: &str) {
    let response = cluster.server().with(|server| {
        let namespace = if kind == "Node" { "" } else { "default" };
        let kind = server.catalog().mapping(api_version(kind), kind).unwrap();
        let options = DeleteOptionsSpec {
            propagation_policy: (!policy.is_empty()).then(|| policy.to_owned()),
            ..DeleteOptionsSpec::default()
        };
        server.delete(kind, namespace, name, &options)
    });
    assert_eq!(response.code, 200, "{:?}", response.status());
}

fn create(cluster: &Cluster, kind: &str, object: Value) {
    let response = cluster.server().with(|server| {
        let namespace = if kind == "Node" { "" } else { "default" };
        let kind = server.catalog().mapping(api_version(kind), kind).unwrap();
        server.create_json(kind, namespace, object)
    });
    assert_eq!(response.code, 201, "{:?}", response.status());
}

/// An object that exists, to be created again.
fn copy(cluster: &Cluster, kind: &str, name: &str) -> Value {
    let object = get(cluster, kind, name);
    let metadata = &object["metadata"];
    let metadata =
        json!({"name": name, "labels": metadata["labels"], "annotations": metadata["annotations"]});
    json!({"metadata": metadata, "spec": object["spec"]})
}

fn image(kind: &str, image: &str) -> Value {
    let name = if kind == "CronJob" { "job" } else { "c" };
    json!({"spec": {"template": {"spec": {"containers": [{"name": name, "image": image}]}}}})
}

fn conditions(object: &Value) -> Vec<(&str, &str, &str)> {
    let mut conditions: Vec<_> = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| {
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            (text("type"), text("status"), text("reason"))
        })
        .collect();
    conditions.sort_unstable();
    conditions
}

fn condition<'o>(object: &'o Value, kind: &str) -> (&'o str, &'o str) {
    let found = conditions(object).into_iter().find(|(found, ..)| *found == kind);
    found.map_or(("", ""), |(_, status, reason)| (status, reason))
}

fn ready(pods: &[Value]) -> usize {
    pods.iter()
        .filter(|pod| condition(pod, "Ready").0 == "True")
        .count()
}

/// Pods that are not being deleted.
fn live(cluster: &Cluster) -> Vec<Value> {
    let mut pods = all(cluster, "Pod");
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pods
}

async fn settle(cluster: &Cluster, time: u64) -> Rest {
    cluster.settle_within(seconds(time)).await.unwrap().rest
}
