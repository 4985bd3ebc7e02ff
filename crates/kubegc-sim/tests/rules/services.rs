//! DELETE of Services and their Endpoints: `REST.Delete` up to 1.22, `REST.afterDelete` from 1.23 on.

use kubegc_core::deletion::DeleteOptionsSpec;
use kubegc_sim::{Filter, ResponseBody};
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
fn a_service_is_deleted_with_its_endpoints() {
    for version in ["1.13.0", "1.20.2", "1.22.0", "1.23.0", "1.36.0"] {
        for options in [policy("Background"), DeleteOptionsSpec::default()] {
            let mut world = cluster(version, &[]);
            let before = world.server.revision();
            assert_eq!(world.delete("Service", "web", &options).code, 200);
            assert_eq!(left(&world), (false, false), "{version}");
            assert_eq!(world.events("Service", before), ["DELETED web"]);
            assert_eq!(world.events("Endpoints", before), ["DELETED web"]);
            // The second finds neither.
            assert_eq!(world.delete("Service", "web", &options).code, 404);
        }
    }
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
fn held_endpoints_are_terminating_and_missing_ones_are_no_error() {
    for version in ["1.20.2", "1.36.0"] {
        let mut world = cluster(version, &[]);
        let hold = json!({"metadata": {"finalizers": ["x.dev/hold"]}});
        world.patch("Endpoints", "web", MERGE, &hold);
        world.delete("Service", "web", &policy("Background"));
        let endpoints = world.get("Endpoints", "web");
        assert!(endpoints["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(world.finalizers("Endpoints", "web"), ["x.dev/hold"]);
        world.put("Service", "bare", &[]);
        let response = world.delete("Service", "bare", &policy("Background"));
        assert_eq!(response.code, 200);
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

#[test]
fn deletecollection_deletes_the_endpoints_of_each_service() {
    let mut world = cluster("1.23.0", &[]);
    let services = world.kind("Service");
    let options = DeleteOptionsSpec::default();
    let everything = Filter::default();
    let response = world
        .server
        .delete_collection(services, Some("ns"), &everything, &options);
    assert_eq!(response.code, 200);
    assert_eq!(left(&world), (false, false));
}
