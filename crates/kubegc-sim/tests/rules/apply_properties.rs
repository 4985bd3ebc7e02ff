//! Laws of server-side apply that hold for any configuration.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::world::{World, policy, world};

const KINDS: [&str; 3] = ["ConfigMap", "Child", "Deployment"];

/// Leaves that a configuration may name, by path, each with one of two values.
type Config = BTreeMap<usize, bool>;

const LEAVES: usize = 10;

/// The leaves of one half, for two managers that have nothing in common.
fn config(leaves: std::ops::Range<usize>) -> impl Strategy<Value = Config> {
    prop::collection::btree_map(leaves, any::<bool>(), 0..6)
}

/// Adds an item to a list of the metadata.
fn push(object: &mut Value, field: &str, item: Value) {
    let list = &mut object["metadata"][field];
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().unwrap().push(item);
}

/// The configuration as an object: labels, a map, finalizers, references and containers.
fn object(config: &Config) -> Value {
    let mut object = json!({"metadata": {"name": "a"}});
    for (&leaf, &value) in config {
        let text = if value { "1" } else { "2" };
        match leaf {
            0..3 => object["metadata"]["labels"][format!("l{leaf}")] = text.into(),
            3..5 => object["data"][format!("k{leaf}")] = text.into(),
            5..7 => push(&mut object, "finalizers", format!("x.dev/f{leaf}").into()),
            7 | 8 => {
                let owner =
                    json!({"apiVersion": "v1", "kind": "Secret", "name": text, "uid": format!("u{leaf}")});
                push(&mut object, "ownerReferences", owner);
            }
            _ => object["spec"]["deep"]["er"] = text.into(),
        }
    }
    object
}

/// An object in the form that two histories share: without versions, times and the order of sets.
fn settled(world: &World, kind: &str) -> Value {
    let mut stored = world.get(kind, "a");
    let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) else {
        return stored;
    };
    for key in ["resourceVersion", "uid", "generation"] {
        metadata.remove(key);
    }
    for key in ["finalizers", "ownerReferences", "managedFields"] {
        if let Some(Value::Array(items)) = metadata.get_mut(key) {
            items.sort_by_key(ToString::to_string);
        }
    }
    stored
}

/// Whether each leaf of a configuration has its value in the object.
fn check_applied(world: &World, kind: &str, config: &Config) -> Result<(), String> {
    let (stored, wanted) = (world.get(kind, "a"), object(config));
    for path in ["/metadata/labels", "/data", "/spec/deep"] {
        let fields = wanted.pointer(path).and_then(Value::as_object);
        for (key, value) in fields.into_iter().flatten() {
            let found = stored.pointer(path).and_then(|map| map.get(key));
            if found != Some(value) {
                return Err(format!("{path}/{key}: {found:?}, not {value}"));
            }
        }
    }
    for path in ["/metadata/finalizers", "/metadata/ownerReferences"] {
        let items = |object: &Value| {
            let items = object.pointer(path).and_then(Value::as_array);
            items.cloned().unwrap_or_default()
        };
        let found = items(&stored);
        if let Some(missing) = items(&wanted).iter().find(|item| !found.contains(item)) {
            return Err(format!("{path}: no {missing}"));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(
        kind in prop::sample::select(&KINDS[..]), before in config(0..LEAVES), one in config(0..LEAVES),
    ) {
        let mut world = world();
        world.apply(kind, "other", object(&before));
        let response = world.force(kind, "one", object(&one));
        prop_assert!(response.is_success());
        let (stored, revision) = (world.get(kind, "a"), world.server.revision());
        world.tick(100);
        for force in [false, true] {
            let again = world.apply_to(kind, None, "one", force, object(&one));
            prop_assert_eq!(again.code, 200);
            prop_assert_eq!(world.get(kind, "a"), stored.clone());
            prop_assert_eq!(world.server.revision(), revision);
        }
    }

    #[test]
    fn managers_of_different_fields_may_apply_in_any_order(
        kind in prop::sample::select(&KINDS[..]),
        first in config(0..5), second in config(5..LEAVES), third in config(0..5), fourth in config(5..LEAVES),
    ) {
        let start = world();
        let mut orders = Vec::new();
        for order in [["one", "two", "one", "two"], ["two", "one", "two", "one"], ["two", "two", "one", "one"]] {
            let mut world = start.clone();
            let mut turns = BTreeMap::from([("one", vec![&third, &first]), ("two", vec![&fourth, &second])]);
            for manager in order {
                let config = turns.get_mut(manager).unwrap().pop().unwrap();
                let response = world.apply(kind, manager, object(config));
                prop_assert!(response.is_success(), "{:?}", response.body);
            }
            orders.push(settled(&world, kind));
        }
        prop_assert_eq!(&orders[0], &orders[1]);
        prop_assert_eq!(&orders[0], &orders[2]);
    }

    #[test]
    fn fields_that_a_manager_no_longer_applies_are_removed_unless_another_applies_them(
        kind in prop::sample::select(&KINDS[..]),
        one in config(0..LEAVES), later in config(0..LEAVES), other in config(0..LEAVES),
    ) {
        // The values are equal in all, so that there is no conflict.
        let same = |config: &Config| config.keys().map(|&leaf| (leaf, true)).collect::<Config>();
        let (one, later, other) = (same(&one), same(&later), same(&other));
        let mut world = world();
        world.apply(kind, "one", object(&one));
        world.apply(kind, "other", object(&other));
        prop_assert!(world.apply(kind, "one", object(&later)).is_success());
        let left: Config = later.iter().chain(&other).map(|(&leaf, &value)| (leaf, value)).collect();
        let mut expected = crate::world::world();
        expected.apply(kind, "one", object(&left));
        let without_owners = |world: &World| {
            let mut stored = settled(world, kind);
            stored["metadata"]["managedFields"] = Value::Null;
            stored
        };
        prop_assert_eq!(without_owners(&world), without_owners(&expected));
    }

    #[test]
    fn force_sets_the_applied_values(
        kind in prop::sample::select(&KINDS[..]), history in prop::collection::vec((0_usize..3, config(0..LEAVES)), 0..6),
        last in config(0..LEAVES),
    ) {
        let mut world = world();
        for (manager, config) in &history {
            let manager = ["one", "two", "three"][*manager];
            let response = world.apply(kind, manager, object(config));
            if response.is_success() {
                let problem = check_applied(&world, kind, config);
                prop_assert!(problem.is_ok(), "{:?}", problem);
            } else {
                prop_assert_eq!(response.code, 409);
            }
        }
        prop_assert!(world.force(kind, "one", object(&last)).is_success());
        let problem = check_applied(&world, kind, &last);
        prop_assert!(problem.is_ok(), "{:?}", problem);
    }

    #[test]
    fn no_apply_adds_a_finalizer_to_a_deleting_object(
        kind in prop::sample::select(&KINDS[..]), before in config(0..LEAVES),
        history in prop::collection::vec((any::<bool>(), 0_usize..2, config(0..LEAVES)), 1..8),
    ) {
        let mut world = world();
        world.apply(kind, "one", object(&before));
        world.delete(kind, "a", &policy("Background"));
        let mut held = world.finalizers(kind, "a");
        for (force, manager, config) in &history {
            if world.get(kind, "a").is_null() {
                return Ok(());
            }
            let manager = ["one", "two"][*manager];
            world.apply_to(kind, None, manager, *force, object(config));
            let stored = world.get(kind, "a");
            let now = world.finalizers(kind, "a");
            prop_assert!(now.iter().all(|finalizer| held.contains(finalizer)));
            prop_assert!(stored.is_null() || !now.is_empty(), "removed with the last one");
            held = now;
        }
    }

    #[test]
    fn no_configuration_makes_the_server_panic(
        spec in json(), second in json(), manager in "[a-z\\x00]{0,3}", force in any::<bool>(),
    ) {
        let mut world = world();
        for kind in ["Pod", "Child", "Namespace"] {
            for (manager, spec) in [("one", &spec), (&*manager, &second)] {
                for field in ["spec", "metadata", "status"] {
                    let mut config = json!({"metadata": {"name": "a"}});
                    config[field] = spec.clone();
                    for subresource in [None, Some("status"), Some("scale")] {
                        let response = world.apply_to(kind, subresource, manager, force, config.clone());
                        prop_assert!((200..=500).contains(&response.code));
                    }
                }
            }
        }
    }
}

/// Odd JSON made of the words that an apply reads.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        prop::sample::select(vec!["a", "TCP", ""]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let word = prop::sample::select(vec![
            "name",
            "containers",
            "ports",
            "containerPort",
            "protocol",
            "finalizers",
            "ownerReferences",
            "uid",
            "labels",
            "managedFields",
            "conditions",
            "selector",
            "generateName",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word, inner, 0..4).prop_map(|fields| fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

#[derive(Clone, Debug)]
enum Write {
    Apply {
        manager: &'static str,
        force: bool,
        config: Config,
    },
    /// A merge patch that sets the values of a configuration.
    Set { writer: &'static str, config: Config },
    /// A merge patch that removes the fields of a configuration.
    Unset { writer: &'static str, config: Config },
}

fn write() -> impl Strategy<Value = Write> {
    let manager = || prop::sample::select(vec!["one", "two"]);
    let config = || config(0..LEAVES);
    prop_oneof![
        (manager(), any::<bool>(), config()).prop_map(|(manager, force, config)| Write::Apply {
            manager,
            force,
            config
        }),
        (manager(), config()).prop_map(|(writer, config)| Write::Set { writer, config }),
        (manager(), config()).prop_map(|(writer, config)| Write::Unset { writer, config }),
    ]
}

/// The paths of owned fields that do not exist; empty for none.
fn missing(fields: &Value, object: &Value, path: &str) -> String {
    let entries = fields.as_object().into_iter().flatten();
    entries
        .filter(|(key, _)| *key != ".")
        .map(|(key, below)| {
            let (form, name) = key.split_once(':').unwrap();
            let mut items = object.as_array().into_iter().flatten();
            let found = match form {
                "f" => object.get(name),
                "v" => {
                    let value: Value = serde_json::from_str(name).unwrap();
                    items.find(|item| **item == value)
                }
                _ => {
                    let keys: Map<String, Value> = serde_json::from_str(name).unwrap();
                    items.find(|item| keys.iter().all(|(key, value)| item[key] == *value))
                }
            };
            match found {
                None => format!("{path}/{key} "),
                Some(found) => missing(below, found, &format!("{path}/{key}")),
            }
        })
        .collect()
}

/// The same object with null for every leaf and empty lists.
fn nulled(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), nulled(value)))
            .collect(),
        _ => Value::Null,
    }
}

proptest! {
    #[test]
    fn no_manager_owns_a_missing_field(
        kind in prop::sample::select(&KINDS[..]), history in prop::collection::vec(write(), 1..12),
    ) {
        let mut world = world();
        for write in &history {
            match write {
                Write::Apply { manager, force, config } => {
                    world.apply_to(kind, None, manager, *force, object(config));
                }
                Write::Set { writer, config } => {
                    world.server.set_field_manager(writer);
                    world.patch(kind, "a", crate::world::MERGE, &object(config));
                }
                Write::Unset { writer, config } => {
                    world.server.set_field_manager(writer);
                    let mut patch = nulled(&object(config));
                    patch["metadata"]["name"] = "a".into();
                    world.patch(kind, "a", crate::world::MERGE, &patch);
                }
            }
            let stored = world.get(kind, "a");
            for (manager, fields) in world.managers(kind, "a") {
                prop_assert_ne!(&fields, &json!({}), "{} has nothing", manager);
                let missing = missing(&fields, &stored, "");
                // An empty map or list may be owned, and metadata does not show it.
                let missing: Vec<&str> = missing
                    .split_whitespace()
                    .filter(|path| !matches!(*path, "/f:metadata/f:labels" | "/f:metadata/f:finalizers" | "/f:metadata/f:ownerReferences"))
                    .collect();
                prop_assert!(missing.is_empty(), "{} owns {:?} in {}", manager, missing, stored);
            }
        }
    }
}
