//! Sandbox plans: missing listings, labels, and texts. The recordings contain the rules.

use kubegc_core::{
    PlanOf, Planner, RuntimeError,
    node_facts::{Container, PodState, Sandbox, SandboxState},
};
use kubegc_node::{
    Inventory, Unlisted,
    container::Mode,
    sandbox::{Action, EvictSandboxes, Reason},
};

use crate::world::{at, dead, empty, listed, pods, release, sandbox};

use SandboxState::NotReady;

fn policy() -> EvictSandboxes {
    EvictSandboxes::new(release("1.36.0"))
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

fn removed(plan: &PlanOf<EvictSandboxes>) -> Vec<&str> {
    let ids = plan.actions.iter().map(|Action { sandbox, .. }| &*sandbox.id);
    ids.collect()
}

#[test]
fn n2_30_without_either_listing_nothing_is_removed() {
    let whole = node(None, &[("a", NotReady, 1)], &[]);
    type Change = fn(&mut Inventory, Unlisted);
    let changes: [Change; 2] = [
        |node, failed| node.containers = Err(failed),
        |node, failed| node.sandboxes = Err(failed),
    ];
    for change in changes {
        let mut broken = whole.clone();
        change(&mut broken, Unlisted::Failed(RuntimeError::refused("no socket")));
        let plan = policy().with_mode(Mode::Forced).plan(&broken, at(9));
        assert!(plan.actions.is_empty() && plan.kept.is_empty());
        assert_eq!(plan.findings.len(), 1);
        assert_eq!(plan.findings[0].reason, Reason::Unlisted("no socket".into()));
    }
    assert_eq!(removed(&policy().plan(&whole, at(9))), ["a"]);
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
fn removal_reasons_have_texts_and_names() {
    for (state, name, text) in [
        (
            Some(PodState::DELETED),
            "PodEnded",
            "its pod is deleted and terminated",
        ),
        (
            Some(PodState::ACTIVE),
            "Superseded",
            "its pod has a newer sandbox",
        ),
        (None, "PodEnded", "its pod is unknown to the kubelet"),
    ] {
        let sandboxes = [("a", NotReady, 1), ("b", NotReady, 2)];
        let plan = policy().plan(&node(state, &sandboxes, &[]), at(9));
        let Action { reason, .. } = &plan.actions[0];
        assert_eq!(reason.to_string(), format!("{text}, and it has no containers"));
        assert_eq!(reason.name(), name);
    }
    assert_eq!(Reason::NoPod.to_string(), "its metadata has no pod uid");
}
