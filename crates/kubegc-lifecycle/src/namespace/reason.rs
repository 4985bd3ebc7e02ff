//! Why something is done to a namespace or its content, or left alone.

use std::{fmt, sync::Arc};

use kubegc_core::Timestamp;

use super::GroupVersionResource;

/// What a plan speaks of: one object of the namespace, or the namespace itself as the resource `namespaces`.
#[expect(
    clippy::exhaustive_structs,
    reason = "an address, and there will not be more of it"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// The resource.
    pub resource: GroupVersionResource,
    /// The object's name.
    pub name: Arc<str>,
}

impl Object {
    pub(super) fn namespace(name: &Arc<str>) -> Self {
        Self {
            resource: GroupVersionResource::new("", "v1", "namespaces"),
            name: Arc::clone(name),
        }
    }
}

/// Why something is done, left alone, or odd.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Done: the deletion of the namespace was asked for and its phase does not show it.
    NamespaceDeleted,
    /// Done: all content of a namespace that is deleted goes.
    NamespaceTerminating,
    /// Done: as above, one by one, because the resource has no deletion of collections.
    CollectionNotSupported,
    /// Done: what the conditions tell is not true any more.
    ConditionsChanged,
    /// Done: nothing is left and nothing went wrong.
    ContentGone,
    /// Kept: nobody asked for the deletion of the namespace.
    NamespaceNotDeleted,
    /// Kept: the namespace has no finalizer left, so its content is not touched.
    NamespaceFinalized,
    /// Kept, for now: the object has finalizers.
    HeldByFinalizers {
        /// The finalizers, in stored order.
        finalizers: Vec<Arc<str>>,
    },
    /// Kept, for now: the pod may take its time to end.
    InGrace {
        /// When it must have ended.
        until: Timestamp,
    },
    /// Kept, for now: pods remain, and nothing else is touched until they are gone.
    PodsGoFirst,
    /// Kept: discovery does not list the resource in a form that can be used.
    NotDiscovered,
    /// Kept: the resource answers no call that deletes.
    NotDeletable,
    /// Kept, for now: the namespace waits for its content.
    ContentRemains {
        /// How long that may take, in seconds.
        estimate_seconds: i64,
    },
    /// Kept, for now: something went wrong or is not known, so the namespace keeps its finalizer.
    VisitFailed {
        /// The error in upstream's words.
        message: String,
    },
    /// Kept: others have finalizers on the namespace.
    OtherFinalizers {
        /// The finalizers, sorted.
        finalizers: Vec<Arc<str>>,
    },
    /// Odd: pods remain, yet the conditions say that everything is gone (kubernetes #138208).
    ConditionsMissPods,
    /// Odd: discovery failed, so there may be content that nobody sees.
    DiscoveryIncomplete {
        /// Discovery's message.
        message: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamespaceDeleted => f.write_str("the namespace was deleted"),
            Self::NamespaceTerminating => f.write_str("the namespace is terminating"),
            Self::CollectionNotSupported => {
                f.write_str("the namespace is terminating, and the resource has no deletion of collections")
            }
            Self::ConditionsChanged => f.write_str("the conditions have changed"),
            Self::ContentGone => f.write_str("nothing is left in the namespace"),
            Self::NamespaceNotDeleted => f.write_str("the namespace is not deleted"),
            Self::NamespaceFinalized => f.write_str("the namespace has no finalizer left"),
            Self::HeldByFinalizers { finalizers } => write!(f, "held by {}", finalizers.join(", ")),
            Self::InGrace { until } => write!(f, "has until {until} to end"),
            Self::PodsGoFirst => f.write_str("waits until all pods are gone"),
            Self::NotDiscovered => f.write_str("its resource was not discovered"),
            Self::NotDeletable => f.write_str("its resource cannot be deleted"),
            Self::ContentRemains { estimate_seconds } => {
                write!(f, "content remains, for an estimated {estimate_seconds} s")
            }
            Self::VisitFailed { message } => write!(f, "the visit failed: {message}"),
            Self::OtherFinalizers { finalizers } => {
                write!(f, "held by the finalizers {} of others", finalizers.join(", "))
            }
            Self::ConditionsMissPods => {
                f.write_str("its conditions say that everything is gone, yet pods remain")
            }
            Self::DiscoveryIncomplete { message } => {
                write!(f, "there may be content that was not discovered: {message}")
            }
        }
    }
}
