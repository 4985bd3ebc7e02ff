//! DaemonSets, lost nodes, and rules for the pods of a node.

use super::*;

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

    // They are evicted after 300 s, and no kubelet ends them.
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
