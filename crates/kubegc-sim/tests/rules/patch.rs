//! PATCH: the accepted formats, and their effects on metadata.

use kubegc_core::{Catalog, KubernetesVersion};
use kubegc_sim::ApiServer;
use serde_json::{Value, json};

use crate::world::{JSON, MERGE, STRATEGIC, World, message, owner, world, world_of};

const APPLY: &str = "application/apply-patch+yaml";

#[test]
fn p_7_the_format_is_refused_before_the_object_is_read() {
    let custom = "the body of the request was in an unknown format - accepted media types include: \
                  application/json-patch+json, application/merge-patch+json";
    let with_apply = format!("{custom}, {APPLY}");
    for (version, kind, format, expected) in [
        ("1.20.2", "Child", STRATEGIC, &*with_apply),
        ("1.13.0", "Child", STRATEGIC, custom),
        ("1.20.2", "Secret", "text/plain", "415: Unsupported Media Type"),
    ] {
        let mut world = world_of(version);
        let response = world.patch(kind, "missing", format, &json!("nonsense"));
        assert_eq!((response.code, message(&response)), (415, expected));
    }
    let response = world().patch("Secret", "missing", STRATEGIC, &json!({}));
    assert_eq!(response.code, 404);
    let kind = world().kind("Secret");
    let mut world = world();
    world.put("Secret", "a", &[]);
    let with_charset = format!("{MERGE}; charset=utf-8");
    assert_eq!(world.patch("Secret", "a", &with_charset, &json!({})).code, 200);
    for (format, code) in [(MERGE, 500), (STRATEGIC, 400), (JSON, 400)] {
        assert_eq!(world.server.patch(kind, "ns", "a", format, b"{").code, code);
    }
}

fn owners(names: &[&str]) -> Value {
    names.iter().map(|name| owner(name)).collect()
}

fn secret_with(references: &Value) -> World {
    let mut world = world();
    world.put_json(
        "Secret",
        json!({"metadata": {"name": "d", "ownerReferences": references}}),
    );
    world
}

#[test]
fn p_9_references_are_merged_by_uid() {
    let twice = {
        let mut elsewhere = owner("a");
        elsewhere["name"] = "elsewhere".into();
        json!([owner("a"), elsewhere, owner("b")])
    };
    let remove = |name: &str| json!({"$patch": "delete", "uid": format!("uid-{name}")});
    let blocked = {
        let mut blocked = owner("b");
        blocked["blockOwnerDeletion"] = false.into();
        blocked
    };
    for (live, patch, expected) in [
        (owners(&["a", "b"]), json!([remove("a")]), owners(&["b"])),
        (owners(&["a"]), json!([remove("a")]), Value::Null),
        (twice, json!([remove("a")]), owners(&["b"])),
        (owners(&["b"]), json!([remove("a")]), owners(&["b"])),
        (
            owners(&["a", "b", "c"]),
            json!([remove("c"), remove("a")]),
            owners(&["b"]),
        ),
        (
            owners(&["a", "b"]),
            json!([{"uid": "uid-b", "blockOwnerDeletion": false}]),
            json!([owner("a"), blocked]),
        ),
        (owners(&["a"]), json!([owner("z")]), owners(&["z", "a"])),
        (
            owners(&["a", "b", "c"]),
            json!([owner("b"), owner("a")]),
            owners(&["b", "a", "c"]),
        ),
        (
            owners(&["a", "b"]),
            json!([{"$patch": "replace"}, owner("c")]),
            owners(&["c"]),
        ),
    ] {
        let mut world = secret_with(&live);
        let before = world.server.revision();
        let patch = json!({"metadata": {"uid": "uid-d", "ownerReferences": patch}});
        let response = world.patch("Secret", "d", STRATEGIC, &patch);
        assert_eq!(response.code, 200, "{live} + {patch}: {}", message(&response));
        let stored = world.get("Secret", "d")["metadata"]["ownerReferences"].clone();
        assert_eq!(stored, expected, "{live} + {patch}");
        let changed = world.server.revision() != before;
        assert_eq!(changed, live != expected, "a write only where something changed");
    }
}

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
fn p_8_the_uid_in_a_patch_guards_against_a_successor() {
    let mut world = secret_with(&owners(&["a"]));
    let patch =
        json!({"metadata": {"uid": "uid-x", "ownerReferences": [{"$patch": "delete", "uid": "uid-a"}]}});
    let response = world.patch("Secret", "d", STRATEGIC, &patch);
    assert_eq!(response.code, 422);
    assert_eq!(response.status().unwrap().causes().len(), 2);
    assert_eq!(
        message(&response),
        r#"Secret "d" is invalid: metadata.uid: Invalid value: "uid-x": field is immutable"#
    );
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
fn finalizers_and_labels_merge_strategically_as_sets_and_maps() {
    for (patch, finalizers) in [
        (
            json!({"finalizers": ["x.dev/c"]}),
            vec!["x.dev/c", "x.dev/a", "x.dev/b"],
        ),
        (json!({"finalizers": ["x.dev/b"]}), vec!["x.dev/a", "x.dev/b"]),
        (json!({"finalizers": null}), vec![]),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["x.dev/a", "x.dev/z"]}),
            vec!["x.dev/b"],
        ),
        (
            json!({"$setElementOrder/finalizers": ["x.dev/b", "x.dev/a"]}),
            vec!["x.dev/b", "x.dev/a"],
        ),
        (
            json!({"$setElementOrder/finalizers": ["x.dev/b", "x.dev/c", "x.dev/a"], "finalizers": ["x.dev/c"]}),
            vec!["x.dev/b", "x.dev/c", "x.dev/a"],
        ),
        (
            json!({"$retainKeys": ["name", "namespace", "uid", "resourceVersion", "labels"], "labels": {"a": "b"}}),
            vec![],
        ),
    ] {
        let mut world = world();
        world.put("ConfigMap", "a", &["x.dev/a", "x.dev/b"]);
        let response = world.patch("ConfigMap", "a", STRATEGIC, &json!({"metadata": patch}));
        assert_eq!(response.code, 200, "{patch}: {}", message(&response));
        assert_eq!(world.finalizers("ConfigMap", "a"), finalizers, "{patch}");
    }
    let mut world = world();
    world.put_json(
        "ConfigMap",
        json!({"metadata": {"name": "a", "labels": {"a": "1", "b": "2"}}}),
    );
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}}, "data": {"k": "v"}});
    world.patch("ConfigMap", "a", STRATEGIC, &patch);
    let stored = world.get("ConfigMap", "a");
    assert_eq!(stored["metadata"]["labels"], json!({"b": "2", "c": "3"}));
    assert_eq!(stored["data"], json!({"k": "v"}));
}

#[test]
fn p_2_p_5_merge_patches_replace_lists_under_the_version_they_were_read_at() {
    for kind in ["Secret", "Child"] {
        let mut world = world();
        world.put_json(
            kind,
            json!({"metadata": {"name": "d", "finalizers": ["x.dev/a", "x.dev/b"], "ownerReferences": owners(&["a", "b"])}}),
        );
        let version = world.get(kind, "d")["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": [owner("b")]}});
        assert_eq!(world.patch(kind, "d", MERGE, &patch).code, 200);
        let meta = world.get(kind, "d")["metadata"].clone();
        assert_eq!(meta["ownerReferences"], owners(&["b"]));
        let stale = json!({"metadata": {"resourceVersion": version, "finalizers": null}});
        assert_eq!(world.patch(kind, "d", MERGE, &stale).code, 409);
        let fresh = json!({"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": ["x.dev/b"], "ownerReferences": null}});
        assert_eq!(world.patch(kind, "d", MERGE, &fresh).code, 200);
        let meta = world.get(kind, "d")["metadata"].clone();
        assert_eq!(meta["finalizers"], json!(["x.dev/b"]));
        assert!(meta.get("ownerReferences").is_none());
    }
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
fn json_patches_work_on_the_whole_object() {
    let mut world = world();
    world.put_json(
        "Child",
        json!({"metadata": {"name": "d", "finalizers": ["x.dev/a", "x.dev/b"]}, "spec": {"size": 1}}),
    );
    let patch = json!([
        {"op": "test", "path": "/metadata/finalizers/0", "value": "x.dev/a"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
        {"op": "replace", "path": "/spec/size", "value": 2},
    ]);
    assert_eq!(world.patch("Child", "d", JSON, &patch).code, 200);
    assert_eq!(world.finalizers("Child", "d"), ["x.dev/b"]);
    assert_eq!(world.get("Child", "d")["spec"]["size"], 2);
    let response = world.patch("Child", "d", JSON, &patch);
    assert_eq!(response.code, 422, "the test fails now, and nothing is applied");
    let response = world.patch("Child", "d", JSON, &json!({}));
    assert_eq!(response.code, 400);
}
