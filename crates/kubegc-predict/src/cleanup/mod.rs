//! What will be cleaned up in a cluster, by all mechanisms together, when, and why.
//!
//! The manager of `kubegc-controllers`, the garbage collector, the namespace controller and the kubelets act on the simulated
//! API server, one beside the other, from one instant at which something is due to the next. What one of them does is what the next one sees: a job
//! that goes for its age takes its pods with it, and a claim that its last pod leaves goes with its volume.

mod because;
mod facts;
mod frame;
mod json;
mod report;
mod story;
mod words;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_control_plane::{Outcome, QUIET, Simulation, Step};
use kubegc_controllers::{
    Controller, End, Input, Key, Manager, Missing, Output, Request, Response, Step as Sequenced, Task, Wire,
};
use kubegc_core::{ObjectRef, StoreError, Timestamp, record::ObjectId};

use self::story::Doubtful;
pub use self::{frame::CleanupFrame, report::CleanupDetail};
use crate::{
    Cluster, Forecast, forecast,
    run::{self, ClientDelete, Ended, Run},
    unknown,
};

/// What will be cleaned up until a time, and what cannot be said.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct CleanupForecast {
    /// When it begins.
    pub began: Timestamp,
    /// Until when it looks, this instant included.
    pub until: Timestamp,
    /// What it takes for granted beside [`Forecast::assumptions`].
    pub frame: CleanupFrame,
    /// The fates of all objects that could be affected, the writes with their reasons in order of time, and what is worth knowing.
    /// What is neither in it nor [undecided](Self::undecided) stays until then.
    pub forecast: Forecast,
    /// Objects about which a mechanism cannot decide, or could not for a time, because something was not read or not dumped; by mechanism and object. What goes
    /// all the same is not among them.
    pub undecided: Vec<Undecided>,
    /// When a mechanism has something to look at next, beyond the horizon.
    pub next_at: Option<Timestamp>,
}

/// An object about which a mechanism cannot decide, or could not for a time.
#[expect(clippy::exhaustive_structs, reason = "a result that callers read")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Undecided {
    /// Name of the controller.
    pub controller: &'static str,
    /// The object.
    pub object: ObjectId,
    /// The fact that is missing.
    pub missing: Missing,
}

/// An object that goes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Collected<'a> {
    /// When.
    pub at: Timestamp,
    /// The object.
    pub object: &'a ObjectRef,
    /// The write that made it go: who made it, and why.
    pub step: &'a Step,
}

impl CleanupForecast {
    /// The objects that go for certain, in order of time.
    ///
    /// An object with an undecided [`Fate`](crate::Fate) is not among them, although [`Forecast::timeline`] may tell how it goes: that is what happens if all
    /// owners that are not known exist and nothing that was not read matters.
    ///
    /// # Complexity
    /// O((f + c) log f) for f fates and c changes of objects in the timeline.
    pub fn collected(&self) -> impl Iterator<Item = Collected<'_>> {
        let doubtful = Doubtful::of(&self.forecast);
        let steps = self.forecast.timeline.iter();
        let changes = steps.flat_map(|step| step.changes.iter().map(move |change| (step, change)));
        let gone = changes
            .filter(move |(_, change)| change.outcome == Outcome::Gone && !doubtful.has(&change.object));
        gone.map(|(step, change)| Collected {
            at: self.began.saturating_add(step.at),
            object: &change.object,
            step,
        })
    }
}

/// Foresees everything that will be cleaned up within a horizon, without anybody's intent.
///
/// What is pending anyway (owners that are gone, deletions under way) is part of it. Mechanisms that look once a period are taken to look at the
/// beginning for the first time. What was not dumped is unknown: objects that hang on it are [undecided](CleanupForecast::undecided), or have an undecided
/// [`Fate`](crate::Fate) where it is their owners that are unknown, the end of a pod, or what becomes of another object that they hang on.
///
/// # Complexity
/// O(n log n) for n objects of the kinds that the mechanisms look at, and what the simulation of those that go costs. Time that passes without anything
/// being due costs nothing.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use kubegc_core::{KubernetesVersion, Timestamp};
/// use kubegc_predict::{Assumptions, CleanupFrame, Cluster, cleanup_forecast};
/// use kubegc_snapshot::Reader;
///
/// let version = KubernetesVersion::LATEST;
/// let mut reader = Reader::new(version).complete("all");
/// reader.read("jobs.yaml", &b"
/// apiVersion: batch/v1
/// kind: Job
/// metadata: {namespace: shop, name: report, uid: u1}
/// spec: {ttlSecondsAfterFinished: 600}
/// status: {conditions: [{type: Complete, status: 'True', lastTransitionTime: '2026-01-01T12:00:00Z'}]}
/// "[..])?;
/// let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
/// let forecast = cleanup_forecast(&cluster, &CleanupFrame::new(version).from(Timestamp::parse("2026-01-01T12:05:00Z")?));
/// let gone: Vec<_> = forecast.collected().collect();
/// assert_eq!(gone[0].object.short(), "shop/Job/report");
/// assert_eq!(gone[0].at, Timestamp::parse("2026-01-01T12:10:00Z")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn cleanup_forecast(cluster: &Cluster, frame: &CleanupFrame) -> CleanupForecast {
    let began = frame.now.unwrap_or_else(|| newest_time(cluster));
    let controllers = run::with_storage(cluster, &frame.controllers);
    let everything = everything(cluster, controllers, Vec::new(), began, Some(frame.horizon));
    let mut forecast = everything.forecast;
    forecast.findings.extend(frame.findings(cluster));
    forecast.findings.sort();
    CleanupForecast {
        began,
        until: began.saturating_add(frame.horizon),
        frame: frame.clone(),
        forecast,
        undecided: everything.undecided,
        next_at: everything.next_at,
    }
}

/// What happens in the whole dump.
pub(crate) struct Everything {
    pub(crate) forecast: Forecast,
    undecided: Vec<Undecided>,
    next_at: Option<Timestamp>,
}

/// Finds out what happens in the whole dump until the horizon, or until nothing changes.
///
/// Without a horizon, objects that controllers cannot decide about are undetermined only where something happens to them.
pub(crate) fn everything(
    cluster: &Cluster,
    controllers: Vec<Arc<dyn Controller>>,
    deletes: Vec<ClientDelete<'_>>,
    began: Timestamp,
    horizon: Option<Duration>,
) -> Everything {
    let mut manager = Manager::new(controllers, Wire::AsUpstream, began).into_simulation();
    run::list_all(cluster, &mut manager, began);
    manager.reconcile_due(began);
    let until = began.saturating_add(horizon.unwrap_or(QUIET));
    let mut seeds: BTreeSet<u32> = forecast::pending_seeds(cluster).collect();
    seeds.extend(first_seeds(
        cluster,
        manager.clone(),
        began,
        until,
        horizon.is_some(),
    ));
    let targets: BTreeSet<u32> = deletes.iter().filter_map(|delete| delete.position).collect();
    seeds.extend(&targets);
    let run = Run {
        cluster,
        controllers: Vec::new(),
        manager: Some(manager),
        deletes,
        began: Some(began),
        horizon,
    };
    loop {
        let Ended {
            scope,
            objects,
            world,
            others,
            refused,
        } = run.simulate(seeds.iter().copied());
        let sources = if horizon.is_some() {
            let (sources, out_of_scope) = unknown::of_everything(cluster, &scope, &world);
            if !out_of_scope.is_empty() {
                seeds.extend(out_of_scope);
                continue;
            }
            sources
        } else {
            unknown::of_intents(cluster, &scope, &world)
        };
        let undecided = undecided(&world);
        let next_at = world.plane.manager().next_at();
        let mut forecast = forecast::conclude(cluster, &scope, &objects, world, &others, &targets, sources);
        forecast.findings.extend(refused);
        forecast.findings.sort();
        return Everything {
            forecast,
            undecided,
            next_at,
        };
    }
}

/// The objects about which controllers could not decide.
fn undecided(world: &Simulation) -> Vec<Undecided> {
    let manager = world.plane.manager();
    let unknown = manager.unknown();
    let unknown = unknown.filter(|(_, object, ..)| manager.record(object).is_some());
    let undecided = unknown.map(|(controller, object, missing, _)| Undecided {
        controller: controller.info().name,
        object: object.clone(),
        missing: missing.clone(),
    });
    undecided.collect()
}

/// The objects on which something will be done if nothing else happens, and those that hang on what cannot be decided.
fn first_seeds(
    cluster: &Cluster,
    mut manager: Manager,
    began: Timestamp,
    until: Timestamp,
    with_unknown: bool,
) -> BTreeSet<u32> {
    let mut seeds = BTreeSet::new();
    let mut now = began;
    loop {
        match manager.poll_output(now) {
            Output::Perform(task) => {
                seeds.extend(facts::objects(cluster, &task));
                let id = task.id;
                let deleted = deletions(cluster, &manager, *task, &mut seeds);
                let end = End::Done;
                manager.handle(now, Input::Ended { task: id, end });
                for ObjectId {
                    resource,
                    namespace,
                    name,
                    uid,
                } in deleted
                {
                    let key = Key::new(namespace, name);
                    manager.handle(now, Input::Deleted { resource, key, uid });
                }
            }
            Output::Wait { until: Some(at) } if at > now && at <= until => now = at,
            _ => break,
        }
    }
    if with_unknown {
        let unknown = manager.unknown();
        let unknown = unknown.filter_map(|(_, object, ..)| cluster.position_of(object));
        seeds.extend(cluster.affected_by(unknown));
    }
    seeds
}

/// The objects that a task deletes, where reads find what the dump has and every write succeeds. Adds the objects that it touches to the seeds.
fn deletions(cluster: &Cluster, manager: &Manager, task: Task, seeds: &mut BTreeSet<u32>) -> Vec<ObjectId> {
    let mut deleted = Vec::new();
    let mut sequence = task.work.into_steps(false).begin();
    let mut response = None;
    while let Sequenced::Perform { request, .. } = sequence.next(response.take()) {
        seeds.extend(facts::touched(cluster, &request));
        response = Some(match request {
            Request::Get {
                resource,
                namespace,
                name,
            } => match manager.cache().get(resource, &Key::new(namespace, name)) {
                Some(record) => Response::Object(Box::new(record.clone())),
                None => Response::Failed(StoreError::NotFound),
            },
            Request::Delete { object, .. } => {
                deleted.push(object);
                Response::Done
            }
            Request::Write(_) | Request::Event(_) => Response::Written(None),
            _ => Response::Failed(StoreError::Unlisted),
        });
    }
    deleted
}

/// When the newest thing in the dump happened.
pub(crate) fn newest_time(cluster: &Cluster) -> Timestamp {
    let snapshot = &cluster.snapshot;
    let records = (0..snapshot.len()).filter_map(|position| snapshot.record_at(position));
    let times = records.map(|record| run::latest_of(&record.meta).max(facts::newest(&record)));
    times.flatten().max().unwrap_or(Timestamp::EPOCH)
}
