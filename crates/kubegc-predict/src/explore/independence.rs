//! Partial-order reduction: which of the steps that are possible now must be tried against each other.
//!
//! The search has to find every *end* of a race; fates are read there. It need not try both orders of two
//! steps that commute.
//!
//! # Independence
//! A step has a [`Footprint`]: the parts of the state that it reads and writes. The parts are, for each
//! object: the stored object, the collector's node (with the flag that it is being deleted apart), its set of
//! dependents, its entry in the collector's informer, and its two keys in the work queues. Two steps are
//! independent where neither writes what the other reads or writes. Three pairs of writes commute all the
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
//! What other steps can lead to is overestimated from the owner references ([`View::future`]): a write leads
//! to an event, an event to attempts for the object, its owners and its dependents, an attempt to writes. The
//! footprint of a step of T is exact: the step is tried on a copy.
//!
//! Time passes, and other controllers act, only where nothing else can happen. So each stretch between two
//! such points is reduced by itself, and its ends are the beginnings of the next.
//!
//! # Writes and their events
//! Two writes of one kind append to one watch, so their order can be observed. It need not be tried where the
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
//!   for owners that [only wait](View::only_waits). An owner that can itself be deleted as a dependent does
//!   not only wait: whether it has dependents decides how it is deleted.
//! - **An attempt for an owner that waits for its dependents** and still has some only adds their keys. It
//!   may happen now: the removal of the last dependent adds the owner's key again.
//! - **A quiet object**: it exists, has no owner references and is not deleted in the foreground. No
//!   controller adds references in between, so an attempt for it does nothing. An attempt that read
//!   references before cannot delete the object either, where deletes expect the resourceVersion that was
//!   read.
//!
//! For the same reason it does not matter whether the key of such an object is added before or after the end
//! of an attempt for it, and [`Idle`] says which keys and absent owners the fingerprint of a state leaves
//! out.
//!
//! # Where nothing is reduced
//! More than twenty nodes (workers may be busy then, so the order of the work queue matters), more than 64
//! objects, and steps beside a write to a Namespace, a CustomResourceDefinition or an APIService, which
//! counts as dependent on everything.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_control_plane::Simulation;
use kubegc_core::{
    KindId, ObjectMeta, ObjectRef, OwnerReference, PropagationPolicy, Uid,
    deletion::Propagation,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};
use kubegc_objects::{Semantics, call::Request, collector::Call, reason::Reason};
use kubegc_sim::EventType;

use super::{Choice, Race};

/// A set of objects, or of kinds, by their positions in [`Objects`].
type Set = u64;

/// The workers of the collector. With no more nodes than that, no key waits for a worker.
const WORKERS: usize = 20;

/// The objects of a race and what each can come to. It holds until another controller acts.
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
    /// Of a kind that takes no strategic patches, which makes patches rest on the informer.
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

/// What may happen, each a set of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Future {
    client: Set,
    /// Attempts to delete.
    attempt: Set,
    /// Attempts to orphan that begin.
    orphan: Set,
    /// Attempts to orphan that have begun.
    orphaning: Set,
    /// Events that the collector observes.
    shown: Set,
    /// Dependents that an orphan attempt is releasing.
    releasing: Set,
}

/// What cannot happen while no step of the set is taken.
#[derive(Clone, Copy, Debug, Default)]
struct Blocked {
    attempts: Set,
    orphans: Set,
    watches: Set,
    /// Owners that wait for a dependent whose attempt is blocked.
    waiting: Set,
}

/// One state.
struct View<'a> {
    objects: &'a Objects,
    race: &'a Race<'a>,
    exists: Set,
    in_graph: Set,
    seen_deleting: Set,
    seen_foreground: Set,
    /// The objects of pending events.
    pending: Set,
    /// May be deleted in the foreground from here on, or have been.
    foreground: Set,
    /// May be deleted without its dependents from here on.
    orphaning: Set,
    /// Are being deleted.
    deleting: Set,
    /// Have owner references, or an attempt may have read some.
    owned: Set,
    /// Exist, have no owner references and are not deleted in the foreground: an attempt for such an object
    /// that begins now does nothing.
    quiet: Set,
    /// For these, it does not matter whether a key is added before or after the end of an attempt: they are
    /// quiet, or attempts for them only wait for their dependents.
    repeatable: Set,
    /// The collector knows that they are being deleted, or they are quiet, so attempts for them end at once.
    inert: Set,
    /// The object of each call in flight, and whether its dependents are being released.
    items: Vec<(usize, bool)>,
}

fn bit(at: usize) -> Set {
    1 << at
}

fn members(set: Set) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(set), |set| Some(set & set.wrapping_sub(1)))
        .take_while(|set| *set != 0)
        .map(|set| set.trailing_zeros() as usize)
}

/// The union of what a set's objects are related to.
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

    /// What follows from the removal of nodes.
    fn remove(&mut self, view: &View<'_>, removed: Set) {
        let objects = view.objects;
        self.node |= removed;
        self.deleting |= removed;
        self.dependents |= related(&objects.owners, removed);
        self.enqueues |= view.enqueued_by(removed);
    }
}

impl Objects {
    /// The objects of a race at a state in which no attempt holds what it has read; `None` where there are
    /// too many.
    pub(super) fn of(race: &Race<'_>) -> Option<Self> {
        let server = &race.world.server;
        let graph = race.world.plane.collector().graph();
        let mut seen: Vec<(ObjectRef, Option<KindId>, ObjectMeta)> = Vec::new();
        let identity = |kind: KindId, meta: &ObjectMeta| kubegc_control_plane::object_ref(server, kind, meta);
        for (kind, _) in server.catalog().iter().filter(|(_, resource)| resource.preferred) {
            if server.len(kind) > 0 {
                let objects = server.objects(kind, None).into_iter();
                seen.extend(
                    objects.map(|object| (identity(kind, &object.meta), Some(kind), object.meta.clone())),
                );
            }
        }
        for (kind, _, object) in race.world.plane.pending() {
            seen.push((identity(kind, &object.meta), Some(kind), object.meta.clone()));
        }
        for node in graph.nodes() {
            let mut meta = ObjectMeta::new("", "", "");
            meta.owner_references = graph.owners(node).collect();
            if graph.is_deleting_dependents(node) {
                meta.finalizers.push(FINALIZER_FOREGROUND.into());
            }
            seen.push((graph.identity(node), None, meta));
        }
        for delete in race.client {
            seen.push((delete.object.clone(), None, ObjectMeta::new("", "", "")));
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
            // An object with dependents is deleted in the foreground where its owner waits for it.
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
    fn name(seen: &[(ObjectRef, Option<KindId>, ObjectMeta)]) -> Option<Self> {
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

/// The choices that must be tried from a state; `None` for all of them.
pub(super) fn persistent(race: &Race<'_>, objects: &Objects, choices: &[Choice]) -> Option<Vec<Choice>> {
    if choices.len() < 2 {
        return None;
    }
    let view = View::of(race, objects)?;
    let mut best: Option<Vec<Choice>> = None;
    let footprints: Vec<Footprint> = {
        let all = choices.iter();
        all.map(|choice| view.footprint(*choice)).collect::<Option<_>>()?
    };
    for start in 0..choices.len() {
        let below = best.as_ref().map_or(choices.len(), Vec::len);
        if let Some(set) = view.close(choices, &footprints, start, below) {
            let chosen = choices.iter().zip(&set).filter(|(_, is_in)| **is_in);
            best = Some(chosen.map(|(choice, _)| *choice).collect());
        }
    }
    best
}

/// Whether the only event of a watch may be delivered at once, whatever else happens. Events of other writes
/// may precede it where those are made first, so the watch does not count as blocked.
fn is_delivered_at_once(race: &Race<'_>, objects: &Objects, choices: &[Choice], kind: KindId) -> bool {
    let view = View::of(race, objects);
    let footprint = view.as_ref().and_then(|view| view.footprint(Choice::Show(kind)));
    let (Some(view), Some(footprint)) = (view, footprint) else {
        return false;
    };
    let blocked = Blocked::default();
    let mut others = choices.iter().filter(|choice| **choice != Choice::Show(kind));
    others.all(|other| {
        !view
            .reaches(*other, &blocked)
            .conflicts(&footprint, objects.special)
    })
}

/// Which keys and lookups cannot change anything any longer.
pub(super) struct Idle<'a> {
    view: View<'a>,
}

impl<'a> Idle<'a> {
    pub(super) fn of(race: &'a Race<'a>, objects: &'a Objects) -> Option<Self> {
        let view = View::of(race, objects)?;
        Some(Self { view })
    }

    /// Whether an object may exist.
    pub(super) fn exists(&self, object: &ObjectRef) -> bool {
        let at = self.view.objects.by_uid.get(&object.uid);
        at.is_none_or(|at| (self.view.exists | self.view.objects.shared) & bit(*at) != 0)
    }

    /// Whether an attempt for an object that begins now may do anything.
    pub(super) fn matters(&self, object: &ObjectRef) -> bool {
        let view = &self.view;
        let is_forgotten = !(view.exists | view.in_graph | view.objects.shared);
        let at = view.objects.by_uid.get(&object.uid);
        at.is_none_or(|at| bit(*at) & (is_forgotten | view.quiet) == 0)
    }
}

impl<'a> View<'a> {
    fn of(race: &'a Race<'a>, objects: &'a Objects) -> Option<Self> {
        let collector = race.world.plane.collector();
        let graph = collector.graph();
        if graph.len() > WORKERS {
            return None;
        }
        let server = &race.world.server;
        let mut view = View {
            objects,
            race,
            exists: 0,
            in_graph: 0,
            seen_deleting: 0,
            seen_foreground: 0,
            pending: 0,
            foreground: 0,
            orphaning: 0,
            deleting: 0,
            owned: objects.shared,
            quiet: 0,
            repeatable: 0,
            inert: 0,
            items: Vec::with_capacity(race.in_flight.len()),
        };
        for kind in objects.kinds.keys().filter(|kind| server.len(**kind) > 0) {
            for object in server.objects(*kind, None) {
                let at = bit(*objects.by_uid.get(&object.meta.uid)?);
                view.exists |= at;
                view.expect(at, &object.meta);
                if object.meta.is_deleting() {
                    view.deleting |= at;
                }
                if object.meta.owner_references.is_empty() {
                    view.quiet |= at;
                } else {
                    view.owned |= at;
                }
            }
        }
        let expects_version = Semantics::of(server.version()).expect_resource_version;
        for node in graph.nodes() {
            let at = bit(*objects.by_uid.get(&graph.uid(node))?);
            view.in_graph |= at;
            if graph.is_being_deleted(node) {
                view.seen_deleting |= at;
            }
            if graph.is_deleting_dependents(node) {
                view.seen_foreground |= at;
            }
        }
        for (_, _, object) in race.world.plane.pending() {
            let at = bit(*objects.by_uid.get(&object.meta.uid)?);
            view.pending |= at;
            view.expect(at, &object.meta);
        }
        for delete in &race.client[race.done..] {
            let at = bit(objects.find(&delete.object)?);
            match delete.options.propagation {
                Some(Propagation::Policy(PropagationPolicy::Foreground)) => view.foreground |= at,
                Some(Propagation::Policy(PropagationPolicy::Background)) => {}
                _ => view.orphaning |= at,
            }
        }
        for call in &race.in_flight {
            let item = collector.item_of(call.id);
            let item = item.and_then(|(object, orphan)| Some((objects.find(&object)?, orphan)));
            let (at, orphan) = item?;
            let is_unowned = !orphan && view.quiet & bit(at) != 0 && objects.foreground & bit(at) == 0;
            let is_begun = call.ask.reason != Reason::VerifyItem;
            if !orphan && is_begun && !(is_unowned && expects_version && rests_on_owners(call)) {
                view.owned |= bit(at);
            }
            view.items.push((at, orphan));
        }
        // An attempt for a dependent may repeat the policy of an object that it read long ago.
        let owned = view.owned;
        view.foreground |= view.seen_foreground | objects.foreground & owned;
        view.orphaning |= objects.orphaning & owned;
        view.quiet &= !view.foreground & !objects.shared;
        let busy = view.items.iter().filter(|(_, orphan)| !orphan);
        let busy = busy.fold(objects.shared, |set, (at, _)| set | bit(*at));
        view.inert = view.seen_deleting & !view.foreground & !busy | view.quiet & !view.owned;
        let waiting = members(view.seen_foreground).filter(|at| view.only_waits(*at));
        view.repeatable = waiting.fold(view.quiet, |set, at| set | bit(at));
        Some(view)
    }

    fn expect(&mut self, at: Set, meta: &ObjectMeta) {
        if meta.has_finalizer(FINALIZER_FOREGROUND) {
            self.foreground |= at;
        }
        if meta.has_finalizer(FINALIZER_ORPHAN) {
            self.orphaning |= at;
        }
    }

    /// Objects that the collector may have a node for. A late event makes it know an object again, and the
    /// owners that the event names.
    fn nodes(&self) -> Set {
        let objects = self.objects;
        let shown = self.exists | self.pending | objects.shared;
        let owners = related(&objects.owners, objects.changed_with_owners & shown);
        self.in_graph | objects.modifiable & shown | owners
    }

    /// The keys that are added where nodes are removed or lose references.
    fn enqueued_by(&self, removed: Set) -> Set {
        let objects = self.objects;
        let owners = related(&objects.owners, removed & objects.released)
            | related(&objects.owners, removed) & self.foreground;
        (owners | related(&objects.dependents, removed)) & self.nodes() & !self.inert
    }

    /// Whether attempts for an owner can do nothing now but wait for its dependents and remove its finalizer.
    fn only_waits(&self, owner: usize) -> bool {
        let has_fixed_part = self.owned & bit(owner) == 0 || self.seen_foreground & bit(owner) != 0;
        has_fixed_part
            && self.objects.shared & bit(owner) == 0
            && self.calls_for(owner).all(|call| {
                matches!(
                    call.ask.reason,
                    Reason::VerifyItem | Reason::ReadBeforeFinalizer | Reason::NothingBlocks { .. }
                )
            })
    }

    /// Whether the finalizer `orphan` appears on an object once at most.
    fn is_orphaned_once(&self, at: usize) -> bool {
        let deletes = self.race.client.iter();
        let deletes = deletes
            .filter(|delete| self.objects.find(&delete.object) == Some(at))
            .filter(|delete| {
                let policy = delete.options.propagation;
                !matches!(
                    policy,
                    Some(Propagation::Policy(
                        PropagationPolicy::Foreground | PropagationPolicy::Background
                    ))
                )
            });
        let has_owner = self.objects.owners[at] != 0;
        !has_owner && self.objects.shared & bit(at) == 0 && deletes.count() <= 1
    }

    /// The calls of an attempt to delete an object.
    fn calls_for(&self, object: usize) -> impl Iterator<Item = &Call> {
        let items = self.race.in_flight.iter().zip(&self.items);
        items
            .filter(move |(_, item)| **item == (object, false))
            .map(|(call, _)| call)
    }

    /// The footprint of a step, which is tried for that; `None` where it is not known.
    fn footprint(&self, choice: Choice) -> Option<Footprint> {
        match choice {
            Choice::Show(kind) => {
                let mut footprint = self.footprint_of_event(kind)?;
                footprint.enqueues &= !self.repeatable;
                Some(footprint)
            }
            Choice::Client => {
                let target = self.objects.find(&self.race.client[self.race.done].object)?;
                let mut next = self.race.clone();
                next.take(choice);
                Some(self.footprint_of_write(target, &mut next))
            }
            Choice::Call(at) => {
                let mut footprint = self.footprint_of_call(at)?;
                footprint.enqueues &= !self.repeatable;
                Some(footprint)
            }
        }
    }

    /// The collector learns that an object no longer exists.
    fn forget(&self, footprint: &mut Footprint, at: usize) {
        let graph = self.race.world.plane.collector().graph();
        for node in graph
            .nodes()
            .filter(|node| self.objects.by_uid.get(&graph.uid(*node)) == Some(&at))
        {
            for dependent in graph.dependents(node) {
                let dependent = self.objects.by_uid.get(&graph.uid(*dependent));
                footprint.enqueues |= dependent.map_or(Set::MAX, |at| bit(*at)) & !self.inert;
            }
        }
        let others = members(self.objects.owners[at] & self.nodes());
        let others = others.filter(|owner| !self.only_waits(*owner));
        let others = others.fold(0, |set, owner| set | bit(owner));
        if others != 0 {
            footprint.node |= bit(at);
            footprint.deleting |= bit(at);
            footprint.dependents |= others;
            footprint.enqueues |= others;
        }
    }

    fn footprint_of_event(&self, kind: KindId) -> Option<Footprint> {
        let objects = self.objects;
        let graph = self.race.world.plane.collector().graph();
        let mut pending = self.race.world.plane.pending();
        let (_, event_type, object) = pending.find(|(of, ..)| *of == kind)?;
        let meta = &object.meta;
        let at = *objects.by_uid.get(&meta.uid)?;
        let it = bit(at);
        let mut footprint = Footprint {
            informer: it,
            ..Footprint::default()
        };
        let owners = objects.owners[at];
        let known = graph.node(&meta.uid);
        if event_type == EventType::Deleted {
            if objects.shared & it != 0 || self.exists & it != 0 {
                footprint.remove(self, it);
                footprint.enqueues |= owners | objects.dependents[at];
            } else {
                footprint.informer = 0;
                if known.is_some() {
                    self.forget(&mut footprint, at);
                }
            }
            return Some(footprint);
        }
        let is_known = known.is_some_and(|node| !graph.is_virtual(node));
        let keeps_owners =
            known.is_some_and(|node| graph.owners(node).eq(meta.owner_references.iter().cloned()));
        if !is_known || objects.shared & it != 0 {
            footprint.node = it | owners;
            footprint.deleting = it | owners;
            footprint.dependents = owners;
            footprint.enqueues = it | owners | objects.dependents[at];
            footprint.enqueues_orphan = it;
            return Some(footprint);
        }
        if !keeps_owners {
            // Only an attempt that breaks a circle reads the references from the graph.
            footprint.node = it & self.foreground;
            footprint.dependents = owners;
            footprint.enqueues = owners & self.nodes() & !self.inert;
        }
        if meta.is_deleting() {
            if self.seen_deleting & it == 0 {
                footprint.deleting = it;
            }
            if meta.has_finalizer(FINALIZER_FOREGROUND) && self.seen_foreground & it == 0 {
                footprint.node |= it;
                footprint.enqueues |= it | objects.dependents[at];
            }
            if meta.has_finalizer(FINALIZER_ORPHAN) {
                footprint.enqueues_orphan = it;
                footprint.dependents_read = it;
                footprint.node_read = it;
            }
        }
        Some(footprint)
    }

    fn footprint_of_call(&self, at: usize) -> Option<Footprint> {
        let objects = self.objects;
        let call = &self.race.in_flight[at];
        let (item, orphan) = self.items[at];
        let it = bit(item);
        let target = objects.find(&call.ask.target)?;
        let mut next = self.race.clone();
        next.take(Choice::Call(at));
        let mut footprint = self.footprint_of_write(target, &mut next);
        if matches!(call.ask.request, Request::Patch { .. }) {
            footprint.informer_read |= bit(target);
        }
        let collector = next.world.plane.collector();
        let goes_on = next.in_flight.iter().any(|call| {
            let of = collector
                .item_of(call.id)
                .and_then(|(object, orphan)| Some((objects.find(&object)?, orphan)));
            of == Some((item, orphan)) && call.ask.reason != Reason::VerifyItem
        });
        if orphan {
            if !goes_on {
                footprint.finishes_orphan |= it;
            }
            return Some(footprint);
        }
        if self.inert & self.quiet & it != 0 {
            return Some(Footprint::default());
        }
        if !goes_on
            && footprint.stored == 0
            && let Some(footprint) = self.footprint_of_wait(item)
        {
            return Some(footprint);
        }
        let after = stored(&next.world, objects, item);
        let matters_after = objects.shared & it != 0
            || after.is_some_and(|after| !after.owner_references.is_empty() || self.foreground & it != 0);
        if matters_after {
            footprint.node_read |= it | objects.dependents[item];
            footprint.dependents_read |= it;
        }
        if !goes_on {
            if matters_after {
                footprint.deleting_read |= it;
                footprint.finishes |= it;
            }
            if self.seen_foreground & it != 0 {
                footprint.enqueues |= objects.dependents[item] & self.nodes();
            }
        }
        let graph = collector.graph();
        let is_known = graph
            .nodes()
            .any(|node| objects.by_uid.get(&graph.uid(node)) == Some(&item));
        if objects.shared & it != 0 {
            footprint.remove(self, it);
        } else if self.in_graph & it != 0 && !is_known {
            self.forget(&mut footprint, item);
        }
        Some(footprint)
    }

    /// The footprint of an attempt for an owner that waits for its dependents and has some: it adds their
    /// keys.
    fn footprint_of_wait(&self, owner: usize) -> Option<Footprint> {
        if self.seen_foreground & bit(owner) == 0 || !self.only_waits(owner) {
            return None;
        }
        let graph = self.race.world.plane.collector().graph();
        let position = |node| self.objects.by_uid.get(&graph.uid(node)).copied();
        let node = graph.nodes().find(|node| position(*node) == Some(owner))?;
        let mut blocking = graph.blocking_dependents(node).peekable();
        blocking.peek()?;
        let mut footprint = Footprint::default();
        for dependent in blocking.filter(|node| !graph.is_deleting_dependents(*node)) {
            footprint.enqueues |= bit(position(dependent)?) & !self.repeatable;
        }
        Some(footprint)
    }

    /// What a request reads and writes, given the state after it.
    fn footprint_of_write(&self, target: usize, next: &mut Race<'_>) -> Footprint {
        let mut footprint = Footprint {
            stored_read: bit(target),
            ..Footprint::default()
        };
        if next.world.server.revision() == self.race.world.server.revision() {
            next.choices();
            return footprint;
        }
        footprint.stored |= bit(target);
        let before = self.race.world.plane.pending_kinds();
        let choices = next.choices();
        let mut kinds: Vec<KindId> = Vec::new();
        let pending_before = self.race.world.plane.pending().count();
        for (kind, ..) in next.world.plane.pending().skip(pending_before) {
            kinds.push(kind);
        }
        let leaves_no_event = match kinds.as_slice() {
            [kind] if !before.contains(kind) => is_delivered_at_once(next, self.objects, &choices, *kind),
            _ => false,
        };
        if !leaves_no_event {
            for kind in kinds {
                footprint.appends |= self.objects.watch(kind);
            }
        }
        footprint
    }

    /// The smallest set with a choice that this analysis can show to be persistent; `None` where it is not
    /// smaller than a bound.
    fn close(
        &self,
        choices: &[Choice],
        footprints: &[Footprint],
        start: usize,
        below: usize,
    ) -> Option<Vec<bool>> {
        let mut set = vec![false; choices.len()];
        set[start] = true;
        'grow: for _ in 1..below {
            let blocked = self.blocked(choices, &|at| set[at]);
            for other in 0..choices.len() {
                if set[other] {
                    continue;
                }
                let reached = self.reaches(choices[other], &blocked);
                let mut chosen = footprints.iter().zip(&set).filter(|(_, is_in)| **is_in);
                if chosen.any(|(footprint, _)| footprint.conflicts(&reached, self.objects.special)) {
                    set[other] = true;
                    continue 'grow;
                }
            }
            return Some(set);
        }
        None
    }

    /// What cannot happen before a step of a set.
    fn blocked(&self, choices: &[Choice], is_in: &dyn Fn(usize) -> bool) -> Blocked {
        let objects = self.objects;
        let mut blocked = Blocked::default();
        for at in (0..choices.len()).filter(|at| is_in(*at)) {
            match choices[at] {
                Choice::Client => {}
                Choice::Show(kind) => blocked.watches |= objects.watch(kind),
                Choice::Call(call) => {
                    let (item, orphan) = self.items[call];
                    if objects.shared & bit(item) != 0 {
                        continue;
                    }
                    if orphan {
                        blocked.orphans |= bit(item);
                    } else {
                        blocked.attempts |= bit(item);
                    }
                }
            }
        }
        // An owner does not stop waiting for a dependent that no other actor can remove from the graph.
        let mut all = Future::default();
        for other in (0..choices.len()).filter(|at| !is_in(*at)) {
            all.add(&self.seed(choices[other], &blocked));
        }
        let all = self.future(all, &blocked);
        let kept = blocked.attempts & self.in_graph & !self.pending & !all.shown & !objects.shared;
        let graph = self.race.world.plane.collector().graph();
        for node in graph.nodes() {
            let Some(&owner) = objects.by_uid.get(&graph.uid(node)) else {
                continue;
            };
            let holds = |dependent| {
                objects
                    .by_uid
                    .get(&graph.uid(dependent))
                    .is_some_and(|at| kept & bit(*at) != 0)
            };
            let only_looks = self.only_waits(owner)
                && self
                    .calls_for(owner)
                    .all(|call| call.ask.reason == Reason::VerifyItem);
            if only_looks && graph.blocking_dependents(node).any(holds) {
                blocked.waiting |= bit(owner);
            }
        }
        blocked
    }

    fn seed(&self, choice: Choice, blocked: &Blocked) -> Future {
        let objects = self.objects;
        let mut seed = Future::default();
        match choice {
            Choice::Client => {
                for delete in &self.race.client[self.race.done..] {
                    seed.client |= objects.find(&delete.object).map_or(Set::MAX, bit);
                }
            }
            Choice::Show(kind) => {
                for (_, _, object) in self.race.world.plane.pending().filter(|(of, ..)| *of == kind) {
                    seed.shown |= objects
                        .by_uid
                        .get(&object.meta.uid)
                        .map_or(Set::MAX, |at| bit(*at));
                }
            }
            Choice::Call(at) => match self.items[at] {
                (item, false) => seed.attempt = bit(item),
                (item, true) => {
                    let target = objects
                        .find(&self.race.in_flight[at].ask.target)
                        .map_or(Set::MAX, bit);
                    if target != bit(item) {
                        seed.releasing = target;
                    }
                    if blocked.orphans & bit(item) == 0 {
                        seed.orphaning = bit(item);
                        // Its key may have been added again meanwhile.
                        if !self.is_orphaned_once(item) {
                            seed.orphan = bit(item);
                        }
                    }
                }
            },
        }
        seed
    }

    /// The footprint of all that a step can lead to.
    fn reaches(&self, choice: Choice, blocked: &Blocked) -> Footprint {
        let future = self.future(self.seed(choice, blocked), blocked);
        self.footprint_of_future(&future, blocked)
    }

    /// The objects that attempts of these objects may write to.
    fn written(&self, future: &Future, blocked: &Blocked) -> Set {
        let objects = self.objects;
        let owned = members(future.attempt & self.exists)
            .filter(|at| (self.owned | self.foreground) & bit(*at) != 0)
            .fold(0, |set, at| set | bit(at));
        let all = future.client
            | future.releasing
            | future.orphan
            | future.orphaning
            | related(&objects.dependents, future.orphan)
            | owned & !blocked.waiting;
        all & self.exists
    }

    /// The objects whose nodes attempts may find absent.
    fn forgotten(&self, future: &Future, written: Set) -> Set {
        future.attempt & (!self.exists | written | self.objects.shared)
    }

    /// All that may follow while nothing that is blocked happens.
    fn future(&self, mut future: Future, blocked: &Blocked) -> Future {
        let objects = self.objects;
        let nodes = self.nodes();
        loop {
            let before = future;
            let written = self.written(&future, blocked);
            let shown = members(written).filter(|at| objects.kinds_of[*at] & !blocked.watches != 0);
            future.shown |= shown.fold(0, |set, at| set | bit(at));
            let changed = future.shown | self.forgotten(&future, written);
            let waiting = related(&objects.dependents, future.attempt & self.foreground);
            let again = changed & (objects.changed_with_owners | self.foreground);
            let enqueued = self.enqueued_by(changed) | again | waiting;
            future.attempt |= enqueued & nodes & !self.inert & !blocked.attempts;
            // The end of an attempt to orphan does not begin another one.
            let once = members(future.orphaning & !future.client & !future.attempt & !self.pending)
                .filter(|at| self.is_orphaned_once(*at))
                .fold(0, |set, at| set | bit(at));
            future.orphan |= future.shown & self.orphaning & !once & !blocked.orphans;
            if future == before {
                return future;
            }
        }
    }

    fn footprint_of_future(&self, future: &Future, blocked: &Blocked) -> Footprint {
        let objects = self.objects;
        let written = self.written(future, blocked);
        let dependents = related(&objects.dependents, future.attempt);
        let orphans = related(&objects.dependents, future.orphan);
        let mut footprint = Footprint {
            stored_read: future.client
                | future.attempt
                | related(&objects.owners, future.attempt & self.owned)
                | future.orphan
                | future.orphaning
                | orphans
                | future.releasing,
            stored: written,
            node_read: future.attempt | dependents | future.orphan | future.orphaning,
            deleting_read: future.attempt,
            dependents_read: future.attempt | future.orphan,
            informer_read: (future.attempt | orphans | future.releasing) & objects.custom,
            informer: future.shown,
            finishes: future.attempt,
            finishes_orphan: future.orphan | future.orphaning,
            enqueues: related(&objects.dependents, future.attempt & self.foreground),
            enqueues_orphan: future.shown & self.orphaning,
            appends: related(&objects.kinds_of, written),
            ..Footprint::default()
        };
        // A release of a dependent that is not being deleted changes nothing of its node but the references.
        let released =
            (future.releasing | orphans) & !(future.client | future.attempt & (self.owned | self.foreground));
        let released =
            released & !(future.orphan | future.orphaning | self.pending | self.foreground | self.deleting);
        let released = released & !objects.shared;
        footprint.remove(self, future.shown & !released | self.forgotten(future, written));
        let former = related(&objects.owners, released);
        footprint.dependents |= former;
        footprint.enqueues |= former & self.nodes() & !self.inert;
        // An event may make the collector know an object again, and its owners with it.
        let owners = related(
            &objects.owners,
            future.shown & objects.changed_with_owners & !self.in_graph,
        );
        footprint.node |= owners;
        footprint.enqueues |= owners | future.shown & self.foreground;
        footprint.enqueues &= !self.repeatable;
        footprint
    }
}

impl Future {
    fn add(&mut self, other: &Self) {
        self.client |= other.client;
        self.attempt |= other.attempt;
        self.orphan |= other.orphan;
        self.orphaning |= other.orphaning;
        self.shown |= other.shown;
        self.releasing |= other.releasing;
    }
}

/// Whether a call belongs to an attempt that read owner references and will delete only that version: it
/// fails once the object has none.
fn rests_on_owners(call: &Call) -> bool {
    match (&call.ask.request, &call.ask.reason) {
        (Request::Get, Reason::LookUpOwner | Reason::RecheckAfterConflict) => true,
        (Request::Delete { wire, .. }, _) => wire.resource_version.is_some(),
        _ => false,
    }
}

/// An object as the server has it.
fn stored(world: &Simulation, objects: &Objects, at: usize) -> Option<ObjectMeta> {
    let server = &world.server;
    let kinds = objects.kinds.keys().filter(|kind| server.len(**kind) > 0);
    let mut all = kinds.flat_map(|kind| server.objects(*kind, None));
    let found = all.find(|object| objects.by_uid.get(&object.meta.uid) == Some(&at))?;
    Some(found.meta.clone())
}
