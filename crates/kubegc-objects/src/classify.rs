//! Sorts the owners of an item into solid, dangling and waiting, and decides what that means for the item (rules ).
//!
//! These are the two decisions that everything else serves. Both are pure: what was looked up comes in as answers.
//!
//! # Upstream
//! `isDangling`, `classifyReferences` and the second half of `attemptToDeleteItem` in `garbagecollector.go`, 1.13 to 1.36.

use std::fmt;

use kubegc_core::{ObjectMeta, OwnerReference, PropagationPolicy, Uid, metadata};

/// What an owner is to its dependent.
#[expect(clippy::exhaustive_enums, reason = "upstream's three lists")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// It is there and keeps the dependent alive.
    Solid,
    /// It does not exist.
    Dangling,
    /// It is being deleted and waits for its dependents to go first.
    Waiting,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Solid => "solid",
            Self::Dangling => "dangling",
            Self::Waiting => "waiting",
        })
    }
}

/// The fact that puts an owner into its class.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OwnerState {
    /// A live read found it, and nobody deletes it.
    Present,
    /// A live read found it. It is being deleted, but does not wait for dependents: until it is gone it counts as there.
    Terminating,
    /// A live read found it, being deleted in the foreground.
    WaitsForDependents,
    /// A live read found nothing under this name.
    NotFound,
    /// A live read found another object under this name.
    Replaced {
        /// The uid of that object.
        live: Uid,
    },
    /// An earlier live read had shown it absent.
    RememberedAbsent,
}

impl OwnerState {
    /// What a live read says of the owner that a reference names.
    #[must_use]
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

    /// The class that follows.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Present | Self::Terminating => Class::Solid,
            Self::WaitsForDependents => Class::Waiting,
            Self::NotFound | Self::Replaced { .. } | Self::RememberedAbsent => Class::Dangling,
        }
    }
}

impl fmt::Display for OwnerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present => f.write_str("exists"),
            Self::Terminating => f.write_str("is being deleted and still exists"),
            Self::WaitsForDependents => f.write_str("is being deleted in the foreground"),
            Self::NotFound => f.write_str("does not exist"),
            Self::Replaced { live } => write!(
                f,
                "does not exist: its name belongs to another object (uid {live})"
            ),
            Self::RememberedAbsent => f.write_str("was not found before"),
        }
    }
}

/// One reference of an item, and what was found out about the owner that it names.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// The reference, as read live.
    pub reference: OwnerReference,
    /// What was found.
    pub state: OwnerState,
}

impl Resolved {
    /// The owner's class.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.state.class()
    }
}

/// What becomes of an item.
#[expect(clippy::exhaustive_enums, reason = "the rows of rule A-8")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It has no owners, so it is nobody's garbage.
    NoOwners,
    /// At least one owner is there, and no other one is gone.
    Keep,
    /// At least one owner is there; the references with these uids are removed: dangling ones first, then waiting ones, each in stored
    /// order.
    Release(Vec<Uid>),
    /// No owner is there, one waits, and the item has dependents: it is deleted in the foreground, so that they go first.
    DeleteBeforeOwner,
    /// No owner is there: it is deleted, its own dependents as its finalizers say.
    Delete(PropagationPolicy),
}

/// Decides what becomes of an item whose owners were all looked up.
///
/// `has_dependents` is what the *graph* knows, not the cluster: that is upstream's heuristic.
#[must_use]
pub fn decide(live: &ObjectMeta, owners: &[Resolved], has_dependents: bool) -> Verdict {
    let of = |class| owners.iter().filter(move |owner| owner.class() == class);
    let has = |class| of(class).next().is_some();
    if owners.is_empty() {
        Verdict::NoOwners
    } else if has(Class::Solid) {
        if !has(Class::Dangling) && !has(Class::Waiting) {
            return Verdict::Keep;
        }
        let gone = of(Class::Dangling).chain(of(Class::Waiting));
        Verdict::Release(gone.map(|owner| owner.reference.uid.clone()).collect())
    } else if has(Class::Waiting) && has_dependents {
        Verdict::DeleteBeforeOwner
    } else {
        Verdict::Delete(policy_of(live))
    }
}

/// The propagation policy that an item without owners is deleted with: a collector's finalizer that it carries already is respected.
fn policy_of(live: &ObjectMeta) -> PropagationPolicy {
    if live.has_finalizer(metadata::FINALIZER_ORPHAN) {
        PropagationPolicy::Orphan
    } else if live.has_finalizer(metadata::FINALIZER_FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    }
}
