//! Processing of one event ([E-2](crate::rules#e-2) to [E-15](crate::rules#e-15) and
//! [G-24](crate::rules#g-24) to [G-35](crate::rules#g-35)): updates the graph and returns the nodes to queue.
//!
//! Dependents can describe one owner differently, with another kind or namespace. If a lookup shows that one
//! description is wrong, only dependents that share it lose their owner. For the others the graph continues
//! with the next description.

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use smallvec::SmallVec;

use kubegc_core::{ObjectRef, OwnerReference, version::behavior};

use super::{
    DeletionState, Event, Graph, NodeId, Observed,
    names::Namespace,
    record::{BEING_DELETED, Coordinates, DELETING_DEPENDENTS, Key, Reference, VIRTUAL},
    records::Records,
};
use crate::effect::{Effect, InvalidNamespace};

type References = SmallVec<[Reference; 4]>;

impl Graph {
    /// Processes one event and appends its effects, in upstream's order. Additions are processed like updates
    /// ([E-4](crate::rules#e-4)).
    ///
    /// # Complexity
    /// O(references of the object); plus O(dependents) if the owner is removed or starts to wait for them.
    ///
    /// # Upstream
    /// `processGraphChanges` in
    /// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
    /// 1.13 to 1.36.
    pub fn apply(&mut self, event: &Event<'_>, effects: &mut Vec<Effect>) {
        match event {
            Event::Applied { object, old } => self.apply_object(object, *old, effects),
            Event::Deleted { object } => {
                // E-7 and E-8.
                let Some(existing) = self.records.node_of_uid(object.uid) else {
                    return;
                };
                let (coordinates, namespace) = self.identify(object);
                let existing = self.observe(existing, coordinates, namespace, effects);
                self.remove(
                    existing,
                    |graph| graph.object_ref(coordinates, namespace),
                    effects,
                );
                self.records.release(coordinates);
            }
            Event::VirtualDeleted { identity } => self.apply_virtual_delete(identity, effects),
        }
    }

    #[inline]
    pub(super) fn apply_object(
        &mut self,
        object: &Observed<'_>,
        old: Option<DeletionState>,
        effects: &mut Vec<Effect>,
    ) {
        let mut references = References::new();
        for reference in object.owners {
            references.push(self.intern_reference(reference));
        }
        let (coordinates, namespace) = self.identify(object);
        let node = match self.records.node(coordinates) {
            None => {
                // E-5.
                let mut flags = 0;
                if object.deletion.deleting {
                    flags |= BEING_DELETED;
                    if object.deletion.foreground {
                        flags |= DELETING_DEPENDENTS;
                    }
                }
                let node = self.insert_node(coordinates, namespace, flags);
                self.put_references(node, &references);
                // A new node with one owner is in no set yet.
                self.add_to_owners(node, &references, references.len() == 1, effects);
                node
            }
            Some(existing) => {
                let node = self.observe(existing, coordinates, namespace, effects);
                self.records.release(coordinates);
                self.update_references(node, references, effects);
                if object.deletion.deleting {
                    self.records[node].set(BEING_DELETED);
                }
                node
            }
        };
        if object.deletion.deleting {
            self.process_transitions(node, object.deletion, old, effects);
        }
    }

    /// [E-3](crate::rules#e-3): observes an object that was known only from references. If it differs from
    /// the guess, a new node replaces the old one and dependents that do not match are queued.
    fn observe(
        &mut self,
        existing: u32,
        coordinates: Coordinates,
        namespace: Namespace,
        effects: &mut Vec<Effect>,
    ) -> u32 {
        if !self.records[existing].has(VIRTUAL) {
            return existing;
        }
        if !self.version.has(behavior::OWNERS_ARE_VERIFIED) {
            self.records[existing].clear(VIRTUAL);
            return existing;
        }
        let guess = &self.records[existing];
        if self.records.is(existing, coordinates) && guess.namespace == namespace {
            self.records[existing].clear(VIRTUAL);
            return existing;
        }
        let (_, disagreeing) = self.partition(self.dependents_of(existing), coordinates, namespace);
        for dependent in disagreeing {
            if namespace != Namespace::NONE && self.records[dependent.0].namespace != namespace {
                self.warn(dependent.0, coordinates, effects);
            }
            self.attempt_to_delete(dependent.0, effects);
        }
        self.records.retain(coordinates);
        let replacement = self.replace_node(existing, coordinates, namespace);
        self.records[replacement].clear(VIRTUAL);
        replacement
    }

    /// The identity of an object: its coordinates, with one use counted, and its namespace.
    fn identify(&mut self, object: &Observed<'_>) -> (Coordinates, Namespace) {
        let namespace = self.namespaces.intern(object.namespace);
        (
            self.records.intern(object.kind, object.name, object.uid),
            namespace,
        )
    }

    /// [G-5](crate::rules#g-5): replaces a node in the index by one with another identity. Queues that retain
    /// the old node keep it.
    fn replace_node(&mut self, existing: u32, coordinates: Coordinates, namespace: Namespace) -> u32 {
        let flags = {
            let node = &self.records[existing];
            [VIRTUAL, BEING_DELETED, DELETING_DEPENDENTS]
                .into_iter()
                .filter(|&flag| node.has(flag))
                .sum()
        };
        let references: References = self.references(existing).into();
        for reference in &references {
            self.records.retain(reference.coordinates());
        }
        let dependents: SmallVec<[NodeId; 8]> = self.dependents_of(existing).into();
        self.detach_node(existing);
        let replacement = self.insert_node(coordinates, namespace, flags);
        self.put_references(replacement, &references);
        self.put_dependents(replacement, &dependents);
        self.free_if_unused(existing);
        replacement
    }

    /// [E-6](crate::rules#e-6), with [G-29](crate::rules#g-29) to [G-31](crate::rules#g-31).
    fn update_references(&mut self, node: u32, new: References, effects: &mut Vec<Effect>) {
        let count = self.version.has(behavior::DUPLICATE_REFERENCES_COUNT);
        let diff = Diff::between(&self.records, self.references(node), &new, count);
        if diff.is_empty() {
            self.release_references(&new);
            return;
        }
        // G-30: unblocked owners are queued before the node takes over the new references.
        for reference in &diff.removed {
            if reference.is_blocking() {
                self.attempt_owner(*reference, effects);
            }
        }
        for (before, after) in &diff.changed {
            if before.is_blocking() && !after.is_blocking() {
                self.attempt_owner(*after, effects);
            }
        }
        let old = self.take_references(node);
        self.put_references(node, &new);
        self.add_to_owners(node, &diff.added, false, effects);
        for reference in &diff.removed {
            if let Some(owner) = self.records.node(reference.coordinates()) {
                self.remove_dependent(owner, node);
            }
        }
        self.release_references(&old);
    }

    /// [G-24](crate::rules#g-24) to [G-26](crate::rules#g-26). `fresh` means that no owner has the node among
    /// its dependents yet.
    fn add_to_owners(&mut self, node: u32, references: &[Reference], fresh: bool, effects: &mut Vec<Effect>) {
        let namespace = self.records[node].namespace;
        let mut suspect = false;
        for &reference in references {
            let coordinates = reference.coordinates();
            let Some(owner) = self.records.node(coordinates) else {
                self.records.retain(coordinates);
                let owner = self.insert_node(coordinates, namespace, VIRTUAL);
                self.add_dependent(owner, node, fresh);
                self.attempt_to_delete(owner, effects);
                continue;
            };
            self.add_dependent(owner, node, fresh);
            // G-25: only the first suspect reference counts.
            if suspect || !self.version.has(behavior::OWNERS_ARE_VERIFIED) {
                continue;
            }
            let known = &self.records[owner];
            if known.namespace != Namespace::NONE && known.namespace != namespace {
                suspect = true;
                if !known.has(VIRTUAL) {
                    self.warn(node, coordinates, effects);
                }
            } else if !self.records.is(owner, coordinates) {
                suspect = true;
            } else if self.version.has(behavior::CLUSTER_SCOPED_GUESS_IS_SUSPECT) {
                let guessed_without_namespace = known.namespace == Namespace::NONE && known.has(VIRTUAL);
                suspect = guessed_without_namespace && namespace != Namespace::NONE;
            }
        }
        if suspect {
            self.attempt_to_delete(node, effects);
        }
    }

    /// [E-9](crate::rules#e-9), of an object that is being deleted. An object that is listed after a restart
    /// has no earlier state, so it starts again ([R-10](crate::rules#r-10)).
    fn process_transitions(
        &mut self,
        node: u32,
        now: DeletionState,
        old: Option<DeletionState>,
        effects: &mut Vec<Effect>,
    ) {
        let later = self.version.has(behavior::FINALIZER_MAY_APPEAR_LATER);
        let starts = |has: bool, had: fn(&DeletionState) -> bool| {
            let is_new = old
                .as_ref()
                .is_none_or(|old| !old.deleting || (later && !had(old)));
            has && is_new
        };
        if starts(now.orphan, |old| old.orphan) {
            self.retain_for(node, effects, Effect::AttemptToOrphan);
            return;
        }
        if starts(now.foreground, |old| old.foreground) {
            self.records[node].set(DELETING_DEPENDENTS);
            self.attempt_dependents(node, effects);
            self.attempt_to_delete(node, effects);
        }
    }

    /// [E-10](crate::rules#e-10) to [E-13](crate::rules#e-13).
    fn apply_virtual_delete(&mut self, identity: &ObjectRef, effects: &mut Vec<Effect>) {
        let Some(existing) = self.records.node_of_uid(&identity.uid) else {
            return;
        };
        if !self.version.has(behavior::OWNERS_ARE_VERIFIED) {
            // Before 1.20 it is processed like any delete, which also observes the node.
            self.records[existing].clear(VIRTUAL);
            return self.remove(existing, |_| identity.clone(), effects);
        }
        let kind = self.kinds.intern(&identity.api_version, &identity.kind);
        let namespace = self.namespaces.intern(&identity.namespace);
        let coordinates = self.records.intern(kind, &identity.name, &identity.uid);
        let node = &self.records[existing];
        let same = self.records.is(existing, coordinates) && node.namespace == namespace;
        let is_virtual = node.has(VIRTUAL);
        let (matching, other) = self.partition(self.dependents_of(existing), coordinates, namespace);
        self.records.release(coordinates);

        // E-11, and E-13 for an observed node.
        if if is_virtual { other.is_empty() } else { same } {
            return self.remove(existing, |_| identity.clone(), effects);
        }
        if !matching.is_empty() {
            effects.push(Effect::OwnerAbsent(Box::new(identity.clone())));
            for dependent in matching {
                self.attempt_to_delete(dependent.0, effects);
            }
        }
        // E-12.
        if is_virtual
            && same
            && let Some(next) = self.alternate_identity(&other, identity)
        {
            let kind = self.kinds.intern(&next.api_version, &next.kind);
            let namespace = self.namespaces.intern(&next.namespace);
            let coordinates = self.records.intern(kind, &next.name, &next.uid);
            let replacement = self.replace_node(existing, coordinates, namespace);
            self.retain_for(replacement, effects, Effect::AttemptToDeleteRateLimited);
        }
    }

    /// [E-14](crate::rules#e-14), [E-15](crate::rules#e-15) and [G-32](crate::rules#g-32).
    fn remove(&mut self, node: u32, identity: impl FnOnce(&Self) -> ObjectRef, effects: &mut Vec<Effect>) {
        self.detach_node(node);
        let references: References = self.references(node).into();
        for reference in &references {
            if let Some(owner) = self.records.node(reference.coordinates()) {
                self.remove_dependent(owner, node);
            }
        }
        if !self.dependents_of(node).is_empty() {
            effects.push(Effect::OwnerAbsent(Box::new(identity(self))));
            self.attempt_dependents(node, effects);
        }
        for reference in &references {
            if let Some(owner) = self.records.node(reference.coordinates())
                && self.records[owner].has(DELETING_DEPENDENTS)
            {
                self.attempt_to_delete(owner, effects);
            }
        }
        self.free_if_unused(node);
    }

    fn attempt_dependents(&mut self, node: u32, effects: &mut Vec<Effect>) {
        let count = self.dependents_of(node).len();
        effects.reserve(count);
        for at in 0..count {
            let dependent = self.dependents_of(node)[at];
            self.attempt_to_delete(dependent.0, effects);
        }
    }

    fn attempt_owner(&mut self, reference: Reference, effects: &mut Vec<Effect>) {
        if let Some(owner) = self.records.node(reference.coordinates()) {
            self.attempt_to_delete(owner, effects);
        }
    }

    fn attempt_to_delete(&mut self, node: u32, effects: &mut Vec<Effect>) {
        self.retain_for(node, effects, Effect::AttemptToDelete);
    }

    fn retain_for(&mut self, node: u32, effects: &mut Vec<Effect>, effect: fn(NodeId) -> Effect) {
        self.records[node].retain();
        effects.push(effect(NodeId(node)));
    }

    /// [G-27](crate::rules#g-27): the reference shown is the dependent's first one with the owner's uid.
    fn warn(&self, dependent: u32, owner: Coordinates, effects: &mut Vec<Effect>) {
        let mut references = self.references(dependent).iter();
        let named = references.find(|reference| self.records.same_uid(reference.coordinates(), owner));
        if let Some(&reference) = named {
            let warning =
                InvalidNamespace::new(self.identity(NodeId(dependent)), self.owner_reference(reference));
            effects.push(Effect::Warn(Box::new(warning)));
        }
    }

    fn intern_reference(&mut self, reference: &OwnerReference) -> Reference {
        let kind = self.kinds.intern(&reference.api_version, &reference.kind);
        let coordinates = self.records.intern(kind, &reference.name, &reference.uid);
        Reference::new(coordinates, reference.controller, reference.block_owner_deletion)
    }

    fn release_references(&mut self, references: &[Reference]) {
        for reference in references {
            self.records.release(reference.coordinates());
        }
    }

    /// Partitions dependents by whether their references name exactly this identity
    /// ([G-33](crate::rules#g-33)). A dependent can be in both parts or in neither.
    ///
    /// # Upstream
    /// `partitionDependents` in
    /// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
    /// 1.20.2.
    fn partition(
        &self,
        dependents: &[NodeId],
        coordinates: Coordinates,
        namespace: Namespace,
    ) -> (Vec<NodeId>, Vec<NodeId>) {
        let (mut matching, mut other) = (Vec::new(), Vec::new());
        for &dependent in dependents {
            let own_namespace = self.records[dependent.0].namespace;
            if namespace != Namespace::NONE && own_namespace != namespace {
                other.push(dependent);
                continue;
            }
            let same_uid =
                |reference: &&Reference| self.records.same_uid(reference.coordinates(), coordinates);
            let mut references = self.references(dependent.0).iter().filter(same_uid);
            let agrees = |reference: &Reference| reference.coordinates() == coordinates;
            if references.clone().any(agrees) {
                matching.push(dependent);
            }
            if !references.all(agrees) {
                other.push(dependent);
            }
        }
        (matching, other)
    }

    /// The next identity under which these dependents know the absent owner ([G-35](crate::rules#g-35)), in
    /// the order of [G-34](crate::rules#g-34) with wrap-around.
    ///
    /// # Upstream
    /// `getAlternateOwnerIdentity` in
    /// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
    /// 1.20.2.
    fn alternate_identity(&self, dependents: &[NodeId], absent: &ObjectRef) -> Option<ObjectRef> {
        let absent_is_cluster_scoped = absent.namespace.is_empty();
        let mut first: Option<ObjectRef> = None;
        let mut first_after: Option<ObjectRef> = None;
        for &dependent in dependents {
            let namespace = self.namespaces.name(self.records[dependent.0].namespace);
            for reference in self
                .owners(dependent)
                .filter(|reference| reference.uid == absent.uid)
            {
                if names(&reference, absent) && (absent_is_cluster_scoped || *namespace == absent.namespace) {
                    continue;
                }
                let same_kind = reference.api_version == absent.api_version && reference.kind == absent.kind;
                // The kind is known to be cluster-scoped.
                let is_cluster_scoped = absent_is_cluster_scoped && same_kind;
                let candidate = reference.object_ref(match is_cluster_scoped {
                    true => "".into(),
                    false => namespace.clone(),
                });
                if candidate == *absent {
                    continue;
                }
                if candidate > *absent && first_after.as_ref().is_none_or(|known| candidate < *known) {
                    first_after = Some(candidate.clone());
                }
                if first.as_ref().is_none_or(|known| candidate < *known) {
                    first = Some(candidate);
                }
            }
        }
        first_after.or(first)
    }
}

/// Whether the reference has exactly the coordinates of the identity.
fn names(reference: &OwnerReference, identity: &ObjectRef) -> bool {
    reference.uid == identity.uid
        && reference.name == identity.name
        && reference.kind == identity.kind
        && reference.api_version == identity.api_version
}

/// The difference between the references of a node and those of an event ([G-28](crate::rules#g-28)), by kind
/// of change.
#[derive(Default)]
struct Diff {
    added: References,
    removed: References,
    /// Old and new form of a reference that kept its uid ([G-29](crate::rules#g-29)).
    changed: SmallVec<[(Reference, Reference); 2]>,
}

impl Diff {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Compares two lists by uid.
    ///
    /// With `duplicates_count` the first new reference with a known uid is compared with the *last* old one
    /// of that uid, and further ones count as added on every update. Otherwise both lists are first reduced
    /// to the last reference of each uid.
    ///
    /// # Upstream
    /// `referencesDiffs` in
    /// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
    /// 1.20.2 and 1.16.
    fn between(records: &Records, old: &[Reference], new: &[Reference], duplicates_count: bool) -> Self {
        let mut diff = Self::default();
        // The common case: at most one owner, unchanged.
        if old == new && old.len() <= 1 {
            return diff;
        }
        let uid = |reference: Reference| records.key(reference.coordinates());
        let lasts =
            |all: &[Reference]| -> Lasts { all.iter().map(|&one| (uid(one), (one, false))).collect() };
        let mut known = lasts(old);
        let mut compare = |reference: Reference| match known.get_mut(&uid(reference)) {
            Some((before, is_matched)) if !*is_matched => {
                *is_matched = true;
                if *before != reference {
                    diff.changed.push((*before, reference));
                }
            }
            _ => diff.added.push(reference),
        };
        if duplicates_count {
            new.iter().copied().for_each(&mut compare);
        } else {
            lasts(new).values().for_each(|&(reference, _)| compare(reference));
        }
        let removed = known.into_values().filter(|(_, is_matched)| !is_matched);
        diff.removed.extend(removed.map(|(reference, _)| reference));
        diff
    }
}

/// The last reference of each uid, in the order in which the uids first appear, and whether it is matched.
type Lasts = IndexMap<Key, (Reference, bool), FixedState>;
