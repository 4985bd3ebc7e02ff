//! Subresources: those of each kind, scales of definitions, and parts of an object.

use serde_json::json;

use crate::world::{World, message, served, world, world_of};

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
