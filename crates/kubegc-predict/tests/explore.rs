//! Every order of a race.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy};
use kubegc_fixtures::{Fixture, owner};
use kubegc_predict::{Assumptions, Cluster, Exploration, Fate, Intent, explore::Bounds, trace::Outcome};
use kubegc_snapshot::Reader;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use PropagationPolicy::{Background, Foreground, Orphan};

/// Adds an object with blocking references to owners by kind and name.
fn add(fixture: &mut Fixture, kind: &str, name: &str, owners: &[(&str, &str)], finalizers: &[&str]) {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(kind, name)| owner("v1", kind, name, true))
        .collect();
    let metadata = json!({ "ownerReferences": owners, "finalizers": finalizers });
    fixture.add("v1", kind, "shop", name, json!({ "metadata": metadata }));
}

fn cluster(version: KubernetesVersion, fixture: &Fixture) -> Cluster {
    let mut reader = Reader::new(version).complete("all");
    let list = fixture.list().to_string();
    reader.read("cluster", list.as_bytes()).expect("it is a list");
    let snapshot = reader.finish().expect("the kinds are known");
    Cluster::new(version, snapshot, Assumptions::default())
}

/// The delete of the object at a position.
fn delete(fixture: &Fixture, at: usize, policy: PropagationPolicy) -> Intent {
    let item = &fixture.objects[at];
    let part = |value: &Value| value.as_str().expect("a text").to_owned();
    let name = format!("shop/{}/{}", part(&item["kind"]), part(&item["metadata"]["name"]));
    Intent::delete(name.parse().expect("three parts"), DeleteOptions::policy(policy))
}

fn explore(fixture: &Fixture, intents: &[Intent], states_max: usize) -> Exploration {
    let bounds = Bounds {
        seeds: 0,
        states_max,
        ..Bounds::default()
    };
    explore_within(KubernetesVersion::LATEST, fixture, intents, bounds)
}

fn explore_within(
    version: KubernetesVersion,
    fixture: &Fixture,
    intents: &[Intent],
    bounds: Bounds,
) -> Exploration {
    let exploration = cluster(version, fixture).explore(intents, bounds);
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
fn fan(count: usize) -> Fixture {
    let mut fixture = Fixture::default();
    add(&mut fixture, "ConfigMap", "root", &[], &[]);
    for at in 1..count {
        let owners = [("ConfigMap", "root")];
        add(&mut fixture, "Secret", &format!("d{at}"), &owners, &[]);
    }
    fixture
}

/// Objects of which each owns the next.
fn chain(count: usize) -> Fixture {
    let mut fixture = Fixture::default();
    add(&mut fixture, "ConfigMap", "root", &[], &[]);
    let mut owner = "root".to_owned();
    for at in 1..count {
        let name = format!("d{at}");
        add(&mut fixture, "ConfigMap", &name, &[("ConfigMap", &owner)], &[]);
        owner = name;
    }
    fixture
}

/// The race of the example `explore_race`.
fn race() -> Fixture {
    let mut fixture = Fixture::default();
    add(&mut fixture, "ConfigMap", "owner", &[], &[]);
    let owners = [("ConfigMap", "owner")];
    add(&mut fixture, "Secret", "first", &owners, &[]);
    add(&mut fixture, "Secret", "second", &owners, &["example.com/hold"]);
    fixture
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
fn the_result_does_not_depend_on_the_number_of_threads() {
    let race = race();
    let intents = [delete(&race, 0, Foreground), delete(&race, 0, Orphan)];
    // Enough states for several batches, and a bound that ends the search in the middle of one.
    for states_max in [5_000, 300] {
        let [one, three] = [1, 3].map(|threads| {
            let bounds = Bounds {
                seeds: 100,
                states_max,
                threads: NonZeroUsize::new(threads).expect("not zero"),
                ..Bounds::default()
            };
            explore_within(KubernetesVersion::LATEST, &race, &intents, bounds)
        });
        assert_eq!(format!("{:?}", one.fates), format!("{:?}", three.fates));
        assert_eq!(one.to_string(), three.to_string());
        assert_eq!((one.states, one.schedules), (three.states, three.schedules));
        assert!(one.states >= 300);
    }
}

#[test]
fn without_a_race_each_object_has_one_fate() {
    let below = |policy| if policy == Orphan { "released" } else { "deleted" };
    for policy in [Background, Foreground, Orphan] {
        let fan = fan(4);
        let exploration = explore(&fan, &[delete(&fan, 0, policy)], 10_000);
        assert!(exploration.exhaustive, "a fan, {policy:?}");
        for at in 1..4 {
            let word = words(&exploration, &format!("d{at}"));
            assert_eq!(word, BTreeSet::from([below(policy)]), "{policy:?}");
        }
    }
    for policy in [Background, Orphan] {
        let chain = chain(10);
        let exploration = explore(&chain, &[delete(&chain, 0, policy)], 1_000);
        assert!(exploration.exhaustive, "a chain, {policy:?}");
        assert_eq!(words(&exploration, "d1"), BTreeSet::from([below(policy)]));
    }
    // A dependent is deleted as well, with a policy of its own.
    let fan = fan(3);
    for (first, second) in [
        (Background, Orphan),
        (Background, Foreground),
        (Orphan, Background),
        (Foreground, Background),
    ] {
        let intents = [delete(&fan, 0, first), delete(&fan, 1, second)];
        let exploration = explore(&fan, &intents, 10_000);
        assert!(exploration.exhaustive, "{first:?}, then {second:?}");
        assert_eq!(words(&exploration, "d1"), BTreeSet::from(["deleted"]));
        assert_eq!(words(&exploration, "d2"), BTreeSet::from([below(first)]));
    }
}

#[test]
fn each_dependent_may_be_released_before_its_owner_is_deleted() {
    let fan = fan(3);
    let intents = [delete(&fan, 0, Orphan), delete(&fan, 0, Background)];
    let exploration = explore(&fan, &intents, 10_000);
    assert!(exploration.exhaustive, "{} states", exploration.states);
    for at in 1..3 {
        assert_eq!(
            words(&exploration, &format!("d{at}")),
            BTreeSet::from(["deleted", "released"])
        );
    }
    check_ways(&exploration).expect("each way leads to its fate");
}

#[test]
fn owners_of_owners_are_deleted_in_every_order() {
    let chain = chain(4);
    let exploration = explore(&chain, &[delete(&chain, 0, Foreground)], 20_000);
    assert!(exploration.exhaustive, "{} states", exploration.states);
    for name in ["root", "d1", "d2", "d3"] {
        assert_eq!(words(&exploration, name), BTreeSet::from(["deleted"]));
    }
    check_ways(&exploration).expect("each way leads to its fate");
}

#[test]
fn nothing_is_certain_if_the_bound_on_states_is_reached() {
    let fan = fan(10);
    let bounds = Bounds {
        seeds: 20,
        states_max: 500,
        ..Bounds::default()
    };
    let intents = [delete(&fan, 0, Foreground)];
    let exploration = explore_within(KubernetesVersion::LATEST, &fan, &intents, bounds);
    assert_eq!((exploration.exhaustive, exploration.states), (false, 500));
    for possible in &exploration.fates {
        assert!(!exploration.is_certain(&possible.object));
    }
    let text = exploration.to_string();
    assert!(
        text.starts_with("configmap/root -n shop: always, in the schedules tried\n  is deleted\n"),
        "{text}"
    );
    assert!(
        text.ends_with("20 drawn from seeds, 500 of at most 500 states met: other fates may exist\n"),
        "{text}"
    );
}

/// Clusters of three or four objects: owner references that may be circular, finalizers, references that do
/// not block.
fn clusters() -> impl Strategy<Value = Fixture> {
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
            let mut fixture = Fixture::default();
            for (at, (kind, owners, finalizers, blocks)) in objects.iter().enumerate() {
                let owners = owners.iter().map(|&to| {
                    let mut reference = owner("v1", objects[to].0, &format!("o{to}"), false);
                    reference["blockOwnerDeletion"] = (*blocks).into();
                    reference
                });
                let owners: Vec<Value> = owners.collect();
                let metadata = json!({ "ownerReferences": owners, "finalizers": finalizers });
                let fields = json!({ "metadata": metadata });
                fixture.add("v1", kind, "shop", &format!("o{at}"), fields);
            }
            fixture
        })
    })
}

#[test]
fn no_random_schedule_has_a_fate_that_trying_every_order_lacks() {
    let config = Config {
        // Trying every order takes most of the time.
        cases: Config::default().cases / 4,
        failure_persistence: None,
        ..Config::default()
    };
    let cases = config.cases as usize;
    let policies = || prop::sample::select(&[Background, Foreground, Orphan][..]);
    let target = prop_oneof![3 => Just(0_usize), 2 => 1..4_usize];
    let version = prop::sample::select(&["1.18", "1.27", "1.36"][..]);
    let inputs = (clusters(), policies(), policies(), target, version);
    let (compared, races) = (Cell::new(0_usize), Cell::new(0_usize));
    let law = TestRunner::new(config).run(&inputs, |(fixture, first, second, target, version)| {
        let version = version.parse().expect("a version");
        let target = target % fixture.objects.len();
        let intents = [delete(&fixture, 0, first), delete(&fixture, target, second)];
        let within = |seeds, states_max| {
            let bounds = Bounds {
                seeds,
                states_max,
                ..Bounds::default()
            };
            explore_within(version, &fixture, &intents, bounds)
        };
        let all = within(0, 3_000);
        check_ways(&all)?;
        if !all.exhaustive {
            return Ok(());
        }
        let all = fates(&all);
        for (name, found) in fates(&within(60, 0)) {
            prop_assert!(
                found.is_subset(&all[&name]),
                "{}: {:?} of {:?}",
                name,
                found,
                all[&name]
            );
        }
        compared.set(compared.get() + 1);
        races.set(races.get() + usize::from(all.values().any(|fates| fates.len() > 1)));
        Ok(())
    });
    law.unwrap_or_else(|error| panic!("{error}"));
    // Many clusters are small enough, and some deletes race.
    assert!(
        compared.get() * 5 > cases && races.get() > 0,
        "{} compared, {} races",
        compared.get(),
        races.get()
    );
}
