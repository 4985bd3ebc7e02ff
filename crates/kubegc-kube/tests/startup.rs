//! A collector that cannot start to collect.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use kubegc_fixtures::Logs;
use kubegc_kube::GarbageCollector;
use kubegc_testkit::{Fault, Rule, http::Verb};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::common::{Running, Script, cluster, respond};

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_an_api_server_that_is_down() {
    let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
    let requests = AtomicUsize::new(0);
    // At first there is no listener, then the server is not ready, then it is ready with no kinds.
    let script = Script::new(move |request| match requests.fetch_add(1, Ordering::SeqCst) {
        0..3 => None,
        3 => Some(respond(503, &json!({"kind": "Status", "message": "not ready"}))),
        _ if request.line == "GET /version" => Some(respond(200, &version)),
        _ => None,
    });
    let (logs, _guard) = Logs::capture();
    let run = GarbageCollector::new(script.client()).run(sleep(Duration::from_secs(20)));
    let summary = run.await.expect("a stop is not an error");
    assert_eq!(summary.terms, 1);
    let lines = script.lines();
    assert_eq!(lines[..5], ["GET /version"; 5], "{lines:?}");
    assert_ne!(lines[5], "GET /version");
    for seconds in [1, 2, 4, 8] {
        let line = format!("WARN GET /version failed; next attempt in {seconds} s");
        assert_eq!(logs.count(&line), 1, "{:?}", logs.lines());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_for_an_api_server() {
    let began = Instant::now();
    let run = GarbageCollector::new(Script::new(|_| None).client()).run(sleep(Duration::from_secs(5)));
    assert_eq!(run.await.expect("a stop is not an error").terms, 0);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

/// Up to 1.31 one forbidden resource prevents all collection.
#[tokio::test(start_paused = true)]
async fn a_start_that_waits_for_a_forbidden_resource_is_logged_once_a_minute() {
    let cluster = cluster("1.28.0");
    let rule = Rule::new(Fault::status(403)).on(Verb::List).resource("secrets");
    cluster.faults().add(rule.always());
    let (logs, _guard) = Logs::capture();
    let collector = GarbageCollector::new(cluster.client_as("kubegc"));
    let running = Running::start(|stop| collector.run(stop));
    sleep(Duration::from_secs(600)).await;
    let waiting =
        "WARN garbage collection has not started: waiting for the initial list of secrets (refused with 403";
    assert_eq!(logs.count(waiting), 10, "{:#?}", logs.lines());
    assert_eq!(logs.count("garbage collection has started"), 0);
    // The first failure, and then one of ten.
    let failures = logs.count("WARN a resource cannot be listed or watched");
    assert_eq!(failures, 3, "{:#?}", logs.lines());
    cluster.faults().clear();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(logs.count("INFO garbage collection has started"), 1);
    running.end().await;
}

/// From 1.32 on collection starts after 30 s, without the resources that cannot be listed.
#[tokio::test(start_paused = true)]
async fn a_start_without_a_forbidden_resource_names_it() {
    let cluster = cluster("1.36.0");
    let rule = Rule::new(Fault::status(403)).on(Verb::List).resource("secrets");
    cluster.faults().add(rule.always());
    let (logs, _guard) = Logs::capture();
    let collector = GarbageCollector::new(cluster.client_as("kubegc"));
    let summary = collector.run(sleep(Duration::from_secs(60))).await;
    assert_eq!(summary.expect("a summary").unsynced, ["secrets"]);
    let line = "WARN garbage collection has started without these resources, whose objects are not collected until \
         they can be listed: secrets";
    assert_eq!(logs.count(line), 1, "{:#?}", logs.lines());
}
