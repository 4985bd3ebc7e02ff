//! Fields of pods and of resource claims.

use std::sync::Arc;

use super::{Condition, Field};
use crate::{Timestamp, Uid};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pod {
    /// `spec.nodeName`; empty while the pod is not scheduled.
    pub node_name: Field<Arc<str>>,
    /// `status.phase`; empty if unset.
    pub phase: Field<Arc<str>>,
    /// `status.reason`, such as `Evicted`; empty if unset.
    pub reason: Field<Arc<str>>,
    /// Whether every entry of `status.containerStatuses` is waiting or terminated; true if there is none.
    /// Readers may set the default `false` for a pod that is not being deleted.
    pub containers_stopped: Field<bool>,
    /// `status.conditions`. Readers may omit all but those of type `DisruptionTarget`.
    pub conditions: Field<Vec<Condition>>,
    /// `spec.volumes`. Readers may omit volumes without a claim.
    pub volumes: Field<Vec<PodVolume>>,
    /// Every name of a Secret that the pod references, sorted, without duplicates.
    pub secrets: Field<Vec<Arc<str>>>,
    /// `spec.terminationGracePeriodSeconds`; `None` if unset.
    pub termination_grace_period_seconds: Field<Option<i64>>,
    /// `spec.tolerations`.
    pub tolerations: Field<Vec<Toleration>>,
    /// The annotation `batch.kubernetes.io/job-completion-index`; `None` if it is not a number.
    pub completion_index: Field<Option<i32>>,
    /// The annotation `batch.kubernetes.io/job-index-failure-count`; 0 if it is missing or not a number.
    pub index_failure_count: Field<i32>,
    /// The sum of `restartCount` in `status.initContainerStatuses` and `status.containerStatuses`.
    pub restart_count: Field<i64>,
    /// The greatest `restartCount` in `status.containerStatuses`.
    pub restart_count_max: Field<i64>,
    /// The time when the condition `Ready` became true; `None` if it is not true, [`Timestamp::EPOCH`] where
    /// it has no time.
    pub ready_at: Field<Option<Timestamp>>,
    /// The annotation `controller.kubernetes.io/pod-deletion-cost`; 0 if it is missing or not a number.
    pub deletion_cost: Field<i32>,
    /// `spec.schedulingGroup.podGroupName`; empty if unset.
    pub pod_group: Field<Arc<str>>,
}

impl Pod {
    /// Whether the phase is `Succeeded` or `Failed`; `None` if it was not read.
    pub fn has_final_phase(&self) -> Option<bool> {
        let phase = self.phase.known()?;
        Some(matches!(&**phase, "Succeeded" | "Failed"))
    }
}

/// An entry of `spec.volumes` of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodVolume {
    pub name: Arc<str>,
    pub source: VolumeSource,
}

impl PodVolume {
    /// The name of the claim that the volume uses in a pod of this name; `None` if there is none.
    pub fn claim_name(&self, pod_name: &str) -> Option<Arc<str>> {
        match &self.source {
            VolumeSource::Claim(name) => Some(Arc::clone(name)),
            VolumeSource::Ephemeral => Some(format!("{pod_name}-{}", self.name).into()),
            VolumeSource::Other => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VolumeSource {
    /// `persistentVolumeClaim`: the claim of this name.
    Claim(Arc<str>),
    /// `ephemeral`: the claim `<pod>-<volume>`, which the pod owns.
    Ephemeral,
    /// Any other source: no claim.
    Other,
}

/// An entry of `spec.tolerations` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toleration {
    /// `key`; empty matches every key where the operator is `Exists`.
    pub key: Arc<str>,
    /// `operator`; empty means `Equal`.
    pub operator: Arc<str>,
    pub value: Arc<str>,
    /// `effect`; empty matches every effect.
    pub effect: Arc<str>,
    /// `tolerationSeconds`; `None` tolerates forever.
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceClaim {
    /// `status.reservedFor`.
    pub reserved_for: Field<Vec<Consumer>>,
    /// Whether `status.allocation` is set.
    pub is_allocated: Field<bool>,
    /// `spec.allocationMode` of releases before 1.31: `WaitForFirstConsumer` or `Immediate`; empty if unset.
    pub allocation_mode: Field<Arc<str>>,
}

/// An entry of `status.reservedFor` of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Consumer {
    /// `apiGroup`; empty for the core group.
    pub api_group: Arc<str>,
    /// `resource`, such as `pods`.
    pub resource: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
}
