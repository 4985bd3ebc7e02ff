//! PATCH: strategic merges of references, finalizers and taints, and the accepted formats.

use kubegc_core::{Catalog, KubernetesVersion};
use kubegc_sim::ApiServer;
use serde_json::json;

use crate::world::{MERGE, STRATEGIC, message, owner, world, world_of};

#[test]
fn p_9_a_directive_without_a_list_becomes_a_reference_until_1_28() {
    let patch = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "uid-a"}]}});
    for (version, code) in [("1.20.2", 422), ("1.27.0", 422), ("1.28.0", 200)] {
        let mut world = world_of(version);
        world.put("Secret", "d", &[]);
        let before = world.server.revision();
        let response = world.patch("Secret", "d", STRATEGIC, &patch);
        assert_eq!(response.code, code, "{version}");
        assert_eq!(world.server.revision(), before);
        if code == 422 {
            for problem in ["version", "kind", "name"] {
                assert!(message(&response).contains(&format!("{problem} must not be empty")));
            }
        }
    }
}

#[test]
fn taints_have_no_key_to_merge_by_so_that_the_patch_replaces_them() {
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let mut server = ApiServer::new(
        KubernetesVersion::LATEST,
        Catalog::builtin(KubernetesVersion::LATEST),
    );
    let nodes = server.catalog().mapping("v1", "Node").unwrap();
    let taints = json!([
        taint("x.dev/a", "NoSchedule"),
        taint("x.dev/a", "NoExecute"),
        taint("x.dev/b", "NoSchedule")
    ]);
    let made = server.create_json(
        nodes,
        "",
        json!({"metadata": {"name": "n"}, "spec": {"taints": taints}}),
    );
    assert_eq!(made.code, 201, "{}", message(&made));
    let left = json!([taint("x.dev/b", "NoSchedule")]);
    let patch = json!({"spec": {"taints": left}}).to_string();
    let response = server.patch(nodes, "", "n", STRATEGIC, patch.as_bytes());
    assert_eq!(response.code, 200, "{}", message(&response));
    assert_eq!(response.object().unwrap().at(&["spec", "taints"]), Some(&left));
}

#[test]
fn equal_references_in_a_patch_are_dropped_after_admission() {
    let mut world = world();
    world.put("Child", "d", &[]);
    let patch = json!({"metadata": {"ownerReferences": [owner("a"), owner("a")]}});
    let response = world.patch("Child", "d", MERGE, &patch);
    assert_eq!(response.object().unwrap().meta.owner_references.len(), 1);
    assert!(response.warnings[0].contains("after mutating admission happens"));
}

#[test]
fn p_7_applies_are_a_format_from_1_16_on_and_parameters_of_a_format_are_ignored() {
    let expected = "the body of the request was in an unknown format - accepted media types include: \
                    application/json-patch+json, application/merge-patch+json";
    let response = world_of("1.13.0").patch("Child", "missing", STRATEGIC, &json!("nonsense"));
    assert_eq!((response.code, message(&response)), (415, expected));
    let mut world = world();
    world.put("Secret", "a", &[]);
    let with_charset = format!("{MERGE}; charset=utf-8");
    assert_eq!(world.patch("Secret", "a", &with_charset, &json!({})).code, 200);
}

#[test]
fn p_9_references_are_merged_by_uid() {
    let moved = |name: &str, to: &str| {
        let mut reference = owner(name);
        reference["name"] = to.into();
        reference
    };
    let remove = json!({"$patch": "delete", "uid": "uid-a"});
    let blocks = json!({"uid": "uid-a", "blockOwnerDeletion": false});
    let mut blocked = owner("a");
    blocked["blockOwnerDeletion"] = false.into();
    for (patch, expected) in [
        (json!([remove]), json!([owner("b")])),
        (json!([blocks]), json!([blocked, moved("a", "other"), owner("b")])),
        (
            json!([owner("z")]),
            json!([owner("z"), owner("a"), moved("a", "other"), owner("b")]),
        ),
        (json!([{"$patch": "replace"}, owner("c")]), json!([owner("c")])),
    ] {
        let mut world = world();
        let references = json!([owner("a"), moved("a", "other"), owner("b")]);
        let object = json!({"metadata": {"name": "d", "ownerReferences": references}});
        world.put_json("Secret", object);
        let patch = json!({"metadata": {"uid": "uid-d", "ownerReferences": patch}});
        let response = world.patch("Secret", "d", STRATEGIC, &patch);
        assert_eq!(response.code, 200, "{patch}: {}", message(&response));
        let stored = &world.get("Secret", "d")["metadata"]["ownerReferences"];
        assert_eq!(*stored, expected, "{patch}");
    }
}

#[test]
fn finalizers_merge_strategically_as_a_set() {
    for (patch, finalizers) in [
        (
            json!({"finalizers": ["x.dev/c"]}),
            &["x.dev/c", "x.dev/a", "x.dev/b"][..],
        ),
        (json!({"finalizers": ["x.dev/b"]}), &["x.dev/a", "x.dev/b"]),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["x.dev/a", "x.dev/z"]}),
            &["x.dev/b"],
        ),
        (
            json!({"$setElementOrder/finalizers": ["x.dev/b", "x.dev/c", "x.dev/a"], "finalizers": ["x.dev/c"]}),
            &["x.dev/b", "x.dev/c", "x.dev/a"],
        ),
        (
            json!({"$retainKeys": ["name", "namespace", "uid", "resourceVersion", "labels"], "labels": {"a": "b"}}),
            &[],
        ),
    ] {
        let mut world = world();
        world.put("ConfigMap", "a", &["x.dev/a", "x.dev/b"]);
        let response = world.patch("ConfigMap", "a", STRATEGIC, &json!({"metadata": patch}));
        assert_eq!(response.code, 200, "{patch}: {}", message(&response));
        assert_eq!(world.finalizers("ConfigMap", "a"), finalizers, "{patch}");
    }
}
