//! Options of deletions.

use http::Method;
use serde_json::{Value, json};

use crate::world::{World, at_version, text};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

fn held(world: &mut World) -> Value {
    let body = json!({"metadata": {"name": "a", "finalizers": ["x.dev/hold"]}});
    world.create(MAPS, &body)
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
