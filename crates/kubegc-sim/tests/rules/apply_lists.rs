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

/// Kind, path, what two managers apply there, and the result.
const MERGED: &str = r#"
Pod spec.containers | [{"name": "a"}, {"name": "b"}, {"name": "c"}] | [{"name": "d"}, {"name": "c"}, {"name": "a"}] | [{"name": "d"}, {"name": "c"}, {"name": "a"}, {"name": "b"}]
Pod spec.containers | [{"name": "a"}, {"name": "b"}] | [{"name": "c"}, {"name": "b"}] | [{"name": "a"}, {"name": "c"}, {"name": "b"}]
ConfigMap metadata.finalizers | ["x.dev/a", "x.dev/b"] | ["x.dev/c", "x.dev/b"] | ["x.dev/a", "x.dev/c", "x.dev/b"]
Child spec | {"a": {"b": 1}} | {"a": {"c": 1}} | {"a": {"b": 1, "c": 1}}
"#;

/// Kind, path, what two managers apply there, and the field of the conflict.
const ATOMIC: &str = r#"
Pod spec.tolerations | [{"key": "a"}] | [{"key": "b"}] | ".spec.tolerations"
Pod spec.nodeSelector | {"a": "1"} | {"b": "1"} | ".spec.nodeSelector"
Deployment spec.selector | {"matchLabels": {"a": "1"}} | {"matchLabels": {"b": "1"}} | ".spec.selector"
Child spec | {"list": [1]} | {"list": [2]} | ".spec.list"
"#;

/// The kinds, paths and values of a table.
fn rows(table: &str) -> impl Iterator<Item = (&str, &str, [Value; 3])> {
    table.trim().lines().map(|row| {
        let mut parts = row.split(" | ");
        let (kind, path) = parts.next().unwrap().split_once(' ').unwrap();
        let values = [(); 3].map(|()| serde_json::from_str(parts.next().unwrap()).unwrap());
        (kind, path, values)
    })
}

/// The applied order counts; items that only the object has keep their place before their successors.
#[test]
fn lists_of_two_managers_merge_in_the_order_of_both() {
    for (kind, path, [first, second, expected]) in rows(MERGED) {
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
    for (kind, path, [first, second, field]) in rows(ATOMIC) {
        let mut world = world_of("1.30.0");
        world.apply(kind, "one", at(path, &first));
        let response = world.apply(kind, "two", at(path, &second));
        let causes = response.status().unwrap().causes();
        let fields: Vec<&str> = causes.iter().map(|cause| &*cause.field).collect();
        assert_eq!(fields, [field.as_str().unwrap()]);
        assert_eq!(world.force(kind, "two", at(path, &second)).code, 200);
        let pointer = format!("/{}", path.replace('.', "/"));
        assert_eq!(world.get(kind, "a").pointer(&pointer), Some(&second));
    }
}
