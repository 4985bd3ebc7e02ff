//! Laws of dead containers.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use kubegc_core::{
    PlanOf, Planner,
    node_facts::{Container, ContainerState},
};
use kubegc_node::{
    Inventory, Order,
    container::{Action, EvictUnits, Limits, Mode, Subject},
};
use proptest::prelude::*;

use super::{NOW, UIDS, a_release, an_order, assert_reached, is_removable, reached, shuffled, some_pods};
use crate::world::{at, dead, empty, listed, release, seconds};

#[derive(Clone, Debug)]
struct Case {
    node: Inventory,
    limits: Limits,
    release: &'static str,
    forced: bool,
    order: Order,
}

prop_compose! {
    fn a_container()(
        uid in prop::sample::select(UIDS.to_vec()),
        name in prop::sample::select(vec![Some("a"), Some("b"), Some("a"), Some("b"), None]),
        state in prop::sample::select(vec![
            ContainerState::Exited, ContainerState::Exited, ContainerState::Exited,
            ContainerState::Created, ContainerState::Running, ContainerState::Unknown,
        ]),
        created in 0..=NOW + 1,
    ) -> Container {
        Container { state, name: name.map(Arc::from), ..dead("", uid, "", created) }
    }
}

prop_compose! {
    fn a_case()(
        containers in prop::collection::vec(a_container(), 0..24),
        ids in any::<u64>(),
        pods in some_pods(),
        age_min in prop_oneof![3 => Just(0_i64), 1 => 1_i64..5],
        per_unit_max in prop::option::of(0_u32..4),
        node_max in prop::option::of(0_u32..12),
        release in a_release(),
        forced in any::<bool>(),
        order in an_order(),
    ) -> Case {
        // Ids are unique and independent of the time.
        let names: Vec<usize> = shuffled(&(0..containers.len()).collect::<Vec<_>>(), ids);
        let containers = containers.into_iter().zip(names).map(|(container, name)| Container {
            id: format!("c{name:02}").into(),
            ..container
        });
        Case {
            node: Inventory { containers: listed(containers), pods, ..empty() },
            limits: Limits { age_min: seconds(age_min), per_unit_max, node_max },
            release,
            forced,
            order,
        }
    }
}

impl Case {
    fn policy(&self) -> EvictUnits {
        let mode = if self.forced { Mode::Forced } else { Mode::Periodic };
        let policy = EvictUnits::new(self.limits, release(self.release)).expect("valid limits");
        EvictUnits {
            mode,
            order: self.order,
            ..policy
        }
    }

    fn plan(&self) -> PlanOf<EvictUnits> {
        self.policy().plan(&self.node, at(NOW))
    }

    fn containers(&self) -> &[Arc<Container>] {
        self.node.containers.as_deref().expect("listed")
    }

    /// The same node without these containers.
    fn without(&self, removed: &[Action]) -> Self {
        let stays =
            |container: &&Arc<Container>| removed.iter().all(|action| action.container.id != container.id);
        let containers = self.containers().iter().filter(stays).cloned().collect();
        let mut case = self.clone();
        case.node.containers = Ok(containers);
        case
    }
}

fn is_young(container: &Container, limits: &Limits) -> bool {
    container.created_at.as_nanos() > at(NOW).as_nanos() - limits.age_min.as_nanos()
}

/// Evict units: dead containers by pod and name, newest first, equals by id.
fn units(case: &Case) -> BTreeMap<(String, &str), Vec<&Container>> {
    let mut units: BTreeMap<_, Vec<&Container>> = BTreeMap::new();
    for container in case.containers() {
        let dead = container.state != ContainerState::Running && !is_young(container, &case.limits);
        if let Some(name) = container.name.as_deref().filter(|_| dead) {
            units
                .entry((container.pod.uid.to_string(), name))
                .or_default()
                .push(container);
        }
    }
    for unit in units.values_mut() {
        unit.sort_by_key(|container| (Reverse(container.created_at), &container.id));
    }
    units
}

/// The oldest of a unit are removed until no more than this are left.
fn cut<'a>(unit: &mut Vec<&'a Container>, max: usize, removed: &mut Vec<&'a Container>) {
    while unit.len() > max {
        removed.extend(unit.pop());
    }
}

/// Section 2.4 of the specification, restated: the removals, in order.
fn naive(case: &Case) -> Vec<&str> {
    let mut units = units(case);
    let mut removed = Vec::new();
    if case.node.pods.sources_ready {
        for ((uid, _), unit) in &mut units {
            if is_removable(&case.node.pods, &uid.as_str().into(), case.release, case.forced) {
                cut(unit, 0, &mut removed);
            }
        }
        units.retain(|_, unit| !unit.is_empty());
    }
    if let Some(max) = case.limits.per_unit_max {
        units
            .values_mut()
            .for_each(|unit| cut(unit, max as usize, &mut removed));
    }
    let total = |units: &BTreeMap<_, Vec<&Container>>| units.values().map(Vec::len).sum::<usize>();
    if let Some(max) = case.limits.node_max.map(|max| max as usize)
        && total(&units) > max
    {
        let share = (max / units.len()).max(1);
        units.values_mut().for_each(|unit| cut(unit, share, &mut removed));
        while total(&units) > max {
            let last = units.values_mut().filter(|unit| !unit.is_empty());
            let oldest = last.max_by_key(|unit| unit.last().map(|last| (Reverse(last.created_at), &last.id)));
            removed.extend(oldest.and_then(Vec::pop));
        }
    }
    removed.iter().map(|container| &*container.id).collect()
}

fn ids(actions: &[Action]) -> Vec<&str> {
    actions.iter().map(|action| &*action.container.id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_plan_equals_a_naive_restatement(mut case in a_case()) {
        case.order = Order::Total;
        let plan = case.plan();
        prop_assert_eq!(ids(&plan.actions), naive(&case));
    }

    #[test]
    fn the_order_of_a_listing_changes_nothing(mut case in a_case(), seed in any::<u64>()) {
        case.order = Order::Total;
        let plan = case.plan();
        case.node.containers = Ok(shuffled(case.containers(), seed));
        prop_assert_eq!(plan, case.plan());
    }

    #[test]
    fn nothing_protected_is_removed_and_everything_is_reported_once(case in a_case()) {
        let plan = case.plan();
        for action in &plan.actions {
            let container = &action.container;
            prop_assert!(container.state != ContainerState::Running);
            prop_assert!(container.name.is_some() && !is_young(container, &case.limits));
            let Action { stop_first, .. } = action;
            prop_assert_eq!(stop_first.is_some(), container.state == ContainerState::Unknown);
        }
        let kept = plan.kept.iter().filter_map(|kept| match &kept.object {
            Subject::Container(container) => Some(container),
            _ => None,
        });
        let mut reported: Vec<_> = plan.actions.iter().map(|action| &action.container).chain(kept).map(|container| &container.id).collect();
        reported.sort();
        let mut all: Vec<_> = case.containers().iter().map(|container| &container.id).collect();
        all.sort();
        prop_assert_eq!(reported, all);
        prop_assert_eq!(plan.summary.removed() as usize, plan.actions.len());
        let texts = plan.kept.iter().chain(&plan.findings).map(|kept| kept.reason.to_string());
        prop_assert!(texts.into_iter().all(|text| !text.is_empty()));
    }

    #[test]
    fn after_any_prefix_a_new_plan_removes_the_rest_or_less_and_after_all_nothing(case in a_case(), cut in any::<prop::sample::Index>()) {
        let plan = case.plan();
        let cut = cut.index(plan.actions.len() + 1);
        let (done, rest) = plan.actions.split_at(cut);
        let again = case.without(done).plan();
        // If equal shares remove more than needed, a new plan can stop earlier; otherwise it continues as if
        // nothing had happened.
        let mut open: Vec<_> = rest.iter().map(|action| &action.container.id).collect();
        if case.order == Order::Total {
            for action in &again.actions {
                let at = open.iter().position(|id| **id == action.container.id);
                prop_assert!(at.is_some(), "{} is removed in addition", action.container.id);
                open.drain(..=at.unwrap_or_default());
            }
        }
        prop_assert!(again.actions.len() <= rest.len());
        let over = plan.findings.iter().any(|finding| finding.reason.name() == "RemovesMoreThanNeeded");
        prop_assert!(over || again.actions.len() == rest.len());
        prop_assert_eq!(case.without(&plan.actions).plan().actions, Vec::new());
    }

    #[test]
    fn before_next_at_time_changes_nothing(case in a_case(), later in 0_i64..2_000_000_000) {
        let plan = case.plan();
        let end = plan.next_at.map_or(i64::MAX, |next| next.as_nanos() - 1);
        prop_assert!(end >= at(NOW).as_nanos(), "the next change lies ahead");
        for nanos in [at(NOW).as_nanos() + later, end] {
            let then = case.policy().plan(&case.node, kubegc_core::Timestamp::from_nanos(nanos.min(end)));
            prop_assert_eq!(&then.actions, &plan.actions);
            prop_assert_eq!(then.next_at, plan.next_at);
        }
    }
}

#[test]
fn the_generator_reaches_every_step_and_reason() {
    let names = |case: Case| {
        let plan = case.plan();
        let mut names: Vec<String> = plan
            .actions
            .iter()
            .map(|action| action.reason.name().to_owned())
            .collect();
        names.extend(
            plan.kept
                .iter()
                .map(|kept| format!("kept {}", kept.reason.name())),
        );
        names.extend(
            plan.findings
                .iter()
                .map(|found| format!("found {}", found.reason.name())),
        );
        let ties = naive(&case).len() > 1
            && case
                .containers()
                .windows(2)
                .any(|pair| pair[0].created_at == pair[1].created_at);
        names.extend(ties.then(|| "tie".to_owned()));
        names
    };
    assert_reached(&reached(&a_case(), 1_000, names), 16);
}
