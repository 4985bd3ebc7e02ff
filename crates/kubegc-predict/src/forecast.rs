//! Runs an intent on the part of the cluster that it can reach, in each world that the dump allows, and compares beginning and end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_core::{ObjectMeta, ObjectRef, OwnerReference, Uid, metadata};
use kubegc_objects::effect::InvalidNamespace;
use kubegc_snapshot::SnapshotObject;

use crate::{
    Assumptions, Cluster, Intent,
    cluster::{Owner, Scope},
    doubt::{self, Stance, Undecidable},
    fate::{Fate, Finding},
    simulation::{Unlisted, build, simulate},
    timeline::{Actor, Outcome, Step, Why},
    world::World,
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

/// What happens without any intent, and the state that it leads to.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) forecast: Forecast,
    /// What changed, by position; `None` where the object is gone.
    pub(crate) changes: BTreeMap<u32, Option<Arc<ObjectMeta>>>,
    /// What cannot be said to stay: whoever depends on it is in doubt as well.
    pub(crate) undecided: BTreeSet<u32>,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            forecast: Forecast::empty(Assumptions::default()),
            changes: BTreeMap::new(),
            undecided: BTreeSet::new(),
        }
    }
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

/// Finds out what the collector does without any intent: only objects with odd owners or a deletion under way can begin something.
pub(crate) fn pending(cluster: &Cluster) -> Pending {
    let scope = Scope::of(cluster, pending_seeds(cluster));
    let forecast = run(cluster, &scope, &[]);
    let mut changes = BTreeMap::new();
    let mut undecided = BTreeSet::new();
    for (position, fate) in scope.affected().zip(&forecast.fates) {
        match (&fate.fate, &fate.after) {
            // What is not certain is left as it is.
            (Fate::Undecided { .. }, _) => {
                undecided.insert(position);
            }
            (_, after) if after.as_ref() == Some(&fate.before) => {}
            (_, after) => {
                changes.insert(position, after.clone());
            }
        }
    }
    Pending {
        forecast,
        changes,
        undecided,
    }
}

/// Where something begins without any intent: odd owners and deletions under way.
pub(crate) fn pending_seeds(cluster: &Cluster) -> Vec<u32> {
    let facts = &cluster.edges.facts;
    let is_odd = |at: &u32| facts[*at as usize] & crate::cluster::ODD != 0;
    (0..facts.len() as u32).filter(is_odd).collect()
}

/// Predicts what intents do, whose targets are resolved.
pub(crate) fn predict(cluster: &Cluster, targets: &[(Vec<u32>, &Intent)]) -> Forecast {
    let scope = Scope::of(cluster, seeds(targets));
    run(cluster, &scope, targets)
}

/// A world that has come to rest before the intents, and what is in it.
pub(crate) struct Prepared {
    pub(crate) objects: BTreeMap<u32, SnapshotObject>,
    pub(crate) world: World,
    scope: Scope,
}

/// Prepares the world of some intents, in which owners that are not in the dump exist.
pub(crate) fn prepare(cluster: &Cluster, targets: &[(Vec<u32>, &Intent)]) -> Prepared {
    let scope = Scope::of(cluster, seeds(targets));
    let objects: BTreeMap<u32, SnapshotObject> = scope
        .members
        .keys()
        .filter_map(|&position| Some((position, cluster.object(position)?)))
        .collect();
    let mut world = build(cluster, &scope, &objects, Unlisted::Present);
    world.settle();
    world.forget();
    Prepared {
        objects,
        world,
        scope,
    }
}

/// The fates in a world that has come to rest.
pub(crate) fn fates<'a>(
    prepared: &'a Prepared,
    world: &'a World,
) -> impl Iterator<Item = (u32, ObjectRef, Fate)> + 'a {
    let makers = makers(&world.plane.steps);
    prepared.scope.affected().map(move |position| {
        let object = &prepared.objects[&position];
        let end = end(world, object);
        (
            position,
            object.object_ref(),
            fate(world, object, end.as_deref(), &makers),
        )
    })
}

fn seeds<'a>(targets: &'a [(Vec<u32>, &Intent)]) -> impl Iterator<Item = u32> + 'a {
    targets
        .iter()
        .flat_map(|(positions, _)| positions.iter().copied())
}

fn run(cluster: &Cluster, scope: &Scope, targets: &[(Vec<u32>, &Intent)]) -> Forecast {
    let mut findings = Vec::new();
    let objects: BTreeMap<u32, SnapshotObject> = scope
        .members
        .keys()
        .filter_map(|&position| Some((position, cluster.object(position)?)))
        .collect();
    let world = simulate(
        cluster,
        scope,
        &objects,
        targets,
        Unlisted::Present,
        &mut findings,
    );
    let others: Vec<World> = [Unlisted::Absent, Unlisted::Waiting]
        .into_iter()
        .filter(|_| !scope.unknown.is_empty())
        .map(|unlisted| simulate(cluster, scope, &objects, targets, unlisted, &mut Vec::new()))
        .collect();
    let is_target: BTreeSet<u32> = seeds(targets).collect();
    let mut forecast = conclude(
        cluster,
        scope,
        &objects,
        world,
        &others,
        &is_target,
        Undecidable::nothing(),
    );
    forecast.findings.extend(findings);
    forecast.findings.sort();
    forecast.findings.dedup();
    forecast
}

/// Compares how the worlds that the dump allows have ended.
pub(crate) fn conclude(
    cluster: &Cluster,
    scope: &Scope,
    objects: &BTreeMap<u32, SnapshotObject>,
    world: World,
    others: &[World],
    is_target: &BTreeSet<u32>,
    undecided: Undecidable<'_>,
) -> Forecast {
    let mut forecast = Forecast::empty(cluster.assumptions.clone());
    let makers = makers(&world.plane.steps);
    let terminating = terminating(&world.plane.steps);
    let in_doubt = undecided.sources.values().flatten().copied();
    let by_count = chosen_by_count(cluster, scope, objects, in_doubt, &world.plane.steps);
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
    forecast.duration = world.plane.steps.last().map_or(Duration::ZERO, |step| step.at);
    forecast
        .findings
        .extend(world.gave_up.then_some(Finding::DidNotSettle));
    forecast.findings.sort();
    forecast.findings.dedup();
    forecast.timeline = world.plane.steps;
    forecast.warnings = world.plane.warnings;
    forecast
}

fn end(world: &World, object: &SnapshotObject) -> Option<Arc<ObjectMeta>> {
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

/// Who made each object go, by kind and name.
type Makers<'a> = HashMap<(&'a str, &'a str, &'a str), Actor, FixedState>;

fn makers(steps: &[Step]) -> Makers<'_> {
    let mut makers = Makers::default();
    for step in steps {
        for change in step
            .changes
            .iter()
            .filter(|change| change.outcome == Outcome::Gone)
        {
            let object = &change.object;
            makers.insert((&*object.kind, &*object.namespace, &*object.name), step.actor);
        }
    }
    makers
}

fn fate(world: &World, object: &SnapshotObject, end: Option<&ObjectMeta>, makers: &Makers<'_>) -> Fate {
    let Some(end) = end else {
        let key = (&*object.kind, &*object.meta.namespace, &*object.meta.name);
        return Fate::Deleted {
            by: makers.get(&key).copied().unwrap_or(Actor::GarbageCollector),
        };
    };
    if object.kind_id.is_none() {
        return Fate::Kept;
    }
    if end.is_deleting() {
        let blocked_by = if end.has_finalizer(metadata::FINALIZER_FOREGROUND) {
            world.plane.collector.explain(&end.uid).blocking
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
fn namespace_finalizers(world: &World, object: &SnapshotObject) -> Vec<Arc<str>> {
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
                        Err(_) => cluster
                            .object(owner)
                            .is_some_and(|owner| !owner.meta.is_deleting()),
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
