//! Workloads by the rules of a test: what an operator meets through the cluster. The laws of the player are
//! tests of `kubegc-control-plane`.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{Node, PersistentVolumeClaim, Pod, ResourceQuota},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use kubegc_testkit::{ClaimFate, Cluster, PodFate, RefusedBy, Rest, Workloads};
use serde_json::{Value, json};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: 'web:1'}]}
";

const STATEFUL_SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: 'db:1'}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

const CRON_JOB: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '0 3 * * *'
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
";

const fn ready_after(seconds: u64) -> PodFate {
    PodFate::Ready {
        after: Duration::from_secs(seconds),
    }
}

fn cluster(workloads: Workloads, yaml: &str) -> Cluster {
    Cluster::builder()
        .workloads(workloads)
        .yaml(yaml)
        .build()
        .unwrap()
}

async fn settle(cluster: &Cluster, seconds: u64) -> Rest {
    let settled = cluster.settle_within(Duration::from_secs(seconds)).await;
    settled.unwrap().rest
}

fn ready(cluster: &Cluster) -> usize {
    let is_ready = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    cluster
        .find_all::<Pod>()
        .iter()
        .filter(|pod| is_ready(pod))
        .count()
}

fn names(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.find_all::<Pod>().into_iter();
    pods.map(|pod| pod.name_any()).collect()
}

fn available(cluster: &Cluster) -> i32 {
    let web: Deployment = cluster.find("default", "web").unwrap();
    web.status.unwrap().available_replicas.unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn rules_delay_pods_and_can_be_replaced() {
    let cluster = cluster(Workloads::new().pods(|_| Some(PodFate::Pending)), DEPLOYMENT);
    settle(&cluster, 60).await;
    assert_eq!((names(&cluster).len(), available(&cluster)), (3, 0));
    let pods = names(&cluster);
    cluster.set_workloads(Workloads::new().pods(|_| Some(ready_after(7))));
    settle(&cluster, 6).await;
    assert_eq!(ready(&cluster), 0);
    settle(&cluster, 1).await;
    assert_eq!((ready(&cluster), available(&cluster)), (3, 3));
    assert_eq!(names(&cluster), pods);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_node_are_replaced_elsewhere_unless_it_comes_back() {
    for comes_back in [true, false] {
        let cluster = cluster(Workloads::new().nodes(["a", "b"]), DEPLOYMENT);
        settle(&cluster, 0).await;
        let pods = names(&cluster);
        assert!(cluster.lose_node("a") && !cluster.lose_node("x"));
        settle(&cluster, 100).await;
        assert!(available(&cluster) < 3);
        if comes_back {
            assert!(cluster.recover_node("a"));
        }
        settle(&cluster, 600).await;
        assert_eq!(available(&cluster), 3);
        assert_eq!(names(&cluster) == pods, comes_back);
        if !comes_back {
            // No kubelet ends the old ones before the node is deleted.
            assert!(names(&cluster).len() > 3);
            let nodes: Api<Node> = Api::all(cluster.client());
            nodes.delete("a", &DeleteParams::default()).await.unwrap();
            settle(&cluster, 300).await;
            assert_eq!(names(&cluster).len(), 3);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stateful_pods_wait_for_their_claims_and_keep_them() {
    let bound = ClaimFate::Bound {
        after: Duration::from_secs(20),
    };
    let waits = |claim: &kubegc_testkit::Subject<'_>| claim.name() == "data-db-1";
    let rules = Workloads::new()
        .claims(move |claim| waits(claim).then_some(ClaimFate::Pending))
        .claims(move |_| Some(bound));
    let cluster = cluster(rules, STATEFUL_SET);
    settle(&cluster, 19).await;
    assert_eq!(ready(&cluster), 0);
    assert_eq!(settle(&cluster, 3600).await, Rest::Quiet);
    assert_eq!((names(&cluster).len(), ready(&cluster)), (2, 1));
    cluster.set_workloads(Workloads::new());
    settle(&cluster, 0).await;
    let db: StatefulSet = cluster.find("default", "db").unwrap();
    assert_eq!(db.status.unwrap().ready_replicas, Some(2));
    let claim = cluster.object::<PersistentVolumeClaim>("default", "data-db-1");
    let sets: Api<StatefulSet> = Api::default_namespaced(cluster.client());
    for replicas in [1, 2] {
        let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        sets.patch("db", &PatchParams::default(), &scale).await.unwrap();
        settle(&cluster, 60).await;
        assert_eq!(names(&cluster), ["db-0", "db-1"][..replicas]);
        cluster.assert_survives(claim.clone());
    }
}

/// What an operator does that changes an immutable field: the pods go on without their set, and a new one
/// adopts them.
#[tokio::test(start_paused = true)]
async fn a_larger_claim_template_replaces_a_set_and_keeps_its_pods() {
    let cluster = cluster(Workloads::new(), STATEFUL_SET);
    settle(&cluster, 60).await;
    let pods = ["db-0", "db-1"].map(|name| cluster.object::<Pod>("default", name));
    let old = cluster.object::<StatefulSet>("default", "db");
    let sets: Api<StatefulSet> = Api::default_namespaced(cluster.client());
    let larger: Value = serde_saphyr::from_str(&STATEFUL_SET.replace("1Gi", "2048Mi")).unwrap();
    let apply = async || {
        let ours = PatchParams::apply("operator").force();
        sets.patch("db", &ours, &Patch::Apply(&larger)).await
    };
    assert!(matches!(apply().await, Err(kube::Error::Api(status)) if status.code == 422));
    sets.delete("db", &DeleteParams::orphan()).await.unwrap();
    settle(&cluster, 0).await;
    let new = apply().await.unwrap();
    settle(&cluster, 60).await;
    cluster.assert_collected(old);
    for pod in &pods {
        cluster.assert_survives(pod);
        let pod: Pod = cluster.find("default", &pod.name).unwrap();
        assert_eq!(Some(&pod.owner_references()[0].uid), new.metadata.uid.as_ref());
    }
    let stored = cluster.get("apps/v1", "StatefulSet", "default", "db").unwrap();
    let storage = stored.pointer("/spec/volumeClaimTemplates/0/spec/resources/requests/storage");
    assert_eq!(storage, Some(&json!("2Gi")));
    // The API server stores 2Gi where the operator applies 2048Mi: that changes nothing, and causes no loop.
    let version = || {
        cluster
            .find::<StatefulSet>("default", "db")
            .unwrap()
            .resource_version()
    };
    let before = version();
    apply().await.unwrap();
    assert_eq!(version(), before);
    sets.delete("db", &DeleteParams::foreground()).await.unwrap();
    settle(&cluster, 60).await;
    pods.iter().for_each(|pod| cluster.assert_collected(pod));
    assert!(
        cluster
            .find::<PersistentVolumeClaim>("default", "data-db-0")
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn restarts_are_counted() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}";
    let status = |cluster: &Cluster| -> Value {
        let pod = cluster.get("v1", "Pod", "default", "p").unwrap();
        pod["status"]["containerStatuses"][0].clone()
    };
    let fails = PodFate::Fails {
        after: Duration::from_secs(1),
    };
    let failing = cluster(Workloads::new().pods(move |_| Some(fails)), pod);
    // It runs for 1 s each time, and is restarted 10 s later.
    for (seconds, restarts, is_ready) in [
        (0, 0, true),
        (1, 0, false),
        (10, 1, true),
        (1, 1, false),
        (10, 2, true),
    ] {
        settle(&failing, seconds).await;
        let status = status(&failing);
        assert_eq!(
            (&status["restartCount"], &status["ready"]),
            (&json!(restarts), &json!(is_ready))
        );
    }
    failing.set_workloads(Workloads::new());
    settle(&failing, 0).await;
    assert_eq!(
        (ready(&failing), &status(&failing)["restartCount"]),
        (1, &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_runs_on_demand() {
    for version in ["1.20.2", "1.36.0"] {
        let version: kubegc_core::KubernetesVersion = version.parse().unwrap();
        let yaml = match version < "1.21.0".parse().unwrap() {
            true => CRON_JOB.replace("batch/v1", "batch/v1beta1"),
            false => CRON_JOB.to_owned(),
        };
        let builder = Cluster::builder().version(version).workloads(Workloads::new());
        let cluster = builder.yaml(&yaml).build().unwrap();
        assert!(cluster.create_job_from("default", "weekly", "now").is_none());
        let job = cluster.create_job_from("default", "nightly", "now").unwrap();
        assert_eq!(job.to_string(), "job/now -n default");
        settle(&cluster, 10).await;
        let now: Job = cluster.find("default", "now").unwrap();
        assert_eq!(now.status.unwrap().succeeded, Some(1), "{version}");
        let owner = &now.metadata.owner_references.unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("CronJob", "nightly"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_limits_pods_and_the_refusal_is_reported() {
    const QUOTA: &str =
        "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: small}\nspec: {hard: {pods: '1'}}\n";
    let cluster = cluster(Workloads::new(), &[DEPLOYMENT, QUOTA].concat());
    settle(&cluster, 60).await;
    assert_eq!(names(&cluster).len(), 1);
    let set = cluster.find_all::<ReplicaSet>().remove(0);
    let fate = cluster.fate(&set);
    let refusal = fate.refused[0].failure.as_ref().unwrap();
    assert_eq!(refusal.by, Some(RefusedBy::Quota("small".into())));
    let text = fate.to_string();
    assert!(
        text.contains("exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"),
        "{text}"
    );
    let raised = Patch::Merge(json!({"spec": {"hard": {"pods": "3"}}}));
    let quotas = Api::<ResourceQuota>::namespaced(cluster.client(), "default");
    let patched = quotas.patch("small", &PatchParams::default(), &raised).await;
    patched.unwrap();
    settle(&cluster, 600).await;
    assert_eq!(names(&cluster).len(), 3);
}
