//! CustomResourceDefinitions: the kinds they bring, and the clean-up (S-38).

use std::time::Duration;

use kubegc_core::{ApiResource, KindId, Scope};
use kubegc_sim::{CrdCleaner, CrdStep, Event, Manifest, api_server::FINALIZER_CRD_CLEANUP};
use serde_json::{Value, json};

use crate::world::{MERGE, World, policy, texts, world};

const CRD: &str = "CustomResourceDefinition";
const NAME: &str = "widgets.x.dev";

fn cluster() -> World {
    let mut world = world();
    let crds = ApiResource::new(
        "apiextensions.k8s.io/v1",
        CRD,
        "customresourcedefinitions",
        Scope::Cluster,
    );
    // The built-in catalog of a release may have it.
    if world
        .server
        .catalog()
        .mapping("apiextensions.k8s.io/v1", CRD)
        .is_none()
    {
        world.server.register(crds).unwrap();
    }
    world
}

fn definition(group: &str, plural: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|name| json!({"name": name, "served": true, "storage": *name == versions[0]}))
        .collect();
    json!({"metadata": {"name": format!("{plural}.{group}")}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": plural}, "versions": versions}})
}

fn widgets(world: &World, version: &str) -> KindId {
    let api_version = format!("x.dev/{version}");
    world.server.catalog().mapping(&api_version, "Widget").unwrap()
}

fn condition(world: &World, name: &str) -> String {
    let definition = world.get(CRD, NAME);
    let conditions = definition["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition["type"] == name)
        .map_or_else(String::new, |condition| {
            format!(
                "{}/{}",
                condition["status"].as_str().unwrap(),
                condition["reason"].as_str().unwrap()
            )
        })
}

#[test]
fn a_definition_serves_its_kind_in_all_versions_over_the_same_objects() {
    let mut world = cluster();
    let created = world.create(
        CRD,
        definition("x.dev", "widgets", &["v1beta1", "v1", "v2alpha1"]),
    );
    assert_eq!(created.code, 201);
    assert_eq!(
        texts(&world.get(CRD, NAME)["metadata"]["finalizers"]),
        ["customresourcecleanup.apiextensions.k8s.io"]
    );
    let (beta, stable) = (widgets(&world, "v1beta1"), widgets(&world, "v1"));
    let preferred: Vec<&str> = world
        .server
        .catalog()
        .iter()
        .filter(|(_, resource)| &*resource.group == "x.dev" && resource.preferred)
        .map(|(_, resource)| &*resource.version)
        .collect();
    assert_eq!(preferred, ["v1"]);
    let before = world.server.revision();
    let answer = world
        .server
        .create_json(beta, "ns", json!({"metadata": {"name": "a"}}));
    assert_eq!(answer.code, 201);
    let object = world.server.read(stable, "ns", "a");
    let json = object.object().unwrap().to_json(&world.server.catalog()[stable]);
    assert_eq!(json["apiVersion"], "x.dev/v1");
    let seen = |kind| -> Vec<Event> {
        world
            .server
            .events_since(kind, before)
            .unwrap()
            .cloned()
            .collect()
    };
    assert_eq!(seen(beta), seen(stable));
    let change = world.server.changes_since(before).next().unwrap();
    assert_eq!(change.kind, stable, "watchers see the preferred version");
    assert_eq!(
        world
            .server
            .patch(beta, "ns", "a", crate::world::STRATEGIC, b"{}")
            .code,
        415
    );
}

#[test]
fn versions_come_and_go_with_the_definition() {
    let mut world = cluster();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let patch =
        json!({"spec": {"versions": [{"name": "v2", "served": true}, {"name": "v1", "served": false}]}});
    assert_eq!(world.patch(CRD, NAME, MERGE, &patch).code, 200);
    assert!(!world.server.serves(widgets(&world, "v1")));
    assert!(world.server.serves(widgets(&world, "v2")));
    assert_eq!(world.server.read(widgets(&world, "v1"), "ns", "a").code, 404);
    let discovered = world.server.discover();
    assert!(discovered.mapping("x.dev/v1", "Widget").is_none());
    assert!(discovered.mapping("x.dev/v2", "Widget").is_some());
}

#[test]
fn s_38_the_instances_go_first_and_their_own_finalizers_decide() {
    let mut world = cluster();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let kind = widgets(&world, "v1");
    for (name, finalizers) in [
        ("free", json!([])),
        ("held", json!(["x.dev/a"])),
        ("orphaned", json!(["orphan"])),
    ] {
        let object = json!({"metadata": {"name": name, "finalizers": finalizers}});
        assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
    }
    let mut cleaner = CrdCleaner::default();
    assert_eq!(cleaner.step(&mut world.server), CrdStep::Idle);
    let answer = world.delete(CRD, NAME, &policy("Background"));
    assert!(answer.object().unwrap().meta.is_deleting());
    let worked = CrdStep::Worked { name: NAME.into() };
    assert_eq!(cleaner.step(&mut world.server), worked);
    assert_eq!(
        condition(&world, "Terminating"),
        "True/InstanceDeletionInProgress"
    );
    let answer = world
        .server
        .create_json(kind, "ns", json!({"metadata": {"name": "late"}}));
    assert_eq!(answer.code, 405);
    assert_eq!(cleaner.step(&mut world.server), worked);
    let left: Vec<String> = world
        .server
        .objects(kind, None)
        .iter()
        .map(|object| object.meta.name.to_string())
        .collect();
    assert_eq!(left, ["held", "orphaned"]);
    // Counted at once, then every five seconds.
    assert_eq!(cleaner.step(&mut world.server), worked);
    let until = world.server.now().saturating_add(Duration::from_secs(5));
    assert_eq!(cleaner.step(&mut world.server), CrdStep::Waiting { until });
    for _ in 0..12 {
        world.tick(5);
        assert_eq!(cleaner.step(&mut world.server), worked);
    }
    assert_eq!(condition(&world, "Terminating"), "True/InstanceDeletionCheck");
    for name in ["held", "orphaned"] {
        let body = br#"{"metadata":{"finalizers":null}}"#;
        assert_eq!(world.server.patch(kind, "ns", name, MERGE, body).code, 200);
    }
    for _ in 0..4 {
        world.tick(5);
        cleaner.step(&mut world.server);
    }
    assert!(world.get(CRD, NAME).is_null());
    assert!(!world.server.serves(kind));
    assert_eq!(world.server.read(kind, "ns", "held").code, 404);
    assert_eq!(cleaner.step(&mut world.server), CrdStep::Idle);
    let again = world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    assert!(again.code == 201 && world.server.serves(kind), "served again");
    let object = json!({"metadata": {"name": "new"}});
    assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
}

#[test]
fn a_definition_that_is_loaded_serves_its_kind_and_its_name_is_enough_to_clean_up() {
    let mut world = cluster();
    let crds = world.kind(CRD);
    let loaded = Manifest::read(definition("x.dev", "widgets", &["v1"])).unwrap();
    world.server.insert(crds, loaded.object.clone()).unwrap();
    let kind = widgets(&world, "v1");
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
    // The same definition, known by its metadata alone.
    let mut meta = loaded.object.meta;
    meta.finalizers.push(FINALIZER_CRD_CLEANUP.into());
    world.server.insert_meta(crds, meta).unwrap();
    assert!(world.server.serves(kind));
    world.delete(CRD, NAME, &policy("Background"));
    let mut cleaner = CrdCleaner::default();
    while cleaner.step(&mut world.server) != CrdStep::Idle {}
    assert!(world.get(CRD, NAME).is_null() && !world.server.serves(kind));
    assert_eq!(world.server.len(kind), 0);
}

#[test]
fn s_38_a_definition_whose_names_were_taken_goes_without_touching_instances() {
    for (group, plural, reason) in [
        ("apps", "deployments", "False/OverlappingBuiltInResource"),
        ("test.dev", "children", "False/NeverEstablished"),
    ] {
        let mut world = cluster();
        let mut taken = definition(group, plural, &["v1"]);
        taken["metadata"]["finalizers"] = json!(["x.dev/stay"]);
        taken["metadata"]["name"] = NAME.into();
        assert_eq!(world.create(CRD, taken).code, 201);
        assert!(condition(&world, "Established").starts_with("False"));
        world.put("Child", "a", &[]);
        world.delete(CRD, NAME, &policy("Background"));
        let mut cleaner = CrdCleaner::default();
        for _ in 0..2 {
            cleaner.step(&mut world.server);
        }
        assert_eq!(condition(&world, "Terminating"), reason);
        assert_eq!(
            texts(&world.get(CRD, NAME)["metadata"]["finalizers"]),
            ["x.dev/stay"]
        );
        assert!(!world.get("Child", "a").is_null());
    }
}
