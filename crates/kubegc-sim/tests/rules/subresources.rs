//! Subresources: those of each kind, and the fields that each reads and writes.

use kubegc_sim::Response;
use serde_json::{Value, json};

use crate::world::{JSON, MERGE, World, message, served, world, world_of};

fn names(world: &World, kind: kubegc_core::KindId) -> String {
    let all = world.server.subresources(kind);
    let names: Vec<&str> = all.iter().map(|subresource| subresource.name).collect();
    names.join(" ")
}

#[test]
fn a_kind_has_the_subresources_that_discovery_shows() {
    for (version, kind, expected) in [
        ("1.20.2", "ConfigMap", ""),
        ("1.20.2", "Pod", "binding eviction status"),
        ("1.23.0", "Pod", "binding ephemeralcontainers eviction status"),
        (
            "1.33.0",
            "Pod",
            "binding ephemeralcontainers eviction resize status",
        ),
        ("1.20.2", "Namespace", "finalize status"),
        ("1.20.2", "Deployment", "scale status"),
        ("1.20.2", "Job", "status"),
        ("1.20.2", "CertificateSigningRequest", "approval status"),
        ("1.20.2", "Child", "status"),
    ] {
        let world = world_of(version);
        assert_eq!(names(&world, world.kind(kind)), expected, "{kind} in {version}");
    }
    let world = world();
    let pods = world.server.subresources(world.kind("Pod"));
    assert_eq!(
        (pods[1].api_version, pods[1].kind, pods[1].verbs),
        ("policy/v1beta1", "Eviction", &["create"][..])
    );
    assert!(world.server.has_subresource(world.kind("Pod"), "status"));
}

#[test]
fn a_subresource_that_a_kind_does_not_have_is_not_found() {
    let mut world = world();
    world.put("ConfigMap", "a", &[]);
    world.put("Pod", "a", &[]);
    for (kind, subresource, code) in [
        ("ConfigMap", "status", 404),
        ("ConfigMap", "scale", 404),
        ("Pod", "odd", 404),
        ("Pod", "eviction", 405),
    ] {
        let id = world.kind(kind);
        let object = json!({"metadata": {"name": "a"}});
        let responses = [
            world.server.read_subresource(id, "ns", "a", subresource),
            world
                .server
                .update_subresource(id, "ns", "a", subresource, object.clone()),
            world
                .server
                .patch_subresource(id, "ns", "a", subresource, MERGE, b"{}"),
        ];
        for response in responses {
            assert_eq!(response.code, code, "{kind}/{subresource}");
        }
    }
    let pods = world.kind("Pod");
    for (subresource, code) in [("status", 405), ("odd", 404)] {
        let response = world
            .server
            .create_subresource(pods, "ns", "a", subresource, json!({}));
        assert_eq!(response.code, code);
    }
}

#[test]
fn a_status_is_put_and_read_alone() {
    let mut world = world();
    world.put_json(
        "Deployment",
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}),
    );
    let kind = world.kind("Deployment");
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": 9}, "status": {"readyReplicas": 1}});
    let response = world.server.update_subresource(kind, "ns", "a", "status", object);
    assert_eq!(response.code, 200);
    let stored = world.server.read_subresource(kind, "ns", "a", "status");
    let stored = stored.object().unwrap();
    assert_eq!(stored.at(&["spec", "replicas"]), Some(&json!(1)));
    assert_eq!(stored.at(&["status", "readyReplicas"]), Some(&json!(1)));
    let other = json!({"kind": "Pod", "metadata": {"name": "a"}});
    assert_eq!(
        world
            .server
            .update_subresource(kind, "ns", "a", "status", other)
            .code,
        400
    );
    assert_eq!(world.server.read_subresource(kind, "ns", "b", "status").code, 404);
}

#[test]
fn a_scale_shows_the_numbers_and_the_selector() {
    let selector = json!({"matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}, {"key": "d", "operator": "DoesNotExist"}]});
    for (kind, spec, expected) in [
        (
            "Deployment",
            json!({"replicas": 3, "selector": selector}),
            json!([{"replicas": 3}, {"replicas": 0, "selector": "a=1,b=2,c in (x,y),!d"}]),
        ),
        (
            "ReplicationController",
            json!({"replicas": 0, "selector": {"a": "1"}}),
            json!([{}, {"replicas": 0, "selector": "a=1"}]),
        ),
        (
            "StatefulSet",
            json!({}),
            json!([{"replicas": 1}, {"replicas": 0}]),
        ),
    ] {
        let mut world = world();
        world.put_json(kind, json!({"metadata": {"name": "a"}, "spec": spec}));
        let id = world.kind(kind);
        let response = world.server.read_subresource(id, "ns", "a", "scale");
        let shown = response.virtual_object().unwrap();
        assert_eq!(
            (&shown["apiVersion"], &shown["kind"]),
            (&json!("autoscaling/v1"), &json!("Scale"))
        );
        assert_eq!(json!([shown["spec"], shown["status"]]), expected);
        assert_eq!(shown["metadata"]["uid"], "uid-a");
    }
}

#[test]
fn a_scale_is_written_to_the_object() {
    let mut world = world();
    world.put_json(
        "Deployment",
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}),
    );
    let kind = world.kind("Deployment");
    let shown = |response: &Response| {
        response
            .virtual_object()
            .map(|scale| scale["spec"]["replicas"].clone())
    };
    let mut scale = shown_scale(&world, kind);
    scale["spec"]["replicas"] = 2.into();
    let response = world
        .server
        .update_subresource(kind, "ns", "a", "scale", scale.clone());
    assert_eq!((response.code, shown(&response)), (200, Some(json!(2))));
    let stored = world.get("Deployment", "a");
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["metadata"]["generation"]),
        (&json!(2), &json!(2))
    );
    // The version is that of the first write.
    let response = world
        .server
        .update_subresource(kind, "ns", "a", "scale", scale.clone());
    assert_eq!(response.code, 409);
    let revision = world.server.revision();
    let response =
        world
            .server
            .patch_subresource(kind, "ns", "a", "scale", MERGE, br#"{"spec":{"replicas":2}}"#);
    assert_eq!((response.code, world.server.revision()), (200, revision));
    let patch = br#"[{"op":"replace","path":"/spec/replicas","value":5}]"#;
    let response = world
        .server
        .patch_subresource(kind, "ns", "a", "scale", JSON, patch);
    assert_eq!(shown(&response), Some(json!(5)));
    for (change, code, expected) in [
        (
            json!({"spec": {"replicas": -1}}),
            422,
            "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"spec": {"replicas": "x"}}),
            400,
            "spec.replicas must be a whole number of 32 bits",
        ),
        (
            json!({"kind": "Pod"}),
            400,
            "Pod in version \"autoscaling/v1\" cannot be handled as a Scale",
        ),
        (
            json!({"metadata": {"name": "b"}}),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({"metadata": {"uid": "other"}}),
            409,
            "Operation cannot be fulfilled on deployments.apps \"a\": \
             Precondition failed: UID in precondition: other, UID in object meta: uid-a",
        ),
    ] {
        let body = change.to_string();
        let response = world
            .server
            .patch_subresource(kind, "ns", "a", "scale", MERGE, body.as_bytes());
        assert_eq!((response.code, message(&response)), (code, expected));
    }
}

fn shown_scale(world: &World, kind: kubegc_core::KindId) -> Value {
    let response = world.server.read_subresource(kind, "ns", "a", "scale");
    response.virtual_object().unwrap().clone()
}

#[test]
fn a_definition_has_the_paths_of_the_scale() {
    let mut world = world();
    let definition = json!({
        "metadata": {"name": "things.test.dev"},
        "spec": {"group": "test.dev", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [
                {"name": "v1", "served": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                    "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}}},
                {"name": "v2", "served": true},
            ]},
    });
    world.put_json("CustomResourceDefinition", definition);
    let [kind, second_version] =
        ["test.dev/v1", "test.dev/v2"].map(|version| served(&world, version, "Thing"));
    assert_eq!(
        (&*names(&world, kind), &*names(&world, second_version)),
        ("scale status", "")
    );
    let object = json!({"metadata": {"name": "a"}, "spec": {"size": 2}, "status": {"size": 7}});
    assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
    let status = br#"{"status":{"size":1,"selector":"a=b"}}"#;
    assert_eq!(
        world
            .server
            .patch_subresource(kind, "ns", "a", "status", MERGE, status)
            .code,
        200
    );
    let scale = shown_scale(&world, kind);
    assert_eq!(
        json!([scale["spec"], scale["status"]]),
        json!([{"replicas": 2}, {"replicas": 1, "selector": "a=b"}])
    );
    let patch = br#"{"spec":{"replicas":4}}"#;
    assert_eq!(
        world
            .server
            .patch_subresource(kind, "ns", "a", "scale", MERGE, patch)
            .code,
        200
    );
    let stored = world.server.object(kind, "ns", "a").unwrap();
    assert_eq!(stored.at(&["spec"]), Some(&json!({"size": 4})));
    let object = json!({"metadata": {"name": "b"}});
    world.server.create_json(kind, "ns", object);
    let response = world.server.read_subresource(kind, "ns", "b", "scale");
    assert_eq!(
        message(&response),
        "Internal error occurred: the spec replicas field \".spec.size\" does not exist"
    );
}

#[test]
fn a_path_to_the_scale_is_bounded() {
    let long = |steps: usize| format!(".spec{}", ".a".repeat(steps - 1));
    for (path, code) in [
        (long(100), 200),
        (long(101), 500),
        (long(200_000), 500),
        (".status.size".to_owned(), 500),
        (".spec".to_owned(), 500),
    ] {
        let mut world = world();
        let scale = json!({"specReplicasPath": path, "statusReplicasPath": ".status.size"});
        world.put_json(
            "CustomResourceDefinition",
            json!({
                "metadata": {"name": "things.test.dev"},
                "spec": {"group": "test.dev", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                    "versions": [{"name": "v1", "served": true, "subresources": {"scale": scale}}]},
            }),
        );
        let kind = served(&world, "test.dev/v1", "Thing");
        let object = json!({"metadata": {"name": "a"}});
        assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
        let scale = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2}});
        let response = world.server.update_subresource(kind, "ns", "a", "scale", scale);
        assert_eq!(response.code, code, "{} bytes", path.len());
    }
}

fn running_pod(world: &mut World, labels: &Value) {
    world.put_json(
        "Pod",
        json!({"metadata": {"name": "a", "labels": labels}, "spec": {"nodeName": "n"}}),
    );
    let kind = world.kind("Pod");
    let body = br#"{"status":{"phase":"Running"}}"#;
    assert_eq!(
        world
            .server
            .patch_subresource(kind, "ns", "a", "status", MERGE, body)
            .code,
        200
    );
}

fn evict(world: &mut World, eviction: &Value) -> Response {
    let kind = world.kind("Pod");
    world
        .server
        .create_subresource(kind, "ns", "a", "eviction", eviction.clone())
}

#[test]
fn an_eviction_deletes_as_its_options_say() {
    for (options, code, left) in [
        (json!({}), 201, "deleting 30"),
        (json!({"gracePeriodSeconds": 5}), 201, "deleting 5"),
        (json!({"gracePeriodSeconds": 0}), 201, "gone"),
        (json!({"preconditions": {"uid": "other"}}), 409, "stays"),
        (json!({"preconditions": {"uid": "uid-a"}}), 201, "deleting 30"),
        (json!({"propagationPolicy": "Odd"}), 422, "stays"),
        (json!({"gracePeriodSeconds": "x"}), 400, "stays"),
        (json!({"dryRun": ["All"]}), 201, "stays"),
    ] {
        let mut world = world();
        running_pod(&mut world, &json!({}));
        let response = evict(
            &mut world,
            &json!({"metadata": {"name": "a"}, "deleteOptions": options}),
        );
        assert_eq!(response.code, code, "{options}: {}", message(&response));
        if code == 201 {
            let shown = response.status().unwrap().to_json();
            assert_eq!(
                (&shown["status"], &shown["code"]),
                (&json!("Success"), &json!(201))
            );
        }
        let meta = world.get("Pod", "a")["metadata"].clone();
        let now = match &meta["deletionGracePeriodSeconds"] {
            _ if meta.is_null() => "gone".to_owned(),
            Value::Null => "stays".to_owned(),
            seconds => format!("deleting {seconds}"),
        };
        assert_eq!(now, left, "{options}");
    }
    let mut world = world();
    running_pod(&mut world, &json!({}));
    let response = evict(&mut world, &json!({"metadata": {"name": "b"}}));
    assert_eq!(
        message(&response),
        "name in URL does not match name in Eviction object"
    );
    assert_eq!(
        evict(&mut world_of("1.30.0"), &json!({"metadata": {"name": "a"}})).code,
        404
    );
}

#[test]
fn a_budget_without_room_stops_an_eviction() {
    let selector = json!({"matchLabels": {"app": "web"}});
    let status = |allowed: i64| json!({"disruptionsAllowed": allowed, "desiredHealthy": 3, "currentHealthy": 2, "observedGeneration": 1});
    let needs = "The disruption budget b needs 3 healthy pods and has 2 currently";
    for (selector, status, code, cause) in [
        (selector.clone(), status(0), 429, needs),
        (selector.clone(), status(1), 201, ""),
        (selector.clone(), json!({}), 201, ""),
        (
            selector.clone(),
            json!({"disruptionsAllowed": 1, "observedGeneration": 0}),
            429,
            "The disruption budget b is still being processed by the server.",
        ),
        (
            selector.clone(),
            json!({"disruptionsAllowed": 0}),
            429,
            "The disruption budget b is still being processed by the server.",
        ),
        (json!({"matchLabels": {"app": "db"}}), status(0), 201, ""),
        (json!({}), status(0), 429, needs),
        (Value::Null, status(0), 201, ""),
    ] {
        let mut world = world_of("1.30.0");
        running_pod(&mut world, &json!({"app": "web"}));
        world.put_json(
            "PodDisruptionBudget",
            json!({"metadata": {"name": "b"}, "spec": {"selector": selector}}),
        );
        let budgets = world.kind("PodDisruptionBudget");
        let body = json!({"status": status}).to_string();
        world
            .server
            .patch_subresource(budgets, "ns", "b", "status", MERGE, body.as_bytes());
        let response = evict(&mut world, &json!({"metadata": {"name": "a"}}));
        assert_eq!(response.code, code, "{selector} {status}");
        let causes = response.status().unwrap().causes();
        assert_eq!(causes.first().map_or("", |cause| &*cause.message), cause);
        let deleting = world.get("Pod", "a")["metadata"]
            .get("deletionTimestamp")
            .is_some();
        assert_eq!(deleting, code == 201);
        if code == 429 {
            assert_eq!(
                message(&response),
                "Cannot evict pod as it would violate the pod's disruption budget."
            );
        } else if status["disruptionsAllowed"] == 1 {
            let budget = world.get("PodDisruptionBudget", "b");
            assert_eq!(budget["status"]["disruptionsAllowed"], 0);
            assert_eq!(budget["status"]["disruptedPods"]["a"], "1970-01-12T13:46:40Z");
        }
    }
    let mut world = world_of("1.30.0");
    running_pod(&mut world, &json!({"app": "web"}));
    for name in ["b", "c"] {
        world.put_json(
            "PodDisruptionBudget",
            json!({"metadata": {"name": name}, "spec": {"selector": {}}}),
        );
    }
    let response = evict(&mut world, &json!({"metadata": {"name": "a"}}));
    assert_eq!(response.code, 500);
    assert!(message(&response).contains("more than one PodDisruptionBudget"));
    // Eviction of a pod that does not run needs no disruption budget.
    let pods = world.kind("Pod");
    world.server.patch_subresource(
        pods,
        "ns",
        "a",
        "status",
        MERGE,
        br#"{"status":{"phase":"Failed"}}"#,
    );
    assert_eq!(evict(&mut world, &json!({"metadata": {"name": "a"}})).code, 201);
    assert_eq!(world.get("Pod", "a"), Value::Null);
}

#[test]
fn a_binding_sets_the_node_of_a_pod_once() {
    let mut world = world();
    world.put("Pod", "a", &[]);
    let kind = world.kind("Pod");
    let binding = |node: &str| json!({"metadata": {"name": "a", "annotations": {"x": "1"}}, "target": {"kind": "Node", "name": node}});
    let mut bind = |node: &str| {
        world
            .server
            .create_subresource(kind, "ns", "a", "binding", binding(node))
    };
    let refused = bind("");
    assert_eq!(
        (refused.code, message(&refused)),
        (422, "Binding \"a\" is invalid: target.name: Required value")
    );
    assert_eq!(bind("n").code, 201);
    let refused = bind("m");
    assert_eq!(
        (refused.code, message(&refused)),
        (
            409,
            "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n\""
        )
    );
    let pod = world.get("Pod", "a");
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["metadata"]["annotations"]["x"]),
        (&json!("n"), &json!("1"))
    );
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
}

#[test]
fn a_written_part_keeps_the_other_parts() {
    let containers =
        json!([{"name": "c", "image": "1", "resources": {"limits": {"cpu": "1"}}}, {"name": "d"}]);
    let sent = json!({
        "metadata": {"name": "a", "labels": {"x": "1"}},
        "spec": {"nodeName": "other", "ephemeralContainers": [{"name": "e"}],
            "containers": [{"name": "c", "image": "2", "resources": {"limits": {"cpu": "2"}}}, {"name": "new"}]},
        "status": {"phase": "Odd", "conditions": [{"type": "Approved"}]},
    });
    for (kind, subresource, path, expected) in [
        (
            "Pod",
            "ephemeralcontainers",
            "/spec/ephemeralContainers",
            json!([{"name": "e"}]),
        ),
        (
            "Pod",
            "resize",
            "/spec/containers",
            json!([{"name": "c", "image": "1", "resources": {"limits": {"cpu": "2"}}}, {"name": "d"}]),
        ),
        (
            "CertificateSigningRequest",
            "approval",
            "/status/conditions",
            json!([{"type": "Approved"}]),
        ),
    ] {
        let mut world = world_of("1.33.0");
        world.put_json(
            kind,
            json!({"metadata": {"name": "a"}, "spec": {"containers": containers}}),
        );
        let id = world.kind(kind);
        let before = world.get(kind, "a");
        let namespace = world.namespace(kind);
        let response = world
            .server
            .update_subresource(id, namespace, "a", subresource, sent.clone());
        assert_eq!(response.code, 200, "{}", message(&response));
        let mut after = world.get(kind, "a");
        assert_eq!(after.pointer(path), Some(&expected));
        // After this field is restored, the objects are equal.
        let mut steps = path.rsplitn(2, '/');
        let (last, parent) = (steps.next().unwrap(), steps.next().unwrap());
        let fields = |object: &mut Value| {
            object
                .pointer_mut(parent)
                .and_then(Value::as_object_mut)
                .map(std::mem::take)
        };
        let mut expected = before.clone();
        for object in [&mut expected, &mut after] {
            if let Some(mut parent_fields) = fields(object) {
                parent_fields.remove(last);
                if !parent_fields.is_empty() {
                    object[parent.trim_start_matches('/')] = Value::Object(parent_fields);
                } else if let Some(object) = object.as_object_mut() {
                    object.remove(parent.trim_start_matches('/'));
                }
            }
            object["metadata"]["resourceVersion"] = Value::Null;
        }
        assert_eq!(after, expected, "{subresource}");
        let mut stale = sent.clone();
        stale["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        let response = world
            .server
            .update_subresource(id, namespace, "a", subresource, stale);
        assert_eq!(response.code, 409);
    }
}
