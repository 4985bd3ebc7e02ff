//! Why something is done to a volume, or why it stays.

use std::{fmt, sync::Arc};

use super::super::{ClaimRef, Holder, Phase, Volume};

/// Why something is done to a volume, or why it stays.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Done: its finalizers or the note of its migration are not as they should be.
    MetadataUnfit,
    /// Done and kept: it is nobody's, or only reserved for a claim by name.
    Unclaimed,
    /// Done: its claim does not exist any more.
    ClaimGone {
        /// The claim.
        claim: ClaimRef,
    },
    /// Done: its claim is bound to another volume.
    ClaimBoundElsewhere {
        /// The claim.
        claim: ClaimRef,
        /// The other volume.
        volume: Arc<str>,
    },
    /// Done and kept: its claim is bound to it.
    Bound {
        /// The claim.
        claim: ClaimRef,
    },
    /// Done: what was behind it is deleted.
    StorageDeleted,
    /// Done and kept: it was emptied and is free again.
    Recycled,
    /// Done and kept, for now: the plugin could not do its work.
    PluginFailed {
        /// The message that the volume's status shows.
        message: String,
    },
    /// Done and kept, for now: what is behind it is still in use.
    StorageInUse {
        /// The plugin's message.
        message: String,
    },
    /// Done and kept, for now: pods still use it.
    UsedByPods {
        /// The pods, sorted.
        pods: Vec<Arc<str>>,
    },
    /// Done and kept: nobody knows this policy.
    PolicyUnrecognized {
        /// Its text.
        policy: Arc<str>,
    },
    /// Kept: its claim is not bound yet.
    ClaimPending {
        /// The claim.
        claim: ClaimRef,
    },
    /// Kept: its claim is not bound and cannot be, because their volume modes differ.
    ModeMismatch {
        /// The claim.
        claim: ClaimRef,
    },
    /// Kept: its policy is to retain it.
    Retained,
    /// Kept: a driver has taken it over, and the driver's provisioner decides.
    Migrated {
        /// The driver.
        driver: Arc<str>,
    },
    /// Kept: its provisioner is not within Kubernetes and must delete it.
    WaitsForProvisioner,
    /// Kept: read right before its deletion, it belongs to a claim, or to nobody.
    NotReleased,
    /// Kept, for now: it was read again right before the deletion and is not what it was: another uid, claim or policy.
    Changed,
    /// Kept: it is being deleted, and this release does not reclaim such volumes.
    BeingDeleted,
    /// Kept, for now: whether its claim exists must be read right before.
    ClaimNotRead,
    /// Kept, for now: the volume itself must be read right before.
    VolumeNotRead,
    /// Kept, for now: a read failed.
    ReadFailed {
        /// The error.
        message: String,
    },
    /// Kept, for now: a write failed.
    WriteFailed {
        /// The error.
        message: String,
    },
    /// Kept: it is being deleted, and the API server lets nobody add a finalizer to it any more, so every look at it fails.
    FinalizerForbidden,
    /// Kept: it is listed twice, and not alike.
    ListedTwice,
    /// Kept, for now: its own uid or version, or its claim's uid, was not read.
    IdentityUnknown,
    /// Kept: whose it is was not read.
    ClaimRefUnknown,
    /// Kept: its annotations were not read.
    AnnotationsUnknown,
    /// Kept: its phase was not read.
    PhaseUnknown,
    /// Kept: its policy was not read.
    PolicyUnknown,
    /// Kept: whether its provisioner's volumes are handed over to a driver is not known.
    MigrationUnknown,
    /// Kept: whether there is a plugin for it is not known.
    PluginUnknown,
    /// Kept: whether pods use it is not known.
    PodsUnknown {
        /// Why not.
        message: String,
    },
}

impl Reason {
    /// What was not read of a volume, though decisions rest on it.
    pub(super) const fn unread(volume: &Volume) -> Option<Self> {
        match (&volume.phase, &volume.claim_ref, &volume.annotations) {
            (Phase::Unknown, _, _) => Some(Self::PhaseUnknown),
            (_, Holder::Unknown, _) => Some(Self::ClaimRefUnknown),
            (_, _, None) => Some(Self::AnnotationsUnknown),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MetadataUnfit => f.write_str("its finalizers or annotations do not fit its policy"),
            Self::Unclaimed => f.write_str("no claim holds it"),
            Self::ClaimGone { claim } => write!(f, "claim {claim} is gone"),
            Self::ClaimBoundElsewhere { claim, volume } => {
                write!(f, "claim {claim} is bound to volume {volume}")
            }
            Self::Bound { claim } => write!(f, "bound to claim {claim}"),
            Self::StorageDeleted => f.write_str("what was behind it is deleted"),
            Self::Recycled => f.write_str("it was emptied"),
            Self::PluginFailed { message } => write!(f, "its plugin failed: {message}"),
            Self::StorageInUse { message } => write!(f, "what is behind it is in use: {message}"),
            Self::UsedByPods { pods } => write!(f, "used by pods {}", pods.join(", ")),
            Self::PolicyUnrecognized { policy } => write!(f, "nobody knows the reclaim policy {policy:?}"),
            Self::ClaimPending { claim } => write!(f, "claim {claim} is not bound yet"),
            Self::ModeMismatch { claim } => write!(f, "claim {claim} asks for another volume mode"),
            Self::Retained => f.write_str("its policy is to retain it"),
            Self::Migrated { driver } => write!(f, "driver {driver} has taken it over"),
            Self::WaitsForProvisioner => f.write_str("waits for its provisioner to delete it"),
            Self::NotReleased => f.write_str("it is not released any more"),
            Self::Changed => f.write_str("it has changed since it was listed"),
            Self::BeingDeleted => f.write_str("it is being deleted already"),
            Self::ClaimNotRead => f.write_str("whether its claim exists must be read first"),
            Self::VolumeNotRead => f.write_str("it must be read again first"),
            Self::ReadFailed { message } => write!(f, "could not be read: {message}"),
            Self::WriteFailed { message } => write!(f, "could not be written: {message}"),
            Self::FinalizerForbidden => {
                f.write_str("it is being deleted, so its missing finalizer cannot be added")
            }
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::IdentityUnknown => f.write_str("its uid or version, or the uid of its claim, is not known"),
            Self::ClaimRefUnknown => f.write_str("whose it is is not known"),
            Self::AnnotationsUnknown => f.write_str("its annotations are not known"),
            Self::PhaseUnknown => f.write_str("its phase is not known"),
            Self::PolicyUnknown => f.write_str("its reclaim policy is not known"),
            Self::MigrationUnknown => {
                f.write_str("whether a driver has taken over its provisioner's volumes is not known")
            }
            Self::PluginUnknown => f.write_str("whether it has a plugin is not known"),
            Self::PodsUnknown { message } => write!(f, "whether pods use it is not known: {message}"),
        }
    }
}
