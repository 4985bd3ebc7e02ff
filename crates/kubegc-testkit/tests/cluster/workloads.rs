//! Workloads: Deployments, StatefulSets, DaemonSets, Jobs and their pods, by the rules of a test.

use std::time::Duration;

use kubegc_core::KubernetesVersion;
use kubegc_testkit::{Cluster, PodFate, Workloads};
use serde_json::Value;

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

fn cluster(version: &str, workloads: Workloads, yaml: &str) -> Cluster {
    let version: KubernetesVersion = version.parse().unwrap();
    let builder = Cluster::builder().version(version).workloads(workloads);
    builder.yaml(yaml).build().unwrap()
}

fn all(cluster: &Cluster, api_version: &str, kind: &str) -> Vec<Value> {
    cluster.server().with(|server| {
        let kind = server.catalog().mapping(api_version, kind).unwrap();
        let objects = server.objects(kind, None);
        objects.iter().map(|object| object.to_json(&server.catalog()[kind])).collect()
    })
}

#[tokio::test]
async fn dump() {
    let cluster = cluster("1.36", Workloads::new(), DEPLOYMENT);
    let settled = cluster.settle().await.unwrap();
    println!("{settled}");
    for (a, k) in [("v1","Node"),("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet"), ("v1", "Pod")] {
        for o in all(&cluster, a, k).iter().take(1) {
            println!("{}", serde_json::to_string_pretty(o).unwrap());
        }
    }
}
