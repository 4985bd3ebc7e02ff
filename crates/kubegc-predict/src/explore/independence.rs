//! Partial-order reduction: which of the steps that are possible now must be tried against each other.
//!
//! The search has to find every *end* of a race; fates are read there. It need not try both orders of two
//! steps that commute.
//!
//! # Independence
//! A step has a [`Footprint`]: the parts of the state that it reads and writes. The parts are, for each
//! object: the stored object, the collector's node (with the flag that it is being deleted apart), its set of
//! dependents, its entry in the collector's informer, and its two keys in the work queues. Two steps are
//! independent if neither writes what the other reads or writes. Three pairs of writes commute all the
//! same: two removals from one set of dependents, two additions of one key to a work queue, and an event
//! appended to a watch while another one is taken from it. Adding a key is not independent of the end of an
//! attempt for that key.
//!
//! A lookup in the absent-owner cache counts as the GET that it saves: both find that the uid does not exist.
//!
//! # Persistent sets
//! From each state only a *persistent* set of steps is tried: a set T such that whatever the other steps lead
//! to, as long as no step of T is taken, is independent of T. A search with persistent sets reaches every end
//! state (Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", 1996, theorem 4.3).
//! What other steps can lead to is overestimated from the owner references (`View::future` in
//! [`persistent`](mod@persistent)): a write leads to an event, an event to attempts for the object, its
//! owners and its dependents, an attempt to writes. The footprint of a step of T is exact: the step is tried
//! on a copy.
//!
//! Time passes, and other controllers act, only if nothing else can happen. So each stretch between two
//! such points is reduced by itself, and its ends are the beginnings of the next.
//!
//! # Writes and their events
//! Two writes of one kind append to one watch, so their order can be observed. It need not be tried if the
//! watch is empty and the event of the first write is persistent by itself: it can be delivered at once, and
//! leaves the watch as the write found it.
//!
//! # Steps that change nothing that matters
//! Some steps do not commute in the strict sense, but every end that one order reaches, the other order
//! reaches too:
//!
//! - **An object that no longer exists.** Its uid is not reused. Until the collector observes the deletion,
//!   it may send requests about the object (404), add its key (the attempt finds nothing) and wait for it. So
//!   the Deleted event, or the lookup that finds the object absent, commutes with attempts for the object and
//!   for owners that only wait (`View::only_waits`). An owner that can itself be deleted as a dependent does
//!   not only wait: whether it has dependents decides how it is deleted.
//! - **An attempt for an owner that waits for its dependents** and still has some only adds their keys. It
//!   may happen now: the removal of the last dependent adds the owner's key again.
//! - **A quiet object**: it exists, has no owner references and is not deleted in the foreground. No
//!   controller adds references in between, so an attempt for it does nothing. An attempt that read
//!   references before cannot delete the object either, if deletes expect the resourceVersion that was
//!   read.
//!
//! For the same reason, the key of such an object may be added before or after the end of an attempt for it.
//! [`Idle`] determines the keys and absent owners that the fingerprint of a state omits.
//!
//! # Where nothing is reduced
//! More than twenty nodes (workers may be busy then, so the order of the work queue matters), more than 64
//! objects, and steps concurrent with a write to a Namespace, a CustomResourceDefinition or an APIService,
//! which counts as dependent on everything.

mod persistent;

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{
    KindId, ObjectMeta, ObjectRef, OwnerReference, PropagationPolicy, SharedMeta, Uid,
    deletion::Propagation,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};

pub(super) use self::persistent::{Idle, persistent};
use super::{Choice, Race};

/// A set of objects, or of kinds, by their positions in [`Objects`].
type Set = u64;

/// The workers of the collector. With no more nodes than that, no key waits for a worker.
const WORKERS: usize = 20;

/// The objects of a race and the steps that each can reach. It is valid until another controller acts.
#[derive(Debug)]
pub(super) struct Objects {
    by_uid: HashMap<Uid, usize, FixedState>,
    /// By kind and name: objects of several namespaces or groups may count as one.
    by_name: HashMap<[String; 2], usize, FixedState>,
    owners: Vec<Set>,
    dependents: Vec<Set>,
    kinds: BTreeMap<KindId, u32>,
    kinds_of: Vec<Set>,
    /// Several uids or names count as one object.
    shared: Set,
    special: Set,
    /// May be deleted in the foreground.
    foreground: Set,
    /// May be deleted without its dependents.
    orphaning: Set,
    /// May be changed otherwise than by being removed.
    modifiable: Set,
    /// May be changed and keep owner references.
    changed_with_owners: Set,
    /// May lose owner references.
    released: Set,
    /// Of a kind without strategic merge patches, whose JSON patches depend on the state of the informer.
    custom: Set,
}

/// The parts of the state that steps read and write, each a set of objects.
#[derive(Clone, Copy, Debug, Default)]
struct Footprint {
    stored_read: Set,
    stored: Set,
    node_read: Set,
    node: Set,
    deleting_read: Set,
    deleting: Set,
    dependents_read: Set,
    dependents: Set,
    informer_read: Set,
    informer: Set,
    enqueues: Set,
    finishes: Set,
    enqueues_orphan: Set,
    finishes_orphan: Set,
    /// The kinds of which a watch gets an event.
    appends: Set,
}

fn bit(at: usize) -> Set {
    1 << at
}

fn members(set: Set) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(set), |set| Some(set & set.wrapping_sub(1)))
        .take_while(|set| *set != 0)
        .map(|set| set.trailing_zeros() as usize)
}

/// The union of the objects to which a set's objects are related.
fn related(relation: &[Set], set: Set) -> Set {
    members(set).fold(0, |all, at| all | relation[at])
}

impl Footprint {
    fn conflicts(&self, other: &Self, special: Set) -> bool {
        let one_way = |a: &Self, b: &Self| {
            a.stored & (b.stored | b.stored_read)
                | a.node & (b.node | b.node_read | b.enqueues)
                | a.deleting & (b.deleting | b.deleting_read | b.enqueues)
                | a.dependents & b.dependents_read
                | a.informer & (b.informer | b.informer_read)
                | a.enqueues & b.finishes
                | a.enqueues_orphan & b.finishes_orphan
                | a.appends & b.appends
                | a.stored & special
        };
        one_way(self, other) | one_way(other, self) != 0
    }
}

impl Objects {
    /// The objects of a race at a state in which no attempt is between its reads and its writes; `None` if
    /// there are too many.
    pub(super) fn of(race: &Race<'_>) -> Option<Self> {
        let server = &race.simulation.server;
        let graph = race.simulation.plane.collector().graph();
        let mut seen: Vec<(ObjectRef, Option<KindId>, SharedMeta)> = Vec::new();
        let identity = |kind: KindId, meta: &ObjectMeta| kubegc_control_plane::object_ref(server, kind, meta);
        for (kind, _) in server.catalog().iter().filter(|(_, resource)| resource.preferred) {
            if server.len(kind) > 0 {
                let objects = server.objects(kind, None).into_iter();
                seen.extend(
                    objects.map(|object| (identity(kind, &object.meta), Some(kind), object.meta.clone())),
                );
            }
        }
        for (kind, _, object) in race.simulation.plane.pending() {
            seen.push((identity(kind, &object.meta), Some(kind), object.meta.clone()));
        }
        for node in graph.nodes() {
            let mut meta = SharedMeta::from(ObjectMeta::new("", "", ""));
            meta.owner_references = graph.owners(node).collect();
            if graph.is_deleting_dependents(node) {
                meta.finalizers.push(FINALIZER_FOREGROUND.into());
            }
            seen.push((graph.identity(node), None, meta));
        }
        for delete in race.client {
            seen.push((delete.object.clone(), None, ObjectMeta::new("", "", "").into()));
        }
        let mut objects = Self::name(&seen)?;
        for (object, kind, _) in &seen {
            if kind.is_some_and(|kind| server.catalog()[kind].custom) {
                objects.custom |= bit(objects.find(object)?);
            }
        }
        for (object, kind, meta) in &seen {
            objects.note(object, *kind, meta)?;
        }
        for delete in race.client {
            let at = bit(objects.find(&delete.object)?);
            match delete.options.propagation {
                Some(Propagation::Policy(PropagationPolicy::Foreground)) => objects.foreground |= at,
                Some(Propagation::Policy(PropagationPolicy::Background)) => {}
                _ => objects.orphaning |= at,
            }
        }
        for kind in ["Namespace", "CustomResourceDefinition", "APIService"] {
            let named = objects.by_name.iter().filter(|([known, _], _)| known == kind);
            objects.special |= named.fold(0, |set, (_, at)| set | bit(*at));
        }
        loop {
            // An object with dependents is deleted in the foreground if its owner waits for it.
            let spread = members(related(&objects.dependents, objects.foreground))
                .filter(|at| objects.dependents[*at] != 0)
                .fold(objects.foreground, |set, at| set | bit(at));
            if spread == objects.foreground {
                break;
            }
            objects.foreground = spread;
        }
        objects.modifiable |= objects.foreground | objects.orphaning | objects.released | objects.shared;
        objects.changed_with_owners = objects.modifiable;
        objects.released |= related(&objects.dependents, objects.orphaning) | objects.foreground;
        objects.modifiable |= objects.released;
        Some(objects)
    }

    /// Finds out which uids and names belong together.
    fn name(seen: &[(ObjectRef, Option<KindId>, SharedMeta)]) -> Option<Self> {
        let mut keys: HashMap<[String; 3], usize, FixedState> = HashMap::default();
        let mut parents: Vec<usize> = Vec::new();
        fn root(parents: &[usize], mut at: usize) -> usize {
            while parents[at] != at {
                at = parents[at];
            }
            at
        }
        let mut join = |uid: &Uid, kind: &str, name: &str| {
            let mut key = |key: [String; 3]| {
                *keys.entry(key).or_insert_with(|| {
                    parents.push(parents.len());
                    parents.len() - 1
                })
            };
            let named = key(["".into(), kind.into(), name.into()]);
            let known = (!uid.is_empty()).then(|| key([uid.text().to_string(), "".into(), "".into()]));
            if let Some(known) = known {
                let (a, b) = (root(&parents, named), root(&parents, known));
                parents[a.max(b)] = a.min(b);
            }
        };
        for (object, _, meta) in seen {
            join(&object.uid, &object.kind, &object.name);
            for reference in &meta.owner_references {
                join(&reference.uid, &reference.kind, &reference.name);
            }
        }
        let mut positions: BTreeMap<usize, (usize, usize, usize)> = BTreeMap::new();
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort();
        for ([uid, ..], at) in &keys {
            let next = positions.len();
            let (_, uids, names) = positions.entry(root(&parents, *at)).or_insert((next, 0, 0));
            *if uid.is_empty() { names } else { uids } += 1;
        }
        let count = positions.len();
        if count > Set::BITS as usize {
            return None;
        }
        let mut objects = Self {
            by_uid: HashMap::default(),
            by_name: HashMap::default(),
            owners: vec![0; count],
            dependents: vec![0; count],
            kinds: BTreeMap::new(),
            kinds_of: vec![0; count],
            shared: 0,
            special: 0,
            foreground: 0,
            orphaning: 0,
            modifiable: 0,
            changed_with_owners: 0,
            released: 0,
            custom: 0,
        };
        for (at, uids, names) in positions.values() {
            if *uids > 1 || *names > 1 {
                objects.shared |= bit(*at);
            }
        }
        for ([uid, kind, name], at) in keys {
            let at = positions[&root(&parents, at)].0;
            if uid.is_empty() {
                objects.by_name.insert([kind, name], at);
            } else {
                objects.by_uid.insert(Uid::from(uid.as_str()), at);
            }
        }
        Some(objects)
    }

    fn note(&mut self, object: &ObjectRef, kind: Option<KindId>, meta: &ObjectMeta) -> Option<()> {
        let at = self.find(object)?;
        for OwnerReference { uid, kind, name, .. } in &meta.owner_references {
            for owner in [
                self.by_uid.get(uid),
                self.by_name.get(&[kind.to_string(), name.to_string()]),
            ] {
                let owner = *owner?;
                self.owners[at] |= bit(owner);
                self.dependents[owner] |= bit(at);
            }
        }
        if meta.owner_references.len() > 1 {
            self.released |= bit(at);
        }
        if meta.has_finalizer(FINALIZER_FOREGROUND) {
            self.foreground |= bit(at);
        }
        if meta.has_finalizer(FINALIZER_ORPHAN) {
            self.orphaning |= bit(at);
        }
        if !meta.finalizers.is_empty() || meta.is_deleting() || *object.kind == *"Pod" {
            self.modifiable |= bit(at);
        }
        if let Some(kind) = kind {
            let next = self.kinds.len() as u32;
            let position = *self.kinds.entry(kind).or_insert(next);
            if position >= Set::BITS {
                return None;
            }
            self.kinds_of[at] |= bit(position as usize);
        }
        Some(())
    }

    fn find(&self, object: &ObjectRef) -> Option<usize> {
        let by_name = || {
            self.by_name
                .get(&[object.kind.to_string(), object.name.to_string()])
        };
        self.by_uid.get(&object.uid).or_else(by_name).copied()
    }

    fn watch(&self, kind: KindId) -> Set {
        self.kinds.get(&kind).map_or(0, |at| bit(*at as usize))
    }
}
