//! Server-side apply: refusals, preconditions, and the owner of a scale.

use kubegc_sim::{Response, Settings};
use serde_json::{Value, json};

use crate::world::{World, message, world, world_of};

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

/// Fields of the metadata of a configuration, the status code, and the message.
const INVALID: &str = r#"
{"labels": {"a": 1}} | 400 | metadata.labels[a]: Invalid value: "a number": must be a string
{"namespace": "other"} | 400 | the namespace of the provided object does not match the namespace sent on the request
{"ownerReferences": [{"name": "x"}]} | 422 | ConfigMap "a" is invalid: [metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty, metadata.ownerReferences.kind: Invalid value: "": kind must not be empty, metadata.ownerReferences.uid: Invalid value: "": uid must not be empty]
{"finalizers": ["x.dev/a", "x.dev/a"]} | 500 | failed to create typed patch object (/a; /v1, Kind=ConfigMap): .metadata.finalizers: duplicate entries for key [="x.dev/a"]
{"uid": "u1"} | 409 | Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid u1, and no existing object was found
{"finalizers": ["plain"]} | 422 | ConfigMap "a" is invalid: metadata.finalizers[0]: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified
"#;

#[test]
fn an_invalid_request_is_refused_before_anything_is_written() {
    let config = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    for row in INVALID.trim().lines() {
        let [fields, code, expected] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let (mut config, fields) = (config(), serde_json::from_str::<Value>(fields).unwrap());
        let metadata = config["metadata"].as_object_mut().unwrap();
        metadata.extend(fields.as_object().unwrap().clone());
        let mut world = world_of("1.30.0");
        let revision = world.server.revision();
        let response = world.apply("ConfigMap", "one", config);
        assert_eq!(
            (response.code.to_string().as_str(), message(&response)),
            (code, expected)
        );
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
fn a_field_is_removed_with_the_parts_that_nobody_owns() {
    let mut world = world_of("1.30.0");
    let settings = Settings {
        types: true,
        ..Settings::default()
    };
    world.server = world.server.with_settings(settings);
    let config = |fields: Value| {
        let mut container = json!({"name": "c", "image": "i"});
        for (key, value) in fields.as_object().into_iter().flatten() {
            container[key] = value.clone();
        }
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
        let selector = json!({"matchLabels": {"a": "b"}});
        json!({"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}})
    };
    let probe = json!({"httpGet": {"port": 80}});
    let probes = json!({"livenessProbe": probe, "readinessProbe": probe});
    ok(&world.apply("Deployment", "one", config(probes)));
    ok(&world.apply("Deployment", "two", config(json!({"readinessProbe": probe}))));
    ok(&world.apply("Deployment", "one", config(json!({}))));
    let container = &world.get("Deployment", "a")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container.get("livenessProbe"), None);
    assert_eq!(container["readinessProbe"]["timeoutSeconds"], 1);
}

#[test]
fn kubectl_takes_over_what_its_client_applied() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let mut world = world_of("1.30.0");
    let last =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
    let annotations = json!({ANNOTATION: last.to_string()});
    let client = json!({"metadata": {"name": "a", "annotations": annotations}, "data": {"x": "1", "y": "1"}});
    ok(&world.apply("ConfigMap", "client", client));
    let config = |x: &str, y: &str| data(&json!({"x": x, "y": y}));
    assert_eq!(
        conflicts(&world.apply("ConfigMap", "kubectl", config("2", "2"))),
        [(".data.y", "conflict with \"client\"")]
    );
    assert_eq!(
        conflicts(&world.apply("ConfigMap", "other", config("2", "1"))).len(),
        1
    );
    ok(&world.apply("ConfigMap", "kubectl", config("2", "1")));
    let stored = world.get("ConfigMap", "a");
    let last = stored["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(last).unwrap()["data"],
        json!({"x": "2", "y": "1"})
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
