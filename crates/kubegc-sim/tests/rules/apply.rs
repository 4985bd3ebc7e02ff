//! Server-side apply: created, changed and removed fields, and refusals.

use kubegc_sim::Response;
use serde_json::{Value, json};

use crate::world::{MERGE, World, expecting, message, policy, world, world_of};

fn data(fields: &Value) -> Value {
    json!({"metadata": {"name": "a"}, "data": fields})
}

fn ok(response: &Response) -> u16 {
    assert!(response.is_success(), "{}", message(response));
    response.code
}

fn conflicts(response: &Response) -> Vec<(&str, &str)> {
    assert_eq!(response.code, 409);
    let status = response.status().unwrap();
    assert_eq!(status.reason, "Conflict");
    let causes = status.causes().iter();
    causes
        .map(|cause| {
            assert_eq!(cause.reason, "FieldManagerConflict");
            (&*cause.field, &*cause.message)
        })
        .collect()
}

#[test]
fn a_first_apply_creates_the_object_and_records_its_manager() {
    let mut world = world_of("1.30.0");
    let config = json!({
        "metadata": {"name": "a", "labels": {"app": "web"}, "finalizers": ["x.dev/a"], "annotations": {"n": "1"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": [
            {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {}}]}}},
    });
    assert_eq!(ok(&world.apply("Deployment", "one", config)), 201);
    let stored = world.get("Deployment", "a");
    let expected = json!([{
        "manager": "one", "operation": "Apply", "apiVersion": "apps/v1", "time": "1970-01-12T13:46:40Z", "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {"v:\"x.dev/a\"": {}}, "f:annotations": {"f:n": {}}},
            "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}, "f:ports": {
                    "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}},
        },
    }]);
    assert_eq!(stored["metadata"]["managedFields"], expected);
    assert_eq!(stored["spec"]["replicas"], 2);
    assert_eq!(stored["metadata"]["generation"], 1);
}

#[test]
fn s_26_an_equal_configuration_writes_nothing() {
    let mut world = world();
    let config = data(&json!({"k": "1"}));
    ok(&world.apply("ConfigMap", "one", config.clone()));
    let (stored, revision) = (world.get("ConfigMap", "a"), world.server.revision());
    world.tick(10);
    for force in [false, true] {
        let response = world.apply_to("ConfigMap", None, "one", force, config.clone());
        assert_eq!(ok(&response), 200);
    }
    assert_eq!(world.get("ConfigMap", "a"), stored);
    assert_eq!(world.server.revision(), revision);
    // A second owner of the same values is a change; a new time of the first owner alone is not.
    ok(&world.apply("ConfigMap", "two", config));
    let times: Vec<Value> = world.get("ConfigMap", "a")["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["time"].clone())
        .collect();
    assert_eq!(times, ["1970-01-12T13:46:40Z", "1970-01-12T13:46:50Z"]);
}

#[test]
fn a_conflict_names_each_field_and_its_owner() {
    let mut world = world();
    let config = |image: &str, replicas: u32| {
        json!({"metadata": {"name": "a"}, "spec": {"replicas": replicas, "template": {"spec": {"containers": [
            {"name": "c", "image": image}]}}}})
    };
    ok(&world.apply("Deployment", "one", config("i", 1)));
    let response = world.apply("Deployment", "two", config("i", 2));
    assert_eq!(
        conflicts(&response),
        [(".spec.replicas", "conflict with \"one\"")]
    );
    assert_eq!(
        message(&response),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas"
    );
    world.server.set_field_manager("kubectl");
    ok(&world.patch("Deployment", "a", MERGE, &json!({"spec": {"replicas": 5}})));
    let response = world.apply("Deployment", "two", config("j", 2));
    let image = ".spec.template.spec.containers[name=\"c\"].image";
    assert_eq!(
        conflicts(&response),
        [
            (image, "conflict with \"one\""),
            (".spec.replicas", "conflict with \"kubectl\" using apps/v1"),
        ]
    );
    assert_eq!(
        message(&response),
        format!(
            "Apply failed with 2 conflicts: conflicts with \"kubectl\" using apps/v1:\n- .spec.replicas\n\
             conflicts with \"one\":\n- {image}"
        )
    );
    assert_eq!(world.get("Deployment", "a")["spec"]["replicas"], 5);
    // Equal values are shared, without a conflict.
    ok(&world.apply("Deployment", "two", config("i", 5)));
}

#[test]
fn force_takes_the_fields_from_their_owners() {
    let mut world = world();
    ok(&world.apply("ConfigMap", "one", data(&json!({"k": "1", "l": "1"}))));
    ok(&world.force("ConfigMap", "two", data(&json!({"k": "2"}))));
    assert_eq!(world.get("ConfigMap", "a")["data"], json!({"k": "2", "l": "1"}));
    assert_eq!(
        world.managers("ConfigMap", "a"),
        [
            ("one Apply".to_owned(), json!({"f:data": {"f:l": {}}})),
            ("two Apply".to_owned(), json!({"f:data": {"f:k": {}}})),
        ]
    );
    // The manager that lost the field gets a conflict from now on.
    let response = world.apply("ConfigMap", "one", data(&json!({"k": "1", "l": "1"})));
    assert_eq!(conflicts(&response), [(".data.k", "conflict with \"two\"")]);
}

#[test]
fn omitted_fields_are_removed_unless_another_manager_owns_them() {
    let mut world = world_of("1.30.0");
    let labels = |labels: Value| json!({"metadata": {"name": "a", "labels": labels}});
    ok(&world.apply("Secret", "one", labels(json!({"own": "1", "shared": "1"}))));
    ok(&world.apply("Secret", "two", labels(json!({"shared": "1", "other": "1"}))));
    ok(&world.apply("Secret", "one", labels(json!({}))));
    let stored = world.get("Secret", "a");
    assert_eq!(stored["metadata"]["labels"], json!({"shared": "1", "other": "1"}));
    assert_eq!(
        world.managers("Secret", "a").len(),
        2,
        "an empty map is an owned field"
    );
    ok(&world.apply("Secret", "one", json!({"metadata": {"name": "a"}})));
    ok(&world.apply("Secret", "two", json!({"metadata": {"name": "a"}})));
    let stored = world.get("Secret", "a");
    assert_eq!(stored["metadata"].get("labels"), None);
    assert_eq!(
        stored["metadata"].get("managedFields"),
        None,
        "a manager without fields is removed"
    );
}

#[test]
fn null_removes_a_value_and_keeps_the_merged_ones() {
    let mut world = world();
    let config = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    ok(&world.apply(
        "Deployment",
        "one",
        config(json!({"replicas": 1, "strategy": {"type": "Recreate"}})),
    ));
    ok(&world.apply(
        "Deployment",
        "two",
        config(json!({"replicas": null, "strategy": null})),
    ));
    assert_eq!(
        world.get("Deployment", "a")["spec"],
        json!({"strategy": {"type": "Recreate"}})
    );
}

#[test]
fn fields_from_before_the_first_apply_have_a_manager() {
    let mut world = world();
    world.put_json(
        "ConfigMap",
        json!({"metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["x.dev/a"]}, "data": {"k": "1"}}),
    );
    let response = world.apply("ConfigMap", "one", data(&json!({"k": "2"})));
    assert_eq!(
        conflicts(&response),
        [(".data.k", "conflict with \"before-first-apply\" using v1")]
    );
    assert_eq!(world.managers("ConfigMap", "a"), []);
    ok(&world.force("ConfigMap", "one", data(&json!({"k": "2"}))));
    assert_eq!(
        world.managers("ConfigMap", "a"),
        [
            ("one Apply".to_owned(), json!({"f:data": {"f:k": {}}})),
            (
                "before-first-apply Update".to_owned(),
                json!({
                    "f:data": {},
                    "f:metadata": {"f:labels": {".": {}, "f:x": {}}, "f:finalizers": {".": {}, "v:\"x.dev/a\"": {}}},
                })
            ),
        ]
    );
}

#[test]
fn an_invalid_request_is_refused_before_anything_is_written() {
    let config = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let with = |key: &str, value: Value| {
        let mut config = config();
        config[key] = value;
        config
    };
    let long = "m".repeat(129);
    for (manager, config, code, expected) in [
        (
            "",
            config(),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            &*long,
            config(),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: must have at most 128 bytes",
        ),
        (
            "one",
            with(
                "metadata",
                json!({"name": "a", "managedFields": [{"manager": "x"}]}),
            ),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            "one",
            with("apiVersion", json!("v2")),
            400,
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (
            "one",
            with("kind", json!("Secret")),
            400,
            "Secret in version \"v1\" cannot be handled as a ConfigMap",
        ),
        (
            "one",
            with("metadata", json!({"name": "a", "labels": {"a": 1}})),
            400,
            "metadata.labels[a]: Invalid value: \"a number\": must be a string",
        ),
        (
            "one",
            with("metadata", json!({"name": "a", "namespace": "other"})),
            400,
            "the namespace of the object (other) does not match the namespace on the request (ns)",
        ),
        (
            "one",
            with(
                "metadata",
                json!({"name": "a", "ownerReferences": [{"name": "x"}]}),
            ),
            // A uid that is missing is taken for an empty one.
            422,
            "ConfigMap \"a\" is invalid: [metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty, \
             metadata.ownerReferences.kind: Invalid value: \"\": kind must not be empty, \
             metadata.ownerReferences.uid: Invalid value: \"\": uid must not be empty]",
        ),
        (
            "one",
            with(
                "metadata",
                json!({"name": "a", "finalizers": ["x.dev/a", "x.dev/a"]}),
            ),
            500,
            "failed to create typed patch object (ns/a; v1, Kind=ConfigMap): .metadata.finalizers: \
             duplicate entries for key [=\"x.dev/a\"]",
        ),
        (
            "one",
            with("metadata", json!({"name": "a", "uid": "u1"})),
            409,
            "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid u1, \
             and no existing object was found",
        ),
        (
            "one",
            with("metadata", json!({"name": "a", "finalizers": ["plain"]})),
            422,
            "ConfigMap \"a\" is invalid: metadata.finalizers[0]: Invalid value: \"plain\": \
             name is neither a standard finalizer name nor is it fully qualified",
        ),
    ] {
        let mut world = world_of("1.30.0");
        let revision = world.server.revision();
        let response = world.apply("ConfigMap", manager, config);
        assert_eq!((response.code, message(&response)), (code, expected));
        assert_eq!(world.server.revision(), revision);
    }
    let mut old = world_of("1.15.0");
    assert_eq!(old.apply("ConfigMap", "one", config()).code, 415);
    let mut world = world();
    for subresource in ["status", "scale"] {
        let response = world.apply_to(
            "Deployment",
            Some(subresource),
            "one",
            false,
            json!({"metadata": {"name": "a"}}),
        );
        assert_eq!(response.code, 404, "a subresource creates nothing");
    }
    let response = world.apply_to("ConfigMap", Some("status"), "one", false, config());
    assert_eq!(response.code, 404, "config maps have no status");
}

#[test]
fn uid_and_version_in_a_configuration_are_preconditions() {
    let mut world = world();
    world.put("ConfigMap", "a", &[]);
    let version = world.get("ConfigMap", "a")["metadata"]["resourceVersion"].clone();
    let config = |key: &str, value: Value| {
        let mut config = data(&json!({"k": "1"}));
        config["metadata"][key] = value;
        config
    };
    for (key, value, code) in [
        ("uid", json!("uid-b"), 422),
        ("resourceVersion", json!("1"), 409),
        ("uid", json!("uid-a"), 200),
        ("resourceVersion", version, 409),
    ] {
        let response = world.apply("ConfigMap", "one", config(key, value.clone()));
        assert_eq!(response.code, code, "{key} {value}: {}", message(&response));
    }
}

#[test]
fn s_16_applies_obey_the_rules_of_deletion() {
    let finalizers = |finalizers: &[&str]| json!({"metadata": {"name": "a", "finalizers": finalizers}});
    for kind in ["ConfigMap", "Child"] {
        let mut world = world();
        ok(&world.apply(kind, "one", finalizers(&["x.dev/a", "x.dev/b"])));
        ok(&world.delete(kind, "a", &policy("Background")));
        let response = world.apply(kind, "one", finalizers(&["x.dev/a", "x.dev/b", "x.dev/c"]));
        assert_eq!(response.code, 422);
        assert!(message(&response).contains("no new finalizers can be added if the object is being deleted"));
        let revision = world.server.revision();
        ok(&world.apply(kind, "one", finalizers(&["x.dev/b"])));
        assert_eq!(world.finalizers(kind, "a"), ["x.dev/b"]);
        ok(&world.apply(kind, "one", finalizers(&[])));
        assert_eq!(world.get(kind, "a"), Value::Null);
        assert_eq!(
            world.events(kind, revision),
            ["MODIFIED a deleting", "DELETED a deleting"]
        );
    }
}

#[test]
fn an_object_with_finalizers_of_two_managers_stays_when_one_removes_its_last() {
    let mut world = world();
    let finalizer = |name: &str| json!({"metadata": {"name": "a", "finalizers": [name]}});
    ok(&world.apply("ConfigMap", "one", finalizer("x.dev/a")));
    ok(&world.apply("ConfigMap", "two", finalizer("x.dev/b")));
    assert_eq!(world.finalizers("ConfigMap", "a"), ["x.dev/a", "x.dev/b"]);
    ok(&world.delete("ConfigMap", "a", &expecting(None, None)));
    ok(&world.apply("ConfigMap", "one", json!({"metadata": {"name": "a"}})));
    assert_eq!(world.finalizers("ConfigMap", "a"), ["x.dev/b"]);
    // The finalizer that is left stays when its manager applies it again.
    ok(&world.apply("ConfigMap", "two", finalizer("x.dev/b")));
    assert_eq!(world.finalizers("ConfigMap", "a"), ["x.dev/b"]);
}

#[test]
fn an_object_and_its_status_have_owners_of_their_own() {
    let mut world = world_of("1.30.0");
    let config =
        |spec: Value, status: Value| json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
    let (spec, status) = (json!({"replicas": 1}), json!({"readyReplicas": 1}));
    ok(&world.apply("Deployment", "one", config(spec.clone(), status.clone())));
    assert_eq!(
        world.get("Deployment", "a").get("status"),
        None,
        "status is written separately"
    );
    let response = world.apply_to(
        "Deployment",
        Some("status"),
        "one",
        false,
        config(json!({"replicas": 9}), status),
    );
    ok(&response);
    let stored = world.get("Deployment", "a");
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["status"]["readyReplicas"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        world.managers("Deployment", "a"),
        [
            ("one Apply".to_owned(), json!({"f:spec": {"f:replicas": {}}})),
            (
                "one Apply status".to_owned(),
                json!({"f:status": {"f:readyReplicas": {}}})
            ),
        ]
    );
    let response = world.apply_to(
        "Deployment",
        Some("status"),
        "two",
        false,
        config(Value::Null, json!({"readyReplicas": 2})),
    );
    assert_eq!(
        conflicts(&response),
        [(
            ".status.readyReplicas",
            "conflict with \"one\" with subresource \"status\""
        )]
    );
}

#[test]
fn a_scale_is_applied_to_the_number_of_the_object() {
    let mut world: World = world_of("1.30.0");
    ok(&world.apply(
        "Deployment",
        "one",
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}),
    ));
    let scale = |replicas: u32| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}});
    let response = world.apply_to("Deployment", Some("scale"), "two", false, scale(3));
    assert_eq!(
        conflicts(&response),
        [(".spec.replicas", "conflict with \"one\"")]
    );
    let response = world.apply_to("Deployment", Some("scale"), "two", true, scale(3));
    ok(&response);
    let shown = response.virtual_object().unwrap();
    assert_eq!(
        (&shown["kind"], &shown["spec"]["replicas"]),
        (&json!("Scale"), &json!(3))
    );
    assert_eq!(
        world.managers("Deployment", "a"),
        [(
            "two Apply scale".to_owned(),
            json!({"f:spec": {"f:replicas": {}}})
        )]
    );
    for (key, value, code, expected) in [
        (
            "spec",
            json!({"replicas": -1}),
            422,
            "spec.replicas: Invalid value: -1: must be greater",
        ),
        (
            "kind",
            Value::Null,
            400,
            "invalid object type: autoscaling/v1, Kind=",
        ),
        ("apiVersion", Value::Null, 400, "expected: autoscaling/v1"),
        ("kind", json!("Deployment"), 400, "cannot be handled as a Scale"),
    ] {
        let mut config = scale(4);
        config[key] = value;
        let deployments = world.kind("Deployment");
        let options = kubegc_sim::ApplyOptions {
            field_manager: "two".to_owned(),
            force: true,
        };
        let response = world
            .server
            .apply(deployments, "ns", "a", Some("scale"), config, &options);
        let status = response.status().unwrap();
        assert_eq!(status.code, code, "{key}");
        assert!(status.message.contains(expected), "{}", status.message);
    }
}
