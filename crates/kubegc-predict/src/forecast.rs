//! A forecast: the objects of the dump compared with their states at the end of the simulations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_control_plane::{
    Actor, Outcome, Refusals, Simulation, Step, Why,
    finalizers::{self, Owner as FinalizerOwner},
};
use kubegc_core::{
    ApiResource, KindId, ObjectMeta, ObjectRef, OwnerReference, SharedMeta, Timestamp, Uid, metadata,
    record::{ObjectId, Resource},
};
use kubegc_objects::collector::InvalidNamespace;
use kubegc_snapshot::{ObjectView, Snapshot};
use serde::Serialize;

use crate::{
    Assumptions, Cluster, Outcomes, Wait,
    cluster::{Owner, Scope},
    cycle::cycles,
    fate::{Fate, Finding},
    recreation,
    run::{Run, Simulated},
    undetermined::{self, Held, Reaction, Sources},
    wait::waits_for,
};

/// The forecast of a cluster, object by object and write by write.
///
/// # Examples
/// A ConfigMap owns a Secret.
/// ```
/// # use kubegc_core::{DeleteOptions, KubernetesVersion};
/// # use kubegc_predict::{Assumptions, Cluster, Intent};
/// # let version = KubernetesVersion::LATEST;
/// # let mut reader = kubegc_snapshot::Reader::new(version).complete("all");
/// # reader.read("dump.yaml", &b"
/// # apiVersion: v1
/// # kind: ConfigMap
/// # metadata: {namespace: shop, name: owner, uid: u1}
/// # ---
/// # apiVersion: v1
/// # kind: Secret
/// # metadata: {namespace: shop, name: key, uid: u2, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: u1}]}
/// # "[..])?;
/// # let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// let forecast = cluster.predict(&[delete])?;
/// for fate in &forecast.fates {
///     assert_eq!(fate.fate.word(), "deleted");
///     assert!(fate.after.is_none());
/// }
/// let removals = forecast.removals().map(|removal| (&*removal.object.name, removal.step.actor.to_string()));
/// assert_eq!(removals.collect::<Vec<_>>(), [("owner", "you".to_owned()), ("key", "garbage collector".to_owned())]);
/// assert!(forecast.findings.is_empty() && forecast.undetermined.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The time at which it begins.
    pub began: Timestamp,
    /// The length of the period, its end included; `None` if it lasts until nothing changes any more.
    pub horizon: Option<Duration>,
    /// The objects of the intents, in order.
    pub targets: Vec<ObjectRef>,
    /// The fates of all objects that could be affected, in the order of the dump. Any other object is kept.
    pub fates: Vec<ObjectFate>,
    /// The writes, in order. If data is missing, they are those of the run in which all owners that are
    /// missing from the dump exist.
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
///
/// # Examples
/// The example of [`Forecast`](crate::Forecast) reads the fates of two objects.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ObjectFate {
    /// The object.
    #[cfg_attr(feature = "schemars", schemars(with = "crate::document::ObjectSchema"))]
    pub object: Arc<ObjectRef>,
    /// Its fate.
    #[serde(flatten)]
    pub fate: Fate,
    /// Whether it has this fate without the deletes, too.
    #[serde(rename = "anyway")]
    pub is_anyway: bool,
    /// Its metadata afterwards, in the run of [`Forecast::timeline`]; `None` if it no longer exists.
    #[serde(skip)]
    pub after: Option<SharedMeta>,
    /// The position in the snapshot.
    #[serde(skip)]
    pub(crate) position: u32,
    #[serde(skip)]
    snapshot: Arc<Snapshot>,
}

impl ObjectFate {
    /// The object in the dump.
    #[must_use]
    pub fn before(&self) -> ObjectView<'_> {
        let view = self.snapshot.view(self.position as usize);
        // The position was read from this snapshot, which does not change.
        view.unwrap_or_else(|| unreachable!("a fate has the position of its object"))
    }
}

/// An object about which a controller cannot decide.
///
/// # Examples
/// The example of [`Forecast`](crate::Forecast) reads that nothing is undetermined.
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
///
/// # Examples
/// The example of [`Forecast`](crate::Forecast) reads who removes two objects.
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
    /// The fate of one object, by name and uid; `None` if it is not affected.
    ///
    /// # Complexity
    /// O(log f) for f fates.
    #[must_use]
    pub fn fate(&self, object: &ObjectRef) -> Option<&ObjectFate> {
        self.fate_by_key(object)
            .filter(|fate| fate.object.uid == object.uid)
    }

    /// The fate of the object of this key, with any uid.
    fn fate_by_key(&self, object: &ObjectRef) -> Option<&ObjectFate> {
        let found = self
            .fates
            .binary_search_by(|fate| key(&fate.object).cmp(&key(object)));
        Some(&self.fates[found.ok()?])
    }

    /// Number of objects by fate, without those that have it anyway.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for fate in self.fates.iter().filter(|fate| !fate.is_anyway) {
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
        let removed = changes.filter(|(_, change)| {
            change.outcome == Outcome::Removed && !self.is_undetermined(&change.object)
        });
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

/// Group, kind, namespace and name, which are unique in a dump.
pub(crate) fn key(object: &ObjectRef) -> [&str; 4] {
    [object.group(), &object.kind, &object.namespace, &object.name]
}

/// The fates in a simulation, by position.
pub(crate) fn fates<'a>(
    cluster: &'a Cluster,
    scope: &'a Scope,
    simulation: &'a Simulation,
) -> impl Iterator<Item = (u32, ObjectRef, Fate)> + 'a {
    let refusals = Refusals::of(simulation.plane.steps());
    scope.affected().filter_map(move |position| {
        let object = cluster.snapshot.view(position as usize)?;
        let object_ref = object.object_ref();
        let fate = match end(simulation, object) {
            Some(end) => fate_of_kept(cluster, simulation, &refusals, position, object, &end),
            None => deleted(simulation.plane.trace().removal(&object_ref)),
        };
        Some((position, object_ref, fate))
    })
}

/// The fates and the metadata of the objects that exist at the end of a simulation, by position.
fn kept(cluster: &Cluster, scope: &Scope, simulation: &Simulation) -> BTreeMap<u32, (Fate, SharedMeta)> {
    let refusals = Refusals::of(simulation.plane.steps());
    let kept = scope.affected().filter_map(|position| {
        let object = cluster.snapshot.view(position as usize)?;
        let end = end(simulation, object)?;
        let fate = fate_of_kept(cluster, simulation, &refusals, position, object, &end);
        Some((position, (fate, end)))
    });
    kept.collect()
}

/// Compares the ends of the simulations that the dump allows, and of the one without the deletes.
pub(crate) fn conclude(
    run: &Run<'_>,
    simulated: Simulated,
    missing: Sources,
    anyway: Option<&Simulation>,
) -> Forecast {
    let cluster = run.cluster;
    let Simulated {
        scope,
        primary,
        alternatives,
        refused: mut findings,
    } = simulated;
    let reactions = reactions(run, &scope, &primary, &alternatives, &missing);
    let mut undetermined = undetermined::spread(cluster, &scope, &reactions, missing);
    drop((reactions, alternatives));
    let mut kept = kept(cluster, &scope, &primary);
    let began = primary.plane.began();
    let next_at = primary.plane.manager().next_at();
    findings.extend(primary.gave_up.then(|| did_not_settle(&primary)));
    // In a large cascade, the server and the caches of the controllers need as much memory as the fates.
    drop(primary.server);
    let (trace, warnings) = primary.plane.into_trace();
    let mut fates = Vec::with_capacity(scope.affected().count());
    for position in scope.affected() {
        let Some(view) = cluster.snapshot.view(position as usize) else {
            continue;
        };
        let object = view.object_ref();
        let removal = trace.removal(&object);
        let shared = removal.filter(|(_, removed)| ***removed == object);
        let shared = shared.map(|(_, removed)| Arc::clone(removed));
        let (fate, after) = match kept.remove(&position) {
            Some((fate, after)) => (fate, Some(after)),
            None => (deleted(removal), None),
        };
        let missing = undetermined.remove(&position);
        let is_anyway = fate != Fate::Kept
            && missing.is_none()
            && anyway.is_some_and(|anyway| is_same_end(after.as_deref(), end(anyway, view).as_deref()));
        fates.push(ObjectFate {
            object: shared.unwrap_or_else(|| Arc::new(object)),
            fate: missing.map_or(fate, |(missing, outcomes)| Fate::Undetermined {
                outcomes,
                missing,
            }),
            is_anyway,
            after,
            position,
            snapshot: Arc::clone(&cluster.snapshot),
        });
    }
    let timeline = trace.into_steps();
    findings.extend(findings_of(cluster, &scope, &fates));
    findings.extend(failures(&timeline));
    findings.sort();
    findings.dedup();
    let duration = timeline.last().map_or(Duration::ZERO, |step| step.at);
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

/// The finding about a simulation that reached its limit.
fn did_not_settle(simulation: &Simulation) -> Finding {
    let cycle = simulation.last_cycle().iter();
    let cycle: BTreeSet<_> = cycle
        .map(|step| (step.actor, ObjectRef::clone(&step.object)))
        .collect();
    let steps = simulation.plane.steps();
    Finding::DidNotSettle {
        at: steps.last().map_or(Duration::ZERO, |step| step.at),
        writes: steps.len(),
        cycle: cycle.into_iter().collect(),
    }
}

/// The requests that the API server failed to perform, by message. Those of the client are findings already.
fn failures(steps: &[Step]) -> impl Iterator<Item = Finding> {
    let mut failures = BTreeMap::<&Arc<str>, BTreeSet<&ObjectRef>>::new();
    let refusals = Refusals::of(steps);
    let lasts = |step: &&Step| !step.is_conflict() || refusals.contains(step);
    for step in steps
        .iter()
        .filter(lasts)
        .filter(|step| !matches!(step.why, Why::Intent(_)))
    {
        if let Some(refusal) = &step.failure {
            failures.entry(&refusal.message).or_default().insert(&step.object);
        }
    }
    failures
        .into_iter()
        .map(|(message, objects)| Finding::RequestsFail {
            message: Arc::clone(message),
            objects: objects.into_iter().cloned().collect(),
        })
}

/// How the ends of the simulations differ for each object; empty if no data is missing.
fn reactions(
    run: &Run<'_>,
    scope: &Scope,
    primary: &Simulation,
    alternatives: &[Simulation],
    missing: &Sources,
) -> BTreeMap<u32, Reaction> {
    let mut reactions = BTreeMap::new();
    if missing.is_empty()
        && scope.unknown.is_empty()
        && scope.out_of_reach.is_empty()
        && scope.flawed.is_empty()
    {
        return reactions;
    }
    let cluster = run.cluster;
    let targets: BTreeSet<u32> = run.deletes.iter().filter_map(|delete| delete.position).collect();
    let undetermined = missing.values().flatten().copied();
    let by_count = chosen_by_count(cluster, scope, undetermined, primary.plane.steps());
    let mut if_refused = BTreeMap::<Uid, Outcomes>::new();
    for request in alternatives
        .iter()
        .chain([primary])
        .flat_map(|simulation| simulation.server.undecided_requests())
    {
        let outcome = match request.was_terminating {
            true => Outcomes::TERMINATING,
            false => Outcomes::KEPT,
        };
        let known = if_refused.entry(request.uid).or_insert(outcome);
        *known = known.or(outcome);
    }
    let is_held = |end: &ObjectMeta| {
        end.finalizers
            .iter()
            .any(|name| stays(&cluster.assumptions, name))
    };
    for position in scope.affected() {
        let Some(object) = cluster.snapshot.view(position as usize) else {
            continue;
        };
        let end = end(primary, object);
        let others: Vec<_> = alternatives
            .iter()
            .map(|other| self::end(other, object))
            .collect();
        let differs = others
            .iter()
            .any(|other| !is_same_end(end.as_deref(), other.as_deref()));
        let waited = |meta: Option<&ObjectMeta>| meta.is_some_and(ObjectMeta::is_deleting);
        let has_finalizer = |name: &str| object.finalizers().any(|finalizer| **finalizer == *name);
        let ends = || std::iter::once(&end).chain(&others).map(Option::as_deref);
        let in_every_run = |is_so: &dyn Fn(&ObjectMeta) -> bool| ends().all(|end| end.is_some_and(is_so));
        let is_terminating = in_every_run(&ObjectMeta::is_deleting);
        let is_target = targets.contains(&position);
        let if_refused = if_refused.get(object.uid()).copied();
        let may_be_kept = if_refused.is_some_and(|outcomes| outcomes.has(Outcomes::KEPT));
        let is_deleted =
            object.is_deleting() || is_target && !may_be_kept && (is_terminating || end.is_none());
        let reaction = Reaction {
            differs: differs || by_count.contains(object.uid()),
            waits: (object.is_deleting() && has_finalizer(metadata::FINALIZER_FOREGROUND))
                || primary.plane.was_terminating(object.uid())
                || waited(end.as_deref())
                || others.iter().any(|other| waited(other.as_deref())),
            is_target,
            is_removed: ends().all(|end| end.is_none()),
            is_terminating,
            waits_for_dependents: in_every_run(&|end| {
                let mut finalizers = end.finalizers.iter();
                finalizers.any(|name| **name == *metadata::FINALIZER_FOREGROUND)
            }),
            is_deleted,
            held: match is_terminating && in_every_run(&is_held) {
                true if is_deleted => Held::Certainly,
                true => Held::InRuns,
                false => Held::No,
            },
            if_refused,
            is_immortal: object.finalizers().any(|name| stays(&cluster.assumptions, name)),
            outcomes: ends().fold(outcome(object, end.as_deref()), |outcomes, end| {
                outcomes.or(outcome(object, end))
            }),
        };
        reactions.insert(position, reaction);
    }
    undetermined::hold_waiting(cluster, &mut reactions);
    reactions
}

/// Whether nothing removes a finalizer: neither a controller of Kubernetes nor a component that is assumed to
/// act.
fn stays(assumptions: &Assumptions, finalizer: &str) -> bool {
    match finalizers::find(finalizer).map(|known| known.owner) {
        None | Some(FinalizerOwner::External(_) | FinalizerOwner::Operator(_)) => {
            !assumptions.releases(finalizer)
        }
        Some(FinalizerOwner::ApiServer) => false,
        Some(owner) => !assumptions.runs(owner.name()),
    }
}

fn end(simulation: &Simulation, object: ObjectView<'_>) -> Option<SharedMeta> {
    let stored = simulation
        .server
        .object(object.kind_id()?, object.namespace(), object.name())?;
    (stored.meta.uid == *object.uid()).then(|| stored.meta.clone())
}

/// Whether two ends are the same apart from resource versions and times.
fn is_same_end(a: Option<&ObjectMeta>, b: Option<&ObjectMeta>) -> bool {
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

/// Objects that a controller deletes because there are too many of their kind, although others of the kind
/// may be deleted first because of missing data.
///
/// They are undetermined even if the run with all unknown owners and the run without them end alike: if some
/// owners do not exist, their dependents are deleted and no longer counted, and the object may be kept.
fn chosen_by_count<'a>(
    cluster: &'a Cluster,
    scope: &Scope,
    undetermined: impl Iterator<Item = u32>,
    steps: &[Step],
) -> HashSet<&'a Uid, FixedState> {
    let mut unknown = BTreeSet::new();
    let mut pending: Vec<u32> = scope.unknown.iter().map(|(position, _)| *position).collect();
    pending.extend(undetermined);
    while let Some(position) = pending.pop() {
        if unknown.insert(position) {
            pending.extend(cluster.edges.dependents(position));
        }
    }
    unknown.retain(|position| scope.members.contains_key(position));
    let views = || {
        unknown
            .iter()
            .filter_map(|at| cluster.snapshot.view(*at as usize))
    };
    let mut alike = BTreeMap::<&str, usize>::new();
    for object in views() {
        *alike.entry(object.kind()).or_default() += 1;
    }
    let chosen = steps.iter().filter(|step| match &step.why {
        Why::Controller(reason) => matches!(reason.code(), "Terminated" | "OverHistoryLimit"),
        _ => false,
    });
    let chosen: HashSet<&Uid, FixedState> = chosen.map(|step| &step.object.uid).collect();
    let undetermined = views().filter(|object| {
        chosen.contains(object.uid()) && alike.get(&**object.kind()).is_some_and(|count| *count > 1)
    });
    undetermined.map(|object| object.uid()).collect()
}

/// The fate of an object that a write removed.
fn deleted(removal: Option<(&Step, &Arc<ObjectRef>)>) -> Fate {
    Fate::Deleted {
        by: removal.map_or(Actor::GarbageCollector, |(step, _)| step.actor),
    }
}

/// The fate of an object that exists at the end of a simulation.
fn fate_of_kept(
    cluster: &Cluster,
    simulation: &Simulation,
    refusals: &Refusals<'_>,
    position: u32,
    view: ObjectView<'_>,
    end: &ObjectMeta,
) -> Fate {
    if end.is_deleting() {
        let object = cluster.snapshot.object(position as usize);
        let waits_for = object.map(|object| waits_for(cluster, simulation, refusals, &object, end));
        return Fate::Terminating {
            waits_for: waits_for.unwrap_or_default(),
        };
    }
    let owners: Vec<OwnerReference> = lost_owners(view, end).collect();
    if owners.is_empty() {
        Fate::Kept
    } else {
        Fate::Released { owners }
    }
}

/// The owner references that an object no longer has.
fn lost_owners(view: ObjectView<'_>, end: &ObjectMeta) -> impl Iterator<Item = OwnerReference> {
    let is_kept = |reference: &OwnerReference| {
        let mut kept = end.owner_references.iter();
        kept.any(|kept| kept.uid == reference.uid && kept.name == reference.name)
    };
    view.owner_references()
        .filter(move |reference| !is_kept(reference))
}

/// The outcome of a run for an object.
fn outcome(view: ObjectView<'_>, end: Option<&ObjectMeta>) -> Outcomes {
    match end {
        None => Outcomes::DELETED,
        Some(end) if end.is_deleting() => Outcomes::TERMINATING,
        Some(end) if lost_owners(view, end).next().is_some() => Outcomes::RELEASED,
        Some(_) => Outcomes::KEPT,
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

/// The terminating objects that wait for each other.
fn cycles_of(fates: &[ObjectFate]) -> impl Iterator<Item = Finding> {
    let terminating: Vec<(&ObjectRef, &[Wait])> = fates
        .iter()
        .filter_map(|fate| match &fate.fate {
            Fate::Terminating { waits_for } => Some((&*fate.object, &waits_for[..])),
            _ => None,
        })
        .collect();
    let numbers: BTreeMap<&Uid, usize> = terminating
        .iter()
        .enumerate()
        .map(|(number, (object, _))| (&object.uid, number))
        .collect();
    let blocking = |waits_for: &[Wait]| -> Vec<usize> {
        let dependents = waits_for.iter().filter_map(|wait| match wait {
            Wait::Dependents { blocking } => Some(blocking),
            _ => None,
        });
        let dependents = dependents.flatten();
        dependents
            .filter_map(|blocking| numbers.get(&blocking.object.uid).copied())
            .collect()
    };
    let blocking: Vec<Vec<usize>> = terminating
        .iter()
        .map(|(_, waits_for)| blocking(waits_for))
        .collect();
    cycles(&blocking).into_iter().map(move |members| Finding::Cycle {
        objects: members.into_iter().map(|at| terminating[at].0.clone()).collect(),
    })
}

/// The findings about references and controllers of objects in scope.
fn findings_of(cluster: &Cluster, scope: &Scope, fates: &[ObjectFate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The namespaces of deleted objects: their dependents may be in them. The empty one means all.
    let mut namespaces = BTreeSet::new();
    for fate in fates {
        let (position, object) = (fate.position, &fate.object);
        let is_deleted = matches!(fate.fate, Fate::Deleted { .. } | Fate::Terminating { .. });
        if is_deleted {
            namespaces.insert(&*object.namespace);
        }
        let references = fate.before().owner_references();
        for (reference, owner) in references.zip(cluster.edges.owners(position)) {
            let served = cluster.kind_id(&reference.api_version, &reference.kind);
            match (owner, served) {
                (Owner::Never, Some(_)) => {
                    findings.push(Finding::NamespacedOwnerOfClusterScoped {
                        object: ObjectRef::clone(object),
                    });
                }
                (Owner::Never, None) => findings.push(Finding::OwnerKindNotServed {
                    object: ObjectRef::clone(object),
                    kind: format!("{}/{}", reference.api_version, reference.kind),
                }),
                _ => {}
            }
        }
    }
    findings.extend(recreation::findings(cluster, fates));
    findings.extend(cluster.silent.iter().filter_map(|silent| {
        let is_for_it = |wait: &Wait| match wait {
            Wait::Finalizer {
                name,
                known: Some(known),
                ..
            } => cluster.silent_owner(known.owner, name) == Some(silent),
            _ => false,
        };
        let is_its = |fate: &ObjectFate| match &fate.fate {
            Fate::Terminating { waits_for } => waits_for.iter().any(is_for_it),
            _ => *fate.object == silent.object,
        };
        fates.iter().any(is_its).then(|| Finding::DoesNotAct {
            component: silent.component,
            object: silent.object.clone(),
            lasted: silent.lasted,
        })
    }));
    findings.extend(cycles_of(fates));
    findings.extend(missing_kinds(cluster, scope));
    if !namespaces.is_empty() {
        let is_unlisted = |resource: &ApiResource| {
            let mut namespaces = namespaces.iter();
            namespaces.any(|namespace| cluster.is_unlisted(resource, namespace))
        };
        let settings = kubegc_objects::Settings::new(cluster.version());
        let kinds: Vec<String> = cluster
            .catalog()
            .iter()
            .filter(|(_, resource)| resource.preferred && resource.verbs.collectable())
            .filter(|(_, resource)| !settings.ignores(resource) && is_unlisted(resource))
            .map(|(_, resource)| resource.qualified_resource())
            .collect();
        if !kinds.is_empty() {
            findings.push(Finding::UnseenDependents { kinds });
        }
    }
    findings
}
