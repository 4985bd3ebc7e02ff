//! Sorts the containers of a node into evict units of dead ones, and those that no limit concerns.

use std::{cmp::Reverse, hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table::Entry as Slot};
use kubegc_core::{
    Kept, Timestamp, Uid,
    node_facts::{Container, ContainerState},
};

use super::{Policy, Reason, Subject};
use crate::{GoDuration, Order};

/// One dead container, as far as limits look at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dead {
    /// Position of its unit.
    pub(super) unit: u32,
    /// Position in the listing.
    pub(super) at: u32,
    pub(super) created_at: Timestamp,
}

/// The dead containers of one pod and container name: a range of [`Units::dead`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) start: u32,
    /// How many are still to stay. The rest of the range has been chosen to go.
    pub(super) len: u32,
}

/// All dead containers that are old enough, by unit; units in the order of pod uid and container name.
pub(super) struct Units {
    pub(super) dead: Vec<Dead>,
    pub(super) units: Vec<Unit>,
    /// The pod of each unit, ascending.
    pub(super) pods: Vec<Uid>,
}

/// What the listing says before any limit is looked at.
pub(super) struct Sorted {
    pub(super) units: Units,
    pub(super) kept: Vec<Kept<Subject, Reason>>,
    pub(super) findings: Vec<Kept<Subject, Reason>>,
    /// When the first of those too young comes of age.
    pub(super) next_at: Option<Timestamp>,
}

/// Sorts a listing. Linear, but for sorting hashes of ids and the units.
pub(super) fn sort(policy: &Policy, listing: &[Arc<Container>], now: Timestamp) -> Sorted {
    let mut sorted = Sorted {
        units: Units {
            dead: Vec::with_capacity(listing.len()),
            units: Vec::new(),
            pods: Vec::new(),
        },
        kept: Vec::new(),
        findings: Vec::new(),
        next_at: None,
    };
    let contested = contested(listing, &mut sorted);
    let mut table = Table::default();
    for (at, container) in listing.iter().enumerate() {
        if !contested.is_empty() && contested.binary_search(&at).is_ok() {
            continue;
        }
        match candidate(policy, container, now) {
            Ok(name) => {
                let unit = table.unit(&container.pod.uid, name);
                sorted.units.dead.push(Dead {
                    unit,
                    at: position(at),
                    created_at: container.created_at,
                });
                if container.pod.uid.is_empty() {
                    sorted.findings.push(about(container, Reason::NoPod));
                }
            }
            Err(reason) => {
                if let Reason::TooYoung { .. } | Reason::CreatedInFuture { .. } = reason {
                    let of_age = of_age_at(policy, container);
                    sorted.next_at = Some(sorted.next_at.map_or(of_age, |at| at.min(of_age)));
                }
                if let Reason::NoMetadata | Reason::CreatedInFuture { .. } = reason {
                    sorted.findings.push(about(container, reason.clone()));
                }
                sorted.kept.push(about(container, reason));
            }
        }
    }
    sorted.units.arrange(table.keys);
    by_id(&mut sorted.kept);
    by_id(&mut sorted.findings);
    sorted
}

/// The container's name where it may go, the reason where it stays whatever the limits say (N2.6 to N2.8, N2.13).
fn candidate<'a>(policy: &Policy, container: &'a Container, now: Timestamp) -> Result<&'a str, Reason> {
    if container.state == ContainerState::Running {
        return Err(Reason::Running);
    }
    let Some(name) = &container.name else {
        return Err(Reason::NoMetadata);
    };
    let age = GoDuration::between(container.created_at, now);
    let age_min = policy.limits.age_min;
    // The age is compared as an instant, as upstream does: created after `now - age_min` is too young.
    if now.as_nanos().saturating_sub(age_min.as_nanos()) < container.created_at.as_nanos() {
        return Err(if age.is_negative() {
            Reason::CreatedInFuture {
                ahead: GoDuration::between(now, container.created_at),
            }
        } else {
            Reason::TooYoung { age, age_min }
        });
    }
    Ok(name)
}

/// The first instant at which the container is old enough.
fn of_age_at(policy: &Policy, container: &Container) -> Timestamp {
    let nanos = container
        .created_at
        .as_nanos()
        .saturating_add(policy.limits.age_min.as_nanos());
    Timestamp::from_nanos(nanos)
}

/// Positions, ascending, of containers whose id is listed more than once and that are not the one to count.
fn contested(listing: &[Arc<Container>], sorted: &mut Sorted) -> Vec<usize> {
    let mut beginnings: Vec<u128> = listing.iter().map(|container| beginning(&container.id)).collect();
    beginnings.sort_unstable();
    if beginnings.windows(2).all(|pair| pair[0] != pair[1]) {
        return Vec::new();
    }
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
        sorted.findings.push(about(&listing[*first], reason.clone()));
        contested.extend_from_slice(if alike { others } else { same });
        if !alike {
            for &at in same {
                sorted.kept.push(about(&listing[at], reason.clone()));
            }
        }
    }
    contested.sort_unstable();
    contested
}

/// The first sixteen bytes of an id: ids of runtimes are random, so two that begin alike are looked at whole.
fn beginning(id: &str) -> u128 {
    let mut beginning = [0; 16];
    let length = id.len().min(16);
    beginning[..length].copy_from_slice(&id.as_bytes()[..length]);
    u128::from_le_bytes(beginning)
}

pub(super) fn about(container: &Arc<Container>, reason: Reason) -> Kept<Subject, Reason> {
    Kept {
        object: Subject::Container(Arc::clone(container)),
        reason,
    }
}

/// Sorts by creation and id, so that the order of the listing leaves no trace.
fn by_id(kept: &mut [Kept<Subject, Reason>]) {
    let key = |kept: &Kept<Subject, Reason>| match &kept.object {
        Subject::Container(container) => Some((container.created_at, Arc::clone(&container.id))),
        Subject::Node => None,
    };
    kept.sort_by_cached_key(key);
}

/// Listings longer than this are cut by nobody: four billion containers do not fit into memory.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// What makes a unit.
struct Key<'a> {
    uid: Uid,
    name: &'a str,
    hash: u64,
}

/// Finds the unit of a container.
#[derive(Default)]
struct Table<'a> {
    hasher: FixedState,
    slots: HashTable<u32>,
    keys: Vec<Key<'a>>,
}

impl<'a> Table<'a> {
    fn unit(&mut self, uid: &Uid, name: &'a str) -> u32 {
        let hash = self.hasher.hash_one((uid, name));
        let keys = &mut self.keys;
        let same = |&unit: &u32| {
            let key = &keys[unit as usize];
            key.uid == *uid && (std::ptr::eq(key.name, name) || key.name == name)
        };
        match self.slots.entry(hash, same, |&unit| keys[unit as usize].hash) {
            Slot::Occupied(slot) => *slot.get(),
            Slot::Vacant(slot) => {
                let unit = position(keys.len());
                slot.insert(unit);
                keys.push(Key {
                    uid: uid.clone(),
                    name,
                    hash,
                });
                unit
            }
        }
    }
}

impl Units {
    /// Brings the dead of each unit together, units in the order of their keys, each in the order of the listing.
    fn arrange(&mut self, keys: Vec<Key<'_>>) {
        let count = keys.len();
        let mut keys: Vec<(Key<'_>, u32)> = keys.into_iter().zip(0..).collect();
        keys.sort_unstable_by(|(a, _), (b, _)| (&a.uid, a.name).cmp(&(&b.uid, b.name)));
        let mut rank = vec![0_u32; count];
        for (to, &(_, from)) in keys.iter().enumerate() {
            rank[from as usize] = position(to);
        }
        self.pods = keys.into_iter().map(|(key, _)| key.uid).collect();
        // Counting sort: sizes, then starts, then places.
        let mut starts = vec![0_u32; count + 1];
        for dead in &mut self.dead {
            dead.unit = rank[dead.unit as usize];
            starts[dead.unit as usize + 1] += 1;
        }
        for unit in 0..count {
            starts[unit + 1] += starts[unit];
        }
        self.units = (0..count)
            .map(|unit| Unit {
                start: starts[unit],
                len: starts[unit + 1] - starts[unit],
            })
            .collect();
        let mut placed = self.dead.clone();
        for dead in &self.dead {
            let place = &mut starts[dead.unit as usize];
            placed[*place as usize] = *dead;
            *place += 1;
        }
        self.dead = placed;
    }

    /// The dead of a unit that are still to stay.
    pub(super) fn staying(&self, unit: Unit) -> &[Dead] {
        &self.dead[unit.start as usize..(unit.start + unit.len) as usize]
    }

    pub(super) fn total(&self) -> u32 {
        self.units.iter().map(|unit| unit.len).sum()
    }
}

/// Sorts the newest first. Equals go by id, or stay in the order in which they stand.
pub(super) fn newest_first(dead: &mut [Dead], listing: &[Arc<Container>], order: Order) {
    match order {
        Order::Total => dead.sort_unstable_by(|a, b| {
            b.created_at
                .cmp(&a.created_at)
                .then_with(|| listing[a.at as usize].id.cmp(&listing[b.at as usize].id))
        }),
        Order::Listing => dead.sort_by_key(|dead| Reverse(dead.created_at)),
    }
}
