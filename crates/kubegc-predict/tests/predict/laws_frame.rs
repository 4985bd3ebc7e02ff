//! Laws of pending deletions, and of the order of a dump.

use kubegc_core::ObjectMeta;
use kubegc_predict::{Assumptions, Cluster, Finding, Question};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use crate::common::{self, Shape};

const SHAPE: Shape = Shape {
    objects_max: 9,
    deletions: true,
};

/// The items after all pending deletions.
fn afterwards(items: &[Value], cluster: &Cluster) -> Vec<Value> {
    let after = |item: &Value| -> Option<Value> {
        let uid = item["metadata"]["uid"].as_str();
        let fates = &cluster.pending().fates;
        let Some(fate) = fates.iter().find(|fate| Some(&*fate.object.uid.text()) == uid) else {
            return Some(item.clone());
        };
        if fate.fate.word() == "undetermined" {
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
        shuffled in Just((0..SHAPE.objects_max + 2).collect::<Vec<usize>>()).prop_shuffle(),
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
    fn without_deletes_a_forecast_has_the_pending_deletions(objects in common::clusters(SHAPE)) {
        let cluster = common::complete(&common::items(&objects));
        let forecast = cluster.predict(&[]).expect("there is nothing to resolve");
        prop_assert_eq!(forecast.to_json(), cluster.pending().to_json());
        let question = Question::new(cluster.version());
        let forecast = cluster.forecast(&question).expect("there is nothing to resolve");
        prop_assert_eq!(forecast.to_json(), cluster.pending().to_json());
    }

    #[test]
    fn nothing_is_pending_after_the_forecast_has_happened(objects in common::clusters(SHAPE)) {
        let items = common::items(&objects);
        let before = common::complete(&items);
        // The collector processes such an object once, and again only after a restart.
        let is_ignored = |finding: &Finding| matches!(finding, Finding::NamespacedOwnerOfClusterScoped { .. });
        prop_assume!(!before.pending().findings.iter().any(is_ignored));
        let items = afterwards(&items, &before);
        let after = common::complete(&items);
        for fate in &after.pending().fates {
            prop_assert_eq!(fate.after.as_deref().map(stable), Some(stable(&fate.before().meta())), "{}", fate.object.short());
        }
    }
}

/// The facts that a repeated forecast must not change.
fn stable(meta: &ObjectMeta) -> (bool, Vec<String>, usize) {
    let finalizers = meta.finalizers.iter().map(ToString::to_string).collect();
    (meta.is_deleting(), finalizers, meta.owner_references.len())
}
