//! Managers of fields after writes other than applies: without types, only applied objects have managers.

use kubegc_sim::Settings;
use serde_json::{Value, json};

use crate::world::{MERGE, World, world, world_of};

fn applied() -> World {
    let mut world = world();
    let config = json!({"metadata": {"name": "a", "finalizers": ["x.dev/a"]}, "spec": {"replicas": 1, "paused": true}});
    assert_eq!(world.apply("Deployment", "one", config).code, 201);
    world.server.set_field_manager("editor");
    world
}

#[test]
fn objects_that_were_not_applied_have_no_managers() {
    let mut world = world();
    world.server.set_field_manager("editor");
    assert_eq!(world.server.field_manager(), "editor");
    world.put_json(
        "Deployment",
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}),
    );
    world.patch("Deployment", "a", MERGE, &json!({"spec": {"replicas": 2}}));
    assert_eq!(world.managers("Deployment", "a"), []);
}

#[test]
fn a_write_takes_the_fields_that_it_changes() {
    let one = |fields: Value| ("one Apply".to_owned(), fields);
    let finalizer = json!({"f:finalizers": {"v:\"x.dev/a\"": {}}});
    for (patch, expected) in [
        (
            json!({"spec": {"replicas": 2}}),
            vec![
                one(json!({"f:metadata": finalizer, "f:spec": {"f:paused": {}}})),
                ("editor Update".to_owned(), json!({"f:spec": {"f:replicas": {}}})),
            ],
        ),
        (
            json!({"metadata": {"annotations": {"n": "1"}}}),
            vec![
                one(json!({"f:metadata": finalizer, "f:spec": {"f:paused": {}, "f:replicas": {}}})),
                (
                    "editor Update".to_owned(),
                    json!({"f:metadata": {"f:annotations": {".": {}, "f:n": {}}}}),
                ),
            ],
        ),
        (
            json!({"metadata": {"finalizers": null}, "spec": {"paused": null}}),
            vec![one(json!({"f:spec": {"f:replicas": {}}}))],
        ),
        (
            json!({"spec": {"replicas": 1}}),
            vec![one(
                json!({"f:metadata": finalizer, "f:spec": {"f:paused": {}, "f:replicas": {}}}),
            )],
        ),
    ] {
        let mut world = applied();
        assert_eq!(world.patch("Deployment", "a", MERGE, &patch).code, 200);
        assert_eq!(world.managers("Deployment", "a"), expected, "{patch}");
        // An equal update writes nothing.
        let revision = world.server.revision();
        world.patch("Deployment", "a", MERGE, &patch);
        assert_eq!(world.server.revision(), revision);
    }
}

#[test]
fn managers_do_not_depend_on_when_they_are_read() {
    for kind in ["ConfigMap", "Child"] {
        let run = |reads: bool| {
            let mut world = world_of("1.34.0");
            world.server = world.server.with_settings(Settings {
                types: true,
                ..Settings::default()
            });
            let object = json!({"metadata": {"name": "a", "labels": {"base": "1"}}});
            assert_eq!(world.create(kind, object).code, 201);
            for round in 0..40 {
                world.server.set_field_manager(["one", "two", "three"][round % 3]);
                let label = format!("l{}", round % 7);
                let value = (round % 5 != 0).then(|| round.to_string());
                let patch = json!({"metadata": {"labels": {label: value}}});
                assert_eq!(world.patch(kind, "a", MERGE, &patch).code, 200);
                if reads {
                    world.managers(kind, "a");
                }
            }
            world.managers(kind, "a")
        };
        let managers = run(false);
        assert_eq!(managers, run(true), "{kind}");
        assert!(managers.len() > 1, "{kind}: {managers:?}");
    }
}
