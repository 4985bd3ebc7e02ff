//! Chooses the next step at random from a seed, with optional faults.

use std::time::Duration;

use kubegc_objects::{Output, Response, collector::MonitorId};
use kubegc_sim::rng::Rng;

use super::{
    cluster::{ClientWrite, Cluster},
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

/// All faults.
pub(crate) const FAULTS_AND_FALSE_404: [Fault; 6] = [
    Fault::NotFound,
    Fault::Conflict,
    Fault::UnsupportedMediaType,
    Fault::TooManyRequests,
    Fault::Unknown,
    Fault::LoseResponse,
];
/// All but the first, which reports existing objects as absent.
pub(crate) const FAULTS: &[Fault] = FAULTS_AND_FALSE_404.split_at(1).1;

/// A seeded order of steps.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    rng: Rng,
    pub(crate) faults: &'static [Fault],
    /// Number of faults that can still happen.
    pub(crate) faults_left: u32,
    pub(crate) restarts_left: u32,
    pub(crate) relists_left: u32,
    /// Pending writes of clients.
    pub(crate) client_writes: Vec<ClientWrite>,
    /// The longest time without a change for which retries are followed.
    pub(crate) unchanged_max: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Poll,
    Deliver(MonitorId),
    Commit(usize),
    Response(usize),
    ClientWrite,
    Fault(usize),
    Restart,
    Relist(MonitorId),
    AdvanceClock,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// No step is left.
    Quiet,
    /// Retries continue, and nothing changed for a long time.
    Retrying,
}

/// More steps than any cluster of a dozen objects needs.
const STEPS_MAX: usize = 100_000;
/// Longer than the retry delay of any item.
const UNCHANGED_MAX: Duration = Duration::from_secs(4_000);

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            faults: &[],
            faults_left: 0,
            restarts_left: 0,
            relists_left: 0,
            client_writes: Vec::new(),
            unchanged_max: UNCHANGED_MAX,
        }
    }

    pub(crate) fn with_faults(mut self, faults: &'static [Fault], count: u32) -> Self {
        (self.faults, self.faults_left) = (faults, count);
        self
    }

    /// For clusters that never settle: contradicting references are looked up alternately, ten times a second
    /// (G-35).
    pub(crate) fn give_up_early(mut self) -> Self {
        self.unchanged_max = Duration::from_secs(60);
        self
    }

    /// Runs the collector and the server until no step is left.
    pub(crate) fn run(&mut self, world: &mut World, cluster: &Cluster) -> RunEnd {
        let (mut revision, mut changed_at) = (world.server.revision(), world.now);
        for _ in 0..STEPS_MAX {
            if revision != world.server.revision() {
                (revision, changed_at) = (world.server.revision(), world.now);
            }
            if self.step(world, cluster) {
                continue;
            }
            let Some(until) = world.waiting.and_then(|wait| wait.until) else {
                return RunEnd::Quiet;
            };
            if until.since(changed_at) > self.unchanged_max {
                return RunEnd::Retrying;
            }
            world.tick(until);
        }
        panic!("steps are left after {STEPS_MAX}");
    }

    /// Executes one of the possible steps. Returns false if there is none until time advances.
    pub(crate) fn step(&mut self, world: &mut World, cluster: &Cluster) -> bool {
        let mut steps = Vec::new();
        if world.waiting.is_none() {
            steps.push(Step::Poll);
        }
        steps.extend(world.with_pending_events().map(Step::Deliver));
        steps.extend((0..world.open_calls.len()).map(Step::Commit));
        steps.extend((0..world.responses.len()).map(Step::Response));
        if !self.client_writes.is_empty() {
            steps.push(Step::ClientWrite);
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
                    .watches
                    .iter()
                    .filter(|(_, watch)| watch.listed)
                    .map(|(&id, _)| Step::Relist(id)),
            );
        }
        if self.rng.chance(50) {
            steps.push(Step::AdvanceClock);
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
            Step::ClientWrite => {
                let write = self.client_writes.remove(0);
                cluster.perform(&mut world.server, &write);
            }
            Step::Fault(at) => {
                self.faults_left -= 1;
                let drawn = self.rng.below(self.faults.len() as u64) as usize;
                fail(world, at, self.faults[drawn]);
            }
            Step::Restart => {
                self.restarts_left -= 1;
                // Some of the pulled calls still reach the server.
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
            Step::AdvanceClock => world.tick(world.now.saturating_add(Duration::from_millis(3))),
        }
    }
}

/// Gives a pulled call a response with a fault.
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
