//! Nodes, leases and namespaces.

use kubegc_core::record::{Body, Condition, Field, Lease, Namespace, Node, Resource, Taint};
use serde_json::json;

use crate::common::{at, check, condition, live};

#[test]
fn nodes() {
    let ready = Condition {
        reason: "KubeletReady".into(),
        message: "kubelet is posting ready status".into(),
        last_transition_time: Some(at(1)),
        ..condition("Ready", "True")
    };
    let taint = Taint {
        value: "nodeshutdown".into(),
        time_added: Some(at(3)),
        ..Taint::new("node.kubernetes.io/out-of-service", "NoExecute")
    };
    let unread = Node {
        conditions: Field::Unread,
        taints: Field::Unread,
        provider_id: Field::Unread,
        ..Node::default()
    };
    check(
        Resource::Nodes,
        [
            (
                json!({
                    "spec": {
                        "providerID": "aws:///a/i-1", "podCIDR": "10.0.0.0/24",
                        "taints": [{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute",
                            "timeAdded": "2026-03-01T12:00:03Z" }, { "key": "a" }],
                    },
                    "status": { "conditions": [
                        { "type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "2026-03-01T12:00:09Z" },
                        { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
                          "lastHeartbeatTime": "2026-03-01T12:00:09Z", "lastTransitionTime": "2026-03-01T12:00:01Z" },
                    ] },
                }),
                Body::Node(Node {
                    conditions: vec![ready].into(),
                    taints: vec![taint, Taint::new("a", "")].into(),
                    provider_id: Field::Known("aws:///a/i-1".into()),
                    ..Node::default()
                }),
                &[],
            ),
            (
                json!({ "spec": {}, "status": {} }),
                Body::Node(Node::default()),
                &[],
            ),
            (json!({}), Body::Unread, &[]),
            (
                json!({ "spec": { "taints": null } }),
                Body::Node(Node {
                    conditions: Field::Unread,
                    ..Node::default()
                }),
                &[],
            ),
            (
                json!({ "spec": { "taints": [{ "key": "a", "effect": 1, "timeAdded": "soon" }], "providerID": {} }, "status": { "conditions": [7] } }),
                Body::Node(unread),
                &[
                    "spec.providerID: expected a string, found a map",
                    "spec.taints[0].effect: expected a string, found a number",
                    "spec.taints[0].timeAdded: \"soon\" is not a date",
                    "status.conditions[0]: expected a map, found a number",
                ],
            ),
        ],
    );
    assert_eq!(live(Resource::Nodes, json!({})), Body::Node(Node::default()));
}

#[test]
fn leases() {
    let lease = |renew_time, lease_duration_seconds| {
        Body::Lease(Lease {
            renew_time,
            lease_duration_seconds,
        })
    };
    check(
        Resource::Leases,
        [
            (
                json!({ "spec": { "holderIdentity": 7, "renewTime": "2026-03-01T12:00:05.000000Z", "leaseDurationSeconds": 40 } }),
                lease(Some(at(5)).into(), Some(40).into()),
                &[],
            ),
            (json!({ "spec": {} }), lease(None.into(), None.into()), &[]),
            (json!({}), Body::Unread, &[]),
            (
                json!({ "spec": { "renewTime": 7, "leaseDurationSeconds": "40" } }),
                lease(Field::Unread, Field::Unread),
                &[
                    "spec.leaseDurationSeconds: expected a whole number, found a string",
                    "spec.renewTime: expected a string, found a number",
                ],
            ),
        ],
    );
    assert_eq!(live(Resource::Leases, json!({})), lease(None.into(), None.into()));
}

#[test]
fn namespaces() {
    const NO_PHASE: &str = "status.phase: missing: Active is assumed";
    const NO_STATUS: &str = "status: missing: that of a new object is assumed";
    let remaining = Condition {
        reason: "SomeResourcesRemain".into(),
        message: "pods.".into(),
        last_transition_time: Some(at(3)),
        ..condition("NamespaceContentRemaining", "True")
    };
    let namespace = |phase: Field<&str>, finalizers: Field<&[&str]>, conditions| {
        Body::Namespace(Namespace {
            phase: phase.map(Into::into),
            finalizers: finalizers.map(|names| names.iter().map(|name| (*name).into()).collect()),
            conditions,
        })
    };
    check(
        Resource::Namespaces,
        [
            (
                json!({
                    "metadata": { "deletionTimestamp": "2026-03-01T12:00:00Z" },
                    "spec": { "finalizers": ["kubernetes", "example.com/hold"] },
                    "status": { "phase": "Terminating", "conditions": [
                        { "type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain", "message": "pods.",
                          "lastTransitionTime": "2026-03-01T12:00:03Z", "extra": 1 },
                        { "type": "example.com/Odd", "status": "Perhaps" },
                    ] },
                }),
                namespace(
                    "Terminating".into(),
                    Field::Known(&["kubernetes", "example.com/hold"]),
                    vec![remaining, condition("example.com/Odd", "Perhaps")].into(),
                ),
                &[],
            ),
            (
                json!({}),
                namespace("Active".into(), Field::Known(&["kubernetes"]), Field::default()),
                &[NO_STATUS],
            ),
            (
                json!({ "spec": { "finalizers": null }, "status": {} }),
                namespace("Active".into(), Field::Known(&[]), Field::default()),
                &[NO_PHASE],
            ),
            (
                json!({ "spec": { "finalizers": ["kubernetes", 1] }, "status": { "phase": 1, "conditions": [{ "type": "A", "lastTransitionTime": "soon" }] } }),
                namespace(Field::Unread, Field::Unread, Field::Unread),
                &[
                    "spec.finalizers[1]: expected a string, found a number",
                    "status.conditions[0].lastTransitionTime: \"soon\" is not a date",
                    "status.phase: expected a string, found a number",
                ],
            ),
            (
                json!({ "spec": 7, "status": [] }),
                namespace(Field::Unread, Field::Unread, Field::Unread),
                &[
                    "spec: expected a map, found a number",
                    "status: expected a map, found a list",
                ],
            ),
        ],
    );
    for body in [json!({}), json!({ "spec": {}, "status": null })] {
        assert_eq!(
            live(Resource::Namespaces, body),
            Body::Namespace(Namespace::default())
        );
    }
}
