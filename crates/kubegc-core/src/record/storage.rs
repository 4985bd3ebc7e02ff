//! Fields of persistent volumes and claims.

use std::sync::Arc;

use super::Field;
use crate::Uid;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PersistentVolume {
    /// `status.phase`; empty if unset.
    pub phase: Field<Arc<str>>,
    /// `spec.persistentVolumeReclaimPolicy`: `Retain`, `Delete`, `Recycle`, or any other string.
    pub reclaim_policy: Field<Arc<str>>,
    /// `spec.claimRef`.
    pub claim_ref: Field<Option<ClaimRef>>,
    /// `spec.volumeMode`; `None` means `Filesystem`.
    pub volume_mode: Field<Option<Arc<str>>>,
    pub annotations: Field<VolumeAnnotations>,
    /// `spec.volumeAttributesClassName`; empty if unset.
    pub attributes_class: Field<Arc<str>>,
    pub source: Field<PersistentVolumeSource>,
}

/// The volume source of a PersistentVolume: the field of `spec` with the location of its storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PersistentVolumeSource {
    /// No known field is set.
    #[default]
    None,
    /// `spec.csi`.
    Csi {
        driver: Arc<str>,
        /// `volumeHandle`.
        handle: Arc<str>,
    },
    /// `spec.hostPath`.
    HostPath { path: Arc<str> },
    /// Another field of `spec`, by name.
    Other(&'static str),
}

impl PersistentVolumeSource {
    /// The name of the field; empty if none is set.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::None => "",
            Self::Csi { .. } => "csi",
            Self::HostPath { .. } => "hostPath",
            Self::Other(field) => field,
        }
    }

    /// The name of a CSI volume in `status.volumesInUse` of a Node; `None` for other volumes.
    pub fn csi_name(&self) -> Option<String> {
        match self {
            Self::Csi { driver, handle } => Some(format!("kubernetes.io/csi/{driver}^{handle}")),
            _ => None,
        }
    }
}

/// The annotations of a PersistentVolume that controllers read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeAnnotations {
    /// `pv.kubernetes.io/provisioned-by`; `None` for volumes that no provisioner created.
    pub provisioned_by: Option<Arc<str>>,
    /// Whether `pv.kubernetes.io/bound-by-controller` is set.
    pub bound_by_controller: bool,
    /// `pv.kubernetes.io/migrated-to`.
    pub migrated_to: Option<Arc<str>>,
}

/// `spec.claimRef` of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{namespace}/{name}")]
pub struct ClaimRef {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Uid of the claim; empty if the volume is reserved for any claim of that name.
    pub uid: Uid,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PersistentVolumeClaim {
    /// `spec.volumeName`; empty while the claim is not bound.
    pub volume_name: Field<Arc<str>>,
    /// `spec.volumeMode`; `None` means `Filesystem`.
    pub volume_mode: Field<Option<Arc<str>>>,
    /// `spec.volumeAttributesClassName`, `status.currentVolumeAttributesClassName` and
    /// `status.modifyVolumeStatus.targetVolumeAttributesClassName`, if they are set, sorted, without
    /// duplicates.
    pub attributes_classes: Field<Vec<Arc<str>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeAttachment {
    /// `spec.nodeName`.
    pub node_name: Field<Arc<str>>,
    /// `spec.source.persistentVolumeName`; empty for an inline volume of a pod.
    pub volume_name: Field<Arc<str>>,
}
