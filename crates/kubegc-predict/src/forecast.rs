//! What happens to each object: the state of the dump compared with the end of the simulations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_control_plane::{Actor, Outcome, Simulation, Step, Why};
use kubegc_core::{ObjectMeta, ObjectRef, OwnerReference, Uid, identity::split_api_version, metadata};
use kubegc_objects::effect::InvalidNamespace;
use kubegc_snapshot::SnapshotObject;

use crate::{
    Assumptions, Cluster,
    cluster::{DELETING, Owner, Scope},
    doubt::{self, Sources, Stance},
    fate::{Fate, Finding},
    run::{Ended, Run},
    unknown,
};

/// What happens to a cluster, object by object and write by write.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The fates of all objects that could be affected, in the order of the dump. What is not here is not reached and stays.
    pub fates: Vec<ObjectFate>,
    /// The writes, in order. Where the dump leaves several possibilities, those of the world in which unlisted owners exist.
    pub timeline: Vec<Step>,
    /// The warnings that the collector publishes.
    pub warnings: Vec<InvalidNamespace>,
    /// What else is worth knowing, sorted.
    pub findings: Vec<Finding>,
    /// What was taken for granted.
    pub assumptions: Assumptions,
    /// How much simulated time passed until the last change.
    pub duration: Duration,
}

/// One object and what becomes of it.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct ObjectFate {
    /// The object.
    pub object: ObjectRef,
    /// What becomes of it.
    pub fate: Fate,
    /// Its metadata before.
    pub before: Arc<ObjectMeta>,
    /// Its metadata afterwards; `None` where it is gone. In the world in which unlisted owners exist.
    pub after: Option<Arc<ObjectMeta>>,
}

impl Forecast {
    fn empty(assumptions: Assumptions) -> Self {
        Self {
            fates: Vec::new(),
            timeline: Vec::new(),
            warnings: Vec::new(),
            findings: Vec::new(),
            assumptions,
            duration: Duration::ZERO,
        }
    }

    /// The fate of one object, by name and uid; `None` where nothing reaches it.
    ///
    /// # Complexity
    /// O(log f) for f fates.
    #[must_use]
    pub fn fate(&self, object: &ObjectRef) -> Option<&ObjectFate> {
        fn name(object: &ObjectRef) -> (&str, &str, &str, &str) {
            (object.group(), &object.kind, &object.namespace, &object.name)
        }
        let found = self
            .fates
            .binary_search_by(|fate| name(&fate.object).cmp(&name(object)))
            .ok()?;
        Some(&self.fates[found]).filter(|fate| fate.object.uid == object.uid)
    }

    /// How many objects have each fate.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for fate in &self.fates {
            *counts.entry(fate.fate.word()).or_insert(0) += 1;
        }
        counts
    }
}

/// The positions at which something begins without any intent: owners that do not exist, and deletions in progress.
pub(crate) fn pending_seeds(cluster: &Cluster) -> impl Iterator<Item = u32> + '_ {
    let facts = &cluster.edges.facts;
    let is_odd = |at: &u32| facts[*at as usize] & crate::cluster::ODD != 0;
    (0..facts.len() as u32).filter(is_odd)
}

/// Simulates deletes and compares the ends.
pub(crate) fn forecast(run: &Run<'_>, seeds: impl IntoIterator<Item = u32>) -> Forecast {
    let cluster = run.cluster;
    let Ended {
        scope,
        objects,
        world,
        others,
        refused,
    } = run.simulate(seeds);
    let is_target: BTreeSet<u32> = run.deletes.iter().filter_map(|delete| delete.position).collect();
    let unknown = unknown::of_intents(cluster, &scope, &world);
    let mut forecast = conclude(cluster, &scope, &objects, world, &others, &is_target, unknown);
    forecast.findings.extend(refused);
    forecast.findings.sort();
    forecast.findings.dedup();
    forecast
}

/// The fates in a simulation, by position.
pub(crate) fn fates<'a>(
    scope: &'a Scope,
    objects: &'a BTreeMap<u32, SnapshotObject>,
    world: &'a Simulation,
) -> impl Iterator<Item = (u32, ObjectRef, Fate)> + 'a {
    let makers = makers(world.plane.steps());
    scope.affected().map(move |position| {
        let object = &objects[&position];
        let end = end(world, object);
        let fate = fate(world, object, end.as_deref(), &makers);
        (position, object.object_ref(), fate)
    })
}

/// Compares how the worlds that the dump allows have ended.
pub(crate) fn conclude(
    cluster: &Cluster,
    scope: &Scope,
    objects: &BTreeMap<u32, SnapshotObject>,
    world: Simulation,
    others: &[Simulation],
    is_target: &BTreeSet<u32>,
    undecided: Sources,
) -> Forecast {
    let mut forecast = Forecast::empty(Assumptions::clone(&cluster.assumptions));
    let makers = makers(world.plane.steps());
    let terminating = terminating(world.plane.steps());
    let in_doubt = undecided.values().flatten().copied();
    let by_count = chosen_by_count(cluster, scope, objects, in_doubt, world.plane.steps());
    let mut stances = BTreeMap::new();
    for position in scope.affected() {
        let object = &objects[&position];
        let end = end(&world, object);
        let other_ends: Vec<_> = others.iter().map(|other| self::end(other, object)).collect();
        let differs = other_ends
            .iter()
            .any(|other| !alike(end.as_deref(), other.as_deref()));
        let waited = |meta: Option<&ObjectMeta>| meta.is_some_and(ObjectMeta::is_deleting);
        let stance = Stance {
            differs: differs || by_count.contains(&object.meta.uid),
            waits: (object.meta.is_deleting() && object.meta.has_finalizer(metadata::FINALIZER_FOREGROUND))
                || terminating.contains(&object.meta.uid)
                || waited(end.as_deref())
                || other_ends.iter().any(|other| waited(other.as_deref())),
            is_target: is_target.contains(&position),
            goes: end.is_none() && other_ends.iter().all(Option::is_none),
        };
        stances.insert(position, stance);
        let fate = fate(&world, object, end.as_deref(), &makers);
        forecast.fates.push(ObjectFate {
            object: object.object_ref(),
            fate,
            before: Arc::new(object.meta.clone()),
            after: end,
        });
    }
    drop((makers, terminating, by_count));
    let mut doubts = doubt::spread(cluster, scope, &stances, undecided);
    for (position, fate) in scope.affected().zip(&mut forecast.fates) {
        if let Some(missing) = doubts.remove(&position) {
            fate.fate = Fate::Undecided { missing };
        }
    }
    find(cluster, scope, &mut forecast);
    forecast.duration = world.plane.steps().last().map_or(Duration::ZERO, |step| step.at);
    forecast
        .findings
        .extend(world.gave_up.then_some(Finding::DidNotSettle));
    forecast.findings.extend(failures(world.plane.steps()));
    forecast.findings.sort();
    forecast.findings.dedup();
    (forecast.timeline, forecast.warnings) = world.plane.into_trace();
    forecast
}

/// The requests that the API server failed to perform, by message. Those of the client are findings already.
fn failures(steps: &[Step]) -> impl Iterator<Item = Finding> {
    let mut failures = BTreeMap::<&Arc<str>, BTreeSet<&ObjectRef>>::new();
    for step in steps.iter().filter(|step| !matches!(step.why, Why::Intent(_))) {
        if let Some(message) = &step.failure {
            failures.entry(message).or_default().insert(&step.object);
        }
    }
    failures
        .into_iter()
        .map(|(message, objects)| Finding::RequestsFail {
            message: Arc::clone(message),
            objects: objects.into_iter().cloned().collect(),
        })
}

fn end(world: &Simulation, object: &SnapshotObject) -> Option<Arc<ObjectMeta>> {
    let kind = object.kind_id?;
    let stored = world
        .server
        .object(kind, &object.meta.namespace, &object.meta.name)?;
    (stored.meta.uid == object.meta.uid).then(|| Arc::new(stored.meta.clone()))
}

/// Whether two ends are the same, whatever the versions and times.
fn alike(a: Option<&ObjectMeta>, b: Option<&ObjectMeta>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            a.is_deleting() == b.is_deleting()
                && a.finalizers == b.finalizers
                && a.owner_references == b.owner_references
        }
        (None, None) => true,
        _ => false,
    }
}

/// What was being deleted at some time and was there still.
fn terminating(steps: &[Step]) -> HashSet<&Uid, FixedState> {
    let changes = steps.iter().flat_map(|step| &step.changes);
    changes
        .filter(|change| change.outcome == Outcome::Terminating)
        .map(|change| &change.object.uid)
        .collect()
}

/// What goes because there are too many like it, while it and others like it hang on unknown owners or on what a cleaner cannot decide about.
///
/// That all unknown owners exist, or none, says nothing of it: where some do not, their dependents go and are counted no more, and it may stay.
fn chosen_by_count<'a>(
    cluster: &Cluster,
    scope: &Scope,
    objects: &'a BTreeMap<u32, SnapshotObject>,
    in_doubt: impl Iterator<Item = u32>,
    steps: &[Step],
) -> HashSet<&'a Uid, FixedState> {
    let mut unknown = BTreeSet::new();
    let mut pending: Vec<u32> = scope.unknown.iter().map(|(position, _)| *position).collect();
    pending.extend(in_doubt);
    while let Some(position) = pending.pop() {
        if unknown.insert(position) {
            pending.extend(cluster.edges.dependents(position));
        }
    }
    let mut alike = BTreeMap::<&str, usize>::new();
    for object in unknown.iter().filter_map(|position| objects.get(position)) {
        *alike.entry(&object.kind).or_default() += 1;
    }
    let chosen = steps.iter().filter(|step| match &step.why {
        Why::Controller(reason) => matches!(reason.code(), "Terminated" | "OverHistoryLimit"),
        _ => false,
    });
    let chosen: HashSet<&Uid, FixedState> = chosen.map(|step| &step.object.uid).collect();
    let objects = unknown.iter().filter_map(|position| objects.get(position));
    let in_doubt = objects.filter(|object| {
        chosen.contains(&object.meta.uid) && alike.get(&*object.kind).is_some_and(|count| *count > 1)
    });
    in_doubt.map(|object| &object.meta.uid).collect()
}

/// The actor that removed each object, by group, kind, namespace and name.
type Makers<'a> = HashMap<[&'a str; 4], Actor, FixedState>;

fn makers(steps: &[Step]) -> Makers<'_> {
    let mut makers = Makers::default();
    for step in steps {
        for change in step
            .changes
            .iter()
            .filter(|change| change.outcome == Outcome::Gone)
        {
            let object = &change.object;
            let key = [object.group(), &*object.kind, &object.namespace, &object.name];
            makers.insert(key, step.actor);
        }
    }
    makers
}

fn fate(world: &Simulation, object: &SnapshotObject, end: Option<&ObjectMeta>, makers: &Makers<'_>) -> Fate {
    let Some(end) = end else {
        let (group, _) = split_api_version(&object.api_version);
        let key = [group, &*object.kind, &object.meta.namespace, &object.meta.name];
        return Fate::Deleted {
            by: makers.get(&key).copied().unwrap_or(Actor::GarbageCollector),
        };
    };
    if object.kind_id.is_none() {
        return Fate::Kept;
    }
    if end.is_deleting() {
        let blocked_by = if end.has_finalizer(metadata::FINALIZER_FOREGROUND) {
            world.plane.collector().explain(&end.uid).blocking
        } else {
            Vec::new()
        };
        let mut finalizers = end.finalizers.clone();
        finalizers.extend(namespace_finalizers(world, object));
        let in_grace = finalizers.is_empty();
        return Fate::Stuck {
            finalizers,
            blocked_by,
            in_grace,
        };
    }
    let lost: Vec<OwnerReference> = object
        .meta
        .owner_references
        .iter()
        .filter(|reference| {
            !end.owner_references
                .iter()
                .any(|kept| kept.uid == reference.uid && kept.name == reference.name)
        })
        .cloned()
        .collect();
    if lost.is_empty() {
        Fate::Kept
    } else {
        Fate::Released { owners: lost }
    }
}

/// The finalizers of a namespace's spec that are left: they hold it until its content is gone.
fn namespace_finalizers(world: &Simulation, object: &SnapshotObject) -> Vec<Arc<str>> {
    let is_namespace = *object.kind == *"Namespace" && *object.api_version == *"v1";
    let Some(kind) = object.kind_id.filter(|_| is_namespace) else {
        return Vec::new();
    };
    let stored = world.server.object(kind, "", &object.meta.name);
    let listed = stored.and_then(|stored| stored.at(&["spec", "finalizers"])?.as_array());
    listed
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .map(Arc::from)
        .collect()
}

/// What else is worth knowing.
fn find(cluster: &Cluster, scope: &Scope, forecast: &mut Forecast) {
    let mut anything_goes = false;
    let positions: Vec<u32> = scope.affected().collect();
    for (position, fate) in scope.affected().zip(&forecast.fates) {
        let object = &fate.object;
        let goes = matches!(fate.fate, Fate::Deleted { .. } | Fate::Stuck { .. });
        anything_goes |= goes;
        let references = &fate.before.owner_references;
        for (reference, owner) in references.iter().zip(cluster.edges.owners(position)) {
            let served = cluster.kind_id(&reference.api_version, &reference.kind);
            match (owner, served) {
                (Owner::Never, Some(_)) => {
                    forecast.findings.push(Finding::NamespacedOwnerOfClusterScoped {
                        object: object.clone(),
                    });
                }
                (Owner::Never, None) => forecast.findings.push(Finding::OwnerKindNotServed {
                    object: object.clone(),
                    kind: format!("{}/{}", reference.api_version, reference.kind),
                }),
                (Owner::At(owner), _) if goes && reference.controller == Some(true) => {
                    let controller = cluster.object_ref(owner);
                    let stays = match positions.binary_search(&owner) {
                        Ok(at) => matches!(forecast.fates[at].fate, Fate::Kept | Fate::Released { .. }),
                        Err(_) => cluster.edges.facts[owner as usize] & DELETING == 0,
                    };
                    if stays {
                        forecast.findings.push(Finding::OwnerMayRecreate {
                            object: object.clone(),
                            controller,
                        });
                    }
                }
                _ => {}
            }
        }
    }
    if anything_goes {
        let settings = kubegc_objects::Settings::new(cluster.version());
        let kinds: Vec<String> = cluster
            .catalog()
            .iter()
            .filter(|(_, resource)| resource.preferred && resource.verbs.collectable())
            .filter(|(_, resource)| !settings.ignores(resource) && cluster.is_unlisted(resource, ""))
            .map(|(_, resource)| resource.qualified_resource())
            .collect();
        if !kinds.is_empty() {
            forecast.findings.push(Finding::UnseenDependents { kinds });
        }
    }
}
