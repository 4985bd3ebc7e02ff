//! Planners: the common interface of all decisions of kubegc. Facts and a time are the input, actions with
//! reasons are the output.

mod wrap;

use std::{
    collections::BTreeMap,
    fmt::{self, Debug, Display},
    hash::Hash,
};

pub use self::wrap::{Judge, PlannedAction, Withheld, Withholding};
use crate::Timestamp;

/// An algorithm that computes a plan from facts, without side effects.
///
/// # Guarantees
/// *Total*: any facts give a plan, unusual ones become [`Kept`] entries or findings. *Deterministic*: equal
/// facts give equal plans, regardless of their order. *Prefix-safe*: after any prefix of the actions,
/// planning again is safe. *Idempotent*: after all actions and no other change, the plan is empty.
/// *Explained*: every object with an action and every kept object has a reason.
///
/// # Wrappers
/// [`protect`](Self::protect), [`limit_deletions`](Self::limit_deletions) and
/// [`require_approval`](Self::require_approval) give planners that withhold actions. They work for every
/// planner whose actions are [`PlannedAction`]s, and they can be chained; the innermost is applied first.
/// Withheld objects are kept, with a [`Withheld`] reason.
///
/// - A withheld action also withholds later actions on the same object, and those on the object that it
///   [`blocks`](PlannedAction::blocks). So a wrapped plan is as safe as a prefix of the plan.
/// - The wrapped planner does not choose other objects instead, and its [`summary`](Plan::summary) is that of
///   its own plan.
/// - After a limited plan is performed, the next one continues. A limited planner is not idempotent only in
///   this respect.
/// - An action counts as one deletion, regardless of the number of objects that it deletes, such as all
///   content of a namespace.
pub trait Planner {
    /// The input.
    type Facts: ?Sized;
    /// An action for an executor, with its preconditions and its reason.
    type Action: Clone + Debug + PartialEq + Eq + Hash;
    /// An object in actions and reasons.
    type Object: Clone + Debug + PartialEq + Eq + Hash;
    /// The reason why an object is kept, or a finding about it.
    type Reason: Clone + Debug + PartialEq + Eq + Hash;
    /// Totals of the plan: amounts freed, shortfalls, records for the next plan.
    type Summary: Clone + Debug + PartialEq + Eq + Hash;

    fn plan(&self, facts: &Self::Facts, now: Timestamp) -> PlanOf<Self>;

    /// The same planner, except that it withholds every action on an object for which the predicate is true.
    fn protect<F>(self, is_protected: F) -> Withholding<Self, impl Judge<Self>>
    where
        Self: Sized,
        Self::Action: PlannedAction<Object = Self::Object>,
        F: Fn(&Self::Facts, &Self::Object) -> bool,
    {
        let judge = move |facts: &Self::Facts, action: &Self::Action, _| {
            is_protected(facts, &action.object()).then_some(Withheld::Protected)
        };
        Withholding { planner: self, judge }
    }

    /// The same planner with at most this number of deletions in a plan: the first ones.
    fn limit_deletions(self, deletions_max: usize) -> Withholding<Self, impl Judge<Self>>
    where
        Self: Sized,
        Self::Action: PlannedAction<Object = Self::Object>,
    {
        let judge = move |_: &Self::Facts, action: &Self::Action, deletions| {
            let is_over = action.is_deletion() && deletions >= deletions_max;
            is_over.then_some(Withheld::LimitReached { deletions_max })
        };
        Withholding { planner: self, judge }
    }

    /// The same planner, except that it withholds every action on an object that is not approved.
    fn require_approval<F>(self, is_approved: F) -> Withholding<Self, impl Judge<Self>>
    where
        Self: Sized,
        Self::Action: PlannedAction<Object = Self::Object>,
        F: Fn(&Self::Object) -> bool,
    {
        let judge = move |_: &Self::Facts, action: &Self::Action, _| {
            (!is_approved(&action.object())).then_some(Withheld::ApprovalRequired)
        };
        Withholding { planner: self, judge }
    }
}

pub type PlanOf<P> =
    Plan<<P as Planner>::Action, <P as Planner>::Object, <P as Planner>::Reason, <P as Planner>::Summary>;

/// Actions in the order of execution, and the reasons for all objects that are kept.
///
/// # Examples
/// ```
/// use kubegc_core::{Kept, Plan, Timestamp};
/// let kept = ["b", "c"].map(|object| Kept { object, reason: "it is too young" });
/// let mut plan: Plan<&str, &str, &str, ()> = Plan { actions: vec!["delete a: it is old"], kept: kept.into(), ..Plan::default() };
/// plan.next_at = Some(Timestamp::from_secs(60));
/// assert_eq!(plan.to_string(), "\
/// actions (1):
///   delete a: it is old
/// kept (2):
///   it is too young (2): b, c
/// the next change is due at 1970-01-01T00:01:00Z
/// ");
/// ```
#[must_use = "a plan does nothing until it is executed"]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Plan<Action, Object, Reason, Summary> {
    /// The actions, in order.
    pub actions: Vec<Action>,
    pub kept: Vec<Kept<Object, Reason>>,
    /// Unusual facts that have no action.
    pub findings: Vec<Kept<Object, Reason>>,
    /// The time when the same facts may give another plan; `None` if time alone changes nothing.
    pub next_at: Option<Timestamp>,
    /// The totals of the plan.
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Kept<Object, Reason> {
    pub object: Object,
    /// The reason why it is kept, or the finding.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub reason: Reason,
}

/// The maximum number of objects that a line names.
const NAMED_MAX: usize = 5;

impl<Action: Display, Object: Display, Reason: Display, Summary> Display
    for Plan<Action, Object, Reason, Summary>
{
    /// The actions, then the kept objects, grouped by reason with counts: `it has not finished (2): job/a -n
    /// shop, job/b -n shop`. At most five objects are named. A reason omits the name of the object where it
    /// would repeat it. The summary is omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = |f: &mut fmt::Formatter<'_>, title: &str, count: usize| {
            let colon = if count == 0 { "" } else { ":" };
            writeln!(f, "{title} ({count}){colon}")
        };
        header(f, "actions", self.actions.len())?;
        for action in &self.actions {
            writeln!(f, "  {action}")?;
        }
        for (title, all) in [("kept", &self.kept), ("findings", &self.findings)] {
            if !all.is_empty() {
                header(f, title, all.len())?;
            }
            let mut groups = BTreeMap::<String, Vec<String>>::new();
            for kept in all {
                let object = kept.object.to_string();
                let reason = kept.reason.to_string().replacen(&format!("{object}: "), "", 1);
                groups.entry(reason).or_default().push(object);
            }
            for (reason, objects) in groups {
                let named = objects[..objects.len().min(NAMED_MAX)].join(", ");
                write!(f, "  {reason} ({}): {named}", objects.len())?;
                match objects.len().saturating_sub(NAMED_MAX) {
                    0 => writeln!(f)?,
                    more => writeln!(f, " and {more} more")?,
                }
            }
        }
        match &self.next_at {
            Some(at) => writeln!(f, "the next change is due at {at}"),
            None => Ok(()),
        }
    }
}

/// Serializes a reason as `{"reason": name, "message": text}`, the fields of conditions and Events.
#[cfg(feature = "serde")]
pub fn serialize_reason<S: serde::Serializer>(
    name: &str,
    message: &dyn Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeStruct;

    let mut fields = serializer.serialize_struct("Reason", 2)?;
    fields.serialize_field("reason", name)?;
    fields.serialize_field("message", &message.to_string())?;
    fields.end()
}

/// Declares reasons, each variant with the arguments of its text, which may name the variant's fields. The
/// name of a reason is that of its variant.
#[doc(hidden)]
#[macro_export]
macro_rules! reasons {
    ($(
        $(#[$attribute:meta])*
        pub enum $reason:ident {$(
            $(#[$doc:meta])*
            $variant:ident
                $(($value:ident: $inner:ty))?
                $({ $($(#[$field_doc:meta])* $field:ident: $type:ty),+ $(,)? })?
                = $text:literal $(, $argument:expr)*;
        )+}
    )+) => {$(
        $(#[$attribute])*
        #[non_exhaustive]
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $reason {$(
            $(#[$doc])*
            $variant $(($inner))? $({ $($(#[$field_doc])* $field: $type),+ })?,
        )+}

        impl $reason {
            /// The reason's name, in the form of an Event's reason.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($variant),)+
                }
            }
        }

        impl std::fmt::Display for $reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant $(($value))? $({ $($field),+ })? => {
                        // A text need not name every field.
                        $(_ = $value;)?
                        $($(_ = $field;)+)?
                        write!(f, $text $(, $argument)*)
                    })+
                }
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $reason {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::planner::serialize_reason(self.name(), self, serializer)
            }
        }
    )+};
}
