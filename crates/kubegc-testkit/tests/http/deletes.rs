//! Options of deletions.

use http::Method;
use serde_json::{Value, json};

use crate::world::{PARTIAL, World, at_version, text, world};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

fn held(world: &mut World) -> Value {
    let body = json!({"metadata": {"name": "a", "finalizers": ["x.dev/hold"]}});
    world.create(MAPS, &body)
}

#[test]
fn options_come_from_the_body_else_from_the_query() {
    for (query, body, finalizer) in [
        ("", "", None),
        ("propagationPolicy=Foreground", "", Some("foregroundDeletion")),
        ("orphanDependents=true", "", Some("orphan")),
        ("orphanDependents", "", Some("orphan")),
        ("", r#"{"propagationPolicy": "Orphan"}"#, Some("orphan")),
        ("", r#"{"orphanDependents": true}"#, Some("orphan")),
        (
            "propagationPolicy=Orphan",
            r#"{"propagationPolicy": "Foreground"}"#,
            Some("foregroundDeletion"),
        ),
        ("propagationPolicy=Orphan", "{}", None),
    ] {
        let mut world = world();
        held(&mut world);
        let url = format!("{MAPS}/a?{query}");
        let body = serde_json::from_str(body).unwrap_or_default();
        let reply = world.send(Method::DELETE, &url, &[], &body);
        assert_eq!(reply.code, 200, "{query} {body}: {}", reply.text);
        let object = world.get(&format!("{MAPS}/a")).json();
        let finalizers: Vec<&str> = ["x.dev/hold"].into_iter().chain(finalizer).collect();
        assert_eq!(
            object["metadata"]["finalizers"],
            json!(finalizers),
            "{query} {body}"
        );
    }
}

#[test]
fn options_that_cannot_be_read_or_do_not_hold_together_are_refused() {
    for (release, unreadable) in [("1.34", 500), ("1.35", 400)] {
        let mut world = at_version(release);
        let uid = text(&held(&mut world)["metadata"]["uid"]);
        let before = world.server.revision();
        for (query, body, code) in [
            ("gracePeriodSeconds=soon", Value::Null, 400),
            ("propagationPolicy=Sideways", Value::Null, 422),
            ("", json!([]), unreadable),
            ("", json!({"kind": "Pod", "apiVersion": "v1"}), unreadable),
            ("", json!({"kind": "ListOptions", "apiVersion": "v1"}), unreadable),
            ("", json!({"propagationPolicy": 1}), unreadable),
            ("", json!({"orphanDependents": "yes"}), unreadable),
            ("", json!({"gracePeriodSeconds": 1.5}), unreadable),
            ("", json!({"dryRun": "All"}), unreadable),
            ("", json!({"dryRun": [1]}), unreadable),
            ("", json!({"preconditions": "uid"}), unreadable),
            ("", json!({"preconditions": {"uid": 1}}), unreadable),
            (
                "",
                json!({"preconditions": {"uid": uid, "resourceVersion": "1"}}),
                409,
            ),
        ] {
            let reply = world.send(Method::DELETE, &format!("{MAPS}/a?{query}"), &[], &body);
            assert_eq!(reply.code, code, "{release} {query} {body}: {}", reply.text);
            assert_eq!(reply.json()["kind"], "Status");
        }
        assert_eq!(world.server.revision(), before, "{release}");
    }
}

/// A finished deletion is a status, in whatever form objects are requested.
#[test]
fn the_object_of_a_deletion_takes_the_requested_form() {
    let mut world = world();
    for (finalizers, kind) in [
        (json!([]), "Status"),
        (json!(["x.dev/hold"]), "PartialObjectMetadata"),
    ] {
        world.create(
            MAPS,
            &json!({"metadata": {"name": "a", "finalizers": finalizers}}),
        );
        let headers = [("accept", PARTIAL)];
        let reply = world.send(Method::DELETE, &format!("{MAPS}/a"), &headers, &Value::Null);
        assert_eq!(reply.json()["kind"], kind);
    }
}
