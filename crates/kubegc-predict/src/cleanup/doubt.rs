//! What is in doubt of a cleanup forecast: objects about which a mechanism cannot decide, what hangs on these, and times that hang on unknown owners.

use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{ObjectRef, Uid};

use super::{Undecided, facts, hanging::Hanging, world::CleanupWorld};
use crate::{
    Cluster, Fate, Forecast,
    cluster::{Member, Scope},
    doubt::Sources,
    fate::{Finding, Missing},
    timeline::{Actor, Outcome},
    world::World,
};

/// What the objects about which the mechanisms of a world cannot decide put in doubt.
pub(super) struct InDoubt {
    /// What is not known, with those objects.
    pub(super) sources: Sources,
    /// Of what hangs on them, and of them where anything does, what is not in reach.
    pub(super) out_of_reach: Vec<u32>,
}

/// The objects about which the mechanisms of a world cannot decide, and what hangs on them.
pub(super) fn of(
    cluster: &Cluster,
    hanging: &Hanging<'_>,
    scope: &Scope,
    world: &CleanupWorld<'_>,
) -> (Vec<Undecided>, InDoubt) {
    let undecided = world.undecided();
    let is_in_reach = |position: &u32| scope.members.get(position) == Some(&Member::Affected);
    let mut sources = Sources::new();
    let mut beginnings = Vec::new();
    for Undecided { object, reason, .. } in &undecided {
        let Some(position) = facts::position(cluster, object) else {
            continue;
        };
        beginnings.push(position);
        if is_in_reach(&position) {
            let missing = Missing::Cleaner {
                object: cluster.object_ref(position),
                reason: reason.to_string(),
            };
            sources.entry(missing).or_default().push(position);
        }
    }
    let mut out_of_reach: Vec<u32> = hanging.all(beginnings).into_iter().collect();
    out_of_reach.retain(|position| !is_in_reach(position));
    let in_doubt = InDoubt {
        sources,
        out_of_reach,
    };
    (undecided, in_doubt)
}

/// An object, when it goes first, and when it goes last.
pub(super) type OtherTimes = (ObjectRef, Removal, Removal);

/// When something goes, and by whom.
type Removal = (Duration, Actor);

/// What goes in several worlds at several times, or by several hands.
pub(super) fn other_times(world: &World, others: &[World]) -> Vec<OtherTimes> {
    let others: Vec<_> = others.iter().map(removals).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let all = removals(world).into_iter().map(|(uid, (object, removal))| {
        let elsewhere = others.iter().filter_map(|other| other.get(uid));
        let times = || elsewhere.clone().map(|(_, removal)| *removal).chain([removal]);
        let earliest = times().min().unwrap_or(removal);
        let latest = times().max().unwrap_or(removal);
        (object.clone(), earliest, latest)
    });
    all.filter(|(_, earliest, latest)| earliest != latest).collect()
}

type Removals<'w> = HashMap<&'w Uid, (&'w ObjectRef, Removal), FixedState>;

/// What goes in a world, when, and by whom.
fn removals(world: &World) -> Removals<'_> {
    let mut removals = Removals::default();
    for step in &world.plane.steps {
        let gone = step
            .changes
            .iter()
            .filter(|change| change.outcome == Outcome::Gone);
        let gone = gone.filter(|change| !change.object.uid.is_empty());
        removals.extend(gone.map(|change| (&change.object.uid, (&change.object, (step.at, step.actor)))));
    }
    removals
}

/// The findings about what goes for certain, but not at one time.
pub(super) fn findings(forecast: &Forecast, other_times: Vec<OtherTimes>) -> Vec<Finding> {
    let goes = |object: &ObjectRef| {
        let found = forecast.fate(object);
        found.is_some_and(|found| matches!(found.fate, Fate::Deleted { .. }))
    };
    let certain = other_times.into_iter().filter(|(object, ..)| goes(object));
    let findings = certain.map(|(object, earliest, latest)| Finding::GoesAnotherTime {
        object,
        earliest,
        latest,
    });
    findings.collect()
}
