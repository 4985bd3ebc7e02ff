//! Fates: the objects of the dump compared with their states at the end of the simulations.

pub(crate) mod evidence;
mod fate;
mod findings;
mod forecast;
mod missing;
mod wait;
mod waits;

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
use kubegc_core::{ObjectMeta, ObjectRef, OwnerReference, SharedMeta, Uid, metadata};
use kubegc_snapshot::ObjectView;

pub use self::{
    fate::{Fate, Finding, Missing, Outcomes},
    forecast::{Forecast, ObjectFate, Removal, Undetermined},
    wait::{BlockedBy, Blocking, Remaining, Wait},
};
pub(crate) use self::{
    fate::{content_command, detail, fate_text, missing_fact, missing_text, own_reasons, sentence},
    findings::nothing_selected,
    forecast::fate_at,
};
use self::{
    missing::{Held, Reaction, Sources},
    waits::Waiting,
};
use crate::{
    Assumptions,
    facts::{Facts, Scope},
    simulate::{Run, Simulated, end},
};

/// The fates in a simulation, in the order of the scope. The actor that deletes an object depends on timing
/// and does not distinguish them.
pub(crate) fn fates(facts: &Facts, scope: &Scope, simulation: &Simulation) -> Vec<Fate> {
    let mut kept = kept(facts, scope, simulation);
    let fates = scope.affected().map(|position| match kept.remove(&position) {
        Some((fate, _)) => fate,
        None => deleted(None),
    });
    fates.collect()
}

/// The fates and the metadata of the objects that exist at the end of a simulation, by position.
fn kept(facts: &Facts, scope: &Scope, simulation: &Simulation) -> BTreeMap<u32, (Fate, SharedMeta)> {
    let refusals = Refusals::of(simulation.plane.steps());
    let kept = scope.affected().filter_map(|position| {
        let object = facts.view(position);
        let end = end(simulation, object)?;
        let fate = if end.is_deleting() {
            let waiting = Waiting {
                facts,
                simulation,
                refusals: &refusals,
                object,
                end: &end,
            };
            let waits_for = waiting.waits();
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
    let facts = run.facts;
    let reactions = reactions(run, &simulated, &missing);
    let mut undetermined = missing::spread(facts, &simulated.scope, &reactions, missing);
    drop(reactions);
    let Simulated {
        scope,
        primary,
        alternatives,
        refused,
        ..
    } = simulated;
    drop(alternatives);
    let mut kept = kept(facts, &scope, &primary);
    let began = primary.plane.began();
    let next_at = primary.plane.manager().next_at();
    let mut findings: Vec<Finding> = refused.into_iter().map(findings::refused).collect();
    findings.extend(primary.gave_up.then(|| findings::did_not_settle(&primary)));
    // In a large cascade, the server and the caches of the controllers need as much memory as the fates.
    drop(primary.server);
    let (trace, warnings) = primary.plane.into_trace();
    let mut fates = Vec::with_capacity(scope.affected().count());
    for position in scope.affected() {
        let view = facts.view(position);
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
            snapshot: Arc::clone(&facts.snapshot),
        });
    }
    let timeline = trace.into_steps();
    findings.extend(findings::of_fates(facts, &scope, &fates));
    findings.extend(findings::failures(&timeline));
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
        assumptions: Assumptions::clone(&facts.assumptions),
        controllers: run.controllers.iter().map(|one| one.info().name).collect(),
        duration,
    }
}

/// The differences between the ends of the simulations for each object; empty if no data is missing.
fn reactions(run: &Run<'_>, simulated: &Simulated<'_>, missing: &Sources) -> BTreeMap<u32, Reaction> {
    let Simulated { scope, primary, .. } = simulated;
    let mut reactions = BTreeMap::new();
    if missing.is_empty() && !scope.lacks_data() {
        return reactions;
    }
    let facts = run.facts;
    let targets: BTreeSet<u32> = run.deletes.iter().filter_map(|delete| delete.position).collect();
    let undetermined = missing.values().flatten().copied();
    let by_count = chosen_by_count(facts, scope, undetermined, primary.plane.steps());
    let mut if_refused = BTreeMap::<Uid, Outcomes>::new();
    for request in simulated.runs().flat_map(|run| run.server.undecided_requests()) {
        let outcome = match request.was_terminating {
            true => Outcomes::TERMINATING,
            false => Outcomes::KEPT,
        };
        let known = if_refused.entry(request.uid).or_insert(outcome);
        *known = known.or(outcome);
    }
    let stays = |name: &Arc<str>| stays(&facts.assumptions, name);
    let waits_for_dependents = |name: &Arc<str>| **name == *metadata::FINALIZER_FOREGROUND;
    for position in scope.affected() {
        let object = facts.view(position);
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
    missing::hold_waiting(facts, &mut reactions);
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
    facts: &'a Facts,
    scope: &Scope,
    undetermined: impl Iterator<Item = u32>,
    steps: &[Step],
) -> HashSet<&'a Uid, FixedState> {
    let mut unknown = BTreeSet::new();
    let mut pending: Vec<u32> = scope.unknown.iter().map(|(position, _)| *position).collect();
    pending.extend(undetermined);
    while let Some(position) = pending.pop() {
        if unknown.insert(position) {
            pending.extend(facts.edges.dependents(position));
        }
    }
    unknown.retain(|position| scope.members.contains_key(position));
    let views = || unknown.iter().map(|at| facts.view(*at));
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
