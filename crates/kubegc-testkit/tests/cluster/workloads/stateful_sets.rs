//! StatefulSets and claims.

use super::*;

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
        // A field that cannot be changed in place, which is why operators orphan the pods.
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
