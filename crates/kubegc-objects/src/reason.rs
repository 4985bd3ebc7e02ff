//! Reasons for requests, as data from which explanations are built.

use std::sync::Arc;

use kubegc_core::ObjectRef;

use crate::classify::{Class, Resolved};

kubegc_core::reasons! {
    /// The reason for one request.
    ///
    /// # Examples
    /// ```
    /// use kubegc_objects::Reason;
    /// let reason = Reason::NothingBlocks { dependents: 2, unset: 2 };
    /// assert_eq!(reason.name(), "NothingBlocks");
    /// assert_eq!(Reason::LookUpOwner.to_string(), "a dependent names it as an owner");
    /// ```
    pub enum Reason {
        /// A client requests the deletion; it is no decision of the collector.
        Requested = "its deletion is requested";
        /// The item's live state is read before its owners are resolved ([A-3](crate::rules#a-3)).
        VerifyItem = "its owners are to be verified";
        /// [A-9](crate::rules#a-9).
        LookUpOwner = "a dependent names it as an owner";
        /// The references to absent and waiting owners are removed ([A-8](crate::rules#a-8)).
        SomeOwnersAbsent(owners: Arc<[Resolved]>) =
            "some of its owners exist, so only the references to the others are removed";
        /// A dependent of the item also waits: the item must not block its owner, or both would wait forever
        /// ([A-11](crate::rules#a-11)).
        BreakCycle(owners: Arc<[Resolved]>) =
            "it and an owner wait for each other, so it no longer blocks the owner";
        /// [A-8](crate::rules#a-8).
        NoOwnerLeft(owners: Arc<[Resolved]>) = "{}",
            match owners.iter().any(|owner| owner.class() == Class::Waiting) {
                true => "its only remaining owner is being deleted in the foreground and waits for it",
                false => "no owner of it is left",
            };
        /// The dependents of the item are deleted first ([A-8](crate::rules#a-8)).
        OwnerWaits(owners: Arc<[Resolved]>) =
            "an owner is being deleted in the foreground and waits for it, and it has dependents of its own";
        /// [P-6](crate::rules#p-6).
        ReadBeforePatch = "a merge patch needs the latest state";
        /// The delete met a conflict. It is repeated unless the owners changed ([A-12](crate::rules#a-12)).
        RecheckAfterConflict = "it changed between read and delete";
        /// [O-2](crate::rules#o-2).
        OwnerOrphans(owner: Arc<ObjectRef>) = "its owner {} is deleted without its dependents", owner.short();
        /// The removal needs the current state ([F-1](crate::rules#f-1)).
        ReadBeforeFinalizer = "a finalizer is to be removed";
        /// [A-13](crate::rules#a-13).
        NothingBlocks {
            dependents: usize,
            /// The number of those whose owner references leave `blockOwnerDeletion` unset.
            unset: usize,
        } = "{}", nothing_blocks(*dependents, *unset);
        /// [O-4](crate::rules#o-4).
        DependentsReleased = "all its dependents are released";
    }
}

fn nothing_blocks(dependents: usize, unset: usize) -> String {
    let value = if unset == dependents { "set" } else { "true" };
    match dependents {
        0 => "no dependent blocks its deletion any longer".to_owned(),
        1 => format!(
            "its only dependent does not block its deletion: blockOwnerDeletion is not {value} in the owner reference"
        ),
        _ => format!(
            "none of its {dependents} dependents blocks its deletion: blockOwnerDeletion is not {value} in their \
             owner references"
        ),
    }
}

impl Reason {
    /// The resolved owners, if the request depends on them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_no_example_prints_have_texts() {
        for (reason, text) in [
            (
                Reason::BreakCycle(Arc::default()),
                "it and an owner wait for each other, so it no longer blocks the owner",
            ),
            (Reason::ReadBeforePatch, "a merge patch needs the latest state"),
            (Reason::RecheckAfterConflict, "it changed between read and delete"),
            (Reason::ReadBeforeFinalizer, "a finalizer is to be removed"),
        ] {
            assert_eq!(reason.to_string(), text);
        }
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
