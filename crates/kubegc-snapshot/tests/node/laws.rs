//! Laws: no bytes panic, every cut is detected, no wrong type is taken as something else, unknown fields
//! change nothing.

use std::sync::Arc;

use kubegc_core::node_facts::{Container, ContainerState, Image, Sandbox, SandboxState};
use kubegc_node::Listing;
use kubegc_snapshot::{NodeDocument, NodeReader, NodeSnapshot};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::common::{NAMES, bundled_text, now};

fn read(text: &[u8], lenient: bool) -> Option<NodeSnapshot> {
    let mut reader = NodeReader::new().now(now()).pods_are_whole().lenient(lenient);
    let read = reader.read("f", text);
    let finished = reader.finish();
    assert_eq!(read.is_ok(), finished.is_ok());
    finished.ok()
}

/// A document of the bundled node with at most three entries in each of its lists.
fn short(name: &str) -> Value {
    let mut value: Value = serde_json::from_str(&bundled_text(name)).expect("JSON");
    for list in ["containers", "items", "images", "records"] {
        if let Some(Value::Array(list)) = value.get_mut(list) {
            let keep = list.len() - list.len().min(3);
            list.drain(..keep);
        }
    }
    value
}

fn json_documents() -> impl Strategy<Value = (&'static str, Value)> {
    let names: Vec<&str> = NAMES.into_iter().filter(|name| name.ends_with("json")).collect();
    prop::sample::select(names).prop_map(|name| (name, short(name)))
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = vec![
        "containers",
        "items",
        "images",
        "status",
        "node",
        "records",
        "kubeletconfig",
        "kind",
        "id",
        "state",
        "createdAt",
        "metadata",
        "labels",
        "imageRef",
        "podSandboxId",
        "size",
        "uid",
        "name",
        "pinned",
        "evictionHard",
        "imageMinimumGCAge",
        "runtime",
        "imageFs",
        "capacityBytes",
        "usedBytes",
        "value",
        "mounts",
        "image",
        "key",
        "lastUsed",
        "CONTAINER_EXITED",
        "Pod",
        "List",
        "KubeletConfiguration",
        "2m0s",
        "-1",
        "",
    ];
    let word = prop::sample::select(words);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word.clone(), inner, 0..6).prop_map(|pairs| {
                Value::Object(
                    pairs
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

/// The paths of all values of a tree, in order. A list of paths instead of a recursion.
fn paths(root: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    let mut open = vec![(String::new(), root)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(map) => {
                open.extend(map.iter().map(|(key, value)| {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    (format!("{path}/{key}"), value)
                }));
            }
            Value::Array(list) => {
                open.extend(
                    list.iter()
                        .enumerate()
                        .map(|(index, value)| (format!("{path}/{index}"), value)),
                );
            }
            _ => {}
        }
        paths.push(path);
    }
    paths.sort();
    paths
}

/// The facts that planners get, without findings.
fn facts(node: &NodeSnapshot) -> NodeSnapshot {
    let mut facts = node.clone();
    facts.findings.clear();
    facts.finding_counts.clear();
    facts
}

/// Whether these facts lead to no action that those do not lead to: each entry is the same, protected, or
/// missing, or the listing is unknown.
fn is_no_bolder<T>(
    ours: &Listing<Vec<Arc<T>>>,
    theirs: &Listing<Vec<Arc<T>>>,
    holds: impl Fn(&T, &T) -> bool,
    may_go: bool,
) -> bool {
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
        return ours.is_err();
    };
    (may_go || ours.len() == theirs.len())
        && ours
            .iter()
            .all(|one| theirs.iter().any(|other| holds(one, other)))
}

fn holds_container(one: &Container, other: &Container) -> bool {
    let same_use = (&one.id, &one.sandbox_id, &one.image) == (&other.id, &other.sandbox_id, &other.image);
    one == other || (same_use && one.state == ContainerState::Running)
}

fn holds_sandbox(one: &Sandbox, other: &Sandbox) -> bool {
    one == other || (one.id == other.id && one.state == SandboxState::Ready)
}

fn holds_image(one: &Image, other: &Image) -> bool {
    one == other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_panic(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&noise, true).is_some());
        read(&noise, false);
    }

    #[test]
    fn random_json_does_not_panic(value in any_json(), kind in prop::sample::select(NodeDocument::ALL.to_vec())) {
        let text = value.to_string();
        for lenient in [false, true] {
            read(text.as_bytes(), lenient);
            let mut reader = NodeReader::new().now(now()).lenient(lenient);
            let read = reader.read_as(kind, "f", text.as_bytes());
            prop_assert!(read.is_ok() || !lenient);
            prop_assert_eq!(reader.finish().is_ok(), read.is_ok());
        }
    }

    #[test]
    fn random_flags_do_not_panic(words in prop::collection::vec(prop::sample::select(vec![
        "--", "-", "--image-gc-high-threshold", "--image-gc-high-threshold=", "=", "7", "-7", "--eviction-hard=a<b,,c", "--feature-gates=A=true", "--eviction-soft",
        "\u{e4}", "--minimum-container-ttl-duration=9999999h", "--maximum_dead_containers=99999999999", "--pod-infra-container-image", "",
    ]), 0..12)) {
        let mut reader = NodeReader::new();
        reader.read_flags(words.iter().copied());
        let node = reader.finish().expect("flags are never refused");
        prop_assert_eq!(node.policy.is_none(), !node.findings.is_empty());
    }

    #[test]
    fn damaged_input_does_not_panic(name in prop::sample::select(NAMES.to_vec()), at in any::<prop::sample::Index>(), with in any::<u8>(), drop in 0_usize..40) {
        let mut text = bundled_text(name).into_bytes();
        let at = at.index(text.len());
        let end = (at + drop).min(text.len());
        text.splice(at..end, [with]);
        prop_assert!(read(&text, true).is_some());
        read(&text, false);
    }

    #[test]
    fn a_value_of_another_type_is_refused_reported_or_unknown_to_the_readers((name, document) in json_documents(), at in any::<prop::sample::Index>(),
            replacement in prop::sample::select(vec![json!(true), json!(-1.5), json!({"?": []}), json!([[]])])) {
        let whole = read(document.to_string().as_bytes(), false).expect("a document");
        let paths = paths(&document);
        let path = &paths[at.index(paths.len())];
        let mut damaged = document.clone();
        let place = damaged.pointer_mut(path).expect("the path is of this document");
        let same_type = std::mem::discriminant(place) == std::mem::discriminant(&replacement);
        prop_assume!(!same_type);
        *place = replacement;
        let damaged = damaged.to_string();
        if let Some(node) = read(damaged.as_bytes(), false) {
            prop_assert!(
                node.finding_counts != whole.finding_counts || facts(&node) == facts(&whole),
                "{} {}: silently taken", name, path
            );
        }
        // Lenient reading never leads to more removals.
        let node = read(damaged.as_bytes(), true).expect("lenient");
        let (ours, theirs) = (&node.inventory, &whole.inventory);
        prop_assert!(is_no_bolder(&ours.containers, &theirs.containers, holds_container, false), "{} {}", name, path);
        prop_assert!(is_no_bolder(&ours.sandboxes, &theirs.sandboxes, holds_sandbox, true), "{} {}", name, path);
        prop_assert!(is_no_bolder(&ours.images, &theirs.images, holds_image, true), "{} {}", name, path);
        prop_assert!(node.policy.is_none() || node.policy == whole.policy);
        prop_assert!(ours.image_records.is_empty() || ours.image_records == theirs.image_records);
    }

    #[test]
    fn unknown_fields_change_nothing((_, document) in json_documents(), at in any::<prop::sample::Index>(), value in any_json()) {
        let whole = read(document.to_string().as_bytes(), false).expect("a document");
        let mut wider = document.clone();
        let maps: Vec<String> = paths(&document)
            .into_iter()
            .filter(|path| document.pointer(path).is_some_and(Value::is_object))
            // In maps of texts and statuses any name is known.
            .filter(|path| !["labels", "annotations", "evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim", "featureGates"]
                .iter().any(|known| path.contains(known)))
            .collect();
        let path = &maps[at.index(maps.len())];
        if let Some(Value::Object(map)) = wider.pointer_mut(path) {
            map.insert("fieldOfTomorrow".to_owned(), value);
        }
        prop_assert_eq!(read(wider.to_string().as_bytes(), false), Some(whole));
    }

    #[test]
    fn null_and_missing_fields_are_equal((name, document) in json_documents(), at in any::<prop::sample::Index>()) {
        let paths: Vec<String> = paths(&document)
            .into_iter()
            .filter(|path| {
                let parent = &path[..path.rfind('/').unwrap_or(0)];
                !path.is_empty() && document.pointer(parent).is_some_and(Value::is_object)
                    // Maps of texts distinguish null from a missing key, as Go does; and the list itself must
                    // exist.
                    && !parent.contains("labels") && !parent.contains("annotations") && !parent.contains("eviction")
                    && !parent.is_empty() && parent != "/node" && parent != "/status"
                    && !path.ends_with("/state/running") && !path.ends_with("/state/terminated") && !path.ends_with("/state/waiting")
            })
            .collect();
        prop_assume!(!paths.is_empty());
        let path = &paths[at.index(paths.len())];
        let (parent, name_of) = path.split_at(path.rfind('/').unwrap_or(0));
        let mut null = document.clone();
        let mut gone = document.clone();
        *null.pointer_mut(path).expect("there") = Value::Null;
        let map: &mut Map<String, Value> = gone.pointer_mut(parent).and_then(Value::as_object_mut).expect("a map");
        map.remove(&name_of[1..].replace("~1", "/").replace("~0", "~"));
        prop_assert_eq!(read(null.to_string().as_bytes(), false), read(gone.to_string().as_bytes(), false), "{} {}", name, path);
    }
}

#[test]
fn a_truncated_document_is_an_error_or_a_finding() {
    for name in NAMES {
        let text = if name.ends_with("json") {
            short(name).to_string()
        } else {
            bundled_text(name)
        };
        let whole = read(text.as_bytes(), false).expect("a document");
        // A YAML text that is cut at the end of a line is still YAML, as the crate's docs say.
        for end in (0..text.len()).filter(|&end| name.ends_with("json") || !text[..end].ends_with('\n')) {
            if let Some(node) = read(&text.as_bytes()[..end], false) {
                assert!(!node.findings.is_empty(), "{name} cut at {end}");
            }
            let node = read(&text.as_bytes()[..end], true).expect("lenient");
            assert!(!node.findings.is_empty(), "{name} cut at {end}");
            assert!(node.inventory.containers.is_err(), "{name} cut at {end}");
            assert!(
                node.policy.is_none() || node.policy == whole.policy,
                "{name} cut at {end}"
            );
        }
    }
}
