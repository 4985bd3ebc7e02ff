//! The questions a visit asks, the calls it makes, and the answers it takes.

use std::{fmt, sync::Arc};

use kubegc_core::{DeleteOptions, Preconditions, PropagationPolicy, StoreError};

use super::{Condition, GroupVersionResource, Item, Namespace, Outcome, Reason};

/// What a visit wants next. Every step but the last is answered once.
#[expect(clippy::exhaustive_enums, reason = "a driver must handle each")]
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read the namespace, live. Answer: [`Answer::Namespace`].
    GetNamespace,
    /// List a resource in the namespace, all of it and live. Answer: [`Answer::Items`].
    List {
        /// The resource.
        resource: GroupVersionResource,
        /// What the list is for.
        purpose: ListPurpose,
    },
    /// Change something.
    Perform(Action),
    /// The visit is over.
    Done(Outcome),
}

/// What a list is for.
#[expect(clippy::exhaustive_enums, reason = "a visit lists for these three reasons")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListPurpose {
    /// To see how long pods may take to end. The items need [`Item::pod`].
    Estimate,
    /// To delete each item by itself. The items need name and uid.
    DeleteEach,
    /// To see what remains. The items need their finalizers.
    Remainder,
}

/// A change that a visit makes. All of them speak of one namespace.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sets `status.phase` to `Terminating`. Answer: [`Answer::Namespace`], as it is then.
    SetPhaseTerminating {
        /// The namespace.
        namespace: Arc<str>,
        /// What the decision rests on. The write carries this resourceVersion where it is known.
        expect: Preconditions,
    },
    /// Deletes all objects of a resource. Answer: [`Answer::Done`].
    ///
    /// The API has no precondition for collections. None is needed: while the namespace has its finalizer, no other of its name can
    /// exist, so what is in it belongs to the one that was deleted.
    DeleteCollection {
        /// The resource.
        resource: GroupVersionResource,
        /// The namespace.
        namespace: Arc<str>,
        /// What happens to dependents; always background.
        propagation: PropagationPolicy,
    },
    /// Deletes one object. Answer: [`Answer::Done`].
    Delete {
        /// The resource.
        resource: GroupVersionResource,
        /// The namespace.
        namespace: Arc<str>,
        /// The object's name.
        name: Arc<str>,
        /// What the decision rests on. Upstream sends no precondition.
        expect: Preconditions,
        /// What happens to dependents; always background.
        propagation: PropagationPolicy,
    },
    /// Replaces `status.conditions`. Answer: [`Answer::Done`]. A failure changes nothing else.
    UpdateConditions {
        /// The namespace.
        namespace: Arc<str>,
        /// What the decision rests on. The write carries this resourceVersion where it is known.
        expect: Preconditions,
        /// All conditions, as they shall be.
        conditions: Vec<Condition>,
    },
    /// Replaces `spec.finalizers` through the `finalize` subresource. Answer: [`Answer::Done`].
    ///
    /// Within one visit, `expect` is what was read *before* the conditions were written, as upstream has it: where they were, this
    /// is answered with a conflict at first, read anew and sent again.
    Finalize {
        /// The namespace.
        namespace: Arc<str>,
        /// What the decision rests on. The write carries this resourceVersion where it is known.
        expect: Preconditions,
        /// The finalizers that stay, sorted.
        finalizers: Vec<Arc<str>>,
    },
}

impl Action {
    /// Why this is done.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::SetPhaseTerminating { .. } => Reason::NamespaceDeleted,
            Self::DeleteCollection { .. } => Reason::NamespaceTerminating,
            Self::Delete { .. } => Reason::CollectionNotSupported,
            Self::UpdateConditions { .. } => Reason::ConditionsChanged,
            Self::Finalize { .. } => Reason::ContentGone,
        }
    }

    /// The body that upstream sends with a deletion; `None` for what deletes nothing.
    #[must_use]
    pub fn delete_options(&self) -> Option<DeleteOptions> {
        match self {
            Self::DeleteCollection { propagation, .. } | Self::Delete { propagation, .. } => {
                Some(DeleteOptions::policy(*propagation))
            }
            Self::SetPhaseTerminating { .. } | Self::UpdateConditions { .. } | Self::Finalize { .. } => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetPhaseTerminating { namespace, .. } => {
                write!(f, "set the phase of namespace {namespace} to Terminating")
            }
            Self::DeleteCollection {
                resource, namespace, ..
            } => write!(f, "delete all {resource} in namespace {namespace}"),
            Self::Delete {
                resource,
                namespace,
                name,
                ..
            } => write!(f, "delete {name} of {resource} in namespace {namespace}"),
            Self::UpdateConditions { namespace, .. } => {
                write!(f, "update the conditions of namespace {namespace}")
            }
            Self::Finalize {
                namespace,
                finalizers,
                ..
            } if finalizers.is_empty() => write!(f, "remove the last finalizer of namespace {namespace}"),
            Self::Finalize {
                namespace,
                finalizers,
                ..
            } => write!(
                f,
                "leave namespace {namespace} with finalizers {}",
                finalizers.join(", ")
            ),
        }
    }
}

/// What became of a step.
///
/// An answer of the wrong kind is taken as an outcome that is not known: the visit goes on, ends in an error, and nothing is
/// finalized on it.
#[expect(clippy::exhaustive_enums, reason = "drivers only build these")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The namespace as it is now.
    Namespace(Namespace),
    /// All objects of the resource in the namespace.
    Items(Vec<Item>),
    /// It is done.
    Done,
    /// It failed. "Method not allowed" is [`StoreError::NotSupported`] or [`StoreError::Refused`] with code 405.
    Failed(StoreError),
}

impl Answer {
    pub(super) fn into_namespace(self) -> Result<Namespace, StoreError> {
        match self {
            Self::Namespace(namespace) => Ok(namespace),
            Self::Failed(error) => Err(error),
            Self::Items(_) | Self::Done => Err(misfit()),
        }
    }

    pub(super) fn into_items(self) -> Result<Vec<Item>, StoreError> {
        match self {
            Self::Items(items) => Ok(items),
            Self::Failed(error) => Err(error),
            Self::Namespace(_) | Self::Done => Err(misfit()),
        }
    }

    pub(super) fn into_done(self) -> Result<(), StoreError> {
        match self {
            // A driver may hand on what a write answered.
            Self::Done | Self::Namespace(_) => Ok(()),
            Self::Failed(error) => Err(error),
            Self::Items(_) => Err(misfit()),
        }
    }
}

fn misfit() -> StoreError {
    StoreError::Unknown {
        message: "the answer does not fit the question".to_owned(),
    }
}

/// Whether the server does not offer the call at all (405, or 404 where no object was named).
///
/// # Upstream
/// Resources that only exist for a subresource answer 404 where 405 would be right (kubernetes #22413).
pub(super) const fn is_unsupported(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NotFound
            | StoreError::NoMapping { .. }
            | StoreError::NotSupported { .. }
            | StoreError::Refused { code: 405, .. }
    )
}
