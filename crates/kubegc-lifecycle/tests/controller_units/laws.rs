//! What holds for all clusters: the controller does what the planners say of the whole, and after any changes no less and no more than a new one would.

use std::collections::BTreeSet;

use kubegc_lifecycle::{
    controller::{Input, Mechanism, Reason, Task, Work},
    fields::{Fields, Record},
    object::{Object, Resource},
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::{
    clusters::{RESOURCES, any_record},
    support::{BEGAN, Run, history_actions},
    whole::{DAY, Model, Whole},
};

/// What is done, without what else was listed that it rests on.
fn in_short(task: &Task) -> String {
    let mut work = task.work.clone();
    if let Work::Act(planned) = &mut work {
        planned.rests_on.clear();
    }
    format!("{} {work:?}", task.mechanism)
}

fn in_full(task: &Task) -> String {
    format!("{} {:?}", task.mechanism, task.work)
}

fn texts(tasks: &[Task], text: impl Fn(&Task) -> String) -> BTreeSet<String> {
    tasks.iter().map(text).collect()
}

fn undecided(run: &Run) -> Vec<(Mechanism, Object, Reason)> {
    let undecided = run.controller.undecided();
    undecided
        .map(|(mechanism, object, reason)| (mechanism, object.clone(), reason.clone()))
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Put(Resource, Box<Record>),
    Remove(usize),
    Unlist(Resource),
    Relist(Resource),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => any_record().prop_map(|(resource, record)| Step::Put(resource, Box::new(record))),
        8 => any::<usize>().prop_map(Step::Remove),
        1 => select(RESOURCES.to_vec()).prop_map(Step::Unlist),
        2 => select(RESOURCES.to_vec()).prop_map(Step::Relist),
    ]
}

/// Makes a step with what is known and tells the controller.
fn make(step: Step, model: &mut Model, run: &mut Run) {
    match step {
        Step::Put(resource, record) => {
            run.apply(resource, &record);
            model.put(resource, *record);
        }
        Step::Remove(at) => {
            let at = at.checked_rem(model.records.len()).unwrap_or(0);
            if let Some(key) = model.records.keys().nth(at).cloned() {
                let record = model.records.remove(&key);
                run.gone(key.0, &record.expect("it was there"));
            }
        }
        Step::Unlist(resource) => {
            run.unlist(resource);
            model.unlisted.insert(resource);
        }
        Step::Relist(resource) => {
            let records = Ok(model.of(resource));
            run.controller
                .handle(run.now, Input::Listed { resource, records });
            model.unlisted.remove(&resource);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn unit_by_unit_is_as_the_planners_say_of_the_whole(records in vec(any_record(), 0..60)) {
        let mut model = Model::default();
        for (resource, record) in records {
            // A set that was not read leaves others alone, too: that is told elsewhere.
            if resource != Resource::StatefulSets || record.fields != Fields::Unread {
                model.put(resource, record);
            }
        }
        let mut run = model.begun(BEGAN);
        let mut seen = Whole::default();
        for task in run.tasks() {
            match &task.work {
                Work::History(pass) => {
                    let actions = history_actions(pass);
                    seen.works.extend(actions.iter().map(|action| format!("{action:?}")));
                }
                Work::Volume(pass) => {
                    seen.works.insert(format!("look at {}", pass.volume().meta.name));
                }
                Work::Act(_) | Work::Namespace { .. } => {
                    prop_assert!(seen.works.insert(in_short(&task)), "planned twice: {:?}", task);
                }
            }
        }
        for (mechanism, object, reason) in undecided(&run) {
            seen.undecided.insert((mechanism, object), reason);
        }
        prop_assert_eq!(seen, Whole::new(&model, BEGAN));
    }

    #[test]
    fn after_any_changes_a_controller_does_and_knows_what_a_new_one_would(
        records in vec(any_record(), 0..40),
        steps in vec(vec(steps(), 1..4), 1..8),
    ) {
        let mut model = Model::default();
        for (resource, record) in records {
            model.put(resource, record);
        }
        let mut run = model.begun(BEGAN);
        run.tasks();
        for steps in steps {
            let mut before = model.begun(run.now);
            let before = texts(&before.tasks(), in_short);
            // The next pass of the tokens.
            run.now = run.now.saturating_add(DAY);
            for step in steps {
                make(step, &mut model, &mut run);
            }
            let mut new = model.begun(run.now);
            let (tasks, all) = (run.tasks(), new.tasks());
            let (short, full) = (texts(&all, in_short), texts(&all, in_full));
            let missed: Vec<&String> =
                short.difference(&before).filter(|task| !texts(&tasks, in_short).contains(*task)).collect();
            prop_assert!(missed.is_empty(), "not looked at again: {:#?}", missed);
            let excess: Vec<String> =
                texts(&tasks, in_full).into_iter().filter(|task| !full.contains(task)).collect();
            prop_assert!(excess.is_empty(), "does not hold any more: {:#?}", excess);
            prop_assert_eq!(undecided(&run), undecided(&new));
        }
    }
}
