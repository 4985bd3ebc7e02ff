//! The requests that the API server still refuses at the end of a trace, by the objects that wait for them.

use std::collections::BTreeMap;

use kubegc_core::{ObjectRef, Uid, record::ObjectId};
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

/// The number of conflicts in a row after which a request is refused for good, if nothing changed the object
/// in between: a client that meets a new version of an object reads it and sends its request again.
const CONFLICTS: usize = 3;

impl<'s> Refusals<'s> {
    /// Those of a trace.
    ///
    /// # Complexity
    /// O(s log s) for s steps.
    pub fn of(steps: &'s [Step]) -> Self {
        let mut refusals = Self::default();
        if !steps.iter().any(is_refused) {
            return refusals;
        }
        let mut changes = BTreeMap::<&Uid, usize>::new();
        let mut last = BTreeMap::<Key<'_>, Last<'_>>::new();
        for step in steps {
            let changes = changes.entry(&step.object.uid).or_default();
            *changes += usize::from(step.failure.is_none());
            let known = last.get(&key(step)).filter(|known| known.changes == *changes);
            let before = known.map_or(0, |known| known.conflicts);
            let latest = Last {
                step,
                conflicts: if step.is_conflict() { before + 1 } else { 0 },
                changes: *changes,
            };
            last.insert(key(step), latest);
        }
        for step in steps.iter().filter(|step| is_refused(step)) {
            let last = last[&key(step)];
            // One sync of a namespace deletes the collections of all resources, in no time.
            let is_last = match step.act {
                Act::DeleteCollection => last.step.at == step.at,
                _ => std::ptr::eq(last.step, step),
            };
            if !is_last || step.is_conflict() && last.conflicts < CONFLICTS {
                continue;
            }
            let waiting = match &step.why {
                Why::Collector(Reason::OwnerOrphans(owner)) => Some(&owner.uid),
                _ => creator(step).map(|creator| &creator.uid),
            };
            for uid in [&step.object.uid].into_iter().chain(waiting) {
                refusals.by_object.entry(uid).or_default().push(step);
            }
        }
        refusals
    }

    /// Those about an object, those about dependents that it orphans, and those that would create dependents
    /// of it.
    pub fn about(&self, uid: &Uid) -> impl Iterator<Item = &'s Step> {
        self.by_object.get(uid).into_iter().flatten().copied()
    }

    pub fn contains(&self, step: &Step) -> bool {
        self.about(&step.object.uid)
            .any(|known| std::ptr::eq(known, step))
    }
}

/// The last request of a key.
#[derive(Clone, Copy, Debug)]
struct Last<'s> {
    step: &'s Step,
    /// The number of conflicts up to this one, all of them with the same state of the object.
    conflicts: usize,
    /// The number of earlier changes of the object.
    changes: usize,
}

/// Whether the API server refused a request that is not the client's.
fn is_refused(step: &Step) -> bool {
    step.failure.is_some() && step.actor != Actor::Client
}

/// The owner for which a step creates an object.
fn creator(step: &Step) -> Option<&ObjectId> {
    match &step.why {
        Why::Controller(reason) if step.act == Act::Create => reason.object(),
        _ => None,
    }
}

/// The actor, the verb as far as a later response settles an earlier one, and the object of a request. One
/// that creates an object, whose name is not known before, has the owner of the object.
type Key<'s> = (Actor, &'static str, Result<&'s ObjectRef, &'s ObjectId>);

/// The key of a request: a later response with the same key settles it.
fn key(step: &Step) -> Key<'_> {
    let verb = match step.act {
        Act::Delete { .. } => "delete",
        Act::DeleteCollection => "deletecollection",
        Act::Patch { .. } | Act::Create | Act::Update => "write",
        Act::Storage(_) => "storage",
    };
    (step.actor, verb, creator(step).map_or(Ok(&*step.object), Err))
}

#[cfg(test)]
mod tests {
    use kubegc_core::{ObjectMeta, record::Resource};

    use super::*;
    use crate::{Refusal, RefusedBy};

    fn step(act: Act, name: &str, by: Option<RefusedBy>, why: Why) -> Step {
        let code = if by.is_some() { 409 } else { 200 };
        let message = "no".into();
        let failure = by.is_some().then_some(Refusal { message, by });
        let (actor, object) = (
            Actor::Controller("replicaset-controller"),
            ObjectRef::new("v1", "Pod", "shop", name, ""),
        );
        Step::new(actor, act, object, (code, failure), why)
    }

    #[test]
    fn a_conflict_is_a_refusal_after_some_in_a_row() {
        let reason = kubegc_controllers::Reason::new("Changed", "it differs");
        let write = |code: char| {
            let by = (code == 'c').then_some(RefusedBy::Conflict);
            let mut step = step(Act::Update, "web", by, Why::Controller(Box::new(reason.clone())));
            if code == 'o' {
                step.actor = Actor::Client;
            }
            step
        };
        // c: a conflict, s: the write succeeds, o: another actor changes the object.
        for (codes, expected) in [
            ("cc", 0),
            ("ccc", 1),
            ("cccs", 0),
            ("ccscc", 0),
            ("ccocc", 0),
            ("cccoc", 0),
            ("ccco", 1),
        ] {
            let steps: Vec<Step> = codes.chars().map(write).collect();
            assert_eq!(
                Refusals::of(&steps).about(&"".into()).count(),
                expected,
                "{codes}"
            );
        }
    }

    /// The name of a pod is generated when it is created.
    #[test]
    fn a_create_is_settled_by_a_later_one_for_its_owner() {
        let create = |owner: &str, by: Option<RefusedBy>| {
            let mut meta = ObjectMeta::new("shop", owner, "");
            meta.uid = owner.into();
            let reason = kubegc_controllers::Reason::new("SuccessfulCreate", "it is missing");
            let reason = reason.about(ObjectId::new(Resource::ReplicaSets, &meta));
            let name = if by.is_some() { "web-" } else { "web-x2x4z" };
            step(Act::Create, name, by, Why::Controller(Box::new(reason)))
        };
        let quota = || Some(RefusedBy::Quota("compute".into()));
        let steps = [create("a", quota()), create("b", quota()), create("a", None)];
        let refusals = Refusals::of(&steps);
        let count = |owner: &str| refusals.about(&owner.into()).count();
        assert_eq!([count("a"), count("b")], [0, 1]);
    }
}
