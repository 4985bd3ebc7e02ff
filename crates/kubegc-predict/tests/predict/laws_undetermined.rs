//! Objects that are missing from the dump are unknown, never absent: completing a dump contradicts no
//! determined outcome.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_predict::{Assumptions, Fate, Finding, Intent, Missing};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use crate::common::{self, KINDS, SHAPE};

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
        if is_race(&objects, root, policy) {
            return Ok(());
        }
        let is_open = |kind| KINDS.iter().position(|&one| one == kind).is_some_and(|at| open[at]);
        let is_kept = |number: usize| number == root || !is_open(objects[number].kind) || !dropped[number];
        let no_definition = no_definition && is_open(common::WIDGET) && objects[root].kind != common::WIDGET;
        let items = common::items(&objects);
        let partial: Vec<Value> = items
            .iter()
            .enumerate()
            .filter(|(at, _)| if *at < objects.len() { is_kept(*at) } else { *at > objects.len() || !no_definition })
            .map(|(_, item)| item.clone())
            .collect();
        let mut declared: Vec<&str> =
            KINDS.iter().copied().filter(|&kind| !is_open(kind)).map(|kind| kind.declaration).collect();
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

/// Whether the order of requests decides the outcome of an object, and not missing data.
fn is_race(objects: &[common::Object], root: usize, policy: PropagationPolicy) -> bool {
    let orphans = |number: usize| {
        objects[number].finalizers.contains(&"orphan")
            || (number == root && policy == PropagationPolicy::Orphan)
    };
    let is_elsewhere = |owner: &common::Object, dependent: &common::Object| {
        !owner.namespace.is_empty() && owner.namespace != dependent.namespace
    };
    let waits = |number: usize| {
        objects[number].is_deleting && objects[number].finalizers.contains(&"foregroundDeletion")
    };
    objects.iter().any(|object| {
        object.owners.iter().any(|owner| {
            // An owner orphans its dependents while the collector processes them because of another owner, or
            // because they are not in its namespace.
            let is_released = object.owners.len() > 1 || is_elsewhere(&objects[owner.to], object);
            // A restarted collector may process a dependent that does not block an owner found waiting.
            orphans(owner.to) && is_released || !owner.blocking && waits(owner.to)
        })
    })
}

/// The owners that are missing from a dump, by their positions among all objects, with the uid, and the
/// namespace in which they are looked up. `None` if references disagree about one of them, or it cannot be
/// looked up.
fn missing_owners(
    objects: &[common::Object],
    is_missing: impl Fn(usize) -> bool,
) -> Option<BTreeMap<(usize, &'static str), String>> {
    let mut missing: BTreeMap<(usize, &'static str), String> = BTreeMap::new();
    for dependent in (0..objects.len()).filter(|&number| !is_missing(number)) {
        let dependent = &objects[dependent];
        for owner in &dependent.owners {
            let is_cluster_scoped = objects[owner.to].namespace.is_empty();
            let namespace = if is_cluster_scoped {
                ""
            } else {
                dependent.namespace
            };
            let is_in_dump = !is_missing(owner.to);
            let is_there = is_in_dump && objects[owner.to].namespace == namespace;
            let is_elsewhere = is_in_dump && !is_there && !owner.dangling;
            if dependent.namespace.is_empty() && !is_cluster_scoped || is_elsewhere {
                return None;
            }
            let uid = common::uid(if owner.dangling { 900 + owner.to } else { owner.to });
            let known = (!is_there).then(|| missing.insert((owner.to, namespace), uid.clone()));
            if known.flatten().is_some_and(|known| known != uid) {
                return None;
            }
        }
    }
    let uids: BTreeSet<&String> = missing.values().collect();
    if uids.len() < missing.len() {
        return None;
    }
    Some(missing)
}

/// An owner that was missing: it exists, or waits for a dependent that nothing deletes.
fn added(like: &Value, namespace: &str, uid: &str, is_waiting: bool) -> Value {
    let mut item = like.clone();
    let name = &like["metadata"]["name"];
    let mut metadata = json!({ "name": name, "uid": uid, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z" });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    if is_waiting {
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
        metadata["deletionGracePeriodSeconds"] = 0.into();
        metadata["finalizers"] = json!(["foregroundDeletion"]);
        let (api_version, kind) = (&like["apiVersion"], &like["kind"]);
        metadata["ownerReferences"] = json!([
            { "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true }
        ]);
    }
    item["metadata"] = metadata;
    item
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, rng_seed: RngSeed::Fixed(35), ..ProptestConfig::default() })]

    /// For each outcome that a fate names, some completion of the dump has it: owners that are missing do not
    /// exist, exist, or wait for dependents.
    #[test]
    fn each_outcome_of_an_undetermined_fate_is_possible(
        mut objects in common::clusters(SHAPE),
        root in any::<prop::sample::Index>(),
        policy in common::policies(),
        open in prop::collection::vec(prop::bool::weighted(0.6), KINDS.len()),
        dropped in prop::collection::vec(prop::bool::weighted(0.5), SHAPE.objects_max),
        choices in prop::collection::vec(prop::collection::vec(0..3_u8, SHAPE.objects_max), 37),
    ) {
        let root = root.index(objects.len());
        for owner in objects.iter_mut().flat_map(|object| &mut object.owners) {
            owner.blocking = true;
        }
        // The controller of a ReplicaSet would also release its pods.
        let is_open = |kind: common::Kind| {
            kind != common::REPLICA_SET && KINDS.iter().position(|&one| one == kind).is_some_and(|at| open[at])
        };
        let kinds: Vec<common::Kind> = objects.iter().map(|object| object.kind).collect();
        let is_missing = |number: usize| number != root && is_open(kinds[number]) && dropped[number];
        let owners = missing_owners(&objects, is_missing);
        let Some(mut owners) = owners.filter(|_| !is_race(&objects, root, policy)) else {
            return Ok(());
        };
        owners.retain(|(number, _), _| is_open(kinds[*number]));
        let items = common::items(&objects);
        let partial: Vec<Value> = items
            .iter()
            .enumerate()
            .filter(|(at, _)| *at >= objects.len() || !is_missing(*at))
            .map(|(_, item)| item.clone())
            .collect();
        let mut declared: Vec<&str> = KINDS.iter().copied().filter(|&kind| !is_open(kind)).map(|kind| kind.declaration).collect();
        declared.push("customresourcedefinitions");
        let cluster = common::read(&[common::list(&partial)], &declared, Assumptions::default());
        let intents = [common::delete(&objects, root, policy)];
        let forecast = cluster.predict(&intents).expect("the root is there");
        let named = forecast.fates.iter().filter_map(|fate| match &fate.fate {
            Fate::Undetermined { outcomes, missing } => {
                let is_owner = |missing: &Missing| matches!(missing, Missing::Owner { .. });
                let words: BTreeSet<&str> = outcomes.words().collect();
                missing.iter().all(is_owner).then(|| (fate.object.uid.to_string(), words))
            }
            _ => None,
        });
        let mut named: BTreeMap<String, BTreeSet<&str>> = named.collect();
        let alike = (0..3).map(|choice| vec![choice; SHAPE.objects_max]);
        for choices in alike.chain(choices) {
            named.retain(|_, words| !words.is_empty());
            if named.is_empty() {
                break;
            }
            let mut whole = partial.clone();
            for (((number, namespace), uid), choice) in owners.iter().zip(choices.iter().cycle()) {
                if *choice > 0 {
                    whole.push(added(&items[*number], namespace, uid, *choice == 2));
                }
            }
            let whole = common::complete(&whole);
            let outcome = whole.predict(&intents).expect("the root is there");
            for (uid, words) in &mut named {
                words.remove(common::word(&whole, &outcome, uid));
            }
        }
        named.retain(|_, words| !words.is_empty());
        prop_assert!(named.is_empty(), "no completion has {named:?}");
    }
}

/// The same for facts that are not about owners: the pods that use a claim, and the content of a namespace.
#[test]
fn each_outcome_that_pods_or_content_decide_is_possible() {
    let fields = json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] }, "spec": {}, "status": { "phase": "Bound" } });
    let claim = kubegc_fixtures::object("v1", "PersistentVolumeClaim", "shop", "data", fields);
    let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data" } });
    let fields = json!({ "spec": { "nodeName": "node-1", "containers": [], "volumes": [volume] }, "status": { "phase": "Running" } });
    let pod = kubegc_fixtures::object("v1", "Pod", "shop", "web", fields);
    let fields = json!({ "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" } });
    let namespace = kubegc_fixtures::object("v1", "Namespace", "", "shop", fields);
    let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    let held = kubegc_fixtures::object("v1", "ConfigMap", "shop", "held", held);
    for (name, object, missing) in [
        ("shop/PersistentVolumeClaim/data", claim, pod),
        ("Namespace/shop", namespace, held),
    ] {
        let options = DeleteOptions::policy(PropagationPolicy::Background);
        let intents = [Intent::delete(name.parse().expect("a name"), options)];
        let uid = object["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let some = [object, common::node()];
        let partial = common::read(&[common::list(&some)], &["nodes"], Assumptions::default());
        let forecast = partial.predict(&intents).expect("it is there");
        let fate = forecast.fates.iter().find(|fate| *fate.object.uid.text() == *uid);
        let fate = &fate.expect("it is affected").fate;
        let Fate::Undetermined { outcomes, .. } = fate else {
            panic!("{name}: {fate:?}");
        };
        let mut found = BTreeSet::new();
        for added in [None, Some(missing)] {
            let items: Vec<Value> = some.iter().cloned().chain(added).collect();
            let whole = common::complete(&items);
            let forecast = whole.predict(&intents).expect("it is there");
            found.insert(common::word(&whole, &forecast, &uid));
        }
        assert_eq!(outcomes.words().collect::<BTreeSet<_>>(), found, "{name}");
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
    let mut seen = BTreeMap::new();
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
