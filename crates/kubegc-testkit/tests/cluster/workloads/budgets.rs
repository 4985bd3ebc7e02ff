//! Disruption budgets of simulated workloads.

use kubegc_testkit::{Cluster, PodFate, Workloads};
use serde_json::{Value, json};

use super::{DEPLOYMENT, RELEASES, all, cluster, condition, latest, names, patch, ready_after, settle};

fn budget(spec: &str) -> String {
    format!(
        "{DEPLOYMENT}---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web}}
spec: {{{spec}, selector: {{matchLabels: {{app: web}}}}}}
"
    )
}

fn get(cluster: &Cluster) -> Value {
    let beta = cluster.get("policy/v1beta1", "PodDisruptionBudget", "default", "web");
    beta.or_else(|| cluster.get("policy/v1", "PodDisruptionBudget", "default", "web"))
        .unwrap()
}

/// Allowed disruptions, healthy pods, those that must be, and expected pods.
fn counts(cluster: &Cluster) -> [Value; 4] {
    let budget = get(cluster);
    [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ]
    .map(|key| budget["status"][key].clone())
}

fn evict(cluster: &Cluster, pod: &str) -> u16 {
    let response = cluster.server().with(|server| {
        let pods = server.catalog().mapping("v1", "Pod").unwrap();
        let eviction = json!({"metadata": {"name": pod, "namespace": "default"}});
        server.create_subresource(pods, "default", pod, "eviction", eviction)
    });
    response.code
}

#[tokio::test(start_paused = true)]
async fn budgets_count_healthy_pods() {
    for (spec, expected) in [
        ("minAvailable: 2", [1, 3, 2, 3]),
        ("minAvailable: 50%", [1, 3, 2, 3]),
        ("minAvailable: 4", [0, 3, 4, 3]),
        ("maxUnavailable: 1", [1, 3, 2, 3]),
        ("maxUnavailable: 34%", [2, 3, 1, 3]),
    ] {
        for release in RELEASES {
            let yaml = budget(spec);
            let yaml = if release == "1.20.2" {
                yaml.replace("policy/v1", "policy/v1beta1")
            } else {
                yaml
            };
            let cluster = cluster(release, Workloads::new(), &yaml);
            settle(&cluster, 5).await;
            assert_eq!(counts(&cluster), expected.map(Value::from), "{spec} {release}");
            let budget = get(&cluster);
            assert_eq!(budget["status"]["observedGeneration"], 1);
            let reason = if expected[0] > 0 {
                ("True", "SufficientPods")
            } else {
                ("False", "InsufficientPods")
            };
            if release != "1.20.2" {
                assert_eq!(condition(&budget, "DisruptionAllowed"), reason);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn evictions_use_up_a_budget_until_the_pods_are_replaced() {
    let rules = Workloads::new().pods(|_| Some(ready_after(10)));
    let cluster = latest(rules, &budget("minAvailable: 2"));
    settle(&cluster, 30).await;
    let pods = all(&cluster, "Pod");
    let [first, second, _] = names(&pods)[..] else {
        panic!("{pods:?}")
    };
    assert_eq!((evict(&cluster, first), evict(&cluster, second)), (201, 429));
    assert_eq!(get(&cluster)["status"]["disruptionsAllowed"], 0);
    settle(&cluster, 5).await;
    // The pod that ends counts among the expected ones.
    assert_eq!(counts(&cluster), [0, 2, 2, 4].map(Value::from));
    assert_eq!(evict(&cluster, second), 429);
    // The pod that replaces it is ready.
    settle(&cluster, 40).await;
    assert_eq!(counts(&cluster), [1, 3, 2, 3].map(Value::from));
    assert_eq!(get(&cluster)["status"].get("disruptedPods"), None);
    assert_eq!(evict(&cluster, second), 201);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_ready_are_evicted_by_the_policy() {
    for (policy, spec, code) in [
        // Enough others are healthy.
        ("IfHealthyBudget", "minAvailable: 2", 201),
        ("IfHealthyBudget", "minAvailable: 3", 429),
        ("AlwaysAllow", "minAvailable: 3", 201),
    ] {
        let rules = Workloads::new().pods(|pod| pod.has_label("broken", "yes").then_some(PodFate::NotReady));
        let cluster = latest(
            rules,
            &budget(&format!("{spec}, unhealthyPodEvictionPolicy: {policy}")),
        );
        settle(&cluster, 5).await;
        let pods = all(&cluster, "Pod");
        let name = names(&pods)[0].to_owned();
        patch(
            &cluster,
            "Pod",
            &name,
            json!({"metadata": {"labels": {"broken": "yes"}}}),
        );
        settle(&cluster, 5).await;
        assert_eq!(get(&cluster)["status"]["currentHealthy"], 2);
        assert_eq!(evict(&cluster, &name), code, "{policy} {spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_whose_pods_have_no_scale_allows_nothing() {
    let cluster = latest(
        Workloads::new(),
        "
apiVersion: batch/v1
kind: Job
metadata: {name: web}
spec: {template: {metadata: {labels: {app: web}}, spec: {restartPolicy: Never, containers: [{name: c, image: 'c:1'}]}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
",
    );
    settle(&cluster, 5).await;
    let budget = get(&cluster);
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(condition(&budget, "DisruptionAllowed"), ("False", "SyncFailed"));
    let message = budget["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("found no controllers for pod \"web-"),
        "{message}"
    );
}
