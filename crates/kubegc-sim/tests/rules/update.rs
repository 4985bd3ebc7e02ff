//! Writes to existing objects: mutable fields, and removal of terminating objects.

use serde_json::{Value, json};

use crate::world::{MERGE, World, message, owner, policy, world};

fn edited(world: &World, kind: &str, edit: impl FnOnce(&mut Value)) -> Value {
    let mut object = world.get(kind, "a");
    edit(&mut object);
    object
}

#[test]
fn s_20_removing_the_last_finalizer_of_a_terminating_object_removes_it_without_a_write() {
    for kind in ["ConfigMap", "Child", "ServiceAccount"] {
        let mut world = world();
        world.put(kind, "a", &["x.dev/a"]);
        world.delete(kind, "a", &policy("Background"));
        let stored = world.get(kind, "a");
        let before = world.server.revision();
        let object = edited(&world, kind, |object| {
            object["metadata"]["finalizers"] = json!([]);
            object["metadata"]["labels"] = json!({"last": "words"});
        });
        let response = world.update(kind, "a", object);
        let answered = response.object().unwrap();
        assert_eq!(response.code, 200);
        assert!(answered.meta.finalizers.is_empty() && answered.meta.labels.len() == 1);
        assert!(world.get(kind, "a").is_null());
        let events: Vec<_> = world
            .server
            .events_since(world.kind(kind), before)
            .unwrap()
            .collect();
        assert_eq!(events.len(), 1);
        let last = &events[0].object.meta;
        assert_eq!(last.finalizers, ["x.dev/a".into()], "the last stored state");
        assert!(last.labels.is_empty());
        assert_eq!(events[0].revision, before + 1);
        assert_eq!(last.resource_version.as_str(), (before + 1).to_string());
        assert_ne!(
            stored["metadata"]["resourceVersion"],
            last.resource_version.as_str()
        );
    }
}

#[test]
fn s_20_a_pod_with_a_grace_period_left_waits_for_its_node() {
    let mut world = world();
    world.put_json(
        "Pod",
        json!({"metadata": {"name": "a", "finalizers": ["x.dev/a"]}, "spec": {"nodeName": "n"}}),
    );
    world.delete("Pod", "a", &policy("Background"));
    world.patch("Pod", "a", MERGE, &json!({"metadata": {"finalizers": null}}));
    assert!(world.finalizers("Pod", "a").is_empty() && !world.get("Pod", "a").is_null());
}

#[test]
fn s_21_no_finalizer_is_added_to_a_terminating_object() {
    let forbidden = |extra: &str| {
        format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{extra}}}"
        )
    };
    for (finalizers, problem) in [
        (json!(["x.dev/b", "x.dev/a"]), None),
        (json!(["x.dev/b"]), None),
        (
            json!(["x.dev/a", "x.dev/b", "x.dev/c"]),
            Some(forbidden(r#""x.dev/c""#)),
        ),
        (
            json!(["x.dev/z", "x.dev/c"]),
            Some(forbidden(r#""x.dev/c", "x.dev/z""#)),
        ),
        (
            json!(["x.dev/a", "foregroundDeletion"]),
            Some(forbidden(r#""foregroundDeletion""#)),
        ),
    ] {
        for kind in ["ConfigMap", "Child"] {
            let mut world = world();
            world.put(kind, "a", &["x.dev/a", "x.dev/b"]);
            let patch = json!({"metadata": {"finalizers": finalizers}});
            let response = world.clone().patch(kind, "a", MERGE, &patch);
            assert_eq!(response.code, 200, "finalizers may change until it is deleted");
            world.delete(kind, "a", &policy("Background"));
            let response = world.patch(kind, "a", MERGE, &patch);
            match &problem {
                None => assert_eq!(response.code, 200, "{finalizers}"),
                Some(problem) => {
                    assert_eq!(response.code, 422);
                    let causes = response.status().unwrap().causes();
                    assert_eq!(
                        causes.len(),
                        2,
                        "found by generic validation and by that of the kind"
                    );
                    assert!(causes.iter().all(|cause| cause.message == *problem));
                    assert_eq!(
                        message(&response).matches("no new finalizers").count(),
                        1,
                        "and reported once"
                    );
                }
            }
        }
    }
}

/// Number of times each problem is found on an update: the layers of validation overlap, in other ways for
/// custom resources.
#[test]
fn problems_are_found_once_by_each_layer() {
    let two_controllers: Vec<Value> = ["o", "p"]
        .into_iter()
        .map(|name| {
            let mut reference = owner(name);
            reference["controller"] = true.into();
            reference
        })
        .collect();
    for (patch, kind, causes, count) in [
        (json!({"ownerReferences": two_controllers}), "Secret", 4, 1),
        (json!({"ownerReferences": two_controllers}), "Child", 3, 3),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]}),
            "Secret",
            4,
            1,
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]}),
            "Child",
            3,
            1,
        ),
        (
            json!({"finalizers": ["orphan", "foregroundDeletion"]}),
            "Secret",
            2,
            1,
        ),
        (
            json!({"finalizers": ["orphan", "foregroundDeletion"]}),
            "Child",
            1,
            1,
        ),
    ] {
        let mut world = world();
        world.put(kind, "a", &[]);
        let response = world.patch(kind, "a", MERGE, &json!({"metadata": patch}));
        assert_eq!(response.code, 422);
        let found = response.status().unwrap().causes();
        assert_eq!(found.len(), causes, "{kind} {patch}");
        // Texts that print the pointers of a custom resource differ each time.
        let times = message(&response).matches(&found[0].message).count();
        assert_eq!(times, count, "{kind} {patch}");
    }
}

#[test]
fn s_23_fields_of_the_server_are_kept_or_immutable() {
    let mut world = world();
    world.put_json(
        "Child",
        json!({"metadata": {"name": "a", "finalizers": ["x.dev/a"]}, "spec": 1}),
    );
    let stored = world.get("Child", "a");
    let object = edited(&world, "Child", |object| {
        object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
        object["metadata"]["generation"] = 99.into();
    });
    let response = world.update("Child", "a", object);
    assert_eq!(response.code, 200);
    assert_eq!(
        world.get("Child", "a"),
        stored,
        "both taken from the stored object"
    );
    let object = edited(&world, "Child", |object| {
        object["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    });
    let response = world.update("Child", "a", object);
    assert_eq!(
        message(&response),
        r#"Child.test.dev "a" is invalid: metadata.deletionTimestamp: Invalid value: 2001-01-01 00:00:00 +0000 UTC: field is immutable"#
    );
    world.delete("Child", "a", &policy("Background"));
    let deleting = world.get("Child", "a");
    let object = edited(&world, "Child", |object| {
        let meta = object["metadata"].as_object_mut().unwrap();
        meta.remove("deletionTimestamp");
        meta.remove("deletionGracePeriodSeconds");
    });
    assert_eq!(world.update("Child", "a", object).code, 200);
    assert_eq!(world.get("Child", "a"), deleting);
}

#[test]
fn generations_count_changes_of_the_spec() {
    let mut world = world();
    world.put_json("Child", json!({"metadata": {"name": "a"}, "spec": {"size": 1}}));
    for (patch, generation) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"metadata": {"annotations": {"a": "b"}}}), 1),
        (json!({"spec": {"size": 2}}), 2),
        (json!({"spec": {"size": 2}}), 2),
        (json!({"spec": {"size": 3}}), 3),
    ] {
        world.patch("Child", "a", MERGE, &patch);
        assert_eq!(
            world.get("Child", "a")["metadata"]["generation"],
            generation,
            "{patch}"
        );
    }
    world.put_json(
        "ConfigMap",
        json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
    );
    world.patch("ConfigMap", "a", MERGE, &json!({"data": {"k": "w"}}));
    let meta = world.get("ConfigMap", "a")["metadata"].clone();
    assert!(
        meta.get("generation").is_none(),
        "kinds without generation get none"
    );
}

#[test]
fn s_24_a_foreign_uid_is_a_conflict_for_put_and_invalid_for_patch() {
    let mut world = world();
    world.put("ConfigMap", "a", &[]);
    let object = edited(&world, "ConfigMap", |object| {
        object["metadata"]["uid"] = "other".into();
    });
    let response = world.update("ConfigMap", "a", object);
    assert_eq!(
        (response.code, message(&response)),
        (
            409,
            "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, \
             Key: /registry/configmaps/ns/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: other, UID in object meta: uid-a"
        )
    );
    let response = world.patch("ConfigMap", "a", MERGE, &json!({"metadata": {"uid": "other"}}));
    assert_eq!(
        (response.code, message(&response)),
        (
            422,
            r#"ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable"#
        )
    );
    let object = edited(&world, "ConfigMap", |object| {
        object["metadata"].as_object_mut().unwrap().remove("uid");
    });
    assert_eq!(world.update("ConfigMap", "a", object).code, 200);
}

#[test]
fn s_25_a_stale_version_is_a_conflict_and_none_depends_on_the_kind() {
    for (kind, subject, code) in [
        ("ConfigMap", "configmaps", 200),
        ("Child", "children.test.dev", 422),
    ] {
        let mut world = world();
        world.put(kind, "a", &[]);
        let stale = world.get(kind, "a");
        world.patch(kind, "a", MERGE, &json!({"metadata": {"labels": {"a": "b"}}}));
        let response = world.update(kind, "a", stale.clone());
        assert_eq!(response.code, 409);
        assert_eq!(
            message(&response),
            format!(
                "Operation cannot be fulfilled on {subject} \"a\": the object has been modified; please apply your \
                 changes to the latest version and try again"
            )
        );
        let mut unversioned = stale;
        unversioned["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        let response = world.update(kind, "a", unversioned);
        assert_eq!(response.code, code, "{}", message(&response));
        if code == 422 {
            assert!(
                message(&response).ends_with(
                    "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
                )
            );
        }
    }
}

#[test]
fn s_26_a_write_that_changes_nothing_has_no_event() {
    for kind in ["ConfigMap", "Child"] {
        let mut world = world();
        world.put_json(
            kind,
            json!({"metadata": {"name": "a", "labels": {"x": "y"}, "annotations": {"k": "v"}}, "data": {"k": "v"}}),
        );
        let before = (world.server.revision(), world.get(kind, "a"));
        for patch in [
            json!({}),
            json!({"metadata": {"labels": {"x": "y", "z": null}}}),
            json!({"metadata": {"ownerReferences": [], "finalizers": null}}),
            json!({"metadata": {"annotations": {"k": "v"}}, "data": {"k": "v"}}),
        ] {
            assert_eq!(world.patch(kind, "a", MERGE, &patch).code, 200, "{patch}");
        }
        assert_eq!(world.update(kind, "a", before.1.clone()).code, 200);
        assert_eq!((world.server.revision(), world.get(kind, "a")), before);
    }
}

#[test]
fn s_29_references_may_change_while_the_object_is_deleted() {
    let mut world = world();
    world.put("Child", "a", &["x.dev/a"]);
    world.delete("Child", "a", &policy("Background"));
    let patch = json!({"metadata": {"ownerReferences": [owner("o")]}});
    assert_eq!(world.patch("Child", "a", MERGE, &patch).code, 200);
    assert_eq!(
        world.get("Child", "a")["metadata"]["ownerReferences"],
        json!([owner("o")])
    );
}

#[test]
fn s_32_a_write_of_a_pod_status_keeps_references_and_spec() {
    let mut world = world();
    world.put_json(
        "Pod",
        json!({"metadata": {"name": "a", "ownerReferences": [owner("o")]}, "spec": {"nodeName": "n"}}),
    );
    let patch = json!({"metadata": {"ownerReferences": null}, "spec": {"nodeName": "m"}, "status": {"phase": "Running"}});
    let response = world.server.patch_subresource(
        world.kind("Pod"),
        "ns",
        "a",
        "status",
        MERGE,
        patch.to_string().as_bytes(),
    );
    assert_eq!(response.code, 200);
    let pod = world.get("Pod", "a");
    assert_eq!(pod["metadata"]["ownerReferences"], json!([owner("o")]));
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["status"]["phase"], "Running");
    let response = world.patch("Pod", "a", MERGE, &json!({"status": {"phase": "Failed"}}));
    assert_eq!(response.code, 200);
    assert_eq!(
        world.get("Pod", "a")["status"]["phase"],
        "Running",
        "an update of the object does not change the status"
    );
}

#[test]
fn the_url_names_the_object() {
    let mut world = world();
    world.put("ConfigMap", "a", &[]);
    for (patch, expected) in [
        (
            json!({"metadata": {"name": "b"}}),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({"metadata": {"namespace": "other"}}),
            "the namespace of the object (other) does not match the namespace on the request (ns)",
        ),
    ] {
        let response = world.patch("ConfigMap", "a", MERGE, &patch);
        assert_eq!((response.code, message(&response)), (400, expected));
    }
}
