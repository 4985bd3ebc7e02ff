//! The release of dependents as a [`Planner`]: for callers that read the owner themselves.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    Kept, ObjectMeta, ObjectRef, Plan, PlanOf, PlannedAction, Planner, Preconditions, Timestamp, Uid,
    metadata,
};

use crate::{delete::expectation, reason::Reason};

/// The rules that release the dependents of one owner.
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, ObjectRef, Planner, Timestamp};
/// use kubegc_objects::orphan::{Action, Facts, Rules};
///
/// let owner = ObjectRef::new("apps/v1", "ReplicaSet", "shop", "web", "set");
/// let pod = ObjectRef::new("v1", "Pod", "shop", "web-0", "pod");
/// let mut live = ObjectMeta::new("shop", "web", "set");
/// live.finalizers.push("orphan".into());
/// let mut facts = Facts { owner, live: Some(live.clone().into()), dependents: vec![pod.clone()] };
/// assert!(Rules.plan(&facts, Timestamp::EPOCH).actions.is_empty(), "nobody deletes the owner");
///
/// live.deletion_timestamp = Some(Timestamp::EPOCH);
/// facts.live = Some(live.into());
/// let plan = Rules.plan(&facts, Timestamp::EPOCH);
/// assert!(matches!(&plan.actions[0], Action::RemoveOwner { dependent, .. } if *dependent == pod));
/// assert!(matches!(plan.actions[1], Action::RemoveFinalizer { .. }));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the rules have no parameters")]
pub struct Rules;

/// What [`Rules`] decides on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
pub struct Facts {
    /// The owner.
    pub owner: ObjectRef,
    /// The live metadata of the object with the owner's name; `None` where it was not read.
    pub live: Option<Arc<ObjectMeta>>,
    /// The dependents that the owner graph knows, in any order.
    pub dependents: Vec<ObjectRef>,
}

/// What to do for one owner.
#[expect(
    clippy::exhaustive_enums,
    reason = "executors must perform each; a new one must break them"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Remove all references of a dependent that have the owner's uid. A dependent that is gone needs nothing.
    RemoveOwner {
        /// The dependent.
        dependent: ObjectRef,
        /// The owner.
        owner: Arc<ObjectRef>,
        /// What the action rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
    /// Remove the finalizer `orphan` from the owner, once all dependents are released.
    RemoveFinalizer {
        /// The owner.
        owner: ObjectRef,
        /// What the action rests on.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl PlannedAction for Action {
    type Object = ObjectRef;

    fn object(&self) -> ObjectRef {
        match self {
            Self::RemoveOwner { dependent, .. } => dependent.clone(),
            Self::RemoveFinalizer { owner, .. } => owner.clone(),
        }
    }

    fn is_deletion(&self) -> bool {
        false
    }

    /// The owner keeps its finalizer until all dependents are released: otherwise they would be collected after it.
    fn blocks(&self) -> Option<ObjectRef> {
        match self {
            Self::RemoveOwner { owner, .. } => Some((**owner).clone()),
            Self::RemoveFinalizer { .. } => None,
        }
    }
}

/// Why owner and dependents are left as they are.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeptBecause {
    /// The owner was not read.
    OwnerNotRead,
    /// The owner's name belongs to another object.
    OwnerReplaced {
        /// The uid of that object.
        live: Uid,
    },
    /// Nobody deletes the owner.
    OwnerNotDeleted,
    /// The owner does not carry the finalizer `orphan`.
    OwnerDoesNotOrphan,
}

impl Planner for Rules {
    type Facts = Facts;
    type Action = Action;
    type Object = ObjectRef;
    type Reason = KeptBecause;
    type Summary = ();

    /// Decides. [`Attempt`](super::Attempt) begins only with owners that were seen deleting with the finalizer; here the live state must say so.
    ///
    /// # Complexity
    /// O(d log d) for d dependents.
    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let Facts {
            owner,
            live,
            dependents,
        } = facts;
        let dependents: BTreeSet<&ObjectRef> = dependents.iter().collect();
        let mut plan = Plan::default();
        let live = match orphaning(owner, live.as_deref()) {
            Ok(live) => live,
            Err(reason) => {
                let others = dependents.into_iter().filter(|&dependent| dependent != owner);
                plan.kept
                    .extend([owner].into_iter().chain(others).map(|object| Kept {
                        object: object.clone(),
                        reason: reason.clone(),
                    }));
                return plan;
            }
        };
        let mut expect = expectation(&owner.uid, live);
        if dependents.contains(owner) {
            // The owner names itself: its release is a change of the owner, and what was read is then no longer so.
            expect.resource_version = None;
        }
        let shared = Arc::new(owner.clone());
        plan.actions = dependents
            .into_iter()
            .map(|dependent| Action::RemoveOwner {
                dependent: dependent.clone(),
                owner: Arc::clone(&shared),
                expect: Preconditions::uid(dependent.uid.clone()),
                reason: Reason::OwnerOrphans(Arc::clone(&shared)),
            })
            .collect();
        plan.actions.push(Action::RemoveFinalizer {
            owner: owner.clone(),
            expect,
            reason: Reason::DependentsReleased,
        });
        plan
    }
}

/// The live owner, where it is being deleted without its dependents.
fn orphaning<'a>(owner: &ObjectRef, live: Option<&'a ObjectMeta>) -> Result<&'a ObjectMeta, KeptBecause> {
    let live = live.ok_or(KeptBecause::OwnerNotRead)?;
    if live.uid != owner.uid {
        let live = live.uid.clone();
        return Err(KeptBecause::OwnerReplaced { live });
    }
    if !live.is_deleting() {
        return Err(KeptBecause::OwnerNotDeleted);
    }
    if !live.has_finalizer(metadata::FINALIZER_ORPHAN) {
        return Err(KeptBecause::OwnerDoesNotOrphan);
    }
    Ok(live)
}
