//! Faults as clients see them.

use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use kubegc_testkit::{Cluster, Fault, Rule, http::Verb};

use crate::support::{config_map, config_maps, create};

#[tokio::test(start_paused = true)]
async fn refusals_are_statuses_and_leave_nothing_behind() {
    for (code, reason) in [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "Conflict"),
        (410, "Expired"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        let cluster = Cluster::new();
        cluster.faults().add(Rule::new(Fault::status(code)).on_writes());
        let api = config_maps(&cluster);
        let a = config_map("a", &[], &[]);
        let Err(kube::Error::Api(status)) = api.create(&PostParams::default(), &a).await else {
            panic!("{code}");
        };
        assert_eq!((status.code, &*status.reason), (code, reason));
        let retry = status.details.unwrap().retry_after_seconds;
        assert_eq!(retry, u32::from(matches!(code, 429 | 503)), "{code}");
        assert!(cluster.find::<ConfigMap>("default", "a").is_none());
        // Once only.
        create(&api, &a).await;
    }
}

/// The requests of the test itself change no draw.
#[tokio::test(start_paused = true)]
async fn draws_can_be_for_one_client() {
    let drawn = async |reads: usize| {
        let cluster = Cluster::new();
        create(&config_maps(&cluster), &config_map("a", &[], &[])).await;
        let fault = vec![Fault::status(500)];
        cluster.faults().draw_for("my-operator", 7, 500, fault);
        let operator: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("my-operator"));
        let mut results = Vec::new();
        for _ in 0..20 {
            for _ in 0..reads {
                config_maps(&cluster).get("a").await.unwrap();
            }
            results.push(operator.get("a").await.is_ok());
        }
        results
    };
    let results = drawn(0).await;
    assert!(results.contains(&true) && results.contains(&false), "{results:?}");
    assert_eq!(results, drawn(1).await);
}

#[tokio::test(start_paused = true)]
async fn rules_select_requests_and_times() {
    let cluster = Cluster::new();
    let faults = cluster.faults();
    let some_reads = Rule::new(Fault::status(500)).on(Verb::Get).name("a");
    faults.add(some_reads.skip(1).times(2));
    let lists = Rule::new(Fault::status(403)).on(Verb::List);
    faults.add(lists.resource("configmaps").always());
    faults.add(Rule::new(Fault::Disconnect).client("unlucky").times(1));
    let api = config_maps(&cluster);
    for name in ["a", "b"] {
        create(&api, &config_map(name, &[], &[])).await;
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(api.get("a").await.is_ok());
        assert!(api.get("b").await.is_ok());
    }
    assert_eq!(seen, [true, false, false, true]);
    for _ in 0..3 {
        assert!(api.list(&ListParams::default()).await.is_err());
    }
    let unlucky: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("unlucky"));
    assert!(matches!(unlucky.get("b").await, Err(kube::Error::Service(_))));
    assert!(unlucky.get("b").await.is_ok());
    assert_eq!(faults.injected(), 6);
    let counts: Vec<_> = faults.counts().into_iter().collect();
    assert_eq!(counts, [("disconnected", 1), ("refused", 5)]);
    faults.clear();
    assert!(api.list(&ListParams::default()).await.is_ok());
    let drawn = vec![Fault::EndWatch { after_events: 0 }, Fault::Disconnect];
    faults.draw(1, 1_000, drawn);
    for _ in 0..10 {
        let _some_disconnect = api.list(&ListParams::default()).await;
    }
    let counts: Vec<_> = faults.counts().into_keys().collect();
    assert_eq!(counts, ["disconnected", "refused"], "a list is not a watch");
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_is_of_a_request_that_was_performed() {
    let cluster = Cluster::new();
    cluster.faults().add(Rule::new(Fault::LoseResponse));
    let api = config_maps(&cluster);
    let a = config_map("a", &[], &[]);
    api.create(&PostParams::default(), &a).await.unwrap_err();
    assert!(api.get("a").await.is_ok());
    assert_eq!(
        cluster.audit().writes().to_string(),
        "+0s client create configmaps default/a -> no response (injected: response lost)\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_delay_passes_by_the_clusters_clock() {
    let cluster = Cluster::new();
    let late = Fault::Delay(Duration::from_secs(9));
    cluster.faults().add(Rule::new(late));
    let start = cluster.now();
    let made = create(&config_maps(&cluster), &config_map("a", &[], &[])).await;
    assert_eq!(cluster.now().since(start), Duration::from_secs(9));
    assert_eq!(
        made.metadata.creation_timestamp.unwrap().0.to_string(),
        "2026-01-01T00:00:09Z"
    );
}

/// The events of a watch: names, or the reason for its end.
async fn watched(api: &Api<ConfigMap>) -> Vec<String> {
    let mut stream = std::pin::pin!(api.watch(&WatchParams::default(), "0").await.unwrap());
    let mut out = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(1), stream.try_next()).await;
        match next {
            Err(_) => out.push("open".to_owned()),
            Ok(Ok(None)) => out.push("end".to_owned()),
            Ok(Err(error)) => out.push(format!("broken: {}", error.to_string().contains("reset"))),
            Ok(Ok(Some(WatchEvent::Error(status)))) => {
                out.push(format!("{} {}", status.code, status.reason));
                continue;
            }
            Ok(Ok(Some(WatchEvent::Added(object)))) => {
                out.push(object.metadata.name.unwrap());
                continue;
            }
            // The end of the initial list.
            Ok(Ok(Some(WatchEvent::Bookmark(_)))) => continue,
            Ok(Ok(Some(other))) => panic!("{other:?}"),
        }
        return out;
    }
}

#[tokio::test(start_paused = true)]
async fn watches_end_break_and_expire_after_a_number_of_events() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    for name in ["a", "b", "c"] {
        create(&api, &config_map(name, &[], &[])).await;
    }
    let faults = [
        Fault::EndWatch { after_events: 2 },
        Fault::BreakWatch { after_events: 1 },
        Fault::ExpireWatch { after_events: 0 },
        Fault::EndWatch { after_events: 7 },
    ];
    for fault in faults {
        cluster.faults().add(Rule::new(fault).resource("configmaps"));
    }
    // Lists are not watches: the rules wait for one.
    api.list(&ListParams::default()).await.unwrap();
    let expected: [&[&str]; 5] = [
        &["a", "b", "end"],
        &["a", "broken: true"],
        &["410 Expired", "end"],
        &["a", "b", "c", "open"],
        &["a", "b", "c", "open"],
    ];
    for expected in expected {
        assert_eq!(watched(&api).await, expected);
    }
    assert_eq!(cluster.faults().injected(), 4);
}
