//! Classifies the containers of a listing: candidates for the limits, containers that are always kept, and
//! findings ([N2.5](crate::rules#n2-5) to [N2.13](crate::rules#n2-13)).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_core::{
    Kept, PlanOf, Timestamp, Uid,
    node_facts::{Container, ContainerState},
};

use super::{EvictUnits, Reason, Subject};
use crate::GoDuration;

/// Evict units: the dead containers of each pod uid and container name ([N2.9](crate::rules#n2-9)), in the
/// order of the listing.
pub(super) type Units<'a> = BTreeMap<(&'a Uid, &'a str), Vec<&'a Arc<Container>>>;

/// Classifies a listing before any limit applies. Returns the units, and adds the kept containers, the
/// findings, and the time at which the first container that is too young reaches the minimum age.
/// *O*(n log n) for n containers.
pub(super) fn classify<'a>(
    policy: &EvictUnits,
    listing: &'a [Arc<Container>],
    now: Timestamp,
    plan: &mut PlanOf<EvictUnits>,
) -> Units<'a> {
    let mut units = Units::new();
    let excluded = report_duplicates(listing, plan);
    let listing = listing.iter().enumerate();
    for (_, container) in listing.filter(|(at, _)| !excluded.contains(at)) {
        let Some(reason) = kept_reason(policy, container, now) else {
            if container.pod.uid.is_empty() {
                plan.findings
                    .push(Subject::from(container).because(Reason::NoPod));
            }
            units.entry(unit(container)).or_default().push(container);
            continue;
        };
        if let Reason::TooYoung { .. } | Reason::CreatedInFuture { .. } = reason {
            let age_min = policy.limits.age_min.as_nanos();
            let reaches_at = Timestamp::from_nanos(container.created_at.as_nanos().saturating_add(age_min));
            plan.next_at = Some(plan.next_at.map_or(reaches_at, |at| at.min(reaches_at)));
        }
        if let Reason::NoMetadata | Reason::NoId | Reason::CreatedInFuture { .. } = reason {
            plan.findings
                .push(Subject::from(container).because(reason.clone()));
        }
        plan.kept.push(Subject::from(container).because(reason));
    }
    sort_entries(&mut plan.kept);
    sort_entries(&mut plan.findings);
    // Saturated arithmetic can return a time that is not after `now`.
    plan.next_at = plan.next_at.filter(|&at| at > now);
    units
}

pub(super) fn unit(container: &Container) -> (&Uid, &str) {
    (&container.pod.uid, container.name.as_deref().unwrap_or_default())
}

/// Reports the containers whose id is listed more than once. Returns the indexes of those to exclude: all but
/// the first of equal entries, and all of different entries.
fn report_duplicates(listing: &[Arc<Container>], plan: &mut PlanOf<EvictUnits>) -> BTreeSet<usize> {
    let mut excluded = BTreeSet::new();
    let mut ids = HashSet::with_capacity_and_hasher(listing.len(), FixedState::default());
    if listing.iter().all(|container| ids.insert(&container.id)) {
        return excluded;
    }
    let mut by_id = BTreeMap::<&Arc<str>, Vec<usize>>::new();
    for (at, container) in listing.iter().enumerate() {
        by_id.entry(&container.id).or_default().push(at);
    }
    for mut same in by_id.into_values().filter(|same| same.len() > 1) {
        let are_equal = same.iter().all(|&at| listing[at] == listing[same[0]]);
        let reason = if are_equal {
            Reason::Repeated
        } else {
            Reason::Contradiction
        };
        excluded.extend(&same[usize::from(are_equal)..]);
        // Sorted, so that the order of the listing is irrelevant.
        same.sort_by(|&a, &b| sort_key(&listing[a]).cmp(&sort_key(&listing[b])));
        let about = |at: usize| Subject::from(&listing[at]).because(reason.clone());
        plan.findings.push(about(same[0]));
        if !are_equal {
            plan.kept.extend(same.into_iter().map(about));
        }
    }
    excluded
}

/// All fields of a container but the id, as a sort key.
fn sort_key(container: &Container) -> impl Ord + '_ {
    let image = &container.image;
    (
        (container.created_at, container.state, container.attempt),
        (&container.name, &container.pod, &container.sandbox_id),
        (&image.reference, &image.id, &image.runtime_handler),
        (&container.labels, &container.annotations),
    )
}

/// The reason why a container is kept independently of the limits; `None` for candidates
/// ([N2.6](crate::rules#n2-6) to [N2.8](crate::rules#n2-8), [N2.13](crate::rules#n2-13)).
fn kept_reason(policy: &EvictUnits, container: &Container, now: Timestamp) -> Option<Reason> {
    if container.state == ContainerState::Running {
        return Some(Reason::Running);
    }
    if container.name.is_none() {
        return Some(Reason::NoMetadata);
    }
    if container.id.is_empty() {
        return Some(Reason::NoId);
    }
    let age_min = policy.limits.age_min;
    // Computed in 128 bits, so that extreme times do not saturate.
    let age_nanos = i128::from(now.as_nanos()) - i128::from(container.created_at.as_nanos());
    if age_nanos >= i128::from(age_min.as_nanos()) {
        return None;
    }
    let age = GoDuration::between(container.created_at, now);
    Some(if age.is_negative() {
        let ahead = GoDuration::between(now, container.created_at);
        Reason::CreatedInFuture { ahead }
    } else {
        Reason::TooYoung { age, age_min }
    })
}

/// Sorts by creation time and id, so that the order of the listing is irrelevant.
fn sort_entries(kept: &mut [Kept<Subject, Reason>]) {
    fn key(kept: &Kept<Subject, Reason>) -> Option<(Timestamp, &str)> {
        match &kept.object {
            Subject::Container(container) => Some((container.created_at, &container.id)),
            _ => None,
        }
    }
    kept.sort_by(|a, b| key(a).cmp(&key(b)));
}
