//! The decision about one item as a [`Planner`], for callers that resolved all owners themselves.

use std::sync::Arc;

use kubegc_core::{
    Kept, ObjectMeta, ObjectRef, Plan, PlanOf, PlannedAction, Planner, Preconditions, PropagationPolicy,
    Timestamp, Uid,
};

use super::expectation;
use crate::{
    classify::{Resolved, Verdict, decide},
    reason::Reason,
};

/// Planner for one item ([A-6](crate::rules#a-6) to [A-8](crate::rules#a-8)).
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, OwnerReference, Planner, PropagationPolicy, Timestamp};
/// use kubegc_objects::{classify::{OwnerState, Resolved}, delete::{Action, Facts, Rules}};
///
/// let owner = OwnerReference {
///     api_version: "apps/v1".into(), kind: "ReplicaSet".into(), name: "web".into(), uid: "gone".into(),
///     controller: Some(true), block_owner_deletion: Some(true),
/// };
/// let item = kubegc_core::ObjectRef::new("v1", "Pod", "shop", "web-0", "pod");
/// let live = ObjectMeta { owner_references: [owner.clone()].into_iter().collect(), ..ObjectMeta::new("shop", "web-0", "pod") };
/// let owners = vec![Resolved { reference: owner, state: OwnerState::NotFound }];
/// let facts = Facts { item, live: live.into(), owners, has_dependents: false };
/// let plan = Rules.plan(&facts, Timestamp::EPOCH);
/// assert!(matches!(plan.actions[0], Action::Delete { propagation: PropagationPolicy::Background, .. }));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the rules have no parameters")]
pub struct Rules;

/// Input of [`Rules`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers build it")]
pub struct Facts {
    /// The item.
    pub item: ObjectRef,
    /// Its live metadata.
    pub live: Arc<ObjectMeta>,
    /// Its owners, resolved, in stored order.
    pub owners: Vec<Resolved>,
    /// Whether the owner graph has dependents of the item.
    pub has_dependents: bool,
}

/// An action on an item.
#[expect(
    clippy::exhaustive_enums,
    reason = "executors must perform each; a new one must break them"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Remove its references with these uids.
    Release {
        /// The item.
        item: ObjectRef,
        /// The uids.
        owners: Vec<Uid>,
        /// The preconditions of the action.
        expect: Preconditions,
        /// The reason.
        reason: Reason,
    },
    /// Delete it.
    Delete {
        /// The item.
        item: ObjectRef,
        /// The treatment of its dependents.
        propagation: PropagationPolicy,
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
            Self::Release { item, .. } | Self::Delete { item, .. } => item.clone(),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }
}

/// Why an item is kept.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeptReason {
    /// It has no owners.
    NoOwners,
    /// Its owners exist.
    OwnersExist(Arc<[Resolved]>),
    /// Not all of its owners were resolved.
    OwnersNotResolved {
        /// Number of its references.
        references: usize,
        /// Number of resolved owners.
        resolved: usize,
    },
}

impl Planner for Rules {
    type Facts = Facts;
    type Action = Action;
    type Object = ObjectRef;
    type Reason = KeptReason;
    type Summary = ();

    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let Facts {
            item,
            live,
            owners,
            has_dependents,
        } = facts;
        let mut plan = Plan::default();
        let keep = |reason| Kept {
            object: item.clone(),
            reason,
        };
        let covers = owners.len() == live.owner_references.len()
            && owners
                .iter()
                .zip(&live.owner_references)
                .all(|(owner, reference)| owner.reference == *reference);
        if !covers {
            let (references, resolved) = (live.owner_references.len(), owners.len());
            plan.kept
                .push(keep(KeptReason::OwnersNotResolved { references, resolved }));
            return plan;
        }
        let resolved: Arc<[Resolved]> = owners.as_slice().into();
        let expect = expectation(&item.uid, live);
        match decide(live, owners, *has_dependents) {
            Verdict::NoOwners => plan.kept.push(keep(KeptReason::NoOwners)),
            Verdict::Keep => plan.kept.push(keep(KeptReason::OwnersExist(resolved))),
            Verdict::Release(owners) => plan.actions.push(Action::Release {
                item: item.clone(),
                owners,
                expect,
                reason: Reason::SomeOwnersGone(resolved),
            }),
            Verdict::DeleteBeforeOwner => plan.actions.push(Action::Delete {
                item: item.clone(),
                propagation: PropagationPolicy::Foreground,
                expect,
                reason: Reason::OwnerWaits(resolved),
            }),
            Verdict::Delete(propagation) => plan.actions.push(Action::Delete {
                item: item.clone(),
                propagation,
                expect,
                reason: Reason::NoOwnerLeft(resolved),
            }),
        }
        plan
    }
}
