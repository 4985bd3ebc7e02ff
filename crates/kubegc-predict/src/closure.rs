//! The objects that no longer exist after background deletes: the steady state, without a timeline (rules R-1
//! to R-7).
//!
//! One pass over plain arrays: an object is deleted once the last of its owners no longer exists. Objects
//! whose fate depends on the order of events are listed apart, for a simulation.

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::{
    Cluster, PredictError, Target,
    facts::{FLAWED, HAS_COLLECTOR_FINALIZER, HAS_CONTENT, HAS_FINALIZERS, Owner},
};

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

impl Cluster {
    /// Finds the objects that no longer exist in the steady state.
    ///
    /// # Assumptions
    /// The roots are deleted in the background, pods end, finalizers stay, nothing fails.
    ///
    /// # Errors
    /// A root is not in the dump.
    ///
    /// # Complexity
    /// O(n) bytes of scratch for n objects in the dump, O(g + e) time for g objects reached over e
    /// references.
    pub fn closure(&self, roots: &[Target]) -> Result<Closure, PredictError> {
        let mut positions = Vec::new();
        for root in roots {
            positions.extend(self.resolve(root)?);
        }
        Ok(self.closure_of(&positions))
    }

    /// The same for positions in the dump. Positions that do not exist are ignored.
    pub fn closure_of(&self, roots: &[u32]) -> Closure {
        // The objects none of whose owners exist, and their dependents.
        let removed_anyway = self.removed_anyway.get_or_init(|| {
            let is_dangling = |position: &u32| {
                let mut owners = self.edges.owners(*position).peekable();
                owners.peek().is_some() && owners.all(|owner| owner == Owner::Absent)
            };
            let dangling: Vec<u32> = (0..self.edges.flags.len() as u32).filter(is_dangling).collect();
            let closure = self.closure_without(&HashSet::default(), &dangling);
            closure.removed.into_iter().collect()
        });
        self.closure_without(removed_anyway, roots)
    }

    /// The steady state if some objects have already been deleted.
    fn closure_without(&self, deleted: &HashSet<u32, FixedState>, roots: &[u32]) -> Closure {
        let edges = &self.edges;
        let mut closure = Closure::default();
        let mut keeping: Vec<u32> = vec![UNSEEN; edges.flags.len()];
        let mut touched: Vec<u32> = Vec::new();
        for &root in roots {
            let state = keeping.get_mut(root as usize);
            if let Some(state) = state.filter(|state| **state != DECIDED && !deleted.contains(&root)) {
                *state = DECIDED;
                self.place(root, &mut closure);
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
                    self.place(dependent, &mut closure);
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

    fn place(&self, position: u32, closure: &mut Closure) {
        let list = match () {
            () if self.has(position, FLAWED) => &mut closure.undecided,
            () if self.has(position, HAS_COLLECTOR_FINALIZER | HAS_CONTENT) => &mut closure.to_simulate,
            () if self.has(position, HAS_FINALIZERS) => &mut closure.held,
            () => &mut closure.removed,
        };
        list.push(position);
    }
}
