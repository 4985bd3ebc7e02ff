//! Rules N2.1 to N2.27, N2.50 to N2.53 and N2.60 to N2.63: dead containers.

use std::sync::Arc;

use kubegc_core::{
    PlanOf, Planner, RuntimeError,
    node_facts::{Container, ContainerState, PodState, annotation, label},
};
use kubegc_node::{
    Inventory, Order, Unlisted,
    container::{InvalidAge, Limits, Mode, Policy, Reason, Run, Step, Subject},
};

use crate::world::{ENDING, EVICTED, at, dead, empty, in_state, listed, pods, release, seconds};

use ContainerState::{Created, Exited, Running, Unknown};
use Mode::{Forced, Periodic};

fn limits(per_unit: i64, node: i64) -> Limits {
    Limits {
        per_unit_max: u32::try_from(per_unit).ok(),
        node_max: u32::try_from(node).ok(),
        ..Limits::default()
    }
}

fn policy(limits: Limits) -> Policy {
    Policy::new(limits, release("1.36.0")).expect("valid limits")
}

/// Units of one pod each, named like the pod: containers `x4`, `x3` created at seconds 4 and 3 form unit `x`.
fn units(units: &[(&str, &[i64])]) -> Inventory {
    let all = units.iter().flat_map(|&(unit, created)| {
        created
            .iter()
            .map(move |&created| dead(&format!("{unit}{created}"), unit, unit, created))
    });
    let living: Vec<_> = units.iter().map(|&(unit, _)| (unit, PodState::ACTIVE)).collect();
    Inventory {
        containers: listed(all),
        pods: pods(&living),
        ..empty()
    }
}

fn removed(plan: &PlanOf<Policy>) -> Vec<&str> {
    plan.actions
        .iter()
        .map(|action| &*action.container().id)
        .collect()
}

fn stays(plan: &PlanOf<Policy>) -> Vec<&str> {
    let mut stays: Vec<&str> = plan
        .kept
        .iter()
        .filter_map(|kept| match &kept.object {
            Subject::Container(container) => Some(&*container.id),
            Subject::Node => None,
        })
        .collect();
    stays.sort_unstable();
    stays
}

/// The names of the reasons for removals, in order.
fn why(plan: &PlanOf<Policy>) -> Vec<&str> {
    plan.actions
        .iter()
        .map(|action| action.reason().as_str())
        .collect()
}

fn one(container: Container) -> Inventory {
    Inventory {
        containers: listed([container]),
        pods: pods(&[("x", PodState::ACTIVE)]),
        ..empty()
    }
}

#[test]
fn n2_1_n2_2_both_modes_have_the_same_limits_and_age() {
    let limits = Limits {
        age_min: seconds(10),
        ..limits(1, 3)
    };
    let mut node = units(&[("x", &[1, 2, 3]), ("y", &[95])]);
    node.pods.known.insert("x".into(), PodState::COMPLETED);
    node.pods.known.insert("y".into(), PodState::COMPLETED);
    for (mode, expected) in [(Periodic, &["x1", "x2"][..]), (Forced, &["x1", "x2", "x3"])] {
        let plan = policy(limits).with_mode(mode).plan(&node, at(100));
        assert_eq!(removed(&plan), expected, "{mode:?}");
        assert_eq!(policy(limits).with_mode(mode).limits(), &limits);
    }
}

#[test]
fn n2_5_without_a_listing_nothing_is_removed_and_the_cause_is_reported() {
    let refused = Unlisted::Failed(RuntimeError::refused("no socket"));
    for (listing, text) in [(Unlisted::NotRequested, "not listed"), (refused, "no socket")] {
        let node = Inventory {
            containers: Err(listing),
            ..empty()
        };
        let plan = policy(limits(0, 0)).plan(&node, at(100));
        assert!(plan.actions.is_empty() && plan.kept.is_empty());
        let [finding] = &plan.findings[..] else {
            panic!("one finding: {:?}", plan.findings)
        };
        assert_eq!(finding.object, Subject::Node);
        assert_eq!(finding.reason, Reason::Unlisted(text.into()));
        assert_eq!(
            finding.reason.to_string(),
            format!("the containers are unknown: {text}")
        );
    }
}

#[test]
fn n2_6_n2_9_n2_17_all_but_running_ones_are_removed_and_unknown_ones_are_stopped_first() {
    for (state, outcome) in [
        (Created, Some(None)),
        (Running, None),
        (Exited, Some(None)),
        (Unknown, Some(Some(2))),
    ] {
        let plan = policy(limits(0, -1)).plan(&one(in_state(state, dead("c", "x", "web", 1))), at(100));
        let stop = plan.actions.first().map(|action| match action {
            kubegc_node::container::Action::Remove { stop_first, .. } => *stop_first,
        });
        assert_eq!(stop, outcome, "{state:?}");
        let reasons: Vec<_> = plan.kept.iter().map(|kept| kept.reason.as_str()).collect();
        assert_eq!(
            reasons,
            if outcome.is_none() {
                vec!["Running"]
            } else {
                vec![]
            },
            "{state:?}"
        );
    }
}

#[test]
fn n2_7_n2_8_age_counts_from_creation_and_equal_is_old_enough() {
    for (age_min, created, outcome) in [
        (0, 100, None),
        (0, 101, Some("created 1s in the future")),
        (60, 40, None),
        (60, 41, Some("created 59s ago, less than 1m0s")),
        (60, 39, None),
        (60, 100, Some("created 0s ago, less than 1m0s")),
        (60, 160, Some("created 1m0s in the future")),
    ] {
        let limits = Limits {
            age_min: seconds(age_min),
            ..limits(0, -1)
        };
        let plan = policy(limits).plan(&one(dead("c", "x", "web", created)), at(100));
        let reason = plan.kept.first().map(|kept| kept.reason.to_string());
        assert_eq!(
            reason.as_deref(),
            outcome,
            "created {created}, at least {age_min}"
        );
        assert_eq!(plan.actions.len(), usize::from(outcome.is_none()));
        assert_eq!(plan.next_at, outcome.map(|_| at(created + age_min)));
        let future = plan
            .findings
            .iter()
            .any(|finding| finding.reason.as_str() == "CreatedInFuture");
        assert_eq!(future, created > 100);
    }
}

#[test]
fn n2_10_a_unit_is_the_uid_of_the_labels_and_the_name_of_the_metadata() {
    let mut renamed = dead("c3", "x", "web", 3);
    renamed
        .labels
        .insert(label::CONTAINER_NAME.into(), "another".into());
    let node = Inventory {
        containers: listed([
            dead("c1", "x", "web", 1),
            dead("c2", "y", "web", 2),
            renamed,
            dead("c4", "x", "log", 4),
        ]),
        pods: pods(&[("x", PodState::ACTIVE), ("y", PodState::ACTIVE)]),
        ..empty()
    };
    let plan = policy(limits(1, -1)).plan(&node, at(100));
    assert_eq!(removed(&plan), ["c1"]);
    assert_eq!((plan.summary.candidates, plan.summary.units), (4, 3));
    let newest: Vec<_> = plan.kept.iter().map(|kept| kept.reason.to_string()).collect();
    assert_eq!(newest, ["the newest of its unit, within all limits"; 3]);
}

#[test]
fn n2_11_containers_without_a_uid_form_units_by_name() {
    let node = Inventory {
        containers: listed([
            dead("a1", "", "web", 1),
            dead("a2", "", "web", 2),
            dead("b1", "", "log", 1),
        ]),
        pods: kubegc_core::node_facts::Pods {
            synced: false,
            ..pods(&[])
        },
        ..empty()
    };
    let plan = policy(limits(1, -1)).plan(&node, at(100));
    assert_eq!(removed(&plan), ["a1"], "limits count for them");
    let findings: Vec<_> = plan
        .findings
        .iter()
        .map(|finding| finding.reason.to_string())
        .collect();
    assert_eq!(findings, ["its labels have no pod uid"; 3]);
}

#[test]
fn n2_12_attempts_and_other_labels_change_nothing() {
    let mut node = units(&[("x", &[1, 2, 3])]);
    let plain = policy(limits(1, -1)).plan(&node, at(100));
    for (attempt, container) in [7, 0, 3].into_iter().zip(node.containers.iter_mut().flatten()) {
        let container = Arc::make_mut(container);
        container.attempt = attempt;
        container
            .labels
            .insert("io.kubernetes.container.type".into(), "ephemeral".into());
    }
    let labelled = policy(limits(1, -1)).plan(&node, at(100));
    assert_eq!(removed(&plain), removed(&labelled));
}

#[test]
fn n2_13_a_container_without_metadata_is_kept_and_reported() {
    for state in [Created, Running, Exited, Unknown] {
        let mut nameless = in_state(state, dead("c", "gone", "web", 1));
        nameless.name = None;
        let plan = policy(limits(0, 0)).plan(&one(nameless), at(100));
        assert!(plan.actions.is_empty(), "{state:?}");
        let running = state == Running;
        assert_eq!(
            plan.kept[0].reason.as_str(),
            if running { "Running" } else { "NoMetadata" }
        );
        assert_eq!(plan.findings.len(), usize::from(!running));
    }
}

#[test]
fn n2_14_to_n2_16_the_oldest_are_removed_first_and_whole_units_in_reverse_listing_order() {
    let listing: &[i64] = &[3, 1, 5, 2, 4];
    for (order, per_unit, expected) in [
        (Order::Total, 2, &["x1", "x2", "x3"][..]),
        (Order::Listing, 2, &["x1", "x2", "x3"]),
        (Order::Total, 0, &["x1", "x2", "x3", "x4", "x5"]),
        (Order::Listing, 0, &["x4", "x2", "x5", "x1", "x3"]),
        (Order::Total, 5, &[]),
        (Order::Listing, 6, &[]),
    ] {
        let plan = policy(limits(per_unit, -1))
            .with_order(order)
            .plan(&units(&[("x", listing)]), at(100));
        assert_eq!(removed(&plan), expected, "{order:?} {per_unit}");
    }
}

#[test]
fn n2_15_equals_are_ordered_by_id_or_by_the_listing() {
    let node = Inventory {
        containers: listed([
            dead("b", "x", "web", 1),
            dead("a", "x", "web", 1),
            dead("c", "x", "web", 1),
        ]),
        pods: pods(&[("x", PodState::ACTIVE)]),
        ..empty()
    };
    for (order, expected) in [(Order::Total, ["c", "b"]), (Order::Listing, ["c", "a"])] {
        assert_eq!(
            removed(&policy(limits(1, -1)).with_order(order).plan(&node, at(100))),
            expected
        );
    }
}

#[test]
fn n2_17_to_n2_19_failures_change_nothing_else() {
    let refused = || Err(RuntimeError::refused("busy"));
    // Of four, the oldest is of unknown state; two stay.
    let mut node = units(&[("x", &[1, 2, 3, 4])]);
    for container in node.containers.iter_mut().flatten() {
        if &*container.id == "x1" {
            Arc::make_mut(container).state = Unknown;
        }
    }
    let plan = policy(limits(2, -1)).plan(&node, at(100));
    for (stop, first, second, steps, failed) in [
        (
            Ok(()),
            Ok(()),
            Ok(()),
            &["stop x1", "remove x1", "remove x2"][..],
            &[][..],
        ),
        (
            refused(),
            Ok(()),
            Ok(()),
            &["stop x1", "remove x2"],
            &[("x1", true)],
        ),
        (
            Ok(()),
            refused(),
            Ok(()),
            &["stop x1", "remove x1", "remove x2"],
            &[("x1", false)],
        ),
        (
            refused(),
            Ok(()),
            refused(),
            &["stop x1", "remove x2"],
            &[("x1", true), ("x2", false)],
        ),
    ] {
        let mut run = Run::new(plan.clone());
        let (mut seen, mut response) = (Vec::new(), None);
        loop {
            let step = run.next(response.take());
            assert_eq!(step, run.next(None), "without a response the step stays");
            response = match step {
                Step::Stop {
                    container,
                    grace_seconds,
                } => {
                    assert_eq!(grace_seconds, 2);
                    seen.push(format!("stop {}", container.id));
                    Some(stop.clone())
                }
                Step::Remove { container } => {
                    seen.push(format!("remove {}", container.id));
                    Some(if &*container.id == "x1" {
                        first.clone()
                    } else {
                        second.clone()
                    })
                }
                Step::Done => break,
            };
        }
        assert_eq!(seen, steps);
        let (after, failures) = run.finish();
        assert_eq!(after, plan, "no extra victim");
        let failures: Vec<_> = failures
            .iter()
            .map(|failed| (&*failed.action.container().id, failed.stop_failed))
            .collect();
        assert_eq!(failures, failed);
    }
}

#[test]
fn n2_20_to_n2_26_the_worked_examples() {
    for (name, before, per_unit, node, after) in [
        (
            "share of one unit",
            &[("x", &[4, 3, 2, 1, 0][..])][..],
            -1,
            4,
            &["x1", "x2", "x3", "x4"][..],
        ),
        ("share of nothing", &[("x", &[1])], 1, 0, &[]),
        ("no limits", &[("x", &[2, 1, 0])], -1, -1, &["x0", "x1", "x2"]),
        (
            "one each",
            &[("x", &[1, 0]), ("y", &[1, 0]), ("z", &[1, 0])],
            -1,
            4,
            &["x1", "y1", "z1"],
        ),
        (
            "the oldest of all",
            &[("a", &[1]), ("b", &[2]), ("c", &[3]), ("d", &[4]), ("e", &[5])],
            1,
            3,
            &["c3", "d4", "e5"],
        ),
        (
            "the unit's limit alone",
            &[("x", &[9, 8, 7]), ("y", &[1])],
            2,
            10,
            &["x8", "x9", "y1"],
        ),
        (
            "n2_25 over-removal",
            &[("x", &[3, 2, 1]), ("y", &[3, 2, 1]), ("z", &[3, 2, 1])],
            -1,
            8,
            &["x2", "x3", "y2", "y3", "z2", "z3"],
        ),
        (
            "n2_22 empty units stay keys",
            &[("x", &[2, 1]), ("y", &[1])],
            0,
            5,
            &[],
        ),
        (
            "n2_23 equal to the limit",
            &[("x", &[2, 1]), ("y", &[1])],
            -1,
            3,
            &["x1", "x2", "y1"],
        ),
        (
            "n2_26 below the unit's limit down to one",
            &[("x", &[3, 2, 1]), ("y", &[3, 2, 1])],
            3,
            2,
            &["x3", "y3"],
        ),
    ] {
        for order in [Order::Total, Order::Listing] {
            let plan = policy(limits(per_unit, node))
                .with_order(order)
                .plan(&units(before), at(100));
            assert_eq!(stays(&plan), after, "{name}, {order:?}");
        }
    }
}

#[test]
fn n2_22_to_n2_24_reasons_name_the_limit_and_the_conflict_is_a_finding() {
    let node = units(&[("a", &[1, 2, 3]), ("b", &[4]), ("c", &[5])]);
    let plan = policy(limits(2, 2)).plan(&node, at(100));
    assert_eq!(why(&plan), ["UnitLimit", "EvenShare", "NodeLimit"]);
    let reported: Vec<_> = plan
        .actions
        .iter()
        .map(|action| action.reason().to_string())
        .collect();
    assert_eq!(
        reported,
        [
            "beyond 2 of its pod and container name",
            "beyond 1 of its unit, the equal share of the node's limit of 2",
            "among the oldest beyond the node's limit of 2",
        ]
    );
    let findings: Vec<_> = plan
        .findings
        .iter()
        .map(|finding| finding.reason.to_string())
        .collect();
    assert_eq!(
        findings,
        ["3 units share the node's limit of 2 containers, 1 each, although the limit of each unit is 2"]
    );
    let summary = plan.summary;
    assert_eq!(
        [
            summary.candidates,
            summary.units,
            summary.pod_ended,
            summary.unit_limit,
            summary.even_share,
            summary.node_limit,
            summary.removed()
        ],
        [5, 3, 0, 1, 1, 1, 3]
    );

    let plan = policy(limits(-1, 8)).plan(
        &units(&[("x", &[3, 2, 1]), ("y", &[3, 2, 1]), ("z", &[3, 2, 1])]),
        at(9),
    );
    let findings: Vec<_> = plan
        .findings
        .iter()
        .map(|finding| finding.reason.to_string())
        .collect();
    assert_eq!(
        findings,
        [
            "3 units share the node's limit of 8 containers, 2 each, although units have no limit",
            "with equal shares 6 containers are kept, although 8 are allowed",
        ]
    );
}

#[test]
fn n2_21_and_n2_60_to_n2_63_units_are_removed_with_their_pods() {
    // The removals of the unit x (three dead) with at most one each: all of it, or the two oldest.
    let all = true;
    for (name, state, sources_ready, synced, minor, periodic, forced) in [
        ("living", Some(PodState::ACTIVE), true, true, "1.36.0", !all, !all),
        ("ending", Some(ENDING), true, true, "1.36.0", !all, !all),
        ("evicted", Some(EVICTED), true, true, "1.36.0", all, all),
        (
            "completed",
            Some(PodState::COMPLETED),
            true,
            true,
            "1.36.0",
            !all,
            all,
        ),
        ("gone", Some(PodState::GONE), true, true, "1.36.0", all, all),
        (
            "gone, unsynced",
            Some(PodState::GONE),
            true,
            false,
            "1.36.0",
            all,
            all,
        ),
        (
            "gone, not ready",
            Some(PodState::GONE),
            false,
            true,
            "1.36.0",
            !all,
            !all,
        ),
        ("unknown", None, true, true, "1.36.0", all, all),
        ("unknown, unsynced", None, true, false, "1.36.0", !all, !all),
        ("unknown, not ready", None, false, true, "1.36.0", !all, !all),
        (
            "unknown, unsynced, first with workers",
            None,
            true,
            false,
            "1.22.0",
            !all,
            !all,
        ),
        (
            "unknown, unsynced, last without workers",
            None,
            true,
            false,
            "1.21.9",
            all,
            all,
        ),
        ("unknown, unsynced, 1.20", None, true, false, "1.20.2", all, all),
        (
            "unknown, not ready, 1.20",
            None,
            false,
            false,
            "1.20.2",
            !all,
            !all,
        ),
        (
            "completed, 1.20",
            Some(PodState::COMPLETED),
            true,
            true,
            "1.20.2",
            !all,
            all,
        ),
    ] {
        let mut node = units(&[("x", &[1, 2, 3])]);
        node.pods.known = state.into_iter().map(|state| ("x".into(), state)).collect();
        node.pods.sources_ready = sources_ready;
        node.pods.synced = synced;
        for (mode, whole) in [(Periodic, periodic), (Forced, forced)] {
            let policy = Policy::new(limits(1, -1), release(minor))
                .expect("valid limits")
                .with_mode(mode);
            let plan = policy.plan(&node, at(100));
            let expected: &[&str] = if whole { &["x1", "x2", "x3"] } else { &["x1", "x2"] };
            assert_eq!(removed(&plan), expected, "{name}, {mode:?}");
            let because = if whole { "PodEnded" } else { "UnitLimit" };
            assert!(why(&plan).iter().all(|why| *why == because), "{name}");
        }
    }
}

#[test]
fn n2_21_the_reasons_for_removable_pods() {
    for (state, mode, text) in [
        (Some(EVICTED), Periodic, "its pod is evicted"),
        (Some(PodState::GONE), Forced, "its pod is deleted and terminated"),
        (Some(PodState::COMPLETED), Forced, "its pod is terminated"),
        (None, Periodic, "its pod is unknown to the kubelet"),
    ] {
        let mut node = units(&[("x", &[1])]);
        node.pods.known = state.into_iter().map(|state| ("x".into(), state)).collect();
        let plan = policy(limits(1, -1)).with_mode(mode).plan(&node, at(100));
        assert_eq!(plan.actions[0].reason().to_string(), text);
        node.pods.sources_ready = false;
        let plan = policy(limits(1, -1)).with_mode(mode).plan(&node, at(100));
        assert_eq!(
            plan.kept[0].reason,
            Reason::SourcesNotReady,
            "{text}: it stays, and the reason says that it would go"
        );
    }
}

#[test]
fn n2_27_the_minimum_age_protects_in_every_step_and_the_protected_are_not_counted() {
    let limits = Limits {
        age_min: seconds(50),
        ..limits(1, 2)
    };
    // Young ones, at 60 and later: of a removed pod, beyond the unit's limit, beyond the node's limit.
    let mut node = units(&[
        ("gone", &[10, 60]),
        ("x", &[20, 30, 70, 80]),
        ("y", &[40]),
        ("z", &[45, 90]),
    ]);
    node.pods.known.remove(&"gone".into());
    let plan = policy(limits).plan(&node, at(100));
    assert_eq!(removed(&plan), ["gone10", "x20", "x30"]);
    assert_eq!(why(&plan), ["PodEnded", "UnitLimit", "NodeLimit"]);
    assert_eq!(stays(&plan), ["gone60", "x70", "x80", "y40", "z45", "z90"]);
    assert_eq!(plan.next_at, Some(at(110)), "the first of the young comes of age");
}

#[test]
fn n2_50_n2_51_grace_comes_from_annotations_and_is_at_least_two_seconds() {
    const MAX: &str = "9223372036854775807";
    for (deletion, termination, grace) in [
        (None, None, 2),
        (Some("30"), None, 30),
        (Some("30"), Some("60"), 30),
        (None, Some("60"), 60),
        (Some("0"), Some("60"), 2),
        (Some("1"), None, 2),
        (Some("-5"), None, 2),
        (Some("half an hour"), Some("60"), 60),
        (Some(""), Some("x"), 2),
        (Some(MAX), None, u32::MAX),
        (Some("99999999999999999999"), Some("7"), 7),
    ] {
        let mut unknown = in_state(Unknown, dead("c", "x", "web", 1));
        for (key, value) in [
            (annotation::DELETION_GRACE_PERIOD, deletion),
            (annotation::TERMINATION_GRACE_PERIOD, termination),
        ] {
            if let Some(value) = value {
                unknown.annotations.insert(key.into(), value.into());
            }
        }
        let plan = policy(limits(0, -1)).plan(&one(unknown), at(100));
        let mut run = Run::new(plan);
        let step = run.next(None);
        assert!(
            matches!(step, Step::Stop { grace_seconds, .. } if grace_seconds == grace),
            "{deletion:?} {termination:?}: {step:?}"
        );
    }
}

#[test]
fn n1_18_a_negative_age_is_refused_in_upstreams_words() {
    let limits = Limits {
        age_min: seconds(-1),
        ..Limits::default()
    };
    let refused: Result<Policy, InvalidAge> = Policy::new(limits, release("1.36.0"));
    assert_eq!(
        refused.map_err(|refused| refused.to_string()),
        Err("invalid minimum garbage collection age: -1s".to_owned())
    );
    assert_eq!(
        Limits::default(),
        Limits {
            age_min: seconds(0),
            per_unit_max: Some(1),
            node_max: None
        }
    );
}

/// A worked example.
struct Example {
    name: &'static str,
    containers: Vec<Container>,
    pod: Option<PodState>,
    sources_ready: bool,
    synced: bool,
    age_min: i64,
    limits: (i64, i64),
    mode: Mode,
    order: Order,
    expected: Vec<&'static str>,
}

/// Containers `c1`, `c2` of pod `p`, created at these seconds; the pod exists, all sources are ready, limits
/// are upstream's.
fn example(name: &'static str, created: &[i64], expected: &[&'static str]) -> Example {
    let containers = created
        .iter()
        .map(|&created| dead(&format!("c{created}"), "p", "web", created));
    Example {
        name,
        containers: containers.collect(),
        pod: Some(PodState::ACTIVE),
        sources_ready: true,
        synced: true,
        age_min: 0,
        limits: (1, -1),
        mode: Periodic,
        order: Order::Total,
        expected: expected.to_vec(),
    }
}

fn examples() -> Vec<Example> {
    let gone = Some(PodState::GONE);
    let pairs = |pods: &[&str], each: i64| -> Vec<Container> {
        let all = pods.iter().flat_map(|&pod| {
            (1..=each).map(move |created| dead(&format!("{pod}{created}"), pod, "web", created))
        });
        all.collect()
    };
    let singles = (1..=7).map(|created| dead(&format!("c{created}"), "p", &format!("n{created}"), created));
    let stated = |states: &[(i64, ContainerState)]| -> Vec<Container> {
        let all = states
            .iter()
            .map(|&(created, state)| in_state(state, dead(&format!("c{created}"), "p", "web", created)));
        all.collect()
    };
    vec![
        Example {
            limits: (1, 0),
            ..example("zero for the node", &[1], &["c1"])
        },
        Example {
            limits: (-1, 4),
            ..example("the oldest of one unit", &[1, 2, 3, 4, 5], &["c1"])
        },
        Example {
            limits: (-1, -1),
            ..example("no limits", &[1, 2, 3], &[])
        },
        Example {
            age_min: 60,
            pod: gone,
            ..example("the minimum age exactly", &[100], &[])
        },
        Example {
            age_min: 60,
            limits: (0, -1),
            ..example("old enough", &[40], &["c40"])
        },
        Example {
            limits: (0, -1),
            ..example("created in the future", &[101], &[])
        },
        Example {
            limits: (2, -1),
            containers: stated(&[(1, Running), (2, Exited), (3, Exited)]),
            ..example("running ones do not count", &[], &[])
        },
        Example {
            limits: (2, -1),
            containers: pairs(&["p", "q"], 3),
            ..example("a limit for each unit", &[], &["p1", "q1"])
        },
        Example {
            limits: (-1, 4),
            containers: pairs(&["p", "q", "r"], 2),
            ..example("equal shares", &[], &["p1", "q1", "r1"])
        },
        Example {
            limits: (1, 5),
            containers: singles.collect(),
            ..example("more units than the node allows", &[], &["c1", "c2"])
        },
        Example {
            pod: gone,
            sources_ready: false,
            ..example("sources not ready", &[1, 2, 3], &["c1", "c2"])
        },
        Example {
            pod: gone,
            order: Order::Listing,
            ..example("the order of the listing", &[2, 3, 1], &["c1", "c3", "c2"])
        },
        Example {
            pod: Some(PodState::COMPLETED),
            ..example("completed pod", &[1, 2], &["c1"])
        },
        Example {
            pod: Some(PodState::COMPLETED),
            mode: Forced,
            ..example("completed pod, forced", &[1, 2], &["c1", "c2"])
        },
        Example {
            pod: None,
            synced: false,
            ..example("unknown pod, not synced", &[1, 2, 3], &["c1", "c2"])
        },
        Example {
            containers: vec![dead("a", "", "web", 1), dead("b", "", "web", 2)],
            ..example("no pod uid", &[], &["a", "b"])
        },
        Example {
            limits: (1, -1),
            containers: stated(&[(1, Created), (2, Exited)]),
            ..example("created but not started", &[], &["c1"])
        },
        Example {
            limits: (0, 5),
            ..example("zero for each unit", &[1, 2, 3], &["c1", "c2", "c3"])
        },
    ]
}

#[test]
fn containers_are_removed_by_pod_state_limits_and_age() {
    for example in examples() {
        let mut known = vec![("q", PodState::ACTIVE), ("r", PodState::ACTIVE)];
        known.extend(example.pod.map(|state| ("p", state)));
        let mut node = Inventory {
            containers: listed(example.containers),
            pods: pods(&known),
            ..empty()
        };
        node.pods.sources_ready = example.sources_ready;
        node.pods.synced = example.synced;
        let limits = Limits {
            age_min: seconds(example.age_min),
            ..limits(example.limits.0, example.limits.1)
        };
        for minor in crate::world::RELEASES {
            if !example.synced && minor == "1.20.2" {
                // Before the pod workers, an unknown pod could be removed at once.
                continue;
            }
            let policy = Policy::new(limits, release(minor)).expect("valid limits");
            let plan = policy
                .with_mode(example.mode)
                .with_order(example.order)
                .plan(&node, at(100));
            assert_eq!(removed(&plan), example.expected, "{} on {minor}", example.name);
            let stopped = plan.actions.iter().any(|action| {
                matches!(
                    action,
                    kubegc_node::container::Action::Remove {
                        stop_first: Some(_),
                        ..
                    }
                )
            });
            assert!(!stopped, "{}", example.name);
            if example.limits == (0, 5) {
                assert_eq!(
                    why(&plan),
                    ["UnitLimit"; 3],
                    "the limit of the node has no effect"
                );
                assert!(plan.findings.is_empty());
            }
        }
    }
}
