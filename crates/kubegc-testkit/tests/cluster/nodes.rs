//! Logs that closures serve.

use futures_util::{AsyncBufReadExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use kubegc_testkit::{Cluster, Log, NodeError, Timestamp};

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: node-1, containers: [{name: app, image: app}]}}";

fn cluster() -> Cluster {
    Cluster::builder().yaml(POD).build().unwrap()
}

fn pods(cluster: &Cluster) -> Api<Pod> {
    Api::default_namespaced(cluster.client_as("operator"))
}

#[tokio::test]
async fn a_log_is_limited_as_the_client_requests() {
    let cluster = cluster();
    let second = |second: i64| Timestamp::from_secs(1_767_225_600 + second);
    cluster.nodes().on_log(move |request| {
        if request.previous {
            let target = &request.target;
            let message = format!(
                "previous terminated container {:?} in pod {:?} not found",
                target.container, target.pod
            );
            return Err(NodeError::new(400, &message));
        }
        Ok(Log::new()
            .line(second(0), "one")
            .line(second(10), "two")
            .line(second(20), "three"))
    });
    cluster.advance(std::time::Duration::from_secs(25)).await;
    let pods = pods(&cluster);
    let log = async |change: fn(&mut LogParams)| {
        let mut params = LogParams::default();
        change(&mut params);
        pods.logs("web", &params).await
    };
    type Change = fn(&mut LogParams);
    let rows: [(Change, &str); 4] = [
        (|_| {}, "one\ntwo\nthree\n"),
        (|params| params.tail_lines = Some(1), "three\n"),
        (|params| params.since_seconds = Some(15), "two\nthree\n"),
        (|params| params.limit_bytes = Some(6), "one\ntw"),
    ];
    for (change, expected) in rows {
        assert_eq!(log(change).await.unwrap(), expected);
    }
    let last = log(|params| (params.tail_lines, params.timestamps) = (Some(1), true)).await;
    assert_eq!(last.unwrap(), "2026-01-01T00:00:20.000000000Z three\n");
    let refused = log(|params| params.previous = true).await.unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    let expected = "previous terminated container \"app\" in pod \"web\" not found";
    assert_eq!((status.code, &*status.message), (400, expected));
}

#[tokio::test]
async fn a_followed_log_continues_until_its_stream_ends() {
    let cluster = cluster();
    let other = cluster.clone();
    cluster.nodes().on_log(move |request| {
        // A closure may read from the cluster.
        assert!(other.get("v1", "Pod", "default", &request.target.pod).is_some());
        let more = stream::iter(["later".to_owned(), "last".to_owned()]);
        Ok(Log::text("now\n").then(more))
    });
    let pods = pods(&cluster);
    assert_eq!(pods.logs("web", &LogParams::default()).await.unwrap(), "now\n");
    let follow = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let log = pods.log_stream("web", &follow).await.unwrap();
    let lines: Vec<String> = log.lines().try_collect().await.unwrap();
    assert_eq!(lines, ["now", "later", "last"]);
    let audit = cluster.audit().by("operator").to_string();
    let (first, _) = audit.split_once('\n').unwrap();
    assert_eq!(first, "+0s operator get pods default/web/log -> 200");
}

/// The last closure that selects the pod and its container serves the log, until it is removed.
#[tokio::test]
async fn closures_are_selected_by_pod_and_container() {
    let cluster = cluster();
    let nodes = cluster.nodes();
    let pods = pods(&cluster);
    let log = async || match pods.logs("web", &LogParams::default()).await {
        Ok(log) => log,
        Err(kube::Error::Api(status)) => status.message,
        Err(other) => panic!("{other}"),
    };
    nodes.on_log(|_| Ok(Log::text("any")));
    assert_eq!(log().await, "any\n");
    let web = nodes.clone().pod("default", "web").container("app");
    web.on_log(|_| Ok(Log::text("app of web")));
    for others in [
        nodes.clone().pod("default", "other"),
        nodes.clone().pod("other", "web"),
        nodes.clone().container("side"),
    ] {
        others.on_log(|_| Ok(Log::text("other")));
    }
    assert_eq!(log().await, "app of web\n");
    nodes.clear();
    assert_eq!(log().await, "nodes \"node-1\" not found");
}
