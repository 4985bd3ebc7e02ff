//! DELETE: grace periods of pods, and a server without a garbage collector.

use kubegc_core::deletion::DeleteOptionsSpec;
use kubegc_sim::Settings;
use serde_json::json;

use crate::world::{World, grace, open_world, policy, world};

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
fn a_pod_with_metadata_only_is_not_scheduled() {
    let mut world = world();
    let kind = world.kind("Pod");
    let meta = kubegc_core::ObjectMeta::new("ns", "p", "u1");
    world.server.insert(kind, meta).unwrap();
    world.delete("Pod", "p", &grace(30));
    assert!(world.get("Pod", "p").is_null());
}

#[test]
fn s_7_without_a_collector_finalizers_do_not_change() {
    let mut world = open_world();
    let settings = Settings {
        garbage_collection: false,
        namespaces_must_exist: false,
        ..Settings::default()
    };
    world.server = world.server.with_settings(settings);
    world.put("ConfigMap", "a", &["orphan"]);
    world.delete("ConfigMap", "a", &policy("Foreground"));
    assert_eq!(world.finalizers("ConfigMap", "a"), ["orphan"]);
}
