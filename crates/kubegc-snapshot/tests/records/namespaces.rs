//! Namespaces and their pods, as whoever empties namespaces reads and writes them.

use kubegc_core::Preconditions;
use kubegc_lifecycle::{
    driver::Documents,
    namespace::{Action, Condition, ConditionStatus, Namespace, Pod},
    object::Resource,
};
use kubegc_snapshot::JsonDocuments;
use serde_json::{Value, json};

use crate::common::{at, object};

fn condition(kind: &str, status: ConditionStatus) -> Condition {
    Condition {
        condition_type: kind.into(),
        status,
        reason: "".into(),
        message: "".into(),
        last_transition_time: None,
    }
}

fn whole() -> Value {
    object(
        Resource::Namespaces,
        json!({
            "metadata": { "deletionTimestamp": "2026-03-01T12:00:00Z" },
            "spec": { "finalizers": ["kubernetes", "example.com/hold"] },
            "status": { "phase": "Terminating", "conditions": [
                { "type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain", "message": "pods.",
                  "lastTransitionTime": "2026-03-01T12:00:03Z", "extra": 1 },
                { "type": "example.com/Odd", "status": "Perhaps" },
            ] },
        }),
    )
}

fn remaining() -> Condition {
    Condition {
        reason: "SomeResourcesRemain".into(),
        message: "pods.".into(),
        last_transition_time: Some(at(3)),
        ..condition("NamespaceContentRemaining", ConditionStatus::True)
    }
}

#[test]
fn namespaces_are_read() {
    let documents = JsonDocuments::default();
    let mut expected = Namespace::new("a", "u-a");
    expected.resource_version = "7".into();
    expected.finalizers = vec![];
    for body in [
        json!({}),
        json!({ "spec": {}, "status": {} }),
        json!({ "spec": { "finalizers": null }, "status": null }),
    ] {
        let document = object(Resource::Namespaces, body).to_string();
        assert_eq!(
            documents.read_namespace(document.as_bytes()),
            Ok(expected.clone()),
            "{document}"
        );
    }
    expected.deletion_timestamp = Some(at(0));
    expected.is_terminating = true;
    expected.finalizers = vec!["kubernetes".into(), "example.com/hold".into()];
    expected.conditions = vec![
        remaining(),
        condition("example.com/Odd", ConditionStatus::Unknown),
    ];
    assert_eq!(
        documents.read_namespace(whole().to_string().as_bytes()),
        Ok(expected)
    );
}

#[test]
fn nothing_is_emptied_on_a_namespace_that_cannot_be_read() {
    let documents = JsonDocuments::default();
    for (body, expected) in [
        (json!({ "spec": 7 }), "spec: expected a map, found a number"),
        (
            json!({ "spec": { "finalizers": "kubernetes" } }),
            "spec.finalizers: expected a list, found a string",
        ),
        (
            json!({ "spec": { "finalizers": [1] } }),
            "spec.finalizers[0]: expected a string, found a number",
        ),
        (json!({ "status": [] }), "status: expected a map, found a list"),
        (
            json!({ "status": { "phase": 1 } }),
            "status.phase: expected a string, found a number",
        ),
        (
            json!({ "status": { "conditions": [{ "type": "A", "lastTransitionTime": "soon" }] } }),
            "status.conditions[0].lastTransitionTime: \"soon\" is no date",
        ),
        (
            json!({ "metadata": { "deletionTimestamp": "soon" } }),
            "metadata.deletionTimestamp: \"soon\" is no date",
        ),
        (json!({ "kind": "Pod" }), "kind: expected Namespace, found Pod"),
    ] {
        let document = object(Resource::Namespaces, body).to_string();
        let error = documents
            .read_namespace(document.as_bytes())
            .expect_err(&document);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn pods_are_read_as_content() {
    let documents = JsonDocuments::default();
    let read = |body: Value| documents.read_pod_item(object(Resource::Pods, body).to_string().as_bytes());
    let item = read(json!({
        "metadata": { "finalizers": ["x"], "deletionTimestamp": "2026-03-01T12:00:30Z" },
        "spec": { "nodeName": "node-1", "terminationGracePeriodSeconds": 30 }, "status": { "phase": "Running" },
    }))
    .expect("a pod");
    assert_eq!(
        (&*item.name, item.uid.to_string(), item.finalizers),
        ("a", "u-a".to_owned(), vec!["x".into()])
    );
    let running = Pod {
        deletion_timestamp: Some(at(30)),
        ..Pod::running(30)
    };
    assert_eq!(item.pod, Some(running));
    for (body, is_finished) in [
        (json!({ "status": { "phase": "Succeeded" } }), true),
        (json!({ "status": { "phase": "Failed" } }), true),
        (json!({}), false),
    ] {
        let pod = read(body).expect("a pod").pod.expect("it is one");
        assert_eq!(
            (pod.is_finished, pod.is_scheduled, pod.grace_period_seconds),
            (is_finished, false, None)
        );
    }
    let error = read(json!({ "spec": { "terminationGracePeriodSeconds": "30" } })).expect_err("no number");
    assert_eq!(
        error.to_string(),
        "spec.terminationGracePeriodSeconds: expected a whole number, found a string"
    );
}

#[test]
fn namespaces_are_written_back_whole() {
    let documents = JsonDocuments::default();
    let expect = Preconditions {
        uid: Some("u-a".into()),
        resource_version: Some("5".into()),
    };
    let cases = [
        (
            Action::SetPhaseTerminating {
                namespace: "a".into(),
                expect: expect.clone(),
            },
            "/status/phase",
            json!("Terminating"),
        ),
        (
            Action::Finalize {
                namespace: "a".into(),
                expect: expect.clone(),
                finalizers: vec!["example.com/hold".into()],
            },
            "/spec/finalizers",
            json!(["example.com/hold"]),
        ),
        (
            Action::UpdateConditions {
                namespace: "a".into(),
                expect: expect.clone(),
                conditions: vec![
                    Condition {
                        status: ConditionStatus::False,
                        last_transition_time: Some(at(9)),
                        ..remaining()
                    },
                    condition("example.com/Odd", ConditionStatus::Unknown),
                    condition("New", ConditionStatus::Unknown),
                ],
            },
            "/status/conditions",
            json!([
                { "type": "NamespaceContentRemaining", "status": "False", "reason": "SomeResourcesRemain", "message": "pods.",
                  "lastTransitionTime": "2026-03-01T12:00:09Z", "extra": 1 },
                { "type": "example.com/Odd", "status": "Perhaps" },
                { "type": "New", "status": "Unknown" },
            ]),
        ),
    ];
    for (action, place, expected) in cases {
        let body = documents
            .write_namespace(&action, whole().to_string().as_bytes())
            .expect("it writes one");
        let mut written: Value = serde_json::from_slice(&body).expect("JSON");
        let mut before = whole();
        assert_eq!(written.pointer(place), Some(&expected), "{action}");
        for namespace in [&mut written, &mut before] {
            *namespace.pointer_mut(place).expect("there before, too") = Value::Null;
        }
        before["metadata"]["resourceVersion"] = "5".into();
        assert_eq!(written, before, "{action}: nothing else changes");
    }
    let bare = object(Resource::Namespaces, json!({})).to_string();
    let action = Action::SetPhaseTerminating {
        namespace: "a".into(),
        expect: Preconditions::default(),
    };
    let body = documents
        .write_namespace(&action, bare.as_bytes())
        .expect("it writes one");
    let written: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (
            &written["status"]["phase"],
            &written["metadata"]["resourceVersion"]
        ),
        (&json!("Terminating"), &json!("7"))
    );
}

#[test]
fn what_writes_no_namespace_or_another_is_refused() {
    let documents = JsonDocuments::default();
    let action = Action::SetPhaseTerminating {
        namespace: "a".into(),
        expect: Preconditions::uid("u-b".into()),
    };
    let error = documents
        .write_namespace(&action, whole().to_string().as_bytes())
        .expect_err("another");
    assert_eq!(error.to_string(), "metadata.uid: expected u-b, found u-a");
    let delete = Action::Delete {
        resource: kubegc_lifecycle::namespace::GroupVersionResource::new("", "v1", "pods"),
        namespace: "a".into(),
        name: "p".into(),
        expect: Preconditions::default(),
        propagation: kubegc_core::PropagationPolicy::Background,
    };
    let error = documents
        .write_namespace(&delete, whole().to_string().as_bytes())
        .expect_err("no write");
    assert_eq!(error.to_string(), "the action writes no namespace");
}
