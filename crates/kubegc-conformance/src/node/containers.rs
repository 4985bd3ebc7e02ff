//! Replays one run over containers, sandboxes and logs, and compares its calls to the node.
//!
//! Upstream breaks ties between equal creation times by chance. The plain replay must give a recorded result,
//! or differ from one only in that. Where it may, each recorded result is also replayed with ties broken as
//! recorded, and must match completely.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use kubegc_node::{
    Environment, GoDuration, Order,
    container::{self, Limits, Mode, RemovalReason},
    driver::{self, ContainersReport, NodeAction, Settings},
    image, log, sandbox,
};

use super::{
    format::{Batch, Container, ContainerCase, ContainerOutcome, ContainerState},
    world::{Node, State},
};
use crate::{
    Failure, Report,
    failure::{equal, equal_fields},
    recording::Case,
};

/// Go's sort leaves equals in their order up to this length.
const STABLE_MAX: usize = 12;
/// In the order in which they come.
const PHASES: [&str; 4] = ["pod_removed", "per_unit", "even_share", "global"];

pub(crate) fn replay(case: &Case<'_>, report: &mut Report) -> Result<(), Failure> {
    let case: ContainerCase = case.read()?;
    let case = &case;
    let Some(first) = case.outcomes.first() else {
        return Err(Failure::unreadable("the case has no outcomes"));
    };
    let times = creation_times(case)?;
    let plain = run(case, None)?;
    let found = case.outcomes.contains(&plain.outcome);
    if !found {
        // Without a match, the closest result is reported.
        case.outcomes
            .iter()
            .map(|outcome| same_but_for_ties(case, &times, outcome, &plain.outcome))
            .reduce(Result::or)
            .unwrap_or(Ok(()))
            .or_else(|_| equal_fields(first, &plain.outcome))?;
        report
            .notes
            .push("the plain replay breaks a tie in a way that was not stored".to_owned());
    }
    let mut left = vec![plain.left];
    if !found || case.distinct_outcomes > 1 || case.tie_over_12 {
        for (at, outcome) in (1..).zip(&case.outcomes) {
            let place = || format!("result {at} of {}, ties broken as recorded", case.outcomes.len());
            let guided = run(case, Some(outcome)).map_err(|failure| failure.within(place()))?;
            equal_fields(outcome, &guided.outcome).map_err(|failure| failure.within(place()))?;
            left.push(guided.left);
        }
    }
    if case.upstream_checked && case.call != "evict_logs" {
        let mut expected = case.upstream_remaining.clone();
        expected.sort_unstable();
        if !left.contains(&expected) {
            return equal("upstream_remaining", &expected, &left[0]);
        }
    }
    Ok(())
}

/// A replay's result, and the remaining sandboxes, if only those are collected, or else containers.
struct Replayed {
    outcome: ContainerOutcome,
    left: Vec<String>,
}

/// Replays the case; with a recorded result, ties between creation times are broken as it has them.
fn run(case: &ContainerCase, ties: Option<&ContainerOutcome>) -> Result<Replayed, Failure> {
    let order = Ties::new(ties);
    let node = order.node(case)?;
    let settings = settings(case, order.scale)?;
    let world = Environment {
        runtime: &node,
        logs: Some(&node),
        pods: &node,
        clock: &node,
    };
    let mode = if case.evict_non_deleted_pods {
        Mode::Forced
    } else {
        Mode::Periodic
    };
    let driver = driver::Node::new(world, settings);
    let mut report = ContainersReport::default();
    let done = match case.call.as_str() {
        "garbage_collect" => driver
            .collect_containers(mode)
            .map(|whole| report = whole)
            .now_or_never(),
        "evict_containers" => driver.collect_dead_containers(mode, &mut report).now_or_never(),
        "evict_sandboxes" => driver.collect_sandboxes(mode, &mut report).now_or_never(),
        "evict_logs" => driver.collect_logs(&mut report).now_or_never(),
        other => return Err(Failure::unreadable(format!("unknown call {other:?}"))),
    };
    done.ok_or_else(|| Failure::unreadable("the pass waits for something"))?;
    drop(driver);
    result(case, &report, node.finish())
}

fn settings(case: &ContainerCase, scale: i64) -> Result<Settings, Failure> {
    let semantics = super::semantics("1.29+", false)?;
    let limit = |limit: i64| u32::try_from(limit.max(-1)).ok();
    let too_large = [case.policy.max_per_pod_container, case.policy.max_containers]
        .into_iter()
        .any(|limit| limit > i64::from(u32::MAX));
    if too_large {
        return Err(Failure::unreadable("a limit leaves 32 bits"));
    }
    let age_min = case.policy.min_age.checked_mul(scale).ok_or_else(too_far)?;
    let limits = Limits {
        age_min: GoDuration::from_nanos(age_min),
        per_unit_max: limit(case.policy.max_per_pod_container),
        node_max: limit(case.policy.max_containers),
    };
    let container = container::EvictUnits::new(limits, semantics).map_err(Failure::unreadable)?;
    let order = Order::Listing;
    Ok(Settings {
        container: container::EvictUnits { order, ..container },
        sandbox: sandbox::EvictSandboxes {
            semantics,
            order,
            ..Default::default()
        },
        log: log::EvictLogs { semantics, order },
        image: image::FreeSpace::default(),
        image_loop: true,
        pod_logs_directory: "/var/log/pods".to_owned(),
        sandbox_image: None,
        keep_images: Vec::new(),
        dry_run: false,
    })
}

fn too_far() -> Failure {
    Failure::unreadable("times are too large to make room between equal ones")
}

/// The way to break ties: all times are multiplied by `scale`, and objects of equal age that were removed
/// earlier in the recording are made older by less than one unit.
struct Ties<'a> {
    scale: i64,
    ranks: BTreeMap<&'a str, i64>,
}

impl<'a> Ties<'a> {
    fn new(recorded: Option<&'a ContainerOutcome>) -> Self {
        let batches = recorded.map_or(&[][..], |outcome| &outcome.batches);
        let in_phase = |phase| batches.iter().filter(move |batch| batch.phase == phase);
        let sooner = PHASES
            .into_iter()
            .flat_map(in_phase)
            .flat_map(|batch| &batch.attempts);
        let ranks: BTreeMap<&str, i64> = sooner.map(String::as_str).zip(0..).collect();
        let last = i64::try_from(ranks.len()).unwrap_or(i64::MAX);
        Self {
            scale: last.saturating_add(1),
            ranks,
        }
    }

    fn node<'c>(&self, case: &'c ContainerCase) -> Result<Node<'c>, Failure> {
        let last = self.scale - 1;
        let stretched = |time: i64, rank: i64| {
            let time = time
                .checked_mul(self.scale)
                .and_then(|time| time.checked_add(rank));
            time.ok_or_else(too_far)
        };
        let (mut containers, mut sandboxes) = (case.containers.clone(), case.sandboxes.clone());
        for Container { id, created_at, .. } in &mut containers {
            let rank = self.ranks.get(id.as_str()).copied().unwrap_or(last);
            *created_at = stretched(*created_at, last)? - last + rank;
        }
        for sandbox in &mut sandboxes {
            sandbox.created_at = stretched(sandbox.created_at, 0)?;
        }
        // The objects that were old enough, equality included, still are.
        Ok(Node::new(case, stretched(case.now, last)?, containers, sandboxes))
    }
}

/// The actions of the run, in the form of a recording.
fn result(case: &ContainerCase, report: &ContainersReport, node: State) -> Result<Replayed, Failure> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut order = Vec::new();
    for performed in &report.performed {
        let NodeAction::Container(action) = &performed.action else {
            continue;
        };
        let container = &action.container;
        let name = container.name.as_deref().unwrap_or_default();
        let unit = format!("{}/{name}", container.pod.uid);
        let (phase, unit) = match action.reason {
            RemovalReason::PodEnded(_) => ("pod_removed", unit),
            RemovalReason::UnitLimit { .. } => ("per_unit", unit),
            RemovalReason::EvenShare { .. } => ("even_share", unit),
            RemovalReason::NodeLimit { .. } => ("global", String::new()),
            other => return Err(Failure::unreadable(format!("no phase is known for {other}"))),
        };
        order.push(container.id.to_string());
        match batches
            .last_mut()
            .filter(|batch| batch.phase == phase && batch.unit == unit)
        {
            Some(batch) => batch.attempts.push(container.id.to_string()),
            None => batches.push(Batch {
                phase: phase.to_owned(),
                unit,
                attempts: vec![container.id.to_string()],
            }),
        }
    }
    // The report equals the recorded calls.
    equal(
        "containers that were stopped or removed, in order",
        &order,
        &node.touched,
    )?;
    let phase = |batch: &Batch| PHASES.iter().position(|phase| *phase == batch.phase);
    batches.sort_by(|a, b| phase(a).cmp(&phase(b)).then_with(|| a.unit.cmp(&b.unit)));
    let mut outcome = node.calls;
    for ids in [
        &mut outcome.stop_attempted,
        &mut outcome.removed_containers,
        &mut outcome.sandbox_stop_attempted,
        &mut outcome.removed_sandboxes,
    ] {
        ids.sort_unstable();
    }
    outcome.batches = batches;
    outcome.error = report.error().unwrap_or_default();
    let mut left: Vec<String> = if case.call == "evict_sandboxes" {
        node.sandboxes.into_iter().map(|sandbox| sandbox.id).collect()
    } else {
        node.containers
            .into_iter()
            .map(|container| container.id)
            .collect()
    };
    left.sort_unstable();
    Ok(Replayed { outcome, left })
}

fn creation_times(case: &ContainerCase) -> Result<BTreeMap<&str, &Container>, Failure> {
    let mut times = BTreeMap::new();
    for container in &case.containers {
        if times.insert(container.id.as_str(), container).is_some() {
            return Err(Failure::unreadable(format!("{} is listed twice", container.id)));
        }
    }
    Ok(times)
}

/// Whether a result differs from a recorded one only by who of equal age was removed.
///
/// Ties are between units in the `global` phase, and, where the case says so, within a long unit. Parts of
/// the result that depend on the removed containers are compared with these; all other parts must be equal.
fn same_but_for_ties(
    case: &ContainerCase,
    containers: &BTreeMap<&str, &Container>,
    expected: &ContainerOutcome,
    got: &ContainerOutcome,
) -> Result<(), Failure> {
    let mut long: BTreeMap<String, usize> = BTreeMap::new();
    for container in case
        .containers
        .iter()
        .filter(|container| container.state != ContainerState::Running)
    {
        *long
            .entry(format!("{}/{}", container.pod_uid, container.name))
            .or_default() += 1;
    }
    long.retain(|_, count| case.tie_over_12 && *count > STABLE_MAX);
    let shape = |outcome: &ContainerOutcome| {
        let line = |batch: &Batch| {
            let tied = batch.phase == "global" || long.contains_key(&batch.unit);
            let attempt = |id: &String| match containers.get(id.as_str()) {
                Some(container) if tied => container.created_at.to_string(),
                _ => id.clone(),
            };
            let attempts: Vec<String> = batch.attempts.iter().map(attempt).collect();
            format!("{} {}: {}", batch.phase, batch.unit, attempts.join(" "))
        };
        outcome.batches.iter().map(line).collect::<Vec<_>>()
    };
    equal("batches", &shape(expected), &shape(got))?;
    equal(
        "log_dir_attempts",
        &expected.log_dir_attempts,
        &got.log_dir_attempts,
    )?;
    equal("error", &expected.error, &got.error)?;
    let mut stopped = Vec::new();
    let mut removed = Vec::new();
    for id in got.batches.iter().flat_map(|batch| &batch.attempts) {
        let container = containers
            .get(id.as_str())
            .ok_or_else(|| Failure::unreadable(id))?;
        let stops = container.state == ContainerState::Unknown;
        if stops {
            stopped.push(id.clone());
        }
        if !(stops && container.stop_fails || container.remove_fails) {
            removed.push(id.clone());
        }
    }
    stopped.sort_unstable();
    removed.sort_unstable();
    equal("stop_attempted", &stopped, &got.stop_attempted)?;
    equal("removed_containers", &removed, &got.removed_containers)
}
