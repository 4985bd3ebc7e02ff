//! The objects of the dump compared with their states at the end of the simulations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_control_plane::{
    Actor, Refusals, Simulation, Step, Why,
    finalizers::{self, Owner as FinalizerOwner},
};
use kubegc_core::{
    ApiResource, KindId, ObjectMeta, ObjectRef, OwnerReference, SharedMeta, Uid, metadata, record::Resource,
};
use kubegc_snapshot::ObjectView;

use crate::{
    Assumptions, Cluster, Outcomes, Wait,
    cycle::cycles,
    facts::{Owner, Scope},
    fate::{Fate, Finding},
    forecast::{Forecast, ObjectFate},
    recreation,
    run::{Run, Simulated},
    undetermined::{self, Held, Reaction, Sources},
    waits::waits_for,
};

/// The fates in a simulation, in the order of the scope. The actor that deletes an object depends on timing
/// and does not distinguish them.
pub(crate) fn fates(cluster: &Cluster, scope: &Scope, simulation: &Simulation) -> Vec<Fate> {
    let mut kept = kept(cluster, scope, simulation);
    let fates = scope.affected().map(|position| match kept.remove(&position) {
        Some((fate, _)) => fate,
        None => deleted(None),
    });
    fates.collect()
}

/// The fates and the metadata of the objects that exist at the end of a simulation, by position.
fn kept(cluster: &Cluster, scope: &Scope, simulation: &Simulation) -> BTreeMap<u32, (Fate, SharedMeta)> {
    let refusals = Refusals::of(simulation.plane.steps());
    let kept = scope.affected().filter_map(|position| {
        let object = cluster.view(position);
        let end = end(simulation, object)?;
        let fate = if end.is_deleting() {
            let waits_for = waits_for(cluster, simulation, &refusals, object, &end);
            Fate::Terminating { waits_for }
        } else {
            let owners: Vec<OwnerReference> = lost_owners(object, &end).collect();
            match owners.is_empty() {
                true => Fate::Kept,
                false => Fate::Released { owners },
            }
        };
        Some((position, (fate, end)))
    });
    kept.collect()
}

/// Compares the ends of the simulations that the dump allows, and of the one without the deletes.
pub(crate) fn conclude(
    run: &Run<'_>,
    simulated: Simulated<'_>,
    missing: Sources,
    anyway: Option<&Simulation>,
) -> Forecast {
    let cluster = run.cluster;
    let reactions = reactions(run, &simulated, &missing);
    let mut undetermined = undetermined::spread(cluster, &simulated.scope, &reactions, missing);
    drop(reactions);
    let Simulated {
        scope,
        primary,
        alternatives,
        refused: mut findings,
        ..
    } = simulated;
    drop(alternatives);
    let mut kept = kept(cluster, &scope, &primary);
    let began = primary.plane.began();
    let next_at = primary.plane.manager().next_at();
    findings.extend(primary.gave_up.then(|| did_not_settle(&primary)));
    // In a large cascade, the server and the caches of the controllers need as much memory as the fates.
    drop(primary.server);
    let (trace, warnings) = primary.plane.into_trace();
    let mut fates = Vec::with_capacity(scope.affected().count());
    for position in scope.affected() {
        let view = cluster.view(position);
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
        controllers: run.controllers.iter().map(|one| one.info().name).collect(),
        duration,
    }
}

/// The finding about a simulation that reached its limit.
fn did_not_settle(simulation: &Simulation) -> Finding {
    let cycle = simulation.last_cycle().iter();
    let cycle = cycle.map(|step| (step.actor, ObjectRef::clone(&step.object)));
    let cycle: BTreeSet<_> = cycle.collect();
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
    let is_others = |step: &&Step| !matches!(step.why, Why::Intent(_));
    for step in steps.iter().filter(lasts).filter(is_others) {
        if let Some(refusal) = &step.failure {
            failures.entry(&refusal.message).or_default().insert(&step.object);
        }
    }
    let failures = failures.into_iter();
    failures.map(|(message, objects)| Finding::RequestsFail {
        message: Arc::clone(message),
        objects: objects.into_iter().cloned().collect(),
    })
}

/// The differences between the ends of the simulations for each object; empty if no data is missing.
fn reactions(run: &Run<'_>, simulated: &Simulated<'_>, missing: &Sources) -> BTreeMap<u32, Reaction> {
    let Simulated { scope, primary, .. } = simulated;
    let mut reactions = BTreeMap::new();
    if missing.is_empty() && !scope.lacks_data() {
        return reactions;
    }
    let cluster = run.cluster;
    let targets: BTreeSet<u32> = run.deletes.iter().filter_map(|delete| delete.position).collect();
    let undetermined = missing.values().flatten().copied();
    let by_count = chosen_by_count(cluster, scope, undetermined, primary.plane.steps());
    let mut if_refused = BTreeMap::<Uid, Outcomes>::new();
    for request in simulated.runs().flat_map(|run| run.server.undecided_requests()) {
        let outcome = match request.was_terminating {
            true => Outcomes::TERMINATING,
            false => Outcomes::KEPT,
        };
        let known = if_refused.entry(request.uid).or_insert(outcome);
        *known = known.or(outcome);
    }
    let stays = |name: &Arc<str>| stays(&cluster.assumptions, name);
    let waits_for_dependents = |name: &Arc<str>| **name == *metadata::FINALIZER_FOREGROUND;
    for position in scope.affected() {
        let object = cluster.view(position);
        let metas: Vec<Option<SharedMeta>> = simulated.runs().map(|run| end(run, object)).collect();
        let ends = || metas.iter().map(Option::as_deref);
        let primary_end = metas[0].as_deref();
        let in_every_run = |is_so: &dyn Fn(&ObjectMeta) -> bool| ends().all(|end| end.is_some_and(is_so));
        let outcomes = ends().map(|end| outcome(object, end)).reduce(Outcomes::or);
        let outcomes = outcomes.unwrap_or(Outcomes::DELETED);
        let is_terminating = outcomes == Outcomes::TERMINATING;
        let is_target = targets.contains(&position);
        let if_refused = if_refused.get(object.uid()).copied();
        let may_be_kept = if_refused.is_some_and(|outcomes| outcomes.has(Outcomes::KEPT));
        let is_deleted =
            object.is_deleting() || is_target && !may_be_kept && (is_terminating || primary_end.is_none());
        let reaction = Reaction {
            differs: ends().any(|end| !is_same_end(primary_end, end)) || by_count.contains(object.uid()),
            waits: (object.is_deleting() && object.finalizers().any(waits_for_dependents))
                || primary.plane.trace().was_terminating(object.uid())
                || ends().flatten().any(ObjectMeta::is_deleting),
            is_target,
            waits_for_dependents: in_every_run(&|end| end.finalizers.iter().any(waits_for_dependents)),
            is_deleted,
            held: match is_terminating && in_every_run(&|end| end.finalizers.iter().any(stays)) {
                true if is_deleted => Held::Certainly,
                true => Held::InRuns,
                false => Held::No,
            },
            if_refused,
            is_immortal: object.finalizers().any(stays),
            outcomes,
        };
        reactions.insert(position, reaction);
    }
    undetermined::hold_waiting(cluster, &mut reactions);
    reactions
}

/// Whether nothing removes a finalizer: neither a controller of Kubernetes nor a component that is assumed to
/// act.
fn stays(assumptions: &Assumptions, finalizer: &str) -> bool {
    use FinalizerOwner::{External, Operator};
    match finalizers::find(finalizer).map(|known| known.owner) {
        None | Some(External(_) | Operator(_)) => !assumptions.releases(finalizer),
        Some(FinalizerOwner::ApiServer) => false,
        Some(owner) => !assumptions.runs(owner.name()),
    }
}

/// The metadata of an object of the dump at the end of a simulation; `None` if it no longer exists.
pub(crate) fn end(simulation: &Simulation, object: ObjectView<'_>) -> Option<SharedMeta> {
    let server = &simulation.server;
    let stored = server.object(object.kind_id()?, object.namespace(), object.name())?;
    (stored.meta.uid == *object.uid()).then(|| stored.meta.clone())
}

/// Whether two ends are the same apart from resource versions and times.
fn is_same_end<'m>(a: Option<&'m ObjectMeta>, b: Option<&'m ObjectMeta>) -> bool {
    let facts = |end: &'m ObjectMeta| (end.is_deleting(), &end.finalizers, &end.owner_references);
    a.map(facts) == b.map(facts)
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
    let views = || unknown.iter().map(|at| cluster.view(*at));
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

fn deleted(removal: Option<(&Step, &Arc<ObjectRef>)>) -> Fate {
    Fate::Deleted {
        by: removal.map_or(Actor::GarbageCollector, |(step, _)| step.actor),
    }
}

fn lost_owners(view: ObjectView<'_>, end: &ObjectMeta) -> impl Iterator<Item = OwnerReference> {
    let is_kept = |reference: &OwnerReference| {
        let mut kept = end.owner_references.iter();
        kept.any(|kept| kept.uid == reference.uid && kept.name == reference.name)
    };
    view.owner_references()
        .filter(move |reference| !is_kept(reference))
}

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
    let mut counts: BTreeMap<KindId, usize> = BTreeMap::new();
    let mut count = |api_version: &str, kind: &str| {
        if let Some(kind) = cluster.kind_id(api_version, kind) {
            *counts.entry(kind).or_default() += 1;
        }
    };
    for position in scope.affected() {
        let view = cluster.view(position);
        let references = view.owner_references();
        for reference in references.filter(|owner| owner.controller == Some(true)) {
            count(&reference.api_version, &reference.kind);
        }
        if cluster.resource_at(position) == Some(Resource::Pods)
            && let Some(node) = view.record().pod().and_then(|pod| pod.node_name.known())
            && !node.is_empty()
        {
            count("v1", "Node");
        }
    }
    let is_missing = |kind: &ApiResource| {
        let coverage = cluster.snapshot.completeness.of(&kind.group, &kind.kind);
        coverage.is_complete() && cluster.of_kind(kind).next().is_none()
    };
    let counts = counts.into_iter();
    let kinds = counts.map(|(id, objects)| (&cluster.catalog()[id], objects));
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
    let terminating = fates.iter().filter(|fate| !fate.fate.waits_for().is_empty());
    let terminating: Vec<&ObjectFate> = terminating.collect();
    let uids = terminating.iter().map(|fate| &fate.object.uid);
    let numbers: BTreeMap<&Uid, usize> = uids.zip(0..).collect();
    let edges = terminating.iter().enumerate().flat_map(|(number, fate)| {
        let dependents = fate.fate.waits_for().iter().flat_map(|wait| match wait {
            Wait::Dependents { blocking } => &**blocking,
            _ => &[],
        });
        let numbers = dependents.filter_map(|blocking| numbers.get(&blocking.object.uid));
        numbers.map(move |dependent| (number, *dependent))
    });
    cycles(edges).into_iter().map(move |members| {
        let objects = members
            .iter()
            .map(|at| ObjectRef::clone(&terminating[*at].object));
        let objects = objects.collect();
        Finding::Cycle { objects }
    })
}

/// The findings about references and controllers of objects in scope.
fn findings_of(cluster: &Cluster, scope: &Scope, fates: &[ObjectFate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The namespaces of deleted objects: their dependents may be in them. The empty one means all.
    let mut namespaces = BTreeSet::new();
    for fate in fates {
        let (position, object) = (fate.position, &fate.object);
        if let Fate::Deleted { .. } | Fate::Terminating { .. } = fate.fate {
            namespaces.insert(&*object.namespace);
        }
        let references = fate.before().owner_references();
        for (reference, owner) in references.zip(cluster.edges.owners(position)) {
            let served = cluster.kind_id(&reference.api_version, &reference.kind);
            let object = ObjectRef::clone(object);
            findings.extend(match (owner, served) {
                (Owner::Never, Some(_)) => Some(Finding::NamespacedOwnerOfClusterScoped { object }),
                (Owner::Never, None) => {
                    let kind = format!("{}/{}", reference.api_version, reference.kind);
                    Some(Finding::OwnerKindNotServed { object, kind })
                }
                _ => None,
            });
        }
    }
    findings.extend(recreation::findings(cluster, fates));
    findings.extend(cluster.silent.iter().filter_map(|silent| {
        let is_for_it = |wait: &Wait| match wait {
            Wait::Finalizer { name, known, .. } => {
                known.and_then(|known| cluster.silent_owner(known.owner, name)) == Some(silent)
            }
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
        let settings = kubegc_objects::Settings::new(cluster.version);
        let kinds = cluster.collectable_kinds();
        let kinds = kinds.filter(|kind| !settings.ignores(kind) && is_unlisted(kind));
        let kinds: Vec<String> = kinds.map(ApiResource::qualified_resource).collect();
        findings.extend((!kinds.is_empty()).then_some(Finding::UnseenDependents { kinds }));
    }
    findings
}
