//! Reasons for requests, as data from which explanations are built.

use std::{fmt, sync::Arc};

use kubegc_core::ObjectRef;

use crate::classify::{Class, Resolved};

/// The reason for one request.
///
/// # Examples
/// ```
/// use kubegc_objects::Reason;
/// let reason = Reason::NothingBlocks { dependents: 2, unset: 2 };
/// assert_eq!(reason.name(), "NothingBlocks");
/// assert_eq!(Reason::LookUpOwner.to_string(), "a dependent names it as an owner");
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A client requests the deletion; it is no decision of the collector.
    Requested,
    /// The item's live state is read before its owners are resolved ([A-3](crate::rules#a-3)).
    VerifyItem,
    /// An owner that a reference names is looked up ([A-9](crate::rules#a-9)).
    LookUpOwner,
    /// Some owners exist; the references to absent and waiting ones are removed ([A-8](crate::rules#a-8)).
    SomeOwnersAbsent(Arc<[Resolved]>),
    /// A dependent of the item also waits: the item must not block its owner, or both would wait forever
    /// ([A-11](crate::rules#a-11)).
    BreakCycle(Arc<[Resolved]>),
    /// No owner is left ([A-8](crate::rules#a-8)).
    NoOwnerLeft(Arc<[Resolved]>),
    /// An owner waits for this item, which has dependents of its own that are deleted first
    /// ([A-8](crate::rules#a-8)).
    OwnerWaits(Arc<[Resolved]>),
    /// A merge patch needs the current state ([P-6](crate::rules#p-6)).
    ReadBeforePatch,
    /// The delete met a conflict. It is repeated unless the owners changed ([A-12](crate::rules#a-12)).
    RecheckAfterConflict,
    /// The owner is being deleted and its dependents are orphaned ([O-2](crate::rules#o-2)).
    OwnerOrphans(Arc<ObjectRef>),
    /// The removal of a finalizer needs the current state ([F-1](crate::rules#f-1)).
    ReadBeforeFinalizer,
    /// No dependent blocks the deletion in the foreground ([A-13](crate::rules#a-13)).
    NothingBlocks {
        /// The number of dependents in the graph.
        dependents: usize,
        /// The number of those whose owner references leave `blockOwnerDeletion` unset.
        unset: usize,
    },
    /// All dependents are orphaned ([O-4](crate::rules#o-4)).
    DependentsReleased,
}

impl Reason {
    /// The name, in the form of an Event's reason.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Requested => "Requested",
            Self::VerifyItem => "VerifyItem",
            Self::LookUpOwner => "LookUpOwner",
            Self::SomeOwnersAbsent(_) => "SomeOwnersAbsent",
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

    /// The resolved owners, if the request depends on them.
    #[must_use]
    pub fn owners(&self) -> &[Resolved] {
        match self {
            Self::SomeOwnersAbsent(owners)
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
            Self::Requested => "its deletion is requested",
            Self::VerifyItem => "its owners are to be verified",
            Self::LookUpOwner => "a dependent names it as an owner",
            Self::SomeOwnersAbsent(_) => {
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

#[cfg(feature = "serde")]
impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        kubegc_core::planner::serialize_reason(self.name(), self, serializer)
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::OwnerReference;

    use super::*;
    use crate::classify::OwnerState;

    #[test]
    fn a_reason_has_a_name_a_text_and_the_owners_that_it_depends_on() {
        let resolved = |state| Resolved {
            reference: OwnerReference {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                name: "owner".into(),
                uid: "o".into(),
                controller: None,
                block_owner_deletion: None,
            },
            state,
        };
        let gone: Arc<[Resolved]> = [resolved(OwnerState::NotFound)].into();
        let waits: Arc<[Resolved]> = [OwnerState::NotFound, OwnerState::WaitsForDependents]
            .map(resolved)
            .into();
        let owner = ObjectRef::new("apps/v1", "Deployment", "shop", "web", "o");
        let lines = [
            Reason::VerifyItem,
            Reason::LookUpOwner,
            Reason::SomeOwnersAbsent(gone.clone()),
            Reason::BreakCycle(waits.clone()),
            Reason::NoOwnerLeft(gone),
            Reason::NoOwnerLeft(waits.clone()),
            Reason::OwnerWaits(waits),
            Reason::ReadBeforePatch,
            Reason::RecheckAfterConflict,
            Reason::OwnerOrphans(Arc::new(owner)),
            Reason::ReadBeforeFinalizer,
            Reason::DependentsReleased,
        ]
        .map(|reason| format!("{} ({}): {reason}\n", reason.name(), reason.owners().len()));
        let expected = "\
VerifyItem (0): its owners are to be verified
LookUpOwner (0): a dependent names it as an owner
SomeOwnersAbsent (1): some of its owners exist, so only the references to the others are removed
BreakCycle (2): it and an owner wait for each other, so it no longer blocks the owner
NoOwnerLeft (1): no owner of it is left
NoOwnerLeft (2): its only remaining owner is being deleted in the foreground and waits for it
OwnerWaits (2): an owner is being deleted in the foreground and waits for it, and it has dependents of its own
ReadBeforePatch (0): a merge patch needs the latest state
RecheckAfterConflict (0): it changed between read and delete
OwnerOrphans (0): its owner deployment/web -n shop is deleted without its dependents
ReadBeforeFinalizer (0): a finalizer is to be removed
DependentsReleased (0): all its dependents are released
";
        assert_eq!(lines.concat(), expected);
    }

    #[test]
    fn a_foreground_deletion_without_blocking_dependents_states_the_reason() {
        let lines = [(0, 0), (1, 1), (3, 3), (1, 0), (3, 1)].map(|(dependents, unset)| {
            let reason = Reason::NothingBlocks { dependents, unset };
            assert_eq!((reason.name(), reason.owners().len()), ("NothingBlocks", 0));
            format!("{reason}\n")
        });
        let expected = "\
no dependent blocks its deletion any longer
its only dependent does not block its deletion: blockOwnerDeletion is not set in the owner reference
none of its 3 dependents blocks its deletion: blockOwnerDeletion is not set in their owner references
its only dependent does not block its deletion: blockOwnerDeletion is not true in the owner reference
none of its 3 dependents blocks its deletion: blockOwnerDeletion is not true in their owner references
";
        assert_eq!(lines.concat(), expected);
    }
}
