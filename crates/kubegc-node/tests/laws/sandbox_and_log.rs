//! Laws of sandboxes, log directories and links.

use std::{cmp::Reverse, collections::BTreeMap};

use kubegc_core::{
    PlanOf, Planner,
    node_facts::{Container, LogLink, LogTarget, Sandbox, SandboxState},
};
use kubegc_node::{
    Inventory, Order, Subject,
    container::Mode,
    log,
    sandbox::{Action, EvictSandboxes, Reason},
};
use proptest::prelude::*;

use super::{
    NOW, UIDS, a_release, an_order, assert_reached, is_removable, reached, shuffled, some_pods, variant,
};
use crate::world::{at, dead, empty, listed, release, sandbox};

#[derive(Clone, Debug)]
struct Case {
    node: Inventory,
    release: &'static str,
    forced: bool,
    order: Order,
}

prop_compose! {
    fn a_case()(
        sandboxes in prop::collection::vec((prop::sample::select(UIDS.to_vec()), prop::bool::weighted(0.3), 0..5_i64), 0..10),
        within in prop::collection::vec(0..20_usize, 0..6),
        ids in any::<u64>(),
        pods in some_pods(),
        entries in prop::collection::btree_set("[pq_]{0,3}", 0..8),
        links in prop::collection::btree_map("-?[a-f]{4,7}(\\.log|\\.txt|)", 0..3_u8, 0..8),
        release in a_release(),
        forced in any::<bool>(),
        order in an_order(),
    ) -> Case {
        let names: Vec<usize> = shuffled(&(0..sandboxes.len()).collect::<Vec<_>>(), ids);
        let sandboxes = sandboxes.iter().zip(names).map(|(&(uid, ready, created), name)| {
            let state = if ready { SandboxState::Ready } else { SandboxState::NotReady };
            sandbox(&format!("s{name}"), uid, state, created)
        });
        let containers = within.iter().enumerate().map(|(at, within)| Container {
            sandbox_id: format!("s{within}").into(),
            ..dead(&format!("c{at}"), "p", "web", 1)
        });
        let links = links.into_iter().map(|(path, target)| LogLink {
            path: path.into(),
            target: [LogTarget::Exists, LogTarget::Missing, LogTarget::Unknown][usize::from(target)],
        });
        let node = Inventory {
            sandboxes: listed(sandboxes),
            containers: listed(containers),
            log_entries: Ok(entries.iter().map(|entry| entry.as_str().into()).collect()),
            log_links: Ok(links.collect()),
            pods,
            ..empty()
        };
        Case { node, release, forced, order }
    }
}

impl Case {
    fn sandboxes(&self) -> PlanOf<EvictSandboxes> {
        let mode = if self.forced { Mode::Forced } else { Mode::Periodic };
        let policy = EvictSandboxes {
            semantics: release(self.release),
            mode,
            order: self.order,
        };
        policy.plan(&self.node, at(NOW))
    }

    fn logs(&self) -> PlanOf<log::EvictLogs> {
        let policy = log::EvictLogs {
            semantics: release(self.release),
            order: self.order,
        };
        policy.plan(&self.node, at(NOW))
    }

    /// The same node without these sandboxes.
    fn without(&self, removed: &[Action]) -> Self {
        let stays = |sandbox: &Sandbox| {
            removed
                .iter()
                .all(|Action { sandbox: removed, .. }| removed.id != sandbox.id)
        };
        let mut case = self.clone();
        let all = case.node.sandboxes.iter().flatten();
        case.node.sandboxes = Ok(all.filter(|sandbox| stays(sandbox)).cloned().collect());
        case
    }
}

/// The spec's section 2.5, restated.
fn naive(case: &Case) -> Vec<&str> {
    let mut groups: BTreeMap<_, Vec<&Sandbox>> = BTreeMap::new();
    for sandbox in case.node.sandboxes.iter().flatten() {
        groups.entry(&sandbox.pod.uid).or_default().push(sandbox);
    }
    let mut removed = Vec::new();
    for (uid, mut group) in groups {
        let all = is_removable(&case.node.pods, uid, case.release, case.forced);
        group.sort_by_key(|sandbox| (Reverse(sandbox.created_at), &sandbox.id));
        let spared = usize::from(!all);
        for sandbox in group[spared..].iter().rev() {
            let within = |container: &&std::sync::Arc<Container>| container.sandbox_id == sandbox.id;
            let active = sandbox.state == SandboxState::Ready
                || case
                    .node
                    .containers
                    .iter()
                    .flatten()
                    .any(|container| within(&container));
            removed.extend((!active).then_some(&*sandbox.id));
        }
    }
    removed
}

fn ids(actions: &[Action]) -> Vec<&str> {
    actions
        .iter()
        .map(|Action { sandbox, .. }| &*sandbox.id)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn a_sandbox_plan_equals_a_naive_restatement(mut case in a_case()) {
        case.order = Order::Total;
        let plan = case.sandboxes();
        prop_assert_eq!(ids(&plan.actions), naive(&case));
    }

    #[test]
    fn never_a_sandbox_that_is_ready_or_has_containers_and_all_are_reported_once(case in a_case()) {
        let plan = case.sandboxes();
        let with_containers: Vec<_> = case.node.containers.iter().flatten().map(|container| &container.sandbox_id).collect();
        for Action { sandbox, .. } in &plan.actions {
            prop_assert!(sandbox.state == SandboxState::NotReady && !with_containers.contains(&&sandbox.id));
        }
        let kept = plan.kept.iter().filter_map(|kept| match &kept.object {
            Subject::Sandbox(sandbox) => Some(&*sandbox.id),
            _ => None,
        });
        let mut reported: Vec<_> = ids(&plan.actions).into_iter().chain(kept).collect();
        reported.sort_unstable();
        let mut all: Vec<_> = case.node.sandboxes.iter().flatten().map(|sandbox| &*sandbox.id).collect();
        all.sort_unstable();
        prop_assert_eq!(reported, all);
        let without_uid = case.node.sandboxes.iter().flatten().filter(|sandbox| sandbox.pod.uid.is_empty());
        let found = plan.findings.iter().filter(|found| found.reason == Reason::NoPod);
        prop_assert_eq!(found.count(), without_uid.count());
    }

    #[test]
    fn after_any_prefix_a_new_plan_removes_the_rest_of_the_sandboxes(mut case in a_case(), cut in any::<prop::sample::Index>()) {
        case.order = Order::Total;
        let plan = case.sandboxes();
        let (done, rest) = plan.actions.split_at(cut.index(plan.actions.len() + 1));
        prop_assert_eq!(&case.without(done).sandboxes().actions[..], rest);
    }

    #[test]
    fn after_a_complete_pass_a_second_one_removes_nothing(case in a_case()) {
        prop_assert_eq!(case.without(&case.sandboxes().actions).sandboxes().actions, Vec::new());
    }

    #[test]
    fn the_order_of_listings_changes_nothing(mut case in a_case(), seed in any::<u64>()) {
        case.order = Order::Total;
        let plans = (case.sandboxes(), case.logs());
        case.node.sandboxes = case.node.sandboxes.as_deref().map(|all| shuffled(all, seed)).map_err(Clone::clone);
        case.node.containers = case.node.containers.as_deref().map(|all| shuffled(all, seed)).map_err(Clone::clone);
        case.node.log_entries = case.node.log_entries.as_deref().map(|all| shuffled(all, seed)).map_err(Clone::clone);
        case.node.log_links = case.node.log_links.as_deref().map(|all| shuffled(all, seed)).map_err(Clone::clone);
        prop_assert_eq!(plans, (case.sandboxes(), case.logs()));
    }

    #[test]
    fn sandbox_plans_depend_on_neither_sources_nor_time(mut case in a_case()) {
        let plan = case.sandboxes();
        prop_assert_eq!(plan.next_at, None);
        if case.release != "1.20.2" {
            case.node.pods.sources_ready ^= true;
            prop_assert_eq!(plan, case.sandboxes());
        }
    }

    #[test]
    fn logs_are_removed_with_their_pod_only_and_links_only_if_they_dangle(case in a_case()) {
        let plan = case.logs();
        let entries = case.node.log_entries.iter().flatten().filter(|entry| !entry.is_empty());
        let removed = entries.filter(|entry| {
            let uid = entry.rsplit('_').next().unwrap_or_default();
            case.node.pods.sources_ready && is_removable(&case.node.pods, &uid.into(), case.release, false)
        });
        let directories = plan.actions.iter().filter_map(|action| match action {
            log::Action::RemoveDirectory { entry, .. } => Some(entry),
            log::Action::ResolveLink { .. } | log::Action::RemoveLink { .. } => None,
        });
        prop_assert_eq!(directories.collect::<Vec<_>>(), removed.collect::<Vec<_>>());
        let links = case.node.log_links.iter().flatten();
        let dangling = links.filter(|link| link.target == LogTarget::Missing).map(|link| &link.path);
        let considered = plan.actions.iter().filter_map(|action| match action {
            log::Action::RemoveDirectory { .. } => None,
            log::Action::ResolveLink { path, .. } | log::Action::RemoveLink { path, .. } => Some(path),
        });
        prop_assert_eq!(considered.collect::<Vec<_>>(), dangling.collect::<Vec<_>>());
        let all = case.node.log_entries.iter().flatten().count() + case.node.log_links.iter().flatten().count();
        prop_assert_eq!(plan.actions.len() + plan.kept.len(), all);
    }
}

#[test]
fn the_generator_reaches_every_reason() {
    let names = |case: Case| {
        let (sandboxes, logs) = (case.sandboxes(), case.logs());
        let mut names: Vec<String> = Vec::new();
        names.extend(
            sandboxes
                .actions
                .iter()
                .map(|Action { reason, .. }| reason.name().to_owned()),
        );
        names.extend(sandboxes.kept.iter().map(|kept| variant(&kept.reason)));
        names.extend(sandboxes.findings.iter().map(|found| variant(&found.reason)));
        names.extend(logs.actions.iter().map(variant));
        names.extend(logs.kept.iter().map(|kept| variant(&kept.reason)));
        names
    };
    assert_reached(&reached(&a_case(), 500, names), 14);
}
