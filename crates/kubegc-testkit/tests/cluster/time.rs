//! Time: the cluster's clock, tokio's clock, and the effects of their progress.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::DeleteParams};
use kubegc_core::{Clock, Timestamp};
use kubegc_testkit::{Cluster, Name, Rest};

use crate::support::delete;

const POD: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {nodeName: n1, terminationGracePeriodSeconds: 30, containers: [{name: c, image: i}]}
";

#[tokio::test(start_paused = true)]
async fn a_paused_tokio_clock_and_the_cluster_move_together() {
    let cluster = Cluster::new();
    assert!(cluster.clock().follows_tokio());
    let (start, before) = (cluster.now(), tokio::time::Instant::now());
    cluster.advance(Duration::from_secs(7)).await;
    assert_eq!(before.elapsed(), Duration::from_secs(7));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.now(), start.saturating_add(Duration::from_secs(10)));
}

#[tokio::test]
async fn without_a_paused_clock_only_the_cluster_moves() {
    let cluster = Cluster::new();
    assert!(!cluster.clock().follows_tokio());
    assert_eq!(cluster.now().to_string(), "2026-01-01T00:00:00Z");
    let clock = cluster.clock();
    let until = Timestamp::parse("2026-01-02T00:00:00Z").unwrap();
    let sleeper = tokio::spawn(async move { clock.sleep_until(until).await });
    let settled = cluster.settle_within(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(
        settled.rest.to_string(),
        "waiting until 2026-01-02T00:00:00Z for a task that sleeps by the cluster's clock"
    );
    cluster.advance(Duration::from_secs(86_400)).await;
    sleeper.await.unwrap();
}

#[tokio::test]
async fn a_cluster_in_real_time_begins_now() {
    let cluster = Cluster::builder().follow_tokio_clock(true).build().unwrap();
    let default_start = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    assert!(cluster.now() > default_start.saturating_add(Duration::from_secs(86_400)));
    let start = Timestamp::parse("2020-02-02T00:00:00Z").unwrap();
    let cluster = Cluster::builder().follow_tokio_clock(true).start_at(start);
    let since_start = cluster.build().unwrap().now().since(start);
    assert!(since_start < Duration::from_secs(60), "{since_start:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_ends_when_its_grace_is_over() {
    let cluster = Cluster::builder().yaml(POD).build().unwrap();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pod = pods.get("web").await.unwrap();
    delete(&pods, "web", &DeleteParams::default()).await;

    let settled = cluster.settle().await.unwrap();
    assert_eq!(settled.time_passed, Duration::ZERO);
    assert_eq!(
        settled.rest.to_string(),
        "waiting until 2026-01-01T00:00:30Z for the end of default/Pod/web"
    );
    cluster.advance(Duration::from_secs(29)).await;
    assert!(cluster.settle().await.unwrap().calls.writes().is_empty());
    let settled = cluster.settle_within(Duration::from_secs(1)).await.unwrap();
    assert_eq!(settled.time_passed, Duration::from_secs(1));
    assert_eq!(
        settled.to_string(),
        "quiet\n+30s kubelet delete pods default/web -> 200 because pod/web -n default has ended\n"
    );
    cluster.assert_collected(&pod);
}

#[tokio::test]
async fn a_cluster_that_keeps_time_advances_only_to_due_work() {
    let cluster = Cluster::builder().yaml(POD).build().unwrap();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    delete(&pods, "web", &DeleteParams::default()).await;
    let settled = cluster.settle_within(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(settled.rest, Rest::Quiet);
    assert_eq!(settled.time_passed, Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn undecided_objects_are_retried_and_reported() {
    let cluster = Cluster::builder()
        .yaml("{apiVersion: v1, kind: Secret, metadata: {name: s, ownerReferences: [{apiVersion: shop/v1, kind: Cart, name: c, uid: u1}]}}")
        .build()
        .unwrap();
    let settled = cluster.settle().await.unwrap();
    let Rest::Retrying { objects, .. } = &settled.rest else {
        panic!("{}", settled.rest);
    };
    assert_eq!(objects[0].short(), "cart/c -n default");
    let later = cluster.settle_within(Duration::from_secs(60)).await.unwrap();
    assert_eq!(later.time_passed, Duration::from_secs(60));
    assert!(matches!(later.rest, Rest::Retrying { .. }), "{}", later.rest);
}

#[tokio::test(start_paused = true)]
async fn a_running_control_plane_needs_no_settle() {
    let cluster = Cluster::builder().yaml(POD).build().unwrap();
    let running = cluster.run();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    delete(&pods, "web", &DeleteParams::default()).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(pods.get_opt("web").await.unwrap().is_none());
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn retries_do_not_delay_decided_objects() {
    let cluster = Cluster::builder()
        .yaml(POD)
        .yaml("{apiVersion: v1, kind: Secret, metadata: {name: s, ownerReferences: [{apiVersion: shop/v1, kind: Cart, name: c, uid: u1}]}}")
        .build()
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    delete(&pods, "web", &DeleteParams::default()).await;
    let failures = || {
        let secret = Name::of::<k8s_openapi::api::core::v1::Secret>("default", "s");
        cluster.fate(secret).owners[0].retry.unwrap().1
    };
    let settled = cluster.settle_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(settled.time_passed, Duration::from_secs(10));
    assert!(matches!(settled.rest, Rest::Waiting { .. }), "{}", settled.rest);
    assert!(failures() > 8, "{}", failures());
}
