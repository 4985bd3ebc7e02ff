//! Objects about which controllers cannot decide because facts are missing, and pods whose end is unknown.

use std::collections::BTreeSet;

use kubegc_controllers::MayChange;
use kubegc_core::{
    ApiResource,
    record::{Record, Resource},
};

use super::{Missing, missing_fact, undetermined::Sources};
use crate::{
    facts::{Facts, HAS_CONTENT, Relation},
    simulate::{Simulated, end},
};

impl Simulated<'_> {
    /// The unknown facts of a simulation, and the objects out of scope that they may affect.
    ///
    /// Without `everything`, they are those about objects that changed, or that follow one that did: the
    /// actions of controllers on other objects are independent of the deletes.
    pub(crate) fn missing(&self, everything: bool) -> (Sources, Vec<u32>) {
        let facts = self.facts;
        let mut sources: Sources = self.contents().collect();
        sources.extend(self.policies());
        let mut beginnings = Vec::new();
        let undetermined = self.undetermined();
        let meant: BTreeSet<u32> = match everything {
            true => self.scope.affected().collect(),
            false if undetermined.is_empty() => BTreeSet::new(),
            false => self.changed_or_following(),
        };
        for (position, missing, mut affected) in undetermined {
            beginnings.push(position);
            affected.retain(|at| meant.contains(at));
            if !affected.is_empty() {
                sources.entry(missing).or_default().extend(affected);
            }
        }
        if !everything {
            return (sources, Vec::new());
        }
        for position in facts.all(Resource::Pods).filter(|at| meant.contains(at)) {
            if let Some(reason) = unknown_end(facts, &facts.record(position))
                && self.is_deleted(position)
            {
                let pod = facts.object_ref(position);
                sources.insert(Missing::Ending { pod, reason }, vec![position]);
                beginnings.push(position);
            }
        }
        let affected = facts.affected_by(beginnings).into_iter();
        (sources, affected.filter(|at| !meant.contains(at)).collect())
    }

    /// The objects that changed in the simulation, and those that follow one that did.
    fn changed_or_following(&self) -> BTreeSet<u32> {
        let changes = self.primary.plane.steps().iter().flat_map(|step| &step.changes);
        let changed = changes.flat_map(|change| self.facts.positions_of(&change.object.uid));
        let changed: BTreeSet<u32> = changed.collect();
        let mut found = changed.clone();
        for position in changed {
            let related = self.facts.related(position).into_iter();
            let followers = related.filter(|related| related.relation == Relation::Follows);
            found.extend(followers.map(|related| related.position));
        }
        found
    }

    /// The namespaces and CustomResourceDefinitions that are removed though the dump may lack content of
    /// them.
    fn contents(&self) -> impl Iterator<Item = (Missing, Vec<u32>)> {
        let facts = self.facts;
        let with_content = self
            .scope
            .affected()
            .filter(move |at| facts.has(*at, HAS_CONTENT));
        with_content.filter_map(move |position| {
            let object = facts.view(position);
            if object.kind_id().is_none() || end(&self.primary, facts.view(position)).is_some() {
                return None;
            }
            let completeness = &facts.snapshot.completeness;
            let is_namespace = **object.kind() == *"Namespace";
            let is_unlisted = |kind: &&ApiResource| match is_namespace {
                true => kind.is_namespaced() && facts.is_unlisted(kind, object.name()),
                false => {
                    format!("{}.{}", kind.resource, kind.group) == **object.name()
                        && !completeness.of(&kind.group, &kind.kind).is_complete()
                }
            };
            let unlisted = facts.collectable_kinds().filter(is_unlisted);
            let resources: Vec<String> = unlisted.map(ApiResource::qualified_resource).collect();
            let object = object.object_ref();
            (!resources.is_empty()).then(|| (Missing::Content { object, resources }, vec![position]))
        })
    }

    /// The policies that may refuse requests, with the objects of the requests.
    fn policies(&self) -> Sources {
        let mut sources = Sources::new();
        for request in self.runs().flat_map(|run| run.server.undecided_requests()) {
            let positions = self.facts.positions_of(&request.uid);
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

    /// The objects about which a controller could not decide, each with the objects that it may change.
    fn undetermined(&self) -> Vec<(u32, Missing, Vec<u32>)> {
        let facts = self.facts;
        let mut found = Vec::new();
        let unknown_owners: BTreeSet<u32> =
            self.scope.unknown.iter().map(|(position, _)| *position).collect();
        let dependents = |owner: u32, resource: Resource| -> Vec<u32> {
            let dependents = facts.edges.dependents(owner).iter().copied();
            dependents
                .filter(|at| facts.resource_at(*at) == Some(resource))
                .collect()
        };
        // An object that is deleted anyway is not pruned.
        let live_dependents = |owner: u32, resource: Resource| {
            let mut found = dependents(owner, resource);
            found.retain(|at| !self.is_deleted(*at));
            found
        };
        for (controller, object, missing, _) in self.primary.plane.manager().unknown() {
            let Some(position) = facts.position_of(object) else {
                continue;
            };
            let info = controller.info();
            let only_deletes = || {
                let mut permissions = info.permissions.iter();
                permissions.all(|(resource, _, verbs)| *resource != object.resource || *verbs == ["delete"])
            };
            let adopted = |resource: Resource| {
                let mut found = live_dependents(position, resource);
                found.extend(facts.adoptable(position, resource, &self.primary));
                found
            };
            let may_change = |relation: &MayChange| match *relation {
                // A controller that only deletes changes no terminating object, except pods, whose grace
                // period it ends.
                MayChange::Itself
                    if object.resource != Resource::Pods && only_deletes() && self.is_deleted(position) =>
                {
                    Vec::new()
                }
                MayChange::Itself => vec![position],
                MayChange::Dependents(resource) => dependents(position, resource),
                MayChange::LiveDependents(resource) => live_dependents(position, resource),
                MayChange::Adopted(resource) => adopted(resource),
                MayChange::DependentsOfAdopted(adopters, resource) => {
                    let adopters = adopted(adopters).into_iter();
                    adopters
                        .flat_map(|owner| live_dependents(owner, resource))
                        .collect()
                }
                MayChange::Claims => {
                    let is_gone =
                        |position: u32| unknown_owners.contains(&position) || self.is_deleted(position);
                    let set_is_gone = is_gone(position);
                    let claims = facts.claims_of_set(position).into_iter();
                    let claims = claims.filter(|(_, pod)| set_is_gone || pod.is_some_and(is_gone));
                    claims.map(|(claim, _)| claim).collect()
                }
                MayChange::BoundPods => {
                    let related = facts.related(position).into_iter();
                    let related = related.map(|related| related.position);
                    let is_pod = |at: &u32| facts.resource_at(*at) == Some(Resource::Pods);
                    related.filter(is_pod).collect()
                }
            };
            let affected = info.may_change(object.resource).iter().flat_map(may_change);
            let affected: Vec<u32> = affected.collect();
            let missing = Missing::Controller {
                object: facts.object_ref(position),
                reason: missing_fact(missing, missing.to_string()),
            };
            found.push((position, missing, affected));
        }
        found
    }

    /// Whether an object of the dump no longer exists, or is terminating. Nothing happens to one that is out
    /// of scope.
    fn is_deleted(&self, position: u32) -> bool {
        self.scope.members.contains_key(&position)
            && end(&self.primary, self.facts.view(position)).is_none_or(|end| end.is_deleting())
    }
}

/// The data that is missing to determine when a pod ends after its deletion, and which component ends it.
///
/// A pod with a final phase and one without a node are removed at once when they are deleted. Others have
/// their grace period, and their kubelet ends them.
fn unknown_end(facts: &Facts, pod: &Record) -> Option<String> {
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
        Some(node) if facts.assumptions.pods_end && facts.kubelet_runs(node).is_none() => {
            Some(format!("whether the kubelet of node {node} runs is not known"))
        }
        Some(_) if has_final_phase.is_none() && !is_deleting => {
            Some("whether it has finished is not known".to_owned())
        }
        Some(_) => None,
    }
}
