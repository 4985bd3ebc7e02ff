//! Merging of applied lists: the order of the result, and lists that belong to one manager.

use serde_json::{Value, json};

use crate::world::{message, world_of};

fn at(path: &str, value: &Value) -> Value {
    let mut config = json!({"metadata": {"name": "a"}});
    let mut place = &mut config;
    for step in path.split('.') {
        place = &mut place[step];
    }
    *place = value.clone();
    config
}

/// The applied order counts; items that only the object has keep their place before their successors.
#[test]
fn lists_of_two_managers_merge_in_the_order_of_both() {
    let named = |names: &str| -> Value {
        let names = names.chars();
        names.map(|name| json!({"name": name.to_string()})).collect()
    };
    for (kind, path, first, second, expected) in [
        (
            "Pod",
            "spec.containers",
            named("abc"),
            named("dca"),
            named("dcab"),
        ),
        ("Pod", "spec.containers", named("ab"), named("cb"), named("acb")),
        (
            "ConfigMap",
            "metadata.finalizers",
            json!(["x.dev/a", "x.dev/b"]),
            json!(["x.dev/c", "x.dev/b"]),
            json!(["x.dev/a", "x.dev/c", "x.dev/b"]),
        ),
        (
            "Child",
            "spec",
            json!({"a": {"b": 1}}),
            json!({"a": {"c": 1}}),
            json!({"a": {"b": 1, "c": 1}}),
        ),
    ] {
        let mut world = world_of("1.30.0");
        for (manager, list) in [("one", &first), ("two", &second)] {
            let response = world.apply(kind, manager, at(path, list));
            assert!(response.is_success(), "{}", message(&response));
        }
        let pointer = format!("/{}", path.replace('.', "/"));
        let stored = world.get(kind, "a");
        assert_eq!(stored.pointer(&pointer), Some(&expected), "{first} + {second}");
        // The items of a manager are removed with it.
        for manager in ["two", "one"] {
            world.apply(kind, manager, json!({"metadata": {"name": "a"}}));
        }
        assert_eq!(world.get(kind, "a").pointer(&pointer), None);
    }
}

#[test]
fn an_atomic_value_belongs_to_one_manager() {
    for (kind, path, first, second, field) in [
        (
            "Pod",
            "spec.tolerations",
            json!([{"key": "a"}]),
            json!([{"key": "b"}]),
            "",
        ),
        (
            "Pod",
            "spec.nodeSelector",
            json!({"a": "1"}),
            json!({"b": "1"}),
            "",
        ),
        (
            "Deployment",
            "spec.selector",
            json!({"matchLabels": {"a": "1"}}),
            json!({"matchLabels": {"b": "1"}}),
            "",
        ),
        (
            "Child",
            "spec",
            json!({"list": [1]}),
            json!({"list": [2]}),
            ".list",
        ),
    ] {
        let mut world = world_of("1.30.0");
        world.apply(kind, "one", at(path, &first));
        let response = world.apply(kind, "two", at(path, &second));
        let causes = response.status().unwrap().causes();
        let fields: Vec<&str> = causes.iter().map(|cause| &*cause.field).collect();
        assert_eq!(fields, [format!(".{path}{field}")]);
        assert_eq!(world.force(kind, "two", at(path, &second)).code, 200);
        let pointer = format!("/{}", path.replace('.', "/"));
        assert_eq!(world.get(kind, "a").pointer(&pointer), Some(&second));
    }
}
