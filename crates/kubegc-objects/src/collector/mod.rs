//! Schedules owner-reference collection for one cluster, without I/O, clock or entropy.
//!
//! The loop around a [`Collector`] has one shape:
//!
//! 1. Pull [`Collector::poll_output`] as long as there is room for more calls. Stopping early is fine.
//! 2. Perform what was pulled. Calls may run side by side.
//! 3. Hand in whatever happens, an answer, a watch event, the passing of time, with [`Collector::handle`]. Go to 1.
//!
//! Decisions are not made here: [`Graph`] says what to look at, [`delete::Attempt`](crate::delete::Attempt) and [`orphan::Attempt`](crate::orphan::Attempt)
//! say what to ask and do. The collector keeps the queues, the workers, the timers and the monitors.

mod explain;
mod fingerprint;
mod io;
mod monitors;
mod workers;

use std::{collections::VecDeque, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use kubegc_core::{ApiResource, Catalog, ObjectRef, Timestamp};

pub use self::{
    explain::{Explanation, OwnerInGraph},
    fingerprint::{Lens, Seen},
    io::{Call, CallId, Input, Misuse, MonitorId, NotRunning, Output, Wait, WaitReason, WatchEvent},
};
use self::{
    monitors::Monitors,
    workers::{Lane, Queue, Work},
};
use crate::{
    Graph, NodeId, Settings,
    absent_owners::AbsentOwners,
    call::{Ask, Conclusion},
    effect::Effect,
    graph::Event,
};

/// The collector of one cluster.
///
/// # Guarantees
/// The same settings and inputs give the same outputs. Each call is answered once; a write rests on reads made for it. Work an input causes is bounded by
/// what it changed: O(references) for most events, O(dependents) where an owner goes.
///
/// # Assumptions
/// Time never goes back. Events of one resource come in their order; those of different resources, and answers, in any.
///
/// # Upstream
/// `GarbageCollector` and `GraphBuilder` of `pkg/controller/garbagecollector`, 1.13 to 1.36; rules W-1 to W-6 and G-10 to G-23. Two things
/// happen at once here that upstream leaves to chance: an event is processed when it is handed in, and a virtual delete right after the attempt that
/// asked for it.
#[derive(Clone, Debug)]
pub struct Collector {
    settings: Settings,
    now: Timestamp,
    catalog: Arc<Catalog>,
    graph: Graph,
    absent: AbsentOwners,
    monitors: Monitors,
    attempt_to_delete: Queue,
    attempt_to_orphan: Queue,
    works: Vec<Option<Work>>,
    /// Works that an answer or a pause has to wake, by call.
    calls: HashMap<CallId, (usize, Lane), FixedState>,
    /// Requests that no driver has pulled yet.
    asks: VecDeque<(usize, Lane, Ask)>,
    sleeping: std::collections::BTreeMap<(Timestamp, usize), ()>,
    /// Orphan works that may have more dependents to begin with.
    unfolding: VecDeque<usize>,
    control: VecDeque<Output>,
    effects: Vec<Effect>,
    virtual_deletes: VecDeque<ObjectRef>,
    conclusions: Vec<(ObjectRef, Conclusion)>,
    calls_made: u64,
    /// Which queue a free worker of both looks into first.
    orphan_next: bool,
    running: bool,
    /// Whether workers that had started wait for new monitors to sync, which releases up to 1.31 make them do (G-20).
    pausing: bool,
    /// Items that workers took before they noticed the pause, each with whether it is to be orphaned.
    held: VecDeque<(NodeId, bool)>,
    start_deadline: Option<Timestamp>,
    discover_at: Option<Timestamp>,
}

impl Collector {
    /// A collector that knows nothing yet. Its first output asks which kinds are served.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let by_uid = !settings.semantics.verify_owners;
        Self {
            graph: Graph::new(settings.semantics),
            absent: AbsentOwners::new(settings.absent_owners_max, by_uid),
            attempt_to_delete: Queue::default(),
            attempt_to_orphan: Queue::default(),
            settings,
            now: Timestamp::from_nanos(i64::MIN),
            catalog: Arc::new(Catalog::new()),
            monitors: Monitors::default(),
            works: Vec::new(),
            calls: HashMap::default(),
            asks: VecDeque::new(),
            sleeping: std::collections::BTreeMap::new(),
            unfolding: VecDeque::new(),
            control: VecDeque::from([Output::Discover]),
            effects: Vec::new(),
            virtual_deletes: VecDeque::new(),
            conclusions: Vec::new(),
            calls_made: 0,
            orphan_next: false,
            running: false,
            pausing: false,
            held: VecDeque::new(),
            start_deadline: None,
            discover_at: None,
        }
    }

    /// Absorbs one input. Any number may come between polls.
    ///
    /// # Errors
    /// The input cannot be meant; nothing has changed.
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
                if !self.monitors.contains(monitor) {
                    return Err(Misuse::UnknownMonitor(monitor));
                }
                self.pass_time(now);
                let (graph, effects) = (&mut self.graph, &mut self.effects);
                self.monitors
                    .deliver(monitor, event, |event| graph.apply(event, effects));
                self.settle_effects();
                self.consider_start();
            }
            Input::Answer { call, answer } => {
                let Some((work, lane)) = self.calls.remove(&call) else {
                    return Err(Misuse::UnknownCall(call));
                };
                self.pass_time(now);
                self.resume(work, lane, answer);
            }
        }
        Ok(())
    }

    /// Pulls the next output, or what is being waited for. Stop pulling whenever busy.
    pub fn poll_output(&mut self) -> Output {
        if let Some(output) = self.control.pop_front() {
            return output;
        }
        // What is asked for waits where no more calls may be in flight.
        let room = self
            .settings
            .calls_in_flight_max
            .is_none_or(|max| self.calls.len() < max.get() as usize);
        if room { self.next_call() } else { None }.unwrap_or_else(|| Output::Wait(self.wait()))
    }

    /// The next call, or what came about while looking for one.
    fn next_call(&mut self) -> Option<Output> {
        loop {
            if let Some((work, lane, ask)) = self.asks.pop_front() {
                self.calls_made += 1;
                let id = CallId(self.calls_made);
                self.calls.insert(id, (work, lane));
                return Some(Output::Call(Call { id, ask }));
            }
            // Each round takes an item from a queue or a step from an orphan attempt.
            if !self.unfold() && !self.start_work() {
                return None;
            }
            if let Some(output) = self.control.pop_front() {
                return Some(output);
            }
        }
    }

    /// The resource that a monitor watches.
    #[must_use]
    pub fn monitor(&self, monitor: MonitorId) -> Option<&ApiResource> {
        self.monitors.resource(monitor)
    }

    /// All monitored resources, and whether each has delivered its list.
    pub fn monitors(&self) -> impl Iterator<Item = (MonitorId, &ApiResource, bool)> {
        self.monitors.iter()
    }

    /// Why nothing is collected; `None` while the workers run. Which resources are waited for is in [`monitors`](Self::monitors).
    #[must_use]
    pub fn not_running(&self) -> Option<NotRunning> {
        (!self.running).then_some(NotRunning {
            paused: self.pausing,
            starts_at: self.start_deadline,
        })
    }

    /// The kinds that the calls' [`KindId`](kubegc_core::KindId)s are of. Positions stay valid as kinds come and go.
    #[must_use]
    pub const fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The owner graph.
    #[must_use]
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What is known to be absent.
    #[must_use]
    pub const fn absent_owners(&self) -> &AbsentOwners {
        &self.absent
    }

    /// How many calls are waiting for their answers.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    /// The object of the attempt that a call in flight belongs to, and whether its dependents are being released.
    #[must_use]
    pub fn item_of(&self, call: CallId) -> Option<(ObjectRef, bool)> {
        let (work, _) = self.calls.get(&call)?;
        let (node, orphan) = match self.works.get(*work)?.as_ref()? {
            Work::Delete(attempt) => (attempt.node(), false),
            Work::Orphan(attempt) => (attempt.node(), true),
        };
        Some((self.graph.identity(node), orphan))
    }

    /// How many calls were made in all.
    #[must_use]
    pub const fn calls_made(&self) -> u64 {
        self.calls_made
    }

    /// How the attempts ended since the last time, where the settings say to record that.
    #[must_use]
    pub fn take_conclusions(&mut self) -> Vec<(ObjectRef, Conclusion)> {
        std::mem::take(&mut self.conclusions)
    }

    fn follow_catalog(&mut self, catalog: &Catalog, failed: &[String]) {
        self.discover_at = self
            .settings
            .discovery_period
            .map(|period| self.now.saturating_add(period));
        // Nothing discovered, or nothing new: this round is passed over (G-18, G-19).
        if catalog.is_empty() || (*catalog == *self.catalog && failed.is_empty()) {
            return;
        }
        // Positions of kinds that stay are kept: requests under way hold them.
        Arc::make_mut(&mut self.catalog).follow(catalog);
        let changes = self
            .monitors
            .follow(&self.catalog, failed, &self.settings, &mut self.graph);
        self.control
            .extend(changes.stopped.into_iter().map(Output::Unwatch));
        if !changes.started.is_empty() && !self.settings.semantics.start_without_full_sync {
            self.pausing |= self.running;
            self.running = false;
        }
        self.control
            .extend(changes.started.into_iter().map(Output::Watch));
        if self.start_deadline.is_none() && self.settings.semantics.start_without_full_sync {
            self.start_deadline = Some(self.now.saturating_add(self.settings.initial_sync_timeout));
        }
        self.consider_start();
    }

    /// Rules G-16 and G-20: from when on the workers may work.
    fn consider_start(&mut self) {
        if !self.running {
            let late = self.start_deadline.is_some_and(|deadline| self.now >= deadline);
            self.running = self.monitors.all_synced() || late;
            self.pausing &= !self.running;
        }
    }

    fn pass_time(&mut self, now: Timestamp) {
        self.now = now;
        if self.discover_at.is_some_and(|at| at <= now) {
            self.discover_at = None;
            self.control.push_back(Output::Discover);
        }
        while let Some(node) = self.attempt_to_delete.items.pop_due(now) {
            self.enqueue(node, false);
        }
        while let Some(node) = self.attempt_to_orphan.items.pop_due(now) {
            self.enqueue(node, true);
        }
        while let Some(entry) = self.sleeping.first_entry()
            && entry.key().0 <= now
        {
            let work = entry.key().1;
            entry.remove();
            self.wake(work);
        }
        self.consider_start();
    }

    fn enqueue(&mut self, node: NodeId, orphan: bool) {
        let queue = if orphan {
            &mut self.attempt_to_orphan
        } else {
            &mut self.attempt_to_delete
        };
        if !queue.items.add(node) {
            self.graph.release(node);
        }
    }

    /// Brings about what graph and attempts asked for.
    fn settle_effects(&mut self) {
        loop {
            // Taken out, so that the buffer keeps its memory.
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
                match effect {
                    Effect::AttemptToDelete(node) => self.enqueue(node, false),
                    Effect::AttemptToOrphan(node) => self.enqueue(node, true),
                    Effect::AttemptToDeleteRateLimited(node) => {
                        self.attempt_to_delete
                            .add_rate_limited(node, self.now, &mut self.graph);
                    }
                    Effect::OwnerAbsent(owner) => {
                        self.absent.insert(*owner);
                    }
                    Effect::VirtualDelete(identity) => self.virtual_deletes.push_back(*identity),
                    Effect::Warn(warning) => self.control.push_back(Output::Event(warning)),
                }
            }
            self.effects = effects;
            let Some(identity) = self.virtual_deletes.pop_front() else {
                return;
            };
            self.graph
                .apply(&Event::VirtualDeleted { identity: &identity }, &mut self.effects);
        }
    }

    fn wait(&self) -> Wait {
        let retries = self
            .attempt_to_delete
            .items
            .next_due()
            .into_iter()
            .chain(self.attempt_to_orphan.items.next_due());
        let pauses = self.sleeping.first_key_value().map(|(&(at, _), ())| at);
        let work = retries.chain(pauses).min();
        let start = self.start_deadline.filter(|_| !self.running);
        let until = work.into_iter().chain(start).chain(self.discover_at).min();
        let why = if !self.running {
            WaitReason::Sync
        } else if !self.calls.is_empty() {
            WaitReason::Answers
        } else if work.is_some() {
            WaitReason::Retries
        } else {
            WaitReason::Events
        };
        Wait { until, why }
    }
}
