//! Explanations are sufficient: the cited facts alone lead to the same verdict.

use kubegc_core::PropagationPolicy;
use kubegc_objects::{
    Reason,
    classify::{Resolved, Verdict, decide},
};
use kubegc_predict::{
    Forecast, ObjectFate, Step,
    explain::Statement,
    trace::{Act, Actor, Outcome, Why},
};
use proptest::{prelude::*, test_runner::RngSeed};

use crate::common::{self, Shape};

const SHAPE: Shape = Shape {
    objects_max: 9,
    deletions: true,
};

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
            let is_owner = fate
                .before()
                .meta()
                .owner_references
                .iter()
                .any(|reference| reference.uid == owner.uid);
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
