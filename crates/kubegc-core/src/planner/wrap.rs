//! Wrappers of planners: protected objects, a limit on deletions, approval.

use std::{borrow::Cow, fmt, hash::Hash};

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::{Kept, Plan, PlanOf, Planner};
use crate::Timestamp;

/// The properties of an action that wrappers need.
pub trait PlannedAction {
    /// The objects of actions.
    type Object: Clone + Eq + Hash;

    /// The object of the action.
    fn object(&self) -> Self::Object;

    /// Whether the action deletes. Removing a finalizer is not a deletion.
    fn is_deletion(&self) -> bool;

    /// Another object on which no later action of the plan is safe until this action is performed. Default:
    /// none.
    ///
    /// Later actions on the same [`object`](Self::object) always count as unsafe in this case. Example: the
    /// finalizer `orphan` remains on an owner until all dependents are orphaned.
    fn blocks(&self) -> Option<Self::Object> {
        None
    }

    /// Other objects whose earlier actions of the plan must be performed first. Default: none.
    ///
    /// Example: a dependent is garbage only once its owner is deleted.
    fn depends_on(&self) -> Vec<Self::Object> {
        Vec::new()
    }
}

/// The reason of a wrapped planner.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Withheld<R> {
    /// The reason of the wrapped planner.
    Planner(R),
    /// [`Protect`] withholds the action.
    Protected,
    /// [`LimitDeletions`] withholds the action.
    LimitReached {
        /// The maximum number of deletions in a plan.
        deletions_max: usize,
    },
    /// [`RequireApproval`] withholds the action.
    ApprovalRequired,
    /// An earlier action that must come first is withheld.
    EarlierWithheld,
}

impl<R> Withheld<R> {
    /// The text of a wrapper's own reason.
    fn own_text(&self) -> Cow<'static, str> {
        match self {
            Self::Planner(_) => "".into(),
            Self::Protected => "it is protected".into(),
            Self::LimitReached { deletions_max } => {
                format!("the plan has reached its limit of deletions, which is {deletions_max}").into()
            }
            Self::ApprovalRequired => "it waits for approval".into(),
            Self::EarlierWithheld => "an earlier action that must come first is withheld".into(),
        }
    }
}

impl<R: fmt::Display> fmt::Display for Withheld<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planner(reason) => reason.fmt(f),
            _ => f.write_str(&self.own_text()),
        }
    }
}

/// A planner that never acts on protected objects: [`Planner::protect`].
#[derive(Clone, Copy, Debug)]
pub struct Protect<P, F> {
    planner: P,
    is_protected: F,
}

impl<P, F> Protect<P, F> {
    /// Wraps a planner.
    pub const fn new(planner: P, is_protected: F) -> Self {
        Self {
            planner,
            is_protected,
        }
    }
}

impl<P, F> Planner for Protect<P, F>
where
    P: Planner,
    P::Action: PlannedAction<Object = P::Object>,
    F: Fn(&P::Facts, &P::Object) -> bool,
{
    type Facts = P::Facts;
    type Action = P::Action;
    type Object = P::Object;
    type Reason = Withheld<P::Reason>;
    type Summary = P::Summary;

    fn plan(&self, facts: &P::Facts, now: Timestamp) -> PlanOf<Self> {
        withhold(self.planner.plan(facts, now), |_, object| {
            (self.is_protected)(facts, object).then_some(Withheld::Protected)
        })
    }
}

/// A planner whose plans have at most a number of deletions: [`Planner::limit_deletions`].
#[derive(Clone, Copy, Debug)]
pub struct LimitDeletions<P> {
    planner: P,
    deletions_max: usize,
}

impl<P> LimitDeletions<P> {
    /// Wraps a planner.
    pub const fn new(planner: P, deletions_max: usize) -> Self {
        Self {
            planner,
            deletions_max,
        }
    }
}

impl<P> Planner for LimitDeletions<P>
where
    P: Planner,
    P::Action: PlannedAction<Object = P::Object>,
{
    type Facts = P::Facts;
    type Action = P::Action;
    type Object = P::Object;
    type Reason = Withheld<P::Reason>;
    type Summary = P::Summary;

    fn plan(&self, facts: &P::Facts, now: Timestamp) -> PlanOf<Self> {
        let deletions_max = self.deletions_max;
        let mut left = deletions_max;
        withhold(self.planner.plan(facts, now), |action, _| {
            if !action.is_deletion() {
                return None;
            }
            match left.checked_sub(1) {
                Some(fewer) => {
                    left = fewer;
                    None
                }
                None => Some(Withheld::LimitReached { deletions_max }),
            }
        })
    }
}

/// A planner that only acts on approved objects: [`Planner::require_approval`].
#[derive(Clone, Copy, Debug)]
pub struct RequireApproval<P, F> {
    planner: P,
    is_approved: F,
}

impl<P, F> RequireApproval<P, F> {
    /// Wraps a planner.
    pub const fn new(planner: P, is_approved: F) -> Self {
        Self { planner, is_approved }
    }
}

impl<P, F> Planner for RequireApproval<P, F>
where
    P: Planner,
    P::Action: PlannedAction<Object = P::Object>,
    F: Fn(&P::Object) -> bool,
{
    type Facts = P::Facts;
    type Action = P::Action;
    type Object = P::Object;
    type Reason = Withheld<P::Reason>;
    type Summary = P::Summary;

    fn plan(&self, facts: &P::Facts, now: Timestamp) -> PlanOf<Self> {
        withhold(self.planner.plan(facts, now), |_, object| {
            (!(self.is_approved)(object)).then_some(Withheld::ApprovalRequired)
        })
    }
}

/// Moves the actions for which `judge` returns a reason to the kept objects, together with the later actions
/// that they block. An object with several withheld actions is reported once, with the first reason.
fn withhold<A, R, S>(
    plan: Plan<A, A::Object, R, S>,
    mut judge: impl FnMut(&A, &A::Object) -> Option<Withheld<R>>,
) -> Plan<A, A::Object, Withheld<R>, S>
where
    A: PlannedAction,
{
    let inside = |kept: Kept<A::Object, R>| Kept {
        object: kept.object,
        reason: Withheld::Planner(kept.reason),
    };
    let mut actions = Vec::with_capacity(plan.actions.len());
    let mut kept: Vec<_> = plan.kept.into_iter().map(inside).collect();
    let mut blocked = HashSet::with_hasher(FixedState::default());
    let mut reported = HashSet::with_hasher(FixedState::default());
    for action in plan.actions {
        let object = action.object();
        // Blocked actions are not passed to `judge`, so that they do not count as deletions.
        let is_blocked = |object: &A::Object| blocked.contains(object);
        let reason = if is_blocked(&object) || action.depends_on().iter().any(is_blocked) {
            Some(Withheld::EarlierWithheld)
        } else {
            judge(&action, &object)
        };
        let Some(reason) = reason else {
            actions.push(action);
            continue;
        };
        blocked.extend(action.blocks());
        blocked.insert(object.clone());
        if reported.insert(object.clone()) {
            kept.push(Kept { object, reason });
        }
    }
    Plan {
        actions,
        kept,
        findings: plan.findings.into_iter().map(inside).collect(),
        next_at: plan.next_at,
        summary: plan.summary,
    }
}

#[cfg(feature = "serde")]
impl<R: serde::Serialize> serde::Serialize for Withheld<R> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Self::Planner(reason) => return reason.serialize(serializer),
            Self::Protected => "Protected",
            Self::LimitReached { .. } => "LimitReached",
            Self::ApprovalRequired => "ApprovalRequired",
            Self::EarlierWithheld => "EarlierWithheld",
        };
        super::serialize_reason(name, &self.own_text(), serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a release: deletes an item, or changes it; an owner comes after its items.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Step {
        item: u8,
        owner: Option<u8>,
        is_deletion: bool,
    }

    impl PlannedAction for Step {
        type Object = u8;

        fn object(&self) -> u8 {
            self.item
        }

        fn is_deletion(&self) -> bool {
            self.is_deletion
        }

        fn blocks(&self) -> Option<u8> {
            self.owner
        }
    }

    /// Returns the facts as the plan.
    struct Given;

    impl Planner for Given {
        type Facts = [Step];
        type Action = Step;
        type Object = u8;
        type Reason = ();
        type Summary = ();

        fn plan(&self, facts: &[Step], _: Timestamp) -> PlanOf<Self> {
            Plan {
                actions: facts.to_vec(),
                kept: vec![Kept {
                    object: 99,
                    reason: (),
                }],
                ..Plan::default()
            }
        }
    }

    const fn step(item: u8, owner: Option<u8>, is_deletion: bool) -> Step {
        Step {
            item,
            owner,
            is_deletion,
        }
    }

    /// The items with actions, and the withheld items with the reasons.
    fn outcome<P>(planner: &P, facts: &[Step]) -> (Vec<u8>, Vec<(u8, P::Reason)>)
    where
        P: Planner<Facts = [Step], Action = Step, Object = u8>,
    {
        let plan = planner.plan(facts, Timestamp::EPOCH);
        let acted = plan.actions.iter().map(|step| step.item).collect();
        let kept = plan.kept.into_iter().filter(|kept| kept.object != 99);
        (acted, kept.map(|kept| (kept.object, kept.reason)).collect())
    }

    #[test]
    fn an_action_is_withheld_together_with_those_that_must_come_later() {
        let facts = [
            step(1, Some(9), true),
            step(2, Some(9), true),
            step(1, None, false),
            step(9, None, false),
            step(3, None, false),
        ];
        let protected = Given.protect(|_, item| *item == 1);
        let withheld = vec![(1, Withheld::Protected), (9, Withheld::EarlierWithheld)];
        assert_eq!(outcome(&protected, &facts), (vec![2, 3], withheld));

        let unapproved = Given.require_approval(|item| *item != 9);
        let withheld = vec![(9, Withheld::ApprovalRequired)];
        assert_eq!(outcome(&unapproved, &facts), (vec![1, 2, 1, 3], withheld));

        let limited = Given.limit_deletions(1);
        let reached = Withheld::LimitReached { deletions_max: 1 };
        let withheld = vec![(2, reached), (9, Withheld::EarlierWithheld)];
        assert_eq!(outcome(&limited, &facts), (vec![1, 1, 3], withheld));
    }

    #[test]
    fn a_withheld_action_has_a_reason_in_words() {
        type Reason = Withheld<&'static str>;
        for (reason, text) in [
            (Reason::Planner("it is too young"), "it is too young"),
            (Reason::Protected, "it is protected"),
            (
                Reason::LimitReached { deletions_max: 3 },
                "the plan has reached its limit of deletions, which is 3",
            ),
            (Reason::ApprovalRequired, "it waits for approval"),
            (
                Reason::EarlierWithheld,
                "an earlier action that must come first is withheld",
            ),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }

    #[test]
    fn a_blocked_deletion_does_not_count() {
        let facts = [step(1, Some(2), false), step(2, None, true), step(3, None, true)];
        let planner = Given.protect(|_, item| *item == 1).limit_deletions(1);
        let withheld = vec![
            (1, Withheld::Planner(Withheld::Protected)),
            (2, Withheld::Planner(Withheld::EarlierWithheld)),
        ];
        assert_eq!(outcome(&planner, &facts), (vec![3], withheld));
    }
}
