//! Persistent sets of choices, and the parts of an idle state that its fingerprint omits.

use kubegc_control_plane::Simulation;
use kubegc_core::{
    KindId, ObjectMeta, ObjectRef, PropagationPolicy, SharedMeta,
    deletion::Propagation,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};
use kubegc_objects::{Call, Operation, Reason, settings::Semantics};
use kubegc_sim::EventType;

use super::{Choice, Footprint, Objects, Race, Set, WORKERS, bit, members, related};

/// The possible steps, each a set of objects.
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

/// The steps that cannot happen while no step of the set is taken.
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
    /// The object of each request in flight, and whether its dependents are being released.
    items: Vec<(usize, bool)>,
}

/// The choices that must be tried from a state; `None` for all of them.
pub(in crate::explore) fn persistent(
    race: &Race<'_>,
    objects: &Objects,
    choices: &[Choice],
) -> Option<Vec<Choice>> {
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
    let footprint = view
        .as_ref()
        .and_then(|view| view.footprint(Choice::Deliver(kind)));
    let (Some(view), Some(footprint)) = (view, footprint) else {
        return false;
    };
    let blocked = Blocked::default();
    let mut others = choices.iter().filter(|choice| **choice != Choice::Deliver(kind));
    others.all(|other| {
        !view
            .reaches(*other, &blocked)
            .conflicts(&footprint, objects.special)
    })
}

/// The keys and lookups that cannot change anything any more.
pub(in crate::explore) struct Idle<'a> {
    view: View<'a>,
}

impl<'a> Idle<'a> {
    pub(in crate::explore) fn of(race: &'a Race<'a>, objects: &'a Objects) -> Option<Self> {
        let view = View::of(race, objects)?;
        Some(Self { view })
    }

    /// Whether an object may exist.
    pub(in crate::explore) fn exists(&self, object: &ObjectRef) -> bool {
        let at = self.view.objects.by_uid.get(&object.uid);
        at.is_none_or(|at| (self.view.exists | self.view.objects.shared) & bit(*at) != 0)
    }

    /// Whether an attempt for an object that begins now may do anything.
    pub(in crate::explore) fn matters(&self, object: &ObjectRef) -> bool {
        let view = &self.view;
        let is_forgotten = !(view.exists | view.in_graph | view.objects.shared);
        let at = view.objects.by_uid.get(&object.uid);
        at.is_none_or(|at| bit(*at) & (is_forgotten | view.quiet) == 0)
    }
}

impl<'a> View<'a> {
    fn of(race: &'a Race<'a>, objects: &'a Objects) -> Option<Self> {
        let collector = race.simulation.plane.collector();
        let graph = collector.graph();
        if graph.len() > WORKERS {
            return None;
        }
        let server = &race.simulation.server;
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
        for (_, _, object) in race.simulation.plane.pending() {
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
            let is_begun = call.request.reason != Reason::VerifyItem;
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
                    call.request.reason,
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

    /// The requests of an attempt to delete an object.
    fn calls_for(&self, object: usize) -> impl Iterator<Item = &Call> {
        let items = self.race.in_flight.iter().zip(&self.items);
        items
            .filter(move |(_, item)| **item == (object, false))
            .map(|(call, _)| call)
    }

    /// The footprint of a step, which is tried for that; `None` if it is not known.
    fn footprint(&self, choice: Choice) -> Option<Footprint> {
        match choice {
            Choice::Deliver(kind) => {
                let mut footprint = self.footprint_of_event(kind)?;
                footprint.enqueues &= !self.repeatable;
                Some(footprint)
            }
            Choice::Client => {
                let target = self.objects.find(&self.race.client[self.race.done].object)?;
                let mut next = self.race.clone();
                next.perform(choice);
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
        let graph = self.race.simulation.plane.collector().graph();
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
        let graph = self.race.simulation.plane.collector().graph();
        let mut pending = self.race.simulation.plane.pending();
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
        let target = objects.find(&call.request.target)?;
        let mut next = self.race.clone();
        next.perform(Choice::Call(at));
        let mut footprint = self.footprint_of_write(target, &mut next);
        if matches!(call.request.operation, Operation::Patch { .. }) {
            footprint.informer_read |= bit(target);
        }
        let collector = next.simulation.plane.collector();
        let goes_on = next.in_flight.iter().any(|call| {
            let of = collector
                .item_of(call.id)
                .and_then(|(object, orphan)| Some((objects.find(&object)?, orphan)));
            of == Some((item, orphan)) && call.request.reason != Reason::VerifyItem
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
        let after = stored(&next.simulation, objects, item);
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
        let graph = self.race.simulation.plane.collector().graph();
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

    /// The objects that a request reads and writes, given the state after it.
    fn footprint_of_write(&self, target: usize, next: &mut Race<'_>) -> Footprint {
        let mut footprint = Footprint {
            stored_read: bit(target),
            ..Footprint::default()
        };
        if next.simulation.server.revision() == self.race.simulation.server.revision() {
            next.choices();
            return footprint;
        }
        footprint.stored |= bit(target);
        let before = self.race.simulation.plane.pending_kinds();
        let choices = next.choices();
        let mut kinds: Vec<KindId> = Vec::new();
        let pending_before = self.race.simulation.plane.pending().count();
        for (kind, ..) in next.simulation.plane.pending().skip(pending_before) {
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

    /// The smallest set with a choice that this analysis can show to be persistent; `None` if it is not
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

    /// The steps that cannot happen before a step of a set.
    fn blocked(&self, choices: &[Choice], is_in: &dyn Fn(usize) -> bool) -> Blocked {
        let objects = self.objects;
        let mut blocked = Blocked::default();
        for at in (0..choices.len()).filter(|at| is_in(*at)) {
            match choices[at] {
                Choice::Client => {}
                Choice::Deliver(kind) => blocked.watches |= objects.watch(kind),
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
        let graph = self.race.simulation.plane.collector().graph();
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
                    .all(|call| call.request.reason == Reason::VerifyItem);
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
            Choice::Deliver(kind) => {
                for (_, _, object) in self
                    .race
                    .simulation
                    .plane
                    .pending()
                    .filter(|(of, ..)| *of == kind)
                {
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
                        .find(&self.race.in_flight[at].request.target)
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

impl Footprint {
    /// The consequences of the removal of nodes.
    fn remove(&mut self, view: &View<'_>, removed: Set) {
        let objects = view.objects;
        self.node |= removed;
        self.deleting |= removed;
        self.dependents |= related(&objects.owners, removed);
        self.enqueues |= view.enqueued_by(removed);
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

/// Whether a request belongs to an attempt that read owner references and will delete only that version: it
/// fails once the object has none.
fn rests_on_owners(call: &Call) -> bool {
    match (&call.request.operation, &call.request.reason) {
        (Operation::Get, Reason::LookUpOwner | Reason::RecheckAfterConflict) => true,
        (Operation::Delete { wire, .. }, _) => wire.resource_version.is_some(),
        _ => false,
    }
}

/// An object as the server has it.
fn stored(simulation: &Simulation, objects: &Objects, at: usize) -> Option<SharedMeta> {
    let server = &simulation.server;
    let kinds = objects.kinds.keys().filter(|kind| server.len(**kind) > 0);
    let mut all = kinds.flat_map(|kind| server.objects(*kind, None));
    let found = all.find(|object| objects.by_uid.get(&object.meta.uid) == Some(&at))?;
    Some(found.meta.clone())
}
