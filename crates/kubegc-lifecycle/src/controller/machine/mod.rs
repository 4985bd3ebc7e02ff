//! Takes in what is known and says what to do, when, and why.

mod tasks;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use kubegc_core::{StoreError, Timestamp};

use super::{
    Input, Mechanism, Output, Reason, Settings, TaskId, Work,
    agenda::{Agenda, Back},
    cadence::{Passes, has_passes},
    table::{Key, key_of, sorted},
    tables::{Change, CloudAnswer, Tables},
    unit::{self, Look, OnFailure, Unit},
};
use crate::{
    fields::Record,
    node::Cloud,
    object::{Object, Resource, Wire},
};

/// All mechanisms of some settings, without any I/O: a driver tells it what is listed, what changes and how tasks end, and does what it says.
///
/// What belongs together is a *unit*: one job, one volume, one namespace; for pods, all of them. A change makes those units due that it concerns, and time those
/// whose plan says so. Some mechanisms look at once, others in passes, as [the module](super) says. A unit of which a task is out is not looked at before the task has
/// ended.
///
/// # Guarantees
/// - Nothing is to be done for a mechanism before all that it looks at was told of, and nothing that rests on what could not be listed or read: such objects
///   are [`undecided`](Self::undecided).
/// - Every [`Planned`](super::Planned) action carries what it expects of its object, and what else was listed that it rests on. What was decided on and is
///   known to have changed before it was handed out is not handed out.
/// - The same inputs at the same times give the same outputs; the order of inputs at one time changes nothing of what is to be done, as long as each object has
///   one change among them.
/// - When a task has failed, upstream's controller says when its unit is looked at again: at once and then later each time (5 ms, doubled up to 1000 s; up to a
///   minute for namespaces; from 15 s on for external volumes), in the next pass or resync, or not before something changes. A change brings that forward, but
///   not to a time at which the plugin of a volume may not be asked (500 ms, doubled up to 122 s).
///
/// # Upstream
/// The workqueues and periods of the controllers. Left out: their numbers of workers, and the bucket of retries that all items of a queue share.
///
/// # Examples
/// ```
/// use kubegc_core::{KubernetesVersion, ObjectMeta, Timestamp};
/// use kubegc_lifecycle::{
///     controller::{Controller, Ended, Input, Mechanism, Output, Settings, Work},
///     fields::{Fields, Job, Record},
///     history::Status,
///     job::Ttl,
///     object::{Condition, Resource, Wire},
/// };
///
/// let at = Timestamp::from_secs;
/// let settings = Settings::only(KubernetesVersion::LATEST, [Mechanism::Jobs]);
/// let mut controller = Controller::new(settings, Wire::Strict, at(1_000));
/// assert_eq!(controller.resources().into_iter().collect::<Vec<_>>(), [Resource::Jobs]);
///
/// // A job that finished at 950 and may stay for 100 s.
/// let mut complete = Condition::new("Complete", "True");
/// complete.last_transition_time = Some(at(950));
/// let status = Status { conditions: vec![complete], ..Status::default() };
/// let job = Record {
///     meta: ObjectMeta::new("shop", "report", "uid-1"),
///     fields: Fields::Job(Job { ttl: Ttl::Seconds(100), status: Some(status) }),
/// };
/// controller.handle(at(1_000), Input::Listed { resource: Resource::Jobs, records: Ok(vec![job]) });
/// let Output::Wait { until } = controller.poll_output(at(1_000)) else { panic!("its time is not over") };
/// assert_eq!(until, Some(at(1_050)));
///
/// let Output::Perform(task) = controller.poll_output(at(1_050)) else { panic!("its time is over") };
/// let Work::Act(planned) = task.work else { panic!("a deletion") };
/// assert_eq!(planned.object.to_string(), "Job shop/report");
/// assert_eq!(planned.rests_on.len(), 1, "an executor reads it first");
///
/// controller.handle(at(1_050), Input::Ended { task: task.id, ended: Ended::Done });
/// assert!(matches!(controller.poll_output(at(1_050)), Output::Wait { until: None }));
/// ```
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Settings,
    wire: Wire,
    now: Timestamp,
    tables: Tables,
    /// The mechanisms that run and were told of all that they look at.
    ready: BTreeSet<Mechanism>,
    agenda: Agenda,
    /// The passes of each mechanism that is ready and looks in such.
    passes: BTreeMap<Mechanism, Passes>,
    undecided: BTreeMap<Unit, Vec<Doubt>>,
    /// What is to be handed out now. All of it is of one look.
    left: Left,
    /// The tasks that were handed out and have not ended.
    out: BTreeMap<TaskId, Out>,
    /// The nodes that the cloud was asked about, by name.
    asked: BTreeMap<Key, Object>,
    next_id: u64,
}

/// An object about which a unit could not decide.
#[derive(Clone, Debug)]
struct Doubt {
    object: Object,
    reason: Reason,
    /// When that was so first.
    since: Timestamp,
}

/// What is left of a look.
#[derive(Clone, Debug, Default)]
struct Left {
    unit: Option<Unit>,
    works: VecDeque<Work>,
}

/// A task that was handed out.
#[derive(Clone, Debug)]
struct Out {
    unit: Unit,
    on_failure: OnFailure,
    /// The object, where the task is about one.
    object: Option<Object>,
}

impl Controller {
    /// Nothing is listed yet. Time begins at `began`. Mechanisms that look once a period first look when all was told of that they look at.
    #[must_use]
    pub fn new(settings: Settings, wire: Wire, began: Timestamp) -> Self {
        Self {
            tables: Tables::new(&settings),
            settings,
            wire,
            now: began,
            ready: BTreeSet::new(),
            agenda: Agenda::default(),
            passes: BTreeMap::new(),
            undecided: BTreeMap::new(),
            left: Left::default(),
            out: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_id: 0,
        }
    }

    /// The same, for forecasts: the cloud is asked nothing, and what it said of a node stays true of it. A node of which it said nothing is undecided, and not
    /// looked at again before something changes. An object that was undecided at any time stays so: by then it may have gone.
    #[must_use]
    pub fn still(mut self) -> Self {
        self.tables.is_still = true;
        for key in std::mem::take(&mut self.asked).into_keys() {
            self.agenda.end(&(Mechanism::Nodes, key), Back::Neither);
        }
        self
    }

    /// Which mechanisms run, and how.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What must be listed and watched.
    #[must_use]
    pub fn resources(&self) -> BTreeSet<Resource> {
        self.settings.resources()
    }

    /// Takes something in. Time never goes back: an earlier `now` counts as the latest. What speaks of a resource that nothing looks at is passed over.
    ///
    /// # Complexity
    /// O(log n) for a change, and for each unit that it concerns; O(n log n) for a list of `n` objects.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Listed { resource, records } if self.tables.has(resource) => self.list(resource, records),
            Input::Applied { resource, record } if self.tables.has(resource) => {
                self.change(resource, &key_of(&record.meta), Some(Cow::Owned(*record)));
            }
            Input::Gone {
                resource,
                namespace,
                name,
                uid,
            } => {
                let key = (namespace, name);
                let known = self.tables.get(resource, &key);
                if known.is_some_and(|known| known.meta.uid == uid) {
                    self.change(resource, &key, None);
                }
            }
            Input::Cloud {
                node,
                exists,
                is_shutdown,
            } if node.resource == Resource::Nodes => self.learn(&node, exists, is_shutdown),
            Input::Ended { task, ended } => self.end(task, ended),
            Input::Listed { .. } | Input::Applied { .. } | Input::Cloud { .. } => {}
        }
    }

    /// The next thing to do now, or until when there is nothing. The time is as in [`handle`](Self::handle).
    ///
    /// Nothing is to be done for a mechanism before all that it looks at was told of: listed, or found not to be listable.
    ///
    /// # Complexity
    /// What the planner of a unit takes for that unit; for pods, O(n) for `n` pods and O(m log m) for the `m` that could go.
    pub fn poll_output(&mut self, now: Timestamp) -> Output {
        self.now = self.now.max(now);
        loop {
            if let Some(task) = self.hand_out() {
                return Output::Perform(Box::new(task));
            }
            let Some((due, unit)) = self.agenda.pop(self.now) else {
                let until = self.agenda.next_at();
                return Output::Wait { until };
            };
            self.begin_pass(unit.0, due);
            let look = self.look(&unit);
            if let Some(question) = self.follow(unit, look) {
                return question;
            }
        }
    }

    /// Looks at what is due, and is done with that for which there is nothing to do now. What [`poll_output`](Self::poll_output) answers stays the same;
    /// copies made from here on need not look at it each for itself. Mechanisms that look in passes are left out.
    ///
    /// # Complexity
    /// What the planners take for the units that are due.
    pub fn look_ahead(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let mut busy = Vec::new();
        while let Some((due, unit)) = self.agenda.pop(self.now) {
            let look = (!has_passes(unit.0)).then(|| self.look(&unit));
            match look {
                Some(look) if look.works.is_empty() && look.ask.is_none() => {
                    self.follow(unit, look);
                }
                _ => busy.push((due, unit)),
            }
        }
        for (due, unit) in busy {
            self.agenda.touch(&unit, due);
        }
    }

    /// When something is due next; `None` where only something that is told can make something due.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        if self.left.works.is_empty() {
            self.agenda.next_at()
        } else {
            Some(self.now)
        }
    }

    /// The objects about which a mechanism could not decide when it last looked, because something was not read or listed, and why; in a
    /// [forecast](Self::still), whenever it looked. By mechanism and object.
    ///
    /// # Complexity
    /// O(n log n) in the number of these objects.
    pub fn undecided(&self) -> impl Iterator<Item = (Mechanism, &Object, &Reason)> {
        let all = self.undecided.iter().flat_map(|((mechanism, _), doubts)| {
            let known = doubts.iter().filter(|doubt| self.record(&doubt.object).is_some());
            known.map(move |doubt| ((*mechanism, &doubt.object), &doubt.reason))
        });
        let sorted: BTreeMap<(Mechanism, &Object), &Reason> = all.collect();
        sorted
            .into_iter()
            .map(|((mechanism, object), reason)| (mechanism, object, reason))
    }

    /// The [undecided](Self::undecided) objects in no order, with since when they are so. In a [forecast](Self::still) those that are gone are among them: they
    /// may have gone at any time from then on.
    pub fn undecided_since(&self) -> impl Iterator<Item = (Mechanism, &Object, &Reason, Timestamp)> {
        let all = self.undecided.iter();
        let all = all.flat_map(|((mechanism, _), doubts)| doubts.iter().map(|doubt| (*mechanism, doubt)));
        let all = all.filter(|(_, doubt)| self.tables.is_still || self.record(&doubt.object).is_some());
        all.map(|(mechanism, doubt)| (mechanism, &doubt.object, &doubt.reason, doubt.since))
    }

    /// An object as it is known now; `None` where another one has its name, too.
    #[must_use]
    pub fn record(&self, object: &Object) -> Option<&Record> {
        let table = self.tables.of(object.resource);
        let record = table.get(&object.namespace, &object.name);
        record.filter(|record| record.meta.uid == object.uid)
    }

    fn list(&mut self, resource: Resource, records: Result<Vec<Record>, StoreError>) {
        let (listed, records) = match records {
            Ok(records) => (Ok(()), Some(sorted(records))),
            Err(error) => (Err(error), None),
        };
        let is_new = self.tables.tell(resource, listed);
        if let Some(records) = records {
            self.take_list(resource, records);
        }
        if is_new {
            self.begin_all_with(resource);
        }
    }

    /// Follows what has changed from what is known to a sorted list.
    fn take_list(&mut self, resource: Resource, records: Vec<Record>) {
        let is_first = self.tables.of(resource).values().next().is_none();
        let is_looked_at = |mechanism: &Mechanism| mechanism.resources().contains(&resource);
        if is_first && !self.ready.iter().any(is_looked_at) {
            return self.tables.begin_with(resource, records);
        }
        let is_listed = |key: &Key| {
            let name =
                |record: &Record| (&*record.meta.namespace, &*record.meta.name).cmp(&(&*key.0, &*key.1));
            records.binary_search_by(name).is_ok()
        };
        let known = self.tables.of(resource).keys();
        let gone: Vec<Key> = known.filter(|key| !is_listed(key)).collect();
        for key in gone {
            self.change(resource, &key, None);
        }
        for record in &records {
            self.change(resource, &key_of(&record.meta), Some(Cow::Borrowed(record)));
        }
        self.tables.rest_on(resource, records);
    }

    /// Something else is known of a whole resource: all units of whoever looks at it are due.
    fn begin_all_with(&mut self, resource: Resource) {
        for mechanism in Mechanism::ALL {
            let needs = mechanism.resources();
            let is_told = |resource: &Resource| self.tables.of(*resource).is_told;
            if !self.settings.runs(mechanism) || !needs.contains(&resource) || !needs.iter().all(is_told) {
                continue;
            }
            self.ready.insert(mechanism);
            // Before all was listed once, every news of a list is a beginning.
            let is_complete = self
                .passes
                .get(&mechanism)
                .is_some_and(|passes| passes.is_complete);
            if has_passes(mechanism) && !is_complete {
                let is_complete = self.tables.any_not_listed(needs).is_none();
                self.passes.insert(mechanism, Passes::new(self.now, is_complete));
            }
            let mut keys = Vec::new();
            unit::all(mechanism, &self.settings, &self.tables, &mut keys);
            for key in keys {
                self.event(mechanism, key);
            }
        }
    }

    /// Follows one change.
    fn change(&mut self, resource: Resource, key: &Key, new: Option<Cow<'_, Record>>) {
        if self.tables.get(resource, key) == new.as_deref() {
            return;
        }
        let old = self.tables.put(resource, key, new.map(Cow::into_owned));
        let uid = |record: &Record| record.meta.uid.clone();
        if resource == Resource::PersistentVolumes
            && old.as_ref().map(uid) != self.tables.get(resource, key).map(uid)
        {
            // What failed of the volume that had the name does not hold up the next one.
            self.agenda.release(&(Mechanism::Volumes, key.clone()));
        }
        let change = Change {
            resource,
            key,
            old: old.as_ref(),
            new: self.tables.get(resource, key),
        };
        let mut units = Vec::new();
        for &mechanism in &self.ready {
            if mechanism.resources().contains(&resource) {
                let mut keys = Vec::new();
                unit::concerned(mechanism, &self.settings, &self.tables, &change, &mut keys);
                units.extend(keys.into_iter().map(|key| (mechanism, key)));
            }
        }
        for (mechanism, key) in units {
            self.event(mechanism, key);
        }
    }

    /// Something that a unit looks at has changed now.
    fn event(&mut self, mechanism: Mechanism, key: Key) {
        let at = match &self.settings.namespaces {
            Some(settings) if mechanism == Mechanism::Namespaces => settings.first_visit_at(self.now),
            _ => self.now,
        };
        self.touch(&(mechanism, key), at);
    }

    /// A unit is due at this time, or in the first pass from then on that has not begun.
    fn touch(&mut self, unit: &Unit, at: Timestamp) {
        let at = self.look_at(unit.0, at);
        self.agenda.touch(unit, at);
    }

    /// When a mechanism looks at what is due then.
    fn look_at(&self, mechanism: Mechanism, due: Timestamp) -> Timestamp {
        let passes = self.passes.get(&mechanism);
        passes.map_or(due, |passes| passes.pass_at(&self.settings, mechanism, due))
    }

    /// A unit that was due then is looked at now: the first one of a pass begins it. Others are of the last pass, such as a node with the answer of the cloud.
    fn begin_pass(&mut self, mechanism: Mechanism, due: Timestamp) {
        let is_next = self.look_at(mechanism, due) == due;
        if let Some(passes) = self.passes.get_mut(&mechanism).filter(|_| is_next) {
            passes.begin(self.now);
        }
    }

    fn look(&self, (mechanism, key): &Unit) -> Look {
        unit::look(*mechanism, &self.settings, &self.tables, key, self.now, self.wire)
    }

    /// Takes what came of a look. What is to be done is left for handing out; a question goes out at once.
    fn follow(&mut self, unit: Unit, look: Look) -> Option<Output> {
        let (mechanism, key) = (unit.0, &unit.1);
        let Look {
            works,
            undecided,
            next_at,
            ask,
            pods_seen,
        } = look;
        if let Some(pods_seen) = pods_seen {
            self.tables.pods_seen = pods_seen;
        }
        if mechanism == Mechanism::Nodes && !self.tables.is_still {
            self.tables.cloud.remove(key);
        }
        self.note_undecided(&unit, undecided);
        let next_at = next_at.map(|at| self.look_at(mechanism, at));
        if let Some(at) = next_at.filter(|at| *at > self.now) {
            self.agenda.touch(&unit, at);
        }
        if let Some((node, provider_id)) = ask {
            self.agenda.start(&unit);
            self.asked.insert(unit.1, node.clone());
            return Some(Output::AskCloud(node, provider_id));
        }
        if works.is_empty() {
            self.agenda.forgive(&unit);
        } else {
            // As long as any of it is left, the unit is busy.
            self.agenda.start(&unit);
            self.left = Left {
                unit: Some(unit),
                works: works.into(),
            };
        }
        None
    }

    /// Takes what a look at a unit could not decide in place of what the look before could not. In a forecast both hold: what is decided by now may
    /// have been done before.
    fn note_undecided(&mut self, unit: &Unit, undecided: Vec<(Object, Reason)>) {
        let before = self.undecided.remove(unit).unwrap_or_default();
        let mut before: BTreeMap<Object, Doubt> = before
            .into_iter()
            .map(|doubt| (doubt.object.clone(), doubt))
            .collect();
        let mut doubts: Vec<Doubt> = Vec::with_capacity(undecided.len());
        doubts.extend(undecided.into_iter().map(|(object, reason)| {
            let since = before.remove(&object).map_or(self.now, |doubt| doubt.since);
            Doubt {
                object,
                reason,
                since,
            }
        }));
        if self.tables.is_still {
            doubts.extend(before.into_values());
        }
        if !doubts.is_empty() {
            self.undecided.insert(unit.clone(), doubts);
        }
    }

    /// Takes what the cloud says of a node.
    fn learn(&mut self, node: &Object, exists: Cloud, is_shutdown: Cloud) {
        let key = (node.namespace.clone(), node.name.clone());
        let unit = (Mechanism::Nodes, key.clone());
        let is_known = self.record(node).is_some();
        if is_known || self.tables.is_still {
            let answer = CloudAnswer {
                uid: node.uid.clone(),
                exists,
                is_shutdown,
            };
            self.tables.cloud.insert(key.clone(), answer);
        }
        if is_known && self.ready.contains(&Mechanism::Nodes) {
            // Not at the next pass: the answer belongs to this one.
            self.agenda.touch(&unit, self.now);
        }
        if self.asked.get(&key) == Some(node) {
            self.asked.remove(&key);
            self.agenda.end(&unit, Back::Neither);
        }
    }
}

/// The next instant.
pub(super) fn after(at: Timestamp) -> Timestamp {
    at.saturating_add(Duration::from_nanos(1))
}
