//! Objects about which controllers cannot decide because facts are missing, and pods whose end is unknown.

use std::collections::BTreeSet;

use kubegc_control_plane::{Simulation, kubelet_runs};
use kubegc_controllers::MayChange;
use kubegc_core::{
    ApiResource,
    record::{Record, Resource},
};

use crate::{
    facts::{Facts, HAS_CONTENT, Member, Relation, Scope},
    fate::{Missing, missing_fact},
    run::Simulated,
    undetermined::Sources,
};

/// The unknown facts of a simulation of deletes: those about objects that changed, or that follow one that
/// did.
///
/// The actions of controllers on other objects are independent of the deletes.
pub(crate) fn of_intents(cluster: &Facts, simulated: &Simulated) -> Sources {
    let (scope, simulation) = (&simulated.scope, &simulated.primary);
    let mut sources: Sources = contents(cluster, scope, simulation).collect();
    sources.extend(policies(cluster, simulated));
    let undetermined = undetermined(cluster, scope, simulation);
    if undetermined.is_empty() {
        return sources;
    }
    let mut changed = BTreeSet::new();
    for change in simulation.plane.steps().iter().flat_map(|step| &step.changes) {
        changed.extend(cluster.positions_of(&change.object.uid));
    }
    let mut concerned = changed.clone();
    for position in changed {
        let related = cluster.related(position).into_iter();
        let followers = related.filter(|related| related.relation == Relation::Follows);
        concerned.extend(followers.map(|related| related.position));
    }
    for (_, missing, affected) in undetermined {
        add(&mut sources, missing, affected, |position| {
            concerned.contains(position)
        });
    }
    sources
}

/// The namespaces and CustomResourceDefinitions that are removed in a simulation though the dump may lack
/// content of them.
fn contents<'a>(
    cluster: &'a Facts,
    scope: &'a Scope,
    simulation: &'a Simulation,
) -> impl Iterator<Item = (Missing, Vec<u32>)> + 'a {
    let has_content = |position: &u32| cluster.has(*position, HAS_CONTENT);
    scope.affected().filter(has_content).filter_map(move |position| {
        let object = cluster.view(position);
        let end = simulation.server.object(object.kind_id()?, "", object.name());
        if end.is_some_and(|end| end.meta.uid == *object.uid()) {
            return None;
        }
        let is_namespace = **object.kind() == *"Namespace";
        let is_content = |kind: &&ApiResource| match is_namespace {
            true => kind.is_namespaced(),
            false => format!("{}.{}", kind.resource, kind.group) == **object.name(),
        };
        let kinds = cluster.collectable_kinds().filter(is_content);
        let completeness = &cluster.snapshot.completeness;
        let unlisted = kinds.filter(|kind| match is_namespace {
            true => cluster.is_unlisted(kind, object.name()),
            false => !completeness.of(&kind.group, &kind.kind).is_complete(),
        });
        let resources: Vec<String> = unlisted.map(ApiResource::qualified_resource).collect();
        let object = object.object_ref();
        (!resources.is_empty()).then(|| (Missing::Content { object, resources }, vec![position]))
    })
}

/// The policies that may refuse requests of a simulation, with the objects of the requests.
fn policies(cluster: &Facts, simulated: &Simulated) -> Sources {
    let mut sources = Sources::new();
    for request in simulated.runs().flat_map(|run| run.server.undecided_requests()) {
        let positions = cluster.positions_of(&request.uid);
        let missing = Missing::Policy {
            policy: request.policy,
            expression: request.expression,
        };
        sources.entry(missing).or_default().extend(positions);
    }
    for positions in sources.values_mut() {
        positions.sort_unstable();
        positions.dedup();
    }
    sources
}

/// The unknown facts of a simulation of what happens anyway, and the objects out of scope that may be
/// affected.
pub(crate) fn of_everything(cluster: &Facts, simulated: &Simulated) -> (Sources, Vec<u32>) {
    let (scope, simulation) = (&simulated.scope, &simulated.primary);
    let mut sources = Sources::new();
    let mut beginnings = Vec::new();
    let is_in_scope = |position: &u32| scope.members.get(position) == Some(&Member::Affected);
    for (position, missing, affected) in undetermined(cluster, scope, simulation) {
        beginnings.push(position);
        add(&mut sources, missing, affected, is_in_scope);
    }
    for position in cluster.all(Resource::Pods).filter(is_in_scope) {
        if let Some(reason) = unknown_end(cluster, &cluster.record(position))
            && is_deleted(cluster, scope, simulation, position)
        {
            let pod = cluster.object_ref(position);
            sources.insert(Missing::Ending { pod, reason }, vec![position]);
            beginnings.push(position);
        }
    }
    sources.extend(contents(cluster, scope, simulation));
    sources.extend(policies(cluster, simulated));
    let mut out_of_scope: Vec<u32> = cluster.affected_by(beginnings).into_iter().collect();
    out_of_scope.retain(|position| !is_in_scope(position));
    (sources, out_of_scope)
}

/// Adds the affected objects that are meant to those whose fates the missing fact makes undetermined.
fn add(sources: &mut Sources, missing: Missing, mut affected: Vec<u32>, is_meant: impl Fn(&u32) -> bool) {
    affected.retain(is_meant);
    if !affected.is_empty() {
        sources.entry(missing).or_default().extend(affected);
    }
}

/// The objects about which a controller could not decide, each with the objects that it may change.
fn undetermined(cluster: &Facts, scope: &Scope, simulation: &Simulation) -> Vec<(u32, Missing, Vec<u32>)> {
    let mut found = Vec::new();
    let unknown_owners: BTreeSet<u32> = scope.unknown.iter().map(|(position, _)| *position).collect();
    for (controller, object, missing, _) in simulation.plane.manager().unknown() {
        let Some(position) = cluster.position_of(object) else {
            continue;
        };
        let info = controller.info();
        let only_deletes = || {
            let mut permissions = info.permissions.iter();
            permissions.all(|(resource, _, verbs)| *resource != object.resource || *verbs == ["delete"])
        };
        // An object that is deleted anyway is not pruned.
        let live_dependents = |owner: u32, resource: Resource| {
            let mut found = dependents(cluster, owner, resource);
            found.retain(|at| !is_deleted(cluster, scope, simulation, *at));
            found
        };
        let adopted = |resource: Resource| {
            let mut found = live_dependents(position, resource);
            found.extend(cluster.adoptable(position, resource, simulation));
            found
        };
        let may_change = |relation: &MayChange| match *relation {
            // A controller that only deletes changes no terminating object, except pods, whose grace period
            // it ends.
            MayChange::Itself
                if object.resource != Resource::Pods
                    && only_deletes()
                    && is_deleted(cluster, scope, simulation, position) =>
            {
                Vec::new()
            }
            MayChange::Itself => vec![position],
            MayChange::Dependents(resource) => dependents(cluster, position, resource),
            MayChange::LiveDependents(resource) => live_dependents(position, resource),
            MayChange::Adopted(resource) => adopted(resource),
            MayChange::DependentsOfAdopted(adopters, resource) => {
                let adopters = adopted(adopters).into_iter();
                let dependents = adopters.flat_map(|owner| live_dependents(owner, resource));
                dependents.collect()
            }
            MayChange::Claims => {
                let is_gone = |position: u32| {
                    unknown_owners.contains(&position) || is_deleted(cluster, scope, simulation, position)
                };
                let set_is_gone = is_gone(position);
                let claims = cluster.claims_of_set(position).into_iter();
                let claims = claims.filter(|(_, pod)| set_is_gone || pod.is_some_and(is_gone));
                claims.map(|(claim, _)| claim).collect()
            }
            MayChange::BoundPods => {
                let related = cluster.related(position).into_iter();
                let related = related.map(|related| related.position);
                let is_pod = |at: &u32| cluster.resource_at(*at) == Some(Resource::Pods);
                related.filter(is_pod).collect()
            }
        };
        let related = controller.info().may_change(object.resource).iter();
        let affected = related.flat_map(may_change).collect();
        let missing = Missing::Controller {
            object: cluster.object_ref(position),
            reason: missing_fact(missing, missing.to_string()),
        };
        found.push((position, missing, affected));
    }
    found
}

fn dependents(cluster: &Facts, owner: u32, resource: Resource) -> Vec<u32> {
    let dependents = cluster.edges.dependents(owner).iter().copied();
    let of_resource = dependents.filter(|&at| cluster.resource_at(at) == Some(resource));
    of_resource.collect()
}

/// Whether an object of the dump no longer exists, or is terminating. Nothing happens to one that is out of
/// scope.
fn is_deleted(cluster: &Facts, scope: &Scope, simulation: &Simulation, position: u32) -> bool {
    if !scope.members.contains_key(&position) {
        return false;
    }
    let view = cluster.view(position);
    let kind = view.kind_id();
    let found = kind.and_then(|kind| simulation.server.object(kind, view.namespace(), view.name()));
    found.is_none_or(|found| found.meta.uid != *view.uid() || found.meta.is_deleting())
}

/// The data that is missing to determine when a pod ends after its deletion, and which component ends it.
///
/// A pod with a final phase and one without a node are removed at once when they are deleted. Others have
/// their grace period, and their kubelet ends them.
fn unknown_end(cluster: &Facts, pod: &Record) -> Option<String> {
    let Some(fields) = pod.pod() else {
        return Some("its node is not known".to_owned());
    };
    let is_deleting = pod.meta.is_deleting();
    if is_deleting && pod.meta.deletion_grace_period_seconds == Some(0) {
        // Only finalizers keep it.
        return None;
    }
    let has_final_phase = fields.has_final_phase();
    if has_final_phase == Some(true) && !is_deleting {
        return None;
    }
    match fields.node_name.known() {
        None => Some("its node is not known".to_owned()),
        Some(node) if node.is_empty() => None,
        Some(node) if cluster.assumptions.pods_end && kubelet_of(cluster, node).is_none() => {
            Some(format!("whether the kubelet of node {node} runs is not known"))
        }
        Some(_) if has_final_phase.is_none() && !is_deleting => {
            Some("whether it has finished is not known".to_owned())
        }
        Some(_) => None,
    }
}

/// Whether the kubelet of the node of this name runs; `None` if that is not known.
pub(crate) fn kubelet_of(cluster: &Facts, node: &str) -> Option<bool> {
    match cluster.by_name(Resource::Nodes, "", node) {
        Some(position) => kubelet_runs(&cluster.record(position)),
        None => cluster.is_complete(Resource::Nodes).then_some(false),
    }
}
