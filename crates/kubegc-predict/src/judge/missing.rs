//! Undetermined fates, and the missing data that would determine them.
//!
//! A fate is undetermined if an owner is missing from the dump and the runs with and without it end
//! differently, if the object could not be read, if a controller cannot decide about it and it is not
//! removed anyway, if a policy may refuse a request for it, and if the end of a pod is unknown. From there it
//! spreads down to dependents, and up to owners that wait for a dependent. An object that is certainly
//! deleted and has a finalizer that nothing removes is terminating, whatever is missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_controllers::MayChange;
use kubegc_core::{
    ApiResource, ObjectRef, OwnerReference, Uid,
    record::{Record, Resource},
};

use super::{Missing, Outcomes, missing_fact};
use crate::{
    facts::{Facts, HAS_CONTENT, Owner, Related, Relation, Scope},
    simulate::{Simulated, end},
};

/// Maximum number of missing facts that are listed for one object.
const MISSING_LISTED_MAX: usize = 100;

/// How an object depends on the undetermined fate of a related object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaction {
    /// Whether the runs end differently for it.
    pub(crate) differs: bool,
    /// Whether it was terminating at any time, so that it may wait for its dependents.
    pub(crate) waits: bool,
    /// Whether an intent deletes it, independently of its owners.
    pub(crate) is_target: bool,
    /// Whether it waits for dependents at the end of every run.
    pub(crate) waits_for_dependents: bool,
    /// Whether an intent or a deletion in progress deletes it, whatever else the cluster has.
    pub(crate) is_deleted: bool,
    /// Whether a finalizer that nothing removes keeps it terminating.
    pub(crate) held: Held,
    /// Whether it has such a finalizer.
    pub(crate) is_immortal: bool,
    pub(crate) outcomes: Outcomes,
    /// The outcomes if a policy refuses requests for it that the runs perform.
    pub(crate) if_refused: Option<Outcomes>,
}

impl Reaction {
    /// Whether it is removed in every run.
    fn is_removed(&self) -> bool {
        self.outcomes == Outcomes::DELETED
    }

    /// The outcomes that a missing fact allows which no run can assume. `is_deleted`: it is deleted for
    /// certain, and may stay terminating.
    fn possible(&self, is_deleted: bool) -> Outcomes {
        let gone = match self.is_immortal {
            true => Outcomes::TERMINATING,
            false => Outcomes::DELETED,
        };
        let other = if is_deleted || self.is_deleted {
            Outcomes::TERMINATING
        } else if self.outcomes.has(Outcomes::RELEASED) {
            Outcomes::RELEASED
        } else {
            Outcomes::KEPT
        };
        self.outcomes.or(gone).or(other)
    }
}

/// Whether an object that is deleted stays terminating, because it or an object that it waits for has a
/// finalizer that nothing removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// It does not, or not for this reason.
    No,
    /// It does in every run. A controller that cannot decide does not change that.
    InRuns,
    /// It does, whatever is missing from the dump.
    Certainly,
}

/// Holds what waits for an object that is held: owners that are deleted in the foreground, its namespace, and
/// the definition of its kind.
///
/// # Complexity
/// O(h log n) for h held objects and their owners among n objects.
pub(crate) fn hold_waiting(facts: &Facts, reactions: &mut BTreeMap<u32, Reaction>) {
    let held = reactions.iter().filter(|(_, reaction)| reaction.held > Held::No);
    let mut pending: Vec<u32> = held.map(|(&position, _)| position).collect();
    while let Some(position) = pending.pop() {
        let Some(held) = reactions.get(&position).map(|reaction| reaction.held) else {
            continue;
        };
        let owners = facts.edges.owners(position).filter_map(Owner::position);
        let owners = owners.filter(|owner| blocks_owner(facts, position, *owner));
        let has_content = |related: &Related| {
            related.relation == Relation::Waits && facts.has(related.position, HAS_CONTENT)
        };
        let related = facts.related(position).into_iter().filter(has_content);
        let related = related.map(|related| (related.position, false));
        for (at, is_owner) in owners.map(|owner| (owner, true)).chain(related) {
            let Some(reaction) = reactions.get_mut(&at) else {
                continue;
            };
            let waits =
                reaction.outcomes == Outcomes::TERMINATING && (!is_owner || reaction.waits_for_dependents);
            let own = match reaction.is_deleted {
                true => Held::Certainly,
                false => Held::InRuns,
            };
            let held = own.min(held);
            if waits && held > reaction.held {
                reaction.held = held;
                pending.push(at);
            }
        }
    }
}

/// The missing data, and the objects whose fates it makes undetermined directly.
pub(crate) type Sources = BTreeMap<Missing, Vec<u32>>;

/// Finds the missing data that each undetermined fate depends on, the first [`MISSING_LISTED_MAX`] in order.
/// A controller that cannot decide does not affect objects that are removed, or held, in every run.
///
/// # Complexity
/// O(l + e) for l facts listed in all and e references of the objects that they are listed for, each counted
/// once a fact.
pub(crate) fn spread(
    facts: &Facts,
    scope: &Scope,
    reactions: &BTreeMap<u32, Reaction>,
    mut sources: Sources,
) -> BTreeMap<u32, (Vec<Missing>, Outcomes)> {
    let (mut out_of_reach, mut apart) = (BTreeSet::new(), BTreeSet::new());
    for (position, reference) in &scope.unknown {
        let missing = missing_owner(facts, *position, reference);
        sources.entry(missing).or_default().push(*position);
    }
    for (position, reference) in &scope.out_of_reach {
        let missing = missing_owner(facts, *position, reference);
        out_of_reach.insert(missing.clone());
        sources.entry(missing).or_default().push(*position);
    }
    for &position in &scope.flawed {
        let object = facts.object_ref(position);
        let missing = match facts.kind_id(&object.api_version, &object.kind) {
            Some(_) => Missing::Flawed { object },
            None => Missing::Kind { owner: object },
        };
        apart.insert(missing.clone());
        sources.entry(missing).or_default().push(position);
    }
    // Of each object, the positions of the missing facts among the sources.
    let mut reached: BTreeMap<u32, (Vec<usize>, Outcomes)> = BTreeMap::new();
    let mut claims: BTreeMap<Place<'_>, BTreeSet<&Uid>> = BTreeMap::new();
    for (place, uid) in sources.keys().filter_map(claim) {
        claims.entry(place).or_default().insert(uid);
    }
    for (number, (missing, starts)) in sources.iter().enumerate() {
        // In these cases the runs cannot differ: unread fields are unread in all of them, of several owners
        // that share one name each run has only one, and no run has owners out of reach.
        let unless_removed = matches!(missing, Missing::Controller { .. });
        // Unknown content keeps a namespace or definition, and not its known content.
        let of_content = matches!(missing, Missing::Content { .. });
        let of_end = of_content || matches!(missing, Missing::Ending { .. });
        let of_policy = matches!(missing, Missing::Policy { .. });
        let of_cleanup = unless_removed || of_end || of_policy;
        let only_releases = out_of_reach.contains(missing);
        let direct: BTreeSet<u32> = starts.iter().copied().collect();
        let is_contested = claim(missing).is_some_and(|(place, _)| claims[&place].len() > 1);
        let everywhere = of_cleanup || only_releases || apart.contains(missing) || is_contested;
        // A terminating object stays terminating if the request that would end it is refused.
        let stays_terminating = |start: &u32| {
            let refused = reactions.get(start).and_then(|reaction| reaction.if_refused);
            of_policy && refused == Some(Outcomes::TERMINATING)
        };
        let via = |start: &u32| match of_content || stays_terminating(start) {
            true => Via::Waiting,
            false => Via::Other,
        };
        let mut pending: Vec<(u32, Via)> = starts.iter().map(|start| (*start, via(start))).collect();
        let mut seen: HashMap<u32, Via, FixedState> = HashMap::default();
        while let Some((position, via)) = pending.pop() {
            let Some(reaction) = reactions.get(&position) else {
                continue;
            };
            let is_settled = reaction.held == Held::Certainly
                || unless_removed && (reaction.is_removed() || reaction.held == Held::InRuns);
            let is_undetermined = (everywhere && !is_settled) || reaction.differs;
            if !is_undetermined || seen.get(&position) >= Some(&via) {
                continue;
            }
            // A refused request keeps the object, and what depends on it.
            let refused = of_policy.then(|| {
                let start = reaction.if_refused.filter(|_| direct.contains(&position));
                start.unwrap_or(match via == Via::Waiting || reaction.is_deleted {
                    true => Outcomes::TERMINATING,
                    false => Outcomes::KEPT,
                })
            });
            if refused == Some(reaction.outcomes) {
                continue;
            }
            seen.insert(position, via);
            // Runs may differ in the other finalizers of an object that is held.
            if reaction.held != Held::Certainly {
                let known = reached.entry(position);
                let (numbers, outcomes) = known.or_insert_with(|| (Vec::new(), reaction.outcomes));
                if only_releases && direct.contains(&position) {
                    *outcomes = outcomes.or(Outcomes::RELEASED);
                } else if let Some(refused) = refused {
                    *outcomes = outcomes.or(refused);
                } else if everywhere && !is_settled && !only_releases {
                    // What a controller cannot decide does not undo the deletions of others.
                    let is_kept = reaction.outcomes.has(Outcomes::KEPT.or(Outcomes::RELEASED));
                    let is_deleted = via == Via::Waiting
                        || of_end && direct.contains(&position)
                        || unless_removed && !is_kept;
                    *outcomes = outcomes.or(reaction.possible(is_deleted));
                }
                if numbers.last() != Some(&number) {
                    if numbers.len() >= MISSING_LISTED_MAX {
                        continue;
                    }
                    numbers.push(number);
                }
            }
            // Only its owners depend on whether an object that no run deletes is released.
            let is_deleted =
                |reaction: &Reaction| reaction.outcomes.has(Outcomes::DELETED.or(Outcomes::TERMINATING));
            let only_keeps = of_policy && !is_deleted(reaction);
            if of_cleanup && !only_keeps {
                let may_be_removed = |at: &u32| {
                    let reaction = reactions.get(at);
                    reaction.is_some_and(|one| one.waits || one.is_removed() || one.differs)
                };
                let has_content = |position: u32| facts.has(position, HAS_CONTENT);
                let is_affected = |related: &Related| match related.relation {
                    // The content of a namespace or definition is deleted once that is terminating.
                    Relation::Follows => via == Via::Other || !has_content(position),
                    Relation::Waits => may_be_removed(&related.position),
                    Relation::Read => false,
                };
                let related = facts.related(position).into_iter().filter(is_affected);
                pending.extend(related.map(|related| match related.relation {
                    Relation::Waits if has_content(related.position) => (related.position, Via::Waiting),
                    _ => (related.position, Via::Other),
                }));
            }
            let dependents = facts.edges.dependents(position).iter().copied();
            let dependents = dependents
                .filter(|at| !everywhere || reactions.get(at).is_some_and(|reaction| !reaction.is_target));
            // The dependents that block a waiting owner are deleted, even if the owner also waits for others.
            let dependents = dependents
                .filter(|at| !of_cleanup || via == Via::Other || !blocks_owner(facts, *at, position))
                .filter(|at| {
                    let stays = of_policy && via == Via::Waiting;
                    !only_keeps && (!stays || reactions.get(at).is_some_and(is_deleted))
                });
            pending.extend(dependents.map(|dependent| (dependent, Via::Other)));
            let owners = facts.edges.owners(position).filter_map(Owner::position);
            let owners = owners.filter(|owner| reactions.get(owner).is_some_and(|one| one.waits));
            pending.extend(owners.map(|owner| (owner, Via::Waiting)));
        }
    }
    let differing = reactions.iter().filter(|(_, reaction)| reaction.differs);
    for (&position, reaction) in differing.filter(|(_, reaction)| reaction.held != Held::Certainly) {
        // Differences that no owner explains, such as a namespace that waits for its content, may depend on
        // any of them.
        let known = reached.entry(position);
        let (numbers, _) = known.or_insert_with(|| (Vec::new(), reaction.outcomes));
        if numbers.is_empty() {
            numbers.extend(0..sources.len().min(MISSING_LISTED_MAX));
        }
    }
    let sources: Vec<&Missing> = sources.keys().collect();
    reached.retain(|_, (numbers, _)| !numbers.is_empty());
    let undetermined = reached.into_iter().map(|(position, (numbers, outcomes))| {
        let listed = numbers.into_iter().map(|number| sources[number].clone());
        (position, (listed.collect(), outcomes))
    });
    undetermined.collect()
}

/// The relation through which an undetermined fate affects an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Via {
    /// It is terminating and waits, for a dependent or for its content.
    Waiting,
    /// Any other relation. An object that it does not wait for may also have another fate.
    Other,
}

/// Whether a dependent blocks the deletion of an owner.
fn blocks_owner(facts: &Facts, dependent: u32, owner: u32) -> bool {
    let (dependent, owner) = (facts.view(dependent), facts.view(owner));
    let mut references = dependent.owner_references();
    references.any(|reference| reference.uid == *owner.uid() && reference.block_owner_deletion == Some(true))
}

/// Group, kind, namespace and name.
type Place<'a> = [&'a str; 4];

/// The place that a reference claims for an owner, and the owner's uid.
fn claim(missing: &Missing) -> Option<(Place<'_>, &Uid)> {
    match missing {
        Missing::Owner { owner, .. } => {
            let place = [owner.group(), &owner.kind, &owner.namespace, &owner.name];
            Some((place, &owner.uid))
        }
        // It is unknown whether the kind is namespaced.
        Missing::Kind { owner } => Some(([owner.group(), &owner.kind, "", &owner.name], &owner.uid)),
        _ => None,
    }
}

fn missing_owner(facts: &Facts, dependent: u32, reference: &OwnerReference) -> Missing {
    let own = facts.view(dependent).namespace();
    let kind = facts.owner_kind(reference, own);
    let owner = ObjectRef {
        kind: Arc::clone(&reference.kind),
        api_version: Arc::clone(&reference.api_version),
        namespace: kind.map_or(&**own, |(_, namespace)| namespace).into(),
        name: Arc::clone(&reference.name),
        uid: reference.uid.clone(),
    };
    match kind.map(|(kind, _)| kind.qualified_resource()) {
        Some(resource) => Missing::Owner { owner, resource },
        None => Missing::Kind { owner },
    }
}

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
