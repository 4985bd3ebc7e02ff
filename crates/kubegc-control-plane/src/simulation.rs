//! A server and its control plane, run over time.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_sim::ApiServer;

use crate::{ControlPlane, Idle, Settings, Step, StepResult};

/// The time without changes after which a simulation ends: longer than podgc's quarantine plus one sync.
pub const QUIET: Duration = Duration::from_secs(61);
/// The time for which failed requests are retried while nothing changes.
const RETRIES: Duration = Duration::from_secs(30);
/// The maximum number of writes of one run, besides [`WRITES_PER_OBJECT`]. A controller that repeats a write
/// every 2 s reaches it after two days.
const WRITES_MAX: usize = 100_000;
/// The maximum number of writes at one instant, besides [`WRITES_PER_OBJECT`].
const WRITES_AT_ONCE_MAX: usize = 5_000;
/// The additional writes for each object; no cascade needs that many.
const WRITES_PER_OBJECT: usize = 20;
/// The maximum number of steps at one instant for each of its writes: most steps are reads.
const STEPS_PER_WRITE: usize = 20;
/// The maximum length of a cycle of writes that is found.
const CYCLE_MAX: usize = 500;

/// An API server whose only writers are its control plane and one client.
///
/// A run is bounded: after 5,000 writes at one instant, after 100,000 writes, or after reads at one instant
/// without end, it stops and [`gave_up`](Self::gave_up). Each object of the server adds 20 writes to both
/// numbers. The time of a run that lasts until nothing changes is bounded by its writes: it ends [`QUIET`]
/// after the last one.
///
/// # Examples
/// ```
/// use kubegc_control_plane::{Settings, Simulation};
/// use kubegc_core::{Catalog, KubernetesVersion};
/// use kubegc_sim::ApiServer;
/// use serde_json::json;
///
/// let version = KubernetesVersion::LATEST;
/// let server_settings = kubegc_sim::Settings { namespaces_must_exist: false, ..Default::default() };
/// let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(server_settings);
/// let config_maps = server.catalog().mapping("v1", "ConfigMap").expect("always served");
/// let gone = json!([{"apiVersion": "v1", "kind": "Secret", "name": "gone", "uid": "u1"}]);
/// server.create_json(config_maps, "shop", json!({"metadata": {"name": "a", "ownerReferences": gone}}));
/// let settings = Settings::new(version);
/// let mut simulation = Simulation::new(server, settings);
/// simulation.run_until_quiet();
/// assert!(simulation.server.object(config_maps, "shop", "a").is_none());
/// assert_eq!(simulation.plane.steps().len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    pub server: ApiServer,
    pub plane: ControlPlane,
    /// Whether a run stopped at its limit. Later runs do nothing.
    pub gave_up: bool,
}

impl Simulation {
    /// A server with a control plane that has listed its objects.
    pub fn new(server: ApiServer, mut settings: Settings) -> Self {
        settings.is_alone = true;
        let plane = ControlPlane::new(&server, settings);
        Self::of(server, plane)
    }

    pub const fn of(server: ApiServer, plane: ControlPlane) -> Self {
        Self {
            server,
            plane,
            gave_up: false,
        }
    }

    /// Runs until nothing has changed for [`QUIET`].
    pub fn run_until_quiet(&mut self) {
        self.run(None);
    }

    /// Runs until a time, this instant included.
    pub fn run_until(&mut self, until: Timestamp) {
        self.run(Some(until));
    }

    fn run(&mut self, until: Option<Timestamp>) {
        let of_objects = self.objects().saturating_mul(WRITES_PER_OBJECT);
        let writes_at_once = WRITES_AT_ONCE_MAX.saturating_add(of_objects);
        let steps_at_once = writes_at_once.saturating_mul(STEPS_PER_WRITE);
        let writes_max = WRITES_MAX.saturating_add(of_objects);
        let first = self.plane.steps().len();
        // The present instant, the number of writes before it and of steps in it.
        let (mut now, mut before, mut steps) = (self.plane.now(), first, 0);
        while !self.gave_up {
            if let StepResult::Idle(idle) = self.plane.step(&mut self.server)
                && !self.advance(idle, until)
            {
                return;
            }
            let writes = self.plane.steps().len();
            if self.plane.now() > now {
                (now, before, steps) = (self.plane.now(), writes, 0);
            }
            steps += 1;
            self.gave_up =
                writes - first > writes_max || writes - before > writes_at_once || steps > steps_at_once;
        }
    }

    fn objects(&self) -> usize {
        let kinds = self.server.catalog().iter().filter(|(_, kind)| kind.preferred);
        kinds.map(|(kind, _)| self.server.len(kind)).sum()
    }

    /// The last writes as a cycle that repeats: the shortest one, or up to 500 writes if they do not repeat.
    pub fn last_cycle(&self) -> &[Step] {
        let steps = self.plane.steps();
        let is_same = |one: &Step, other: &Step| {
            (one.actor, one.act, &one.object, one.code) == (other.actor, other.act, &other.object, other.code)
        };
        let last = |length: usize| &steps[steps.len().saturating_sub(length)..];
        let repeats = |length: &usize| {
            let (one, other) = last(2 * length).split_at(*length);
            one.iter().zip(other).all(|(one, other)| is_same(one, other))
        };
        let lengths = 1..=CYCLE_MAX.min(steps.len() / 2);
        last(lengths.into_iter().find(repeats).unwrap_or(CYCLE_MAX))
    }

    /// Advances time to the next event. Returns whether there is one before the end.
    pub fn advance(&mut self, idle: Idle, until: Option<Timestamp>) -> bool {
        let within = |limit: Duration| self.plane.last_change().saturating_add(limit);
        let retry_at = idle.retry_at.filter(|at| *at <= within(RETRIES));
        let is_awaited = |at: &Timestamp| until.is_some() || *at <= within(QUIET);
        let scheduled_at = idle.scheduled_at.filter(is_awaited);
        let awaited = Idle {
            retry_at,
            scheduled_at,
            ..idle
        };
        match awaited.next_at().map(|next| next.max(self.plane.now())) {
            Some(next) if until.is_none_or(|until| next <= until) => {
                self.advance_to(next);
                true
            }
            _ => false,
        }
    }

    /// Advances time without a step.
    pub fn advance_to(&mut self, now: Timestamp) {
        self.server.set_now(now);
        self.plane.advance_to(now);
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::{Catalog, KubernetesVersion};

    use super::*;

    /// Retries count for 30 s after the last change, scheduled work for 61 s unless a time is awaited.
    #[test]
    fn time_advances_to_the_next_event_that_counts() {
        let version = KubernetesVersion::LATEST;
        let mut server = ApiServer::new(version, Catalog::builtin(version));
        let at = |seconds: i64| Timestamp::from_secs(1_000 + seconds);
        server.set_now(at(0));
        let simulation = Simulation::new(server, Settings::new(version));
        for (certain, retry, scheduled, until, next) in [
            (None, None, None, None, None),
            (Some(500), None, None, None, Some(500)),
            (Some(500), Some(20), Some(40), None, Some(20)),
            (None, Some(30), None, None, Some(30)),
            (None, Some(31), None, None, None),
            (None, Some(31), None, Some(100), None),
            (None, None, Some(61), None, Some(61)),
            (None, None, Some(62), None, None),
            (None, None, Some(62), Some(62), Some(62)),
            (None, None, Some(62), Some(61), None),
            (Some(500), None, None, Some(499), None),
            (Some(500), None, None, Some(500), Some(500)),
            (Some(-5), None, None, None, Some(0)),
            (Some(-5), None, None, Some(-5), None),
        ] {
            let mut simulation = simulation.clone();
            let idle = Idle {
                certain_at: certain.map(at),
                retry_at: retry.map(at),
                scheduled_at: scheduled.map(at),
            };
            let first = [certain, retry, scheduled].into_iter().flatten().min();
            assert_eq!(idle.next_at(), first.map(at));
            let advances = simulation.advance(idle, until.map(at));
            assert_eq!(advances, next.is_some(), "{idle:?} {until:?}");
            let now = at(next.unwrap_or(0));
            assert_eq!((simulation.plane.now(), simulation.server.now()), (now, now));
        }
    }
}
