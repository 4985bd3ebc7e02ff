//! `NoExecute` taints by the condition `Ready`.

use crate::support::{Change as _, assert_cautious, cache, object, plan, run, secs, version};
use kubegc_controllers::{Change as CacheChange, Controller as _, Key, NodeLifecycle};
use kubegc_core::{
    StoreError,
    record::{Body, Condition, Field, Node, Record, Resource, Taint},
};

type Object = (Resource, Record);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// A node whose condition `Ready` has this status since 100 s; an empty one means no condition.
fn node(name: &str, ready: &str, taints: &[Taint]) -> Object {
    let condition = Condition {
        last_transition_time: Some(secs(100)),
        ..Condition::new("Ready", ready)
    };
    let conditions: Vec<Condition> = Some(condition)
        .filter(|_| !ready.is_empty())
        .into_iter()
        .collect();
    let node = Node {
        conditions: conditions.into(),
        taints: taints.to_vec().into(),
        ..Node::default()
    };
    (Resource::Nodes, object("", name, Body::Node(node)))
}

fn controller() -> NodeLifecycle {
    NodeLifecycle::new(version(20))
}

#[test]
fn nodes_are_tainted_by_their_condition() {
    let keep = |code: &str| vec![format!("keep node/n: {code}")];
    let patch = || vec!["patch node/n: ReadyChanged".to_owned()];
    let no_execute = |key| Taint::new(key, "NoExecute");
    let no_schedule = Taint::new(UNREACHABLE, "NoSchedule");
    for (at, ready, taints, expected) in [
        (200, "True", vec![], keep("TaintedAlready")),
        (200, "True", vec![no_schedule.clone()], keep("TaintedAlready")),
        (
            200,
            "True",
            vec![no_execute(NOT_READY), no_execute(UNREACHABLE)],
            patch(),
        ),
        (200, "False", vec![], patch()),
        (200, "False", vec![no_execute(NOT_READY)], keep("TaintedAlready")),
        (200, "Unknown", vec![no_schedule.clone()], patch()),
        (
            200,
            "Unknown",
            vec![no_execute(UNREACHABLE)],
            keep("TaintedAlready"),
        ),
        // The taint of another condition is replaced at once.
        (100, "Unknown", vec![no_execute(NOT_READY)], patch()),
        (
            104,
            "Unknown",
            vec![],
            vec!["keep node/n: NotReadyYet".to_owned(), "next at 105".to_owned()],
        ),
        (200, "", vec![], keep("NotReported")),
        (200, "Perhaps", vec![], keep("UnknownStatus")),
    ] {
        let objects = vec![node("n", ready, &taints), node("other", "True", &[])];
        let mut lines = plan(&controller(), &cache(&controller(), objects.clone()), secs(at));
        lines.retain(|line| !line.contains("other"));
        assert_eq!(lines, expected, "{ready} {taints:?}");
        assert_cautious(&controller(), &objects, secs(at));
    }
    let objects = vec![
        node("n", "Unknown", &[no_execute(NOT_READY), no_schedule]),
        node("other", "True", &[]),
    ];
    let mut known = cache(&controller(), objects);
    assert_eq!(run(&controller(), &mut known, secs(200)).len(), 1);
    let found = known.get(Resource::Nodes, &Key::cluster("n"));
    let taints = found.and_then(Record::node).and_then(|node| node.taints.known());
    let expected = Taint {
        time_added: Some(secs(200)),
        ..no_execute(UNREACHABLE)
    };
    assert_eq!(
        taints.expect("taints")[..],
        [Taint::new(UNREACHABLE, "NoSchedule"), expected]
    );
}

#[test]
fn nothing_is_tainted_while_no_node_is_ready() {
    let dead = || node("n", "Unknown", &[]);
    let line = |controller: &NodeLifecycle, objects: Vec<Object>| {
        let mut lines = plan(controller, &cache(controller, objects), secs(200));
        lines.retain(|line| line.contains("node/n:"));
        lines.concat()
    };
    let disrupted = "keep node/n: FullDisruption";
    assert_eq!(line(&controller(), vec![dead()]), disrupted);
    let (resource, record) = node("other", "True", &[]);
    let excluded = record.label("node.kubernetes.io/exclude-disruption", "");
    assert_eq!(line(&controller(), vec![dead(), (resource, excluded)]), disrupted);
    let silent = node("other", "", &[]);
    assert_eq!(line(&controller(), vec![dead(), silent.clone()]), disrupted);
    let mut partial = controller();
    partial.stops_without_ready_nodes = false;
    assert_eq!(line(&partial, vec![dead()]), "patch node/n: ReadyChanged");
    // Unknown facts of other nodes do not count.
    let mut unread = silent;
    if let Body::Node(node) = unread.1.body_mut() {
        node.conditions = Field::Unread;
    }
    assert_eq!(
        line(&controller(), vec![dead(), unread]),
        "unknown node/n: FieldUnread"
    );
    let mut unlisted = cache(&controller(), vec![dead()]);
    unlisted.set_listed(Resource::Nodes, Err(StoreError::Unlisted));
    assert_eq!(
        plan(&controller(), &unlisted, secs(200)),
        ["unknown node/n: ListMissing"]
    );
}

#[test]
fn the_first_ready_node_ends_a_disruption() {
    let (_, ready) = node("other", "True", &[]);
    let (_, dead) = node("other", "Unknown", &[]);
    let known = cache(&controller(), vec![node("n", "Unknown", &[])]);
    let keys = |old: &Record, new: &Record| {
        let change = CacheChange {
            resource: Resource::Nodes,
            key: &Key::cluster("other"),
            old: Some(old),
            new: Some(new),
        };
        let mut keys = Vec::new();
        controller().affected(&known, &change, &mut keys);
        keys.len()
    };
    assert_eq!(keys(&dead, &ready), 2);
    assert_eq!(keys(&ready, &ready), 1);
    assert_eq!(keys(&ready, &dead), 1);
}
