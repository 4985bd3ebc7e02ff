//! Nodes that are gone from the cloud: the cases of upstream's controller, the age of young nodes to the nanosecond, and what holds for all nodes.

use std::{collections::BTreeSet, time::Duration};

use kubegc_core::{ObjectMeta, PatchType, PlanOf, Planner, Preconditions, StoreError, Timestamp};
use kubegc_lifecycle::{
    node::{Action, Cloud, EFFECT, Facts, Node, Reason, Settings, TAINT_SHUTDOWN, TAINT_UNINITIALIZED},
    object::{Act, Call, Change, Condition, Form, Object, Resource, Taint, Wire},
};
use proptest::{collection::vec, prelude::*, sample::select};

type NodePlan = PlanOf<Settings>;

const NOW: i64 = 1_000_000;

fn now() -> Timestamp {
    Timestamp::from_secs(NOW)
}

/// A node that is a day old and has a provider id.
fn node(name: &str, is_ready: bool, exists: Cloud, is_shutdown: Cloud) -> Node {
    let mut meta = ObjectMeta::new("", name, name);
    meta.resource_version = "7".into();
    meta.creation_timestamp = Some(Timestamp::from_secs(NOW - 86_400));
    Node {
        exists,
        is_shutdown,
        ..Node::new(meta, is_ready, "cloud:///i-1")
    }
}

fn tainted(mut node: Node, key: &str, effect: &str) -> Node {
    let (key, effect) = (key.into(), effect.into());
    node.taints.get_or_insert_default().push(Taint { key, effect });
    node
}

/// A node that does not exist, has no provider id, and was not initialized in so many nanoseconds.
fn uninitialized(age_nanos: i64) -> Node {
    let mut node = tainted(
        node("n", false, Cloud::No, Cloud::NotAsked),
        TAINT_UNINITIALIZED,
        EFFECT,
    );
    node.provider_id = Some("".into());
    let created = now().as_nanos() - age_nanos;
    node.meta.creation_timestamp = Some(Timestamp::from_nanos(created));
    node
}

fn plan_of(node: Node) -> NodePlan {
    Settings::default().plan(&Facts::new(vec![node]), now())
}

/// What becomes of the only node.
fn outcome(plan: &NodePlan) -> String {
    assert_eq!(plan.actions.len() + plan.kept.len(), 1);
    let done = plan.actions.iter().map(|action| match action {
        Action::Delete { reason, .. } => format!("deleted: {reason}"),
        Action::AddShutdownTaint { reason, .. } => format!("tainted: {reason}"),
        Action::RemoveShutdownTaint { reason, .. } => format!("untainted: {reason}"),
    });
    let kept = plan.kept.iter().map(|kept| format!("kept: {}", kept.reason));
    done.chain(kept).collect()
}

#[test]
fn t_8_1_to_8_9_the_cases_of_upstream() {
    use Cloud::{Failed, No, NotAsked, NotImplemented, Yes};
    let failed = || Failed("throttled".into());
    let without_ready = Node {
        conditions: Some(vec![Condition::new("DiskPressure", "True")]),
        ..node("n", false, No, NotAsked)
    };
    let unknown_ready = Node {
        conditions: Some(vec![Condition::new("Ready", "Unknown")]),
        ..node("n", false, No, NotAsked)
    };
    let running = "kept: exists in the cloud and is not shut down";
    for (case, node, expected) in [
        (
            "1",
            node("n", false, No, NotAsked),
            "deleted: does not exist in the cloud",
        ),
        ("2", node("n", true, No, NotAsked), "kept: is ready"),
        (
            "3",
            node("n", false, Yes, Yes),
            "tainted: is shut down in the cloud",
        ),
        ("4", node("n", false, Yes, No), running),
        (
            "5",
            tainted(node("n", true, Yes, Yes), TAINT_SHUTDOWN, EFFECT),
            "untainted: is ready again",
        ),
        (
            "5, another effect",
            tainted(node("n", true, Yes, Yes), TAINT_SHUTDOWN, "NoExecute"),
            "kept: is ready",
        ),
        ("6", without_ready, "deleted: does not exist in the cloud"),
        (
            "6, unknown",
            unknown_ready,
            "deleted: does not exist in the cloud",
        ),
        (
            "8",
            node("n", false, failed(), Yes),
            "kept: the cloud cannot say whether it exists: throttled",
        ),
        (
            "8, not implemented",
            node("n", false, NotImplemented, Yes),
            "kept: the cloud cannot say whether it exists: not implemented",
        ),
        (
            "9",
            node("n", false, Yes, failed()),
            "kept: the cloud cannot say whether it is shut down: throttled",
        ),
        (
            "9, not implemented",
            node("n", false, Yes, NotImplemented),
            running,
        ),
        (
            "a second time",
            tainted(node("n", false, Yes, Yes), TAINT_SHUTDOWN, EFFECT),
            "kept: is shut down in the cloud and tainted",
        ),
        (
            "cordoned and tainted",
            tainted(
                node("n", false, No, NotAsked),
                "node.kubernetes.io/unschedulable",
                "NoSchedule",
            ),
            "deleted: does not exist in the cloud",
        ),
    ] {
        assert_eq!(outcome(&plan_of(node)), expected, "case {case}");
    }
}

#[test]
fn t_8_7_a_node_that_is_not_initialized_is_judged_from_a_minute_on() {
    let minute = 60_000_000_000;
    let until = |age: i64| Timestamp::from_nanos(now().as_nanos() - age + minute);
    for (age, is_judged) in [
        (30_000_000_000, false),
        (minute - 1, false),
        (minute, true),
        (minute + 1, true),
        // The node's clock runs ahead.
        (-minute, false),
    ] {
        let plan = plan_of(uninitialized(age));
        assert_eq!(plan.actions.len(), usize::from(is_judged), "{age} ns old");
        assert_eq!(plan.next_at, (!is_judged).then(|| until(age)), "{age} ns old");
    }
}

#[test]
fn t_8_10_a_provider_id_ends_the_waiting() {
    let mut young = uninitialized(0);
    young.provider_id = Some("cloud:///i-1".into());
    assert_eq!(outcome(&plan_of(young)), "deleted: does not exist in the cloud");
    // So does the absence of the taint, or of its effect.
    for effect in [None, Some("NoExecute")] {
        let mut young = uninitialized(0);
        young.taints = Some(Vec::new());
        if let Some(effect) = effect {
            young = tainted(young, TAINT_UNINITIALIZED, effect);
        }
        assert_eq!(outcome(&plan_of(young)), "deleted: does not exist in the cloud");
    }
}

#[test]
fn t_8_11_a_deletion_is_told_and_its_failure_too() {
    let plan = plan_of(node("n", false, Cloud::No, Cloud::NotAsked));
    let action = &plan.actions[0];
    for (wire, version) in [(Wire::AsUpstream, None), (Wire::Strict, Some("7".into()))] {
        let calls = action.calls(wire);
        let [
            Call::Event {
                is_warning: false,
                reason: "DeletingNode",
                message,
                ..
            },
            Call::Delete { object, options },
        ] = &calls[..]
        else {
            panic!("{calls:?}");
        };
        assert_eq!(
            message,
            "Deleting node n because it does not exist in the cloud provider"
        );
        assert_eq!(object.to_string(), "Node n");
        let uid = version.is_some().then(|| "n".into());
        let expected = Preconditions {
            uid,
            resource_version: version,
        };
        assert_eq!(options.preconditions, expected);
        assert_eq!((options.grace_period_seconds, options.propagation), (None, None));
    }
    let told = action.told_failed("forbidden");
    let Some(Call::Event {
        is_warning: true,
        reason: "DeletingNodeFailed",
        message,
        ..
    }) = told
    else {
        panic!("{told:?}");
    };
    assert_eq!(message, "Failed deleting node n: forbidden");
    let tainted = plan_of(node("n", false, Cloud::Yes, Cloud::Yes));
    assert_eq!(tainted.actions[0].told_failed("forbidden"), None);
}

#[test]
fn taints_are_patched_at_the_version_that_was_read() {
    let shut = plan_of(node("n", false, Cloud::Yes, Cloud::Yes));
    let back = plan_of(tainted(
        node("n", true, Cloud::NotAsked, Cloud::NotAsked),
        TAINT_SHUTDOWN,
        EFFECT,
    ));
    let taint = Taint {
        key: TAINT_SHUTDOWN.into(),
        effect: EFFECT.into(),
    };
    for (plan, change) in [
        (shut, Change::AddTaint(taint.clone())),
        (back, Change::RemoveTaint(taint)),
    ] {
        for wire in [Wire::AsUpstream, Wire::Strict] {
            let expected = Call::Change {
                object: plan.actions[0].object().clone(),
                subresource: "",
                form: Form::Patch(PatchType::Strategic),
                expect: Preconditions {
                    uid: Some("n".into()),
                    resource_version: Some("7".into()),
                },
                changes: vec![change.clone()],
            };
            assert_eq!(plan.actions[0].calls(wire), [expected]);
        }
    }
}

#[test]
fn what_is_not_known_changes_nothing() {
    let absent = || node("n", false, Cloud::No, Cloud::NotAsked);
    let no_conditions = Node {
        conditions: None,
        ..absent()
    };
    let ready_no_taints = Node {
        taints: None,
        ..node("n", true, Cloud::No, Cloud::NotAsked)
    };
    let shut_no_taints = Node {
        taints: None,
        ..node("n", false, Cloud::Yes, Cloud::Yes)
    };
    let mut no_age = uninitialized(0);
    no_age.meta.creation_timestamp = None;
    let no_provider = Node {
        provider_id: None,
        ..uninitialized(0)
    };
    let no_taints_young = Node {
        taints: None,
        ..uninitialized(0)
    };
    let no_taints_old = Node {
        taints: None,
        ..uninitialized(60_000_000_000)
    };
    let young = "kept: may not be initialized yet; judged from 1970-01-12T13:47:40Z";
    for (node, expected) in [
        (no_conditions, "kept: its conditions are not known"),
        (ready_no_taints, "kept: its taints are not known"),
        (shut_no_taints, "kept: its taints are not known"),
        (
            no_age,
            "kept: may not be initialized yet, and its age is not known",
        ),
        (no_provider, young),
        (no_taints_young, young),
        // Old enough to be judged either way.
        (no_taints_old, "deleted: does not exist in the cloud"),
        (
            node("n", false, Cloud::NotAsked, Cloud::NotAsked),
            "kept: nobody asked the cloud whether it exists",
        ),
        (
            node("n", false, Cloud::Yes, Cloud::NotAsked),
            "kept: nobody asked the cloud whether it is shut down",
        ),
    ] {
        assert_eq!(outcome(&plan_of(node)), expected);
    }
    let unlisted = Facts {
        nodes: Err(StoreError::Unlisted),
    };
    let plan = Settings::default().plan(&unlisted, now());
    assert_eq!(plan.summary.error, Some(StoreError::Unlisted));
    assert_eq!((plan.actions.len(), plan.kept.len()), (0, 0));
}

#[test]
fn questions_are_listed() {
    let nodes = vec![
        node("b", false, Cloud::NotAsked, Cloud::NotAsked),
        node("a", false, Cloud::NotAsked, Cloud::NotAsked),
        node("c", false, Cloud::Yes, Cloud::NotAsked),
        node("d", true, Cloud::NotAsked, Cloud::NotAsked),
    ];
    let summary = Settings::default().plan(&Facts::new(nodes), now()).summary;
    assert_eq!(summary.ask_exists, ["a".into(), "b".into()]);
    assert_eq!(summary.ask_shutdown, ["c".into()]);
}

#[test]
fn a_node_that_is_listed_twice_and_not_alike_stays() {
    let absent = node("n", false, Cloud::No, Cloud::NotAsked);
    let facts = Facts::new(vec![absent.clone(), absent.clone()]);
    assert_eq!(Settings::default().plan(&facts, now()).actions.len(), 1);
    let facts = Facts::new(vec![absent, node("n", true, Cloud::No, Cloud::NotAsked)]);
    let plan = Settings::default().plan(&facts, now());
    assert_eq!(outcome(&plan), "kept: listed twice, in two states");
}

#[test]
fn a_name_that_is_listed_with_two_uids_stays() {
    let absent = node("n", false, Cloud::No, Cloud::NotAsked);
    let mut anew = absent.clone();
    anew.meta.uid = "anew".into();
    let plan = Settings::default().plan(&Facts::new(vec![absent, anew]), now());
    assert_eq!((plan.actions.len(), plan.kept.len()), (0, 2));
    assert!(plan.kept.iter().all(|kept| kept.reason == Reason::ListedTwice));
}

#[test]
fn a_node_without_a_uid_is_left_as_it_is() {
    for mut node in [
        node("n", false, Cloud::No, Cloud::NotAsked),
        node("n", false, Cloud::Yes, Cloud::Yes),
        tainted(
            node("n", true, Cloud::NotAsked, Cloud::NotAsked),
            TAINT_SHUTDOWN,
            EFFECT,
        ),
    ] {
        assert!(!outcome(&plan_of(node.clone())).starts_with("kept"));
        node.meta.uid = "".into();
        assert_eq!(outcome(&plan_of(node)), "kept: its uid is not known");
    }
}

#[test]
fn the_ends_of_time_panic_nobody() {
    for created in [i64::MIN, 0, i64::MAX] {
        for at in [i64::MIN, 0, i64::MAX] {
            let mut node = uninitialized(0);
            node.meta.creation_timestamp = Some(Timestamp::from_nanos(created));
            let facts = Facts::new(vec![node]);
            let plan = Settings::default().plan(&facts, Timestamp::from_nanos(at));
            let is_judged = at > created || at == i64::MAX;
            assert_eq!(plan.actions.len(), usize::from(is_judged), "{created} {at}");
        }
    }
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let cloud = || {
        select(vec![
            Cloud::NotAsked,
            Cloud::Yes,
            Cloud::No,
            Cloud::NotImplemented,
            Cloud::Failed("no route".into()),
        ])
    };
    let age = select(vec![0_i64, 1, 59, 60, 61, 3_600]);
    let one = (0..8_u8, any::<[bool; 4]>(), cloud(), cloud(), age, 0..10_u8);
    vec(one, 0..8).prop_map(|seeds| {
        let mut names = BTreeSet::new();
        let mut nodes = Vec::new();
        for (name, [is_ready, has_id, is_shut, is_new], exists, is_shutdown, age, unknown) in seeds {
            if !names.insert(name) {
                continue;
            }
            let mut node = node(&format!("n{name}"), is_ready, exists, is_shutdown);
            node.meta.creation_timestamp = Some(Timestamp::from_secs(NOW - age));
            if !has_id {
                node.provider_id = Some("".into());
            }
            if is_shut {
                node = tainted(node, TAINT_SHUTDOWN, EFFECT);
            }
            if is_new {
                node = tainted(node, TAINT_UNINITIALIZED, EFFECT);
            }
            match unknown {
                0 => node.conditions = None,
                1 => node.taints = None,
                2 => node.provider_id = None,
                3 => node.meta.creation_timestamp = None,
                _ => {}
            }
            nodes.push(node);
        }
        nodes
    })
}

/// A world in which deleted nodes go and taints are written.
fn carried_out(mut nodes: Vec<Node>, plan: &NodePlan) -> Vec<Node> {
    for action in &plan.actions {
        let is_it = |node: &Node| Object::new(Resource::Nodes, &node.meta) == *action.object();
        for call in action.calls(Wire::Strict) {
            match call {
                Call::Delete { .. } => nodes.retain(|node| !is_it(node)),
                Call::Change { changes, .. } => {
                    for node in nodes.iter_mut().filter(|node| is_it(node)) {
                        let taints = node.taints.get_or_insert_default();
                        match &changes[..] {
                            [Change::AddTaint(taint)] => taints.push(taint.clone()),
                            [Change::RemoveTaint(taint)] => taints.retain(|other| other != taint),
                            other => panic!("{other:?}"),
                        }
                    }
                }
                Call::Event { .. } => {}
                Call::Outside { .. } => panic!("nodes need nobody else"),
            }
        }
    }
    nodes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn every_node_is_acted_on_or_kept_once(nodes in nodes()) {
        let plan = Settings::default().plan(&Facts::new(nodes.clone()), now());
        let acted = plan.actions.iter().map(|action| action.object().clone());
        let mut all: Vec<Object> = acted.chain(plan.kept.iter().map(|kept| kept.object.clone())).collect();
        all.sort();
        let mut expected: Vec<Object> = nodes.iter().map(|node| Object::new(Resource::Nodes, &node.meta)).collect();
        expected.sort();
        prop_assert_eq!(all, expected);
    }

    #[test]
    fn the_order_of_facts_means_nothing(nodes in nodes()) {
        let plan = Settings::default().plan(&Facts::new(nodes.clone()), now());
        let reversed = nodes.into_iter().rev().collect();
        prop_assert_eq!(Settings::default().plan(&Facts::new(reversed), now()), plan);
    }

    #[test]
    fn once_carried_out_nothing_is_left_to_do(nodes in nodes()) {
        let settings = Settings::default();
        let plan = settings.plan(&Facts::new(nodes.clone()), now());
        let after = Facts::new(carried_out(nodes, &plan));
        prop_assert_eq!(settings.plan(&after, now()).actions, []);
    }

    #[test]
    fn only_absent_nodes_go_and_never_ready_ones(nodes in nodes()) {
        let plan = Settings::default().plan(&Facts::new(nodes.clone()), now());
        for action in &plan.actions {
            let node = nodes.iter().find(|node| node.meta.uid == action.object().uid);
            if let (Action::Delete { .. }, Some(node)) = (action, node) {
                prop_assert_eq!(&node.exists, &Cloud::No);
                prop_assert_eq!(node.is_ready(), Some(false));
            }
        }
    }

    #[test]
    fn until_next_at_nothing_changes_and_then_something_does(nodes in nodes(), grace in 0..120_u64) {
        let mut settings = Settings::default();
        settings.uninitialized_grace = Duration::from_secs(grace);
        let facts = Facts::new(nodes);
        let plan = settings.plan(&facts, now());
        let end = Timestamp::from_nanos(i64::MAX);
        let until = plan.next_at.map_or(end, |next| Timestamp::from_nanos(next.as_nanos() - 1));
        prop_assert_eq!(&settings.plan(&facts, until), &plan);
        if let Some(next) = plan.next_at {
            prop_assert!(next > now());
            prop_assert_ne!(settings.plan(&facts, next), plan);
        }
    }
}

#[test]
fn reasons_name_the_end_of_the_waiting() {
    let plan = plan_of(uninitialized(0));
    let until = Timestamp::from_secs(NOW + 60);
    assert_eq!(plan.kept[0].reason, Reason::Uninitialized { until });
}
