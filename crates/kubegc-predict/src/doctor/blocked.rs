//! Objects that a cause blocks, the time since when, and the evidence.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_control_plane::finalizers::OVERDUE;
use kubegc_core::{
    ObjectRef, OwnerReference, Timestamp, metadata,
    record::{Condition, Resource},
};

use super::{
    Blocked, Cause, NAMED_MAX, RootCause, STORAGE_DELETERS,
    find::{
        CONTENT_FAILURE, CONTENT_REMAINING, FINALIZERS_REMAINING, Finder, Found, PV_PROTECTION,
        PVC_PROTECTION, counted, messages, quote,
    },
};
use crate::{
    facts::{DELETING, Extension, HAS_CONTENT, Relation, conditions, deletion_requested_at},
    judge::{Fate, Wait},
};

/// The time for which an operator may need to remove its finalizer.
const RECENT: Duration = Duration::from_secs(60);

impl Finder<'_> {
    /// The objects that a cause blocks, with the number of objects between: breadth first from those that
    /// wait for it directly.
    pub(super) fn blocked(&self, cause: &Cause, roots: &BTreeSet<u32>) -> Vec<(u32, usize)> {
        // The forecast assumes that these causes end.
        let is_unforeseen = match cause {
            Cause::JobTracking => true,
            Cause::Component(name) => STORAGE_DELETERS.contains(name),
            _ => false,
        };
        let is_blocked = |at: u32| match self.fate(at).map(|fate| &fate.fate) {
            Some(Fate::Terminating { .. }) => true,
            Some(Fate::Undetermined { .. }) => self.facts.has(at, DELETING),
            Some(Fate::Deleted { .. }) => is_unforeseen && self.facts.has(at, DELETING),
            _ => false,
        };
        let mut seen = roots.clone();
        let mut found: Vec<(u32, usize)> = roots.iter().map(|at| (*at, 0)).collect();
        let mut next = 0;
        while let Some(&(position, depth)) = found.get(next) {
            next += 1;
            for at in self.waiting_for(position) {
                if is_blocked(at) && seen.insert(at) {
                    found.push((at, depth + 1));
                }
            }
        }
        found
    }

    /// The objects that wait for an object while they are terminating.
    fn waiting_for(&self, position: u32) -> Vec<u32> {
        let facts = self.facts;
        let view = facts.view(position);
        let mut waiting = Vec::new();
        for reference in view.owner_references().filter(OwnerReference::is_blocking) {
            let owners = facts.positions_of(&reference.uid);
            waiting.extend(owners.filter(|at| self.has_finalizer(*at, metadata::FINALIZER_FOREGROUND)));
        }
        for related in facts.related(position) {
            let (at, waits) = (related.position, related.relation == Relation::Waits);
            let is_waiting = match facts.resource_at(at) {
                Some(Resource::PersistentVolumeClaims) => waits && self.has_finalizer(at, PVC_PROTECTION),
                Some(Resource::PersistentVolumes) => {
                    related.relation == Relation::Follows && self.has_finalizer(at, PV_PROTECTION)
                }
                _ => waits && self.facts.has(at, HAS_CONTENT),
            };
            waiting.extend(is_waiting.then_some(at));
        }
        waiting
    }

    /// Whether an object has a finalizer at the end of the forecast, or in the dump if it is removed then.
    fn has_finalizer(&self, position: u32, name: &str) -> bool {
        let after = self.fate(position).and_then(|fate| fate.after.as_deref());
        let is_it = |finalizer: &Arc<str>| **finalizer == *name;
        match after {
            Some(after) => after.finalizers.iter().any(is_it),
            None => self.facts.view(position).finalizers().any(is_it),
        }
    }

    /// The cause with all that belongs to it; `None` if it keeps nothing in deletion.
    pub(super) fn root_cause(&self, cause: &Cause, found: Found) -> Option<RootCause> {
        let blocked = self.blocked(cause, &found.roots).into_iter();
        let blocks = blocked.map(|(position, depth)| Blocked {
            object: self.facts.object_ref(position),
            since: deletion_requested_at(&self.facts.view(position).meta()),
            depth,
            is_refused: self.refused.contains_key(&position),
            refused_request: self.requests.get(&position).cloned(),
            position,
        });
        let mut blocks: Vec<Blocked> = blocks.collect();
        // A component may not even begin a deletion.
        let is_component = matches!(cause, Cause::Component(_));
        let is_blocked = |one: &Blocked| one.is_in_deletion() || one.refused_request.is_some();
        if !is_component && !blocks.iter().any(is_blocked) {
            blocks.clear();
        }
        let is_extension = matches!(cause, Cause::Extension(_));
        if blocks.is_empty() && !is_extension {
            return None;
        }
        let may_be_recent = matches!(
            cause,
            Cause::Finalizer(_) | Cause::UnseenContent { .. } | Cause::Other { .. }
        );
        let is_recent = |one: &Blocked| {
            let limit = if one.is_namespace() { OVERDUE } else { RECENT };
            // Without anything newer in the dump, its age is not known.
            let age = |since: Timestamp| since < self.now && self.now.since(since) < limit;
            one.since.is_none_or(age)
        };
        let is_recent = may_be_recent && blocks.iter().all(is_recent);
        let mut root_cause = self.describe(cause, blocks, found);
        root_cause.is_recent = is_recent;
        root_cause
            .evidence
            .extend(self.conditions(cause, &root_cause.blocks));
        Some(root_cause)
    }

    /// The conditions of blocked namespaces that show the cause.
    fn conditions(&self, cause: &Cause, blocks: &[Blocked]) -> Vec<String> {
        let wanted: &[&str] = match cause {
            Cause::Extension(broken) => match broken.extension {
                Extension::Api { .. } => &["NamespaceDeletionDiscoveryFailure"],
                _ => &[CONTENT_FAILURE],
            },
            // The cause quotes it.
            Cause::Refused(_) => &[],
            _ => &[CONTENT_REMAINING, FINALIZERS_REMAINING],
        };
        let mut quoted = Vec::new();
        let namespaces = blocks.iter().filter(|one| one.is_namespace());
        for one in namespaces.take(NAMED_MAX) {
            let record = self.facts.record(one.position);
            let conditions = conditions(&record).iter();
            let conditions = conditions
                .filter(|condition| condition.is_true() && wanted.contains(&&*condition.condition_type));
            quoted.extend(conditions.map(|condition| quote(condition, &one.object)));
        }
        quoted
    }

    /// The condition `Ready` of a node.
    pub(super) fn ready(&self, node: &ObjectRef) -> Option<Condition> {
        let snapshot = &self.facts.snapshot;
        let record = snapshot.find("", &node.kind, "", &node.name)?.record();
        let mut conditions = conditions(&record).iter();
        conditions
            .find(|condition| *condition.condition_type == *"Ready")
            .cloned()
    }

    /// The refusal of the API server that keeps an object. The condition of a namespace quotes its own.
    pub(super) fn refusal(&self, blocked: &Blocked) -> Option<String> {
        if blocked.is_namespace() {
            return None;
        }
        let of_step = self.refused.get(&blocked.position);
        let mut waits = self.fate(blocked.position)?.fate.waits_for().iter();
        let (actor, refusal) = match of_step {
            Some(step) => (step.actor, step.failure.as_ref()?),
            None => waits.find_map(|wait| match wait {
                Wait::Refused { actor, refusal, .. } => Some((*actor, refusal)),
                _ => None,
            })?,
        };
        let object = blocked.object.short();
        Some(format!(
            "the API server refuses the request of the {actor} for {object}: {refusal}"
        ))
    }

    /// The resources of which content remains in a namespace, as its condition says.
    pub(super) fn remaining(&self, namespace: &Blocked) -> Vec<String> {
        let fate = self.fate(namespace.position);
        let messages = fate.map_or_else(Vec::new, |fate| messages(fate, CONTENT_REMAINING));
        let names = messages.iter().flat_map(|message| counted(message, " has "));
        names.map(ToOwned::to_owned).collect()
    }
}
