//! Classification of owners as solid, dangling or waiting, and the resulting verdict for the item
//! ([A-8](crate::rules#a-8) and [A-9](crate::rules#a-9)).
//!
//! Both functions are pure: the results of lookups are arguments.
//!
//! # Upstream
//! `isDangling`, `classifyReferences` and the second half of `attemptToDeleteItem` in
//! [`garbagecollector.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/garbagecollector.go),
//! 1.13 to 1.36.

use kubegc_core::{ObjectMeta, OwnerReference, PropagationPolicy, Uid, metadata};

/// The class of an owner ([R-1](crate::rules#r-1)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display(rename_all = "lowercase")]
pub enum Class {
    /// It exists and keeps the dependent.
    Solid,
    /// It does not exist.
    Dangling,
    /// It is being deleted in the foreground and waits for its dependents.
    Waiting,
}

kubegc_core::reasons! {
    /// The observation that determines the class of an owner.
    pub enum OwnerState {
        /// A live read found it, and it is not being deleted.
        Present = "exists";
        /// A live read found it. It is being deleted but does not wait for dependents, so it counts as
        /// existing until it is removed ([R-4](crate::rules#r-4)).
        Terminating = "is being deleted and still exists";
        /// A live read found it.
        WaitsForDependents = "is being deleted in the foreground";
        /// A live read found nothing under this name.
        NotFound = "does not exist";
        /// A live read found another object under this name.
        Replaced { live: Uid } = "does not exist: its name belongs to another object (uid {live})";
        /// An earlier live read found it absent.
        RememberedAbsent = "does not exist, by an earlier lookup";
    }
}

impl OwnerState {
    /// Evaluates a live read of the owner that a reference names.
    pub fn of_live(reference: &OwnerReference, live: Option<&ObjectMeta>) -> Self {
        match live {
            None => Self::NotFound,
            Some(live) if live.uid != reference.uid => Self::Replaced {
                live: live.uid.clone(),
            },
            Some(live) if !live.is_deleting() => Self::Present,
            Some(live) if live.has_finalizer(metadata::FINALIZER_FOREGROUND) => Self::WaitsForDependents,
            Some(_) => Self::Terminating,
        }
    }

    pub const fn class(&self) -> Class {
        match self {
            Self::Present | Self::Terminating => Class::Solid,
            Self::WaitsForDependents => Class::Waiting,
            Self::NotFound | Self::Replaced { .. } | Self::RememberedAbsent => Class::Dangling,
        }
    }
}

/// One reference of an item with the state of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// The reference, as read live.
    pub reference: OwnerReference,
    pub state: OwnerState,
}

impl Resolved {
    /// The owner's class.
    pub const fn class(&self) -> Class {
        self.state.class()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It has no owners, so it is not garbage.
    NoOwners,
    /// At least one owner exists, and no other one is absent or waiting.
    Keep,
    /// At least one owner exists. The references with these uids are removed: dangling ones first, then
    /// waiting ones, each in stored order.
    Release(Vec<Uid>),
    /// No owner exists, one waits, and the item has dependents: it is deleted in the foreground, so that they
    /// are deleted first.
    DeleteBeforeOwner,
    /// No owner exists: it is deleted, with the policy that its finalizers imply.
    Delete(PropagationPolicy),
}

/// Returns the verdict for an item whose owners are all resolved.
///
/// As upstream, `has_dependents` is read from the graph, not from the cluster.
pub fn decide(live: &ObjectMeta, owners: &[Resolved], has_dependents: bool) -> Verdict {
    let with_class = |class| owners.iter().filter(move |owner| owner.class() == class);
    let has = |class| with_class(class).next().is_some();
    if owners.is_empty() {
        Verdict::NoOwners
    } else if has(Class::Solid) {
        if !has(Class::Dangling) && !has(Class::Waiting) {
            return Verdict::Keep;
        }
        let absent = with_class(Class::Dangling).chain(with_class(Class::Waiting));
        Verdict::Release(absent.map(|owner| owner.reference.uid.clone()).collect())
    } else if has(Class::Waiting) && has_dependents {
        Verdict::DeleteBeforeOwner
    } else {
        Verdict::Delete(policy_of(live))
    }
}

/// The propagation policy for an item without owners. A finalizer of the collector that it already has is
/// respected.
fn policy_of(live: &ObjectMeta) -> PropagationPolicy {
    if live.has_finalizer(metadata::FINALIZER_ORPHAN) {
        PropagationPolicy::Orphan
    } else if live.has_finalizer(metadata::FINALIZER_FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_an_owner_has_a_class_and_a_text() {
        let lines = [
            OwnerState::NotFound,
            OwnerState::RememberedAbsent,
            OwnerState::Replaced { live: "o".into() },
            OwnerState::Present,
            OwnerState::Terminating,
            OwnerState::WaitsForDependents,
        ]
        .map(|state| format!("{}: {state}\n", state.class()));
        let expected = "\
dangling: does not exist
dangling: does not exist, by an earlier lookup
dangling: does not exist: its name belongs to another object (uid o)
solid: exists
solid: is being deleted and still exists
waiting: is being deleted in the foreground
";
        assert_eq!(lines.concat(), expected);
    }
}
