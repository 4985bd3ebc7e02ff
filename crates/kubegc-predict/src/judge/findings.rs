//! Findings about the fates of a forecast.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use indexmap::IndexSet;
use kubegc_control_plane::{Refusals, Simulation, Step, Why};
use kubegc_core::{ApiResource, KindId, ObjectRef, Uid, record::Resource};
use kubegc_sim::Response;

use super::{Fate, Finding, ObjectFate, Wait, recreation};
use crate::{
    Intent, Target,
    cycle::cycles,
    facts::{Facts, Owner, SIMILAR_MAX, Scope, similar},
};

/// The finding about a delete that the API server refused.
pub(super) fn refused((object, response): (ObjectRef, Response)) -> Finding {
    let message = response.status().map(|status| status.message.clone());
    Finding::Refused {
        object,
        code: response.code,
        message: message.unwrap_or_default(),
    }
}

/// The finding about a simulation that reached its limit.
pub(super) fn did_not_settle(simulation: &Simulation) -> Finding {
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
pub(super) fn failures(steps: &[Step]) -> impl Iterator<Item = Finding> {
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

/// The kinds that objects in scope refer to, that are declared complete, and of which the dump has no object.
fn missing_kinds(facts: &Facts, scope: &Scope) -> Vec<Finding> {
    let mut counts: BTreeMap<KindId, usize> = BTreeMap::new();
    let mut count = |api_version: &str, kind: &str| {
        if let Some(kind) = facts.kind_id(api_version, kind) {
            *counts.entry(kind).or_default() += 1;
        }
    };
    for position in scope.affected() {
        let view = facts.view(position);
        let references = view.owner_references();
        for reference in references.filter(|owner| owner.controller == Some(true)) {
            count(&reference.api_version, &reference.kind);
        }
        if facts.resource_at(position) == Some(Resource::Pods)
            && let Some(node) = view.record().pod().and_then(|pod| pod.node_name.known())
            && !node.is_empty()
        {
            count("v1", "Node");
        }
    }
    let is_missing = |kind: &ApiResource| {
        let coverage = facts.snapshot.completeness.of(&kind.group, &kind.kind);
        coverage.is_complete() && facts.of_kind(kind).next().is_none()
    };
    let counts = counts.into_iter();
    let kinds = counts.map(|(id, objects)| (&facts.catalog()[id], objects));
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
pub(super) fn of_fates(facts: &Facts, scope: &Scope, fates: &[ObjectFate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The namespaces of deleted objects: their dependents may be in them. The empty one means all.
    let mut namespaces = BTreeSet::new();
    for fate in fates {
        let (position, object) = (fate.position, &fate.object);
        if let Fate::Deleted { .. } | Fate::Terminating { .. } = fate.fate {
            namespaces.insert(&*object.namespace);
        }
        let references = fate.before().owner_references();
        for (reference, owner) in references.zip(facts.edges.owners(position)) {
            let served = facts.kind_id(&reference.api_version, &reference.kind);
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
    findings.extend(recreation::findings(facts, fates));
    findings.extend(facts.silent.iter().filter_map(|silent| {
        let is_for_it = |wait: &Wait| match wait {
            Wait::Finalizer { name, known, .. } => {
                known.and_then(|known| facts.silent_owner(known.owner, name)) == Some(silent)
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
    findings.extend(missing_kinds(facts, scope));
    if !namespaces.is_empty() {
        let is_unlisted = |resource: &ApiResource| {
            let mut namespaces = namespaces.iter();
            namespaces.any(|namespace| facts.is_unlisted(resource, namespace))
        };
        let settings = kubegc_objects::Settings::new(facts.version);
        let kinds = facts.collectable_kinds();
        let kinds = kinds.filter(|kind| !settings.ignores(kind) && is_unlisted(kind));
        let kinds: Vec<String> = kinds.map(ApiResource::qualified_resource).collect();
        findings.extend((!kinds.is_empty()).then_some(Finding::UnseenDependents { kinds }));
    }
    findings
}

/// The finding that intents select no object, with similar labels and with the namespaces of objects that
/// match.
pub(crate) fn nothing_selected(facts: &Facts, intents: &[Intent]) -> Finding {
    let (mut namespaces, mut elsewhere) = (BTreeSet::new(), BTreeSet::new());
    let mut labels: IndexSet<String, FixedState> = IndexSet::default();
    for intent in intents {
        let Target::Labelled {
            kind,
            namespace,
            selector,
        } = &intent.target
        else {
            continue;
        };
        namespaces.insert(namespace);
        let Ok((_, resource)) = facts.kind(kind) else {
            continue;
        };
        let mut known: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        for position in facts.of_kind(resource) {
            let meta = facts.view(position).meta();
            if selector.matches(&meta) && !meta.namespace.is_empty() {
                elsewhere.insert(format!("-n {}", meta.namespace));
            }
            if namespace.as_ref().is_none_or(|one| *one == meta.namespace) {
                for (label, value) in &meta.labels {
                    let values = known.entry(Arc::clone(label)).or_default();
                    values.insert(Arc::clone(value));
                }
            }
        }
        for (label, value) in selector.wanted_labels() {
            let hint = |known: &Arc<str>, label: &str, value: &str| {
                (Arc::clone(known), format!("-l {label}={value}"))
            };
            let found = match known.get(label) {
                Some(values) => similar(value, values.iter().map(|known| hint(known, label, known))),
                None => similar(label, known.keys().map(|known| hint(known, known, value))),
            };
            labels.extend(found);
        }
    }
    let namespace = namespaces.first().filter(|_| namespaces.len() == 1);
    Finding::NothingSelected {
        namespace: namespace.and_then(|namespace| namespace.as_ref().cloned()),
        similar: elsewhere.into_iter().chain(labels).take(SIMILAR_MAX).collect(),
    }
}
