//! The shape that every decision of kubegc has: facts and a time in, actions with reasons out.

mod report;
mod wrap;

use std::{fmt::Debug, hash::Hash};

pub use self::{
    report::{PlanReport, ReportedObjects},
    wrap::{LimitDeletions, PlannedAction, Protect, RequireApproval, Withheld},
};
use crate::Timestamp;

/// An algorithm that turns facts into a plan and touches nothing.
///
/// # Guarantees
/// *Total*: any facts give a plan, odd ones become [`Kept`] entries or findings. *Deterministic*: equal facts give equal plans,
/// whatever order they come in. *Prefix-safe*: after any prefix of the actions, planning again is safe. *Idempotent*: after all of
/// them and nothing else, the plan is empty. *Explained*: every object acted on or kept carries its reason.
///
/// # Wrappers
/// [`protect`](Self::protect), [`limit_deletions`](Self::limit_deletions) and [`require_approval`](Self::require_approval) give planners that
/// withhold actions. They work for every planner whose actions are [`PlannedAction`]s, and they can be chained; the innermost is applied first.
/// Withheld objects are kept, with a [`Withheld`] reason.
///
/// - An action that is withheld takes later actions on the same object with it, and those on the object that it
///   [`blocks`](PlannedAction::blocks). So a wrapped plan is as safe as a prefix of the plan.
/// - The planner inside does not choose other objects instead, and its [`summary`](Plan::summary) is that of its own plan.
/// - After a limited plan is carried out, the next one continues. In this alone a limited planner is not idempotent.
/// - An action counts as one deletion, however many objects it deletes, such as all content of a namespace.
pub trait Planner {
    /// What the decision rests on.
    type Facts: ?Sized;
    /// What an executor performs. Carries its own preconditions and its reason.
    type Action: Clone + Debug + PartialEq + Eq + Hash;
    /// What is decided about.
    type Object: Clone + Debug + PartialEq + Eq + Hash;
    /// Why an object is kept, or what is odd about it.
    type Reason: Clone + Debug + PartialEq + Eq + Hash;
    /// What the plan amounts to: amounts freed, shortfalls, records to hand in next time.
    type Summary: Clone + Debug + PartialEq + Eq + Hash;

    /// Decides.
    fn plan(&self, facts: &Self::Facts, now: Timestamp) -> PlanOf<Self>;

    /// The same planner, which withholds every action on an object for which the predicate is true.
    fn protect<F>(self, is_protected: F) -> Protect<Self, F>
    where
        Self: Sized,
        F: Fn(&Self::Facts, &Self::Object) -> bool,
    {
        Protect::new(self, is_protected)
    }

    /// The same planner with at most this number of deletions in a plan: the first ones.
    fn limit_deletions(self, deletions_max: usize) -> LimitDeletions<Self>
    where
        Self: Sized,
    {
        LimitDeletions::new(self, deletions_max)
    }

    /// The same planner, which withholds every action on an object that is not approved.
    fn require_approval<F>(self, is_approved: F) -> RequireApproval<Self, F>
    where
        Self: Sized,
        F: Fn(&Self::Object) -> bool,
    {
        RequireApproval::new(self, is_approved)
    }
}

/// The plan that a planner makes.
pub type PlanOf<P> =
    Plan<<P as Planner>::Action, <P as Planner>::Object, <P as Planner>::Reason, <P as Planner>::Summary>;

/// Actions in the order in which to perform them, and the reasons for all that is left alone.
#[expect(clippy::exhaustive_structs, reason = "executors take every field")]
#[must_use = "a plan does nothing until it is executed"]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan<Action, Object, Reason, Summary> {
    /// What to do, in order.
    pub actions: Vec<Action>,
    /// What stays, and why.
    pub kept: Vec<Kept<Object, Reason>>,
    /// What is odd about the facts, without a consequence of its own.
    pub findings: Vec<Kept<Object, Reason>>,
    /// When the same facts may give another plan; `None` where time alone changes nothing.
    pub next_at: Option<Timestamp>,
    /// What the plan amounts to.
    pub summary: Summary,
}

impl<Action, Object, Reason, Summary: Default> Default for Plan<Action, Object, Reason, Summary> {
    fn default() -> Self {
        Self {
            actions: Vec::new(),
            kept: Vec::new(),
            findings: Vec::new(),
            next_at: None,
            summary: Summary::default(),
        }
    }
}

/// An object and what there is to say about it.
#[expect(
    clippy::exhaustive_structs,
    reason = "two parts, and there will not be a third"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kept<Object, Reason> {
    /// The object.
    pub object: Object,
    /// Why it is kept, or what is odd about it.
    pub reason: Reason,
}
