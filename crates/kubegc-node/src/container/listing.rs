//! Classifies the containers of a listing: candidates for the limits, containers that are always kept, and
//! findings ([N2.5](crate::rules#n2-5) to [N2.13](crate::rules#n2-13)).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_core::{
    Kept, Timestamp, Uid,
    node_facts::{Container, ContainerState},
};

use super::{EvictUnits, Reason, Subject};
use crate::GoDuration;

/// Evict units: the dead containers of each pod uid and container name ([N2.9](crate::rules#n2-9)), in the
/// order of the listing.
pub(super) type Units<'a> = BTreeMap<(&'a Uid, &'a str), Vec<&'a Arc<Container>>>;

/// The classified containers of a listing, before any limit applies.
#[derive(Default)]
pub(super) struct Classified<'a> {
    pub(super) units: Units<'a>,
    pub(super) kept: Vec<Kept<Subject, Reason>>,
    pub(super) findings: Vec<Kept<Subject, Reason>>,
    /// The time at which the first container that is too young reaches the minimum age.
    pub(super) next_at: Option<Timestamp>,
}

/// Classifies a listing. *O*(n log n) for n containers.
pub(super) fn classify<'a>(
    policy: &EvictUnits,
    listing: &'a [Arc<Container>],
    now: Timestamp,
) -> Classified<'a> {
    let mut classified = Classified::default();
    let excluded = classified.report_duplicates(listing);
    for (at, container) in listing.iter().enumerate() {
        if !excluded.contains(&at) {
            classified.add(policy, container, now);
        }
    }
    sort_entries(&mut classified.kept);
    sort_entries(&mut classified.findings);
    classified
}

pub(super) fn unit(container: &Container) -> (&Uid, &str) {
    (&container.pod.uid, container.name.as_deref().unwrap_or_default())
}

impl<'a> Classified<'a> {
    fn add(&mut self, policy: &EvictUnits, container: &'a Arc<Container>, now: Timestamp) {
        let Some(reason) = kept_reason(policy, container, now) else {
            if container.pod.uid.is_empty() {
                self.findings
                    .push(Subject::from(container).because(Reason::NoPod));
            }
            self.units.entry(unit(container)).or_default().push(container);
            return;
        };
        if let Reason::TooYoung { .. } | Reason::CreatedInFuture { .. } = reason {
            let age_min = policy.limits.age_min.as_nanos();
            let reaches_at = Timestamp::from_nanos(container.created_at.as_nanos().saturating_add(age_min));
            self.next_at = Some(self.next_at.map_or(reaches_at, |at| at.min(reaches_at)));
        }
        if let Reason::NoMetadata | Reason::NoId | Reason::CreatedInFuture { .. } = reason {
            self.findings
                .push(Subject::from(container).because(reason.clone()));
        }
        self.kept.push(Subject::from(container).because(reason));
    }

    /// Reports the containers whose id is listed more than once. Returns the indexes of those to exclude: all
    /// but the first of equal entries, and all of different entries.
    fn report_duplicates(&mut self, listing: &[Arc<Container>]) -> BTreeSet<usize> {
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
            self.findings
                .push(Subject::from(&listing[same[0]]).because(reason.clone()));
            if !are_equal {
                let kept = same
                    .iter()
                    .map(|&at| Subject::from(&listing[at]).because(reason.clone()));
                self.kept.extend(kept);
            }
        }
        excluded
    }
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
