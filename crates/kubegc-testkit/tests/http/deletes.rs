//! Deletions: options from the body or the query, preconditions, collections.

use http::Method;
use serde_json::{Value, json};

use crate::world::{World, text, world};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

fn held(world: &mut World) -> Value {
    let body = json!({"metadata": {"name": "a", "finalizers": ["x.dev/hold"]}});
    world.create(MAPS, &body)
}

#[test]
fn options_come_from_the_body_else_from_the_query() {
    for (query, body, finalizers) in [
        ("", Value::Null, json!(["x.dev/hold"])),
        (
            "propagationPolicy=Foreground",
            Value::Null,
            json!(["x.dev/hold", "foregroundDeletion"]),
        ),
        (
            "orphanDependents=true",
            Value::Null,
            json!(["x.dev/hold", "orphan"]),
        ),
        ("orphanDependents", Value::Null, json!(["x.dev/hold", "orphan"])),
        (
            "",
            json!({"propagationPolicy": "Orphan"}),
            json!(["x.dev/hold", "orphan"]),
        ),
        (
            "",
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "orphanDependents": true}),
            json!(["x.dev/hold", "orphan"]),
        ),
        (
            "propagationPolicy=Orphan",
            json!({"propagationPolicy": "Foreground"}),
            json!(["x.dev/hold", "foregroundDeletion"]),
        ),
        ("propagationPolicy=Orphan", json!({}), json!(["x.dev/hold"])),
    ] {
        let mut world = world();
        held(&mut world);
        let url = format!("{MAPS}/a?{query}");
        let reply = world.send(Method::DELETE, &url, &[], &body);
        assert_eq!(reply.code, 200, "{query} {body}: {}", reply.text);
        let object = world.get(&format!("{MAPS}/a")).json();
        assert_eq!(object["metadata"]["finalizers"], finalizers, "{query} {body}");
    }
}

#[test]
fn options_that_cannot_be_read_or_do_not_hold_together_are_refused() {
    let mut world = world();
    let uid = text(&held(&mut world)["metadata"]["uid"]);
    let before = world.server.revision();
    for (query, body, code) in [
        ("gracePeriodSeconds=soon", Value::Null, 400),
        ("propagationPolicy=Sideways", Value::Null, 422),
        ("propagationPolicy=Orphan&orphanDependents=true", Value::Null, 422),
        ("", json!([]), 500),
        ("", json!({"kind": "Pod"}), 500),
        ("", json!({"propagationPolicy": 1}), 500),
        ("", json!({"orphanDependents": "yes"}), 500),
        ("", json!({"gracePeriodSeconds": 1.5}), 500),
        ("", json!({"dryRun": "All"}), 500),
        ("", json!({"dryRun": [1]}), 500),
        ("", json!({"preconditions": "uid"}), 500),
        ("", json!({"preconditions": {"uid": 1}}), 500),
        ("", json!({"preconditions": {"uid": "another"}}), 409),
        (
            "",
            json!({"preconditions": {"uid": uid, "resourceVersion": "1"}}),
            409,
        ),
    ] {
        let reply = world.send(Method::DELETE, &format!("{MAPS}/a?{query}"), &[], &body);
        assert_eq!(reply.code, code, "{query} {body}: {}", reply.text);
        assert_eq!(reply.json()["kind"], "Status");
    }
    assert_eq!(world.server.revision(), before);
    let fits = json!({"preconditions": {"uid": uid, "resourceVersion": before.to_string()}});
    assert_eq!(
        world.send(Method::DELETE, &format!("{MAPS}/a"), &[], &fits).code,
        200
    );
}

#[test]
fn a_finished_deletion_is_a_status_in_any_requested_form() {
    let mut world = world();
    world.config_maps("shop", &["a"]);
    let headers = [("accept", crate::world::PARTIAL)];
    let reply = world
        .send(Method::DELETE, &format!("{MAPS}/a"), &headers, &Value::Null)
        .json();
    assert_eq!(
        (&reply["kind"], &reply["status"]),
        (&json!("Status"), &json!("Success"))
    );
    assert_eq!(reply["details"]["name"], "a");
    held(&mut world);
    let reply = world
        .send(Method::DELETE, &format!("{MAPS}/a"), &headers, &Value::Null)
        .json();
    assert_eq!(reply["kind"], "PartialObjectMetadata");
}

#[test]
fn collections_go_as_their_selectors_say() {
    for (query, left) in [
        ("", vec!["shop2/z"]),
        ("labelSelector=app%3Da", vec!["shop/b", "shop/c", "shop2/z"]),
        ("fieldSelector=metadata.name%21%3Da", vec!["shop/a", "shop2/z"]),
        (
            "labelSelector=none",
            vec!["shop/a", "shop/b", "shop/c", "shop2/z"],
        ),
    ] {
        let mut world = world();
        world.create("/api/v1/namespaces", &json!({"metadata": {"name": "shop2"}}));
        world.config_maps("shop", &["a", "b", "c"]);
        world.config_maps("shop2", &["z"]);
        let reply = world.delete(&format!("{MAPS}?{query}"));
        assert_eq!(
            (reply.code, reply.json()["kind"].as_str()),
            (200, Some("ConfigMapList")),
            "{query}"
        );
        let list = world.get("/api/v1/configmaps").json();
        let names: Vec<String> = list["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| {
                format!(
                    "{}/{}",
                    text(&item["metadata"]["namespace"]),
                    text(&item["metadata"]["name"])
                )
            })
            .collect();
        assert_eq!(names, left, "{query}");
    }
}

#[test]
fn namespaces_terminate_and_are_finalized() {
    let mut world = world();
    let deleted = world.delete("/api/v1/namespaces/shop").json();
    assert_eq!(deleted["status"]["phase"], "Terminating");
    assert_eq!(world.post(MAPS, &json!({"metadata": {"name": "late"}})).code, 403);
    let mut namespace = world.get("/api/v1/namespaces/shop").json();
    namespace["spec"]["finalizers"] = json!([]);
    let reply = world.send(Method::PUT, "/api/v1/namespaces/shop/finalize", &[], &namespace);
    assert_eq!(reply.code, 200, "{}", reply.text);
    assert_eq!(world.get("/api/v1/namespaces/shop").code, 404);
}
