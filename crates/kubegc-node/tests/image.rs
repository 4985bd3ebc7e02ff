//! Rules N3.1 to N3.50: images and their records.

mod cases;
mod records;
mod removal;
mod room;

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    PlanOf, Planner, RuntimeError, Timestamp,
    node_facts::{Container, FileSystem, Image},
};
use kubegc_node::{
    Event, EventKind, Inventory, Order, Semantics, Unlisted,
    image::{
        Action, Arithmetic, Error, Policy, Reason, Record, Records, Response, Run, Step, Subject, Task,
        Thresholds,
    },
    semantics::gate,
};

use crate::world::{at, empty, file_system, gated, image, listed, release, seconds, user};

const OFF: i64 = 0;

fn thresholds(high: i32, low: i32) -> Thresholds {
    Thresholds {
        high_percent: high,
        low_percent: low,
        ..Thresholds::default()
    }
}

fn policy(thresholds: Thresholds, semantics: Semantics) -> Policy {
    Policy::new(thresholds, semantics).expect("valid thresholds")
}

/// Upstream's thresholds on the newest version.
fn newest() -> Policy {
    policy(Thresholds::default(), release("1.36.0"))
}

/// A record by key, second of first detection and second of last use.
fn record(key: &str, detected: Option<i64>, used: Option<i64>) -> Record {
    Record {
        key: key.into(),
        first_detected: detected.map(at),
        last_used: used.map(at),
        size_bytes: 0,
        pinned: false,
        runtime_handler: "".into(),
    }
}

/// A full disk of 1000 bytes with these images, all detected at 0 and never used.
fn full(images: &[(&str, u64)]) -> Inventory {
    Inventory {
        images: listed(images.iter().map(|&(id, size)| image(id, size))),
        image_records: images.iter().map(|&(id, _)| record(id, Some(0), None)).collect(),
        image_file_system: Ok(file_system(1_000, 0)),
        ..empty()
    }
}

fn removed(plan: &PlanOf<Policy>) -> Vec<&str> {
    let ids = plan.actions.iter().map(|Action::Remove { image, .. }| &*image.id);
    ids.collect()
}

/// The reason to keep the image of this id.
fn reason<'a>(plan: &'a PlanOf<Policy>, id: &str) -> Option<&'a Reason> {
    let about = |subject: &Subject| matches!(subject, Subject::Image(image) if &*image.id == id);
    plan.kept
        .iter()
        .find(|kept| about(&kept.object))
        .map(|kept| &kept.reason)
}

fn error(plan: &PlanOf<Policy>) -> String {
    plan.summary
        .error
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Performs a run over one inventory, in which removing these images fails, and returns its steps.
fn perform(
    policy: Policy,
    task: Task,
    node: &Inventory,
    now: Timestamp,
    fails: &[&str],
) -> (Vec<String>, PlanOf<Policy>) {
    let since = node.image_gc_began_at;
    let mut run = Run::new(policy, task, node.image_records.clone(), since, now);
    let (mut steps, mut response) = (Vec::new(), None);
    loop {
        let step = run.next(response.take());
        assert_eq!(step, run.next(None), "without a response the step stays");
        response = match step {
            Step::List => {
                steps.push("list".to_owned());
                Some(Response::Listed {
                    inventory: node,
                    at: now,
                })
            }
            Step::Measure => {
                steps.push("measure".to_owned());
                Some(Response::Measured(node.image_file_system.clone()))
            }
            Step::Remove(Action::Remove { image, .. }) => {
                steps.push(image.id.to_string());
                let refused = RuntimeError::refused(format!("{} is busy", image.id));
                Some(Response::Removed(if fails.contains(&&*image.id) {
                    Err(refused)
                } else {
                    Ok(())
                }))
            }
            Step::Done => return (steps, run.finish()),
        };
    }
}
