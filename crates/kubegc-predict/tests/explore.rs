//! Every order of a race, with and without partial-order reduction.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy};
use kubegc_predict::{Assumptions, Cluster, Exploration, Fate, Intent, explore::Bounds, trace::Outcome};
use kubegc_snapshot::Reader;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use PropagationPolicy::{Background, Foreground, Orphan};

/// An object, with owners by kind and name.
fn object(kind: &str, name: &str, owners: &[(&str, &str)], finalizers: &[&str]) -> Value {
    let reference = |(kind, name): &(&str, &str)| {
        let (api_version, blocks) = ("v1", true);
        json!({
            "apiVersion": api_version, "kind": kind, "name": name, "uid": name, "blockOwnerDeletion": blocks,
        })
    };
    let owners: Vec<Value> = owners.iter().map(reference).collect();
    json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {
            "namespace": "shop", "name": name, "uid": name, "resourceVersion": "1",
            "ownerReferences": owners, "finalizers": finalizers,
        },
    })
}

fn cluster(version: KubernetesVersion, items: &[Value]) -> Cluster {
    let mut reader = Reader::new(version).complete("all");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    reader.read("cluster", list.as_bytes()).expect("it is a list");
    let snapshot = reader.finish().expect("the kinds are known");
    Cluster::new(version, snapshot, Assumptions::default())
}

fn delete(item: &Value, policy: PropagationPolicy) -> Intent {
    let part = |value: &Value| value.as_str().expect("a text").to_owned();
    let name = format!("shop/{}/{}", part(&item["kind"]), part(&item["metadata"]["name"]));
    Intent::delete(name.parse().expect("three parts"), DeleteOptions::policy(policy))
}

fn explore(items: &[Value], intents: &[Intent], states_max: usize, reduces: bool) -> Exploration {
    explore_in(KubernetesVersion::LATEST, items, intents, states_max, reduces)
}

fn explore_in(
    version: KubernetesVersion,
    items: &[Value],
    intents: &[Intent],
    states_max: usize,
    reduces: bool,
) -> Exploration {
    let bounds = Bounds {
        seeds: 0,
        states_max,
        reduces,
        ..Bounds::default()
    };
    let exploration = cluster(version, items).explore(intents, bounds);
    exploration.expect("the objects exist")
}

/// The fates that each object can have.
fn fates(exploration: &Exploration) -> BTreeMap<String, BTreeSet<String>> {
    let fates = exploration.fates.iter();
    let fates = fates.map(|possible| {
        let fates = possible.fates.iter().map(|(fate, _)| format!("{fate:?}"));
        (possible.object.name.to_string(), fates.collect())
    });
    fates.collect()
}

fn words(exploration: &Exploration, name: &str) -> BTreeSet<&'static str> {
    let mut fates = exploration.fates.iter();
    let possible = fates.find(|possible| *possible.object.name == *name);
    let fates = &possible.expect("it is reached").fates;
    fates.iter().map(|(fate, _)| fate.word()).collect()
}

/// An owner and its dependents.
fn fan(count: usize) -> Vec<Value> {
    let mut items = vec![object("ConfigMap", "root", &[], &[])];
    items.extend((1..count).map(|at| object("Secret", &format!("d{at}"), &[("ConfigMap", "root")], &[])));
    items
}

/// Objects of which each owns the next.
fn chain(count: usize) -> Vec<Value> {
    let mut items = vec![object("ConfigMap", "root", &[], &[])];
    let mut owner = "root".to_owned();
    for at in 1..count {
        let name = format!("d{at}");
        items.push(object("ConfigMap", &name, &[("ConfigMap", &owner)], &[]));
        owner = name;
    }
    items
}

/// An object whose owners all have one owner.
fn diamond(count: usize) -> Vec<Value> {
    let names: Vec<String> = (1..count - 1).map(|at| format!("d{at}")).collect();
    let mut items = vec![object("ConfigMap", "root", &[], &[])];
    items.extend(
        names
            .iter()
            .map(|name| object("ConfigMap", name, &[("ConfigMap", "root")], &[])),
    );
    let owners: Vec<(&str, &str)> = names.iter().map(|name| ("ConfigMap", name.as_str())).collect();
    items.push(object("Secret", "below", &owners, &[]));
    items
}

/// The race of the example `explore_race`.
fn race() -> Vec<Value> {
    vec![
        object("ConfigMap", "owner", &[], &[]),
        object("Secret", "first", &[("ConfigMap", "owner")], &[]),
        object(
            "Secret",
            "second",
            &[("ConfigMap", "owner")],
            &["example.com/hold"],
        ),
    ]
}

/// Checks that the timeline of an example ends in the fate that it is an example of.
fn check_ways(exploration: &Exploration) -> Result<(), TestCaseError> {
    for possible in &exploration.fates {
        for (fate, way) in &possible.fates {
            let changes = way.timeline.iter().flat_map(|step| &step.changes);
            let mut last = None;
            for change in changes.filter(|change| change.object.uid == possible.object.uid) {
                prop_assert_ne!(
                    last,
                    Some(Outcome::Removed),
                    "{} changes after its end",
                    possible.object.name
                );
                last = Some(change.outcome);
            }
            let agrees = match fate {
                Fate::Deleted { .. } => last == Some(Outcome::Removed),
                Fate::Terminating { .. } => last != Some(Outcome::Removed),
                Fate::Released { .. } => last == Some(Outcome::Changed),
                _ => matches!(last, None | Some(Outcome::Changed)),
            };
            prop_assert!(agrees, "{}: {fate:?} after {last:?}", possible.object.name);
        }
    }
    Ok(())
}

#[test]
fn the_bundled_race_needs_a_tenth_of_the_states() {
    let items = race();
    let intents = [delete(&items[0], Foreground), delete(&items[0], Orphan)];
    let all = explore(&items, &intents, 50_000, false);
    let reduced = explore(&items, &intents, 50_000, true);
    assert!(all.exhaustive && reduced.exhaustive);
    assert!(
        reduced.states * 10 <= all.states,
        "{} of {}",
        reduced.states,
        all.states
    );
    assert_eq!(fates(&all), fates(&reduced));
    assert_eq!(words(&reduced, "first"), BTreeSet::from(["deleted", "released"]));
    assert_eq!(
        words(&reduced, "second"),
        BTreeSet::from(["released", "terminating"])
    );
    check_ways(&reduced).expect("each way leads to its fate");
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let items = race();
    let intents = [delete(&items[0], Foreground), delete(&items[0], Orphan)];
    // Enough states for several batches, and a bound that ends the search in the middle of one.
    for states_max in [5_000, 300] {
        let [one, three] = [1, 3].map(|threads| {
            let bounds = Bounds {
                seeds: 100,
                states_max,
                reduces: false,
                threads: NonZeroUsize::new(threads).expect("not zero"),
                ..Bounds::default()
            };
            let exploration = cluster(KubernetesVersion::LATEST, &items).explore(&intents, bounds);
            exploration.expect("the objects exist")
        });
        assert_eq!(format!("{:?}", one.fates), format!("{:?}", three.fates));
        assert_eq!(one.to_string(), three.to_string());
        assert_eq!((one.states, one.schedules), (three.states, three.schedules));
        assert!(one.states >= 300);
    }
}

#[test]
fn ten_objects_are_explored_exhaustively() {
    let below = |policy| if policy == Orphan { "released" } else { "deleted" };
    for policy in [Background, Foreground, Orphan] {
        let items = fan(10);
        let exploration = explore(&items, &[delete(&items[0], policy)], 1_000, true);
        assert!(exploration.exhaustive, "a fan, {policy:?}");
        for at in 1..10 {
            assert_eq!(
                words(&exploration, &format!("d{at}")),
                BTreeSet::from([below(policy)])
            );
        }
    }
    for policy in [Background, Orphan] {
        let items = chain(10);
        let exploration = explore(&items, &[delete(&items[0], policy)], 1_000, true);
        assert!(exploration.exhaustive, "a chain, {policy:?}");
        assert_eq!(words(&exploration, "d1"), BTreeSet::from([below(policy)]));
    }
    // A dependent is deleted as well, with a policy of its own.
    let items = fan(10);
    for (first, second) in [
        (Background, Orphan),
        (Background, Foreground),
        (Orphan, Background),
        (Foreground, Background),
    ] {
        let intents = [delete(&items[0], first), delete(&items[1], second)];
        let exploration = explore(&items, &intents, 1_000, true);
        assert!(exploration.exhaustive, "{first:?}, then {second:?}");
        assert_eq!(words(&exploration, "d1"), BTreeSet::from(["deleted"]));
        assert_eq!(words(&exploration, "d9"), BTreeSet::from([below(first)]));
    }
}

#[test]
fn each_dependent_may_be_released_before_its_owner_is_deleted() {
    let items = fan(6);
    let intents = [delete(&items[0], Orphan), delete(&items[0], Background)];
    let exploration = explore(&items, &intents, 2_000, true);
    assert!(exploration.exhaustive, "{} states", exploration.states);
    for at in 1..6 {
        assert_eq!(
            words(&exploration, &format!("d{at}")),
            BTreeSet::from(["deleted", "released"])
        );
    }
    check_ways(&exploration).expect("each way leads to its fate");
}

#[test]
fn owners_of_owners_are_explored_exhaustively() {
    for (items, states_max) in [(chain(5), 2_000), (diamond(4), 5_000)] {
        let exploration = explore(&items, &[delete(&items[0], Foreground)], states_max, true);
        assert!(exploration.exhaustive, "{} states", exploration.states);
        for item in &items {
            let name = item["metadata"]["name"].as_str().expect("a name");
            assert_eq!(words(&exploration, name), BTreeSet::from(["deleted"]));
        }
        check_ways(&exploration).expect("each way leads to its fate");
    }
}

/// Clusters of three or four objects: owner references that may be circular, finalizers, references that do
/// not block.
fn clusters() -> impl Strategy<Value = Vec<Value>> {
    let count = prop_oneof![3 => Just(3_usize), 2 => Just(4_usize)];
    count.prop_flat_map(|count| {
        let finalizers = prop_oneof![
            6 => Just(vec![]),
            2 => Just(vec!["example.com/hold"]),
            1 => Just(vec!["foregroundDeletion"]),
            1 => Just(vec!["orphan"]),
        ];
        let one = (
            prop::sample::select(&["ConfigMap", "Secret"][..]),
            prop::collection::btree_set(0..count, 0..=2),
            finalizers,
            prop::bool::weighted(0.8),
        );
        prop::collection::vec(one, count).prop_map(|objects| {
            let names: Vec<String> = (0..objects.len()).map(|at| format!("o{at}")).collect();
            let items = objects
                .iter()
                .zip(&names)
                .map(|((kind, owners, finalizers, blocks), name)| {
                    let owners = owners
                        .iter()
                        .map(|owner| (objects[*owner].0, names[*owner].as_str()));
                    let owners: Vec<(&str, &str)> = owners.collect();
                    let mut item = object(kind, name, &owners, finalizers);
                    for reference in item["metadata"]["ownerReferences"]
                        .as_array_mut()
                        .expect("a list")
                    {
                        reference["blockOwnerDeletion"] = (*blocks).into();
                    }
                    item
                });
            items.collect()
        })
    })
}

#[test]
fn the_reduction_keeps_every_fate() {
    let config = Config {
        // The search without reduction takes most of the time.
        cases: Config::default().cases / 4,
        failure_persistence: None,
        ..Config::default()
    };
    let (cases, states_max) = (config.cases as usize, 3_000);
    let policies = || prop::sample::select(&[Background, Foreground, Orphan][..]);
    let target = prop_oneof![3 => Just(0_usize), 2 => 1..4_usize];
    let version = prop::sample::select(&["1.18", "1.27", "1.36"][..]);
    let inputs = (clusters(), policies(), policies(), target, version);
    let (compared, of_all, of_reduced) = (Cell::new(0_usize), Cell::new(0), Cell::new(0));
    let law = TestRunner::new(config).run(&inputs, |(items, first, second, target, version)| {
        let version = version.parse().expect("a version");
        let target = target % items.len();
        let intents = [delete(&items[0], first), delete(&items[target], second)];
        let all = explore_in(version, &items, &intents, states_max, false);
        let reduced = explore_in(version, &items, &intents, states_max, true);
        check_ways(&reduced)?;
        if !all.exhaustive {
            return Ok(());
        }
        compared.set(compared.get() + 1);
        of_all.set(of_all.get() + all.states);
        of_reduced.set(of_reduced.get() + reduced.states);
        prop_assert!(reduced.exhaustive);
        prop_assert!(reduced.states <= all.states);
        prop_assert_eq!(fates(&all), fates(&reduced));
        Ok(())
    });
    law.unwrap_or_else(|error| panic!("{error}"));
    // The generator makes races, and most of them are small enough.
    assert!(compared.get() * 2 > cases && of_reduced.get() * 2 < of_all.get());
}
