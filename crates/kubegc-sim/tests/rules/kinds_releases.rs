//! Rules and texts of built-in kinds on both sides of the release that changed them.

use kubegc_sim::{ApiServer, Settings};
use serde_json::{Value, json};

use crate::world::{World, message, served, world_of};

fn typed(version: &str) -> World {
    let World { server } = world_of(version);
    let settings = Settings {
        types: true,
        namespaces_must_exist: false,
        ..Settings::default()
    };
    let catalog = server.catalog().clone();
    World {
        server: ApiServer::new(server.version(), catalog).with_settings(settings),
    }
}

/// The specification of a workload with one container.
fn workload(container: Value, affinity: Value) -> Value {
    json!({
        "serviceName": "a",
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [container], "affinity": affinity},
        },
    })
}

/// The minor version of a change, the kind, an object without a name, and parts of the messages before the
/// change and since; empty where the object is accepted.
fn cases() -> Vec<(u16, &'static str, &'static str, Value, &'static str, &'static str)> {
    let with_port = json!({"name": "c", "image": "i", "ports": [{"containerPort": 1, "name": "123"}]});
    let on_nodes = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}],
    }}});
    let mut deployment = workload(with_port, Value::Null);
    let mut bound = workload(json!({"name": "c", "image": "i"}), on_nodes);
    for spec in [&mut deployment, &mut bound] {
        spec["serviceName"].take();
    }
    vec![
        (
            24,
            "v1",
            "Secret",
            json!({"type": "kubernetes.io/basic-auth"}),
            "data[%s][username]: Required value",
            "data[username]: Required value",
        ),
        (
            25,
            "apps/v1",
            "Deployment",
            json!({"spec": deployment}),
            "must contain at least one letter or number (a-z, 0-9)",
            "must contain at least one letter (a-z)",
        ),
        (
            30,
            "networking.k8s.io/v1",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]}}),
            "not a valid CIDR",
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ),
        (
            31,
            "v1",
            "ResourceQuota",
            json!({"spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
                {"scopeName": "BestEffort", "operator": "In", "values": ["a"]},
            ]}}}),
            "must be 'Exist' when scope",
            "must be 'Exists' when scope",
        ),
        (
            32,
            "apps/v1",
            "Deployment",
            json!({"spec": bound}),
            "",
            "values[0]: Invalid value: \"b c\": a valid label must be",
        ),
        (
            33,
            "v1",
            "Service",
            json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 10250}]}}),
            "may not expose port 10250 externally since it is used by kubelet",
            "",
        ),
        (
            34,
            "apps/v1",
            "StatefulSet",
            json!({"spec": workload(json!({"name": "c"}), Value::Null)}),
            "",
            "spec.template.spec.containers[0].image: Required value",
        ),
        (
            34,
            "networking.k8s.io/v1",
            "Ingress",
            json!({"spec": {"defaultBackend": {"resource": {"kind": "", "name": ""}}}}),
            "resource.kind: Required value: kind is required",
            "resource.kind: Required value, ",
        ),
        (
            36,
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({"spec": {
                "maxReplicas": 0,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            }}),
            "spec.maxReplicas: Invalid value: 0: must be greater than 0",
            "spec.maxReplicas: Required value: must be set and greater than 0",
        ),
    ]
}

#[test]
fn problems_are_those_of_each_release() {
    for (since, api_version, kind, mut object, before, after) in cases() {
        object["metadata"] = json!({"name": "a"});
        for (minor, expected) in [(since - 1, before), (since, after)] {
            let mut world = typed(&format!("1.{minor}.0"));
            let id = served(&world, api_version, kind);
            let response = world.server.create_json(id, "ns", object.clone());
            let shown = message(&response);
            assert_eq!(
                shown.is_empty(),
                expected.is_empty(),
                "{kind} of 1.{minor}: {shown}"
            );
            assert!(shown.contains(expected), "{kind} of 1.{minor}: {shown}");
        }
    }
}
