//! Nodes that are shut down or no longer exist in the cloud.

use std::time::Duration;

use crate::common::{at, cache, from_cache, key, lines, play};
use kubegc_controllers::{
    Cache, Cloud, CloudNodeLifecycle, CloudResponse, Context, Controller as _, Deadlines, Decision, Input,
    Manager, Output, Request, Response, Wire,
};
use kubegc_core::{KubernetesVersion, StoreError, record::Resource};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

const NOW: &str = "2026-03-01T12:00:00Z";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

fn release(text: &str) -> CloudNodeLifecycle {
    CloudNodeLifecycle::new(text.parse().expect("a release"))
}

fn latest() -> CloudNodeLifecycle {
    CloudNodeLifecycle::new(KubernetesVersion::LATEST)
}

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "effect": effect})
}

/// A node with this status of its `Ready` condition, or without that condition.
fn node(ready: Option<&str>, taints: Vec<Value>) -> Value {
    let mut conditions = vec![json!({"type": "MemoryPressure", "status": "True"})];
    conditions.extend(ready.map(|status| json!({"type": "Ready", "status": status})));
    json!({"kind": "Node", "metadata": {"name": "n", "creationTimestamp": "2026-03-01T11:59:30Z"},
        "spec": {"providerID": "fake://n", "taints": taints}, "status": {"conditions": conditions}})
}

fn failed() -> Cloud {
    Cloud::Failed("boom".into())
}

fn decide(
    controller: &CloudNodeLifecycle,
    cache: &Cache,
    response: Option<(Cloud, Cloud)>,
    now: &str,
) -> Decision {
    let response = response.map(|(exists, is_shut_down)| CloudResponse {
        node_uid: "uid-n".into(),
        exists,
        is_shut_down,
    });
    let cx = Context {
        cache,
        now: at(now),
        wire: Wire::AsUpstream,
        deadlines: &Deadlines::new(),
        cloud: response.as_ref(),
        failures: 0,
    };
    controller.reconcile(&cx, &key("n"))
}

/// The decision about a node, and its execution while the API server has the same state.
fn outcome(controller: &CloudNodeLifecycle, node: &Value, response: Option<(Cloud, Cloud)>) -> Vec<String> {
    let cache = cache(controller, std::slice::from_ref(node));
    let decision = decide(controller, &cache, response, NOW);
    match &decision.steps {
        Some(steps) => play(steps, from_cache(&cache)),
        None => lines(&decision, at(NOW)),
    }
}

#[test]
fn l8_1_to_l8_6_each_response_has_one_outcome() {
    use Cloud::{No, NotImplemented, Yes};
    let taints = || vec![taint("x", "NoExecute"), taint(SHUTDOWN, "NoSchedule")];
    let keep = |code: &str| vec![format!("keep node/n: {code}")];
    let unknown = |text: &str| vec![format!("unknown node/n: it is not known whether node/n {text}")];
    let event = "Deleting node n because it does not exist in the cloud provider";
    let delete = || {
        vec![
            format!("record event DeletingNode for node/n: {event}"),
            "delete node/n".to_owned(),
        ]
    };
    let shutdown = r#"key: "node.cloudprovider.kubernetes.io/shutdown", effect: "NoSchedule", value: "", time_added: None"#;
    let patch = |change: &str| {
        vec![
            "get node/n".to_owned(),
            format!("patch node/n rv=1 [{change}(Taint {{ {shutdown} }})]"),
            "done".to_owned(),
        ]
    };
    for ready in [None, Some("False"), Some("Unknown"), Some("true")] {
        for (taints, response, expected) in [
            (vec![], None, vec!["query cloud node/n".to_owned()]),
            (vec![], Some((No, No)), delete()),
            (taints(), Some((No, Yes)), delete()),
            (vec![], Some((Yes, No)), keep("Running")),
            (taints(), Some((Yes, NotImplemented)), keep("Running")),
            (vec![], Some((Yes, Yes)), patch("AddTaint")),
            (
                vec![taint(SHUTDOWN, "NoExecute")],
                Some((Yes, Yes)),
                patch("AddTaint"),
            ),
            (taints(), Some((Yes, Yes)), keep("AlreadyTainted")),
            (
                vec![],
                Some((Yes, failed())),
                unknown("is shut down in the cloud: boom"),
            ),
            (
                vec![],
                Some((failed(), Yes)),
                unknown("exists in the cloud: boom"),
            ),
            (
                vec![],
                Some((NotImplemented, Yes)),
                unknown("exists in the cloud: not implemented"),
            ),
        ] {
            assert_eq!(
                outcome(&latest(), &node(ready, taints), response),
                expected,
                "{ready:?}"
            );
        }
    }
    // A ready node causes no query.
    for response in [None, Some((No, Yes))] {
        assert_eq!(
            outcome(&latest(), &node(Some("True"), vec![]), response.clone()),
            keep("Ready")
        );
        assert_eq!(
            outcome(&latest(), &node(Some("True"), taints()), response),
            patch("RemoveTaint")
        );
    }
}

#[test]
fn l8_2_young_uninitialized_nodes_are_kept_if_configured() {
    let uninitialized = || {
        vec![taint(
            "node.cloudprovider.kubernetes.io/uninitialized",
            "NoSchedule",
        )]
    };
    let mut young = node(None, uninitialized());
    young["spec"]["providerID"] = "".into();
    let mut careful = latest();
    careful.uninitialized_grace = Duration::from_secs(60);
    let cache = cache(&careful, &[young.clone()]);
    let of =
        |controller: &CloudNodeLifecycle, now: &str| lines(&decide(controller, &cache, None, now), at(now));
    let queries = ["query cloud node/n"];
    assert_eq!(of(&latest(), NOW), queries, "upstream checks them too");
    assert_eq!(of(&careful, NOW), ["keep node/n: Uninitialized", "requeue 30"]);
    assert_eq!(of(&careful, "2026-03-01T12:00:29.999999999Z").len(), 2);
    assert_eq!(of(&careful, "2026-03-01T12:00:30Z"), queries);
    // A provider id, another effect, or no taint ends it.
    young["spec"]["providerID"] = "fake://n".into();
    assert_eq!(outcome(&careful, &young, None), queries);
    young["spec"]["providerID"] = "".into();
    young["spec"]["taints"][0]["effect"] = "NoExecute".into();
    assert_eq!(outcome(&careful, &young, None), queries);
}

#[test]
fn l8_4_releases_differ_in_events() {
    let sentence = "Deleting node n because it does not exist in the cloud provider";
    let error = || Response::Failed(StoreError::NotFound);
    let deleted = "delete node/n".to_owned();
    let failed = r#"failed, retried=false: unable to delete node "n": not found"#.to_owned();
    let event = format!("record event DeletingNode for node/n: {sentence}");
    let failure =
        r#"record event DeletingNodeFailed for node/n: Failed deleting node n: nodes "n" not found"#;
    for (text, expected) in [
        (
            "1.20.2",
            vec![
                format!("record event {sentence} for node/n: Node n event: DeletingNode"),
                deleted.clone(),
                failed.clone(),
            ],
        ),
        ("1.21", vec![event.clone(), deleted.clone(), failed.clone()]),
        ("1.30", vec![event.clone(), deleted.clone(), failed.clone()]),
        ("1.31", vec![event, deleted, failure.to_owned(), failed]),
    ] {
        let cache = cache(&latest(), &[node(None, vec![])]);
        let decision = decide(&release(text), &cache, Some((Cloud::No, Cloud::No)), NOW);
        let action = decision.actions[0].clone();
        let respond = |request: &Request| {
            if request.is_deletion() {
                error()
            } else {
                Response::Done
            }
        };
        assert_eq!(play(&action.into_steps(true), respond), expected, "{text}");
    }
}

#[test]
fn a_taint_is_read_and_patched_up_to_five_times() {
    let conflict = || {
        Response::Failed(StoreError::Conflict {
            message: "busy".into(),
        })
    };
    let cache = cache(&latest(), &[node(None, vec![])]);
    let attempt = |conflicts: usize, other: Response, text: &str| {
        let decision = decide(&release(text), &cache, Some((Cloud::Yes, Cloud::Yes)), NOW);
        let (mut respond, mut count) = (from_cache(&cache), 0);
        let steps = decision.steps.expect("steps");
        let lines = play(&steps, |request| match request {
            Request::Write(_) if count < conflicts => {
                count += 1;
                conflict()
            }
            Request::Write(_) => other.clone(),
            _ => respond(request),
        });
        let writes = lines.iter().filter(|line| line.starts_with("patch")).count();
        (
            writes,
            lines.last().cloned().unwrap_or_default(),
            lines[1].contains(" rv=1 "),
        )
    };
    let done = || Response::Written(None);
    let gone = || Response::Failed(StoreError::NotFound);
    assert_eq!(attempt(1, done(), "1.26"), (2, "done".into(), true));
    assert_eq!(attempt(4, done(), "1.26"), (5, "done".into(), true));
    let failed = "failed, retried=false: conflict: busy".to_owned();
    assert_eq!(attempt(9, done(), "1.26"), (5, failed, true));
    assert_eq!(attempt(0, gone(), "1.26").1, "failed, retried=false: not found");
    // The resourceVersion is sent since 1.26.
    assert_eq!(attempt(0, done(), "1.25"), (1, "done".into(), false));
}

#[test]
fn a_taint_is_written_to_the_node_that_is_found() {
    let cache = cache(&latest(), &[node(None, vec![])]);
    let decision = decide(&latest(), &cache, Some((Cloud::Yes, Cloud::Yes)), NOW);
    let steps = decision.steps.expect("steps");
    let found = |change: fn(&mut Value)| {
        let mut object = node(None, vec![taint(SHUTDOWN, "NoSchedule")]);
        change(&mut object);
        let (_, record) = crate::common::record(object);
        let response = Response::Object(Box::new(record));
        play(&steps, |_| response.clone())[1].clone()
    };
    assert_eq!(found(|_| {}), "done", "another client has added it");
    assert_eq!(
        found(|node| node["metadata"]["uid"] = "other".into()),
        "stale: 1 reads differ"
    );
    let unread = found(|node| node["spec"]["taints"] = "hidden".into());
    assert_eq!(unread, "unknown: node/n: spec.taints could not be read");
    let gone = play(&steps, |_| Response::Failed(StoreError::NotFound));
    assert_eq!(gone[1], "failed, retried=false: not found");
}

#[test]
fn unread_fields_make_the_outcome_unknown() {
    let response = || Some((Cloud::No, Cloud::No));
    for (path, ready, response) in [
        ("status.conditions", None, response()),
        ("spec.taints", Some("True"), None),
        ("spec.taints", None, Some((Cloud::Yes, Cloud::Yes))),
        ("spec.providerID", None, None),
    ] {
        let mut hidden = node(ready, vec![]);
        let (parent, field) = path.split_once('.').expect("a path");
        hidden[parent][field] = json!({"hidden": true});
        let expected = [format!("unknown node/n: node/n: {path} could not be read")];
        assert_eq!(outcome(&latest(), &hidden, response), expected);
    }
    // An response about another node of that name is ignored.
    let mut other = node(None, vec![]);
    other["metadata"]["uid"] = "other".into();
    assert_eq!(outcome(&latest(), &other, response()), ["query cloud node/n"]);
}

#[test]
fn each_sync_queries_the_cloud_about_a_node_that_is_not_ready() {
    let seconds = |seconds: u64| at(NOW).saturating_add(Duration::from_secs(seconds));
    let mut manager = Manager::new(vec![std::sync::Arc::new(latest())], Wire::Strict, at(NOW));
    let (_, record) = crate::common::record(node(None, vec![]));
    let records = Ok(vec![record.clone()]);
    manager.handle(
        at(NOW),
        Input::Listed {
            resource: Resource::Nodes,
            records,
        },
    );
    for sync in 0..3 {
        let now = seconds(5 * sync);
        let Output::QueryCloud(query) = manager.poll_output(now) else {
            panic!("sync {sync}")
        };
        let (exists, is_shut_down) = (Cloud::Yes, Cloud::No);
        let response = CloudResponse {
            node_uid: "uid-n".into(),
            exists,
            is_shut_down,
        };
        manager.handle(
            now,
            Input::Cloud {
                node: query.node,
                response,
            },
        );
        let Output::Wait { until } = manager.poll_output(now) else {
            panic!("it is running")
        };
        assert_eq!(until, Some(seconds(5 * (sync + 1))));
    }
    let (_, ready) = crate::common::record(node(Some("True"), vec![]));
    let record = Box::new(ready);
    manager.handle(
        seconds(11),
        Input::Applied {
            resource: Resource::Nodes,
            record,
        },
    );
    assert!(matches!(
        manager.poll_output(seconds(15)),
        Output::Wait { until: None }
    ));
}

fn responses() -> impl Strategy<Value = Cloud> {
    select(vec![Cloud::Yes, Cloud::No, Cloud::NotImplemented, failed()])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn only_the_response_no_deletes_and_writes_are_not_repeated(
        ready in select(vec![None, Some("True"), Some("False")]),
        taints in prop::collection::vec((select(vec!["x", SHUTDOWN]), select(vec!["NoSchedule", "NoExecute"])), 0..3),
        exists in responses(),
        is_shut_down in responses(),
    ) {
        let taints = taints.iter().map(|(key, effect)| taint(key, effect)).collect();
        let mut cache = cache(&latest(), &[node(ready, taints)]);
        let response = Some((exists.clone(), is_shut_down));
        let decision = decide(&latest(), &cache, response.clone(), NOW);
        let is_deleted = decision.actions.iter().any(|action| action.is_deletion());
        prop_assert_eq!(is_deleted, ready != Some("True") && exists == Cloud::No);
        if let Some(steps) = &decision.steps {
            let mut record = cache.get(Resource::Nodes, &key("n")).cloned().expect("the node");
            play(steps, |request| match request {
                Request::Write(write) => {
                    write.changes.iter().for_each(|change| change.apply(&mut record));
                    Response::Written(None)
                }
                _ => Response::Object(Box::new(record.clone())),
            });
            cache.put(Resource::Nodes, &key("n"), Some(record));
            let after = decide(&latest(), &cache, response, NOW);
            prop_assert!(after.steps.is_none() && after.actions.is_empty());
        }
    }
}
