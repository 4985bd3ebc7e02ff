//! A server and its control plane, run over time.

use std::time::Duration;

use kubegc_core::{DeleteOptions, KindId, ObjectRef, Timestamp};
use kubegc_sim::{ApiServer, Response};

use crate::{ControlPlane, Idle, Settings, StepResult};

/// The time without changes after which a simulation ends: longer than podgc's quarantine plus one sync.
pub const QUIET: Duration = Duration::from_secs(61);
/// The time for which failed requests are retried while nothing changes.
const RETRIES: Duration = Duration::from_secs(30);
/// The maximum number of steps of one run for each object; no cascade needs that many.
const STEPS_PER_OBJECT: u64 = 10_000;

/// An API server whose only writers are its control plane and one client.
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
#[expect(clippy::exhaustive_structs, reason = "callers read every field")]
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The server.
    pub server: ApiServer,
    /// The control plane.
    pub plane: ControlPlane,
    /// Whether a run stopped at its limit.
    pub gave_up: bool,
}

impl Simulation {
    /// A server with a control plane that has listed its objects.
    #[must_use]
    pub fn new(server: ApiServer, mut settings: Settings) -> Self {
        settings.is_alone = true;
        let plane = ControlPlane::new(&server, settings);
        Self::of(server, plane)
    }

    /// A server with its control plane.
    #[must_use]
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
        let steps = (self.server.revision() + 100).saturating_mul(STEPS_PER_OBJECT);
        for _ in 0..steps {
            let StepResult::Idle(idle) = self.plane.step(&mut self.server) else {
                continue;
            };
            if !self.advance(idle, until) {
                return;
            }
        }
        self.gave_up = true;
    }

    /// Advances time to the next event. Returns whether there is one before the end.
    pub fn advance(&mut self, idle: Idle, until: Option<Timestamp>) -> bool {
        let within = |limit: Duration| self.plane.last_change().saturating_add(limit);
        let retry_at = idle.retry_at.filter(|at| *at <= within(RETRIES));
        let is_awaited = |at: &Timestamp| until.is_some() || *at <= within(QUIET);
        let scheduled_at = idle.scheduled_at.filter(is_awaited);
        let next = idle
            .certain_at
            .into_iter()
            .chain(retry_at)
            .chain(scheduled_at)
            .min();
        match next.map(|next| next.max(self.plane.now())) {
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

    /// Deletes an object as the client.
    pub fn delete(
        &mut self,
        kind: KindId,
        object: ObjectRef,
        options: &DeleteOptions,
        intent: usize,
    ) -> Response {
        self.plane.delete(&mut self.server, kind, object, options, intent)
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
