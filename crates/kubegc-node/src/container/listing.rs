//! Classifies the containers of a listing: candidates for the limits, containers that are always kept, and
//! findings ([N2.5](crate::rules#n2-5) to [N2.13](crate::rules#n2-13)).

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use kubegc_core::{
    Kept, Timestamp, Uid,
    node_facts::{Container, ContainerState},
};

use super::{
    Policy, Reason, Subject,
    units::{Grouping, Shared, Units, index},
};
use crate::GoDuration;

/// The number of containers whose fields are loaded together.
const BLOCK: usize = 64;

/// The classified containers of a listing, before any limit applies.
#[derive(Default)]
pub(super) struct Classified<'a> {
    pub(super) units: Units,
    pub(super) shared: Shared<'a>,
    pub(super) kept: Vec<Kept<Subject, Reason>>,
    pub(super) findings: Vec<Kept<Subject, Reason>>,
    /// The time at which the first container that is too young reaches the minimum age.
    pub(super) next_at: Option<Timestamp>,
}

/// Classifies a listing. *O*(n log n) for n containers.
pub(super) fn classify<'a>(policy: &Policy, listing: &'a [Arc<Container>], now: Timestamp) -> Classified<'a> {
    let mut classified = Classified::default();
    if !classified.read(policy, listing, None, now) {
        // An id may be listed more than once: find the duplicates, and start again without them.
        classified = Classified::default();
        let excluded = classified.report_duplicates(listing);
        classified.read(policy, listing, Some(&excluded), now);
    }
    sort_entries(&mut classified.kept);
    sort_entries(&mut classified.findings);
    classified
}

/// The fields of a container that classification uses, loaded together.
struct Loaded<'a> {
    container: &'a Arc<Container>,
    state: ContainerState,
    created_at: Timestamp,
    name: Option<&'a str>,
    uid: &'a Uid,
    /// The hash of the pod uid and the name.
    unit_hash: u64,
    id: &'a str,
    id_hash: u64,
    is_candidate: bool,
}

impl<'a> Loaded<'a> {
    fn of(container: &'a Arc<Container>) -> Self {
        Self {
            container,
            state: container.state,
            created_at: container.created_at,
            name: container.name.as_deref(),
            uid: &container.pod.uid,
            unit_hash: 0,
            id: &container.id,
            id_hash: 0,
            is_candidate: false,
        }
    }
}

impl<'a> Classified<'a> {
    /// Adds the containers of a listing, except for the `excluded` indexes. With `None` it searches for
    /// duplicates: it stops and returns `false` if an id may occur twice.
    fn read(
        &mut self,
        policy: &Policy,
        listing: &'a [Arc<Container>],
        excluded: Option<&[usize]>,
        now: Timestamp,
    ) -> bool {
        let hasher = FixedState::default();
        let mut ids = excluded.is_none().then(|| Ids::new(listing.len()));
        let mut grouping = Grouping::with_capacity(listing.len());
        let mut shared = Shared::new(listing);
        let mut loaded: Vec<Loaded<'_>> = Vec::with_capacity(BLOCK);
        for (start, block) in (0..).step_by(BLOCK).zip(listing.chunks(BLOCK)) {
            // Short loops over a block, so that the CPU loads the memory of many containers in parallel.
            loaded.clear();
            loaded.extend(block.iter().map(Loaded::of));
            for loaded in &mut loaded {
                loaded.id_hash = hasher.hash_one(id_suffix(loaded.id));
                loaded.unit_hash = hasher.hash_one((loaded.uid, loaded.name));
            }
            if let Some(ids) = &mut ids
                && !loaded.iter().all(|loaded| ids.insert(loaded.id_hash))
            {
                return false;
            }
            for (at, loaded) in (start..).zip(&mut loaded) {
                if excluded.is_some_and(|excluded| excluded.binary_search(&at).is_ok()) {
                    continue;
                }
                match candidate(policy, loaded, now) {
                    Ok(name) => {
                        loaded.is_candidate = true;
                        grouping.add(loaded.uid, name, loaded.unit_hash, loaded.created_at, at);
                        if loaded.state == ContainerState::Unknown {
                            shared.unknown.push(index(at));
                        }
                        if loaded.uid.is_empty() {
                            self.findings.push(about(loaded.container, Reason::NoPod));
                        }
                    }
                    Err(reason) => self.keep(policy, loaded, reason),
                }
            }
            // Cloning an `Arc` waits for all loads before it, so it has its own loop.
            let clone = |loaded: &Loaded<'_>| loaded.is_candidate.then(|| Arc::clone(loaded.container));
            shared.clones.extend(loaded.iter().map(clone));
        }
        drop(ids);
        self.units = grouping.finish(listing, policy.order);
        self.shared = shared;
        true
    }

    /// Records a container that is kept independently of the limits.
    fn keep(&mut self, policy: &Policy, loaded: &Loaded<'_>, reason: Reason) {
        if let Reason::TooYoung { .. } | Reason::CreatedInFuture { .. } = reason {
            let reaches_at = reaches_age_min_at(policy, loaded);
            self.next_at = Some(self.next_at.map_or(reaches_at, |at| at.min(reaches_at)));
        }
        if let Reason::NoMetadata | Reason::NoId | Reason::CreatedInFuture { .. } = reason {
            self.findings.push(about(loaded.container, reason.clone()));
        }
        self.kept.push(about(loaded.container, reason));
    }

    /// Reports the containers whose id is listed more than once. Returns the ascending indexes of those to
    /// exclude: all but the first of equal entries, and all of different entries.
    fn report_duplicates(&mut self, listing: &[Arc<Container>]) -> Vec<usize> {
        let mut by_id: Vec<usize> = (0..listing.len()).collect();
        by_id.sort_by(|&a, &b| listing[a].id.cmp(&listing[b].id).then(a.cmp(&b)));
        let mut excluded = Vec::new();
        for same in by_id.chunk_by(|&a, &b| listing[a].id == listing[b].id) {
            let [first, others @ ..] = same else { continue };
            if others.is_empty() {
                continue;
            }
            let are_equal = others.iter().all(|&at| listing[at] == listing[*first]);
            let reason = if are_equal {
                Reason::Repeated
            } else {
                Reason::Contradiction
            };
            excluded.extend_from_slice(if are_equal { others } else { same });
            // Classified, so that the order of the listing is irrelevant.
            let mut same = same.to_vec();
            same.sort_by(|&a, &b| sort_key(&listing[a]).cmp(&sort_key(&listing[b])));
            self.findings.push(about(&listing[same[0]], reason.clone()));
            if !are_equal {
                for at in same {
                    self.kept.push(about(&listing[at], reason.clone()));
                }
            }
        }
        excluded.sort_unstable();
        excluded
    }
}

/// The hashes of ids. Two ids with equal hashes may be equal; a table of 32 bits of each hash finds them, and
/// rarely others.
struct Ids {
    /// A hash table with linear probing: each hash is at the first slot from its own that was free. Zero is a
    /// free slot.
    slots: Vec<u32>,
}

impl Ids {
    fn new(len: usize) -> Self {
        // At most half of the slots are used, so that free ones are near.
        Self {
            slots: vec![0; (2 * len).next_power_of_two()],
        }
    }

    /// Adds a hash. Returns `false` if it may have been added before.
    fn insert(&mut self, hash: u64) -> bool {
        let part = (hash >> 32) as u32 | 1;
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            if self.slots[slot] == part {
                return false;
            }
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = part;
        true
    }
}

/// The last sixteen bytes of an id. The ids of runtimes are random, so these suffice as a hash key.
fn id_suffix(id: &str) -> u128 {
    if let Some(suffix) = id.as_bytes().last_chunk() {
        return u128::from_le_bytes(*suffix);
    }
    let mut suffix = [0; 16];
    suffix[..id.len()].copy_from_slice(id.as_bytes());
    u128::from_le_bytes(suffix)
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

/// The container's name if it is a candidate, otherwise the reason why it is kept independently of the limits
/// ([N2.6](crate::rules#n2-6) to [N2.8](crate::rules#n2-8), [N2.13](crate::rules#n2-13)).
fn candidate<'a>(policy: &Policy, loaded: &Loaded<'a>, now: Timestamp) -> Result<&'a str, Reason> {
    if loaded.state == ContainerState::Running {
        return Err(Reason::Running);
    }
    let Some(name) = loaded.name else {
        return Err(Reason::NoMetadata);
    };
    if loaded.id.is_empty() {
        return Err(Reason::NoId);
    }
    let age_min = policy.limits.age_min;
    // Computed in 128 bits, so that extreme times do not saturate.
    let age_nanos = i128::from(now.as_nanos()) - i128::from(loaded.created_at.as_nanos());
    if age_nanos < i128::from(age_min.as_nanos()) {
        let age = GoDuration::between(loaded.created_at, now);
        return Err(if age.is_negative() {
            Reason::CreatedInFuture {
                ahead: GoDuration::between(now, loaded.created_at),
            }
        } else {
            Reason::TooYoung { age, age_min }
        });
    }
    Ok(name)
}

/// The time at which the container reaches the minimum age.
fn reaches_age_min_at(policy: &Policy, loaded: &Loaded<'_>) -> Timestamp {
    let age_min = policy.limits.age_min.as_nanos();
    Timestamp::from_nanos(loaded.created_at.as_nanos().saturating_add(age_min))
}

fn about(container: &Arc<Container>, reason: Reason) -> Kept<Subject, Reason> {
    Kept {
        object: Subject::Container(Arc::clone(container)),
        reason,
    }
}

/// Sorts by creation time and id, so that the order of the listing is irrelevant.
fn sort_entries(kept: &mut [Kept<Subject, Reason>]) {
    let key = |kept: &Kept<Subject, Reason>| match &kept.object {
        Subject::Container(container) => Some((container.created_at, Arc::clone(&container.id))),
        Subject::Node => None,
    };
    kept.sort_by_cached_key(key);
}
