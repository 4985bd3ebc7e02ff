//! Decides what becomes of volumes and of the claims on them.
//!
//! - [`reclaim`]: what happens to a volume whose claim is gone, by its policy.
//! - [`external`]: the same decision where a provisioner outside of Kubernetes owns the volume.
//! - [`protection`]: the finalizers that keep claims and volumes while they are in use.

pub mod external;
mod facts;
pub mod protection;
pub mod reclaim;

pub use facts::{
    Annotations, Claim, ClaimRef, Holder, Migration, Phase, Pod, PodVolume, Policy, Source, Volume,
};

/// The finalizer by which the volume controller keeps a volume until what is behind it is deleted.
pub const FINALIZER_IN_TREE: &str = "kubernetes.io/pv-controller";
/// The finalizer by which an external provisioner does the same.
pub const FINALIZER_EXTERNAL: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The finalizer that keeps a volume while it is bound.
pub const FINALIZER_VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// The finalizer that keeps a claim while a pod uses it.
pub const FINALIZER_CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The annotation that names who provisioned a volume.
pub const ANNOTATION_PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation of volumes that the controller, not a person, bound to a claim.
pub const ANNOTATION_BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation that names the driver that has taken a volume over from the code within Kubernetes.
pub const ANNOTATION_MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// What the names of provisioners within Kubernetes begin with.
pub const IN_TREE_PREFIX: &str = "kubernetes.io/";
