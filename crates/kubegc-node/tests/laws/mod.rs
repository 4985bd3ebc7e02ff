//! Laws of all plans and runs, for all facts. Ids, times and sizes are few, so that they collide.

mod container;
mod image;
mod sandbox_and_log;

use std::collections::BTreeMap;

use kubegc_core::{
    Uid,
    node_facts::{PodState, Pods},
};
use kubegc_node::Order;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

/// Uids that containers, sandboxes and logs name, some with a common start. The last is never known.
const UIDS: [&str; 5] = [
    "p",
    "",
    "11111111-1111-4111-8111-111111111111",
    "11111111-1111-4111-8111-111111111112",
    "11111111-unknown",
];

/// The present of all cases, in seconds.
const NOW: i64 = 10;

fn an_order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Total), Just(Order::Listing)]
}

fn a_release() -> impl Strategy<Value = &'static str> {
    prop::sample::select(crate::world::RELEASES.to_vec())
}

prop_compose! {
    fn some_pods()(
        states in prop::collection::vec(prop::option::of(any::<(bool, bool, bool)>()), UIDS.len() - 1),
        sources_ready in prop::bool::weighted(0.8),
        synced in prop::bool::weighted(0.8),
    ) -> Pods {
        let known = UIDS.iter().zip(states).filter_map(|(uid, state)| {
            let (evicted, deleted, terminated) = state?;
            Some((Uid::new(uid), PodState { evicted, deleted, terminated }))
        });
        Pods { known: known.collect(), sources_ready, synced }
    }
}

/// A restatement of N2.60 to N2.63: whether the remains of a pod can be removed, all of them or its runtime
/// state.
fn is_removable(pods: &Pods, uid: &Uid, release: &str, forced: bool) -> bool {
    match pods.known.get(uid) {
        Some(state) => state.evicted || state.terminated && (state.deleted || forced),
        None => pods.synced || release == "1.20.2" && pods.sources_ready,
    }
}

/// Another order of the same things: by a key that depends on the seed.
fn shuffled<T: Clone>(all: &[T], seed: u64) -> Vec<T> {
    let keyed = (0_u64..).zip(all);
    let mut keyed: Vec<_> = keyed
        .map(|(at, one)| ((at + 1).wrapping_mul(seed | 1).rotate_left(31) % 1_009, at, one))
        .collect();
    keyed.sort_unstable_by_key(|(key, at, _)| (*key, *at));
    keyed.into_iter().map(|(_, _, one)| one.clone()).collect()
}

/// Counts names over many cases of a strategy: a case that a generator never reaches shows as missing.
fn reached<S: Strategy>(
    strategy: &S,
    cases: u32,
    names: impl Fn(S::Value) -> Vec<String>,
) -> BTreeMap<String, u32> {
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeMap::new();
    for _ in 0..cases {
        let case = strategy.new_tree(&mut runner).expect("a case").current();
        for name in names(case) {
            *reached.entry(name).or_default() += 1;
        }
    }
    reached
}

/// The first word of a value's debug text: the name of its variant.
fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    let end = text.find([' ', '(', '{']).unwrap_or(text.len());
    text[..end].to_owned()
}

/// Asserts that so many names were reached, each often enough to mean something.
fn assert_reached(reached: &BTreeMap<String, u32>, names: usize) {
    let rare = reached.values().filter(|count| **count < 5).count();
    assert_eq!((reached.len(), rare), (names, 0), "{reached:?}");
}
