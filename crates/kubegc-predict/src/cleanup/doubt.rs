//! What is in doubt of a cleanup forecast: objects about which a mechanism cannot decide, what hangs on these, and times that hang on unknown owners.

use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{ObjectRef, Uid};
use kubegc_lifecycle::{
    fields::Fields,
    object::{Object, Resource},
};

use super::{Undecided, facts, world::CleanupWorld};
use crate::{
    Cluster, Fate, Forecast,
    cluster::{Member, Scope},
    doubt::Sources,
    fate::{Finding, Missing},
    timeline::{Actor, Outcome},
    world::World,
};

/// What hangs on the objects about which mechanisms cannot decide.
pub(super) struct InDoubt {
    /// What is not known, with those objects, and the volumes of claims among them.
    pub(super) sources: Sources,
    /// Of these, the ones that others hang on and that are not in reach.
    pub(super) out_of_reach: Vec<u32>,
}

/// The objects about which the mechanisms of a world cannot decide, and what hangs on them.
pub(super) fn of(cluster: &Cluster, scope: &Scope, world: &CleanupWorld<'_>) -> (Vec<Undecided>, InDoubt) {
    let undecided = world.undecided();
    let mut in_doubt = InDoubt {
        sources: Sources::new(),
        out_of_reach: Vec::new(),
    };
    for Undecided { object, reason, .. } in &undecided {
        let Some(position) = facts::position(cluster, object) else {
            continue;
        };
        let is_in_reach = |position: &u32| scope.members.get(position) == Some(&Member::Affected);
        let affected = affected(cluster, position, object);
        if is_in_reach(&position) && affected.iter().all(is_in_reach) {
            let missing = Missing::Cleaner {
                object: cluster.object_ref(position),
                reason: reason.to_string(),
            };
            let starts = in_doubt.sources.entry(missing).or_default();
            starts.push(position);
            starts.extend(affected.into_iter().filter(|other| *other != position));
        } else {
            in_doubt.out_of_reach.extend(affected);
        }
    }
    (undecided, in_doubt)
}

/// An object about which a mechanism cannot decide, and the volume where it is a claim; nothing where no other object hangs on it.
pub(super) fn affected(cluster: &Cluster, position: u32, object: &Object) -> Vec<u32> {
    let volume = volume_of(cluster, position, object);
    if cluster.edges.dependents(position).is_empty() && volume.is_none() {
        return Vec::new();
    }
    [Some(position), volume].into_iter().flatten().collect()
}

/// The volume that a claim names.
fn volume_of(cluster: &Cluster, position: u32, object: &Object) -> Option<u32> {
    if object.resource != Resource::PersistentVolumeClaims {
        return None;
    }
    let record = cluster.snapshot.record_at(position as usize)?;
    let Fields::PersistentVolumeClaim(claim) = record.fields else {
        return None;
    };
    facts::by_name(cluster, Resource::PersistentVolumes, "", &claim.volume_name)
}

/// What goes in several worlds at several times, or by several hands.
pub(super) fn other_times(world: &World, others: &[World]) -> Vec<Finding> {
    let others: Vec<_> = others.iter().map(removals).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (uid, (object, removal)) in removals(world) {
        let elsewhere = others.iter().filter_map(|other| other.get(uid));
        let all = elsewhere.map(|(_, removal)| *removal).chain([removal]);
        let (earliest, latest) = all.fold((removal, removal), |(earliest, latest), other| {
            (earliest.min(other), latest.max(other))
        });
        if earliest != latest {
            let object = object.clone();
            findings.push(Finding::GoesAnotherTime {
                object,
                earliest,
                latest,
            });
        }
    }
    findings
}

type Removals<'w> = HashMap<&'w Uid, (&'w ObjectRef, (Duration, Actor)), FixedState>;

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

/// Adds those of the findings that are about what goes for certain.
pub(super) fn tell(forecast: &mut Forecast, findings: Vec<Finding>) {
    let goes = |finding: &Finding| match finding {
        Finding::GoesAnotherTime { object, .. } => {
            let found = forecast.fate(object);
            found.is_some_and(|found| matches!(found.fate, Fate::Deleted { .. }))
        }
        _ => true,
    };
    let mut certain: Vec<Finding> = findings.into_iter().filter(goes).collect();
    forecast.findings.append(&mut certain);
    forecast.findings.sort();
}
