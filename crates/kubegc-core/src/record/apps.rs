//! Fields of Deployments, ReplicaSets, DaemonSets and ControllerRevisions.

use std::sync::Arc;

use super::{Condition, Field};
use crate::LabelSelector;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deployment {
    /// `spec.revisionHistoryLimit`; the API server defaults it to 10. `None` keeps all.
    pub revision_history_limit: Field<Option<i32>>,
    /// `spec.paused`.
    pub is_paused: Field<bool>,
    /// `spec.replicas`; the API server defaults it to 1.
    pub replicas: Field<i32>,
    /// `spec.selector`. An empty one matches nothing: the API server refuses it.
    pub selector: Field<LabelSelector>,
    /// `spec.strategy`.
    pub strategy: Field<DeploymentStrategy>,
    /// A digest of `spec.template` without the label `pod-template-hash`: equal where the templates are
    /// semantically equal.
    pub template_digest: Field<u64>,
    /// `status.replicas`, `status.updatedReplicas`, `status.availableReplicas`.
    pub status_replicas: Field<[i32; 3]>,
    /// `status.observedGeneration`.
    pub observed_generation: Field<i64>,
    /// The condition `ReplicaFailure` of `status.conditions`, if there is one.
    pub failures: Field<Vec<Condition>>,
}

/// How a Deployment replaces pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeploymentStrategy {
    /// Not a strategy of Kubernetes. The API server never stores such a value.
    #[default]
    Unset,
    /// `Recreate`: all old pods are deleted before new ones are created.
    Recreate,
    /// `RollingUpdate`; the API server defaults both limits to 25 %.
    RollingUpdate {
        /// `rollingUpdate.maxUnavailable`.
        max_unavailable: IntOrPercent,
        /// `rollingUpdate.maxSurge`.
        max_surge: IntOrPercent,
    },
}

/// A number, or a share of `spec.replicas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntOrPercent {
    Int(i32),
    Percent(i32),
}

impl IntOrPercent {
    /// The number for a total; a percentage is rounded up or down.
    pub fn of(self, total: i32, rounds_up: bool) -> i32 {
        match self {
            Self::Int(number) => number,
            Self::Percent(percent) => {
                let hundredths = i64::from(percent) * i64::from(total);
                let rest = i64::from(rounds_up && hundredths.rem_euclid(100) != 0);
                let share = hundredths.div_euclid(100) + rest;
                i32::try_from(share).unwrap_or(i32::MAX)
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplicaSet {
    /// `spec.replicas`; the API server defaults it to 1.
    pub replicas: Field<i32>,
    /// `spec.selector`. An empty one matches nothing: the API server refuses it.
    pub selector: Field<LabelSelector>,
    /// A digest of `spec.template`, as in [`Deployment::template_digest`].
    pub template_digest: Field<u64>,
    /// The annotation `deployment.kubernetes.io/revision`; empty if there is none.
    pub revision: Field<Arc<str>>,
    /// `status.replicas`.
    pub status_replicas: Field<i32>,
    /// `status.availableReplicas`.
    pub available_replicas: Field<i32>,
    /// `status.observedGeneration`.
    pub observed_generation: Field<i64>,
    /// The condition `ReplicaFailure` of `status.conditions`, if there is one.
    pub failures: Field<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DaemonSet {
    /// `spec.selector`. An empty one matches nothing: the API server refuses it.
    pub selector: Field<LabelSelector>,
    /// `spec.revisionHistoryLimit`; the API server defaults it to 10.
    pub revision_history_limit: Field<Option<i32>>,
    /// `status.observedGeneration`.
    pub observed_generation: Field<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ControllerRevision {
    pub revision: Field<i64>,
}
