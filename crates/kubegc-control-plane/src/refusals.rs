//! The requests that the API server still refuses at the end of a trace, by the objects that wait for them.

use std::collections::BTreeMap;

use kubegc_core::{ObjectRef, Uid};
use kubegc_objects::Reason;

use crate::{Act, Actor, Step, Why};

/// The requests of the control plane that were refused, and not performed later: the last of each kind.
///
/// # Examples
/// ```
/// use kubegc_control_plane::Refusals;
/// let refusals = Refusals::of(&[]);
/// assert!(refusals.about(&"uid-1".into()).next().is_none());
/// ```
#[derive(Debug, Default)]
pub struct Refusals<'s> {
    by_object: BTreeMap<&'s Uid, Vec<&'s Step>>,
}

impl<'s> Refusals<'s> {
    /// Those of a trace.
    ///
    /// # Complexity
    /// O(s log s) for s steps.
    #[must_use]
    pub fn of(steps: &'s [Step]) -> Self {
        let mut refusals = Self::default();
        if !steps.iter().any(is_refused) {
            return refusals;
        }
        let mut last = BTreeMap::<(Actor, Verb, &ObjectRef), &Step>::new();
        for step in steps {
            last.insert((step.actor, Verb::of(step.act), &step.object), step);
        }
        for step in steps.iter().filter(|step| is_refused(step)) {
            let newest = last[&(step.actor, Verb::of(step.act), &*step.object)];
            // One sync of a namespace deletes the collections of all resources, in no time.
            let is_last = match step.act {
                Act::DeleteCollection => newest.at == step.at,
                _ => std::ptr::eq(newest, step),
            };
            if !is_last {
                continue;
            }
            let orphaning = match &step.why {
                Why::Collector(Reason::OwnerOrphans(owner)) => Some(&owner.uid),
                _ => None,
            };
            for uid in [&step.object.uid].into_iter().chain(orphaning) {
                refusals.by_object.entry(uid).or_default().push(step);
            }
        }
        refusals
    }

    /// Those about an object, and those about dependents that it orphans.
    pub fn about(&self, uid: &Uid) -> impl Iterator<Item = &'s Step> {
        self.by_object.get(uid).into_iter().flatten().copied()
    }
}

/// Whether the API server refused a request that is not the client's.
fn is_refused(step: &Step) -> bool {
    step.failure.is_some() && step.actor != Actor::Client
}

/// The verb of a request, as far as a later answer to it settles an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verb {
    Delete,
    DeleteCollection,
    Write,
    Storage,
}

impl Verb {
    const fn of(act: Act) -> Self {
        match act {
            Act::Delete { .. } => Self::Delete,
            Act::DeleteCollection => Self::DeleteCollection,
            Act::Patch { .. } | Act::Create | Act::Update => Self::Write,
            Act::Storage(_) => Self::Storage,
        }
    }
}
