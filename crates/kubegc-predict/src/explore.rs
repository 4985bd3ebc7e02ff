//! The possible outcomes of a race: the fates of objects in many schedules of several deletes.
//!
//! The garbage collector has twenty workers, and watches are late. A forecast shows one schedule. Here the
//! schedule varies: which request of the collector the API server performs next, which watch delivers its
//! next event, when the client sends its next delete. The simulation is that of a forecast
//! ([`ControlPlane`](kubegc_control_plane::ControlPlane) with its controllers and kubelets); other
//! controllers act, and time passes, if none of these steps is possible.
//!
//! Up to a limit, every schedule is tried. States that were reached before are not explored again. Further
//! schedules are chosen at random from seeds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{BuildHasher, Hash, Hasher},
    iter,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_control_plane::Simulation;
use kubegc_core::{KindId, ObjectMeta, ObjectRef, PropagationPolicy, Timestamp, Uid, deletion::Propagation};
use kubegc_objects::{
    Call, Input, Operation, Output,
    collector::{FingerprintOptions, WaitReason},
};
use kubegc_sim::rng::Rng;

use crate::{
    Step,
    cycle::cycles,
    facts::{Facts, Owner, Scope},
    judge::{self, Fate, Finding, Outcomes, fate_text},
    simulate::{ClientDelete, Run, Unlisted},
};

/// Bounds of the exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Number of schedules that are chosen at random, from the seeds 0, 1, 2 and so on.
    pub seeds: u64,
    /// Maximum number of states when every order is tried; 0 tries none. If they are enough, the result is
    /// exhaustive. A state is a point at which more than one step is possible. The default suffices for two
    /// deletes of an owner with two dependents.
    pub states_max: usize,
    /// Maximum number of choices in one schedule.
    pub choices_max: usize,
    /// Number of threads. The result does not depend on it.
    pub threads: NonZeroUsize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            seeds: 200,
            states_max: 50_000,
            choices_max: 10_000,
            threads: NonZeroUsize::MIN,
        }
    }
}

/// The fates that were found.
///
/// # Examples
/// A ConfigMap owns a Secret: in every order, both are deleted.
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// use kubegc_predict::explore::Bounds;
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// let exploration = cluster.explore(&[delete], Bounds::default())?;
/// assert!(exploration.exhaustive);
/// assert!(exploration.fates.iter().all(|possible| exploration.is_certain(&possible.object)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Exploration {
    /// Every object that could be affected, with each fate that was found and a schedule that leads to it.
    pub fates: Vec<PossibleFates>,
    /// Number of schedules that ended.
    pub schedules: u64,
    /// Number of distinct states over all orders.
    pub states: usize,
    /// Whether every order was tried. Then an outcome that was not found does not happen.
    pub exhaustive: bool,
    pub bounds: Bounds,
}

/// The fates that one object can have.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct PossibleFates {
    pub object: ObjectRef,
    /// Each fate, in the order in which they were found, with a schedule that leads to it.
    pub fates: Vec<(Fate, Schedule)>,
}

#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The seed of a random schedule; `None` if it was found by trying every order.
    pub seed: Option<u64>,
    /// Its writes.
    pub timeline: Vec<Step>,
}

impl Exploration {
    /// Whether every order was tried and the object has the same fate in all of them.
    pub fn is_certain(&self, object: &ObjectRef) -> bool {
        let mut fates = self.fates.iter();
        self.exhaustive && fates.any(|one| one.object == *object && one.fates.len() == 1)
    }
}

pub(crate) fn explore(run: &Run<'_>, scope: &Scope, bounds: Bounds) -> Exploration {
    let start = Race {
        simulation: run.begin(scope, Unlisted::Present),
        in_flight: Vec::new(),
        client: &run.deletes,
        done: 0,
    };
    let facts = run.facts;
    let objects = scope.affected().map(|position| PossibleFates {
        object: facts.object_ref(position),
        fates: Vec::new(),
    });
    let mut found = Exploration {
        fates: objects.collect(),
        schedules: 0,
        states: 0,
        exhaustive: false,
        bounds,
    };
    for first in (0..bounds.seeds).step_by(BATCH) {
        let batch = (first..bounds.seeds).take(BATCH).collect();
        let endings = map_on_threads(bounds.threads, batch, |seed| {
            let mut race = start.clone();
            race.run(&mut Rng::new(seed), bounds.choices_max);
            ending(facts, scope, race, Some(seed))
        });
        endings.into_iter().for_each(|ending| found.note(ending));
    }
    (found.states, found.exhaustive) = exhaust(facts, scope, start, &mut found);
    found.fates.retain(|possible| !possible.fates.is_empty());
    found
}

/// The bounds of the exploration in a forecast, and the number of objects in scope up to which it explores.
const IN_FORECAST: Bounds = Bounds {
    seeds: 30,
    states_max: 500,
    choices_max: 1_000,
    threads: NonZeroUsize::MIN,
};
const OBJECTS_MAX: usize = 20;

/// The objects whose outcome depends on the order of requests, if several members of one cycle of owners are
/// deleted in the foreground at once.
pub(crate) fn order_decides(run: &Run<'_>, scope: &Scope) -> Vec<Finding> {
    let objects: Vec<u32> = scope.affected().take(OBJECTS_MAX + 1).collect();
    let foreground = Some(Propagation::Policy(PropagationPolicy::Foreground));
    let is_meant = |delete: &&ClientDelete<'_>| delete.options.propagation == foreground;
    let deleted = || run.deletes.iter().filter(is_meant);
    let is_sequence = run.horizon.is_some() || run.deletes.iter().any(|delete| !delete.at.is_zero());
    if objects.len() > OBJECTS_MAX || is_sequence || deleted().count() < 2 {
        return Vec::new();
    }
    let edges = objects.iter().enumerate().flat_map(|(number, position)| {
        let owners = run.facts.edges.owners(*position);
        let owners = owners.filter_map(|owner| objects.iter().position(|at| Owner::At(*at) == owner));
        owners.map(move |owner| (number, owner))
    });
    let is_race = |members: &Vec<usize>| {
        let is_member =
            |delete: &&ClientDelete<'_>| members.iter().any(|at| delete.position == Some(objects[*at]));
        deleted().filter(is_member).count() > 1
    };
    if !cycles(edges).iter().any(is_race) {
        return Vec::new();
    }
    let exploration = explore(run, scope, IN_FORECAST);
    let mut found: BTreeMap<Outcomes, Vec<ObjectRef>> = BTreeMap::new();
    for PossibleFates { object, fates } in exploration.fates {
        let outcomes = fates.iter().map(|(fate, _)| Outcomes::from(fate));
        if let Some(outcomes) = outcomes.reduce(Outcomes::or)
            && outcomes.words().count() > 1
        {
            found.entry(outcomes).or_default().push(object);
        }
    }
    let orders = exploration.schedules;
    let findings = found
        .into_iter()
        .map(|(outcomes, objects)| Finding::OrderDecides {
            objects,
            outcomes,
            orders,
        });
    findings.collect()
}

/// Number of simulations that run at the same time. It does not depend on the number of threads, so that the
/// result does not either.
const BATCH: usize = 64;

/// Applies a function to every item, on several threads. The results are in the order of the items.
fn map_on_threads<T: Send, R: Send>(
    threads: NonZeroUsize,
    items: Vec<T>,
    map: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = threads.get().min(items.len());
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || iter::from_fn(next).map(|(at, item)| (at, map(item))).collect();
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut results: Vec<(usize, R)> = work();
        for thread in others {
            let found = thread.join();
            results.extend(found.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The state after one more step, with the steps that must be tried next.
fn reached<'a>(parent: &Race<'a>, step: Option<Choice>, bounds: Bounds) -> (Race<'a>, Vec<Choice>) {
    let mut race = parent.clone();
    if let Some(step) = step {
        race.perform(step);
    }
    let mut choices = race.choices();
    // A step without alternative leads to no state of its own.
    for _ in 0..bounds.choices_max {
        let [choice] = *choices else { break };
        race.perform(choice);
        choices = race.choices();
    }
    (race, choices)
}

/// Tries every order up to the limit, the latest states first, in batches. Returns the number of states and
/// whether every order was tried.
fn exhaust(facts: &Facts, scope: &Scope, start: Race<'_>, found: &mut Exploration) -> (usize, bool) {
    let bounds = found.bounds;
    if bounds.states_max == 0 {
        return (0, false);
    }
    let mut met: BTreeSet<u128> = BTreeSet::new();
    let mut open = vec![(Arc::new(start), None)];
    while !open.is_empty() {
        let batch: Vec<(Arc<Race<'_>>, Option<Choice>)> =
            open.drain(open.len().saturating_sub(BATCH)..).rev().collect();
        // A state that was reached before is dropped by the thread that built it.
        let states = map_on_threads(bounds.threads, batch, |(parent, step)| {
            let (race, choices) = reached(&parent, step, bounds);
            let fingerprint = race.fingerprint();
            (!met.contains(&fingerprint)).then_some((fingerprint, race, choices))
        });
        let mut next = Vec::new();
        for (fingerprint, race, choices) in states.into_iter().flatten() {
            if met.len() >= bounds.states_max {
                return (met.len(), false);
            }
            if !met.insert(fingerprint) {
                continue;
            }
            if choices.is_empty() {
                found.note(ending(facts, scope, race, None));
                continue;
            }
            let parent = Arc::new(race);
            let steps = choices.into_iter().map(Some);
            next.extend(steps.map(|step| (Arc::clone(&parent), step)));
        }
        // The first of them is tried first.
        open.extend(next.into_iter().rev());
    }
    (met.len(), true)
}

/// The fates at the end of a schedule, in the order of the scope.
type Ending = (Vec<Fate>, Schedule);

fn ending(facts: &Facts, scope: &Scope, race: Race<'_>, seed: Option<u64>) -> Ending {
    let fates = judge::fates(facts, scope, &race.simulation);
    let (trace, _) = race.simulation.plane.into_trace();
    let timeline = trace.into_steps();
    (fates, Schedule { seed, timeline })
}

impl Exploration {
    fn note(&mut self, (fates, schedule): Ending) {
        self.schedules += 1;
        for (possible, fate) in self.fates.iter_mut().zip(fates) {
            if !possible.fates.iter().any(|(known, _)| *known == fate) {
                possible.fates.push((fate, schedule.clone()));
            }
        }
    }
}

impl fmt::Display for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for possible in &self.fates {
            let certain = possible.fates.len() == 1;
            let certainty = match (certain, self.exhaustive) {
                (true, true) => "certain",
                (true, false) => "always, in the schedules tried",
                (false, _) => "depends on timing",
            };
            writeln!(f, "{}: {certainty}", possible.object.short())?;
            for (fate, schedule) in &possible.fates {
                let found = match schedule.seed {
                    _ if certain => String::new(),
                    Some(seed) => format!(" (seed {seed})"),
                    None => " (found by trying every order)".to_owned(),
                };
                writeln!(f, "  {}{found}", fate_text(fate))?;
            }
        }
        let Bounds {
            seeds, states_max, ..
        } = self.bounds;
        let (schedules, states) = (self.schedules, self.states);
        let others = match self.exhaustive {
            true => "every order was tried",
            false => "other fates may exist",
        };
        writeln!(
            f,
            "{schedules} schedules came to rest; {seeds} drawn from seeds, {states} of at most {states_max} \
             states met: {others}"
        )
    }
}

/// A simulation whose next step is a choice.
#[derive(Clone)]
struct Race<'a> {
    simulation: Simulation,
    in_flight: Vec<Call>,
    client: &'a [ClientDelete<'a>],
    done: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Client,
    Call(usize),
    /// A watch of the collector delivers the next change of a kind.
    Deliver(KindId),
}

impl Race<'_> {
    /// Assigns queued keys to idle workers, then returns the possible steps. If there are none, the time
    /// advances; the result is empty when nothing is pending.
    fn choices(&mut self) -> Vec<Choice> {
        loop {
            let retry_at = self.poll();
            self.simulation.plane.observe(&mut self.simulation.server);
            let mut choices = Vec::new();
            if self.done < self.client.len() {
                choices.push(Choice::Client);
            }
            choices.extend((0..self.in_flight.len()).map(Choice::Call));
            let pending = self.simulation.plane.pending_kinds().into_iter();
            choices.extend(pending.map(Choice::Deliver));
            if !choices.is_empty() {
                return choices;
            }
            if !self.simulation.plane.act(&mut self.simulation.server) {
                let idle = self.simulation.plane.idle(retry_at);
                if !self.simulation.advance(idle, None) {
                    return choices;
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Timestamp> {
        loop {
            match self.simulation.plane.poll_collector(&self.simulation.server) {
                Some(Output::Call(call)) => self.in_flight.push(call),
                Some(Output::Wait(wait)) => return wait.until.filter(|_| wait.why != WaitReason::Events),
                _ => {}
            }
        }
    }

    fn perform(&mut self, choice: Choice) {
        match choice {
            Choice::Client => {
                let delete = &self.client[self.done];
                self.done += 1;
                // The delete may be refused.
                let _response = delete.send(&mut self.simulation);
            }
            Choice::Call(at) => {
                let call = self.in_flight.remove(at);
                let Simulation { server, plane, .. } = &mut self.simulation;
                let response = plane.perform(server, &call.request);
                plane.observe(server);
                let call = call.id;
                plane.handle(Input::Response { call, response });
            }
            Choice::Deliver(kind) => self.simulation.plane.deliver_next(kind),
        }
    }

    fn run(&mut self, rng: &mut Rng, choices_max: usize) {
        for _ in 0..choices_max {
            let choices = self.choices();
            if choices.is_empty() {
                return;
            }
            self.perform(choices[rng.below(choices.len() as u64) as usize]);
        }
        self.simulation.gave_up = true;
    }

    /// A digest of all state that affects the fates.
    fn fingerprint(&self) -> u128 {
        let server = &self.simulation.server;
        let collector = self.simulation.plane.collector();
        let mut hasher = FixedState::default().build_hasher();
        self.done.hash(&mut hasher);
        let mut existing: HashSet<Uid, FixedState> = HashSet::default();
        for (kind, _) in server.catalog().iter().filter(|(_, resource)| resource.preferred) {
            if server.len(kind) > 0 {
                for object in server.objects(kind, None) {
                    existing.insert(object.meta.uid.clone());
                    digest(&object.meta, &mut hasher);
                }
            }
        }
        for (kind, event_type, object) in self.simulation.plane.pending() {
            (kind, event_type).hash(&mut hasher);
            digest(&object.meta, &mut hasher);
        }
        let mut calls: Vec<u64> = self.in_flight.iter().map(|call| self.call_digest(call)).collect();
        calls.sort_unstable();
        calls.hash(&mut hasher);
        // Uids are not used again: an owner that no longer exists is absent whether it is cached as absent or
        // not, and an attempt for an object that is unknown everywhere does nothing.
        let collector = collector.fingerprint_with(FingerprintOptions {
            seen: &|resource, meta, mut hasher| {
                let kind =
                    server
                        .catalog()
                        .by_resource(&resource.group, &resource.version, &resource.resource);
                let current = kind.and_then(|kind| server.object(kind, &meta.namespace, &meta.name));
                current
                    .is_some_and(|current| current.meta.resource_version == meta.resource_version)
                    .hash(&mut hasher);
                digest(meta, &mut hasher);
            },
            may_exist: &|owner| existing.contains(&owner.uid),
            matters: &|object| {
                existing.contains(&object.uid) || collector.graph().node(&object.uid).is_some()
            },
        });
        collector ^ u128::from(hasher.finish())
    }

    /// A request, and whether the version of its precondition is still current.
    fn call_digest(&self, call: &Call) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        let request = &call.request;
        request.target.hash(&mut hasher);
        let (server, target) = (&self.simulation.server, &request.target);
        let resource = &self.simulation.plane.collector().catalog()[request.kind];
        let catalog = server.catalog();
        let kind = catalog.by_resource(&resource.group, &resource.version, &resource.resource);
        let current = kind.and_then(|kind| server.object(kind, &target.namespace, &target.name));
        let expected = request.expect.resource_version.as_ref();
        current
            .is_some_and(|current| Some(&current.meta.resource_version) == expected)
            .hash(&mut hasher);
        match &request.operation {
            Operation::Get => 0u8.hash(&mut hasher),
            Operation::Delete { propagation, .. } => (1u8, propagation).hash(&mut hasher),
            Operation::Patch { format, body, .. } => {
                let body = without_version(body, expected.map(|version| version.as_str()));
                (2u8, format, body).hash(&mut hasher);
            }
            Operation::Put { finalizers, .. } => (3u8, finalizers).hash(&mut hasher),
        }
        hasher.finish()
    }
}

/// A patch without its resourceVersion, which is also the precondition of the request.
fn without_version(body: &[u8], version: Option<&str>) -> String {
    let text = String::from_utf8_lossy(body);
    match version {
        Some(version) => text.replace(&format!("\"resourceVersion\":\"{version}\""), ""),
        None => text.into_owned(),
    }
}

/// An object without its version and dates.
fn digest(meta: &ObjectMeta, hasher: &mut impl Hasher) {
    (&meta.namespace, &meta.name, &meta.uid, &meta.finalizers).hash(hasher);
    (&meta.owner_references, meta.is_deleting()).hash(hasher);
}
