//! Revisions and events: S-27 and the watch sequences of section 4.7.

use kubegc_core::{ObjectMeta, deletion::DeleteOptionsSpec};
use kubegc_sim::Settings;
use serde_json::json;

use crate::world::{MERGE, World, grace, open_world, policy, world};

/// Kind, finalizers, the requests, and the events that follow.
#[test]
fn each_action_has_its_sequence_of_events() {
    type Action = fn(&mut World);
    type Row<'a> = (&'a str, &'a [&'a str], &'a [Action], &'a [&'a str]);
    const DELETE: Action = |world| {
        world.delete("Secret", "a", &policy("Background"));
    };
    const DELETE_POD: Action = |world| {
        world.delete("Pod", "a", &grace(30));
    };
    let rows: [Row<'_>; 8] = [
        ("Secret", &[], &[DELETE], &["DELETED a"]),
        (
            "Secret",
            &[],
            &[|world| {
                world.delete("Secret", "a", &policy("Foreground"));
            }],
            &["MODIFIED a deleting"],
        ),
        (
            "Secret",
            &["x.dev/a"],
            &[DELETE, DELETE],
            &["MODIFIED a deleting"],
        ),
        (
            "Secret",
            &["x.dev/a"],
            &[DELETE, |world| {
                world.patch("Secret", "a", MERGE, &json!({"metadata": {"finalizers": null}}));
            }],
            &["MODIFIED a deleting", "DELETED a deleting"],
        ),
        (
            "Secret",
            &["x.dev/a", "x.dev/b"],
            &[DELETE, |world| {
                world.patch(
                    "Secret",
                    "a",
                    MERGE,
                    &json!({"metadata": {"finalizers": ["x.dev/b"]}}),
                );
            }],
            &["MODIFIED a deleting", "MODIFIED a deleting"],
        ),
        (
            "Pod",
            &[],
            &[DELETE_POD, |world| {
                world.delete("Pod", "a", &grace(0));
            }],
            &["MODIFIED a deleting", "MODIFIED a deleting", "DELETED a deleting"],
        ),
        (
            "Pod",
            &[],
            &[|world| {
                world.delete("Pod", "a", &grace(0));
            }],
            &["MODIFIED a deleting", "DELETED a deleting"],
        ),
        ("Pod", &[], &[DELETE_POD, DELETE_POD], &["MODIFIED a deleting"]),
    ];
    for (kind, finalizers, actions, expected) in rows {
        let mut world = world();
        world.put_json(
            kind,
            json!({"metadata": {"name": "a", "finalizers": finalizers}, "spec": {"nodeName": "n"}}),
        );
        let before = world.server.revision();
        for action in actions {
            action(&mut world);
        }
        assert_eq!(
            world.events(kind, before),
            expected,
            "{kind} {finalizers:?} {} actions",
            actions.len()
        );
    }
}

#[test]
fn s_27_every_write_makes_one_revision_of_the_whole_server() {
    let mut world = world();
    let start = world.server.revision();
    world.put("Secret", "a", &[]);
    world.put("Child", "b", &["x.dev/a"]);
    world.delete("Secret", "a", &policy("Background"));
    world.delete("Child", "b", &DeleteOptionsSpec::default());
    let changes: Vec<(u64, String)> = world
        .server
        .changes_since(start)
        .map(|change| {
            assert_eq!(
                change.event.object.meta.resource_version.as_str(),
                change.event.revision.to_string()
            );
            let kind = &world.server.catalog()[change.kind].kind;
            (
                change.event.revision - start,
                format!("{kind} {}", change.event.object.meta.name),
            )
        })
        .collect();
    let expected = [(1, "Secret a"), (2, "Child b"), (3, "Secret a"), (4, "Child b")];
    assert_eq!(
        changes,
        expected.map(|(revision, what)| (revision, what.to_owned()))
    );
}

#[test]
fn an_inserted_object_is_stored_unchanged_and_causes_no_event() {
    let mut world = open_world();
    let kind = world.kind("Secret");
    let mut meta = ObjectMeta::new("ns", "a", "u1");
    meta.resource_version = "500".into();
    meta.finalizers.push("not qualified".into());
    meta.deletion_timestamp = Some(kubegc_core::Timestamp::from_secs(5));
    world.server.insert_meta(kind, meta.clone()).unwrap();
    world
        .server
        .insert_meta(kind, ObjectMeta::new("ns", "b", "u2"))
        .unwrap();
    assert_eq!(world.server.object(kind, "ns", "a").unwrap().meta, meta);
    let assigned = &world
        .server
        .object(kind, "ns", "b")
        .unwrap()
        .meta
        .resource_version;
    assert_eq!(assigned.as_str(), "501");
    assert_eq!(world.server.changes_since(0).count(), 0);
    world.delete("Secret", "b", &policy("Background"));
    assert_eq!(world.server.revision(), 502);
    assert_eq!(world.events("Secret", 501), ["DELETED b"]);
    assert!(
        world
            .server
            .insert_meta(kind, ObjectMeta::new("ns", "", ""))
            .is_err()
    );
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
    let expired = world
        .server
        .events_since(kind, start + 1)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(expired.code, 410);
    assert_eq!(world.events("Secret", start + 2), ["ADDED c"]);
    let changes: Vec<u64> = world
        .server
        .changes_since(0)
        .map(|change| change.event.revision)
        .collect();
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

#[test]
fn lists_are_ordered_and_selected() {
    let mut world = open_world();
    let kind = world.kind("Secret");
    for (namespace, name, tier) in [("b", "x", "web"), ("a", "z", "db"), ("a", "y", "web")] {
        let object = json!({"metadata": {"name": name, "labels": {"tier": tier}}});
        assert_eq!(world.server.create_json(kind, namespace, object).code, 201);
    }
    let names = |namespace: Option<&str>, selector: &str| -> Vec<String> {
        let selector = selector.parse().unwrap();
        let response = world.server.list(kind, namespace, &selector);
        let items = response.items().iter();
        items
            .map(|object| format!("{}/{}", object.meta.namespace, object.meta.name))
            .collect()
    };
    assert_eq!(names(None, ""), ["a/y", "a/z", "b/x"]);
    assert_eq!(names(Some("a"), ""), ["a/y", "a/z"]);
    assert_eq!(names(None, "tier in (web, api)"), ["a/y", "b/x"]);
    assert_eq!(names(None, "tier!=web,tier"), ["a/z"]);
    assert_eq!(names(None, "!tier"), Vec::<String>::new());
}
