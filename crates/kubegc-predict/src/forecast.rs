//! The forecast of each object: the state of the dump compared with the end of the simulations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_control_plane::{Actor, Outcome, Simulation, Step, Why};
use kubegc_core::{
    ApiResource, KindId, ObjectMeta, ObjectRef, OwnerReference, Timestamp, Uid,
    identity::split_api_version,
    metadata,
    record::{ObjectId, Resource},
};
use kubegc_objects::collector::InvalidNamespace;
use kubegc_snapshot::SnapshotObject;

use crate::{
    Assumptions, Cluster,
    cluster::{Owner, Scope},
    doubt::{self, Sources, Stance},
    fate::{Fate, Finding},
    recreation,
    run::{Run, Simulated},
    wait::waits_for,
};

/// The forecast of a cluster, object by object and write by write.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The time at which it begins.
    pub began: Timestamp,
    /// The length of the period, its end included; `None`: until nothing changes any more.
    pub horizon: Option<Duration>,
    /// The objects of the intents, in order.
    pub targets: Vec<ObjectRef>,
    /// The fates of all objects that could be affected, in the order of the dump. Any other object is kept.
    pub fates: Vec<ObjectFate>,
    /// The writes, in order. If missing data allows several runs, those of the run in which all owners
    /// that are missing from the dump exist.
    pub timeline: Vec<Step>,
    /// The warnings that the garbage collector publishes.
    pub warnings: Vec<InvalidNamespace>,
    /// Further findings, sorted.
    pub findings: Vec<Finding>,
    /// Objects about which a controller cannot decide because a fact is missing from the dump. Objects that
    /// are deleted anyway are not among them. Empty in forecasts of deletes alone.
    pub undetermined: Vec<Undetermined>,
    /// The time at which a controller reconciles the next key after the end.
    pub next_at: Option<Timestamp>,
    /// The assumptions about everything outside of the control plane.
    pub assumptions: Assumptions,
    /// The controllers that run in addition to the garbage collector, by name.
    pub controllers: Vec<&'static str>,
    /// The simulated time until the last change.
    pub duration: Duration,
}

/// One object and its fate.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct ObjectFate {
    /// The object.
    pub object: ObjectRef,
    /// Its fate.
    pub fate: Fate,
    /// Its metadata before.
    pub before: Arc<ObjectMeta>,
    /// Its metadata afterwards, in the run of [`Forecast::timeline`]; `None` if it no longer exists.
    pub after: Option<Arc<ObjectMeta>>,
}

/// An object about which a controller cannot decide.
#[expect(clippy::exhaustive_structs, reason = "a result that callers read")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Undetermined {
    /// The name of the controller.
    pub controller: &'static str,
    /// The object.
    pub object: ObjectId,
    /// The missing fact.
    pub missing: kubegc_controllers::Missing,
}

/// The removal of an object.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Removal<'a> {
    /// When.
    pub at: Timestamp,
    /// The object.
    pub object: &'a ObjectRef,
    /// The write after which it no longer exists.
    pub step: &'a Step,
}

impl Forecast {
    /// The fate of one object, by name and uid; `None` if nothing reaches it.
    ///
    /// # Complexity
    /// O(log f) for f fates.
    #[must_use]
    pub fn fate(&self, object: &ObjectRef) -> Option<&ObjectFate> {
        self.fate_by_key(object)
            .filter(|fate| fate.object.uid == object.uid)
    }

    /// The fate of the object of this key, whatever its uid.
    fn fate_by_key(&self, object: &ObjectRef) -> Option<&ObjectFate> {
        let found = self
            .fates
            .binary_search_by(|fate| key(&fate.object).cmp(&key(object)));
        Some(&self.fates[found.ok()?])
    }

    /// Number of objects by fate.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for fate in &self.fates {
            *counts.entry(fate.fate.word()).or_insert(0) += 1;
        }
        counts
    }

    /// The end of the period: after the horizon, or after the last change.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        self.began.saturating_add(self.horizon.unwrap_or(self.duration))
    }

    /// The objects that are removed for certain, in order of time.
    ///
    /// An object with an undetermined [`Fate`] is not among them, although [`timeline`](Self::timeline) may
    /// remove it.
    ///
    /// # Complexity
    /// O(c log f) for c changes of objects in the timeline and f fates.
    pub fn removals(&self) -> impl Iterator<Item = Removal<'_>> {
        let steps = self.timeline.iter();
        let changes = steps.flat_map(|step| step.changes.iter().map(move |change| (step, change)));
        let removed = changes
            .filter(|(_, change)| change.outcome == Outcome::Gone && !self.is_undetermined(&change.object));
        removed.map(|(step, change)| Removal {
            at: self.began.saturating_add(step.at),
            object: &change.object,
            step,
        })
    }

    /// Whether the fate of the object of this key is undetermined.
    pub(crate) fn is_undetermined(&self, object: &ObjectRef) -> bool {
        self.fate_by_key(object)
            .is_some_and(|fate| matches!(fate.fate, Fate::Undetermined { .. }))
    }
}

/// Group, kind, namespace and name: no two objects of a dump share them.
pub(crate) fn key(object: &ObjectRef) -> [&str; 4] {
    [object.group(), &object.kind, &object.namespace, &object.name]
}

/// The fates in a simulation, by position.
pub(crate) fn fates<'a>(
    cluster: &'a Cluster,
    scope: &'a Scope,
    objects: &'a BTreeMap<u32, SnapshotObject>,
    world: &'a Simulation,
) -> impl Iterator<Item = (u32, ObjectRef, Fate)> + 'a {
    let removers = removers(world.plane.steps());
    scope.affected().map(move |position| {
        let object = &objects[&position];
        let end = end(world, object);
        let fate = fate(cluster, world, object, end.as_deref(), &removers);
        (position, object.object_ref(), fate)
    })
}

/// Compares the ends of the simulations that the dump allows.
pub(crate) fn conclude(run: &Run<'_>, simulated: Simulated, missing: Sources) -> Forecast {
    let cluster = run.cluster;
    let Simulated {
        scope,
        objects,
        primary,
        alternatives,
        refused: mut findings,
    } = simulated;
    let targets: BTreeSet<u32> = run.deletes.iter().filter_map(|delete| delete.position).collect();
    let removers = removers(primary.plane.steps());
    let concerned = missing.values().flatten().copied();
    let by_count = chosen_by_count(cluster, &scope, &objects, concerned, primary.plane.steps());
    let mut stances = BTreeMap::new();
    let mut fates = Vec::new();
    for position in scope.affected() {
        let object = &objects[&position];
        let end = end(&primary, object);
        let others: Vec<_> = alternatives
            .iter()
            .map(|other| self::end(other, object))
            .collect();
        let differs = others
            .iter()
            .any(|other| !alike(end.as_deref(), other.as_deref()));
        let waited = |meta: Option<&ObjectMeta>| meta.is_some_and(ObjectMeta::is_deleting);
        let stance = Stance {
            differs: differs || by_count.contains(&object.meta.uid),
            waits: (object.meta.is_deleting() && object.meta.has_finalizer(metadata::FINALIZER_FOREGROUND))
                || primary.plane.was_terminating(&object.meta.uid)
                || waited(end.as_deref())
                || others.iter().any(|other| waited(other.as_deref())),
            is_target: targets.contains(&position),
            is_removed: end.is_none() && others.iter().all(Option::is_none),
        };
        stances.insert(position, stance);
        fates.push(ObjectFate {
            object: object.object_ref(),
            fate: fate(cluster, &primary, object, end.as_deref(), &removers),
            before: Arc::new(object.meta.clone()),
            after: end,
        });
    }
    drop((removers, by_count));
    let mut undetermined = doubt::spread(cluster, &scope, &stances, missing);
    for (position, fate) in scope.affected().zip(&mut fates) {
        if let Some(missing) = undetermined.remove(&position) {
            fate.fate = Fate::Undetermined { missing };
        }
    }
    findings.extend(findings_of(cluster, &scope, &fates));
    findings.extend(primary.gave_up.then_some(Finding::DidNotSettle));
    findings.extend(failures(primary.plane.steps()));
    findings.sort();
    findings.dedup();
    let began = primary.plane.began();
    let duration = primary
        .plane
        .steps()
        .last()
        .map_or(Duration::ZERO, |step| step.at);
    let next_at = primary.plane.manager().next_at();
    let (timeline, warnings) = primary.plane.into_trace();
    Forecast {
        began,
        horizon: run.horizon,
        targets: run.deletes.iter().map(|delete| delete.object.clone()).collect(),
        fates,
        timeline,
        warnings,
        findings,
        undetermined: Vec::new(),
        next_at,
        assumptions: Assumptions::clone(&cluster.assumptions),
        controllers: run
            .controllers
            .iter()
            .map(|controller| controller.info().name)
            .collect(),
        duration,
    }
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

/// Whether two ends are the same apart from resource versions and times.
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

/// Objects that a controller deletes because there are too many of their kind, although missing data may
/// delete others of that kind first.
///
/// The runs in which all unknown owners exist, and none, do not settle these: if some do not exist, their
/// dependents are deleted and no longer counted, and the object may be kept.
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
type Removers<'a> = HashMap<[&'a str; 4], Actor, FixedState>;

fn removers(steps: &[Step]) -> Removers<'_> {
    let mut removers = Removers::default();
    for step in steps {
        for change in step
            .changes
            .iter()
            .filter(|change| change.outcome == Outcome::Gone)
        {
            removers.insert(key(&change.object), step.actor);
        }
    }
    removers
}

fn fate(
    cluster: &Cluster,
    simulation: &Simulation,
    object: &SnapshotObject,
    end: Option<&ObjectMeta>,
    removers: &Removers<'_>,
) -> Fate {
    let Some(end) = end else {
        let (group, _) = split_api_version(&object.api_version);
        let key = [group, &*object.kind, &object.meta.namespace, &object.meta.name];
        return Fate::Deleted {
            by: removers.get(&key).copied().unwrap_or(Actor::GarbageCollector),
        };
    };
    if object.kind_id.is_none() {
        return Fate::Kept;
    }
    if end.is_deleting() {
        return Fate::Terminating {
            waits_for: waits_for(cluster, simulation, object, end),
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

/// The kinds that objects in scope refer to, that are declared complete, and of which the dump has no object.
fn missing_kinds(cluster: &Cluster, scope: &Scope) -> Vec<Finding> {
    let snapshot = &cluster.snapshot;
    let mut counts: BTreeMap<KindId, usize> = BTreeMap::new();
    let mut count = |api_version: &str, kind: &str| {
        if let Some(kind) = cluster.kind_id(api_version, kind) {
            *counts.entry(kind).or_default() += 1;
        }
    };
    for position in scope.affected() {
        let Some(view) = snapshot.view(position as usize) else {
            continue;
        };
        for reference in view
            .owner_references()
            .filter(|owner| owner.controller == Some(true))
        {
            count(&reference.api_version, &reference.kind);
        }
        if cluster.resource_at(position) == Some(Resource::Pods)
            && let Some(record) = snapshot.record_at(position as usize)
            && let Some(node) = record.pod().and_then(|pod| pod.node_name.known())
            && !node.is_empty()
        {
            count("v1", "Node");
        }
    }
    let is_missing = |kind: &ApiResource| {
        snapshot.completeness.of(&kind.group, &kind.kind).is_complete()
            && snapshot.positions_of_kind(&kind.group, &kind.kind).is_empty()
    };
    let kinds = counts
        .into_iter()
        .map(|(id, objects)| (&cluster.catalog()[id], objects));
    let missing = kinds.filter(|(kind, _)| is_missing(kind));
    let findings = missing.map(|(kind, objects)| Finding::KindMissing {
        kind: kind.kind.to_string(),
        resource: kind.qualified_resource(),
        is_namespaced: kind.is_namespaced(),
        objects,
    });
    findings.collect()
}

/// The findings about references and controllers of objects in scope.
fn findings_of(cluster: &Cluster, scope: &Scope, fates: &[ObjectFate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut any_deleted = false;
    for (position, fate) in scope.affected().zip(fates) {
        let object = &fate.object;
        let is_deleted = matches!(fate.fate, Fate::Deleted { .. } | Fate::Terminating { .. });
        any_deleted |= is_deleted;
        let references = &fate.before.owner_references;
        for (reference, owner) in references.iter().zip(cluster.edges.owners(position)) {
            let served = cluster.kind_id(&reference.api_version, &reference.kind);
            match (owner, served) {
                (Owner::Never, Some(_)) => {
                    findings.push(Finding::NamespacedOwnerOfClusterScoped {
                        object: object.clone(),
                    });
                }
                (Owner::Never, None) => findings.push(Finding::OwnerKindNotServed {
                    object: object.clone(),
                    kind: format!("{}/{}", reference.api_version, reference.kind),
                }),
                _ => {}
            }
        }
    }
    findings.extend(recreation::findings(cluster, scope, fates));
    findings.extend(missing_kinds(cluster, scope));
    if any_deleted {
        let settings = kubegc_objects::Settings::new(cluster.version());
        let kinds: Vec<String> = cluster
            .catalog()
            .iter()
            .filter(|(_, resource)| resource.preferred && resource.verbs.collectable())
            .filter(|(_, resource)| !settings.ignores(resource) && cluster.is_unlisted(resource, ""))
            .map(|(_, resource)| resource.qualified_resource())
            .collect();
        if !kinds.is_empty() {
            findings.push(Finding::UnseenDependents { kinds });
        }
    }
    findings
}
