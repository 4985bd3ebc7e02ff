//! The steady state after background deletes: the closure, the simulation and a naive fixpoint agree.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::PropagationPolicy;
use kubegc_predict::{Fate, Target};
use proptest::{prelude::*, test_runner::RngSeed};

use crate::common::{self, Object, Shape};

const SHAPE: Shape = Shape {
    objects_max: 10,
    deletions: false,
};

/// The end state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    removed: bool,
    held: bool,
    /// References that are left.
    owners: BTreeSet<usize>,
}

/// The rules restated: an object with references and no owner left is removed, or terminating with
/// finalizers; one that keeps some owners loses the other references.
fn fixpoint(objects: &[Object], states: &mut [State]) {
    loop {
        let before = states.to_vec();
        for (number, object) in objects.iter().enumerate() {
            // The collector never decides on a cluster-scoped object with a namespaced owner.
            let never = |owner: &usize| object.namespace.is_empty() && !objects[*owner].namespace.is_empty();
            if states[number].removed || states[number].held || states[number].owners.iter().any(never) {
                continue;
            }
            let remains = |owner: &usize| {
                let at = object.owners.iter().find(|reference| reference.to == *owner);
                let found = at.is_some_and(|reference| !reference.dangling);
                let namespace = objects[*owner].namespace;
                found && !states[*owner].removed && (namespace.is_empty() || namespace == object.namespace)
            };
            let left: BTreeSet<usize> = states[number].owners.iter().copied().filter(remains).collect();
            if states[number].owners.is_empty() {
                continue;
            }
            if left.is_empty() {
                end(&mut states[number], object);
            } else {
                states[number].owners = left;
            }
        }
        if before == states {
            return;
        }
    }
}

fn end(state: &mut State, object: &Object) {
    state.removed = object.finalizers.is_empty();
    state.held = !state.removed;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn closure_simulation_and_fixpoint_agree(
        objects in common::clusters(SHAPE),
        roots in prop::collection::btree_set(0..SHAPE.objects_max, 1..3),
    ) {
        let roots: Vec<usize> = roots.into_iter().filter(|&root| root < objects.len()).collect();
        let cluster = common::complete(&common::items(&objects));
        let mut states: Vec<State> = objects
            .iter()
            .map(|object| State {
                removed: false,
                held: false,
                owners: object.owners.iter().map(|owner| owner.to).collect(),
            })
            .collect();
        fixpoint(&objects, &mut states);
        let pending = states.clone();
        let roots: Vec<usize> = roots.into_iter().filter(|&root| !pending[root].removed).collect();
        // All roots at once, as a client that does not wait for the collector.
        for &root in &roots {
            end(&mut states[root], &objects[root]);
        }
        fixpoint(&objects, &mut states);

        let numbers = |word: fn(&State, &State) -> bool| -> BTreeSet<usize> {
            (0..objects.len()).filter(|&at| word(&pending[at], &states[at])).collect()
        };
        let removed = numbers(|before, after| after.removed && !before.removed);
        let held = numbers(|before, after| after.held && !before.held);
        let released = numbers(|before, after| !after.removed && !after.held && after.owners != before.owners);

        // A terminating object stays so, whether it is deleted again or not.
        let newly_held = |set: BTreeSet<usize>| -> BTreeSet<usize> {
            set.into_iter().filter(|&at| !pending[at].held).collect()
        };
        let intents: Vec<_> =
            roots.iter().map(|&root| common::delete(&objects, root, PropagationPolicy::Background)).collect();
        let targets: Vec<Target> = intents.iter().map(|intent| intent.target.clone()).collect();
        let closure = cluster.closure(&targets).expect("the roots are there");
        let of_positions = |positions: &[u32]| -> BTreeSet<usize> {
            let names = positions.iter().filter_map(|&at| cluster.snapshot().object(at as usize));
            names.filter_map(|object| number(object.name())).collect()
        };
        prop_assert_eq!(of_positions(&closure.removed), removed.clone(), "closure: removed");
        prop_assert_eq!(newly_held(of_positions(&closure.held)), held.clone(), "closure: held");
        prop_assert_eq!(of_positions(&closure.released), released.clone(), "closure: released");
        prop_assert!(closure.undecided.is_empty() && closure.to_simulate.is_empty());

        // A forecast includes pending deletions of the objects in reach.
        let forecast = cluster.predict(&intents).expect("the roots are there");
        let fates = forecast.fates.iter();
        let fates: BTreeMap<usize, &Fate> =
            fates.filter_map(|fate| Some((number(&fate.object.name)?, &fate.fate))).collect();
        for (at, state) in states.iter().enumerate() {
            let Some(fate) = fates.get(&at) else {
                prop_assert_eq!(state, &pending[at], "object {} is not in the forecast", at);
                continue;
            };
            let expected = if state.removed {
                "deleted"
            } else if state.held {
                "terminating"
            } else if state.owners.len() < objects[at].owners.len() {
                "released"
            } else {
                "kept"
            };
            prop_assert_eq!(fate.word(), expected, "object {}", at);
        }
    }
}

fn number(name: &str) -> Option<usize> {
    name.strip_prefix("object-")?.parse().ok()
}
