//! Objects about which controllers cannot decide because facts are missing, and pods of which nobody knows when they end.

use std::collections::BTreeSet;

use kubegc_control_plane::{Simulation, kubelet_runs};
use kubegc_core::record::{Record, Resource};

use crate::{
    Cluster,
    cluster::{Member, Scope, Tie},
    doubt::Sources,
    fate::Missing,
};

/// The unknown facts of a simulation of deletes: those about objects that changed, or that follow one that did.
///
/// What controllers do about other objects has nothing to do with the deletes.
pub(crate) fn of_intents(cluster: &Cluster, scope: &Scope, world: &Simulation) -> Sources {
    let mut changed = BTreeSet::new();
    for change in world.plane.steps().iter().flat_map(|step| &step.changes) {
        changed.extend(cluster.edges.positions_of(&change.object.uid));
    }
    let mut concerned = changed.clone();
    for position in changed {
        let tied = cluster.tied(position).into_iter();
        let followers = tied.filter(|tied| tied.tie == Tie::Follows);
        concerned.extend(followers.map(|tied| tied.position));
    }
    let mut sources = Sources::new();
    for undecided in undecided(cluster, scope, world) {
        for position in undecided.in_doubt {
            if concerned.contains(&position) {
                sources
                    .entry(undecided.missing.clone())
                    .or_default()
                    .push(position);
            }
        }
    }
    sources
}

/// The unknown facts of a simulation of what happens anyway, and the objects out of scope that may be affected.
pub(crate) fn of_everything(cluster: &Cluster, scope: &Scope, world: &Simulation) -> (Sources, Vec<u32>) {
    let mut sources = Sources::new();
    let mut beginnings = Vec::new();
    let is_in_scope = |position: &u32| scope.members.get(position) == Some(&Member::Affected);
    for undecided in undecided(cluster, scope, world) {
        beginnings.push(undecided.position);
        for position in undecided.in_doubt.into_iter().filter(is_in_scope) {
            sources
                .entry(undecided.missing.clone())
                .or_default()
                .push(position);
        }
    }
    let pods = cluster
        .snapshot
        .positions_of_kind(Resource::Pods.group(), Resource::Pods.kind());
    let pods = scope.members.range(pods.start as u32..pods.end as u32);
    for (&position, _) in pods.filter(|(_, member)| **member == Member::Affected) {
        if let Some(pod) = cluster.snapshot.record_at(position as usize)
            && let Some(reason) = unknown_end(cluster, &pod)
            && is_deleted(cluster, scope, world, position)
        {
            let pod = cluster.object_ref(position);
            sources.insert(Missing::Ending { pod, reason }, vec![position]);
            beginnings.push(position);
        }
    }
    let mut out_of_scope: Vec<u32> = cluster.affected_by(beginnings).into_iter().collect();
    out_of_scope.retain(|position| !is_in_scope(position));
    (sources, out_of_scope)
}

/// An object about which a controller could not decide.
struct Undecided {
    position: u32,
    missing: Missing,
    /// The objects that it may delete.
    in_doubt: Vec<u32>,
}

fn undecided(cluster: &Cluster, scope: &Scope, world: &Simulation) -> Vec<Undecided> {
    let mut found = Vec::new();
    let unknown_owners: BTreeSet<u32> = scope.unknown.iter().map(|(position, _)| *position).collect();
    for (controller, object, missing, _) in world.plane.manager().unknown() {
        let Some(position) = cluster.position_of(object) else {
            continue;
        };
        // What is deleted anyway is not pruned.
        let existing_dependents = |resource| {
            let mut found = dependents(cluster, position, resource);
            found.retain(|at| !is_deleted(cluster, scope, world, *at));
            found
        };
        let info = controller.info();
        let only_deletes = || {
            let mut permissions = info.permissions.iter();
            permissions.all(|(resource, _, verbs)| *resource != object.resource || *verbs == ["delete"])
        };
        let in_doubt = match (info.name, object.resource) {
            // What it gives to its claims decides whether they follow the set, or its pods.
            ("statefulset-controller", Resource::StatefulSets) => {
                let is_gone = |position: u32| {
                    unknown_owners.contains(&position) || is_deleted(cluster, scope, world, position)
                };
                let set_is_gone = is_gone(position);
                let claims = cluster.claims_of_set(position).into_iter();
                let claims = claims.filter(|(_, pod)| set_is_gone || pod.is_some_and(is_gone));
                claims.map(|(claim, _)| claim).collect()
            }
            ("cronjob-controller", Resource::CronJobs) => Vec::new(),
            ("statefulset-history-controller" | "daemonset-controller", _) => {
                existing_dependents(Resource::ControllerRevisions)
            }
            ("deployment-controller", Resource::Deployments) => existing_dependents(Resource::ReplicaSets),
            ("job-controller", Resource::Jobs) => dependents(cluster, position, Resource::Pods),
            // What only deletes changes nothing of what is terminating; pods excepted, whose grace period it ends.
            (_, resource)
                if resource != Resource::Pods
                    && only_deletes()
                    && is_deleted(cluster, scope, world, position) =>
            {
                Vec::new()
            }
            _ => vec![position],
        };
        found.push(Undecided {
            position,
            missing: Missing::Controller {
                object: cluster.object_ref(position),
                reason: missing.to_string(),
            },
            in_doubt,
        });
    }
    found
}

/// The dependents of an object of one resource.
fn dependents(cluster: &Cluster, owner: u32, resource: Resource) -> Vec<u32> {
    let dependents = cluster.edges.dependents(owner).iter().copied();
    let of_resource = dependents.filter(|&at| cluster.resource_at(at) == Some(resource));
    of_resource.collect()
}

/// Whether an object of the dump no longer exists, or is terminating. Nothing happens to one that is out of scope.
fn is_deleted(cluster: &Cluster, scope: &Scope, world: &Simulation, position: u32) -> bool {
    let is_member = scope.members.contains_key(&position);
    let Some(view) = cluster.snapshot.view(position as usize).filter(|_| is_member) else {
        return false;
    };
    let kind = view.kind_id();
    let found = kind.and_then(|kind| world.server.object(kind, view.namespace(), view.name()));
    found.is_none_or(|found| found.meta.uid != *view.uid() || found.meta.is_deleting())
}

/// What is missing to say when a pod ends once it is deleted, and by whom.
///
/// A pod with a final phase and one without a node are removed at once when they are deleted. Others have their grace
/// period, and their kubelet ends them.
fn unknown_end(cluster: &Cluster, pod: &Record) -> Option<String> {
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

/// Whether the kubelet of the node of this name runs; `None` where that is not known.
fn kubelet_of(cluster: &Cluster, node: &str) -> Option<bool> {
    match cluster.by_name(Resource::Nodes, "", node) {
        Some(position) => kubelet_runs(&cluster.snapshot.record_at(position as usize)?),
        None => {
            let nodes = cluster.snapshot.completeness.of("", Resource::Nodes.kind());
            nodes.is_complete().then_some(false)
        }
    }
}
