//! Classifies the containers of a listing: candidates for the limits, containers that are always kept, and
//! findings ([N2.5](crate::rules#n2-5) to [N2.13](crate::rules#n2-13)).

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table::Entry as Slot};
use kubegc_core::{
    Kept, Timestamp, Uid,
    node_facts::{Container, ContainerState},
};

use super::{
    Policy, Reason, Subject,
    units::{Dead, Table, Units, index},
};
use crate::GoDuration;

/// The number of containers whose fields are loaded together.
const BLOCK: usize = 64;

/// The classified containers of a listing, before any limit applies.
pub(super) struct Classified {
    pub(super) units: Units,
    pub(super) kept: Vec<Kept<Subject, Reason>>,
    pub(super) findings: Vec<Kept<Subject, Reason>>,
    /// The time at which the first container that is too young reaches the minimum age.
    pub(super) next_at: Option<Timestamp>,
}

/// Classifies a listing. *O*(n) for n containers, plus sorting the units.
pub(super) fn classify(policy: &Policy, listing: &[Arc<Container>], now: Timestamp) -> Classified {
    let mut classified = Classified::new(listing.len());
    if !classified.read(policy, listing, None, now) {
        // An id may be listed more than once: find the duplicates, and start again without them.
        classified = Classified::new(listing.len());
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
    id: &'a str,
    /// The first bytes of the id.
    id_prefix: u128,
}

impl<'a> Loaded<'a> {
    fn of(container: &'a Arc<Container>) -> Self {
        Self {
            container,
            state: container.state,
            created_at: container.created_at,
            name: container.name.as_deref(),
            uid: &container.pod.uid,
            id: &container.id,
            id_prefix: 0,
        }
    }
}

impl Classified {
    fn new(containers: usize) -> Self {
        Self {
            units: Units::with_capacity(containers),
            kept: Vec::new(),
            findings: Vec::new(),
            next_at: None,
        }
    }

    /// Adds the containers of a listing, except for the `excluded` indexes. With `None` it searches for
    /// duplicates: it stops and returns `false` if an id occurs twice, or if too many ids have equal hashes.
    fn read(
        &mut self,
        policy: &Policy,
        listing: &[Arc<Container>],
        excluded: Option<&[usize]>,
        now: Timestamp,
    ) -> bool {
        let mut table = Table::default();
        let mut ids = excluded.is_none().then(|| Ids::new(listing));
        let mut loaded: Vec<Loaded<'_>> = Vec::with_capacity(BLOCK);
        for (start, block) in (0..).step_by(BLOCK).zip(listing.chunks(BLOCK)) {
            // Short loops over a block first, so that the CPU loads the memory of many containers in
            // parallel. Cloning an `Arc` waits for the memory of each container.
            loaded.clear();
            loaded.extend(block.iter().map(Loaded::of));
            for loaded in &mut loaded {
                loaded.id_prefix = id_prefix(loaded.id);
            }
            for (at, loaded) in (start..).zip(&loaded) {
                if excluded.is_some_and(|excluded| excluded.binary_search(&at).is_ok()) {
                    continue;
                }
                if ids.as_mut().is_some_and(|ids| !ids.insert(loaded, at)) {
                    return false;
                }
                match candidate(policy, loaded, now) {
                    Ok(name) => {
                        let unit = table.unit(loaded.uid, name);
                        self.units.dead.push(Dead {
                            unit,
                            at: index(at),
                            is_unknown: loaded.state == ContainerState::Unknown,
                            created_at: loaded.created_at,
                        });
                        self.units.shared[at] = Some(Arc::clone(loaded.container));
                        if loaded.uid.is_empty() {
                            self.findings.push(about(loaded.container, Reason::NoPod));
                        }
                    }
                    Err(reason) => self.keep(policy, loaded, reason),
                }
            }
        }
        self.units.arrange(&table.keys);
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

/// A hash set of the ids of a listing. Each entry is a part of the id's hash, and the index of the container.
struct Ids<'a> {
    hasher: FixedState,
    listing: &'a [Arc<Container>],
    table: HashTable<(u32, u32)>,
    /// The remaining comparisons of ids with equal hashes. It starts at the number of ids, so that the total
    /// time is linear.
    comparisons: usize,
}

impl<'a> Ids<'a> {
    fn new(listing: &'a [Arc<Container>]) -> Self {
        Self {
            hasher: FixedState::default(),
            listing,
            table: HashTable::with_capacity(listing.len()),
            comparisons: listing.len(),
        }
    }

    /// Adds an id. Returns `false` if it is a duplicate, or if no comparisons remain.
    fn insert(&mut self, loaded: &Loaded<'_>, at: usize) -> bool {
        let hash = self.hasher.hash_one(loaded.id_prefix);
        let part = (hash >> 32) as u32;
        let comparisons = &mut self.comparisons;
        let same = |&(other_part, other): &(u32, u32)| {
            if other_part != part {
                return false;
            }
            *comparisons = comparisons.saturating_sub(1);
            *self.listing[other as usize].id == *loaded.id || *comparisons == 0
        };
        // The capacity suffices for all ids, so the table never rehashes.
        match self.table.entry(hash, same, |_| hash) {
            Slot::Occupied(_) => false,
            Slot::Vacant(slot) => {
                slot.insert((part, index(at)));
                true
            }
        }
    }
}

/// The first sixteen bytes of an id. The ids of runtimes are random, so these suffice as a hash key.
fn id_prefix(id: &str) -> u128 {
    let mut prefix = [0; 16];
    let length = id.len().min(16);
    prefix[..length].copy_from_slice(&id.as_bytes()[..length]);
    u128::from_le_bytes(prefix)
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
