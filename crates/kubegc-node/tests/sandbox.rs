//! Rules N2.30 to N2.38: sandboxes.

use kubegc_core::{
    PlanOf, Planner, RuntimeError,
    node_facts::{Container, PodState, Sandbox, SandboxState},
};
use kubegc_node::{
    Inventory, Order, Unlisted,
    container::Mode,
    sandbox::{Action, Policy, Reason, Subject},
};

use crate::world::{ENDING, EVICTED, at, dead, empty, listed, pod, pods, release, sandbox};

use Mode::{Forced, Periodic};
use SandboxState::{NotReady, Ready};

fn policy() -> Policy {
    Policy::new(release("1.36.0"))
}

/// Sandboxes of pod `p` by id, state and second of creation; containers by their sandbox.
fn node(state: Option<PodState>, sandboxes: &[(&str, SandboxState, i64)], within: &[&str]) -> Inventory {
    let known: Vec<_> = state.into_iter().map(|state| ("p", state)).collect();
    let containers = within.iter().enumerate().map(|(at, &sandbox)| Container {
        sandbox_id: sandbox.into(),
        ..dead(&format!("c{at}"), "p", "web", 1)
    });
    let sandboxes = sandboxes
        .iter()
        .map(|&(id, state, created)| sandbox(id, "p", state, created));
    Inventory {
        containers: listed(containers),
        sandboxes: listed(sandboxes),
        pods: pods(&known),
        ..empty()
    }
}

fn removed(plan: &PlanOf<Policy>) -> Vec<&str> {
    let ids = plan
        .actions
        .iter()
        .map(|Action::Remove { sandbox, .. }| &*sandbox.id);
    ids.collect()
}

fn kept(plan: &PlanOf<Policy>) -> Vec<(&str, String)> {
    plan.kept
        .iter()
        .map(|kept| match &kept.object {
            Subject::Sandbox(sandbox) => (&*sandbox.id, kept.reason.to_string()),
            Subject::Node => ("", kept.reason.to_string()),
        })
        .collect()
}

#[test]
fn n2_30_without_either_listing_nothing_is_removed() {
    let failed = || Unlisted::Failed(RuntimeError::refused("no socket"));
    let whole = node(None, &[("a", NotReady, 1)], &[]);
    for (broken, text) in [
        (
            Inventory {
                containers: Err(failed()),
                ..whole.clone()
            },
            "no socket",
        ),
        (
            Inventory {
                sandboxes: Err(failed()),
                ..whole.clone()
            },
            "no socket",
        ),
        (
            Inventory {
                containers: Err(Unlisted::NotRequested),
                ..whole.clone()
            },
            "not listed",
        ),
    ] {
        let plan = policy().with_mode(Forced).plan(&broken, at(9));
        assert!(plan.actions.is_empty() && plan.kept.is_empty());
        assert_eq!(plan.findings.len(), 1);
        assert_eq!(plan.findings[0].reason, Reason::Unlisted(text.into()));
    }
    assert_eq!(removed(&policy().plan(&whole, at(9))), ["a"]);
}

#[test]
fn n2_31_a_sandbox_is_active_if_it_is_ready_or_has_containers() {
    for (state, within, reason) in [
        (NotReady, &[][..], None),
        (NotReady, &["another"], None),
        (NotReady, &["a"], Some("1 containers belong to it")),
        (NotReady, &["a", "a"], Some("2 containers belong to it")),
        (Ready, &[], Some("ready")),
        (Ready, &["a"], Some("ready")),
    ] {
        let plan = policy().plan(&node(Some(PodState::GONE), &[("a", state, 1)], within), at(9));
        assert_eq!(
            removed(&plan).len(),
            usize::from(reason.is_none()),
            "{state:?} {within:?}"
        );
        assert_eq!(kept(&plan).pop().map(|(_, text)| text).as_deref(), reason);
    }
}

#[test]
fn n2_32_groups_have_the_uid_of_the_metadata() {
    let labelled = Sandbox {
        labels: [("io.kubernetes.pod.uid".into(), "q".into())].into(),
        ..sandbox("a", "p", NotReady, 1)
    };
    let node = Inventory {
        sandboxes: listed([
            labelled,
            sandbox("b", "p", NotReady, 2),
            sandbox("c", "q", NotReady, 3),
        ]),
        pods: pods(&[("p", PodState::ACTIVE), ("q", PodState::ACTIVE)]),
        ..empty()
    };
    assert_eq!(removed(&policy().plan(&node, at(9))), ["a"]);
}

#[test]
fn n2_33_n2_34_n2_36_the_pod_state_and_the_mode_decide_whether_the_newest_is_kept() {
    // Of two inactive sandboxes the newest is kept, or none. Neither sources nor ages have an effect.
    let all = true;
    for (name, state, synced, version, periodic, forced) in [
        ("active", Some(PodState::ACTIVE), true, "1.36.0", !all, !all),
        ("terminating", Some(ENDING), true, "1.36.0", !all, !all),
        ("evicted", Some(EVICTED), true, "1.36.0", all, all),
        ("completed", Some(PodState::COMPLETED), true, "1.36.0", !all, all),
        ("deleted", Some(PodState::GONE), false, "1.36.0", all, all),
        ("unknown", None, true, "1.36.0", all, all),
        ("unknown, unsynced", None, false, "1.36.0", !all, !all),
        ("unknown, unsynced", None, false, "1.22.0", !all, !all),
    ] {
        for sources_ready in [true, false] {
            let mut node = node(state, &[("a", NotReady, 1), ("b", NotReady, 2)], &[]);
            node.pods.sources_ready = sources_ready;
            node.pods.synced = synced;
            for (mode, whole) in [(Periodic, periodic), (Forced, forced)] {
                let plan = Policy::new(release(version)).with_mode(mode).plan(&node, at(0));
                let expected: &[&str] = if whole { &["a", "b"] } else { &["a"] };
                assert_eq!(removed(&plan), expected, "{name} {mode:?} {sources_ready}");
            }
        }
    }
    // Before the pod workers (1.22), an unknown pod depends on the sources only.
    for (sources_ready, expected) in [(true, &["a", "b"][..]), (false, &["a"])] {
        let mut node = node(None, &[("a", NotReady, 1), ("b", NotReady, 2)], &[]);
        node.pods.synced = false;
        node.pods.sources_ready = sources_ready;
        assert_eq!(
            removed(&Policy::new(release("1.20.2")).plan(&node, at(9))),
            expected
        );
    }
}

#[test]
fn n2_35_the_oldest_are_removed_first_and_active_ones_are_not_replaced() {
    let gone = Some(PodState::GONE);
    let living = Some(PodState::ACTIVE);
    let listing: &[(&str, SandboxState, i64)] = &[
        ("c3", NotReady, 3),
        ("c1", NotReady, 1),
        ("c4", NotReady, 4),
        ("c2", Ready, 2),
    ];
    for (state, order, expected) in [
        (living, Order::Total, &["c1", "c3"][..]),
        (living, Order::Listing, &["c1", "c3"]),
        (gone, Order::Total, &["c1", "c3", "c4"]),
        (gone, Order::Listing, &["c4", "c1", "c3"]),
    ] {
        let plan = policy().with_order(order).plan(&node(state, listing, &[]), at(9));
        assert_eq!(removed(&plan), expected, "{state:?} {order:?}");
        let ready = kept(&plan).contains(&("c2", "ready".to_owned()));
        assert!(ready, "it is kept: {:?}", plan.kept);
    }
}

#[test]
fn n2_35_equals_are_ordered_by_id_or_by_the_listing() {
    let listing: &[(&str, SandboxState, i64)] = &[("b", NotReady, 1), ("a", NotReady, 1), ("c", NotReady, 1)];
    let node = node(Some(PodState::ACTIVE), listing, &[]);
    for (order, expected) in [(Order::Total, ["c", "b"]), (Order::Listing, ["c", "a"])] {
        assert_eq!(removed(&policy().with_order(order).plan(&node, at(9))), expected);
    }
}

#[test]
fn n2_38_sandboxes_without_a_uid_are_one_group_and_reported() {
    let mut node = Inventory {
        sandboxes: listed([sandbox("a", "", NotReady, 1), sandbox("b", "", NotReady, 2)]),
        ..empty()
    };
    for (synced, expected) in [(true, &["a", "b"][..]), (false, &["a"])] {
        node.pods.synced = synced;
        let plan = policy().plan(&node, at(9));
        assert_eq!(removed(&plan), expected);
        let findings: Vec<_> = plan
            .findings
            .iter()
            .map(|finding| finding.reason.to_string())
            .collect();
        assert_eq!(findings, ["its metadata has no pod uid"; 2]);
    }
}

#[test]
fn removal_reasons_have_texts_and_names() {
    for (state, text) in [
        (
            Some(PodState::GONE),
            "its pod is deleted and terminated, and it has no containers",
        ),
        (
            Some(PodState::ACTIVE),
            "its pod has a newer sandbox, and it has no containers",
        ),
        (
            None,
            "its pod is unknown to the kubelet, and it has no containers",
        ),
    ] {
        let plan = policy().plan(
            &node(state, &[("a", NotReady, 1), ("b", NotReady, 2)], &[]),
            at(9),
        );
        let Action::Remove { reason, .. } = &plan.actions[0];
        assert_eq!(reason.to_string(), text);
        assert_eq!(
            reason.as_str(),
            if state == Some(PodState::ACTIVE) {
                "Superseded"
            } else {
                "PodEnded"
            }
        );
    }
}

#[test]
fn inactive_sandboxes_are_removed_by_pod_state() {
    let gone = Some(PodState::GONE);
    let living = Some(PodState::ACTIVE);
    for (case, state, sandboxes, within, expected) in [
        (
            "deleted pod",
            gone,
            &[("a", NotReady, 1)][..],
            &[][..],
            &["a"][..],
        ),
        ("deleted pod, ready", gone, &[("a", Ready, 1)], &[], &[]),
        (
            "older one",
            living,
            &[("a", NotReady, 1), ("b", NotReady, 2)],
            &[],
            &["a"],
        ),
        (
            "older one with a container",
            living,
            &[("a", NotReady, 1), ("b", Ready, 2)],
            &["a"],
            &[],
        ),
        (
            "newest not ready",
            living,
            &[("a", Ready, 1), ("b", NotReady, 2)],
            &[],
            &[],
        ),
        (
            "unknown pod, sources not ready",
            None,
            &[("a", NotReady, 1)],
            &[],
            &["a"],
        ),
    ] {
        let mut node = node(state, sandboxes, within);
        node.pods.sources_ready = state.is_some();
        for version in crate::world::RELEASES {
            let plan = Policy::new(release(version)).plan(&node, at(9));
            assert_eq!(removed(&plan), expected, "{case} on {version}");
            assert_eq!(plan.actions.len() + plan.kept.len(), sandboxes.len());
        }
    }
}

#[test]
fn a_pod_of_the_same_name_with_another_uid_is_another_pod() {
    let mut again = sandbox("b", "p", NotReady, 2);
    again.pod = kubegc_core::node_facts::PodIdentity {
        uid: "q".into(),
        ..pod("p")
    };
    let node = Inventory {
        sandboxes: listed([sandbox("a", "p", NotReady, 1), again]),
        pods: pods(&[("q", PodState::ACTIVE)]),
        ..empty()
    };
    assert_eq!(removed(&policy().plan(&node, at(9))), ["a"]);
}
