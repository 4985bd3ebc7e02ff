//! Revisions and events: what is retained for watches, and objects that are loaded.

use kubegc_core::ObjectMeta;
use kubegc_sim::Settings;
use serde_json::json;

use crate::world::{open_world, policy, world};

#[test]
fn an_inserted_object_is_stored_unchanged_and_causes_no_event() {
    let mut world = open_world();
    let kind = world.kind("Secret");
    let mut meta = ObjectMeta::new("ns", "a", "u1");
    meta.resource_version = "500".into();
    meta.finalizers.push("not qualified".into());
    meta.deletion_timestamp = Some(kubegc_core::Timestamp::from_secs(5));
    world.server.insert(kind, meta.clone()).unwrap();
    let bare = ObjectMeta::new("ns", "b", "u2");
    world.server.insert(kind, bare).unwrap();
    assert_eq!(world.server.object(kind, "ns", "a").unwrap().meta, meta);
    let assigned = world.server.object(kind, "ns", "b").unwrap();
    assert_eq!(assigned.meta.resource_version.as_str(), "501");
    assert_eq!(world.server.changes_since(0).count(), 0);
    world.delete("Secret", "b", &policy("Background"));
    assert_eq!(world.server.revision(), 502);
    assert_eq!(world.events("Secret", 501), ["DELETED b"]);
    assert!(world.server.insert(kind, ObjectMeta::new("ns", "", "")).is_err());
}

#[test]
fn pruned_changes_are_expired() {
    let mut world = world();
    let start = world.server.revision();
    for name in ["a", "b", "c"] {
        world.put("Secret", name, &[]);
    }
    let kind = world.kind("Secret");
    world.server.prune_events(start + 2);
    let expired = world.server.events_since(kind, start + 1).map(drop);
    assert_eq!(expired.unwrap_err().code, 410);
    assert_eq!(world.events("Secret", start + 2), ["ADDED c"]);
    let changes = world.server.changes_since(0);
    let changes: Vec<u64> = changes.map(|change| change.event.revision).collect();
    assert_eq!(changes, [start + 3]);
    // Other resources lose nothing that a watcher of them could miss.
    assert!(world.server.events_since(world.kind("Child"), 0).is_ok());
}

#[test]
fn a_bounded_log_keeps_the_newest() {
    let mut world = open_world();
    let settings = Settings {
        namespaces_must_exist: false,
        events_max: 2,
        ..Settings::default()
    };
    world.server = world.server.with_settings(settings);
    for name in ["a", "b", "c", "d"] {
        world.put("Secret", name, &[]);
    }
    let kind = world.kind("Secret");
    let newest = world.server.revision();
    assert!(world.server.events_since(kind, newest - 3).is_err());
    assert_eq!(world.events("Secret", newest - 2), ["ADDED c", "ADDED d"]);
}

#[test]
fn clones_differ_when_one_of_them_changes() {
    let mut one = world();
    one.put("Secret", "a", &[]);
    let mut two = one.clone();
    two.delete("Secret", "a", &policy("Background"));
    one.put("Child", "b", &[]);
    assert!(!one.get("Secret", "a").is_null() && two.get("Secret", "a").is_null());
    assert!(two.get("Child", "b").is_null());
    let (mut three, mut four) = (one.clone(), one.clone());
    for world in [&mut three, &mut four] {
        let response = world.create("Secret", json!({"metadata": {"name": "c"}}));
        assert_eq!(response.code, 201);
    }
    assert_eq!(
        three.get("Secret", "c"),
        four.get("Secret", "c"),
        "the same requests make the same uids"
    );
}
