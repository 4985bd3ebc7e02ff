//! Finalizers of namespaces, and differences between releases (S-33 to S-36).

use kubegc_core::{DeleteOptions, KindId, deletion::DeleteOptionsSpec};
use kubegc_sim::{Filter, Response};
use serde_json::json;

use crate::world::{MERGE, World, grace, message, texts, world, world_of};

fn finalize(world: &mut World, kind: KindId, name: &str, finalizers: &[&str]) -> Response {
    let body = json!({"spec": {"finalizers": finalizers}}).to_string();
    let server = &mut world.server;
    server.patch_subresource(kind, "ns", name, "finalize", MERGE, body.as_bytes())
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
    let finalizers = ["kubernetes", "x.dev/a"];
    assert_eq!(finalize(&mut world, kind, "ns", &finalizers).code, 200);
    let namespace = world.get("Namespace", "ns");
    assert_eq!(texts(&namespace["spec"]["finalizers"]), ["kubernetes", "x.dev/a"]);
    let secrets = world.kind("Secret");
    assert_eq!(finalize(&mut world, secrets, "a", &finalizers).code, 404);
}

#[test]
fn an_object_whose_namespace_no_longer_exists_can_be_updated_from_1_37_on() {
    for (version, expected) in [("1.20.2", 404), ("1.36", 404), ("1.37", 200)] {
        let mut world = world_of(version);
        world.put("Secret", "left", &[]);
        world.delete("Namespace", "ns", &DeleteOptionsSpec::default());
        let kind = world.kind("Namespace");
        assert_eq!(finalize(&mut world, kind, "ns", &[]).code, 200);
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

#[test]
fn s_33_the_grace_of_one_pod_leaks_to_the_next_until_options_are_copied() {
    for (version, expected) in [("1.21.0", 3), ("1.22.0", 9)] {
        let mut world = world_of(version);
        for (name, seconds) in [("a", 3), ("b", 9)] {
            world.put_json(
                "Pod",
                json!({"metadata": {"name": name}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": seconds}}),
            );
        }
        let kind = world.kind("Pod");
        let options = DeleteOptions::default();
        world
            .server
            .delete_collection_with(kind, Some("ns"), &Filter::default(), &options);
        assert_eq!(
            world.get("Pod", "b")["metadata"]["deletionGracePeriodSeconds"],
            expected,
            "{version}"
        );
        assert_eq!(world.delete("Pod", "b", &grace(0)).code, 200);
    }
}
