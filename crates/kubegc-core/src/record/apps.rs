//! Fields of Deployments, ReplicaSets, DaemonSets and ControllerRevisions.

use std::sync::Arc;

use super::Field;

/// Fields of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deployment {
    /// `spec.revisionHistoryLimit`; the API server defaults it to 10. `None` keeps all.
    pub revision_history_limit: Field<Option<i32>>,
    /// `spec.paused`.
    pub is_paused: Field<bool>,
    /// `spec.replicas`; the API server defaults it to 1.
    pub replicas: Field<i32>,
    /// A digest of `spec.template` without the label `pod-template-hash`: equal where the templates are
    /// semantically equal.
    pub template_digest: Field<u64>,
    /// `status.replicas`, `status.updatedReplicas`, `status.availableReplicas`.
    pub status_replicas: Field<[i32; 3]>,
    /// `status.observedGeneration`.
    pub observed_generation: Field<i64>,
}

/// Fields of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplicaSet {
    /// `spec.replicas`; the API server defaults it to 1.
    pub replicas: Field<i32>,
    /// A digest of `spec.template`, as in [`Deployment::template_digest`].
    pub template_digest: Field<u64>,
    /// The annotation `deployment.kubernetes.io/revision`; empty where there is none.
    pub revision: Field<Arc<str>>,
    /// `status.replicas`.
    pub status_replicas: Field<i32>,
    /// `status.observedGeneration`.
    pub observed_generation: Field<i64>,
}

/// Fields of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DaemonSet {
    /// `spec.revisionHistoryLimit`; the API server defaults it to 10.
    pub revision_history_limit: Field<Option<i32>>,
    /// `status.observedGeneration`.
    pub observed_generation: Field<i64>,
}

/// Fields of a ControllerRevision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ControllerRevision {
    /// `revision`.
    pub revision: Field<i64>,
}
