//! Laws that hold for any sequence of requests.

use std::collections::BTreeMap;

use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{MERGE, World, text, world};

#[derive(Clone, Debug)]
enum Change {
    Create,
    Label(u8),
    Data(u8),
    Hold(bool),
    Delete,
    DeleteAll,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => Just(Change::Create),
        2 => (0_u8..3).prop_map(Change::Label),
        2 => (0_u8..3).prop_map(Change::Data),
        1 => any::<bool>().prop_map(Change::Hold),
        3 => Just(Change::Delete),
        1 => Just(Change::DeleteAll),
    ]
}

/// Changes of objects in two namespaces, and whether they are dry runs.
fn changes() -> impl Strategy<Value = Vec<(&'static str, u8, Change, bool)>> {
    let namespace = prop::sample::select(vec!["shop", "bank"]);
    prop::collection::vec((namespace, 0_u8..5, change(), prop::bool::weighted(0.2)), 0..40)
}

fn apply_change(world: &mut World, (namespace, name, change, dry_run): &(&str, u8, Change, bool)) {
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let name = format!("m{name}");
    let one = format!("{collection}/{name}");
    let patch = |body: Value| (Method::PATCH, &one, body);
    let (method, url, body) = match change {
        Change::Create => {
            let body = json!({"metadata": {"name": name, "labels": {"tier": "0"}}});
            (Method::POST, &collection, body)
        }
        Change::Label(value) => patch(json!({"metadata": {"labels": {"tier": value.to_string()}}})),
        Change::Data(value) => patch(json!({"data": {"a": value.to_string()}})),
        Change::Hold(true) => patch(json!({"metadata": {"finalizers": ["x.dev/hold"]}})),
        Change::Hold(false) => patch(json!({"metadata": {"finalizers": null}})),
        Change::Delete => (Method::DELETE, &one, Value::Null),
        Change::DeleteAll => (Method::DELETE, &collection, Value::Null),
    };
    let url = url.clone();
    let content_type = if method == Method::PATCH {
        MERGE
    } else {
        "application/json"
    };
    // The options of a deletion may be in its body.
    let (url, body) = match (dry_run, method == Method::DELETE && name.ends_with(['1', '3'])) {
        (false, _) => (url, body),
        (true, false) => (format!("{url}?dryRun=All"), body),
        (true, true) => (url, json!({"dryRun": ["All"]})),
    };
    let before = world.server.revision();
    let reply = world.send(method, &url, &[("content-type", content_type)], &body);
    if *dry_run || reply.code >= 400 {
        assert_eq!(world.server.revision(), before, "{url}: {}", reply.text);
    }
    if reply.code >= 400 {
        assert_eq!(reply.json()["code"], reply.code);
    }
}

/// The objects of a list, by namespace and name.
fn objects(list: &Value) -> BTreeMap<(String, String), Value> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(|item| (key(item), without_type(item))).collect()
}

fn key(object: &Value) -> (String, String) {
    let metadata = &object["metadata"];
    (text(&metadata["namespace"]), text(&metadata["name"]))
}

/// An object without the fields that depend on the response that contains it.
fn without_type(object: &Value) -> Value {
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    object
}

const SELECTIONS: [&str; 5] = [
    "",
    "labelSelector=tier%3D0",
    "labelSelector=tier%21%3D1",
    "fieldSelector=metadata.name%3Dm1",
    "fieldSelector=metadata.namespace%3Dshop&labelSelector=tier+in+(0,2)",
];

proptest! {
    #[test]
    fn pages_of_any_size_are_the_list_as_it_was(before in changes(), between in changes(), limit in 1_usize..6) {
        let mut world = world();
        for change in &before {
            apply_change(&mut world, change);
        }
        for selection in SELECTIONS {
            let mut world = World { server: world.server.clone(), rules: world.rules.clone() };
            let url = format!("/api/v1/configmaps?{selection}");
            let whole = world.get(&url).json();
            let (mut items, mut token, mut changes) = (Vec::new(), String::new(), between.iter());
            loop {
                let page = world.get(&format!("{url}&limit={limit}&continue={token}")).json();
                prop_assert_eq!(&page["metadata"]["resourceVersion"], &whole["metadata"]["resourceVersion"]);
                items.extend(page["items"].as_array().expect("items").iter().cloned());
                token = text(&page["metadata"]["continue"]);
                if token.is_empty() {
                    break;
                }
                for change in changes.by_ref().take(3) {
                    apply_change(&mut world, change);
                }
            }
            prop_assert_eq!(&json!(items), &whole["items"]);
        }
    }

    #[test]
    fn a_watch_from_a_list_leads_to_the_later_list(before in changes(), after in changes(), pauses in 1_usize..5) {
        let mut world = world();
        for change in &before {
            apply_change(&mut world, change);
        }
        let mut followed: Vec<_> = SELECTIONS
            .iter()
            .map(|selection| {
                let url = format!("/api/v1/configmaps?{selection}");
                let list = world.get(&url);
                let watch = world.watch(&format!("{url}&watch=1&resourceVersion={}", list.revision()));
                (url, objects(&list.json()), watch)
            })
            .collect();
        for (at, change) in after.iter().enumerate() {
            apply_change(&mut world, change);
            if at % pauses == 0 {
                replay(&world, &mut followed);
            }
        }
        replay(&world, &mut followed);
        for (url, state, _) in followed {
            prop_assert_eq!(state, objects(&world.get(&url).json()), "{}", url);
        }
    }

    #[test]
    fn a_past_list_is_the_list_that_was(changes in changes()) {
        let mut world = world();
        let mut lists = BTreeMap::new();
        for change in &changes {
            let list = world.get("/api/v1/configmaps");
            lists.insert(list.revision(), list.json());
            apply_change(&mut world, change);
        }
        for (revision, list) in lists {
            let url = format!("/api/v1/configmaps?resourceVersion={revision}&resourceVersionMatch=Exact");
            prop_assert_eq!(world.get(&url).json(), list);
        }
    }
}

type Followed = (
    String,
    BTreeMap<(String, String), Value>,
    kubegc_testkit::http::Watch,
);

/// Brings what was listed up to date; events must fit what is known.
fn replay(world: &World, followed: &mut [Followed]) {
    for (url, state, watch) in followed {
        for line in world.lines(watch).0 {
            let (key, object) = (key(&line["object"]), without_type(&line["object"]));
            match line["type"].as_str() {
                Some("ADDED") => assert_eq!(state.insert(key, object), None, "{url}: {line}"),
                Some("MODIFIED") => assert!(state.insert(key, object).is_some(), "{url}: {line}"),
                Some("DELETED") => assert!(state.remove(&key).is_some(), "{url}: {line}"),
                _ => panic!("{url}: {line}"),
            }
        }
    }
}
