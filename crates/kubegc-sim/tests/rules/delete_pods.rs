//! DELETE of pods: graceful termination, and the effects of a second request.

use kubegc_core::deletion::DeleteOptionsSpec;
use serde_json::json;

use crate::world::{World, grace, policy, world, world_of};

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
fn s_16_the_grace_period_comes_from_the_options_or_the_pod_or_is_zero() {
    type Case = (serde_json::Value, &'static str, DeleteOptionsSpec, Option<i64>);
    let cases: [Case; 6] = [
        (
            json!({"nodeName": "n"}),
            "",
            DeleteOptionsSpec::default(),
            Some(30),
        ),
        (
            json!({"nodeName": "n", "terminationGracePeriodSeconds": 7}),
            "",
            DeleteOptionsSpec::default(),
            Some(7),
        ),
        (json!({"nodeName": "n"}), "", grace(5), Some(5)),
        (json!({"nodeName": "n"}), "", grace(0), None),
        (json!({}), "", grace(5), None),
        (json!({"nodeName": "n"}), "Succeeded", grace(5), None),
    ];
    for (spec, phase, options, expected) in cases {
        let mut world = world();
        world.put_json("Pod", json!({"metadata": {"name": "p"}, "spec": spec}));
        if !phase.is_empty() {
            let body = json!({"status": {"phase": phase}}).to_string();
            let response = world.server.patch_subresource(
                world.kind("Pod"),
                "ns",
                "p",
                "status",
                crate::world::MERGE,
                body.as_bytes(),
            );
            assert_eq!(response.code, 200);
        }
        let response = world.delete("Pod", "p", &options);
        assert_eq!(response.code, 200);
        let meta = &response.object().unwrap().meta;
        match expected {
            Some(seconds) => {
                let (date, grace) = left(&world, "p");
                assert_eq!(grace, seconds, "{spec}");
                let expected = world.server.now().as_secs() + seconds;
                assert_eq!(meta.deletion_timestamp.unwrap().as_secs(), expected);
                assert!(date.is_string());
            }
            None => {
                assert!(world.get("Pod", "p").is_null(), "{spec} {phase}");
                assert_eq!(meta.deletion_grace_period_seconds, Some(0));
            }
        }
    }
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
fn s_14_a_pod_without_a_grace_period_left_is_deleted_like_any_object() {
    let mut world = world();
    bound(&mut world, "p", &["test.dev/hold"]);
    world.delete("Pod", "p", &grace(0));
    let generation = world.get("Pod", "p")["metadata"]["generation"].clone();
    world.delete("Pod", "p", &policy("Foreground"));
    assert_eq!(
        world.finalizers("Pod", "p"),
        ["test.dev/hold", "foregroundDeletion"]
    );
    assert_eq!(world.get("Pod", "p")["metadata"]["generation"], generation);
}

#[test]
fn s_4_a_negative_grace_period_counts_as_one_second_since_1_22() {
    for (version, expected) in [("1.20.2", None), ("1.28.0", Some(1))] {
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
