//! The requests that the API server still refuses at the end of a simulation, by the objects that wait for
//! them.

use std::collections::{BTreeMap, HashMap};

use kubegc_control_plane::{Actor, Step, Why};
use kubegc_core::{ObjectRef, Uid};
use kubegc_objects::Reason;

/// The last refused request of each sender about each object.
#[derive(Debug, Default)]
pub(crate) struct Refusals<'s> {
    by_object: BTreeMap<&'s Uid, Vec<&'s Step>>,
}

impl<'s> Refusals<'s> {
    /// Collects them.
    ///
    /// # Complexity
    /// O(s) for s steps.
    pub(crate) fn of(steps: &'s [Step]) -> Self {
        let mut refusals = Self::default();
        if !steps.iter().any(is_refused) {
            return refusals;
        }
        let mut last = HashMap::<(Actor, &ObjectRef), &Step>::new();
        for step in steps {
            last.insert((step.actor, &step.object), step);
        }
        for step in steps.iter().filter(|step| is_refused(step)) {
            if !std::ptr::eq(last[&(step.actor, &*step.object)], step) {
                continue;
            }
            for uid in waiting(step) {
                refusals.by_object.entry(uid).or_default().push(step);
            }
        }
        refusals
    }

    /// Those that an object waits for.
    pub(crate) fn about(&self, uid: &Uid) -> impl Iterator<Item = &'s Step> {
        self.by_object.get(uid).into_iter().flatten().copied()
    }
}

/// Whether the API server refused a request that is not the client's.
fn is_refused(step: &Step) -> bool {
    step.failure.is_some() && step.actor != Actor::Client
}

/// The object of a request, and the owners that wait for its effect.
fn waiting(step: &Step) -> impl Iterator<Item = &Uid> {
    let owners = match &step.why {
        Why::Collector(reason) => reason.owners(),
        _ => &[],
    };
    let orphaning = match &step.why {
        Why::Collector(Reason::OwnerOrphans(owner)) => Some(&owner.uid),
        _ => None,
    };
    let owners = owners.iter().map(|owner| &owner.reference.uid);
    [&step.object.uid].into_iter().chain(orphaning).chain(owners)
}
