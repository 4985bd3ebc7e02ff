//! Why a claim gets or loses an owner, or neither.

use std::{fmt, sync::Arc};

use crate::object::Object;

/// Why a claim gets or loses an owner, or neither, or what is odd about a set.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Done: its owners are not those that the set's policy wants.
    OwnersUnfit {
        /// The set.
        set: Object,
        /// The pod.
        pod: Arc<str>,
    },
    /// Done and kept: somebody else controls it.
    ForeignController,
    /// Done: beside its set or pod it names a former one of that name. Both references go, and the right one comes back at the next plan.
    FormerOwner,
    /// Kept, with all claims of its pod: reading this claim failed. The text is upstream's.
    ClaimUnread {
        /// The claim that could not be read.
        claim: Arc<str>,
        /// The pod.
        pod: Arc<str>,
        /// The error.
        message: Arc<str>,
    },
    /// Kept: its uid or version, or the uid of its set or pod, was not read.
    IdentityUnknown,
    /// Kept: the retention policy of its set was not read.
    PolicyUnknown,
    /// Kept: the first ordinal of its set was not read.
    FirstOrdinalUnknown,
    /// Kept: its owners are those that the set's policy wants.
    UpToDate,
    /// Kept: it belongs to a former set or pod of the same name, and waits for its collection.
    Stale,
    /// Kept: it has a reference with the uid of its set or pod under another name, which nothing here takes away.
    Stuck,
    /// Kept: there is no pod whose claim it is.
    NoPod,
    /// Kept: it waits for its collection, and until then the pod of its ordinal is not created.
    BlocksCreation {
        /// The pod.
        pod: Arc<str>,
    },
    /// Kept: no set has a template for it.
    NotOfASet,
    /// Kept: its set is being deleted, and nothing is done for such sets any more.
    SetBeingDeleted,
    /// Kept: how many replicas its set should have was not read.
    ReplicasUnknown,
    /// Kept: the pods are not known.
    PodsUnknown {
        /// Why not.
        message: String,
    },
    /// Kept, of a set: the claims are not known.
    ClaimsUnknown {
        /// Why not.
        message: String,
    },
    /// Kept: there are two pods of its pod's name.
    PodListedTwice,
    /// Kept, or odd: it is listed twice, and not alike.
    ListedTwice,
    /// Kept: this release does not follow the policy.
    PolicyNotFollowed,
    /// Odd, of a set: nobody knows its policy, so it counts as Retain.
    PolicyUnrecognized {
        /// The text that nobody knows.
        text: Arc<str>,
    },
    /// Odd, of a claim: another set has a template for it, too, and is passed over.
    ClaimShared {
        /// The set that is passed over.
        set: Object,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnersUnfit { set, pod } => {
                write!(f, "its owners do not fit the policy of {set} for pod {pod}")
            }
            Self::ForeignController => f.write_str("somebody else controls it"),
            Self::FormerOwner => f.write_str("it names a former set or pod beside the present one"),
            Self::ClaimUnread { claim, pod, message } => write!(
                f,
                "Could not retrieve claim {claim} not found for {pod} when checking PVC deletion policy: {message}"
            ),
            Self::IdentityUnknown => {
                f.write_str("its uid or version, or the uid of its set or pod, is not known")
            }
            Self::PolicyUnknown => f.write_str("the retention policy of its set is not known"),
            Self::FirstOrdinalUnknown => f.write_str("the first ordinal of its set is not known"),
            Self::UpToDate => f.write_str("its owners are as they should be"),
            Self::Stale => f.write_str("it belongs to a former set or pod"),
            Self::Stuck => f.write_str("a reference under another name has the uid of its set or pod"),
            Self::NoPod => f.write_str("its pod does not exist"),
            Self::BlocksCreation { pod } => write!(f, "waits for its collection, and pod {pod} for that"),
            Self::NotOfASet => f.write_str("it belongs to no stateful set"),
            Self::SetBeingDeleted => f.write_str("its set is being deleted"),
            Self::ReplicasUnknown => f.write_str("the number of replicas of its set is not known"),
            Self::PodsUnknown { message } => write!(f, "pods are not known: {message}"),
            Self::ClaimsUnknown { message } => write!(f, "claims are not known: {message}"),
            Self::PodListedTwice => f.write_str("its pod is listed twice"),
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::PolicyNotFollowed => f.write_str("this release does not follow the retention policy"),
            Self::PolicyUnrecognized { text } => {
                write!(
                    f,
                    "nobody knows the retention policy {text:?}, which counts as Retain"
                )
            }
            Self::ClaimShared { set } => write!(f, "{set} has a template for it, too"),
        }
    }
}
