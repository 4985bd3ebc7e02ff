//! The collector and those who act beside it, stepping over an API server that others may write to as well.
//!
//! Everything is deterministic: a call is performed when it is pulled, and what changed is seen right after.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use kubegc_core::{Catalog, KindId, ObjectRef, Timestamp};
use kubegc_objects::{
    Collector, Settings,
    call::{Answer, Ask},
    collector::{Input, MonitorId, Output, WaitReason, WatchEvent},
    effect::InvalidNamespace,
};
use kubegc_sim::{ApiServer, EventType, StoredObject};

use super::{PATIENCE, calls::note_changes, environment::Environment, kubelets::Kubelets};
use crate::{
    Assumptions,
    timeline::{Act, Actor, Step, Why},
};

/// A change that the collector has yet to see.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: KindId,
    pub(crate) event_type: EventType,
    pub(crate) object: Arc<StoredObject>,
}

/// The part of a control plane that garbage collection needs: the collector, the controller that empties namespaces, the one that removes custom
/// resources with their definition, and kubelets that end pods.
///
/// It holds no objects: every step works on the server that it is given, which must be the same one each time. Between steps anybody may write to that
/// server and let its time pass. The collector behaves as upstream's in the server's version, and sees new kinds as soon as they are served.
///
/// # Complexity
/// A step costs what one request costs; the first one looks at every object.
///
/// # Examples
/// ```
/// use kubegc_core::{Catalog, KubernetesVersion};
/// use kubegc_predict::{Assumptions, ControlPlane, Turn};
/// use kubegc_sim::{ApiServer, Settings};
/// use serde_json::json;
/// let version = KubernetesVersion::LATEST;
/// let settings = Settings { namespaces_must_exist: false, ..Settings::default() };
/// let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
/// let config_maps = server.catalog().mapping("v1", "ConfigMap").expect("always served");
/// let gone = json!([{"apiVersion": "v1", "kind": "Secret", "name": "gone", "uid": "u1"}]);
/// server.create_json(config_maps, "shop", json!({"metadata": {"name": "a", "ownerReferences": gone}}));
/// let mut control_plane = ControlPlane::new(&server, Assumptions::default());
/// while !matches!(control_plane.step(&mut server), Turn::Idle { .. }) {}
/// assert!(server.object(config_maps, "shop", "a").is_none());
/// assert_eq!(control_plane.steps().len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct ControlPlane {
    pub(crate) collector: Collector,
    environment: Environment,
    monitors: BTreeMap<KindId, MonitorId>,
    pub(super) delivered: u64,
    pub(crate) backlog: VecDeque<Seen>,
    pub(super) now: Timestamp,
    pub(super) began: Timestamp,
    pub(super) last_change: Timestamp,
    pub(crate) steps: Vec<Step>,
    pub(crate) warnings: Vec<InvalidNamespace>,
    company: Company,
    /// Whether the kinds may be others than those that the collector knows.
    kinds_changed: bool,
}

/// Who else works on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    /// Nobody: kinds stay as they are, and changes may be forgotten once they were shown.
    Nobody,
    /// Cleaners that read the changes, too, and define no kinds.
    Cleaners,
    /// Others, who may define kinds and watch what happened before.
    Others,
    /// Others, and the collector stays idle.
    OthersAndNoCollector,
}

/// What one step of a [`ControlPlane`] did.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The collector made a call.
    Called {
        /// The call.
        ask: Box<Ask>,
        /// Its answer.
        answer: Box<Answer>,
    },
    /// The collector was shown what has changed.
    Saw,
    /// Somebody else acted; where that was a write, it is the last of [`steps`](ControlPlane::steps).
    Acted,
    /// There is nothing to do before somebody writes or time passes.
    Idle {
        /// When something happens for sure, such as the end of a pod.
        certain_at: Option<Timestamp>,
        /// When something is tried again that did not work.
        retry_at: Option<Timestamp>,
    },
}

impl ControlPlane {
    /// Starts with what is on the server now: that is what the collector has listed, and from here on it watches.
    #[must_use]
    pub fn new(server: &ApiServer, assumptions: Assumptions) -> Self {
        let mut plane = Self::start(server, Arc::new(server.discover()), assumptions, Company::Others);
        plane.list_all(server);
        plane
    }

    /// The same without the collector: for a cluster in which another one runs, or none.
    #[must_use]
    pub fn without_collector(server: &ApiServer, assumptions: Assumptions) -> Self {
        // A collector that never hears of any kind watches nothing and asks for nothing.
        Self::start(server, Arc::default(), assumptions, Company::OthersAndNoCollector)
    }

    /// Starts on a server that nobody else writes to, with kinds that stay as they are.
    pub(super) fn alone(server: &mut ApiServer, catalog: Arc<Catalog>, assumptions: Assumptions) -> Self {
        let mut plane = Self::start(server, catalog, assumptions, Company::Nobody);
        // The first outputs ask for kinds and watches; calls come once every list is in.
        plane.pull(server);
        plane
    }

    /// From here on only kubelets end pods: those of the nodes that are on the server, as long as these report. A pod without a node, or on a node that
    /// is gone, does not report or is out of service, waits for the collector of pods. Whether a node reports counts when the grace period ends.
    ///
    /// Without this, all pods that are being deleted end after their grace period, as [`Assumptions::pods_end`] says.
    #[must_use]
    pub fn with_kubelets(mut self, server: &ApiServer) -> Self {
        self.environment.have_kubelets(Kubelets::on(server));
        self
    }

    /// Starts beside cleaners, which see the changes for themselves. The kinds stay as they are.
    pub(crate) fn beside_cleaners(server: &ApiServer, assumptions: Assumptions, kubelets: Kubelets) -> Self {
        let catalog = Arc::new(server.catalog().clone());
        let mut plane = Self::start(server, catalog, assumptions, Company::Cleaners);
        plane.environment.have_kubelets(kubelets);
        plane.list_all(server);
        plane
    }

    fn start(server: &ApiServer, catalog: Arc<Catalog>, assumptions: Assumptions, company: Company) -> Self {
        let version = server.version();
        let mut settings = Settings::new(version).as_upstream();
        settings.discovery_period = None;
        let now = server.now();
        let mut plane = Self {
            delivered: server.revision(),
            collector: Collector::new(settings),
            environment: Environment::new(version, assumptions),
            monitors: BTreeMap::new(),
            backlog: VecDeque::new(),
            now,
            began: now,
            last_change: now,
            steps: Vec::new(),
            warnings: Vec::new(),
            company,
            kinds_changed: false,
        };
        plane.tell(Input::Catalog {
            catalog,
            failed: Vec::new(),
        });
        plane.environment.notice_all(server, now);
        plane
    }

    /// Does one thing: shows changes, or performs one call of the collector, or lets somebody else act once.
    pub fn step(&mut self, server: &mut ApiServer) -> Turn {
        if server.now() > self.now {
            self.now = server.now();
            self.tell(Input::Tick);
        }
        self.notice(server);
        if std::mem::take(&mut self.kinds_changed) {
            self.tell(Input::Catalog {
                catalog: Arc::new(server.discover()),
                failed: Vec::new(),
            });
        }
        if self.deliver(server) {
            return Turn::Saw;
        }
        match self.pull_call(server) {
            Ok((ask, answer)) => {
                self.notice(server);
                Turn::Called {
                    ask: Box::new(ask),
                    answer: Box::new(answer),
                }
            }
            Err(_) if self.act(server) => Turn::Acted,
            Err(retry_at) => Turn::Idle {
                certain_at: self.environment.next_certain(server),
                retry_at: retry_at.into_iter().chain(self.environment.next_retry()).min(),
            },
        }
    }

    /// The writes so far, with their reasons.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The collector's warnings so far.
    #[must_use]
    pub fn warnings(&self) -> &[InvalidNamespace] {
        &self.warnings
    }

    /// The collector.
    #[must_use]
    pub const fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Lets somebody else act once. Answers whether there was anything to do.
    pub(super) fn act(&mut self, server: &mut ApiServer) -> bool {
        let acted = self
            .environment
            .act(server, self.now, &mut self.steps, self.began);
        if acted {
            if let Some(step) = self.steps.last_mut()
                && step.changes.is_empty()
            {
                note_changes(server, self.delivered, step);
            }
            self.notice(server);
        }
        acted
    }

    /// Whether something that is tried again then may still work: something has changed not long before.
    pub(crate) fn has_hope(&self, at: Timestamp) -> bool {
        at <= self.last_change.saturating_add(PATIENCE)
    }

    /// Notes a write that a cleaner made, and sees what it changed.
    pub(crate) fn note(
        &mut self,
        server: &mut ApiServer,
        actor: Actor,
        act: Act,
        object: ObjectRef,
        code: u16,
        why: Why,
    ) {
        self.note_step(server, actor, act, object, code, why);
        self.notice(server);
    }

    /// Notes a write, with what it changed.
    pub(super) fn note_step(
        &mut self,
        server: &ApiServer,
        actor: Actor,
        act: Act,
        object: ObjectRef,
        code: u16,
        why: Why,
    ) {
        let mut step = Step {
            at: self.now.since(self.began),
            actor,
            act,
            object,
            code,
            changes: Vec::new(),
            why,
        };
        note_changes(server, self.delivered, &mut step);
        self.steps.push(step);
    }

    /// Up to which revision it has seen the changes.
    pub(crate) const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When something happens for sure, and when something is tried again beside the collector.
    pub(super) fn next_times(&self, server: &ApiServer) -> (Option<Timestamp>, Option<Timestamp>) {
        (
            self.environment.next_certain(server),
            self.environment.next_retry(),
        )
    }

    /// Lists what the collector wants to watch. It makes no call before it has seen every list.
    fn list_all(&mut self, server: &ApiServer) {
        while self.collector.monitors().any(|(_, _, synced)| !synced) {
            match self.collector.poll_output() {
                Output::Watch(monitor) => self.list(server, monitor),
                Output::Event(warning) => self.warnings.push(*warning),
                Output::Discover | Output::Unwatch(_) => {}
                // A call comes only after the last list.
                Output::Call(_) | Output::Wait(_) => return,
            }
        }
    }

    /// Performs all that the collector asks for now. Answers when it wants to try again.
    pub(super) fn pull(&mut self, server: &mut ApiServer) -> Option<Timestamp> {
        loop {
            match self.pull_call(server) {
                Ok(_) => self.deliver(server),
                Err(retry_at) => return retry_at,
            };
        }
    }

    /// Performs the collector's next call; without one, when it wants to try again.
    fn pull_call(&mut self, server: &mut ApiServer) -> Result<(Ask, Answer), Option<Timestamp>> {
        loop {
            match self.collector.poll_output() {
                Output::Discover => {}
                Output::Watch(monitor) => self.list(server, monitor),
                Output::Unwatch(monitor) => self.monitors.retain(|_, known| *known != monitor),
                Output::Event(warning) => self.warnings.push(*warning),
                Output::Call(call) => {
                    let answer = self.perform(server, &call.ask);
                    self.tell(Input::Answer {
                        call: call.id,
                        answer: answer.clone(),
                    });
                    return Ok((call.ask, answer));
                }
                Output::Wait(wait) => {
                    return Err(wait.until.filter(|_| wait.why != WaitReason::Events));
                }
            }
        }
    }

    fn list(&mut self, server: &ApiServer, monitor: MonitorId) {
        let Some(resource) = self.collector.monitor(monitor) else {
            return;
        };
        let Ok(kind) = server.resolve(&resource.group, &resource.version, &resource.resource) else {
            return;
        };
        self.monitors.insert(kind, monitor);
        self.tell(Input::Watch {
            monitor,
            event: WatchEvent::Init,
        });
        for object in server.objects(kind, None) {
            self.tell(Input::Watch {
                monitor,
                event: WatchEvent::InitApply(Arc::new(object.meta.clone())),
            });
        }
        self.tell(Input::Watch {
            monitor,
            event: WatchEvent::InitDone,
        });
    }

    /// Shows the collector and the others what has changed. Answers whether something had.
    pub(crate) fn deliver(&mut self, server: &mut ApiServer) -> bool {
        self.notice(server);
        let any = !self.backlog.is_empty();
        while let Some(seen) = self.backlog.pop_front() {
            self.show(seen);
        }
        any
    }

    /// Shows the others what has changed, and keeps it for the collector's watches.
    pub(crate) fn notice(&mut self, server: &mut ApiServer) {
        if server.revision() == self.delivered {
            return;
        }
        self.last_change = self.now;
        let changes = server.changes_since(self.delivered);
        let first = self.backlog.len();
        self.backlog.extend(changes.map(|change| Seen {
            kind: change.kind,
            event_type: change.event.event_type,
            object: Arc::clone(&change.event.object),
        }));
        self.delivered = server.revision();
        if self.company == Company::Nobody {
            server.prune_events(self.delivered);
        }
        for Seen {
            kind,
            event_type,
            object,
        } in self.backlog.range(first..)
        {
            self.environment
                .notice(server, *kind, *event_type, object, self.now);
            self.kinds_changed |= self.company == Company::Others
                && *server.catalog()[*kind].kind == *"CustomResourceDefinition";
        }
    }

    /// Shows the collector the first change of a kind that it has not seen.
    pub(crate) fn show_next(&mut self, kind: KindId) {
        let at = self.backlog.iter().position(|seen| seen.kind == kind);
        if let Some(seen) = at.and_then(|at| self.backlog.remove(at)) {
            self.show(seen);
        }
    }

    fn show(
        &mut self,
        Seen {
            kind,
            event_type,
            object,
        }: Seen,
    ) {
        let Some(&monitor) = self.monitors.get(&kind) else {
            return;
        };
        let meta = Arc::new(object.meta.clone());
        let event = match event_type {
            EventType::Added | EventType::Modified => WatchEvent::Apply(meta),
            EventType::Deleted => WatchEvent::Delete(meta),
        };
        self.tell(Input::Watch { monitor, event });
    }

    pub(crate) fn tell(&mut self, input: Input) {
        // Time only goes forward here, and only calls of this collector are answered.
        let told = self.collector.handle(self.now, input);
        debug_assert!(told.is_ok(), "{told:?}");
    }
}
