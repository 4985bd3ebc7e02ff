//! Pods whose kubelet may run or not.

use kubegc_fixtures::{Fixture, owner};
use kubegc_predict::{Fate, Question};
use serde_json::{Value, json};

use crate::fixture::{
    DAY, NODE_TAINTS, NODES, VERSION, at, cluster, cluster_with_all, condition, noon, predict,
};

/// The changed object, the change, and the fact that it makes unknown.
type Row = (&'static str, fn(&mut Value), Option<&'static str>);

#[test]
fn the_end_of_a_pod_is_unknown_if_its_kubelet_is() {
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
        let ready = json!({ "spec": { "providerID": "cloud://1" }, "status": condition("Ready", -3_600) });
        fixture.add("v1", "Node", "", "ready", ready);
        let job = json!({ "spec": { "ttlSecondsAfterFinished": 60 }, "status": condition("Complete", 0) });
        fixture.add("batch/v1", "Job", "shop", "report", job);
        let pod = json!({
            "metadata": { "ownerReferences": [owner("batch/v1", "Job", "report", true)] },
            "spec": { "nodeName": "ready", "containers": [] },
            "status": { "phase": "Running" },
        });
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
        let forecast = predict(&cluster(&fixture), &question);
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
            let Fate::Undetermined { missing, .. } = &fate.fate else {
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
    let overdue = json!({
        "metadata": { "deletionTimestamp": at(-60), "deletionGracePeriodSeconds": 30 },
        "spec": { "nodeName": "unseen", "containers": [] },
        "status": { "phase": "Running" },
    });
    fixture.add("v1", "Pod", "shop", "somewhere", overdue);
    let cluster = cluster_with_all(&fixture, &["pods"]);
    let forecast = predict(&cluster, &Question::new(VERSION).up_to(DAY).at(noon()));
    assert_eq!(forecast.removals().count(), 0);
    assert_eq!(forecast.timeline[0].actor.to_string(), "kubelet");
    let Fate::Undetermined { missing, .. } = &forecast.fates[0].fate else {
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
