//! The orphaning of dependents as a [`Planner`], for callers that read the owner themselves.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    Kept, ObjectMeta, ObjectRef, Plan, PlanOf, PlannedAction, Planner, Preconditions, Timestamp, Uid,
    metadata,
};

use crate::{delete::expectation, reason::Reason};

/// Planner for one owner whose dependents are orphaned ([O-1](crate::rules#o-1) to [O-4](crate::rules#o-4)).
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
/// assert!(Rules.plan(&facts, Timestamp::EPOCH).actions.is_empty(), "the owner is not being deleted");
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

/// Input of [`Rules`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers build it")]
pub struct Facts {
    /// The owner.
    pub owner: ObjectRef,
    /// The live metadata of the object with the owner's name; `None` if it was not read.
    pub live: Option<Arc<ObjectMeta>>,
    /// The dependents in the owner graph, in any order.
    pub dependents: Vec<ObjectRef>,
}

/// An action for one owner.
#[expect(
    clippy::exhaustive_enums,
    reason = "executors must perform each; a new one must break them"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Remove all references of a dependent that have the owner's uid. A dependent that no longer exists
    /// needs nothing.
    RemoveOwner {
        /// The dependent.
        dependent: ObjectRef,
        /// The owner.
        owner: Arc<ObjectRef>,
        /// The preconditions of the action.
        expect: Preconditions,
        /// The reason.
        reason: Reason,
    },
    /// Remove the finalizer `orphan` from the owner after all dependents are orphaned.
    RemoveFinalizer {
        /// The owner.
        owner: ObjectRef,
        /// The preconditions of the action.
        expect: Preconditions,
        /// The reason.
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

    /// The owner keeps its finalizer until all dependents are orphaned. Otherwise they would be deleted after
    /// it.
    fn blocks(&self) -> Option<ObjectRef> {
        match self {
            Self::RemoveOwner { owner, .. } => Some((**owner).clone()),
            Self::RemoveFinalizer { .. } => None,
        }
    }
}

/// Why the owner and its dependents are kept.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeptReason {
    /// The owner was not read.
    OwnerNotRead,
    /// Another object has the owner's name.
    OwnerReplaced {
        /// The uid of that object.
        live: Uid,
    },
    /// The owner is not being deleted.
    OwnerNotDeleted,
    /// The owner does not carry the finalizer `orphan`.
    OwnerDoesNotOrphan,
}

impl Planner for Rules {
    type Facts = Facts;
    type Action = Action;
    type Object = ObjectRef;
    type Reason = KeptReason;
    type Summary = ();

    /// Plans the patches and the removal of the finalizer. [`Attempt`](super::Attempt) starts only with
    /// owners that were observed terminating with the finalizer; here the live state must show it.
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
            // The owner names itself: the patch changes the owner, so the version that was read is outdated.
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

/// The live owner, if it is terminating with the finalizer `orphan`.
fn orphaning<'a>(owner: &ObjectRef, live: Option<&'a ObjectMeta>) -> Result<&'a ObjectMeta, KeptReason> {
    let live = live.ok_or(KeptReason::OwnerNotRead)?;
    if live.uid != owner.uid {
        let live = live.uid.clone();
        return Err(KeptReason::OwnerReplaced { live });
    }
    if !live.is_deleting() {
        return Err(KeptReason::OwnerNotDeleted);
    }
    if !live.has_finalizer(metadata::FINALIZER_ORPHAN) {
        return Err(KeptReason::OwnerDoesNotOrphan);
    }
    Ok(live)
}
