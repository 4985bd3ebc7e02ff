//! Chooses the next step among all possible ones, from a seed, with optional faults.

use std::time::Duration;

use kubegc_objects::{Output, Response, collector::MonitorId};
use kubegc_sim::rng::Rng;

use super::{
    cluster::{Act, Cluster},
    world::{Seen, World},
};

/// A fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    NotFound,
    Conflict,
    UnsupportedMediaType,
    TooManyRequests,
    /// 500, and the call was not applied.
    Unknown,
    /// 500, and the call was applied.
    LoseResponse,
}

/// All faults in which no existing object is reported as absent.
pub(crate) const FAULTS: [Fault; 5] = [
    Fault::Conflict,
    Fault::UnsupportedMediaType,
    Fault::TooManyRequests,
    Fault::Unknown,
    Fault::LoseResponse,
];
/// The same with 404 for existing objects.
pub(crate) const LIES: [Fault; 6] = [
    Fault::NotFound,
    Fault::Conflict,
    Fault::UnsupportedMediaType,
    Fault::TooManyRequests,
    Fault::Unknown,
    Fault::LoseResponse,
];

/// A seeded order of steps.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    rng: Rng,
    pub(crate) faults: &'static [Fault],
    /// Number of faults that can still happen.
    pub(crate) faults_left: u32,
    pub(crate) restarts_left: u32,
    pub(crate) relists_left: u32,
    /// Pending operations of clients.
    pub(crate) acts: Vec<Act>,
    /// After this long without a change, retries count as endless.
    pub(crate) patience: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Poll,
    Deliver(MonitorId),
    Commit(usize),
    Response(usize),
    Act,
    Fault(usize),
    Restart,
    Relist(MonitorId),
    Drift,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// No step is left.
    Quiet,
    /// Retries continue, and nothing changed for a long time.
    Retrying,
}

/// More steps than any cluster of a dozen objects needs.
const STEPS_MAX: usize = 100_000;
/// Longer than the retry delay of any item.
const PATIENCE: Duration = Duration::from_secs(4_000);

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            faults: &[],
            faults_left: 0,
            restarts_left: 0,
            relists_left: 0,
            acts: Vec::new(),
            patience: PATIENCE,
        }
    }

    pub(crate) fn with_faults(mut self, faults: &'static [Fault], count: u32) -> Self {
        (self.faults, self.faults_left) = (faults, count);
        self
    }

    /// For clusters that never settle: contradicting references are looked up alternately forever, ten times
    /// a second (G-35).
    pub(crate) fn impatient(mut self) -> Self {
        self.patience = Duration::from_secs(60);
        self
    }

    /// Runs the world until it rests.
    pub(crate) fn run(&mut self, world: &mut World, cluster: &Cluster) -> Rest {
        let (mut revision, mut changed_at) = (world.server.revision(), world.now);
        for _ in 0..STEPS_MAX {
            if revision != world.server.revision() {
                (revision, changed_at) = (world.server.revision(), world.now);
            }
            if self.step(world, cluster) {
                continue;
            }
            let Some(until) = world.waiting.and_then(|wait| wait.until) else {
                return Rest::Quiet;
            };
            if until.since(changed_at) > self.patience {
                return Rest::Retrying;
            }
            world.tick(until);
        }
        panic!("no rest after {STEPS_MAX} steps");
    }

    /// Executes one of the possible steps. Returns false if only time helps.
    pub(crate) fn step(&mut self, world: &mut World, cluster: &Cluster) -> bool {
        let mut steps = Vec::new();
        if world.waiting.is_none() {
            steps.push(Step::Poll);
        }
        steps.extend(world.with_news().map(Step::Deliver));
        steps.extend((0..world.open_calls.len()).map(Step::Commit));
        steps.extend((0..world.responses.len()).map(Step::Response));
        if !self.acts.is_empty() {
            steps.push(Step::Act);
        }
        if steps.is_empty() {
            return false;
        }
        if self.faults_left > 0 && self.rng.chance(200) {
            steps.extend((0..world.open_calls.len()).map(Step::Fault));
        }
        if self.restarts_left > 0 && self.rng.chance(30) {
            steps = vec![Step::Restart];
        }
        if self.relists_left > 0 && self.rng.chance(50) {
            steps.extend(
                world
                    .lanes
                    .iter()
                    .filter(|(_, lane)| lane.listed)
                    .map(|(&id, _)| Step::Relist(id)),
            );
        }
        if self.rng.chance(50) {
            steps.push(Step::Drift);
        }
        let drawn = self.rng.below(steps.len() as u64) as usize;
        self.perform(steps[drawn], world, cluster);
        true
    }

    fn perform(&mut self, step: Step, world: &mut World, cluster: &Cluster) {
        match step {
            Step::Poll => {
                let _: Output = world.poll();
            }
            Step::Deliver(monitor) => world.deliver(monitor),
            Step::Commit(at) => world.commit(at),
            Step::Response(at) => world.respond(at),
            Step::Act => {
                let act = self.acts.remove(0);
                cluster.act(&mut world.server, &act);
            }
            Step::Fault(at) => {
                self.faults_left -= 1;
                let drawn = self.rng.below(self.faults.len() as u64) as usize;
                fail(world, at, self.faults[drawn]);
            }
            Step::Restart => {
                self.restarts_left -= 1;
                // Some of the running calls still reach the server.
                for at in (0..world.open_calls.len()).rev() {
                    if self.rng.chance(500) {
                        world.commit(at);
                    }
                }
                world.restart();
            }
            Step::Relist(monitor) => {
                self.relists_left -= 1;
                world.list(monitor);
            }
            Step::Drift => world.tick(world.now.saturating_add(Duration::from_millis(3))),
        }
    }
}

/// Responds to a pulled call with a fault.
pub(crate) fn fail(world: &mut World, at: usize, fault: Fault) {
    if fault == Fault::LoseResponse {
        world.commit(at);
        if let Some((_, response)) = world.responses.last_mut() {
            *response = Response::Unknown;
        }
        return;
    }
    let call = world.open_calls.remove(at);
    let response = match fault {
        Fault::NotFound => Response::NotFound,
        Fault::Conflict => Response::Conflict,
        Fault::UnsupportedMediaType => Response::UnsupportedMediaType,
        Fault::TooManyRequests => Response::Refused {
            retry_after: Some(Duration::from_secs(1)),
        },
        Fault::Unknown | Fault::LoseResponse => Response::Unknown,
    };
    world
        .trace
        .push((world.now, Seen::Committed(call.id, response.clone())));
    world.responses.push((call.id, response));
}
