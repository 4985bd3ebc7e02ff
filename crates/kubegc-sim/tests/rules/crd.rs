//! CustomResourceDefinitions: the kinds that they define, and the clean-up (S-38).

use std::time::Duration;

use kubegc_core::{ApiResource, KindId, Scope, deletion::DeleteOptionsSpec};
use kubegc_sim::{CrdCleaner, CrdRegistration, CrdStep, Event, Filter, Manifest, RegistrationStep};
use serde_json::{Value, json};

use crate::world::{MERGE, World, dry_run, expecting, message, orphan_dependents, policy, texts, world_of};

const CRD: &str = "CustomResourceDefinition";
const NAME: &str = "widgets.x.dev";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn cluster() -> World {
    cluster_of("1.20.2")
}

fn cluster_of(version: &str) -> World {
    let mut world = world_of(version);
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
    assert!(world.get(CRD, NAME)["metadata"]["finalizers"].is_null());
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
    let response = world
        .server
        .create_json(beta, "ns", json!({"metadata": {"name": "a"}}));
    assert_eq!(response.code, 201);
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
fn s_38_the_instances_are_removed_first_and_only_after_their_own_finalizers() {
    let mut world = cluster();
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
    let refused = world
        .server
        .create_json(kind, "ns", json!({"metadata": {"name": "late"}}));
    assert_eq!(refused.code, 405);
    let worked = CrdStep::Worked { name: NAME.into() };
    assert_eq!(cleaner.step(&mut world.server), worked);
    assert_eq!(
        condition(&world, "Terminating"),
        "True/InstanceDeletionInProgress"
    );
    let response = world
        .server
        .create_json(kind, "ns", json!({"metadata": {"name": "late"}}));
    assert_eq!(response.code, 405);
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
    world.server.insert_meta(crds, loaded.object.meta).unwrap();
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

/// `REST.Delete` of `customresourcedefinition/etcd.go`: no policy matters to the first DELETE.
#[test]
fn the_first_delete_adds_the_cleanup_finalizer_with_any_options() {
    for version in ["1.13.0", "1.20.2", "1.36.0"] {
        for (options, code) in [
            (DeleteOptionsSpec::default(), 200),
            (policy("Background"), 200),
            (policy("Foreground"), 200),
            (policy("Orphan"), 200),
            (orphan_dependents(true), 200),
            (orphan_dependents(false), 202),
        ] {
            let mut world = cluster_of(version);
            let mut object = definition("x.dev", "widgets", &["v1"]);
            object["metadata"]["finalizers"] = json!(["x.dev/stay"]);
            world.create(CRD, object);
            let before = world.server.revision();
            assert_eq!(world.delete(CRD, NAME, &options).code, code);
            let stored = world.get(CRD, NAME);
            let metadata = &stored["metadata"];
            assert_eq!(texts(&metadata["finalizers"]), ["x.dev/stay", CLEANUP]);
            assert!(metadata["deletionTimestamp"].is_string());
            assert!(metadata["deletionGracePeriodSeconds"].is_null());
            assert_eq!(metadata["generation"], 1);
            assert_eq!(condition(&world, "Terminating"), "True/InstanceDeletionPending");
            assert_eq!(world.events(CRD, before), ["MODIFIED widgets.x.dev deleting"]);
        }
    }
}

#[test]
fn a_dry_run_and_a_failed_precondition_mark_no_definition() {
    let mut world = cluster();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let before = world.server.revision();
    let response = world.delete(CRD, NAME, &dry_run());
    let shown = response.object().unwrap();
    assert!(shown.meta.is_deleting() && shown.meta.has_finalizer(CLEANUP));
    let uid = world.get(CRD, NAME)["metadata"]["uid"].clone();
    for (options, why) in [
        (
            expecting(Some("other"), None),
            format!(
                "UID in precondition: other, UID in object meta: {}",
                uid.as_str().unwrap()
            ),
        ),
        (
            expecting(None, Some("1")),
            format!("ResourceVersion in precondition: 1, ResourceVersion in object meta: {before}"),
        ),
    ] {
        let response = world.delete(CRD, NAME, &options);
        assert_eq!(response.code, 409);
        let expected = format!(
            "Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io \"{NAME}\": \
             Precondition failed: {why}"
        );
        assert_eq!(message(&response), expected);
    }
    assert_eq!(world.server.revision(), before);
}

#[test]
fn a_second_delete_of_a_definition_is_an_ordinary_one() {
    let mut world = cluster();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    world.delete(CRD, NAME, &policy("Foreground"));
    assert_eq!(world.finalizers(CRD, NAME), [CLEANUP]);
    world.delete(CRD, NAME, &policy("Foreground"));
    assert_eq!(world.finalizers(CRD, NAME), [CLEANUP, "foregroundDeletion"]);
    assert_eq!(world.get(CRD, NAME)["metadata"]["deletionGracePeriodSeconds"], 0);
    let mut cleaner = CrdCleaner::default();
    while cleaner.step(&mut world.server) != CrdStep::Idle {}
    assert_eq!(world.finalizers(CRD, NAME), ["foregroundDeletion"]);
}

/// `Store.DeleteCollection` calls `Store.Delete`, not the one of the definitions' registry.
#[test]
fn deletecollection_deletes_definitions_and_keeps_their_custom_resources() {
    let mut world = cluster();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let kind = widgets(&world, "v1");
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
    let crds = world.kind(CRD);
    let everything = Filter::default();
    let options = DeleteOptionsSpec::default();
    let response = world.server.delete_collection(crds, None, &everything, &options);
    assert_eq!(response.code, 200);
    assert!(world.get(CRD, NAME).is_null());
    assert_eq!(world.server.read(kind, "ns", "a").code, 404);
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    assert_eq!(world.server.read(kind, "ns", "a").code, 200);
}

#[test]
fn writes_keep_the_cleanup_finalizer_unless_they_remove_it() {
    for subresource in ["", "status"] {
        let mut world = cluster();
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
    let mut world = cluster();
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

/// `handleVersionUpdate` of `crdregistration_controller.go`.
#[test]
fn an_api_service_is_deleted_with_the_last_definition_of_its_group_and_version() {
    let mut world = cluster();
    world.create(CRD, definition("x.dev", "widgets", &["v1", "v2"]));
    let mut other = definition("x.dev", "gadgets", &["v1"]);
    other["spec"]["names"]["kind"] = json!("Gadget");
    world.create(CRD, other);
    let mut registration = CrdRegistration::default();
    assert_eq!(
        settle(&mut world, &mut registration),
        [created("v1.x.dev"), created("v2.x.dev")]
    );
    let service = api_service(&world, "v1.x.dev");
    assert_eq!(
        service["metadata"]["labels"],
        json!({"kube-aggregator.kubernetes.io/automanaged": "true"})
    );
    assert_eq!(
        service["spec"],
        json!({"group": "x.dev", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100})
    );
    // A terminating definition still counts.
    world.delete(CRD, NAME, &policy("Background"));
    assert_eq!(registration.step(&mut world.server), RegistrationStep::Idle);
    assert_eq!(settle(&mut world, &mut registration), [deleted("v2.x.dev")]);
    world.delete(CRD, "gadgets.x.dev", &policy("Background"));
    assert_eq!(settle(&mut world, &mut registration), [deleted("v1.x.dev")]);
    assert!(api_service(&world, "v1.x.dev").is_null());
}

#[test]
fn the_api_service_of_an_unserved_version_is_deleted() {
    let mut world = cluster();
    world.create(CRD, definition("x.dev", "widgets", &["v1", "v2"]));
    let mut registration = CrdRegistration::default();
    settle(&mut world, &mut registration);
    let versions =
        json!({"spec": {"versions": [{"name": "v1", "served": true}, {"name": "v2", "served": false}]}});
    assert_eq!(world.patch(CRD, NAME, MERGE, &versions).code, 200);
    assert_eq!(settle(&mut world, &mut registration), [deleted("v2.x.dev")]);
}

/// `checkAPIService` of `autoregister_controller.go`.
#[test]
fn a_deleted_api_service_is_created_again_and_a_changed_one_restored() {
    let mut world = cluster();
    world.create(CRD, definition("x.dev", "widgets", &["v1"]));
    let mut registration = CrdRegistration::default();
    settle(&mut world, &mut registration);
    let uid = api_service(&world, "v1.x.dev")["metadata"]["uid"].clone();
    world.delete("APIService", "v1.x.dev", &policy("Background"));
    assert_eq!(settle(&mut world, &mut registration), [created("v1.x.dev")]);
    let again = api_service(&world, "v1.x.dev");
    assert_ne!(again["metadata"]["uid"], uid);
    let change = json!({"spec": {"versionPriority": 1}});
    world.patch("APIService", "v1.x.dev", MERGE, &change);
    let updated = RegistrationStep::Updated {
        name: "v1.x.dev".into(),
    };
    assert_eq!(settle(&mut world, &mut registration), [updated]);
    assert_eq!(api_service(&world, "v1.x.dev")["spec"], again["spec"]);
    // While a finalizer remains, it is deleted once.
    let held = json!({"metadata": {"finalizers": ["x.dev/hold"]}});
    world.patch("APIService", "v1.x.dev", MERGE, &held);
    world.delete(CRD, NAME, &policy("Background"));
    assert_eq!(settle(&mut world, &mut registration), [deleted("v1.x.dev")]);
    assert!(api_service(&world, "v1.x.dev")["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn api_services_that_others_manage_are_ignored() {
    let mut world = cluster();
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
    let mut world = cluster();
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
    world.server.insert_meta(crds, meta).unwrap();
    assert_eq!(settle(&mut world, &mut registration), []);
}
