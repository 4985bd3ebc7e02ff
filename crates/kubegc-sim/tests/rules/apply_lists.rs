//! Merging of applied configurations: lists by their keys, sets, and atomic lists.

use serde_json::{Value, json};

use crate::world::{message, served, world, world_of};

/// The configurations that two managers apply in turn, and the result under `path`; conflicts are the paths.
struct Case {
    kind: &'static str,
    first: Value,
    second: Value,
    path: &'static str,
    expected: Result<Value, Vec<&'static str>>,
}

fn case(kind: &'static str, path: &'static str, first: Value, second: Value, expected: Value) -> Case {
    Case {
        kind,
        first,
        second,
        path,
        expected: Ok(expected),
    }
}

fn at(path: &str, value: Value) -> Value {
    let mut config = json!({"metadata": {"name": "a"}});
    let mut place = &mut config;
    for step in path.split('.') {
        place = &mut place[step];
    }
    *place = value;
    config
}

#[test]
fn built_in_lists_merge_by_the_keys_of_their_items() {
    let containers = "spec.template.spec.containers";
    for Case {
        kind,
        first,
        second,
        path,
        expected,
    } in [
        case(
            "Deployment",
            containers,
            json!([{"name": "a", "image": "1"}]),
            json!([{"name": "b", "image": "2"}]),
            json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
        ),
        case(
            "Deployment",
            containers,
            json!([{"name": "a", "env": [{"name": "X", "value": "1"}]}]),
            json!([{"name": "a", "env": [{"name": "Y", "value": "2"}], "volumeMounts": [{"mountPath": "/m", "name": "v"}]}]),
            json!([{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
                "volumeMounts": [{"mountPath": "/m", "name": "v"}]}]),
        ),
        case(
            "Deployment",
            containers,
            json!([{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]),
            json!([{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80, "protocol": "TCP"}]}]),
            json!([{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"},
                {"containerPort": 80, "name": "http", "protocol": "TCP"}]}]),
        ),
        // The applied order counts; items that only the object has keep their place before their successors.
        case(
            "Pod",
            "spec.containers",
            json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]),
            json!([{"name": "d"}, {"name": "c"}, {"name": "a"}]),
            json!([{"name": "d"}, {"name": "c"}, {"name": "a"}, {"name": "b"}]),
        ),
        case(
            "Pod",
            "spec.containers",
            json!([{"name": "a"}, {"name": "b"}]),
            json!([{"name": "c"}, {"name": "b"}]),
            json!([{"name": "a"}, {"name": "c"}, {"name": "b"}]),
        ),
        case(
            "Service",
            "spec.ports",
            json!([{"port": 80, "protocol": "TCP", "targetPort": 8080}]),
            json!([{"port": 443, "protocol": "TCP"}]),
            json!([{"port": 80, "protocol": "TCP", "targetPort": 8080}, {"port": 443, "protocol": "TCP"}]),
        ),
        case(
            "ConfigMap",
            "metadata.finalizers",
            json!(["x.dev/a", "x.dev/b"]),
            json!(["x.dev/c", "x.dev/b"]),
            json!(["x.dev/a", "x.dev/c", "x.dev/b"]),
        ),
        case(
            "Child",
            "metadata.ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "1"}]),
            json!([{"apiVersion": "v1", "kind": "Secret", "name": "t", "uid": "2"}]),
            json!([{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "1"},
                {"apiVersion": "v1", "kind": "Secret", "name": "t", "uid": "2"}]),
        ),
        Case {
            kind: "Pod",
            path: "spec.tolerations",
            first: json!([{"key": "a"}]),
            second: json!([{"key": "b"}]),
            expected: Err(vec![".spec.tolerations"]),
        },
        Case {
            kind: "Deployment",
            path: "spec.selector",
            first: json!({"matchLabels": {"a": "1"}}),
            second: json!({"matchLabels": {"b": "1"}}),
            expected: Err(vec![".spec.selector"]),
        },
        Case {
            kind: "Pod",
            path: "spec.nodeSelector",
            first: json!({"a": "1"}),
            second: json!({"b": "1"}),
            expected: Err(vec![".spec.nodeSelector"]),
        },
        case(
            "Child",
            "spec",
            json!({"a": {"b": 1}}),
            json!({"a": {"c": 1}}),
            json!({"a": {"b": 1, "c": 1}}),
        ),
        Case {
            kind: "Child",
            path: "spec",
            first: json!({"list": [1]}),
            second: json!({"list": [2]}),
            expected: Err(vec![".spec.list"]),
        },
    ] {
        let mut world = world_of("1.30.0");
        let response = world.apply(kind, "one", at(path, first.clone()));
        assert_eq!(response.code, 201, "{}", message(&response));
        let response = world.apply(kind, "two", at(path, second.clone()));
        let pointer = format!("/{}", path.replace('.', "/"));
        match expected {
            Ok(expected) => {
                assert_eq!(response.code, 200, "{}", message(&response));
                let stored = world.get(kind, "a");
                assert_eq!(stored.pointer(&pointer), Some(&expected), "{first} + {second}");
                // The items of a manager are removed with it, and nothing else.
                world.apply(kind, "two", json!({"metadata": {"name": "a"}}));
                world.apply(kind, "one", json!({"metadata": {"name": "a"}}));
                let stored = world.get(kind, "a");
                assert_eq!(stored.pointer(&pointer), None, "{stored}");
            }
            Err(paths) => {
                let causes = response
                    .status()
                    .unwrap_or_else(|| panic!("{path}: {}", message(&response)))
                    .causes();
                let fields: Vec<&str> = causes.iter().map(|cause| &*cause.field).collect();
                assert_eq!(fields, paths);
                let response = world.force(kind, "two", at(path, second.clone()));
                assert_eq!(response.code, 200);
                let stored = world.get(kind, "a");
                assert_eq!(stored.pointer(&pointer), Some(&second));
            }
        }
    }
}

#[test]
fn fields_added_to_an_item_of_another_manager_are_removed_alone() {
    let mut world = world();
    let containers =
        |containers: Value| json!({"metadata": {"name": "a"}, "spec": {"containers": containers}});
    let both = json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]);
    world.apply("Pod", "one", containers(both));
    world.apply("Pod", "two", containers(json!([{"name": "a", "tty": true}])));
    world.apply("Pod", "one", containers(json!([{"name": "b", "image": "2"}])));
    assert_eq!(
        world.get("Pod", "a")["spec"]["containers"],
        json!([{"name": "a", "tty": true}, {"name": "b", "image": "2"}])
    );
    world.apply("Pod", "two", containers(json!([])));
    assert_eq!(
        world.get("Pod", "a")["spec"]["containers"],
        json!([{"name": "b", "image": "2"}])
    );
}

#[test]
fn the_schema_of_a_definition_determines_how_lists_and_objects_merge() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id", "zone"],
            "items": {"type": "object", "properties": {"id": {"type": "string"}, "zone": {"type": "string", "default": "z"}}}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic"},
        "open": {"type": "object", "additionalProperties": {"type": "object"}},
    }}}});
    let mut world = world();
    let definition = json!({
        "metadata": {"name": "things.test.dev"},
        "spec": {"group": "test.dev", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    world.put_json("CustomResourceDefinition", definition);
    let kind = served(&world, "test.dev/v1", "Thing");
    let mut apply = |manager: &str, spec: Value| {
        let config =
            json!({"apiVersion": "test.dev/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
        let options = kubegc_sim::ApplyOptions {
            field_manager: manager.to_owned(),
            force: false,
        };
        world.server.apply(kind, "ns", "a", None, config, &options)
    };
    let first = json!({"set": ["a"], "map": [{"id": "1", "v": 1}], "plain": ["a"], "atomic": {"a": 1}, "open": {"x": {}}});
    assert_eq!(apply("one", first).code, 201);
    let second = json!({"set": ["b"], "map": [{"id": "1", "zone": "z", "w": 1}, {"id": "2"}], "open": {"y": {"z": 1}}});
    let response = apply("two", second);
    assert_eq!(response.code, 200, "{}", message(&response));
    let stored = response.object().unwrap().at(&["spec"]).unwrap().clone();
    assert_eq!(
        stored,
        json!({"set": ["a", "b"], "map": [{"id": "1", "zone": "z", "v": 1, "w": 1}, {"id": "2"}], "plain": ["a"],
            "atomic": {"a": 1}, "open": {"x": {}, "y": {"z": 1}}})
    );
    let response = apply("two", json!({"plain": ["b"], "atomic": {"b": 1}}));
    let causes = response.status().unwrap().causes();
    let fields: Vec<&str> = causes.iter().map(|cause| &*cause.field).collect();
    assert_eq!(fields, [".spec.atomic", ".spec.plain"]);
}
