//! Subresources: those of each kind, scales of definitions, evictions, and parts of an object.

use kubegc_sim::Response;
use serde_json::{Value, json};

use crate::world::{MERGE, World, message, served, world, world_of};

fn names(world: &World, kind: kubegc_core::KindId) -> String {
    let all = world.server.subresources(kind);
    let names: Vec<&str> = all.iter().map(|subresource| subresource.name).collect();
    names.join(" ")
}

#[test]
fn a_kind_has_the_subresources_that_discovery_shows() {
    for (version, kind, expected) in [
        ("1.20.2", "ConfigMap", ""),
        ("1.22.0", "Pod", "binding eviction status"),
        ("1.23.0", "Pod", "binding ephemeralcontainers eviction status"),
        ("1.32.0", "Pod", "binding ephemeralcontainers eviction status"),
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
fn the_path_of_a_scale_is_bounded_and_may_lead_nowhere() {
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
        let read = world.server.read_subresource(kind, "ns", "a", "scale");
        if code == 200 {
            let expected =
                format!("Internal error occurred: the spec replicas field {path:?} does not exist");
            assert_eq!(message(&read), expected);
        }
        let scale = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2}});
        let response = world.server.update_subresource(kind, "ns", "a", "scale", scale);
        assert_eq!(response.code, code, "{} bytes", path.len());
    }
}

#[test]
fn an_eviction_deletes_as_its_options_say() {
    for (options, code, grace) in [
        (json!({"gracePeriodSeconds": 5}), 201, Some(5)),
        (json!({"preconditions": {"uid": "other"}}), 409, None),
        (json!({"preconditions": {"uid": "uid-a"}}), 201, Some(30)),
        (json!({"propagationPolicy": "Odd"}), 422, None),
        (json!({"gracePeriodSeconds": "x"}), 400, None),
        (json!({"dryRun": ["All"]}), 201, None),
    ] {
        let mut world = world();
        running_pod(&mut world, &json!({}));
        let eviction = json!({"metadata": {"name": "a"}, "deleteOptions": options});
        let response = evict(&mut world, &eviction);
        assert_eq!(response.code, code, "{options}: {}", message(&response));
        let found = world.get("Pod", "a")["metadata"]["deletionGracePeriodSeconds"].as_i64();
        assert_eq!(found, grace, "{options}");
    }
    let response = evict(&mut world(), &json!({"metadata": {"name": "b"}}));
    let expected = "name in URL does not match name in Eviction object";
    assert_eq!(message(&response), expected);
    let missing = evict(&mut world_of("1.30.0"), &json!({"metadata": {"name": "a"}}));
    assert_eq!(missing.code, 404);
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
    for (kind, subresource, expected) in [
        (
            "Pod",
            "ephemeralcontainers",
            json!({"spec": {"containers": containers, "ephemeralContainers": [{"name": "e"}], "terminationGracePeriodSeconds": 30}}),
        ),
        (
            "Pod",
            "resize",
            json!({"spec": {"containers": [
                {"name": "c", "image": "1", "resources": {"limits": {"cpu": "2"}}}, {"name": "d"},
            ], "terminationGracePeriodSeconds": 30}}),
        ),
        (
            "CertificateSigningRequest",
            "approval",
            json!({"status": {"conditions": [{"type": "Approved"}]}}),
        ),
    ] {
        let mut world = world_of("1.33.0");
        world.put_json(
            kind,
            json!({"metadata": {"name": "a"}, "spec": {"containers": containers}}),
        );
        let (id, namespace) = (world.kind(kind), world.namespace(kind));
        let before = world.get(kind, "a");
        let response = world
            .server
            .update_subresource(id, namespace, "a", subresource, sent.clone());
        assert_eq!(response.code, 200, "{}", message(&response));
        let after = world.get(kind, "a");
        for part in ["spec", "status"] {
            let unchanged = before.get(part);
            let expected = expected.get(part).or(unchanged);
            assert_eq!(after.get(part), expected, "{subresource}");
        }
        assert_eq!(after["metadata"].get("labels"), None, "{subresource}");
        let mut stale = sent.clone();
        stale["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        let response = world
            .server
            .update_subresource(id, namespace, "a", subresource, stale);
        assert_eq!(response.code, 409);
    }
}
