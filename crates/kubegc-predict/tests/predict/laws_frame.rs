//! Laws of pending deletions, of the order of a dump, and of explanations: the cited facts alone lead to the
//! same verdict.

use kubegc_core::{ObjectMeta, PropagationPolicy};
use kubegc_objects::{
    Reason,
    classify::{Resolved, Verdict, decide},
};
use kubegc_predict::{
    Assumptions, Cluster, Finding, Forecast, ObjectFate, Question, Step,
    explain::Statement,
    trace::{Act, Actor, Outcome, Why},
};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use crate::common::{self, SHAPE};

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

/// The facts about owners directly below a statement.
fn cited(statements: &[Statement], at: usize) -> Vec<Resolved> {
    let depth = statements[at].depth;
    let below = statements[at + 1..]
        .iter()
        .take_while(|statement| statement.depth > depth);
    below
        .filter(|statement| statement.depth == depth + 1)
        .filter_map(|statement| statement.owner.clone())
        .collect()
}

/// Whether the cited owners lead to what the step did.
fn suffices(fate: &ObjectFate, step: &Step, owners: &[Resolved], forecast: &Forecast) -> Result<(), String> {
    let Why::Collector(reason) = &step.why else {
        return Err("not the collector's".to_owned());
    };
    // The name of the reason shows whether it had dependents.
    let has_dependents = matches!(reason, Reason::OwnerWaits(_) | Reason::BreakCycle(_));
    let verdict = decide(&fate.before().meta(), owners, has_dependents);
    let fits = match (reason, step.act) {
        (Reason::NoOwnerLeft(_), Act::Delete { propagation }) => {
            propagation.is_some_and(|policy| verdict == Verdict::Delete(policy))
        }
        (Reason::OwnerWaits(_), Act::Delete { propagation }) => {
            propagation == Some(PropagationPolicy::Foreground) && verdict == Verdict::DeleteBeforeOwner
        }
        (Reason::BreakCycle(_), Act::Patch { .. }) => verdict == Verdict::DeleteBeforeOwner,
        (Reason::SomeOwnersAbsent(_), Act::Patch { .. }) => matches!(verdict, Verdict::Release(_)),
        (Reason::OwnerOrphans(owner), Act::Patch { .. }) => {
            let meta = fate.before().meta();
            let mut references = meta.owner_references.iter();
            let is_owner = references.any(|reference| reference.uid == owner.uid);
            // The owner orphans its dependents: by a step before this one, or before anything happened.
            let was_asked = forecast.timeline.iter().any(|step| {
                step.changes
                    .iter()
                    .any(|change| change.object.uid == owner.uid && change.outcome == Outcome::Terminating)
            });
            let was_so = forecast.fates.iter().any(|other| {
                other.object.uid == owner.uid
                    && other.before().meta().has_finalizer("orphan")
                    && other.before().meta().is_deleting()
            });
            is_owner && (was_asked || was_so)
        }
        (Reason::NothingBlocks { .. } | Reason::DependentsReleased, Act::Patch { .. }) => true,
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(format!(
            "{verdict:?} against {:?} because of {reason:?}",
            step.act
        ))
    }
}

fn explained(forecast: &Forecast) -> Result<usize, String> {
    let mut checked = 0;
    for fate in &forecast.fates {
        let explanation = forecast.explain(&fate.object);
        let statements = &explanation.statements;
        let first = statements.first().ok_or("the explanation is empty")?;
        let name = fate.object.short();
        let fact = first.text.strip_prefix(&name);
        if fact.is_none_or(|fact| !fact.contains(fate.fate.word())) {
            return Err(format!("{name}: begins with {}", first.text));
        }
        let is_changed = forecast.timeline.iter().any(|step| {
            step.changes
                .iter()
                .any(|change| change.object.uid == fate.object.uid)
        });
        let Some(index) = statements.get(1).and_then(|statement| statement.step) else {
            if is_changed {
                return Err(format!("{name}: a write changed it, and no step says so"));
            }
            continue;
        };
        let step = &forecast.timeline[index];
        if step.actor == Actor::GarbageCollector && step.object.uid == fate.object.uid {
            suffices(fate, step, &cited(statements, 1), forecast)
                .map_err(|problem| format!("{name}: {problem}\n{explanation}"))?;
            checked += 1;
        }
    }
    Ok(checked)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn the_facts_of_an_explanation_lead_to_the_same_fate(
        objects in common::clusters(SHAPE),
        root in any::<prop::sample::Index>(),
        policy in common::policies(),
    ) {
        let cluster = common::complete(&common::items(&objects));
        let forecast = cluster.predict(&[common::delete(&objects, root.index(objects.len()), policy)]).expect("it is there");
        for forecast in [cluster.pending(), &forecast] {
            if let Err(problem) = explained(forecast) {
                prop_assert!(false, "{}", problem);
            }
        }
    }
}

/// The law above means something only if the collector decides in the generated clusters.
#[test]
fn generated_clusters_have_decisions_to_explain() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut checked = 0;
    for _ in 0..100 {
        let objects = common::clusters(SHAPE)
            .new_tree(&mut runner)
            .expect("the strategy gives values")
            .current();
        let cluster = common::complete(&common::items(&objects));
        let intents = [common::delete(&objects, 0, PropagationPolicy::Foreground)];
        let forecast = cluster.predict(&intents).expect("it is there");
        checked += explained(cluster.pending()).expect("it is explained")
            + explained(&forecast).expect("it is explained");
    }
    assert!(checked > 100, "{checked}");
}
