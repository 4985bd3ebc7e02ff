//! CustomResourceDefinitions: clean-up (S-38), loaded definitions, and their APIServices.

use std::time::Duration;

use kubegc_core::{DeleteOptions, KindId, deletion::DeleteOptionsSpec};
use kubegc_sim::{CrdCleaner, CrdRegistration, CrdStep, Filter, Manifest, RegistrationStep};
use serde_json::{Value, json};

use crate::world::{MERGE, World, policy, texts, world};

const CRD: &str = "CustomResourceDefinition";
const NAME: &str = "widgets.x.dev";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

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
    let definition = world.server.object(world.kind(CRD), "", NAME).unwrap();
    let condition = definition.condition(name);
    let text = |key: &str| condition[key].as_str().unwrap_or_default();
    format!("{}/{}", text("status"), text("reason"))
}

#[test]
fn s_38_the_instances_are_removed_first_and_only_after_their_own_finalizers() {
    let mut world = world();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let kind = widgets(&world, "v1");
    for (name, finalizers) in [
        ("free", json!([])),
        ("held", json!(["x.dev/a"])),
        ("orphaned", json!(["orphan"])),
        ("waiting", json!(["foregroundDeletion"])),
    ] {
        let object = json!({"metadata": {"name": name, "finalizers": finalizers}});
        assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
    }
    let mut cleaner = CrdCleaner::default();
    assert_eq!(cleaner.step(&mut world.server), CrdStep::Idle);
    // Even this policy deletes the instances.
    let response = world.delete(CRD, NAME, &policy("Orphan"));
    assert!(response.object().unwrap().meta.is_deleting());
    let worked = CrdStep::Worked { name: NAME.into() };
    assert_eq!(cleaner.step(&mut world.server), worked);
    assert_eq!(
        condition(&world, "Terminating"),
        "True/InstanceDeletionInProgress"
    );
    assert_eq!(cleaner.step(&mut world.server), worked);
    let left: Vec<String> = world
        .server
        .objects(kind, None)
        .iter()
        .map(|object| object.meta.name.to_string())
        .collect();
    assert_eq!(left, ["held", "orphaned", "waiting"]);
    // Counted at once, then every five seconds.
    assert_eq!(cleaner.step(&mut world.server), worked);
    let until = world.server.now().saturating_add(Duration::from_secs(5));
    assert_eq!(cleaner.step(&mut world.server), CrdStep::Waiting { until });
    for _ in 0..12 {
        world.tick(5);
        assert_eq!(cleaner.step(&mut world.server), worked);
    }
    assert_eq!(condition(&world, "Terminating"), "True/InstanceDeletionCheck");
    for name in ["held", "orphaned", "waiting"] {
        let body = br#"{"metadata":{"finalizers":null}}"#;
        assert_eq!(world.server.patch(kind, "ns", name, MERGE, body).code, 200);
    }
    for _ in 0..4 {
        world.tick(5);
        cleaner.step(&mut world.server);
    }
    assert!(world.get(CRD, NAME).is_null());
    assert!(!world.server.serves(kind));
}

#[test]
fn a_definition_that_is_loaded_serves_its_kind_and_its_name_is_enough_to_clean_up() {
    let mut world = world();
    let crds = world.kind(CRD);
    let loaded = Manifest::read(definition("x.dev", "widgets", &["v1"])).unwrap();
    world.server.insert(crds, loaded.object.clone()).unwrap();
    let kind = widgets(&world, "v1");
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
    // The same definition, known by its metadata alone.
    world.server.insert(crds, loaded.object.meta).unwrap();
    assert!(world.server.serves(kind));
    world.delete(CRD, NAME, &policy("Background"));
    let mut cleaner = CrdCleaner::default();
    while cleaner.step(&mut world.server) != CrdStep::Idle {}
    assert!(world.get(CRD, NAME).is_null() && !world.server.serves(kind));
    assert_eq!(world.server.len(kind), 0);
}

#[test]
fn s_38_a_definition_whose_names_were_taken_is_removed_without_its_instances() {
    for (group, plural, reason) in [
        ("apps", "deployments", "False/OverlappingBuiltInResource"),
        ("test.dev", "children", "False/NeverEstablished"),
    ] {
        let mut world = world();
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

/// `Store.DeleteCollection` calls `Store.Delete`, not the one of the definitions' registry.
#[test]
fn deletecollection_deletes_definitions_and_keeps_their_custom_resources() {
    let mut world = world();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let kind = widgets(&world, "v1");
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
    let crds = world.kind(CRD);
    let everything = Filter::default();
    let options = DeleteOptions::default();
    let response = world
        .server
        .delete_collection_with(crds, None, &everything, &options);
    assert_eq!(response.code, 200);
    assert!(world.get(CRD, NAME).is_null());
    assert_eq!(world.server.read(kind, "ns", "a").code, 404);
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    assert_eq!(world.server.read(kind, "ns", "a").code, 200);
}

#[test]
fn writes_keep_the_cleanup_finalizer_unless_they_remove_it() {
    for subresource in ["", "status"] {
        let mut world = world();
        world.create(CRD, definition("x.dev", "widgets", &["v1"]));
        let kind = widgets(&world, "v1");
        world.delete(CRD, NAME, &DeleteOptionsSpec::default());
        let mut object = world.get(CRD, NAME);
        object["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(world.update(CRD, NAME, object).code, 200);
        assert_eq!(world.finalizers(CRD, NAME), [CLEANUP]);
        let create = json!({"metadata": {"name": "late"}});
        assert_eq!(world.server.create_json(kind, "ns", create).code, 405);
        // The status endpoint takes finalizers too.
        let mut object = world.get(CRD, NAME);
        object["metadata"]["finalizers"] = json!([]);
        let response = match subresource {
            "status" => {
                let object = Manifest::read(object).unwrap().object;
                let crds = world.kind(CRD);
                world.server.update_part(crds, "", NAME, "status", object)
            }
            _ => world.update(CRD, NAME, object),
        };
        assert_eq!(response.code, 200);
        assert!(world.get(CRD, NAME).is_null() && !world.server.serves(kind));
    }
}

#[test]
fn a_terminating_definition_that_is_loaded_takes_no_custom_resources() {
    let mut world = world();
    let mut terminating = definition("x.dev", "widgets", &["v1"]);
    terminating["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:40Z");
    terminating["metadata"]["finalizers"] = json!([CLEANUP]);
    terminating["status"] = json!({"conditions": [{"type": "Terminating", "status": "True"}]});
    let crds = world.kind(CRD);
    let loaded = Manifest::read(terminating).unwrap().object;
    world.server.insert(crds, loaded).unwrap();
    let kind = widgets(&world, "v1");
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(world.server.create_json(kind, "ns", object).code, 405);
}

fn api_service(world: &World, name: &str) -> Value {
    world.get("APIService", name)
}

fn settle(world: &mut World, registration: &mut CrdRegistration) -> Vec<RegistrationStep> {
    let mut cleaner = CrdCleaner::default();
    while cleaner.step(&mut world.server) != CrdStep::Idle {}
    let steps = std::iter::repeat_with(|| registration.step(&mut world.server));
    steps.take_while(|step| *step != RegistrationStep::Idle).collect()
}

fn created(name: &str) -> RegistrationStep {
    RegistrationStep::Created { name: name.into() }
}

fn deleted(name: &str) -> RegistrationStep {
    RegistrationStep::Deleted { name: name.into() }
}

#[test]
fn the_api_service_of_an_unserved_version_is_deleted() {
    let mut world = world();
    world.create(CRD, definition("x.dev", "widgets", &["v1", "v2"]));
    let mut registration = CrdRegistration::default();
    settle(&mut world, &mut registration);
    let versions =
        json!({"spec": {"versions": [{"name": "v1", "served": true}, {"name": "v2", "served": false}]}});
    assert_eq!(world.patch(CRD, NAME, MERGE, &versions).code, 200);
    assert_eq!(settle(&mut world, &mut registration), [deleted("v2.x.dev")]);
}

#[test]
fn api_services_that_others_manage_are_ignored() {
    let mut world = world();
    for (name, managed) in [("v1.metrics.dev", json!(null)), ("v1.apps", json!("onstart"))] {
        let labels = json!({"kube-aggregator.kubernetes.io/automanaged": managed});
        let metadata = match managed {
            Value::Null => json!({"name": name}),
            _ => json!({"name": name, "labels": labels}),
        };
        assert_eq!(
            world.create("APIService", json!({"metadata": metadata})).code,
            201
        );
    }
    let mut registration = CrdRegistration::default();
    assert_eq!(registration.step(&mut world.server), RegistrationStep::Idle);
}

#[test]
fn a_contradiction_of_a_loaded_state_is_ignored_until_it_is_resolved() {
    let mut world = world();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let stray = json!({"metadata": {
        "name": "v1.y.dev", "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"}
    }});
    world.create("APIService", stray.clone());
    let mut registration = CrdRegistration::resumed(&world.server);
    assert_eq!(settle(&mut world, &mut registration), []);
    // Agreement: a definition and its APIService both exist, or neither does.
    world.delete(CRD, NAME, &policy("Background"));
    world.delete("APIService", "v1.y.dev", &policy("Background"));
    assert_eq!(settle(&mut world, &mut registration), []);
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    world.create("APIService", stray);
    assert_eq!(
        settle(&mut world, &mut registration),
        [created("v1.x.dev"), deleted("v1.y.dev")]
    );
    // A CRD known by its metadata alone has the versions of the catalog.
    let crds = world.kind(CRD);
    let mut meta = world.server.object(crds, "", NAME).unwrap().meta.clone();
    meta.labels.clear();
    world.server.insert(crds, meta).unwrap();
    assert_eq!(settle(&mut world, &mut registration), []);
}

/// `checkAPIService` of `autoregister_controller.go`.
#[test]
fn a_changed_api_service_is_restored_and_one_with_a_finalizer_is_deleted_once() {
    let mut world = world();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let mut registration = CrdRegistration::default();
    assert_eq!(settle(&mut world, &mut registration), [created("v1.x.dev")]);
    let spec = api_service(&world, "v1.x.dev")["spec"].clone();
    let change = json!({"spec": {"versionPriority": 1}});
    world.patch("APIService", "v1.x.dev", MERGE, &change);
    let updated = RegistrationStep::Updated {
        name: "v1.x.dev".into(),
    };
    assert_eq!(settle(&mut world, &mut registration), [updated]);
    assert_eq!(api_service(&world, "v1.x.dev")["spec"], spec);
    let held = json!({"metadata": {"finalizers": ["x.dev/hold"]}});
    world.patch("APIService", "v1.x.dev", MERGE, &held);
    world.delete(CRD, NAME, &policy("Background"));
    assert_eq!(settle(&mut world, &mut registration), [deleted("v1.x.dev")]);
    assert!(api_service(&world, "v1.x.dev")["metadata"]["deletionTimestamp"].is_string());
}
