//! DELETE of Services and their Endpoints: `REST.Delete` up to 1.22, `REST.afterDelete` from 1.23 on.

use kubegc_sim::ResponseBody;
use serde_json::json;

use crate::world::{MERGE, World, dry_run, expecting, orphan_dependents, policy, world_of};

fn cluster(version: &str, finalizers: &[&str]) -> World {
    let mut world = world_of(version);
    world.put("Service", "web", finalizers);
    world.put("Endpoints", "web", &[]);
    world.put("Endpoints", "db", &[]);
    world
}

fn left(world: &World) -> (bool, bool) {
    assert!(!world.get("Endpoints", "db").is_null(), "of another Service");
    let is_there = |kind| !world.get(kind, "web").is_null();
    (is_there("Service"), is_there("Endpoints"))
}

#[test]
fn up_to_1_22_a_held_service_loses_its_endpoints_from_1_23_on_when_it_is_removed() {
    for (version, keeps) in [("1.22.0", false), ("1.23.0", true)] {
        for options in [policy("Foreground"), policy("Orphan"), orphan_dependents(false)] {
            let mut world = cluster(version, &["x.dev/hold"]);
            let response = world.delete("Service", "web", &options);
            let accepted = keeps && options.orphan_dependents.is_some();
            assert_eq!(response.code, if accepted { 202 } else { 200 });
            assert_eq!(
                matches!(response.body, ResponseBody::Object(_)),
                keeps,
                "{version}"
            );
            assert_eq!(left(&world), (true, keeps), "{version}");
            if !keeps {
                // The endpoints controller creates them again, and no later removal deletes them.
                world.put("Endpoints", "web", &[]);
            }
            let free = json!({"metadata": {"finalizers": null}});
            assert_eq!(world.patch("Service", "web", MERGE, &free).code, 200);
            assert_eq!(left(&world), (false, !keeps), "{version}");
        }
    }
}

#[test]
fn a_dry_run_and_a_refused_delete_keep_the_endpoints() {
    for version in ["1.20.2", "1.36.0"] {
        for finalizers in [&[][..], &["x.dev/hold"]] {
            let mut world = cluster(version, finalizers);
            let before = world.server.revision();
            assert_eq!(world.delete("Service", "web", &dry_run()).code, 200);
            let other = expecting(Some("other"), None);
            assert_eq!(world.delete("Service", "web", &other).code, 409);
            assert_eq!(world.server.revision(), before);
        }
    }
}
