//! Why a request is made, as data that an explanation can be built from.

use std::{fmt, sync::Arc};

use kubegc_core::ObjectRef;

use crate::classify::{Class, Resolved};

/// Why one request is made.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The item's owners are to be verified, so its live state is read first.
    VerifyItem,
    /// An owner that a reference names is looked up.
    LookUpOwner,
    /// Some owners stay, others are absent or wait for their dependents: the references to these are removed.
    SomeOwnersGone(Arc<[Resolved]>),
    /// A dependent of the item waits as well: the item must not block its owner, or both would wait for ever.
    BreakCycle(Arc<[Resolved]>),
    /// No owner stays.
    NoOwnerLeft(Arc<[Resolved]>),
    /// An owner waits for this item, which has dependents of its own: they go first.
    OwnerWaits(Arc<[Resolved]>),
    /// The state that a merge patch is built on.
    ReadBeforePatch,
    /// The delete met a conflict: whether the owners changed decides.
    RecheckAfterConflict,
    /// The owner is being deleted and asked for its dependents to be kept.
    OwnerOrphans(Arc<ObjectRef>),
    /// The state that the removal of a finalizer is built on.
    ReadBeforeFinalizer,
    /// No dependent blocks the foreground deletion, or none is left.
    NothingBlocks {
        /// The dependents that the graph knows.
        dependents: usize,
        /// Those of them whose owner references leave `blockOwnerDeletion` unset.
        unset: usize,
    },
    /// All dependents are released.
    DependentsReleased,
}

impl Reason {
    /// The name, as a Kubernetes Event would have it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::VerifyItem => "VerifyItem",
            Self::LookUpOwner => "LookUpOwner",
            Self::SomeOwnersGone(_) => "SomeOwnersGone",
            Self::BreakCycle(_) => "BreakCycle",
            Self::NoOwnerLeft(_) => "NoOwnerLeft",
            Self::OwnerWaits(_) => "OwnerWaits",
            Self::ReadBeforePatch => "ReadBeforePatch",
            Self::RecheckAfterConflict => "RecheckAfterConflict",
            Self::OwnerOrphans(_) => "OwnerOrphans",
            Self::ReadBeforeFinalizer => "ReadBeforeFinalizer",
            Self::NothingBlocks { .. } => "NothingBlocks",
            Self::DependentsReleased => "DependentsReleased",
        }
    }

    /// What was found out about the item's owners, where the request rests on that.
    #[must_use]
    pub fn owners(&self) -> &[Resolved] {
        match self {
            Self::SomeOwnersGone(owners)
            | Self::BreakCycle(owners)
            | Self::NoOwnerLeft(owners)
            | Self::OwnerWaits(owners) => owners,
            _ => &[],
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::VerifyItem => "its owners are to be verified",
            Self::LookUpOwner => "a dependent names it as an owner",
            Self::SomeOwnersGone(_) => {
                "some of its owners exist, so only the references to the others are removed"
            }
            Self::BreakCycle(_) => "it and an owner wait for each other, so it no longer blocks the owner",
            Self::NoOwnerLeft(owners) if owners.iter().any(|owner| owner.class() == Class::Waiting) => {
                "its only remaining owner is being deleted in the foreground and waits for it"
            }
            Self::NoOwnerLeft(_) => "no owner of it is left",
            Self::OwnerWaits(_) => {
                "an owner is being deleted in the foreground and waits for it, and it has dependents of its own"
            }
            Self::ReadBeforePatch => "a merge patch needs the latest state",
            Self::RecheckAfterConflict => "it changed between read and delete",
            Self::OwnerOrphans(owner) => {
                return write!(f, "its owner {} is deleted without its dependents", owner.short());
            }
            Self::ReadBeforeFinalizer => "a finalizer is to be removed",
            Self::NothingBlocks { dependents: 0, .. } => "no dependent blocks its deletion any longer",
            Self::NothingBlocks { dependents, unset } => {
                let value = if unset == dependents { "set" } else { "true" };
                return match dependents {
                    1 => write!(
                        f,
                        "its only dependent does not block its deletion: blockOwnerDeletion is not {value} in the \
                         owner reference"
                    ),
                    _ => write!(
                        f,
                        "none of its {dependents} dependents blocks its deletion: blockOwnerDeletion is not \
                         {value} in their owner references"
                    ),
                };
            }
            Self::DependentsReleased => "all its dependents are released",
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreground_deletion_that_nothing_blocks_says_why() {
        for (dependents, unset, expected) in [
            (0, 0, "no dependent blocks its deletion any longer"),
            (
                1,
                1,
                "its only dependent does not block its deletion: blockOwnerDeletion is not set in the owner reference",
            ),
            (
                3,
                3,
                "none of its 3 dependents blocks its deletion: blockOwnerDeletion is not set in their owner references",
            ),
            (
                3,
                1,
                "none of its 3 dependents blocks its deletion: blockOwnerDeletion is not true in their owner references",
            ),
        ] {
            assert_eq!(Reason::NothingBlocks { dependents, unset }.to_string(), expected);
        }
    }
}
