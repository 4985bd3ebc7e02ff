//! The part of a cluster that a change can reach: the objects that may be affected, and those that are only
//! read.
//!
//! A forecast simulates only this part, so its cost depends on the cascade. If a controller changes an object
//! that was only to be read, the simulation is repeated with this object among the seeds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kubegc_controllers::job::TRACKING_FINALIZER;
use kubegc_core::{OwnerReference, record::Resource};
use kubegc_snapshot::ObjectView;

use super::{
    Facts, Owner,
    edges::{DELETING, FLAWED, HAS_COLLECTOR_FINALIZER, UNRESOLVED_OWNER},
    relations::Relation,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Member {
    Affected,
    Context,
}

/// The objects that take part in a cascade, by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) members: BTreeMap<u32, Member>,
    /// References whose owners are neither in the dump nor known to be absent, by the position of the
    /// dependent.
    pub(crate) unknown: Vec<(u32, OwnerReference)>,
    /// References to owners that are not in the dump and never looked up. If such an owner is deleted and
    /// orphans its dependents, the reference is removed.
    pub(crate) out_of_reach: Vec<(u32, OwnerReference)>,
    /// Members of which a part could not be read or whose kind is not known.
    pub(crate) flawed: BTreeSet<u32>,
}

impl Scope {
    /// The objects that a change of the seeds can reach. `read` are further objects that controllers read.
    ///
    /// # Complexity
    /// O(m log m) for m members.
    pub(crate) fn of(
        facts: &Facts,
        seeds: impl IntoIterator<Item = u32>,
        read: impl IntoIterator<Item = u32>,
    ) -> Self {
        let mut scope = Self::default();
        let mut pending: VecDeque<u32> = seeds.into_iter().collect();
        let mut context: Vec<u32> = read.into_iter().collect();
        loop {
            let Some(position) = pending.pop_front() else {
                let Some(position) = context.pop() else {
                    return scope;
                };
                if scope.members.contains_key(&position) {
                    continue;
                }
                if facts.has(position, UNRESOLVED_OWNER) {
                    // The garbage collector may delete it.
                    pending.push_back(position);
                    continue;
                }
                scope.members.insert(position, Member::Context);
                // Its owners can be looked up.
                context.extend(facts.edges.owners(position).filter_map(Owner::position));
                continue;
            };
            if scope.members.insert(position, Member::Affected) == Some(Member::Affected) {
                continue;
            }
            let view = facts.view(position);
            if facts.has(position, FLAWED) {
                scope.flawed.insert(position);
            }
            pending.extend(facts.edges.dependents(position));
            for related in facts.related(position) {
                let is_terminating = facts.has(related.position, DELETING);
                match related.relation {
                    Relation::Follows => pending.push_back(related.position),
                    Relation::Waits if is_terminating => pending.push_back(related.position),
                    Relation::Waits | Relation::Read => context.push(related.position),
                }
            }
            let references = view.owner_references().zip(facts.edges.owners(position));
            let references: Vec<(OwnerReference, Owner)> = references.collect();
            // If one owner prevents every decision, the collector never looks up the others.
            let never = references.iter().any(|(_, owner)| *owner == Owner::Never);
            for (reference, owner) in references {
                if owner == Owner::Never && may_orphan(facts, &reference) || owner == Owner::Unknown && never
                {
                    scope.out_of_reach.push((position, reference.clone()));
                }
                if owner == Owner::Unknown {
                    scope.unknown.push((position, reference.clone()));
                }
                let by_uid = facts.positions_of(&reference.uid);
                let by_name = facts.owner_kind(&reference, view.namespace());
                let by_name = by_name.and_then(|(kind, at)| facts.find(kind, at, &reference.name));
                for owner in by_uid.chain(by_name) {
                    // An owner that waits for its dependents can be removed when they are. A Job counts its
                    // pods and may delete others of them.
                    if waits(facts, owner) || counts(facts, view, owner) {
                        pending.push_back(owner);
                    } else {
                        context.push(owner);
                    }
                }
            }
        }
    }

    /// Whether an owner or a part of a member was not read.
    pub(crate) fn lacks_data(&self) -> bool {
        !self.unknown.is_empty() || !self.out_of_reach.is_empty() || !self.flawed.is_empty()
    }

    /// The objects that may change, in order.
    pub(crate) fn affected(&self) -> impl Iterator<Item = u32> + '_ {
        let members = self.members.iter();
        members.filter_map(|(&position, member)| (*member == Member::Affected).then_some(position))
    }
}

/// Whether an owner that is missing from the dump may exist and orphan its dependents.
fn may_orphan(facts: &Facts, reference: &OwnerReference) -> bool {
    let is_in_dump = facts.positions_of(&reference.uid).next().is_some();
    let kind = facts.owner_kind(reference, "");
    !is_in_dump && kind.is_some_and(|(kind, _)| facts.is_unlisted(kind, ""))
}

/// Whether a Job counts a pod: it has the finalizer, and an owner is a Job.
fn counts(facts: &Facts, pod: ObjectView<'_>, owner: u32) -> bool {
    let mut finalizers = pod.finalizers();
    finalizers.any(|name| **name == *TRACKING_FINALIZER) && facts.resource_at(owner) == Some(Resource::Jobs)
}

/// Whether an object is terminating and waits for the garbage collector.
fn waits(facts: &Facts, position: u32) -> bool {
    facts.has(position, DELETING) && facts.has(position, HAS_COLLECTOR_FINALIZER)
}
