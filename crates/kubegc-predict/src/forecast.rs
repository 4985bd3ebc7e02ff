//! Runs an intent on the part of the cluster that it can reach, in each world that the dump allows, and compares beginning and end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_core::{ObjectMeta, ObjectRef, OwnerReference, Uid, identity::split_api_version, metadata};
use kubegc_objects::effect::InvalidNamespace;
use kubegc_snapshot::{Details, SnapshotObject};

use crate::{
    Assumptions, Cluster, Intent,
    cluster::{Owner, Scope},
    doubt::{self, Stance},
    fate::{Fate, Finding},
    simulation::{Unlisted, build, simulate},
    timeline::{Actor, Outcome, Step},
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

/// Where something begins without any intent: odd owners, deletions under way, and what goes with a namespace or a definition that is being deleted.
pub(crate) fn pending_seeds(cluster: &Cluster) -> Vec<u32> {
    let facts = &cluster.edges.facts;
    let mut seeds = Vec::new();
    for at in (0..facts.len() as u32).filter(|&at| facts[at as usize] & crate::cluster::ODD != 0) {
        seeds.push(at);
        if facts[at as usize] & crate::cluster::DELETING != 0 {
            // As it was dumped: what is pending takes it away.
            let object = cluster.snapshot.object(at as usize);
            seeds.extend(object.into_iter().flat_map(|object| content(cluster, &object)));
        }
    }
    seeds
}

/// Predicts what intents do, whose targets are resolved.
pub(crate) fn predict(cluster: &Cluster, targets: &[(Vec<u32>, &Intent)]) -> Forecast {
    let scope = Scope::of(cluster, seeds(cluster, targets));
    run(cluster, &scope, targets)
}

/// What else goes with a Namespace or a CustomResourceDefinition.
fn content(cluster: &Cluster, object: &SnapshotObject) -> Vec<u32> {
    let snapshot = &cluster.snapshot;
    match object.details.as_deref() {
        _ if *object.kind == *"Namespace" && split_api_version(&object.api_version).0.is_empty() => {
            let all = snapshot.views().enumerate();
            let inside = all.filter(|(_, other)| *other.namespace() == object.meta.name);
            inside.map(|(position, _)| position as u32).collect()
        }
        Some(Details::CustomResourceDefinition(definition)) => {
            let all = snapshot.positions_of_kind(&definition.group, &definition.kind);
            all.map(|position| position as u32).collect()
        }
        _ => Vec::new(),
    }
}

/// A world that has come to rest before the intents, and what is in it.
pub(crate) struct Prepared {
    pub(crate) objects: BTreeMap<u32, SnapshotObject>,
    pub(crate) world: World,
    scope: Scope,
}

/// Prepares the world of some intents, in which owners that are not in the dump exist.
pub(crate) fn prepare(cluster: &Cluster, targets: &[(Vec<u32>, &Intent)]) -> Prepared {
    let scope = Scope::of(cluster, seeds(cluster, targets));
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

fn seeds(cluster: &Cluster, targets: &[(Vec<u32>, &Intent)]) -> Vec<u32> {
    let mut seeds: Vec<u32> = Vec::new();
    for (positions, _) in targets {
        for &position in positions {
            seeds.push(position);
            let object = cluster.object(position);
            seeds.extend(object.into_iter().flat_map(|object| content(cluster, &object)));
        }
    }
    seeds
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
    let is_target: BTreeSet<u32> = targets
        .iter()
        .flat_map(|(positions, _)| positions.iter().copied())
        .collect();
    let mut forecast = conclude(cluster, scope, &objects, world, &others, &is_target);
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
) -> Forecast {
    let mut forecast = Forecast::empty(cluster.assumptions.clone());
    let makers = makers(&world.plane.steps);
    let terminating = terminating(&world.plane.steps);
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
            differs,
            waits: terminating.contains(&object.meta.uid)
                || waited(end.as_deref())
                || other_ends.iter().any(|other| waited(other.as_deref())),
            is_target: is_target.contains(&position),
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
    drop((makers, terminating));
    let mut doubts = doubt::spread(cluster, scope, &stances);
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
        let kinds: Vec<String> = cluster
            .catalog()
            .iter()
            .filter(|(_, resource)| resource.preferred && resource.verbs.collectable())
            .filter(|(_, resource)| cluster.is_unlisted(resource, ""))
            .map(|(_, resource)| resource.qualified_resource())
            .collect();
        if !kinds.is_empty() {
            forecast.findings.push(Finding::UnseenDependents { kinds });
        }
    }
}
