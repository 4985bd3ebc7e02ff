//! Objects that are missing from the dump are unknown, never absent: completing a dump contradicts no
//! determined outcome.

use std::collections::BTreeSet;

use kubegc_core::PropagationPolicy;
use kubegc_predict::{Assumptions, Finding};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::Value;

use crate::common::{self, KINDS, Shape};

const SHAPE: Shape = Shape {
    objects_max: 9,
    deletions: true,
};

/// How a kind is declared.
const fn declaration(kind: common::Kind) -> &'static str {
    match kind {
        common::Kind::ConfigMap => "configmaps",
        common::Kind::Secret => "secrets",
        common::Kind::ReplicaSet => "replicasets.apps",
        common::Kind::Pod => "pods",
        common::Kind::Widget => "widgets.example.com",
        common::Kind::ClusterRole => "clusterroles.rbac.authorization.k8s.io",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn completing_a_dump_contradicts_no_decided_fate(
        objects in common::clusters(SHAPE),
        root in any::<prop::sample::Index>(),
        policy in common::policies(),
        open in prop::collection::vec(prop::bool::weighted(0.4), KINDS.len()),
        dropped in prop::collection::vec(prop::bool::weighted(0.5), SHAPE.objects_max),
        no_definition in prop::bool::weighted(0.2),
    ) {
        let root = root.index(objects.len());
        // An owner orphans its dependents while the collector processes them because of another owner, or
        // because they are not in its namespace: the order depends on timing, not on missing
        // data.
        let orphans = |number: usize| {
            objects[number].finalizers.contains(&"orphan") || (number == root && policy == PropagationPolicy::Orphan)
        };
        let is_elsewhere = |owner: &common::Object, dependent: &common::Object| {
            !owner.namespace.is_empty() && owner.namespace != dependent.namespace
        };
        let is_race = objects.iter().any(|object| {
            object.owners.iter().any(|owner| orphans(owner.to) && (object.owners.len() > 1 || is_elsewhere(&objects[owner.to], object)))
        });
        // Timing also decides whether a restarted collector processes a dependent that does not block an
        // owner found waiting.
        let waits = |number: usize| {
            objects[number].is_deleting && objects[number].finalizers.contains(&"foregroundDeletion")
        };
        let is_race = is_race
            || objects.iter().any(|object| object.owners.iter().any(|owner| !owner.blocking && waits(owner.to)));
        if is_race {
            return Ok(());
        }
        let is_open = |kind| KINDS.iter().position(|&one| one == kind).is_some_and(|at| open[at]);
        let is_kept = |number: usize| number == root || !is_open(objects[number].kind) || !dropped[number];
        let no_definition = no_definition && is_open(common::Kind::Widget) && objects[root].kind != common::Kind::Widget;
        let items = common::items(&objects);
        let partial: Vec<Value> = items
            .iter()
            .enumerate()
            .filter(|(at, _)| if *at < objects.len() { is_kept(*at) } else { *at > objects.len() || !no_definition })
            .map(|(_, item)| item.clone())
            .collect();
        let mut declared: Vec<&str> =
            KINDS.iter().copied().filter(|&kind| !is_open(kind)).map(declaration).collect();
        if !no_definition {
            declared.push("customresourcedefinitions");
        }
        let partial = common::read(&[common::list(&partial)], &declared, Assumptions::default());
        let full = common::complete(&items);
        let intents = [common::delete(&objects, root, policy)];
        let some = partial.predict(&intents).expect("the root is there");
        let all = full.predict(&intents);
        // A pending deletion may remove the root itself.
        let all = all.expect("the root is there");
        for number in (0..objects.len()).filter(|&number| is_kept(number)) {
            let uid = common::uid(number);
            let (before, after) =
                (common::word(&partial, &some, &uid), common::word(&full, &all, &uid));
            let is_reached = [partial.pending(), &some]
                .iter()
                .any(|forecast| forecast.fates.iter().any(|fate| *fate.object.uid.text() == *uid));
            if before == "undetermined" || !is_reached || before == after {
                continue;
            }
            let unseen = [partial.pending(), &some].iter().any(|forecast| {
                forecast.findings.iter().any(|finding| matches!(finding, Finding::UnseenDependents { .. }))
            });
            // Unseen dependents can block a deletion. An owner that waits for them counts as absent for its
            // dependents; one that waits for other finalizers only does not.
            let is_held_up = before == "deleted" && after == "terminating";
            let below_stuck = || {
                let ancestors = ancestors(&objects, number);
                ancestors.into_iter().any(|at| is_kept(at) && common::word(&partial, &some, &common::uid(at)) == "terminating")
            };
            prop_assert!(
                unseen && (is_held_up || below_stuck()),
                "object {number}: {before} on the partial dump, {after} on the full one"
            );
        }
    }
}

/// All that an object depends on.
fn ancestors(objects: &[common::Object], number: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut pending = vec![number];
    while let Some(at) = pending.pop() {
        pending.extend(
            objects[at]
                .owners
                .iter()
                .map(|owner| owner.to)
                .filter(|&owner| found.insert(owner)),
        );
    }
    found
}

/// The law above means something only if enough fates are determined, and enough are not.
#[test]
fn generated_dumps_have_fates_of_every_sort() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..300 {
        let objects = common::clusters(SHAPE)
            .new_tree(&mut runner)
            .expect("the strategy gives values")
            .current();
        // Of incomplete kinds the dump has only every second object.
        let complete = |item: &Value| {
            let kind = item["kind"].as_str().unwrap_or_default();
            ["ConfigMap", "Pod", "ReplicaSet", "CustomResourceDefinition"].contains(&kind)
        };
        let items = common::items(&objects);
        let dumped = items
            .into_iter()
            .enumerate()
            .filter(|(at, item)| *at == 0 || complete(item) || at % 2 == 0);
        let cluster = common::read(
            &[common::list(&dumped.map(|(_, item)| item).collect::<Vec<_>>())],
            &["configmaps", "pods", "replicasets.apps"],
            Assumptions::default(),
        );
        let forecast = cluster
            .predict(&[common::delete(&objects, 0, PropagationPolicy::Foreground)])
            .expect("the root is there");
        for fate in &forecast.fates {
            *seen.entry(fate.fate.word()).or_insert(0) += 1;
        }
    }
    for word in ["deleted", "kept", "released", "terminating", "undetermined"] {
        assert!(seen.get(word).copied().unwrap_or(0) >= 5, "{word}: {seen:?}");
    }
}
