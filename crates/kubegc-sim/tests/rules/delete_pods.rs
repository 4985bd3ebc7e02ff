//! DELETE of pods: grace periods.

use kubegc_core::deletion::DeleteOptionsSpec;
use serde_json::json;

use crate::world::{MERGE, World, grace, policy, world, world_of};

fn bound(world: &mut World, name: &str, finalizers: &[&str]) {
    world.put_json(
        "Pod",
        json!({"metadata": {"name": name, "finalizers": finalizers}, "spec": {"nodeName": "n1"}}),
    );
}

fn left(world: &World, name: &str) -> (serde_json::Value, serde_json::Value) {
    let meta = world.get("Pod", name)["metadata"].clone();
    (
        meta["deletionTimestamp"].clone(),
        meta["deletionGracePeriodSeconds"].clone(),
    )
}

#[test]
fn s_14_the_grace_period_of_a_terminating_pod_can_only_be_shortened() {
    let mut world = world();
    bound(&mut world, "p", &["orphan"]);
    world.delete("Pod", "p", &policy("Foreground"));
    assert_eq!(world.finalizers("Pod", "p"), ["foregroundDeletion"]);
    let first = left(&world, "p");
    assert_eq!(first.1, 30);
    for options in [policy("Orphan"), grace(30), grace(40)] {
        let before = world.server.revision();
        let response = world.delete("Pod", "p", &options);
        assert_eq!((response.code, world.server.revision()), (200, before));
        assert_eq!(world.finalizers("Pod", "p"), ["foregroundDeletion"]);
        assert_eq!(left(&world, "p"), first);
    }
    let sooner = DeleteOptionsSpec {
        grace_period_seconds: Some(5),
        ..policy("Orphan")
    };
    world.delete("Pod", "p", &sooner);
    assert_eq!(world.finalizers("Pod", "p"), ["orphan"]);
    assert_eq!(
        left(&world, "p"),
        (json!("1970-01-12T13:46:45Z"), json!(5)),
        "counted from the first request"
    );
    let now = DeleteOptionsSpec {
        grace_period_seconds: Some(0),
        ..policy("Background")
    };
    let response = world.delete("Pod", "p", &now);
    assert!(world.get("Pod", "p").is_null());
    assert!(response.object().unwrap().meta.finalizers.is_empty());
}

#[test]
fn s_4_a_negative_grace_period_counts_as_one_second_since_1_22() {
    for (version, expected) in [("1.21.0", None), ("1.22.0", Some(1))] {
        let mut world = world_of(version);
        bound(&mut world, "p", &[]);
        world.delete("Pod", "p", &grace(-5));
        match expected {
            None => assert!(world.get("Pod", "p").is_null()),
            Some(seconds) => assert_eq!(left(&world, "p").1, seconds),
        }
    }
}

#[test]
fn a_pod_with_metadata_only_is_not_scheduled() {
    let mut world = world();
    let kind = world.kind("Pod");
    let meta = kubegc_core::ObjectMeta::new("ns", "p", "u1");
    world.server.insert_meta(kind, meta).unwrap();
    world.delete("Pod", "p", &grace(30));
    assert!(world.get("Pod", "p").is_null());
}

#[test]
fn s_16_the_pod_gives_the_grace_period_unless_it_has_ended() {
    for (phase, expected) in [("Running", Some(7)), ("Succeeded", None)] {
        let mut world = world();
        let spec = json!({"nodeName": "n", "terminationGracePeriodSeconds": 7});
        world.put_json("Pod", json!({"metadata": {"name": "p"}, "spec": spec}));
        let body = json!({"status": {"phase": phase}}).to_string();
        let pods = world.kind("Pod");
        let response = world
            .server
            .patch_subresource(pods, "ns", "p", "status", MERGE, body.as_bytes());
        assert_eq!(response.code, 200);
        let response = world.delete("Pod", "p", &DeleteOptionsSpec::default());
        let grace = response.object().unwrap().meta.deletion_grace_period_seconds;
        assert_eq!(grace, Some(expected.unwrap_or(0)), "{phase}");
        assert_eq!(world.get("Pod", "p").is_null(), expected.is_none(), "{phase}");
    }
}
