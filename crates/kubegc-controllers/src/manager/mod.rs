//! All controllers of a control plane as one state machine without I/O.

mod queue;
mod schedule;
mod task;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{
    Kept, ResourceVersion, StoreError, Timestamp, Uid,
    record::{ObjectId, Record, Resource},
};

pub use self::task::{Task, TaskId, Work};
use self::{
    queue::{Outcome, Queue},
    schedule::Syncs,
    task::InFlight,
};
use crate::{
    Action, Cache, Change, CloudResponse, Context, Controller, Deadlines, Decision, End, Key, Missing,
    Timing, Wire,
};

/// Runs any set of controllers: feed it list and watch events, perform the tasks that it returns, and report
/// how they ended.
///
/// # Guarantees
/// - A controller starts when every resource that it reads was listed, or could not be. Unknown facts are
///   reported by [`unknown`](Self::unknown), and no action depends on them.
/// - A key has at most the tasks of one reconcile in flight. A task whose object has changed since it was
///   decided on is dropped, and the key is reconciled again.
/// - The same inputs at the same times give the same outputs. The order of inputs at one time does not matter
///   as long as each object changes once.
/// - A failed key is retried as upstream's work queues do: see [`Timing`].
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use kubegc_controllers::{End, Input, Manager, Output, TtlAfterFinished, Wire};
/// use kubegc_core::{KubernetesVersion, ObjectMeta, Timestamp, record::{Body, Condition, Job, Record, Resource}};
///
/// let at = Timestamp::from_secs;
/// let controller = Arc::new(TtlAfterFinished::new(KubernetesVersion::LATEST));
/// let mut manager = Manager::new(vec![controller], Wire::Strict, at(1_000));
///
/// // A Job that finished at 950, with a TTL of 100 s.
/// let mut complete = Condition::new("Complete", "True");
/// complete.last_transition_time = Some(at(950));
/// let job = Job { ttl_seconds_after_finished: Some(100).into(), conditions: vec![complete].into(), ..Job::default() };
/// let job = Record::new(ObjectMeta::new("shop", "report", "u-1"), Body::Job(job));
/// manager.handle(at(1_000), Input::Listed { resource: Resource::Jobs, records: Ok(vec![job]) });
/// let Output::Wait { until } = manager.poll_output(at(1_000)) else { panic!("the TTL has not expired") };
/// assert_eq!(until, Some(at(1_050)));
///
/// let Output::Perform(task) = manager.poll_output(at(1_050)) else { panic!("the TTL has expired") };
/// assert_eq!(task.object.to_string(), "job.batch/report -n shop");
/// manager.handle(at(1_050), Input::Ended { task: task.id, end: End::Done });
/// assert!(matches!(manager.poll_output(at(1_050)), Output::Wait { until: None }));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Manager {
    controllers: Vec<Running>,
    wire: Wire,
    /// Whether only the tasks change objects, and the cloud provider is not queried.
    is_simulation: bool,
    now: Timestamp,
    cache: Cache,
    queue: Queue,
    deadlines: BTreeMap<Unit, Deadlines>,
    /// The facts that are missing of objects, and since when.
    unknown: BTreeMap<Unit, BTreeMap<ObjectId, (Missing, Timestamp)>>,
    cloud: BTreeMap<Unit, CloudResponse>,
    /// Tasks of one reconcile that are not handed out yet.
    pending: Option<(Unit, VecDeque<Work>)>,
    in_flight: BTreeMap<TaskId, InFlight>,
    /// When a key was stale for the last time.
    stale_at: BTreeMap<Unit, Timestamp>,
    /// In a simulation: the version of an object after an action on it, by the code of its reason, so that an
    /// action without effect is not repeated.
    left_at: HashMap<(usize, ObjectId, &'static str), ResourceVersion, FixedState>,
    cause: Option<Cause>,
    /// The cause of the last change that enqueued each key.
    causes: HashMap<Unit, Cause, FixedState>,
    next_id: u64,
}

/// The cause of a change, for the caller to interpret: a [`Task`] has the cause of the last change that
/// enqueued its key.
pub type Cause = usize;

#[derive(Clone, Debug)]
struct Running {
    controller: Arc<dyn Controller>,
    timing: Timing,
    /// Set once every resource of the controller was listed or could not be.
    is_ready: bool,
    syncs: Option<Syncs>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Unit {
    /// Position in [`Manager::controllers`].
    controller: usize,
    key: Key,
}

impl Unit {
    fn new(controller: usize, key: &Key) -> Self {
        let key = key.clone();
        Self { controller, key }
    }
}

/// An event for a [`Manager`].
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// All objects of a resource, or the error of the list: cached objects then stay, and do not count as
    /// complete.
    Listed {
        resource: Resource,
        records: Result<Vec<Record>, StoreError>,
    },
    /// An object was added or modified.
    Applied { resource: Resource, record: Box<Record> },
    /// An object was deleted. If another object is cached under its name, nothing happens.
    Deleted { resource: Resource, key: Key, uid: Uid },
    /// A response of the cloud provider that a simulation assumes, because it makes no queries.
    Cloud { node: ObjectId, response: CloudResponse },
    /// A task has ended. Every task that was handed out ends once.
    Ended { task: TaskId, end: End },
}

/// The next output of a [`Manager`].
#[derive(Clone, Debug)]
pub enum Output {
    /// Perform a task. Response: [`Input::Ended`].
    Perform(Box<Task>),
    /// Nothing to do before this time, unless there is an input.
    Wait {
        /// The time; `None` if nothing is scheduled.
        until: Option<Timestamp>,
    },
}

impl Manager {
    /// Creates a manager at this time, without cached objects.
    pub fn new(controllers: Vec<Arc<dyn Controller>>, wire: Wire, now: Timestamp) -> Self {
        let infos = || controllers.iter().map(|controller| controller.info());
        let resources = infos().flat_map(|info| info.resources);
        let indexes = infos().flat_map(|info| info.indexes);
        Self {
            cache: Cache::new(resources.copied(), indexes.copied()),
            controllers: controllers
                .into_iter()
                .map(|controller| Running {
                    timing: controller.timing(),
                    controller,
                    is_ready: false,
                    syncs: None,
                })
                .collect(),
            wire,
            now,
            ..Self::default()
        }
    }

    /// The same for a simulation, where only the tasks change objects. There are no queries to the cloud
    /// provider: earlier responses stay true, and a node without a response is [unknown](Self::unknown). An
    /// action that left its object unchanged is not repeated. An object that was unknown once stays so,
    /// because it may have been deleted by then.
    #[must_use]
    pub fn into_simulation(mut self) -> Self {
        self.is_simulation = true;
        self
    }

    pub fn controllers(&self) -> impl Iterator<Item = &Arc<dyn Controller>> {
        self.controllers.iter().map(|running| &running.controller)
    }

    /// Sets the namespaces in which all objects of a resource are known, even if its list fails.
    pub fn set_listed_in(&mut self, resource: Resource, namespaces: BTreeSet<Arc<str>>) {
        self.cache.set_listed_in(resource, namespaces);
    }

    /// The resources that must be listed and watched.
    pub fn resources(&self) -> BTreeSet<Resource> {
        self.cache.resources().collect()
    }

    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Sets the cause of the next changes. Default: unknown.
    pub const fn set_cause(&mut self, cause: Option<Cause>) {
        self.cause = cause;
    }

    /// Processes an event. Time never goes backwards: an earlier `now` counts as the latest one. Resources
    /// that no controller reads are ignored.
    ///
    /// # Complexity
    /// O(log n) for a change and each key that it affects; O(n log n) for a list of `n` objects.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Listed { resource, records } if self.cache.has(resource) => self.list(resource, records),
            Input::Applied { resource, record } if self.cache.has(resource) => {
                let key = Key::from(&record.meta);
                self.change(resource, &key, Some(Cow::Owned(*record)));
            }
            Input::Deleted { resource, key, uid } => {
                let known = self.cache.get(resource, &key);
                if known.is_some_and(|known| known.meta.uid == uid) {
                    self.change(resource, &key, None);
                }
            }
            Input::Cloud { node, response } => {
                for (at, running) in self.controllers.iter().enumerate() {
                    if running.controller.info().resources.first() == Some(&node.resource) {
                        self.cloud
                            .insert(Unit::new(at, &Key::from(&node)), response.clone());
                    }
                }
            }
            Input::Ended { task, end } => self.end(task, end),
            Input::Listed { .. } | Input::Applied { .. } => {}
        }
    }

    /// The next output, or the time until which there is none. Time is as in [`handle`](Self::handle).
    ///
    /// # Complexity
    /// That of one reconcile for each key that is due.
    pub fn poll_output(&mut self, now: Timestamp) -> Output {
        self.now = self.now.max(now);
        loop {
            if let Some(task) = self.hand_out() {
                return Output::Perform(Box::new(task));
            }
            let Some((due, unit)) = self.queue.pop(self.now) else {
                return Output::Wait {
                    until: self.queue.next_at(),
                };
            };
            self.start_sync(unit.controller, due);
            let decision = self.reconcile(&unit);
            self.apply_decision(unit, decision);
        }
    }

    /// Reconciles the keys that are due, and finishes those for which there is nothing to do.
    /// [`poll_output`](Self::poll_output) then gives what it would have given, and clones do not repeat the
    /// work. Controllers that work in syncs are left out.
    ///
    /// # Complexity
    /// That of one reconcile for each key that is due.
    pub fn reconcile_due(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let mut busy = Vec::new();
        while let Some((due, unit)) = self.queue.pop(self.now) {
            let is_periodic = self.controllers[unit.controller].timing.period.is_some();
            let decision = (!is_periodic).then(|| self.reconcile(&unit));
            match decision {
                Some(decision) if !decision.has_work() => {
                    self.apply_decision(unit, decision);
                }
                _ => busy.push((due, unit)),
            }
        }
        for (due, unit) in busy {
            self.queue.add_at(&unit, due);
        }
    }

    /// The decision of a controller about a key at this time; `None` if no controller of this name runs.
    /// Nothing changes.
    pub fn decide(&self, controller: &str, key: &Key) -> Option<Decision> {
        self.unit(controller, key).map(|unit| self.reconcile(&unit))
    }

    fn unit(&self, controller: &str, key: &Key) -> Option<Unit> {
        let has_name = |running: &Running| running.controller.info().name == controller;
        let controller = self.controllers.iter().position(has_name)?;
        Some(Unit::new(controller, key))
    }

    /// When something is due next; `None` if only an input can make something due.
    pub fn next_at(&self) -> Option<Timestamp> {
        match self.pending {
            None => self.queue.next_at(),
            Some(_) => Some(self.now),
        }
    }

    /// When a key of the controller of this name is due; `None` if it is not.
    pub fn due_at(&self, controller: &str, key: &Key) -> Option<Timestamp> {
        self.queue.due_at(&self.unit(controller, key)?)
    }

    /// The objects about which a controller could not decide when it last reconciled them; in a simulation,
    /// whenever it did. With the missing fact and since when it has been missing, by controller and object.
    /// In a simulation, objects that no longer exist are included.
    pub fn unknown(&self) -> impl Iterator<Item = (&Arc<dyn Controller>, &ObjectId, &Missing, Timestamp)> {
        let all = self.unknown.iter().flat_map(|(unit, unknown)| {
            let controller = &self.controllers[unit.controller].controller;
            let unknown = unknown.iter();
            unknown.map(move |(object, (missing, since))| (controller, object, missing, *since))
        });
        let is_known = |object: &ObjectId| self.is_simulation || self.record(object).is_some();
        let mut all: Vec<_> = all.filter(|(_, object, ..)| is_known(object)).collect();
        all.sort_by_key(|(controller, object, ..)| (controller.info().name, *object));
        all.dedup_by_key(|(controller, object, ..)| (controller.info().name, *object));
        all.into_iter()
    }

    /// The cached object; `None` if another object has its name.
    pub fn record(&self, object: &ObjectId) -> Option<&Record> {
        let key = Key::from(object);
        let record = self.cache.get(object.resource, &key);
        record.filter(|record| record.meta.uid == object.uid)
    }

    fn list(&mut self, resource: Resource, records: Result<Vec<Record>, StoreError>) {
        let listed = records.as_ref().map(|_| ()).map_err(StoreError::clone);
        let has_changed = self.cache.set_listed(resource, listed);
        if let Ok(records) = records {
            self.take_list(resource, records);
        }
        if has_changed {
            self.begin_controllers(resource);
        }
    }

    /// Replaces the cached objects of a resource by a list. Controllers that have started observe the
    /// differences as changes.
    fn take_list(&mut self, resource: Resource, records: Vec<Record>) {
        let reads = |running: &Running| running.controller.info().resources.contains(&resource);
        let is_first = self.cache.records(resource).next().is_none();
        let mut controllers = self.controllers.iter();
        let has_begun = controllers.any(|running| running.is_ready && reads(running));
        if is_first && !has_begun {
            return self.cache.replace(resource, records);
        }
        let mut next = Cache::new([resource], []);
        next.replace(resource, records);
        let is_deleted = |key: &Key| next.get(resource, key).is_none();
        let deleted: Vec<Key> = self.cache.keys(resource).filter(is_deleted).collect();
        for key in deleted {
            self.change(resource, &key, None);
        }
        for record in next.records(resource) {
            self.change(resource, &Key::from(&record.meta), Some(Cow::Borrowed(record)));
        }
    }

    /// Enqueues all keys of the controllers that read a resource whose list has succeeded or failed.
    fn begin_controllers(&mut self, resource: Resource) {
        for at in 0..self.controllers.len() {
            let running = &mut self.controllers[at];
            let resources = running.controller.info().resources;
            let is_attempted = |resource: &Resource| self.cache.is_attempted(*resource);
            if !resources.contains(&resource) || !resources.iter().all(is_attempted) {
                continue;
            }
            running.is_ready = true;
            // Until every resource was listed once, each change of a list restarts the syncs.
            let was_complete = running.syncs.is_some_and(|syncs| syncs.is_complete);
            if running.timing.period.is_some() && !was_complete {
                let is_complete = self.cache.require_all(resources).is_ok();
                running.syncs = Some(Syncs::new(self.now, is_complete));
            }
            let mut keys = Vec::new();
            running.controller.keys(&self.cache, &mut keys);
            for key in keys {
                self.enqueue_event(at, key);
            }
        }
    }

    /// Applies a change to the cache and enqueues the keys that it affects.
    fn change(&mut self, resource: Resource, key: &Key, new: Option<Cow<'_, Record>>) {
        if self.cache.get(resource, key) == new.as_deref() {
            return;
        }
        let is_removed = new.is_none();
        let old = self.cache.put(resource, key, new.map(Cow::into_owned));
        let change = Change {
            resource,
            key,
            old: old.as_ref(),
            new: if is_removed {
                None
            } else {
                self.cache.get(resource, key)
            },
        };
        let is_another = change.old.map(|old| &old.meta.uid) != change.new.map(|new| &new.meta.uid);
        let mut events = Vec::new();
        for (at, running) in self.controllers.iter().enumerate() {
            let resources = running.controller.info().resources;
            if !running.is_ready || !resources.contains(&resource) {
                continue;
            }
            if running.timing.blocks_on_failure && is_another && resources.first() == Some(&resource) {
                // A failure of the previous object of this name does not block the new one.
                self.queue.unblock(&Unit::new(at, key));
            }
            let mut keys = Vec::new();
            running.controller.affected(&self.cache, &change, &mut keys);
            events.extend(keys.into_iter().map(|key| (at, key)));
        }
        for (controller, key) in events {
            self.enqueue_event(controller, key);
        }
    }

    fn enqueue_event(&mut self, controller: usize, key: Key) {
        let delay = self.controllers[controller].timing.event_delay;
        let unit = Unit { controller, key };
        match self.cause {
            Some(cause) => drop(self.causes.insert(unit.clone(), cause)),
            None if self.causes.is_empty() => {}
            None => drop(self.causes.remove(&unit)),
        }
        // A delayed key for which there is nothing to do need not be waited for: another event comes with the
        // next change.
        if !delay.is_zero() && self.reconcile(&unit).is_empty() {
            return;
        }
        self.enqueue(&unit, self.now.saturating_add(delay));
    }

    /// Enqueues a key for this time, or for the first sync from then on that has not started.
    fn enqueue(&mut self, unit: &Unit, at: Timestamp) {
        let at = self.sync_at(unit.controller, at);
        self.queue.add_at(unit, at);
    }

    fn sync_at(&self, controller: usize, due: Timestamp) -> Timestamp {
        let running = &self.controllers[controller];
        let syncs = running.syncs.zip(running.timing.period);
        syncs.map_or(due, |(syncs, period)| syncs.sync_at(period, due))
    }

    /// Records the start of a sync, if the key that is due is its first one. Others belong to the last sync,
    /// such as a node for which the cloud provider has responded.
    fn start_sync(&mut self, controller: usize, due: Timestamp) {
        let is_first = self.sync_at(controller, due) == due;
        let syncs = self.controllers[controller].syncs.as_mut();
        if let Some(syncs) = syncs.filter(|_| is_first) {
            syncs.begin(self.now);
        }
    }

    fn reconcile(&self, unit: &Unit) -> Decision {
        static NONE: Deadlines = Deadlines::new();
        let cx = Context {
            cache: &self.cache,
            now: self.now,
            wire: self.wire,
            deadlines: self.deadlines.get(unit).unwrap_or(&NONE),
            cloud: self.cloud.get(unit),
            queries_cloud: !self.is_simulation,
            notes_kept: false,
        };
        let running = &self.controllers[unit.controller];
        running.controller.reconcile(&cx, &unit.key)
    }

    /// Schedules the key and queues the tasks of a decision.
    fn apply_decision(&mut self, unit: Unit, decision: Decision) {
        let Decision {
            actions,
            steps,
            kept: _,
            unknown,
            requeue_at,
            deadlines,
        } = decision;
        if let Some(deadlines) = deadlines {
            self.deadlines.insert(unit.clone(), deadlines);
        }
        let is_simulation = self.is_simulation;
        if !is_simulation && self.cloud.remove(&unit).is_some() {
            // A response is valid for one sync. The next one queries again if the controller still needs it.
            self.enqueue(&unit, self.now);
        }
        self.record_unknown(&unit, unknown);
        if let Some(at) = requeue_at {
            let at = self.sync_at(unit.controller, at);
            if at > self.now {
                self.queue.add_at(&unit, at);
            }
        }
        let is_repeated = |action: &Action| is_simulation && self.is_repeated(unit.controller, action);
        let actions = actions.into_iter().filter(|action| !is_repeated(action));
        let works = actions.map(Work::Action).chain(steps.map(Work::Steps));
        let works: VecDeque<Work> = works.collect();
        if works.is_empty() {
            self.queue.forget(&unit);
        } else {
            // The key is busy as long as any of its work is left.
            self.queue.begin(&unit);
            self.pending = Some((unit, works));
        }
    }

    /// Replaces the objects about which the last reconcile of a key could not decide. In a simulation the
    /// earlier ones are retained.
    fn record_unknown(&mut self, unit: &Unit, unknown: Vec<Kept<ObjectId, Missing>>) {
        if unknown.is_empty() && !self.unknown.contains_key(unit) {
            return;
        }
        let before = self.unknown.remove(unit).unwrap_or_default();
        let mut all = BTreeMap::new();
        for Kept { object, reason } in unknown {
            let since = before.get(&object).map_or(self.now, |(_, since)| *since);
            all.entry(object).or_insert((reason, since));
        }
        for (object, known) in before.into_iter().filter(|_| self.is_simulation) {
            all.entry(object).or_insert(known);
        }
        if !all.is_empty() {
            self.unknown.insert(unit.clone(), all);
        }
    }
}
