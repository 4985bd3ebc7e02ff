//! Pods that were deleted before the dump: ended by their kubelet, by podgc, or not at all.

use kubegc_predict::{Fate, Question};
use serde_json::{Value, json};

use crate::fixture::{DAY, Fixture, NODE_TAINTS, NODES, VERSION, at, condition, noon, owner, predict};

/// A pod whose grace period ended half an hour ago.
fn overdue(fixture: &mut Fixture, name: &str, node: Option<&str>) {
    let mut pod = json!({
        "metadata": { "deletionTimestamp": at(-1_800), "deletionGracePeriodSeconds": 30 },
        "spec": { "containers": [] },
        "status": { "phase": "Running" },
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    fixture.add("v1", "Pod", "shop", name, pod);
}

fn node(fixture: &mut Fixture, name: &str, ready: &str, taints: Value) {
    let conditions = json!([{ "type": "Ready", "status": ready, "lastTransitionTime": at(-3_600) }]);
    let rest = json!({ "spec": { "providerID": "cloud://1", "taints": taints }, "status": { "conditions": conditions } });
    fixture.add("v1", "Node", "", name, rest);
}

fn fixture() -> Fixture {
    let mut fixture = Fixture::default();
    let out_of_service = json!([{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" }]);
    node(&mut fixture, "ready", "True", json!([]));
    node(&mut fixture, "unready", "False", json!([]));
    node(&mut fixture, "silent", "Unknown", json!([]));
    node(&mut fixture, "off", "False", out_of_service);
    for name in ["ready", "unready", "silent", "off", "lost"] {
        overdue(&mut fixture, name, Some(name));
    }
    overdue(&mut fixture, "nowhere", None);
    fixture
}

#[test]
fn l1_8_l1_13_l1_14_pods_without_a_kubelet_are_deleted_by_podgc() {
    let cluster = fixture().cluster();
    let mut question = Question::new(VERSION).up_to(DAY).at(noon());
    // No client deletes nodes.
    question = question.without(NODES);
    let forecast = predict(&cluster, &question);
    let mut removed: Vec<_> = forecast
        .removals()
        .map(|removed| {
            let seconds = removed.at.since(noon()).as_secs();
            (
                removed.object.name.to_string(),
                seconds,
                removed.step.actor.to_string(),
            )
        })
        .collect();
    removed.sort();
    let row = |pod: &str, seconds, actor: &str| (pod.to_owned(), seconds, actor.to_owned());
    assert_eq!(
        removed,
        [
            row("lost", 40, "pod-garbage-collector-controller"),
            row("nowhere", 0, "pod-garbage-collector-controller"),
            row("off", 0, "pod-garbage-collector-controller"),
            row("ready", 0, "kubelet"),
            row("unready", 0, "kubelet"),
        ]
    );
    let held: Vec<_> = forecast
        .fates
        .iter()
        .filter(|fate| matches!(fate.fate, Fate::Terminating { .. }))
        .collect();
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(&*held[0].object.name, "silent");
}

/// The changed object, the change, and the fact that it makes unknown.
type Row = (&'static str, fn(&mut Value), Option<&'static str>);

#[test]
fn the_end_of_a_pod_is_unknown_if_its_kubelet_is() {
    let node = |object: &mut Value| object["spec"]["nodeName"] = "ready".into();
    let rows: [Row; 7] = [
        ("Node ready", |_| {}, None),
        (
            "Node ready",
            |node| node["status"] = Value::Null,
            Some("whether the kubelet of node ready runs is not known"),
        ),
        (
            "Pod web",
            |pod| pod["spec"] = Value::Null,
            Some("its node is not known"),
        ),
        ("Pod web", |pod| pod["status"] = Value::Null, None),
        (
            "Pod web",
            |pod| (pod["spec"], pod["status"]) = (Value::Null, Value::Null),
            Some("its node is not known"),
        ),
        (
            "Pod web",
            |pod| pod["status"] = json!({ "phase": "Succeeded" }),
            None,
        ),
        ("Pod web", |pod| pod["spec"] = json!({ "containers": [] }), None),
    ];
    for (name, change, unknown) in rows {
        let mut fixture = Fixture::default();
        self::node(&mut fixture, "ready", "True", json!([]));
        let job = json!({ "spec": { "ttlSecondsAfterFinished": 60 }, "status": condition("Complete", 0) });
        fixture.add("batch/v1", "Job", "shop", "report", job);
        let mut pod = json!({
            "metadata": { "ownerReferences": owner("batch/v1", "Job", "report", true) },
            "spec": { "containers": [] },
            "status": { "phase": "Running" },
        });
        node(&mut pod);
        fixture.add("v1", "Pod", "shop", "web", pod);
        for object in &mut fixture.objects {
            let of = format!(
                "{} {}",
                object["kind"].as_str().unwrap(),
                object["metadata"]["name"].as_str().unwrap()
            );
            if of == name {
                change(object);
                object
                    .as_object_mut()
                    .unwrap()
                    .retain(|_, field| !field.is_null());
            }
        }
        let mut question = Question::new(VERSION).up_to(DAY).at(noon());
        question = question.without(NODES).without(NODE_TAINTS);
        let forecast = predict(&fixture.cluster(), &question);
        let mut removed: Vec<&str> = forecast.removals().map(|removed| &*removed.object.name).collect();
        removed.sort_unstable();
        let Some(unknown) = unknown else {
            assert_eq!(removed, ["report", "web"], "{name}");
            continue;
        };
        // The job waits for its pod.
        assert_eq!(removed, [""; 0], "{unknown}");
        let why = format!("when pod/web -n shop ends: {unknown}");
        let fates = &forecast.fates;
        assert_eq!(fates.len(), 2);
        for fate in fates {
            let Fate::Undetermined { missing } = &fate.fate else {
                panic!("{fate:?}");
            };
            let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
            assert!(missing.contains(&why), "{missing:?}");
        }
    }
}

#[test]
fn a_node_that_was_not_dumped_may_have_a_kubelet_or_not() {
    let mut fixture = Fixture::default();
    overdue(&mut fixture, "somewhere", Some("unseen"));
    let cluster = fixture.cluster_with_all(&["pods"]);
    let forecast = predict(&cluster, &Question::new(VERSION).up_to(DAY).at(noon()));
    assert_eq!(forecast.removals().count(), 0);
    assert_eq!(forecast.timeline[0].actor.to_string(), "kubelet");
    let Fate::Undetermined { missing } = &forecast.fates[0].fate else {
        panic!("whether its kubelet runs is not known")
    };
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    assert!(
        missing.contains(
            &"when pod/somewhere -n shop ends: whether the kubelet of node unseen runs is not known"
                .to_owned()
        ),
        "{missing:?}"
    );
}
