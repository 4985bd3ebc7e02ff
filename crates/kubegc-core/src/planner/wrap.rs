//! Wrappers of planners: protected objects, a limit on deletions, approval.

use std::hash::Hash;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::{Kept, Plan, PlanOf, Planner};
use crate::Timestamp;

/// The properties of an action that wrappers need.
pub trait PlannedAction {
    type Object: Clone + Eq + Hash;

    fn object(&self) -> Self::Object;

    /// Whether the action deletes. Removing a finalizer is not a deletion. Default: yes.
    fn is_deletion(&self) -> bool {
        true
    }

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
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Withheld<R> {
    /// The reason of the wrapped planner.
    Planner(R),
    #[display("it is protected")]
    Protected,
    /// The plan has its [maximum](Planner::limit_deletions) of deletions.
    #[display("the plan has reached its limit of deletions, which is {deletions_max}")]
    LimitReached {
        /// The maximum number of deletions in a plan.
        deletions_max: usize,
    },
    /// The object is not [approved](Planner::require_approval).
    #[display("it waits for approval")]
    ApprovalRequired,
    /// An earlier action that must come first is withheld.
    #[display("an earlier action that must come first is withheld")]
    EarlierWithheld,
}

/// Says why an action is withheld, from the facts, the action, and the number of deletions before it in the
/// plan.
pub trait Judge<P: Planner>: Fn(&P::Facts, &P::Action, usize) -> Option<Withheld<P::Reason>> {}

impl<P, F> Judge<P> for F
where
    P: Planner,
    F: Fn(&P::Facts, &P::Action, usize) -> Option<Withheld<P::Reason>>,
{
}

/// A planner that withholds actions of another one, by its [`Judge`].
#[derive(Clone, Copy, Debug)]
pub struct Withholding<P, F> {
    pub(super) planner: P,
    pub(super) judge: F,
}

impl<P, F> Planner for Withholding<P, F>
where
    P: Planner,
    P::Action: PlannedAction<Object = P::Object>,
    F: Judge<P>,
{
    type Facts = P::Facts;
    type Action = P::Action;
    type Object = P::Object;
    type Reason = Withheld<P::Reason>;
    type Summary = P::Summary;

    /// Moves the withheld actions to the kept objects, together with the later actions that they block. An
    /// object with several withheld actions is reported once, with the first reason.
    fn plan(&self, facts: &P::Facts, now: Timestamp) -> PlanOf<Self> {
        let plan = self.planner.plan(facts, now);
        let inside = |kept: Kept<P::Object, P::Reason>| Kept {
            object: kept.object,
            reason: Withheld::Planner(kept.reason),
        };
        let mut actions = Vec::with_capacity(plan.actions.len());
        let mut deletions = 0;
        let mut kept: Vec<_> = plan.kept.into_iter().map(inside).collect();
        let mut blocked = HashSet::with_hasher(FixedState::default());
        let mut reported = HashSet::with_hasher(FixedState::default());
        for action in plan.actions {
            let object = action.object();
            let is_blocked = |object: &P::Object| blocked.contains(object);
            let reason = if is_blocked(&object) || action.depends_on().iter().any(is_blocked) {
                Some(Withheld::EarlierWithheld)
            } else {
                (self.judge)(facts, &action, deletions)
            };
            let Some(reason) = reason else {
                deletions += usize::from(action.is_deletion());
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
}

#[cfg(feature = "serde")]
impl<R: serde::Serialize + std::fmt::Display> serde::Serialize for Withheld<R> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Self::Planner(reason) => return reason.serialize(serializer),
            Self::Protected => "Protected",
            Self::LimitReached { .. } => "LimitReached",
            Self::ApprovalRequired => "ApprovalRequired",
            Self::EarlierWithheld => "EarlierWithheld",
        };
        super::serialize_reason(name, self, serializer)
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
    fn a_blocked_deletion_does_not_count() {
        let facts = [step(1, Some(2), false), step(2, None, true), step(3, None, true)];
        let planner = Given.protect(|_, item| *item == 1).limit_deletions(1);
        let withheld = vec![
            (1, Withheld::Planner(Withheld::Protected)),
            (2, Withheld::Planner(Withheld::EarlierWithheld)),
        ];
        assert_eq!(outcome(&planner, &facts), (vec![3], withheld));
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
}
