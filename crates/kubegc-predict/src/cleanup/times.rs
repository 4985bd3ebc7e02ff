//! When what goes for certain goes at the earliest and at the latest, where that hangs on what is not known.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_core::{ObjectRef, Uid};

use super::hanging::Hanging;
use crate::{
    Cluster, Fate, Forecast,
    cluster::{DELETING, Owner},
    doubt::Tie,
    fate::Finding,
    timeline::{Actor, Outcome},
    world::World,
};

/// When something goes since the beginning, and by whom.
pub(super) type Removal = (Duration, Actor);

/// The objects that go at several times, or by several hands: when first, and when last.
pub(super) type Times = BTreeMap<ObjectRef, (Removal, Removal)>;

/// Compares when things go in a world, in the `others` that unknown owners allow, and where what `may_go` does so.
///
/// # Complexity
/// O(n log n) for n objects that go or hang on what may go.
pub(super) fn of(
    cluster: &Cluster,
    hanging: &Hanging<'_>,
    world: &World,
    others: &[World],
    may_go: Vec<(u32, Removal)>,
) -> Times {
    let mut times = Times::new();
    if others.is_empty() && may_go.is_empty() {
        return times;
    }
    let removals = Removals::of(world);
    let mut note = |object: &ObjectRef, removal: Removal, other: Removal| {
        if removal != other {
            let (earliest, latest) = times.entry(object.clone()).or_insert((removal, removal));
            *earliest = other.min(*earliest);
            *latest = other.max(*latest);
        }
    };
    for other in others.iter().map(Removals::of) {
        for (uid, (object, removal)) in &removals.gone {
            if let Some((_, elsewhere)) = other.gone.get(uid) {
                note(object, *removal, *elsewhere);
            }
        }
    }
    for (position, (sooner, by)) in sooner(cluster, hanging, &removals, may_go) {
        if let Some((object, removal)) = removals.gone_at(cluster, position)
            && sooner < removal.0
        {
            note(object, removal, (sooner, by));
        }
    }
    times
}

/// The findings about what goes for certain, but not at one time.
pub(super) fn findings(forecast: &Forecast, times: Times) -> Vec<Finding> {
    let goes = |object: &ObjectRef| {
        let found = forecast.fate(object);
        found.is_some_and(|found| matches!(found.fate, Fate::Deleted { .. }))
    };
    let certain = times.into_iter().filter(|(object, _)| goes(object));
    let findings = certain.map(|(object, (earliest, latest))| Finding::GoesAnotherTime {
        object,
        earliest,
        latest,
    });
    findings.collect()
}

/// What goes in a world, and when it begins to.
struct Removals<'w> {
    gone: HashMap<&'w Uid, (&'w ObjectRef, Removal), FixedState>,
    /// When what is waited for begins to be waited for.
    begun: HashMap<&'w Uid, Duration, FixedState>,
}

impl<'w> Removals<'w> {
    fn of(world: &'w World) -> Self {
        let mut removals = Self {
            gone: HashMap::default(),
            begun: HashMap::default(),
        };
        for step in &world.plane.steps {
            for change in step.changes.iter().filter(|change| !change.object.uid.is_empty()) {
                let uid = &change.object.uid;
                match change.outcome {
                    Outcome::Gone => {
                        removals.gone.insert(uid, (&change.object, (step.at, step.actor)));
                    }
                    Outcome::Terminating => {
                        removals.begun.entry(uid).or_insert(step.at);
                    }
                    Outcome::Changed => {}
                }
            }
        }
        removals
    }

    fn gone_at(&self, cluster: &Cluster, position: u32) -> Option<(&'w ObjectRef, Removal)> {
        let view = cluster.snapshot.view(position as usize)?;
        self.gone.get(view.uid()).copied()
    }

    /// Since when an object is being deleted; `None` where it never is.
    fn begun_at(&self, cluster: &Cluster, position: u32) -> Option<Duration> {
        if cluster.edges.facts[position as usize] & DELETING != 0 {
            return Some(Duration::ZERO);
        }
        let view = cluster.snapshot.view(position as usize)?;
        self.begun.get(view.uid()).copied()
    }
}

/// When what `may_go`, and all that follows it, goes at the earliest: dependents as soon as their owner is gone, and what waits for it as soon as it waits.
fn sooner(
    cluster: &Cluster,
    hanging: &Hanging<'_>,
    removals: &Removals<'_>,
    may_go: Vec<(u32, Removal)>,
) -> Vec<(u32, Removal)> {
    let mut pending: BTreeSet<(Duration, u32, Actor)> = may_go
        .into_iter()
        .map(|(position, (at, by))| (at, position, by))
        .collect();
    let mut seen: HashSet<u32, FixedState> = HashSet::default();
    let mut found = Vec::new();
    while let Some((at, position, by)) = pending.pop_first() {
        let removal = removals.gone_at(cluster, position).map(|(_, removal)| removal);
        if removal.is_some_and(|removal| removal.0 <= at) || !seen.insert(position) {
            continue;
        }
        found.push((position, (at, by)));
        let by_collector = |dependent: &u32| (at, *dependent, Actor::GarbageCollector);
        pending.extend(cluster.edges.dependents(position).iter().map(by_collector));
        let owners = cluster.edges.owners(position).filter_map(|owner| match owner {
            Owner::At(owner) => Some((owner, true)),
            _ => None,
        });
        let beside = hanging.beside(position).into_iter();
        let beside = beside.map(|beside| (beside.position, beside.tie == Tie::Waits));
        for (next, waits) in owners.chain(beside) {
            let begun_at = removals.begun_at(cluster, next);
            let since = if waits { begun_at } else { Some(at) };
            let by = removals.gone_at(cluster, next).map(|(_, (_, by))| by);
            if let (Some(since), Some(by)) = (since, by) {
                pending.insert((at.max(since), next, by));
            }
        }
    }
    found
}
