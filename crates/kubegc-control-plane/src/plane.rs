//! The control plane as one state machine over an API server.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use kubegc_controllers::{Controller, Manager, Wire, default_controllers};
use kubegc_core::{
    Catalog, KindId, KubernetesVersion, Timestamp,
    record::{ObjectId, Resource},
    store::Discovered,
};
use kubegc_objects::{
    Call, Collector, Input, Output, Request, Response, Settings as CollectorSettings, WatchEvent,
    collector::{InvalidNamespace, MonitorId, WaitReason},
};
use kubegc_sim::{ApiServer, Event, EventType, StoredObject};

use crate::{
    AggregatedApi, Assumptions, Change, Outcome, Step, aggregation, object_ref,
    outside::Outside,
    perform::Requests,
    trace::{Trace, is_identity},
    workloads::{Player, Workloads},
};

#[derive(Clone, Debug)]
pub struct Settings {
    /// The controllers other than the garbage collector. Default: all that kube-controller-manager runs by
    /// default.
    pub controllers: Vec<Arc<dyn Controller>>,
    /// Whether the garbage collector runs. Default: it does.
    pub collector_runs: bool,
    /// Whether a pod ends only if its node is on the server and its kubelet runs. Default: all pods end.
    pub nodes_matter: bool,
    /// Kubelets do not end the pods whose grace period ended before this time: they have not done so either.
    /// Default: the epoch.
    pub pods_end_from: Timestamp,
    /// Resources of which the server does not have all objects. No controller relies on the absence of such
    /// an object. Default: none.
    pub incomplete: BTreeSet<Resource>,
    /// Whether no other client defines kinds or reads the log of changes. Default: other clients may.
    pub is_alone: bool,
    /// The APIs of extension API servers, by name of their APIService. They have an effect only with
    /// [`is_alone`](Self::is_alone). Default: none.
    pub aggregated_apis: BTreeMap<Arc<str>, AggregatedApi>,
    pub assumptions: Arc<Assumptions>,
    /// The controllers that create workloads, the scheduler and the kubelets, by the rules of a test; with
    /// them, [nodes matter](Self::nodes_matter). Default: they do not act.
    pub workloads: Option<Arc<Workloads>>,
}

impl Settings {
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            controllers: default_controllers(version),
            collector_runs: true,
            nodes_matter: false,
            pods_end_from: Timestamp::EPOCH,
            incomplete: BTreeSet::new(),
            is_alone: false,
            aggregated_apis: BTreeMap::new(),
            assumptions: Arc::default(),
            workloads: None,
        }
    }
}

/// A change that the garbage collector has not observed yet.
#[derive(Clone, Debug)]
struct Pending {
    kind: KindId,
    event_type: EventType,
    object: Arc<StoredObject>,
    /// Whether the object can be converted to the version that the garbage collector watches. Otherwise its
    /// watch fails.
    is_convertible: bool,
}

/// A simulated control plane: the garbage collector, controllers, kubelets and the API server's own
/// controllers.
///
/// It contains no objects: every step works on the server that is passed to it, always the same one. Between
/// steps any client may write to that server and advance its time. The garbage collector behaves as
/// upstream's in the server's version, and watches a new kind as soon as it is served.
///
/// # Complexity
/// A step costs the sum of its requests; [`new`](Self::new) reads every object.
///
/// # Examples
/// See [`Simulation`](crate::Simulation).
#[derive(Clone, Debug)]
pub struct ControlPlane {
    collector: Collector,
    pub(crate) outside: Outside,
    pub(crate) manager: Manager,
    /// The resource of each kind that controllers read.
    pub(crate) kinds: BTreeMap<KindId, Resource>,
    pub(crate) requests: Requests,
    /// The result of discovery, if no other client defines kinds or reads the log of changes.
    pub(crate) discovered: Option<Arc<Discovered>>,
    pub(crate) assumptions: Arc<Assumptions>,
    monitors: BTreeMap<KindId, MonitorId>,
    /// The monitors whose lists have failed.
    unlisted: Vec<MonitorId>,
    /// The revision up to which changes were observed.
    pub(crate) observed: u64,
    backlog: VecDeque<Pending>,
    /// The garbage collector's requests that were not sent yet, one for each of its workers.
    in_flight: VecDeque<Call>,
    pub(crate) now: Timestamp,
    pub(crate) began: Timestamp,
    last_change: Timestamp,
    pub(crate) trace: Trace,
    /// The number of steps whose changes were observed.
    observed_steps: usize,
    warnings: Vec<InvalidNamespace>,
    /// Objects of requests that the server did not have.
    pub(crate) not_found: BTreeSet<ObjectId>,
    kinds_changed: bool,
    aggregated_apis: BTreeMap<Arc<str>, AggregatedApi>,
    pub(crate) player: Player,
}

/// The result of one step of a [`ControlPlane`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// The garbage collector sent a request.
    Requested {
        request: Box<Request>,
        response: Box<Response>,
    },
    Observed,
    /// Another actor acted. Its writes are the last of [`steps`](ControlPlane::steps).
    Acted,
    /// There is nothing to do until a client writes or time advances.
    Idle(Idle),
}

/// The times at which an idle control plane has something to do again.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// The time of the next certain event, such as the end of a pod.
    pub certain_at: Option<Timestamp>,
    /// The time of the next retry of a failed request.
    pub retry_at: Option<Timestamp>,
    /// The time when a controller reconciles the next key.
    pub scheduled_at: Option<Timestamp>,
}

impl Idle {
    pub fn next_at(&self) -> Option<Timestamp> {
        let all = self.certain_at.into_iter().chain(self.retry_at);
        all.chain(self.scheduled_at).min()
    }
}

impl ControlPlane {
    /// A control plane that has listed the objects of the server and watches from there.
    pub fn new(server: &ApiServer, settings: Settings) -> Self {
        let manager = Manager::new(settings.controllers.clone(), Wire::AsUpstream, server.now());
        let mut plane = Self::with_manager(server, settings.clone(), manager.into_simulation());
        plane.list_records(server, &settings.incomplete);
        plane
    }

    /// A control plane with controllers that have listed their resources. [`Settings::controllers`] and
    /// [`Settings::incomplete`] (except for nodes) have no effect.
    pub fn with_manager(server: &ApiServer, settings: Settings, manager: Manager) -> Self {
        let mut collector = CollectorSettings::new(server.version()).as_upstream();
        collector.discovery_period = None;
        let catalog = Arc::new(server.discover());
        let mut discovered = Discovered::from(Catalog::clone(&catalog));
        aggregation::set_failed(&mut discovered, &settings.aggregated_apis, server.version());
        let discovered = Arc::new(discovered);
        let mut kinds = BTreeMap::new();
        for resource in manager.resources() {
            let of_resource = |kind: &kubegc_core::ApiResource| {
                *kind.group == *resource.group() && *kind.resource == *resource.plural()
            };
            let ids = catalog.iter().filter(|(_, kind)| of_resource(kind));
            kinds.extend(ids.map(|(id, _)| (id, resource)));
        }
        let nodes_matter = settings.nodes_matter || settings.workloads.is_some();
        let requests = Requests::new(&discovered);
        let has_all_nodes = nodes_matter.then(|| !settings.incomplete.contains(&Resource::Nodes));
        let now = server.now();
        let assumptions = Arc::clone(&settings.assumptions);
        let mut plane = Self {
            collector: Collector::new(collector),
            outside: Outside::new(server, assumptions, has_all_nodes, settings.pods_end_from),
            manager,
            kinds,
            requests,
            discovered: settings.is_alone.then_some(discovered),
            assumptions: settings.assumptions,
            monitors: BTreeMap::new(),
            unlisted: Vec::new(),
            observed: server.revision(),
            backlog: VecDeque::new(),
            in_flight: VecDeque::new(),
            now,
            began: now,
            last_change: now,
            trace: Trace::default(),
            observed_steps: 0,
            warnings: Vec::new(),
            not_found: BTreeSet::new(),
            kinds_changed: false,
            aggregated_apis: settings.aggregated_apis,
            player: Player {
                rules: settings.workloads,
                ..Player::default()
            },
        };
        // A collector without kinds watches nothing and sends no requests.
        plane.set_catalog(match settings.collector_runs {
            true => catalog,
            false => Arc::default(),
        });
        plane.outside.observe_all(server, now);
        if settings.collector_runs {
            plane.list_all(server);
            plane.collector.start_unsynced();
        }
        plane
    }

    /// Performs one step: the garbage collector observes changes or sends one request, or another actor acts.
    pub fn step(&mut self, server: &mut ApiServer) -> StepResult {
        self.advance_to(server.now());
        self.observe(server);
        if std::mem::take(&mut self.kinds_changed) && !self.collector.catalog().is_empty() {
            self.set_catalog(Arc::new(server.discover()));
        }
        if self.deliver(server) {
            return StepResult::Observed;
        }
        match self.request_next(server) {
            Ok((request, response)) => StepResult::Requested {
                request: Box::new(request),
                response: Box::new(response),
            },
            Err(_) if self.act(server) => StepResult::Acted,
            Err(retry_at) => StepResult::Idle(self.idle(retry_at)),
        }
    }

    /// Completes the work that the first lists of the garbage collector cause, as in a garbage collector that
    /// has been running. No time passes, and no other actor acts.
    pub fn settle_collector(&mut self, server: &mut ApiServer) {
        loop {
            self.deliver(server);
            if self.request_next(server).is_err() {
                self.collector.age_retries();
                return;
            }
        }
    }

    /// The times of the next work, given the next retry of the garbage collector.
    pub fn idle(&self, retry_at: Option<Timestamp>) -> Idle {
        // A namespace in which objects were removed has fewer remaining objects at its next sync.
        let shrunk = self.outside.shrunk().filter_map(|(namespace, at)| {
            let key = kubegc_controllers::Key::cluster(Arc::clone(namespace));
            let due = self.manager.due_at("namespace-controller", &key)?;
            (due > at).then_some(due)
        });
        let certain = self.outside.next_end().into_iter().chain(self.player.due);
        let retries = retry_at.into_iter().chain(self.outside.definitions_at);
        Idle {
            certain_at: certain.chain(shrunk).min(),
            retry_at: retries.min(),
            scheduled_at: self.manager.next_at(),
        }
    }

    pub fn steps(&self) -> &[Step] {
        &self.trace.steps
    }

    /// The writes so far, with an index.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the writes and the warnings, and drops the rest.
    pub fn into_trace(self) -> (Trace, Vec<InvalidNamespace>) {
        (self.trace, self.warnings)
    }

    pub fn warnings(&self) -> &[InvalidNamespace] {
        &self.warnings
    }

    pub const fn collector(&self) -> &Collector {
        &self.collector
    }

    /// The APIs of extension API servers that are not available, by name of their APIService.
    pub fn unavailable_apis(&self) -> impl Iterator<Item = (&Arc<str>, &AggregatedApi)> {
        self.aggregated_apis
            .iter()
            .filter(|(_, api)| api.failure.is_some())
    }

    pub const fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Objects that controllers requested and that do not exist on the server.
    pub fn not_found(&self) -> impl Iterator<Item = &ObjectId> {
        self.not_found.iter()
    }

    pub const fn now(&self) -> Timestamp {
        self.now
    }

    pub const fn began(&self) -> Timestamp {
        self.began
    }

    /// The time of the last change of an object.
    pub const fn last_change(&self) -> Timestamp {
        self.last_change
    }

    /// Performs one action of an actor other than the garbage collector. Returns whether there was anything
    /// to do.
    pub fn act(&mut self, server: &mut ApiServer) -> bool {
        let Some(step) = self
            .outside
            .act(server, self.now, (&self.requests, &self.manager))
        else {
            return self.reconcile(server) || self.play(server);
        };
        if let Some(step) = step {
            self.record_step(server, step, None);
        }
        self.observe(server);
        true
    }

    pub fn advance_to(&mut self, now: Timestamp) {
        if now > self.now {
            self.now = now;
            self.handle(Input::Tick);
        }
    }

    pub(crate) fn record_step(&mut self, server: &ApiServer, mut step: Step, trigger: Option<usize>) {
        step.at = self.now.since(self.began);
        let requested = Arc::clone(&step.object);
        self.trace.record(step, trigger);
        let changes = server.changes_since(self.observed).map(|change| {
            let event = &change.event;
            let meta = &event.object.meta;
            let outcome = match event.event_type {
                EventType::Deleted => Outcome::Removed,
                EventType::Added => Outcome::Created,
                EventType::Modified if meta.is_deleting() => Outcome::Terminating,
                EventType::Modified => Outcome::Changed,
            };
            let before = event.previous.as_ref().unwrap_or(&event.object);
            let object = match is_identity(server, change.kind, meta, &requested) {
                true => Arc::clone(&requested),
                false => Arc::new(object_ref(server, change.kind, meta)),
            };
            let change = Change { object, outcome };
            (change, &*before.meta.owner_references, &*meta.owner_references)
        });
        self.trace.add_changes(changes);
    }

    /// Lists the resources that the garbage collector watches. It sends no request before that.
    fn list_all(&mut self, server: &ApiServer) {
        while self.poll_collector(server).is_none() && self.collector.monitors().any(|(_, _, synced)| !synced)
        {
        }
    }

    /// Sends the next request of the garbage collector, or returns the time of its next retry. Its workers
    /// alternate, request by request.
    fn request_next(&mut self, server: &mut ApiServer) -> Result<(Request, Response), Option<Timestamp>> {
        let retry_at = loop {
            match self.poll_collector(server) {
                Some(Output::Call(call)) => self.in_flight.push_back(call),
                Some(Output::Wait(wait)) => break wait.until.filter(|_| wait.why != WaitReason::Events),
                _ => {}
            }
        };
        let call = self.in_flight.pop_front().ok_or(retry_at)?;
        let response = self.perform(server, &call.request);
        self.observe(server);
        self.handle(Input::Response {
            call: call.id,
            response: response.clone(),
        });
        Ok((call.request, response))
    }

    /// The next request of the garbage collector, or the event that it waits for. Lists and warnings are
    /// handled.
    pub fn poll_collector(&mut self, server: &ApiServer) -> Option<Output> {
        match self.collector.poll_output() {
            Output::Discover => {}
            Output::Watch(monitor) => self.list(server, monitor),
            Output::Unwatch(monitor) => self.monitors.retain(|_, known| *known != monitor),
            Output::Event(warning) => self.warnings.push(*warning),
            output @ (Output::Call(_) | Output::Wait(_)) => return Some(output),
        }
        None
    }

    fn list(&mut self, server: &ApiServer, monitor: MonitorId) {
        let Some(resource) = self.collector.monitor(monitor) else {
            return;
        };
        let Ok(kind) = server.resolve(&resource.group, &resource.version, &resource.resource) else {
            return;
        };
        if server.is_unlistable(kind) {
            self.unlisted.push(monitor);
            return;
        }
        self.monitors.insert(kind, monitor);
        let objects = server.objects(kind, None).into_iter();
        let list = objects.map(|object| object.meta.clone().into()).collect();
        for event in [
            WatchEvent::Init,
            WatchEvent::InitApply(list),
            WatchEvent::InitDone,
        ] {
            self.handle(Input::Watch { monitor, event });
        }
    }

    /// Delivers pending changes to the garbage collector. Returns whether there were any.
    pub fn deliver(&mut self, server: &mut ApiServer) -> bool {
        self.observe(server);
        // A list succeeds as soon as no object is left that cannot be converted.
        for monitor in std::mem::take(&mut self.unlisted) {
            self.list(server, monitor);
        }
        let any = !self.backlog.is_empty();
        while let Some(pending) = self.backlog.pop_front() {
            self.deliver_change(pending);
        }
        any
    }

    /// Delivers pending changes to controllers and kubelets, and retains them for the garbage collector.
    pub fn observe(&mut self, server: &mut ApiServer) {
        if server.revision() == self.observed {
            return;
        }
        self.last_change = self.now;
        // Changes come from the last step, or else from another client.
        let steps = self.trace.steps.len();
        let cause = (steps > self.observed_steps).then(|| steps.saturating_sub(1));
        self.observed_steps = steps;
        self.manager.set_cause(cause);
        (self.player.is_settled, self.player.cause) = (false, cause);
        let changes = server.changes_since(self.observed);
        let changes: Vec<(KindId, Event)> = changes
            .map(|change| (change.kind, change.event.clone()))
            .collect();
        self.observed = server.revision();
        if self.discovered.is_some() {
            server.prune_events(self.observed);
        }
        for (kind, event) in changes {
            let (event_type, object) = (event.event_type, &event.object);
            self.outside.observe(server, kind, event_type, object, self.now);
            let resource = &server.catalog()[kind];
            self.kinds_changed |= self.discovered.is_none() && *resource.kind == *"CustomResourceDefinition";
            if event_type == EventType::Deleted
                && aggregation::follow_deletion(&mut self.aggregated_apis, resource, &object.meta)
                && let Some(discovered) = &mut self.discovered
            {
                aggregation::set_failed(Arc::make_mut(discovered), &self.aggregated_apis, server.version());
            }
            if let Some(&resource) = self.kinds.get(&kind) {
                self.deliver_to_controllers(server, resource, kind, &event);
            }
            self.backlog.push_back(Pending {
                kind,
                event_type,
                is_convertible: server.broken_conversion(kind).is_none(),
                object: event.object,
            });
        }
    }

    /// The kinds of changes that the garbage collector has not observed yet.
    pub fn pending_kinds(&self) -> BTreeSet<KindId> {
        self.backlog.iter().map(|pending| pending.kind).collect()
    }

    /// The changes that the garbage collector has not observed yet, in order.
    pub fn pending(&self) -> impl Iterator<Item = (KindId, EventType, &StoredObject)> {
        let pending = self.backlog.iter();
        pending.map(|pending| (pending.kind, pending.event_type, &*pending.object))
    }

    /// Delivers the first pending change of a kind to the garbage collector.
    pub fn deliver_next(&mut self, kind: KindId) {
        let at = self.backlog.iter().position(|pending| pending.kind == kind);
        if let Some(pending) = at.and_then(|at| self.backlog.remove(at)) {
            self.deliver_change(pending);
        }
    }

    fn deliver_change(&mut self, pending: Pending) {
        let monitor = self.monitors.get(&pending.kind);
        let Some(&monitor) = monitor.filter(|_| pending.is_convertible) else {
            return;
        };
        let meta = pending.object.meta.clone().into();
        let event = match pending.event_type {
            EventType::Added | EventType::Modified => WatchEvent::Apply(meta),
            EventType::Deleted => WatchEvent::Delete(meta),
        };
        self.handle(Input::Watch { monitor, event });
    }

    fn set_catalog(&mut self, catalog: Arc<Catalog>) {
        let failed = Vec::new();
        self.handle(Input::Catalog { catalog, failed });
    }

    pub fn handle(&mut self, input: Input) {
        // Time never goes backwards, and responses belong to calls of this collector.
        let handled = self.collector.handle(self.now, input);
        debug_assert!(handled.is_ok(), "{handled:?}");
    }
}
