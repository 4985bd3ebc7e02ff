//! Container plans: texts, missing listings, releases, and grace periods. The recordings contain the rules.

use kubegc_core::{
    PlanOf, Planner, RuntimeError,
    node_facts::{Container, ContainerState, PodState, annotation},
};
use kubegc_node::{
    Inventory, Unlisted,
    container::{Action, EvictUnits, Limits, Mode, Reason, Subject},
};

use crate::world::{EVICTED, at, dead, empty, in_state, listed, pods, release, seconds};

use Mode::{Forced, Periodic};

fn limits(per_unit: i64, node: i64) -> Limits {
    Limits {
        per_unit_max: u32::try_from(per_unit).ok(),
        node_max: u32::try_from(node).ok(),
        ..Limits::default()
    }
}

fn policy(limits: Limits) -> EvictUnits {
    EvictUnits::new(limits, release("1.36.0")).expect("valid limits")
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

/// The names of the reasons for removals, in order.
fn why(plan: &PlanOf<EvictUnits>) -> Vec<&str> {
    plan.actions.iter().map(|action| action.reason.name()).collect()
}

fn one(container: Container) -> Inventory {
    Inventory {
        containers: listed([container]),
        pods: pods(&[("x", PodState::ACTIVE)]),
        ..empty()
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
            .any(|finding| finding.reason.name() == "CreatedInFuture");
        assert_eq!(future, created > 100);
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
        .map(|action| action.reason.to_string())
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
fn n2_22_kept_containers_have_their_place_in_the_unit() {
    let plan = policy(limits(2, -1)).plan(&units(&[("x", &[2, 3, 1])]), at(100));
    let kept: Vec<_> = plan.kept.iter().map(|kept| kept.reason.to_string()).collect();
    assert_eq!(
        kept,
        [
            "the newest of its unit, within all limits",
            "within all limits, 1 newer in its unit",
        ]
    );
}

#[test]
fn n2_61_an_unknown_pod_awaits_the_pod_workers_since_1_22() {
    let mut node = units(&[("x", &[1])]);
    node.pods = pods(&[]);
    node.pods.synced = false;
    for (version, sources_ready, reasons) in [
        ("1.21.9", true, &["PodEnded"][..]),
        ("1.21.9", false, &[]),
        ("1.22.0", true, &[]),
        ("1.36.0", true, &[]),
    ] {
        node.pods.sources_ready = sources_ready;
        for mode in [Periodic, Forced] {
            let policy = EvictUnits::new(limits(1, -1), release(version)).expect("valid limits");
            let plan = policy.with_mode(mode).plan(&node, at(100));
            assert_eq!(why(&plan), reasons, "{version} {mode:?}");
        }
    }
}

#[test]
fn n2_21_the_reasons_for_removable_pods() {
    for (state, mode, text) in [
        (Some(EVICTED), Periodic, "its pod is evicted"),
        (
            Some(PodState::DELETED),
            Forced,
            "its pod is deleted and terminated",
        ),
        (Some(PodState::COMPLETED), Forced, "its pod is terminated"),
        (None, Periodic, "its pod is unknown to the kubelet"),
    ] {
        let mut node = units(&[("x", &[1])]);
        node.pods.known = state.into_iter().map(|state| ("x".into(), state)).collect();
        let plan = policy(limits(1, -1)).with_mode(mode).plan(&node, at(100));
        assert_eq!(plan.actions[0].reason.to_string(), text);
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
        let mut unknown = in_state(ContainerState::Unknown, dead("c", "x", "web", 1));
        for (key, value) in [
            (annotation::DELETION_GRACE_PERIOD, deletion),
            (annotation::TERMINATION_GRACE_PERIOD, termination),
        ] {
            if let Some(value) = value {
                unknown.annotations.insert(key.into(), value.into());
            }
        }
        let plan = policy(limits(0, -1)).plan(&one(unknown), at(100));
        let Action { stop_first, .. } = &plan.actions[0];
        assert_eq!(*stop_first, Some(grace), "{deletion:?} {termination:?}");
    }
}
