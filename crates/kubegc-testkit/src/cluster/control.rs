//! The control plane of a cluster, one step at a time, and its audit entries.

use std::{fmt, sync::Arc};

use kubegc_control_plane::{Act, Actor, ControlPlane, Refusal, Settings, Step, StepResult};
use kubegc_core::Timestamp;
use kubegc_objects::{Operation, Request, Response};
use kubegc_sim::ApiServer;

use super::{Cluster, Inner, State};
use crate::{
    audit::{self, Entry},
    http::Verb,
};

/// The control plane, and its progress in the audit.
#[derive(Clone)]
pub(crate) struct Plane {
    pub(crate) control: ControlPlane,
    pub(super) settings: Settings,
    /// Number of its steps that are already in the audit.
    audited_steps: usize,
    /// The server's revision and time when it last had nothing to do.
    idle_at: Option<(u64, Timestamp)>,
}

pub(crate) enum ClusterStep {
    Requested(Arc<Entry>),
    /// It processed an event or a key without a request.
    Worked,
    Idle(Idle),
}

/// An idle control plane, and when it has work again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    pub(crate) revision: u64,
    pub(crate) at: Timestamp,
    pub(crate) next: kubegc_control_plane::Idle,
}

impl Idle {
    /// The time of the next work other than a retry.
    pub(crate) fn certain_at(&self) -> Option<Timestamp> {
        let times = [self.next.certain_at, self.next.scheduled_at];
        times.into_iter().flatten().min()
    }
}

impl Plane {
    pub(super) fn new(server: &ApiServer, settings: Settings) -> Self {
        Self {
            control: ControlPlane::new(server, settings.clone()),
            settings,
            audited_steps: 0,
            idle_at: None,
        }
    }

    pub(crate) const fn collects(&self) -> bool {
        self.settings.collector_runs
    }

    /// Whether it has processed everything that is due now.
    pub(crate) fn is_idle_at(&self, server: &ApiServer) -> bool {
        self.idle_at == Some((server.revision(), server.now()))
    }

    /// Performs one step. Returns its audit entries, in order: at most one of the collector, or the writes of
    /// the others.
    pub(crate) fn step(&mut self, server: &mut ApiServer) -> (Vec<Entry>, Option<Idle>) {
        self.idle_at = None;
        let (mut entries, mut now_idle) = (Vec::new(), None);
        match self.control.step(server) {
            StepResult::Requested { request, response } => {
                let step = self.control.steps().get(self.audited_steps);
                let code = match (step, &*response) {
                    (Some(step), _) => step.code,
                    // Reads are no steps.
                    (None, Response::Found(_)) => 200,
                    (None, Response::NotFound) => 404,
                    (None, _) => 500,
                };
                let failure = step.and_then(|step| step.failure.as_ref());
                let resource = &self.control.collector().catalog()[request.kind];
                let (verb, why) = (verb(&request), reason(&request.reason, failure));
                let client = "garbage-collector";
                let entry = audit::of_control_plane(client, verb, resource, &request.target, code, why);
                entries.push(entry);
            }
            StepResult::Idle(next) => {
                let (revision, at) = (server.revision(), server.now());
                self.idle_at = Some((revision, at));
                now_idle = Some(Idle { revision, at, next });
            }
            _ => entries = self.entries(server),
        }
        self.audited_steps = self.control.steps().len();
        (entries, now_idle)
    }

    /// The entries of the steps that are in no audit yet.
    pub(super) fn entries(&mut self, server: &ApiServer) -> Vec<Entry> {
        let steps = self.control.steps().get(self.audited_steps..).unwrap_or_default();
        let entries = steps.iter().filter_map(|step| audit_entry(server, step));
        let entries = entries.collect();
        self.audited_steps = self.control.steps().len();
        entries
    }
}

fn verb(request: &Request) -> Verb {
    match request.operation {
        Operation::Get => Verb::Get,
        Operation::Delete { .. } => Verb::Delete,
        Operation::Patch { .. } => Verb::Patch,
        Operation::Put { .. } => Verb::Update,
    }
}

/// The audit entry of a write that the collector did not make.
fn audit_entry(server: &ApiServer, step: &Step) -> Option<Entry> {
    let client = match step.actor {
        Actor::ApiServer => "kube-apiserver",
        Actor::Kubelet => "kubelet",
        Actor::FinalizerOwner => "finalizer-owner",
        Actor::Controller(name) => name,
        _ => "control-plane",
    };
    let verb = match step.act {
        Act::Delete { .. } => Verb::Delete,
        Act::DeleteCollection => Verb::DeleteCollection,
        Act::Patch { .. } => Verb::Patch,
        Act::Create => Verb::Create,
        _ => Verb::Update,
    };
    let catalog = server.catalog();
    let kind = catalog.mapping(&step.object.api_version, &step.object.kind)?;
    let (object, why) = (&step.object, reason(step, step.failure.as_ref()));
    let entry = audit::of_control_plane(client, verb, &catalog[kind], object, step.code, why);
    Some(entry)
}

pub(crate) fn reason(why: &impl fmt::Display, failure: Option<&Refusal>) -> Arc<str> {
    match failure {
        Some(refusal) => format!("{why}, but the API server refuses: {refusal}").into(),
        None => why.to_string().into(),
    }
}

impl Inner {
    pub(crate) fn step(&self) -> ClusterStep {
        self.shared.with(|server| {
            let mut state = self.state.lock();
            let (entries, idle) = state.plane.step(server);
            state.is_settled |= idle.is_some();
            let last = self.record_all(server, &mut state, entries);
            match (last, idle) {
                (Some(entry), _) => ClusterStep::Requested(entry),
                (None, Some(idle)) => ClusterStep::Idle(idle),
                (None, None) => ClusterStep::Worked,
            }
        })
    }

    /// Records requests of the control plane, and returns the last one.
    pub(super) fn record_all(
        &self,
        server: &ApiServer,
        state: &mut State,
        entries: Vec<Entry>,
    ) -> Option<Arc<Entry>> {
        let entries = entries.into_iter().map(|entry| Entry {
            at: server.now(),
            revision: server.revision(),
            ..entry
        });
        entries.map(|entry| self.note(state, entry)).last()
    }

    fn replace(&self, collects: bool) {
        self.shared.with(|server| {
            let plane = &mut self.state.lock().plane;
            plane.settings.collector_runs = collects;
            *plane = Plane::new(server, plane.settings.clone());
        });
        self.pulse.beat();
    }
}

impl Cluster {
    /// Stops the collector at once, and starts another one with an empty cache. Its first
    /// list has the objects that exist at its first step, as after the restart of a controller manager.
    pub fn restart_collector(&self) {
        self.inner.replace(true);
    }

    /// Stops the collector at once. Namespaces are still emptied, pods still end.
    pub fn stop_collector(&self) {
        self.inner.replace(false);
    }

    /// Whether a collector runs.
    pub fn has_collector(&self) -> bool {
        self.inner.state.lock().plane.collects()
    }

    /// Waits until the tasks of the runtime are idle, then makes the control plane perform one request.
    /// Returns that request, or `None` if the control plane has nothing to do before another write or before
    /// time passes.
    ///
    /// A test that steps through a collection can act between any two requests of the collector.
    pub async fn step(&self) -> Option<Arc<Entry>> {
        self.inner.wait_for_tasks().await;
        // Other tasks do not run in this loop, so that it ends.
        loop {
            match self.inner.step() {
                ClusterStep::Requested(entry) => return Some(entry),
                ClusterStep::Worked => {}
                ClusterStep::Idle(_) => return None,
            }
        }
    }
}
