//! What is pending anyway is told apart from what an intent does, and the order of a dump changes nothing.

use kubegc_core::ObjectMeta;
use kubegc_predict::{Assumptions, Cluster, Forecast, ObjectFate};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use crate::common::{self, Shape};

const SHAPE: Shape = Shape {
    objects_max: 9,
    deletions: true,
};

fn words(forecast: &Forecast) -> Vec<(String, &'static str)> {
    // What only could have been reached may be listed or not.
    let is_changed = |fate: &&ObjectFate| fate.after.as_deref().map(stable) != Some(stable(&fate.before));
    let fates = forecast.fates.iter().filter(is_changed);
    fates
        .map(|fate| (fate.object.short(), fate.fate.word()))
        .collect()
}

/// The items as they are once what is pending has happened.
fn afterwards(items: &[Value], cluster: &Cluster) -> Vec<Value> {
    let after = |item: &Value| -> Option<Value> {
        let uid = item["metadata"]["uid"].as_str();
        let fates = &cluster.pending().fates;
        let Some(fate) = fates.iter().find(|fate| Some(&*fate.object.uid.text()) == uid) else {
            return Some(item.clone());
        };
        if fate.fate.word() == "undecided" {
            return Some(item.clone());
        }
        let meta: &ObjectMeta = fate.after.as_ref()?;
        let mut item = item.clone();
        item["metadata"]["finalizers"] = json!(meta.finalizers);
        item["metadata"]["ownerReferences"] = json!(meta.owner_references);
        if let Some(at) = meta.deletion_timestamp {
            item["metadata"]["deletionTimestamp"] = at.to_string().into();
            item["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        Some(item)
    };
    items.iter().filter_map(after).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_the_dump_changes_nothing(
        objects in common::clusters(SHAPE),
        shuffled in Just((0..=SHAPE.objects_max).collect::<Vec<usize>>()).prop_shuffle(),
        cut in 0..=SHAPE.objects_max,
        root in any::<prop::sample::Index>(),
        policy in common::policies(),
    ) {
        let items = common::items(&objects);
        let order: Vec<usize> = shuffled.into_iter().filter(|&at| at < items.len()).collect();
        let pick = |order: &[usize]| common::list(&order.iter().map(|&at| items[at].clone()).collect::<Vec<_>>());
        let cut = cut.min(order.len());
        let complete = ["configmaps", "pods", "replicasets.apps", "widgets.example.com"];
        let one = common::read(&[common::list(&items)], &complete, Assumptions::default());
        let two = common::read(&[pick(&order[..cut]), pick(&order[cut..])], &complete, Assumptions::default());
        let intents = [common::delete(&objects, root.index(objects.len()), policy)];
        let (first, second) = (one.predict(&intents).expect("it is there"), two.predict(&intents).expect("it is there"));
        prop_assert_eq!(one.pending().to_json(), two.pending().to_json());
        prop_assert_eq!(first.to_json(), second.to_json());
        prop_assert_eq!(first.to_text(Default::default()), second.to_text(Default::default()));
        prop_assert_eq!(first.to_dot(), second.to_dot());
    }

    #[test]
    fn asking_for_nothing_changes_nothing(objects in common::clusters(SHAPE)) {
        let cluster = common::complete(&common::items(&objects));
        let forecast = cluster.predict(&[]).expect("there is nothing to resolve");
        prop_assert!(forecast.fates.is_empty() && forecast.timeline.is_empty() && forecast.findings.is_empty());
    }

    #[test]
    fn what_is_pending_is_not_the_intents_doing(
        objects in common::clusters(SHAPE),
        root in any::<prop::sample::Index>(),
        policy in common::policies(),
    ) {
        let items = common::items(&objects);
        let before = common::complete(&items);
        // The same cluster, once what is pending has happened: nothing is pending there, and the same question has the same answer.
        let items = afterwards(&items, &before);
        let after = common::complete(&items);
        for fate in &after.pending().fates {
            prop_assert_eq!(fate.after.as_deref().map(stable), Some(stable(&fate.before)), "{}", fate.object.short());
        }
        let root = root.index(objects.len());
        let is_there = items.iter().any(|item| item["metadata"]["uid"].as_str() == Some(&common::uid(root)));
        if is_there {
            let intents = [common::delete(&objects, root, policy)];
            let one = before.predict(&intents).expect("it is there");
            let two = after.predict(&intents).expect("it is there");
            prop_assert_eq!(words(&one), words(&two));
        }
    }
}

/// What a repeated look must find the same.
fn stable(meta: &ObjectMeta) -> (bool, Vec<String>, usize) {
    let finalizers = meta.finalizers.iter().map(ToString::to_string).collect();
    (meta.is_deleting(), finalizers, meta.owner_references.len())
}
