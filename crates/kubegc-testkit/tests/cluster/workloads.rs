//! Workloads: Deployments, StatefulSets, DaemonSets, Jobs and their pods, by the rules of a test.

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

const STATEFUL_SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: 'db:1'}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
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

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available() {
    for (version, types) in RELEASES
        .map(|version| (version, true))
        .into_iter()
        .chain([("1.36.0", false)])
    {
        let cluster = builder(version, Workloads::new(), DEPLOYMENT)
            .types(types)
            .build()
            .unwrap();
        assert_eq!(settle(&cluster, 0).await, Rest::Quiet, "{version}");
        let web = get(&cluster, "Deployment", "web");
        let status = &web["status"];
        for field in [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ] {
            assert_eq!(status[field], 3, "{version} {types}: {status}");
        }
        assert_eq!(status["observedGeneration"], web["metadata"]["generation"]);
        let expected = [
            ("Available", "True", "MinimumReplicasAvailable"),
            ("Progressing", "True", "NewReplicaSetAvailable"),
        ];
        assert_eq!(conditions(&web), expected);
        assert_eq!(
            web["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
            "1"
        );

        let sets = all(&cluster, "ReplicaSet");
        let [set] = &sets[..] else { panic!("{sets:?}") };
        let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
        assert!(
            hash.chars()
                .all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)),
            "{hash}"
        );
        assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
        assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
        let annotations = json!({
            "team": "shop",
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
            "deployment.kubernetes.io/revision": "1",
        });
        assert_eq!(set["metadata"]["annotations"], annotations);
        for pod in all(&cluster, "Pod") {
            let owner = &pod["metadata"]["ownerReferences"][0];
            assert_eq!([&owner["controller"], &owner["blockOwnerDeletion"]], [true, true]);
            assert_eq!(owner["uid"], set["metadata"]["uid"]);
            assert!(
                pod["metadata"]["name"]
                    .as_str()
                    .unwrap()
                    .starts_with(&format!("web-{hash}-"))
            );
            assert_eq!(pod["spec"]["nodeName"], "node");
            assert_eq!(pod["status"]["phase"], "Running");
            assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_respects_its_limits_and_can_be_undone() {
    for version in RELEASES {
        let cluster = cluster(
            version,
            Workloads::new().pods(|_| Some(ready_after(5))),
            DEPLOYMENT,
        );
        settle(&cluster, 60).await;
        let first = names(&all(&cluster, "ReplicaSet")).concat();
        patch(&cluster, "Deployment", "web", image("Deployment", "web:2"));
        let mut seen = Vec::new();
        for _ in 0..60 {
            settle(&cluster, 1).await;
            let pods = live(&cluster);
            assert!(
                pods.len() <= 4 && ready(&pods) >= 3,
                "{version}: {} {}",
                pods.len(),
                ready(&pods)
            );
            let web = get(&cluster, "Deployment", "web");
            seen.push(web["status"]["updatedReplicas"].as_u64().unwrap_or(0));
            if condition(&web, "Progressing").1 == "ReplicaSetUpdated" {
                assert_eq!(condition(&web, "Available").0, "True");
            }
        }
        seen.dedup();
        assert_eq!(seen, [1, 2, 3], "{version}");
        settle(&cluster, 60).await;
        let sets = all(&cluster, "ReplicaSet");
        assert_eq!(sets.len(), 2);
        for set in &sets {
            let is_first = set["metadata"]["name"] == *first;
            assert_eq!(set["spec"]["replicas"], if is_first { 0 } else { 3 });
        }
        let web = get(&cluster, "Deployment", "web");
        assert_eq!(
            web["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
            "2"
        );
        assert_eq!(condition(&web, "Progressing").1, "NewReplicaSetAvailable");
        assert!(
            live(&cluster)
                .iter()
                .all(|pod| pod["spec"]["containers"][0]["image"] == "web:2")
        );

        patch(&cluster, "Deployment", "web", image("Deployment", "web:1"));
        settle(&cluster, 120).await;
        let again = get(&cluster, "ReplicaSet", &first);
        assert_eq!(again["spec"]["replicas"], 3);
        let annotations = &again["metadata"]["annotations"];
        assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
        assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn recreate_removes_all_old_pods_first() {
    let recreate = DEPLOYMENT.replace("  replicas", "  strategy: {type: Recreate}\n  replicas");
    let cluster = latest(Workloads::new(), &recreate);
    settle(&cluster, 0).await;
    patch(&cluster, "Deployment", "web", image("Deployment", "web:2"));
    settle(&cluster, 0).await;
    // They have 30 s to end, and their successors wait for that.
    assert!(live(&cluster).is_empty());
    assert_eq!(
        (all(&cluster, "Pod").len(), all(&cluster, "ReplicaSet").len()),
        (3, 1)
    );
    settle(&cluster, 60).await;
    let pods = all(&cluster, "Pod");
    assert_eq!(pods.len(), 3);
    assert!(
        pods.iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "web:2")
    );
}

#[tokio::test(start_paused = true)]
async fn deployments_are_scaled_paused_and_deleted() {
    for version in RELEASES {
        let cluster = cluster(version, Workloads::new(), DEPLOYMENT);
        settle(&cluster, 0).await;
        for replicas in [5, 1, 0, 2] {
            patch(
                &cluster,
                "Deployment",
                "web",
                json!({"spec": {"replicas": replicas}}),
            );
            settle(&cluster, 60).await;
            assert_eq!(all(&cluster, "Pod").len(), replicas);
            let web = get(&cluster, "Deployment", "web");
            assert_eq!(
                web["status"]["readyReplicas"].as_u64().unwrap_or(0),
                replicas as u64
            );
        }
        patch(
            &cluster,
            "Deployment",
            "web",
            json!({"spec": {"paused": true, "replicas": 3}}),
        );
        patch(&cluster, "Deployment", "web", image("Deployment", "web:2"));
        settle(&cluster, 60).await;
        assert_eq!(
            (all(&cluster, "Pod").len(), all(&cluster, "ReplicaSet").len()),
            (3, 1),
            "{version}"
        );
        let paused = get(&cluster, "Deployment", "web");
        assert_eq!(condition(&paused, "Progressing"), ("Unknown", "DeploymentPaused"));
        patch(&cluster, "Deployment", "web", json!({"spec": {"paused": false}}));
        settle(&cluster, 120).await;
        assert_eq!(all(&cluster, "ReplicaSet").len(), 2);
        for policy in ["Background", "Foreground"] {
            let web = copy(&cluster, "Deployment", "web");
            delete(&cluster, "Deployment", "web", policy);
            settle(&cluster, 120).await;
            for kind in ["Deployment", "ReplicaSet", "Pod"] {
                assert!(all(&cluster, kind).is_empty(), "{version} {policy} {kind}");
            }
            create(&cluster, "Deployment", web);
            settle(&cluster, 0).await;
            assert_eq!(ready(&all(&cluster, "Pod")), 3);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_by_those_that_are_created_again() {
    for version in RELEASES {
        let cluster = cluster(version, Workloads::new(), DEPLOYMENT);
        settle(&cluster, 0).await;
        let (sets, pods) = (all(&cluster, "ReplicaSet"), all(&cluster, "Pod"));
        let web = copy(&cluster, "Deployment", "web");
        delete(&cluster, "Deployment", "web", "Orphan");
        settle(&cluster, 60).await;
        assert!(all(&cluster, "ReplicaSet")[0]["metadata"]["ownerReferences"].is_null());
        create(&cluster, "Deployment", web);
        settle(&cluster, 60).await;
        assert_eq!(uids(&all(&cluster, "ReplicaSet")), uids(&sets), "{version}");
        let uid = &get(&cluster, "Deployment", "web")["metadata"]["uid"];
        assert_eq!(
            &all(&cluster, "ReplicaSet")[0]["metadata"]["ownerReferences"][0]["uid"],
            uid
        );

        // The Deployment creates its ReplicaSet again: of the same name, which adopts the pods.
        delete(&cluster, "ReplicaSet", names(&sets)[0], "Orphan");
        settle(&cluster, 60).await;
        assert_eq!(names(&all(&cluster, "ReplicaSet")), names(&sets), "{version}");
        assert_eq!(uids(&all(&cluster, "Pod")), uids(&pods), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn stateful_pods_are_created_in_order_and_keep_their_claims() {
    for version in RELEASES {
        let cluster = cluster(
            version,
            Workloads::new().pods(|_| Some(ready_after(10))),
            STATEFUL_SET,
        );
        for (time, expected) in [(0, 1), (10, 2), (10, 3), (10, 3)] {
            settle(&cluster, time).await;
            assert_eq!(all(&cluster, "Pod").len(), expected, "{version}");
        }
        let pods = all(&cluster, "Pod");
        assert_eq!(names(&pods), ["db-0", "db-1", "db-2"]);
        let revisions = all(&cluster, "ControllerRevision");
        let revision = names(&revisions)[0];
        for pod in &pods {
            let (labels, spec) = (&pod["metadata"]["labels"], &pod["spec"]);
            assert_eq!(
                labels["statefulset.kubernetes.io/pod-name"],
                pod["metadata"]["name"]
            );
            assert_eq!(labels["controller-revision-hash"], revision);
            assert_eq!(
                [&spec["hostname"], &spec["subdomain"]],
                [&pod["metadata"]["name"], &json!("db")]
            );
        }
        let claims = all(&cluster, "PersistentVolumeClaim");
        assert_eq!(names(&claims), ["data-db-0", "data-db-1", "data-db-2"]);
        assert!(claims.iter().all(|claim| claim["status"]["phase"] == "Bound"));
        assert_eq!(all(&cluster, "PersistentVolume").len(), 3);
        let status = get(&cluster, "StatefulSet", "db")["status"].clone();
        assert_eq!(
            [
                &status["replicas"],
                &status["readyReplicas"],
                &status["currentReplicas"]
            ],
            [3, 3, 3]
        );
        assert_eq!(
            [&status["currentRevision"], &status["updateRevision"]],
            [revision, revision]
        );

        patch(&cluster, "StatefulSet", "db", json!({"spec": {"replicas": 1}}));
        settle(&cluster, 0).await;
        assert_eq!(names(&live(&cluster)), ["db-0", "db-1"], "{version}");
        settle(&cluster, 120).await;
        assert_eq!(names(&all(&cluster, "Pod")), ["db-0"]);
        patch(&cluster, "StatefulSet", "db", json!({"spec": {"replicas": 3}}));
        settle(&cluster, 120).await;
        assert_eq!(
            uids(&all(&cluster, "PersistentVolumeClaim")),
            uids(&claims),
            "{version}"
        );

        delete(&cluster, "StatefulSet", "db", "Foreground");
        settle(&cluster, 120).await;
        assert!(all(&cluster, "Pod").is_empty() && all(&cluster, "ControllerRevision").is_empty());
        assert_eq!(
            uids(&all(&cluster, "PersistentVolumeClaim")),
            uids(&claims),
            "{version}"
        );
        for claim in names(&claims) {
            delete(&cluster, "PersistentVolumeClaim", claim, "");
        }
        settle(&cluster, 120).await;
        assert!(all(&cluster, "PersistentVolume").is_empty(), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_stateful_set_is_created_again_and_rolled_out() {
    for version in RELEASES {
        let cluster = cluster(version, Workloads::new(), STATEFUL_SET);
        settle(&cluster, 0).await;
        let (pods, revisions) = (all(&cluster, "Pod"), all(&cluster, "ControllerRevision"));
        let mut db = copy(&cluster, "StatefulSet", "db");
        delete(&cluster, "StatefulSet", "db", "Orphan");
        settle(&cluster, 0).await;
        // What cannot be changed in place: this is why operators orphan.
        db["spec"]["podManagementPolicy"] = "Parallel".into();
        create(&cluster, "StatefulSet", db);
        settle(&cluster, 0).await;
        assert_eq!(uids(&all(&cluster, "Pod")), uids(&pods), "{version}");
        assert_eq!(
            names(&all(&cluster, "ControllerRevision")),
            names(&revisions),
            "{version}"
        );
        assert_eq!(get(&cluster, "StatefulSet", "db")["status"]["readyReplicas"], 3);

        patch(&cluster, "StatefulSet", "db", image("StatefulSet", "db:2"));
        settle(&cluster, 0).await;
        // One at a time, from the highest ordinal on.
        assert_eq!(names(&live(&cluster)), ["db-0", "db-1"], "{version}");
        let status = get(&cluster, "StatefulSet", "db")["status"].clone();
        assert_ne!(status["currentRevision"], status["updateRevision"]);
        settle(&cluster, 300).await;
        let pods = all(&cluster, "Pod");
        assert!(
            pods.iter()
                .all(|pod| pod["spec"]["containers"][0]["image"] == "db:2"),
            "{version}"
        );
        let status = get(&cluster, "StatefulSet", "db")["status"].clone();
        assert_eq!(status["currentRevision"], status["updateRevision"]);
        assert_eq!(all(&cluster, "ControllerRevision").len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn parallel_sets_do_not_wait_and_partitions_hold() {
    let parallel = STATEFUL_SET.replace(
        "  replicas: 3",
        "  podManagementPolicy: Parallel\n  updateStrategy: {rollingUpdate: {partition: 2}}\n  replicas: 3",
    );
    let cluster = latest(Workloads::new().pods(|_| Some(PodFate::NotReady)), &parallel);
    settle(&cluster, 0).await;
    assert_eq!(names(&all(&cluster, "Pod")), ["db-0", "db-1", "db-2"]);
    cluster.set_workloads(Workloads::new());
    settle(&cluster, 0).await;
    assert_eq!(get(&cluster, "StatefulSet", "db")["status"]["readyReplicas"], 3);
    patch(&cluster, "StatefulSet", "db", image("StatefulSet", "db:2"));
    settle(&cluster, 120).await;
    delete(&cluster, "Pod", "db-0", "");
    settle(&cluster, 120).await;
    let pods = all(&cluster, "Pod");
    let images: Vec<&Value> = pods
        .iter()
        .map(|pod| &pod["spec"]["containers"][0]["image"])
        .collect();
    assert_eq!(images, ["db:1", "db:1", "db:2"]);
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_by_rules_and_pods_wait_for_them() {
    let after = seconds(20);
    let workloads = Workloads::new()
        .claims(|claim| (claim.name() == "data-db-1").then_some(ClaimFate::Pending))
        .claims(move |_| Some(ClaimFate::Bound { after }));
    let cluster = latest(workloads, STATEFUL_SET);
    settle(&cluster, 0).await;
    let waiting = get(&cluster, "Pod", "db-0");
    assert_eq!(condition(&waiting, "PodScheduled"), ("False", "Unschedulable"));
    assert_eq!(settle(&cluster, 3600).await, Rest::Quiet);
    assert_eq!(ready(&all(&cluster, "Pod")), 1);
    assert_eq!(
        get(&cluster, "PersistentVolumeClaim", "data-db-1")["status"]["phase"],
        "Pending"
    );
}

fn job(spec: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: backup}}
spec:
  {spec}
  template:
    spec: {{restartPolicy: Never, containers: [{{name: c, image: 'backup:1'}}]}}
"
    )
}

#[tokio::test(start_paused = true)]
async fn jobs_complete() {
    for version in ["1.20.2", "1.25.0", "1.27.3", "1.36.0"] {
        let cluster = cluster(
            version,
            Workloads::new(),
            &job("parallelism: 2\n  completions: 5"),
        );
        settle(&cluster, 10).await;
        let backup = get(&cluster, "Job", "backup");
        assert_eq!(
            backup["status"]["succeeded"], 5,
            "{version}: {}",
            backup["status"]
        );
        assert_eq!(condition(&backup, "Complete").0, "True", "{version}");
        assert_eq!(backup["status"]["completionTime"], "2026-01-01T00:00:00Z");
        let pods = all(&cluster, "Pod");
        assert_eq!(pods.len(), 5, "{version}");
        for pod in &pods {
            assert_eq!(pod["status"]["phase"], "Succeeded");
            assert!(pod["metadata"]["finalizers"].is_null(), "{version}");
            assert_eq!(pod["metadata"]["labels"]["job-name"], "backup");
        }
        delete(&cluster, "Job", "backup", "Background");
        settle(&cluster, 0).await;
        assert!(all(&cluster, "Pod").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_fail_after_their_backoff_limit() {
    for version in ["1.20.2", "1.25.0", "1.27.3", "1.36.0"] {
        let fails = PodFate::Fails { after: seconds(5) };
        let workloads = Workloads::new().pods(move |pod| pod.is_of("Job", "backup").then_some(fails));
        let cluster = cluster(version, workloads, &job("backoffLimit: 2"));
        settle(&cluster, 4).await;
        assert_eq!(get(&cluster, "Job", "backup")["status"]["active"], 1);
        let pod = &all(&cluster, "Pod")[0];
        let is_tracked = version != "1.20.2";
        assert_eq!(
            pod["metadata"]["finalizers"][0] == "batch.kubernetes.io/job-tracking",
            is_tracked
        );
        // The second pod starts 10 s after the first failure, the third one 20 s after the second.
        for (time, pods) in [(1, 1), (10, 2), (5, 2), (20, 3)] {
            settle(&cluster, time).await;
            assert_eq!(all(&cluster, "Pod").len(), pods, "{version}");
        }
        settle(&cluster, 3600).await;
        let backup = get(&cluster, "Job", "backup");
        assert_eq!(
            condition(&backup, "Failed"),
            ("True", "BackoffLimitExceeded"),
            "{version}"
        );
        assert_eq!(backup["status"]["failed"], 3, "{version}");
        assert_eq!(all(&cluster, "Pod").len(), 3, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_are_suspended_indexed_and_created_from_cron_jobs() {
    let cluster = latest(
        Workloads::new(),
        &job("suspend: true\n  completions: 3\n  parallelism: 3\n  completionMode: Indexed"),
    );
    settle(&cluster, 0).await;
    let backup = get(&cluster, "Job", "backup");
    assert_eq!(condition(&backup, "Suspended"), ("True", "JobSuspended"));
    assert!(backup["status"]["startTime"].is_null() && all(&cluster, "Pod").is_empty());
    patch(&cluster, "Job", "backup", json!({"spec": {"suspend": false}}));
    settle(&cluster, 0).await;
    let backup = get(&cluster, "Job", "backup");
    assert_eq!(backup["status"]["completedIndexes"], "0-2");
    assert_eq!(condition(&backup, "Suspended"), ("False", "JobResumed"));
    assert_eq!(condition(&backup, "Complete").0, "True");

    for (version, api_version) in [("1.20.2", "batch/v1beta1"), ("1.36.0", "batch/v1")] {
        let cron_job = format!(
            "
apiVersion: {api_version}
kind: CronJob
metadata: {{name: nightly}}
spec:
  schedule: '0 3 * * *'
  jobTemplate:
    metadata: {{labels: {{app: backup}}}}
    spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: job, image: i}}]}}}}}}
"
        );
        let cluster = self::cluster(version, Workloads::new(), &cron_job);
        settle(&cluster, 0).await;
        assert!(cluster.create_job_from("default", "weekly", "now").is_none());
        let job = cluster.create_job_from("default", "nightly", "now").unwrap();
        assert_eq!(job.to_string(), "job/now -n default");
        settle(&cluster, 0).await;
        let now = get(&cluster, "Job", "now");
        assert_eq!(condition(&now, "Complete").0, "True", "{version}");
        assert_eq!(
            now["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"],
            "manual"
        );
        assert_eq!(now["metadata"]["ownerReferences"][0]["apiVersion"], api_version);
    }
}

const DAEMON_SET: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: 'agent:1'}]}
---
apiVersion: v1
kind: Node
metadata: {name: gpu}
spec: {taints: [{key: gpu, value: 'yes', effect: NoSchedule}]}
";

#[tokio::test(start_paused = true)]
async fn daemons_run_on_every_node_that_they_tolerate() {
    for version in RELEASES {
        let cluster = cluster(version, Workloads::new().nodes(["a", "b"]), DAEMON_SET);
        settle(&cluster, 60).await;
        let nodes = |cluster: &Cluster| {
            let mut nodes: Vec<String> = all(cluster, "Pod")
                .iter()
                .map(|pod| pod["spec"]["nodeName"].as_str().unwrap_or("none").to_owned())
                .collect();
            nodes.sort();
            nodes
        };
        assert_eq!(nodes(&cluster), ["a", "b"], "{version}");
        let status = get(&cluster, "DaemonSet", "agent")["status"].clone();
        assert_eq!(
            [&status["desiredNumberScheduled"], &status["numberReady"]],
            [2, 2]
        );
        create(&cluster, "Node", json!({"metadata": {"name": "c"}}));
        settle(&cluster, 60).await;
        assert_eq!(nodes(&cluster), ["a", "b", "c"], "{version}");

        patch(&cluster, "DaemonSet", "agent", image("DaemonSet", "agent:2"));
        settle(&cluster, 0).await;
        assert_eq!(live(&cluster).len(), 2, "{version}");
        settle(&cluster, 300).await;
        let pods = all(&cluster, "Pod");
        assert_eq!(pods.len(), 3);
        assert!(
            pods.iter()
                .all(|pod| pod["spec"]["containers"][0]["image"] == "agent:2"),
            "{version}"
        );
        assert_eq!(
            get(&cluster, "DaemonSet", "agent")["status"]["updatedNumberScheduled"],
            3
        );
        assert_eq!(all(&cluster, "ControllerRevision").len(), 2);

        delete(&cluster, "Node", "c", "");
        settle(&cluster, 120).await;
        assert_eq!(nodes(&cluster), ["a", "b"], "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_node_are_replaced_elsewhere() {
    let cluster = latest(Workloads::new().nodes(["a", "b"]), DEPLOYMENT);
    settle(&cluster, 0).await;
    assert!(cluster.lose_node("a") && !cluster.lose_node("x"));
    settle(&cluster, 10).await;
    let node = get(&cluster, "Node", "a");
    assert_eq!(condition(&node, "Ready"), ("Unknown", "NodeStatusUnknown"));
    let taints = node["spec"]["taints"].as_array().unwrap();
    let mut effects: Vec<&str> = taints
        .iter()
        .map(|taint| taint["effect"].as_str().unwrap())
        .collect();
    effects.sort_unstable();
    assert_eq!(effects, ["NoExecute", "NoSchedule"]);
    let on_a = |cluster: &Cluster| {
        let mut pods = all(cluster, "Pod");
        pods.retain(|pod| pod["spec"]["nodeName"] == "a");
        pods
    };
    let lost = on_a(&cluster);
    assert!(!lost.is_empty() && ready(&lost) == 0);
    assert_eq!(
        get(&cluster, "Deployment", "web")["status"]["unavailableReplicas"],
        lost.len()
    );

    // They are evicted after 300 s, and nobody ends them.
    settle(&cluster, 600).await;
    assert!(
        on_a(&cluster)
            .iter()
            .all(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    );
    assert_eq!(on_a(&cluster).len(), lost.len());
    assert_eq!(
        get(&cluster, "Deployment", "web")["status"]["availableReplicas"],
        3
    );
    assert!(live(&cluster).iter().all(|pod| pod["spec"]["nodeName"] == "b"));
    delete(&cluster, "Node", "a", "");
    settle(&cluster, 300).await;
    assert!(on_a(&cluster).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_keeps_its_pods() {
    let cluster = latest(Workloads::new().nodes(["a", "b"]), DEPLOYMENT);
    settle(&cluster, 0).await;
    let pods = all(&cluster, "Pod");
    cluster.lose_node("a");
    settle(&cluster, 100).await;
    assert!(cluster.recover_node("a"));
    settle(&cluster, 600).await;
    assert_eq!(uids(&all(&cluster, "Pod")), uids(&pods));
    assert_eq!(
        get(&cluster, "Deployment", "web")["status"]["availableReplicas"],
        3
    );
    assert!(get(&cluster, "Node", "a")["spec"]["taints"].is_null());
}

#[tokio::test(start_paused = true)]
async fn rules_hold_pods_back_until_others_replace_them() {
    let cluster = latest(Workloads::new().pods(|_| Some(PodFate::Pending)), DEPLOYMENT);
    settle(&cluster, 60).await;
    let pods = all(&cluster, "Pod");
    assert!(
        pods.iter()
            .all(|pod| pod["status"]["phase"] == "Pending" && pod["spec"]["nodeName"] == "node")
    );
    let web = get(&cluster, "Deployment", "web");
    assert_eq!(
        condition(&web, "Available"),
        ("False", "MinimumReplicasUnavailable")
    );
    assert_eq!(condition(&web, "Progressing"), ("True", "ReplicaSetUpdated"));
    settle(&cluster, 600).await;
    let web = get(&cluster, "Deployment", "web");
    assert_eq!(
        condition(&web, "Progressing"),
        ("False", "ProgressDeadlineExceeded")
    );

    cluster.set_workloads(Workloads::new().pods(|_| Some(ready_after(7))));
    let before = tokio::time::Instant::now();
    settle(&cluster, 6).await;
    assert_eq!(ready(&all(&cluster, "Pod")), 0);
    settle(&cluster, 1).await;
    assert_eq!(before.elapsed(), seconds(7));
    assert_eq!(uids(&all(&cluster, "Pod")), uids(&pods));
    let web = get(&cluster, "Deployment", "web");
    assert_eq!(condition(&web, "Available").0, "True");
    assert_eq!(condition(&web, "Progressing"), ("True", "NewReplicaSetAvailable"));
}

#[tokio::test(start_paused = true)]
async fn containers_that_fail_are_restarted_with_a_backoff() {
    let fails = PodFate::Fails { after: seconds(1) };
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}";
    let cluster = latest(Workloads::new().pods(move |_| Some(fails)), pod);
    let restarts = || get(&cluster, "Pod", "p")["status"]["containerStatuses"][0]["restartCount"].clone();
    // It runs for 1 s each time; the delays are 0 s, 10 s and 20 s.
    for (time, expected) in [(0, 0), (1, 1), (1, 1), (9, 1), (1, 2), (1, 2), (20, 3)] {
        settle(&cluster, time).await;
        assert_eq!(restarts(), expected, "after {time} s more at {}", cluster.now());
    }
    settle(&cluster, 1).await;
    let state = get(&cluster, "Pod", "p")["status"]["containerStatuses"][0]["state"].clone();
    assert_eq!(state["waiting"]["reason"], "CrashLoopBackOff");

    let cluster = latest(Workloads::new(), pod);
    settle(&cluster, 0).await;
    assert!(cluster.restart_pod("default", "p") && !cluster.restart_pod("default", "q"));
    settle(&cluster, 0).await;
    let pod = get(&cluster, "Pod", "p");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(condition(&pod, "Ready").0, "True");
}
