//! Namespaces and collections: S-33 to S-36.

use kubegc_core::deletion::DeleteOptionsSpec;
use kubegc_sim::{Filter, Selector};
use serde_json::{Value, json};

use crate::world::{
    MERGE, World, expecting, grace, message, open_world, orphan_dependents, policy, texts, world, world_of,
};

#[test]
fn s_35_the_first_deletion_marks_and_a_namespace_is_removed_when_both_lists_are_empty() {
    let mut world = world();
    assert_eq!(
        texts(&world.get("Namespace", "ns")["spec"]["finalizers"]),
        ["kubernetes"]
    );
    let response = world.delete("Namespace", "ns", &DeleteOptionsSpec::default());
    assert_eq!(response.code, 200);
    let namespace = world.get("Namespace", "ns");
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert!(namespace["metadata"]["deletionTimestamp"].is_string());
    assert!(namespace["metadata"].get("deletionGracePeriodSeconds").is_none());
    let before = world.server.revision();
    let response = world.delete("Namespace", "ns", &policy("Orphan"));
    assert!(response.object().is_some() && world.server.revision() == before);
    let kind = world.kind("Namespace");
    let response = world.server.remove_namespace_finalizer(kind, "ns", "kubernetes");
    assert_eq!(response.code, 200);
    assert!(world.get("Namespace", "ns").is_null());
}

#[test]
fn s_35_the_collectors_finalizers_on_a_namespace_follow_rules_of_their_own() {
    for (stored, options, expected) in [
        (vec![], DeleteOptionsSpec::default(), vec![]),
        (vec!["orphan"], DeleteOptionsSpec::default(), vec!["orphan"]),
        (vec![], orphan_dependents(true), vec!["orphan"]),
        (
            vec!["orphan"],
            orphan_dependents(false),
            vec!["foregroundDeletion"],
        ),
        (vec![], policy("Orphan"), vec!["orphan"]),
        (vec!["orphan"], policy("Foreground"), vec!["foregroundDeletion"]),
        (vec!["x.dev/a", "orphan"], policy("Background"), vec!["x.dev/a"]),
    ] {
        let mut world = world();
        world.put("Namespace", "n", &stored);
        let response = world.delete("Namespace", "n", &options);
        let at = format!("{stored:?} {options:?}");
        assert_eq!(
            response.code,
            if options.orphan_dependents == Some(false) {
                202
            } else {
                200
            },
            "{at}"
        );
        assert_eq!(world.finalizers("Namespace", "n"), expected, "{at}");
        let kind = world.kind("Namespace");
        world.server.remove_namespace_finalizer(kind, "n", "kubernetes");
        assert_eq!(
            world.get("Namespace", "n").is_null(),
            expected.is_empty(),
            "metadata finalizers keep a namespace too: {at}"
        );
    }
}

#[test]
fn s_35_preconditions_on_namespaces_are_worded_by_the_storage() {
    let mut world = world();
    let response = world.delete("Namespace", "ns", &expecting(Some("other"), None));
    assert_eq!(response.code, 409);
    assert!(message(&response).starts_with(
        "Operation cannot be fulfilled on namespaces \"ns\": Precondition failed: UID in precondition: other,"
    ));
    for name in ["default", "kube-system", "kube-public"] {
        let response = world.delete("Namespace", name, &DeleteOptionsSpec::default());
        assert_eq!(
            (response.code, message(&response)),
            (
                403,
                &*format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted")
            )
        );
    }
}

#[test]
fn only_finalize_changes_the_finalizers_of_the_spec() {
    let mut world = world();
    world.patch(
        "Namespace",
        "ns",
        MERGE,
        &json!({"spec": {"finalizers": []}, "status": {"phase": "Odd"}}),
    );
    let namespace = world.get("Namespace", "ns");
    assert_eq!(texts(&namespace["spec"]["finalizers"]), ["kubernetes"]);
    assert_eq!(namespace["status"]["phase"], "Active");
    let kind = world.kind("Namespace");
    let body = json!({"spec": {"finalizers": ["kubernetes", "x.dev/a"]}}).to_string();
    let finalize = |world: &mut World, kind, name: &str| {
        let body = body.as_bytes();
        world
            .server
            .patch_subresource(kind, "ns", name, "finalize", MERGE, body)
    };
    assert_eq!(finalize(&mut world, kind, "ns").code, 200);
    let namespace = world.get("Namespace", "ns");
    assert_eq!(texts(&namespace["spec"]["finalizers"]), ["kubernetes", "x.dev/a"]);
    let secrets = world.kind("Secret");
    assert_eq!(finalize(&mut world, secrets, "a").code, 404);
}

#[test]
fn s_36_nothing_is_created_in_a_terminating_or_missing_namespace() {
    let mut world = world();
    world.put("Secret", "held", &["x.dev/a"]);
    world.delete("Namespace", "ns", &DeleteOptionsSpec::default());
    assert!(world.server.is_terminating("ns"));
    let response = world.create("ConfigMap", json!({"metadata": {"name": "late"}}));
    assert_eq!(response.code, 403);
    assert_eq!(
        message(&response),
        "configmaps \"late\" is forbidden: unable to create new content in namespace ns because it is being terminated"
    );
    let cause = &response.status().unwrap().causes()[0];
    assert_eq!(
        (cause.reason, &*cause.field, &*cause.message),
        (
            "NamespaceTerminating",
            "metadata.namespace",
            "namespace ns is being terminated"
        )
    );
    assert_eq!(
        world.create("Boss", json!({"metadata": {"name": "free"}})).code,
        201
    );
    assert_eq!(
        world
            .patch(
                "Secret",
                "held",
                MERGE,
                &json!({"metadata": {"labels": {"a": "b"}}})
            )
            .code,
        200
    );
    let kind = world.kind("Secret");
    let response = world
        .server
        .create_json(kind, "nowhere", json!({"metadata": {"name": "a"}}));
    assert_eq!(
        (response.code, message(&response)),
        (404, "namespaces \"nowhere\" not found")
    );
    let mut open = open_world();
    let response = open
        .server
        .create_json(kind, "nowhere", json!({"metadata": {"name": "a"}}));
    assert_eq!(response.code, 201);
}

#[test]
fn an_object_whose_namespace_no_longer_exists_can_be_updated_from_1_37_on() {
    for (version, expected) in [("1.20.2", 404), ("1.36", 404), ("1.37", 200)] {
        let mut world = world_of(version);
        world.put("Secret", "left", &[]);
        let namespace = world.kind("Namespace");
        world.delete("Namespace", "ns", &DeleteOptionsSpec::default());
        let removed = world
            .server
            .remove_namespace_finalizer(namespace, "ns", "kubernetes");
        assert_eq!(removed.code, 200);
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        let response = world.patch("Secret", "left", MERGE, &label);
        assert_eq!(response.code, expected, "{version}");
        if expected == 404 {
            assert_eq!(message(&response), "namespaces \"ns\" not found");
        }
        let deleted = world.delete("Secret", "left", &DeleteOptionsSpec::default());
        assert_eq!(deleted.code, 200, "{version}: a delete needs no namespace");
    }
}

fn secrets(labels: &[(&str, Value)]) -> World {
    let mut world = world();
    for (name, finalizers) in labels {
        world.put_json(
            "Secret",
            json!({"metadata": {"name": name, "finalizers": finalizers, "labels": {"name": name}}}),
        );
    }
    world
}

#[test]
fn s_33_a_collection_is_deleted_one_by_one_with_the_same_options() {
    let mut world = secrets(&[
        ("a", json!([])),
        ("b", json!(["x.dev/a"])),
        ("c", json!(["orphan"])),
    ]);
    let kind = world.kind("Secret");
    let picked: Selector = "name!=a".parse().unwrap();
    let response =
        world
            .server
            .delete_collection(kind, Some("ns"), &picked.clone().into(), &policy("Background"));
    let names: Vec<&str> = response.items().iter().map(|object| &*object.meta.name).collect();
    assert_eq!((response.code, names), (200, vec!["b", "c"]));
    assert!(!world.get("Secret", "a").is_null() && world.get("Secret", "c").is_null());
    assert_eq!(world.finalizers("Secret", "b"), ["x.dev/a"]);
    let response = world
        .server
        .delete_collection(kind, None, &Filter::default(), &policy("Odd"));
    assert_eq!(response.code, 422);
}

#[test]
fn s_34_preconditions_apply_to_each_object_and_the_first_refusal_ends_the_request() {
    let mut world = secrets(&[("a", json!([])), ("b", json!([]))]);
    let kind = world.kind("Secret");
    let everything = Filter::default();
    let options = expecting(Some("uid-a"), None);
    let response = world
        .server
        .delete_collection(kind, Some("ns"), &everything, &options);
    assert_eq!(response.code, 409);
    assert!(world.get("Secret", "a").is_null() && !world.get("Secret", "b").is_null());
    let namespaces = world.kind("Namespace");
    let response = world
        .server
        .delete_collection(namespaces, None, &everything, &options);
    let can = world.server.catalog()[namespaces].verbs.delete_collection;
    assert_eq!(response.code == 405, !can);
}

#[test]
fn s_33_the_grace_of_one_pod_leaks_to_the_next_until_options_are_copied() {
    for (version, expected) in [("1.20.2", 3), ("1.30.0", 9)] {
        let mut world = world_of(version);
        for (name, seconds) in [("a", 3), ("b", 9)] {
            world.put_json(
                "Pod",
                json!({"metadata": {"name": name}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": seconds}}),
            );
        }
        let kind = world.kind("Pod");
        let options = DeleteOptionsSpec::default();
        world
            .server
            .delete_collection(kind, Some("ns"), &Filter::default(), &options);
        assert_eq!(
            world.get("Pod", "b")["metadata"]["deletionGracePeriodSeconds"],
            expected,
            "{version}"
        );
        assert_eq!(world.delete("Pod", "b", &grace(0)).code, 200);
    }
}
