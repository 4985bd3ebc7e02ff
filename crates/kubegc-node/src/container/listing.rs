//! Evaluation of a listing of containers: candidates for the limits, containers that are always kept, and
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
    units::{Dead, Table, Units, position},
};
use crate::GoDuration;

/// Containers whose memory is fetched together.
const BLOCK: usize = 64;

/// The result of a listing before any limit applies.
pub(super) struct Sorted {
    pub(super) units: Units,
    pub(super) kept: Vec<Kept<Subject, Reason>>,
    pub(super) findings: Vec<Kept<Subject, Reason>>,
    /// When the first container that is too young reaches the minimum age.
    pub(super) next_at: Option<Timestamp>,
}

/// Sorts a listing. Linear, but for sorting the units.
pub(super) fn sort(policy: &Policy, listing: &[Arc<Container>], now: Timestamp) -> Sorted {
    let mut sorted = Sorted::new(listing.len());
    if !sorted.read(policy, listing, None, now) {
        // Some id is listed more than once, or seems to be: start again without the doubtful ones.
        sorted = Sorted::new(listing.len());
        let contested = sorted.duplicates(listing);
        sorted.read(policy, listing, Some(&contested), now);
    }
    by_id(&mut sorted.kept);
    by_id(&mut sorted.findings);
    sorted
}

/// The frequently used fields of a container.
struct Hot<'a> {
    container: &'a Arc<Container>,
    state: ContainerState,
    created_at: Timestamp,
    name: Option<&'a str>,
    uid: &'a Uid,
    id: &'a str,
    /// First bytes of the id.
    id_bytes: u128,
}

impl<'a> Hot<'a> {
    fn of(container: &'a Arc<Container>) -> Self {
        Self {
            container,
            state: container.state,
            created_at: container.created_at,
            name: container.name.as_deref(),
            uid: &container.pod.uid,
            id: &container.id,
            id_bytes: 0,
        }
    }
}

impl Sorted {
    fn new(containers: usize) -> Self {
        Self {
            units: Units::with_capacity(containers),
            kept: Vec::new(),
            findings: Vec::new(),
            next_at: None,
        }
    }

    /// Adds a listing, except for duplicates. If duplicates are not known yet, it stops and returns `false`
    /// at an id that it finds twice, or if ids are too similar to be distinguished quickly.
    fn read(
        &mut self,
        policy: &Policy,
        listing: &[Arc<Container>],
        contested: Option<&[usize]>,
        now: Timestamp,
    ) -> bool {
        let mut table = Table::default();
        let mut ids = contested.is_none().then(|| Ids::new(listing));
        let mut hot: Vec<Hot<'_>> = Vec::with_capacity(BLOCK);
        for (start, block) in (0..).step_by(BLOCK).zip(listing.chunks(BLOCK)) {
            // Short loops over a block first, so that the processor waits for the memory of many containers
            // at once; sharing one would wait for each.
            hot.clear();
            hot.extend(block.iter().map(Hot::of));
            for hot in &mut hot {
                hot.id_bytes = beginning(hot.id);
            }
            for (at, hot) in (start..).zip(&hot) {
                if contested.is_some_and(|contested| contested.binary_search(&at).is_ok()) {
                    continue;
                }
                if ids.as_mut().is_some_and(|ids| !ids.insert(hot, at)) {
                    return false;
                }
                match candidate(policy, hot, now) {
                    Ok(name) => {
                        let unit = table.unit(hot.uid, name);
                        self.units.dead.push(Dead {
                            unit,
                            at: position(at),
                            is_unknown: hot.state == ContainerState::Unknown,
                            created_at: hot.created_at,
                        });
                        self.units.shared[at] = Some(Arc::clone(hot.container));
                        if hot.uid.is_empty() {
                            self.findings.push(about(hot.container, Reason::NoPod));
                        }
                    }
                    Err(reason) => self.stays(policy, hot, reason),
                }
            }
        }
        self.units.arrange(&table.keys);
        true
    }

    /// Records a container that is kept whatever the limits are.
    fn stays(&mut self, policy: &Policy, hot: &Hot<'_>, reason: Reason) {
        if let Reason::TooYoung { .. } | Reason::CreatedInFuture { .. } = reason {
            let of_age = of_age_at(policy, hot);
            self.next_at = Some(self.next_at.map_or(of_age, |at| at.min(of_age)));
        }
        if let Reason::NoMetadata | Reason::NoId | Reason::CreatedInFuture { .. } = reason {
            self.findings.push(about(hot.container, reason.clone()));
        }
        self.kept.push(about(hot.container, reason));
    }

    /// Finds the containers whose id is listed more than once. Returns the ascending positions of those that
    /// do not count.
    fn duplicates(&mut self, listing: &[Arc<Container>]) -> Vec<usize> {
        let mut by_id: Vec<usize> = (0..listing.len()).collect();
        by_id.sort_by(|&a, &b| listing[a].id.cmp(&listing[b].id).then(a.cmp(&b)));
        let mut contested = Vec::new();
        for same in by_id.chunk_by(|&a, &b| listing[a].id == listing[b].id) {
            let [first, others @ ..] = same else { continue };
            if others.is_empty() {
                continue;
            }
            let alike = others.iter().all(|&at| listing[at] == listing[*first]);
            let reason = if alike {
                Reason::Repeated
            } else {
                Reason::Contradiction
            };
            contested.extend_from_slice(if alike { others } else { same });
            // In an own order, so that the order of the listing is irrelevant.
            let mut same = same.to_vec();
            same.sort_by(|&a, &b| everything(&listing[a]).cmp(&everything(&listing[b])));
            self.findings.push(about(&listing[same[0]], reason.clone()));
            if !alike {
                for at in same {
                    self.kept.push(about(&listing[at], reason.clone()));
                }
            }
        }
        contested.sort_unstable();
        contested
    }
}

/// The ids of a listing: for each, part of its hash and its position.
struct Ids<'a> {
    hasher: FixedState,
    listing: &'a [Arc<Container>],
    table: HashTable<(u32, u32)>,
    /// Limit of comparisons between ids with the same hash: the number of ids, so that the total is linear.
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

    /// Returns whether the id is new, if that can be determined quickly.
    fn insert(&mut self, hot: &Hot<'_>, at: usize) -> bool {
        let hash = self.hasher.hash_one(hot.id_bytes);
        let part = (hash >> 32) as u32;
        let comparisons = &mut self.comparisons;
        let same = |&(other_part, other): &(u32, u32)| {
            if other_part != part {
                return false;
            }
            *comparisons = comparisons.saturating_sub(1);
            *self.listing[other as usize].id == *hot.id || *comparisons == 0
        };
        // The table never grows.
        match self.table.entry(hash, same, |_| hash) {
            Slot::Occupied(_) => false,
            Slot::Vacant(slot) => {
                slot.insert((part, position(at)));
                true
            }
        }
    }
}

/// The first sixteen bytes of an id: ids of runtimes are random, so more is not worth hashing.
fn beginning(id: &str) -> u128 {
    let mut beginning = [0; 16];
    let length = id.len().min(16);
    beginning[..length].copy_from_slice(&id.as_bytes()[..length]);
    u128::from_le_bytes(beginning)
}

/// All fields of a container, in an order.
fn everything(container: &Container) -> impl Ord + '_ {
    let image = &container.image;
    (
        (container.created_at, container.state, container.attempt),
        (&container.name, &container.pod, &container.sandbox_id),
        (&image.reference, &image.id, &image.runtime_handler),
        (&container.labels, &container.annotations),
    )
}

/// The container's name if it is a candidate, or the reason why it is kept whatever the limits are
/// ([N2.6](crate::rules#n2-6) to [N2.8](crate::rules#n2-8), [N2.13](crate::rules#n2-13)).
fn candidate<'a>(policy: &Policy, hot: &Hot<'a>, now: Timestamp) -> Result<&'a str, Reason> {
    if hot.state == ContainerState::Running {
        return Err(Reason::Running);
    }
    let Some(name) = hot.name else {
        return Err(Reason::NoMetadata);
    };
    if hot.id.is_empty() {
        return Err(Reason::NoId);
    }
    let age_min = policy.limits.age_min;
    // Compared without saturation, so that extreme times count exactly.
    let age_nanos = i128::from(now.as_nanos()) - i128::from(hot.created_at.as_nanos());
    if age_nanos < i128::from(age_min.as_nanos()) {
        let age = GoDuration::between(hot.created_at, now);
        return Err(if age.is_negative() {
            Reason::CreatedInFuture {
                ahead: GoDuration::between(now, hot.created_at),
            }
        } else {
            Reason::TooYoung { age, age_min }
        });
    }
    Ok(name)
}

/// The first instant at which the container reaches the minimum age.
fn of_age_at(policy: &Policy, hot: &Hot<'_>) -> Timestamp {
    let age_min = policy.limits.age_min.as_nanos();
    Timestamp::from_nanos(hot.created_at.as_nanos().saturating_add(age_min))
}

fn about(container: &Arc<Container>, reason: Reason) -> Kept<Subject, Reason> {
    Kept {
        object: Subject::Container(Arc::clone(container)),
        reason,
    }
}

/// Sorts by creation and id, so that the order of the listing is irrelevant.
fn by_id(kept: &mut [Kept<Subject, Reason>]) {
    let key = |kept: &Kept<Subject, Reason>| match &kept.object {
        Subject::Container(container) => Some((container.created_at, Arc::clone(&container.id))),
        Subject::Node => None,
    };
    kept.sort_by_cached_key(key);
}
