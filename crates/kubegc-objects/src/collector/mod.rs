//! The owner-reference collector of one cluster, without I/O, clock or randomness.
//!
//! A driver repeats three steps:
//!
//! 1. Pull [`Collector::poll_output`] while more calls can be started. Stopping early is fine.
//! 2. Perform the outputs. Calls can run concurrently.
//! 3. Pass every response, watch event and passing of time to [`Collector::handle`].
//!
//! Decisions are made elsewhere: the [`Graph`] queues nodes, and attempts return requests. The collector has
//! the queues, the workers, the timers and the monitors.

mod fingerprint;
mod io;
mod monitors;
mod timers;
mod workers;

use std::{collections::VecDeque, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use kubegc_core::{ApiResource, Catalog, ObjectRef, Timestamp, version::behavior};

pub use self::{
    fingerprint::FingerprintOptions,
    io::{Call, CallId, Input, Misuse, MonitorId, NotRunning, Output, Wait, WaitReason},
};
use self::{
    monitors::Monitors,
    timers::{Timer, Timers},
    workers::{ActiveAttempt, Queue},
};
use crate::{
    Settings,
    absent_owners::AbsentOwners,
    graph::{Effect, Event, Graph, NodeId},
    request::{Lane, Request},
};
pub use crate::{
    attempt::DigestObject,
    effect::InvalidNamespace,
    request::{AttemptError, Conclusion, WatchEvent},
};

/// The collector of one cluster.
///
/// # Guarantees
/// The same settings and inputs give the same outputs ([G-8](crate::rules#g-8)). Each call gets one response,
/// and a write depends on reads made for it. The cost of an input is bounded by its change: O(references) for
/// most events, O(dependents) if an owner is removed.
///
/// # Assumptions
/// Time never goes backwards. Events of one resource arrive in order ([G-14](crate::rules#g-14)); those of
/// different resources, and responses, in any order.
///
/// # Upstream
/// `GarbageCollector` in
/// [`garbagecollector.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/garbagecollector.go)
/// and `GraphBuilder` in
/// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
/// 1.13 to 1.36; rules
/// [W-1](crate::rules#w-1) to [W-6](crate::rules#w-6) and [G-10](crate::rules#g-10) to
/// [G-23](crate::rules#g-23). Two things are immediate here that upstream leaves to scheduling: an event is
/// processed when it is passed in, and a virtual delete right after the attempt that caused it.
///
/// # Examples
/// A ConfigMap names an owner that does not exist. The collector looks the owner up, reads the ConfigMap and
/// deletes it.
/// ```
/// use std::sync::Arc;
/// use kubegc_core::{ApiResource, Catalog, KubernetesVersion, ObjectMeta, OwnerReference, Scope, Timestamp};
/// use kubegc_objects::{Collector, Input, Operation, Output, Response, Settings, WatchEvent};
///
/// let mut catalog = Catalog::new();
/// catalog.add(ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced))?;
/// let catalog = Arc::new(catalog);
/// let mut meta = ObjectMeta::new("shop", "settings", "u2");
/// meta.owner_references.push(OwnerReference {
///     api_version: "v1".into(),
///     kind: "ConfigMap".into(),
///     name: "absent".into(),
///     uid: "u1".into(),
///     controller: None,
///     block_owner_deletion: None,
/// });
/// let meta = Arc::new(meta);
///
/// let now = Timestamp::EPOCH;
/// let mut collector = Collector::new(Settings::new(KubernetesVersion::LATEST));
/// let mut requests = Vec::new();
/// loop {
///     match collector.poll_output() {
///         Output::Discover => {
///             let catalog = Arc::clone(&catalog);
///             collector.handle(now, Input::Catalog { catalog, failed: Vec::new() })?;
///         }
///         Output::Watch(monitor) => {
///             let list = WatchEvent::InitApply(vec![Arc::clone(&meta)]);
///             for event in [WatchEvent::Init, list, WatchEvent::InitDone] {
///                 collector.handle(now, Input::Watch { monitor, event })?;
///             }
///         }
///         Output::Call(call) => {
///             let request = &call.request;
///             let response = match request.operation {
///                 Operation::Get if request.target.name == meta.name => Response::Found(Arc::clone(&meta)),
///                 Operation::Get => Response::NotFound,
///                 _ => Response::Applied(None),
///             };
///             requests.push(request.reason.name());
///             collector.handle(now, Input::Response { call: call.id, response })?;
///         }
///         Output::Unwatch(_) | Output::Event(_) => {}
///         Output::Wait(_) => break,
///     }
/// }
/// assert_eq!(requests, ["VerifyItem", "VerifyItem", "NoOwnerLeft"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Collector {
    settings: Settings,
    now: Timestamp,
    catalog: Arc<Catalog>,
    graph: Graph,
    absent: AbsentOwners,
    monitors: Monitors,
    /// That of attemptToDelete, then that of attemptToOrphan.
    queues: [Queue; 2],
    attempts: Vec<Option<ActiveAttempt>>,
    /// Attempts that a response or a pause resumes, by call.
    calls: HashMap<CallId, (usize, Lane), FixedState>,
    /// Requests that no driver has pulled yet.
    requests: VecDeque<(usize, Lane, Request)>,
    timers: Timers,
    /// Orphan attempts that may have more requests.
    orphans_to_poll: VecDeque<usize>,
    control: VecDeque<Output>,
    effects: Vec<Effect>,
    virtual_deletes: VecDeque<ObjectRef>,
    conclusions: Vec<(ObjectRef, Conclusion)>,
    calls_made: u64,
    /// Which queue a free worker polls first.
    orphan_next: bool,
    running: bool,
    /// Whether workers that had started wait for new monitors to sync, which releases up to 1.31 do
    /// ([G-20](crate::rules#g-20)).
    pausing: bool,
    /// Items that workers took before they noticed the pause ([G-23](crate::rules#g-23)), each with whether
    /// it is to be orphaned.
    held: VecDeque<(NodeId, bool)>,
}

impl Collector {
    /// Creates an empty collector. Its first output is [`Output::Discover`].
    pub fn new(settings: Settings) -> Self {
        let by_uid = !settings.version.has(behavior::OWNERS_ARE_VERIFIED);
        Self {
            graph: Graph::new(settings.version),
            absent: AbsentOwners::new(settings.absent_owners_max, by_uid),
            queues: Default::default(),
            settings,
            now: Timestamp::from_nanos(i64::MIN),
            catalog: Arc::new(Catalog::new()),
            monitors: Monitors::default(),
            attempts: Vec::new(),
            calls: HashMap::default(),
            requests: VecDeque::new(),
            timers: Timers::default(),
            orphans_to_poll: VecDeque::new(),
            control: VecDeque::from([Output::Discover]),
            effects: Vec::new(),
            virtual_deletes: VecDeque::new(),
            conclusions: Vec::new(),
            calls_made: 0,
            orphan_next: false,
            running: false,
            pausing: false,
            held: VecDeque::new(),
        }
    }

    /// Processes one input. Any number of inputs is allowed between polls.
    ///
    /// # Errors
    /// The input is invalid; nothing has changed.
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Result<(), Misuse> {
        if now < self.now {
            return Err(Misuse::TimeWentBack { last: self.now });
        }
        match input {
            Input::Tick => self.pass_time(now),
            Input::Catalog { catalog, failed } => {
                self.pass_time(now);
                self.follow_catalog(&catalog, &failed);
            }
            Input::Watch { monitor, event } => {
                if self.monitors.resource(monitor).is_none() {
                    return Err(Misuse::UnknownMonitor(monitor));
                }
                self.pass_time(now);
                let strict = self.settings.is_strict();
                self.monitors
                    .deliver(monitor, event, strict, &mut self.graph, &mut self.effects);
                self.apply_effects();
                self.start_if_synced();
            }
            Input::Response { call, response } => {
                let Some((work, lane)) = self.calls.remove(&call) else {
                    return Err(Misuse::UnknownCall(call));
                };
                self.pass_time(now);
                self.resume(work, lane, response);
            }
        }
        Ok(())
    }

    /// Returns the next output, or the reason for waiting. The driver can stop pulling when it is busy.
    pub fn poll_output(&mut self) -> Output {
        if let Some(output) = self.control.pop_front() {
            return output;
        }
        // Requests wait while the limit of concurrent calls is reached.
        let room = self
            .settings
            .calls_in_flight_max
            .is_none_or(|max| self.calls.len() < max.get() as usize);
        if room { self.next_call() } else { None }.unwrap_or_else(|| Output::Wait(self.wait()))
    }

    /// The next call, or another output that resulted from the search for one.
    fn next_call(&mut self) -> Option<Output> {
        loop {
            if let Some((work, lane, request)) = self.requests.pop_front() {
                self.calls_made += 1;
                let id = CallId(self.calls_made);
                self.calls.insert(id, (work, lane));
                return Some(Output::Call(Call { id, request }));
            }
            // Each iteration takes an item from a queue or a step from an orphan attempt.
            if !self.poll_orphans() && !self.start_work() {
                return None;
            }
            if let Some(output) = self.control.pop_front() {
                return Some(output);
            }
        }
    }

    pub fn monitor(&self, monitor: MonitorId) -> Option<&ApiResource> {
        self.monitors.resource(monitor)
    }

    /// All monitored resources, and whether each has delivered its list.
    pub fn monitors(&self) -> impl Iterator<Item = (MonitorId, &ApiResource, bool)> {
        self.monitors.iter()
    }

    /// Why nothing is collected; `None` while the workers run. [`monitors`](Self::monitors) lists the missing
    /// resources.
    pub fn not_running(&self) -> Option<NotRunning> {
        (!self.running).then_some(NotRunning {
            paused: self.pausing,
            starts_at: self.timers.get(Timer::Start),
        })
    }

    /// Starts the workers without the missing lists, as after
    /// [`Settings::initial_sync_timeout`](crate::Settings::initial_sync_timeout). It has no effect in
    /// releases up to 1.31, which wait for all of them ([G-16](crate::rules#g-16)).
    pub fn start_unsynced(&mut self) {
        if self.timers.get(Timer::Start).is_some() {
            self.start_workers();
        }
    }

    /// The catalog of the calls' [`KindId`](kubegc_core::KindId)s. Positions stay valid as kinds are added
    /// and removed.
    pub const fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Number of calls without a response.
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    /// Number of calls since the start.
    pub const fn calls_made(&self) -> u64 {
        self.calls_made
    }

    /// The conclusions of attempts since the last call, if the settings record them.
    pub fn take_conclusions(&mut self) -> Vec<(ObjectRef, Conclusion)> {
        std::mem::take(&mut self.conclusions)
    }

    fn follow_catalog(&mut self, catalog: &Catalog, failed: &[String]) {
        self.timers.cancel(Timer::Discover);
        if let Some(period) = self.settings.discovery_period {
            self.timers.set(Timer::Discover, self.now.saturating_add(period));
        }
        // An empty or unchanged result is ignored (G-18, G-19).
        if catalog.is_empty() || (*catalog == *self.catalog && failed.is_empty()) {
            return;
        }
        // Positions of kinds that stay are kept: running requests use them.
        Arc::make_mut(&mut self.catalog).update(catalog);
        let changes = self
            .monitors
            .follow(&self.catalog, failed, &self.settings, &mut self.graph);
        self.control
            .extend(changes.stopped.into_iter().map(Output::Unwatch));
        if !changes.started.is_empty() && !self.settings.version.has(behavior::STARTS_WITHOUT_FULL_SYNC) {
            self.pausing |= self.running;
            self.running = false;
        }
        self.control
            .extend(changes.started.into_iter().map(Output::Watch));
        if !self.running && self.settings.version.has(behavior::STARTS_WITHOUT_FULL_SYNC) {
            let at = self.now.saturating_add(self.settings.initial_sync_timeout);
            self.timers.set(Timer::Start, at);
        }
        self.start_if_synced();
    }

    /// Starts the workers when all monitors have their lists ([G-16](crate::rules#g-16),
    /// [G-20](crate::rules#g-20)).
    fn start_if_synced(&mut self) {
        if !self.running && self.monitors.all_synced() {
            self.start_workers();
        }
    }

    fn start_workers(&mut self) {
        self.running = true;
        self.pausing = false;
        self.timers.cancel(Timer::Start);
    }

    fn pass_time(&mut self, now: Timestamp) {
        self.now = now;
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Discover => self.control.push_back(Output::Discover),
                Timer::Start => self.start_workers(),
                Timer::Retry { node, orphan } => self.enqueue(node, orphan),
                Timer::Resume(attempt) => self.wake(attempt as usize),
            }
        }
    }

    fn enqueue(&mut self, node: NodeId, orphan: bool) {
        if !self.queue_mut(orphan).items.add(node) {
            self.graph.release(node);
        }
    }

    /// Applies the effects of the graph and of attempts.
    fn apply_effects(&mut self) {
        while !(self.effects.is_empty() && self.virtual_deletes.is_empty()) {
            // Swapped out, so that the buffer keeps its capacity.
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
                match effect {
                    Effect::AttemptToDelete(node) => self.enqueue(node, false),
                    Effect::AttemptToOrphan(node) => self.enqueue(node, true),
                    Effect::AttemptToDeleteRateLimited(node) => self.enqueue_rate_limited(node, false),
                    Effect::OwnerAbsent(owner) => {
                        self.absent.insert(*owner);
                    }
                    Effect::VirtualDelete(identity) => self.virtual_deletes.push_back(*identity),
                    Effect::Warn(warning) => self.control.push_back(Output::Event(warning)),
                }
            }
            self.effects = effects;
            if let Some(identity) = self.virtual_deletes.pop_front() {
                let event = Event::VirtualDeleted { identity: &identity };
                self.graph.apply(&event, &mut self.effects);
            }
        }
    }

    fn wait(&self) -> Wait {
        // The two other timers precede at most.
        let has_work = self.timers.iter().any(|(_, timer)| timer.is_work());
        let why = if !self.running {
            WaitReason::Sync
        } else if !self.calls.is_empty() {
            WaitReason::Responses
        } else if has_work {
            WaitReason::Retries
        } else {
            WaitReason::Events
        };
        Wait {
            until: self.timers.iter().next().map(|(at, _)| at),
            why,
        }
    }
}
