//! The objects that no longer exist after background deletes: the steady state, without a timeline (rules R-1
//! to R-7).
//!
//! One pass over plain arrays: an object is deleted once the last of its owners no longer exists. Objects
//! whose fate depends on the order of events are listed apart, for a simulation.

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::facts::{FLAWED, Facts, HAS_COLLECTOR_FINALIZER, HAS_CONTENT, HAS_FINALIZERS, Owner};

/// The steady state after background deletes, by position in the dump
/// ([`Snapshot::object`](kubegc_snapshot::Snapshot::object)).
///
/// # Examples
/// A ConfigMap owns a Secret.
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// let closure = cluster.closure(&[Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default()).target])?;
/// assert_eq!(closure.removed, [0, 1], "the ConfigMap and the Secret, by position");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// Objects that no longer exist, the roots first, in the order of their deletion.
    pub removed: Vec<u32>,
    /// Objects that wait for finalizers; their dependents are kept.
    pub held: Vec<u32>,
    /// Objects that lose some of their owners and are kept.
    pub released: Vec<u32>,
    /// Objects that are deleted if owners that are missing from the dump do not exist.
    pub undecided: Vec<u32>,
    /// Objects with the collector's own finalizers, Namespaces and CustomResourceDefinitions: their fates and
    /// those of their dependents take a simulation.
    pub to_simulate: Vec<u32>,
}

/// The number of references that still keep an object has these values and bits.
const UNSEEN: u32 = u32::MAX;
const DECIDED: u32 = u32::MAX - 1;
/// The collector never decides about it.
const NEVER_DECIDED: u32 = 1 << 31;
/// An owner is unknown.
const IN_DOUBT: u32 = 1 << 30;

/// The objects none of whose owners exist, and their dependents.
pub(crate) fn removed_anyway(facts: &Facts) -> HashSet<u32, FixedState> {
    let is_dangling = |position: &u32| {
        let mut owners = facts.edges.owners(*position).peekable();
        owners.peek().is_some() && owners.all(|owner| owner == Owner::Absent)
    };
    let dangling: Vec<u32> = (0..facts.edges.flags.len() as u32).filter(is_dangling).collect();
    let closure = Closure::of(facts, &HashSet::default(), &dangling);
    closure.removed.into_iter().collect()
}

impl Closure {
    /// The steady state if some objects have already been deleted.
    pub(crate) fn of(facts: &Facts, deleted: &HashSet<u32, FixedState>, roots: &[u32]) -> Self {
        let edges = &facts.edges;
        let mut closure = Self::default();
        let mut keeping: Vec<u32> = vec![UNSEEN; edges.flags.len()];
        let mut touched: Vec<u32> = Vec::new();
        for &root in roots {
            let state = keeping.get_mut(root as usize);
            if let Some(state) = state.filter(|state| **state != DECIDED && !deleted.contains(&root)) {
                *state = DECIDED;
                closure.place(facts, root);
            }
        }
        let mut next = 0;
        while let Some(&owner) = closure.removed.get(next) {
            next += 1;
            for &dependent in edges.dependents(owner) {
                let state = &mut keeping[dependent as usize];
                if *state == DECIDED || deleted.contains(&dependent) {
                    continue;
                }
                let owners = edges.owners(dependent);
                let lost = owners.filter(|&reference| reference == Owner::At(owner)).count();
                if lost == 0 {
                    // It names the owner's uid under another name or namespace: lookups did not find it
                    // there before either.
                    continue;
                }
                if *state == UNSEEN {
                    *state = 0;
                    touched.push(dependent);
                    for reference in edges.owners(dependent) {
                        match reference {
                            Owner::At(other) if !deleted.contains(&other) => *state += 1,
                            Owner::At(_) | Owner::Absent => {}
                            Owner::Unknown => *state |= IN_DOUBT,
                            Owner::Never => *state |= NEVER_DECIDED,
                        }
                    }
                }
                *state -= lost as u32;
                if *state == 0 {
                    *state = DECIDED;
                    closure.place(facts, dependent);
                }
            }
        }
        for position in touched {
            match keeping[position as usize] {
                DECIDED => {}
                IN_DOUBT => closure.undecided.push(position),
                state if state & NEVER_DECIDED != 0 => {}
                _ => closure.released.push(position),
            }
        }
        closure
    }

    fn place(&mut self, facts: &Facts, position: u32) {
        let list = match () {
            () if facts.has(position, FLAWED) => &mut self.undecided,
            () if facts.has(position, HAS_COLLECTOR_FINALIZER | HAS_CONTENT) => &mut self.to_simulate,
            () if facts.has(position, HAS_FINALIZERS) => &mut self.held,
            () => &mut self.removed,
        };
        list.push(position);
    }
}
