//! Replays scenarios that were recorded from a real API server and a real controller manager.
//!
//! A scenario passes when it is *accepted* (for every recorded sequence of writes there is a run that makes
//! exactly these writes, with the recorded state at every checkpoint) and *stable* (most unguided runs reach
//! recorded states by recorded writes).

mod client;
mod compare;
mod format;
mod guided;
mod namespace_controller;
mod scene;
mod unguided;
mod world;

use std::collections::BTreeSet;

use kubegc_core::Timestamp;
use kubegc_sim::ApiServer;
use serde_json::Value;

pub use self::format::Scenario;
use self::{
    client::Client,
    format::{Outcome, Plan, Write},
    scene::Scene,
    world::World,
};
use crate::{Failure, Report, recording::Case};

/// Number of unguided runs; half of them must reach recorded states.
const SCHEDULES: u64 = 20;
/// Workers of each kind, as upstream has them by default.
const WORKERS: u32 = 20;
/// Workers in guided runs: upstream's order of dependents is random, so each of them may be the first.
const WORKERS_GUIDED: u32 = 10_000;

/// The client of a scenario, on any server with its kinds.
pub struct Player<'a> {
    scene: Scene<'a>,
    client: Client,
}

impl<'a> Player<'a> {
    /// # Errors
    /// The server has not the kinds of the scenario, or a step is not known.
    pub fn new(scenario: &'a Scenario, server: &ApiServer) -> Result<Self, Failure> {
        Ok(Self {
            scene: Scene::new(scenario, server.catalog())?,
            client: Client::new(server.now()),
        })
    }

    /// The operation of the next step; `None` after the last one.
    pub fn op(&self) -> Option<&str> {
        Some(self.client.op(&self.scene)).filter(|op| *op != client::END)
    }

    /// Performs the next request, and returns when the client continues.
    pub fn request(&mut self, server: &mut ApiServer) -> Timestamp {
        let now = server.now();
        self.client.request(&self.scene, server, now);
        self.client.ready_at
    }

    /// Leaves a step without a request.
    pub fn advance(&mut self) {
        self.client.advance();
    }

    /// The states of all objects, in the recorded form.
    pub fn state(&self, server: &ApiServer) -> Value {
        compare::state(&self.scene, server)
    }
}

/// The outcomes of a scenario that was recorded with one worker.
#[derive(serde::Deserialize)]
struct Compact {
    outcomes: Vec<Outcome>,
}

pub(crate) fn replay(case: &Case<'_>, report: &mut Report) -> Result<(), Failure> {
    let others = case
        .sibling()
        .map_or_else(|_| Vec::new(), |Compact { outcomes }| outcomes);
    compare(&case.read()?, &others, WORKERS, report)
}

/// Replays the outcomes of one case, recorded with one worker, with the inputs of another.
pub(crate) fn replay_compact(case: &Case<'_>, report: &mut Report) -> Result<(), Failure> {
    let Compact { outcomes } = case.read()?;
    let mut scenario: Scenario = case.sibling()?;
    let others = std::mem::replace(&mut scenario.outcomes, outcomes);
    compare(&scenario, &others, 1, report)
}

/// `others` are the outcomes of a scenario that were recorded with another number of workers. Unguided runs
/// may reach these, too: what one worker does, many may do, and the few runs of each recording miss outcomes.
fn compare(
    scenario: &Scenario,
    others: &[Outcome],
    workers: u32,
    report: &mut Report,
) -> Result<(), Failure> {
    let server = scene::server(scenario)?;
    let scene = Scene::new(scenario, server.catalog())?;
    accepted(&World::new(&scene, &server, WORKERS_GUIDED)?)?;
    if !scenario.collects() {
        return Ok(());
    }
    let start = World::new(&scene, &server, workers)?;
    stable(&start, others, report)
}

fn accepted(start: &World<'_>) -> Result<(), Failure> {
    let outcomes = &start.scene.scenario.outcomes;
    if outcomes.is_empty() {
        return Err(Failure::unreadable("the case has no outcome"));
    }
    for (number, outcome) in outcomes.iter().enumerate() {
        let first = outcome.write_sequences.first().map(|sequence| &sequence.seq);
        let shown: Vec<Vec<String>> = outcome
            .checkpoints
            .iter()
            .map(|checkpoint| checkpoint.gc_writes.iter().map(Write::text).collect())
            .collect();
        if outcome.calls_by_client.is_some() && first != Some(&shown) {
            return Err(Failure::new(
                "details of an outcome",
                format!("{first:?}"),
                format!("{shown:?}"),
            ));
        }
        for at in 0..outcome.write_sequences.len() {
            let plan = Plan::new(outcome, at);
            let place = format!("outcome {number}, write sequence {at}");
            guided::find(start, &plan, at as u64).map_err(|failure| failure.within(place))?;
        }
    }
    Ok(())
}

fn stable(start: &World<'_>, others: &[Outcome], report: &mut Report) -> Result<(), Failure> {
    let recorded = &start.scene.scenario.outcomes;
    let outcomes: Vec<&Outcome> = recorded.iter().chain(others).collect();
    let mut recorded = 0;
    for seed in 0..SCHEDULES {
        let seen = unguided::play(start, seed)
            .map_err(|failure| failure.within(format_args!("unguided run {seed}")))?;
        let states: Vec<_> = seen.iter().map(|seen| &seen.state).collect();
        let matching: Vec<&Outcome> = outcomes
            .iter()
            .copied()
            .filter(|outcome| outcome.states() == states)
            .collect();
        if matching.is_empty() {
            report.notes.push(unrecorded(seed, &states, &outcomes));
            continue;
        }
        let sequences: Vec<_> = matching
            .iter()
            .flat_map(|outcome| &outcome.write_sequences)
            .collect();
        let is_recorded = |(checkpoint, seen): (usize, &unguided::Seen)| {
            let mut at_checkpoint = sequences
                .iter()
                .filter_map(|sequence| sequence.seq.get(checkpoint));
            at_checkpoint.any(|writes| unguided::distinct(writes) == seen.writes)
        };
        if seen.iter().enumerate().all(is_recorded) {
            recorded += 1;
        } else {
            let got: Vec<&BTreeSet<String>> = seen.iter().map(|seen| &seen.writes).collect();
            report.notes.push(format!(
                "unguided run {seed} made writes that were never recorded together: {got:?}"
            ));
        }
    }
    if recorded * 2 < SCHEDULES {
        let expected = format!("at least {} of {SCHEDULES}", SCHEDULES / 2);
        let place = "unguided runs with recorded states and writes";
        return Err(Failure::new(
            place,
            expected,
            format!("{recorded}\n{}", report.notes.join("\n")),
        ));
    }
    Ok(())
}

/// Describes the unrecorded state that a run reached.
fn unrecorded(seed: u64, states: &[&Value], outcomes: &[&Outcome]) -> String {
    let recorded = outcomes
        .first()
        .map(|outcome| outcome.states())
        .unwrap_or_default();
    let at = states
        .iter()
        .zip(&recorded)
        .position(|(got, expected)| got != expected);
    let difference = at
        .map(|at| compare::state_difference(recorded[at], states[at]).1)
        .unwrap_or_default();
    format!(
        "unguided run {seed} reached a state that was never recorded, first at checkpoint {at:?}: {}",
        difference.trim_end()
    )
}
