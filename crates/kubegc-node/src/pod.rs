//! The pod states in which the content or the runtime state of a pod can be removed
//! ([N2.60](crate::rules#n2-60) to [N2.63](crate::rules#n2-63)).

use kubegc_core::{
    Uid,
    node_facts::{PodState, Pods},
};

use crate::semantics::{Semantics, behavior};

names! {
    /// A pod state in which dead containers, sandboxes and logs of the pod can be removed, as in "its pod
    /// is ...".
    #[non_exhaustive]
    pub enum RemovableState {
        Evicted = "evicted";
        /// The pod is deleted, and none of its containers is running.
        Deleted = "deleted and terminated";
        /// The pod has terminated, and the node is under pressure.
        Terminated = "terminated";
        /// The pod is in no pod source, so it no longer exists.
        Unknown = "unknown to the kubelet";
    }
}

/// Returns the state if the content of the pod can be removed. Upstream: `ShouldPodContentBeRemoved` of the
/// pod workers; up to 1.21 `IsPodDeleted`.
pub fn content_removable(pods: &Pods, uid: &Uid, semantics: &Semantics) -> Option<RemovableState> {
    content_removable_at(pods, pods.known.get(uid).copied(), semantics)
}

/// [`content_removable`] with the pod's state instead of its uid; `None`: the pod is unknown.
pub(crate) fn content_removable_at(
    pods: &Pods,
    state: Option<PodState>,
    semantics: &Semantics,
) -> Option<RemovableState> {
    match state {
        Some(PodState { evicted: true, .. }) => Some(RemovableState::Evicted),
        Some(PodState {
            deleted: true,
            terminated: true,
            ..
        }) => Some(RemovableState::Deleted),
        Some(_) => None,
        None => unknown_removable(pods, semantics),
    }
}

/// Returns the state if the runtime state of the pod can be removed. Upstream: `ShouldPodRuntimeBeRemoved` of
/// the pod workers; up to 1.21 `IsPodTerminated`.
pub fn runtime_removable(pods: &Pods, uid: &Uid, semantics: &Semantics) -> Option<RemovableState> {
    runtime_removable_at(pods, pods.known.get(uid).copied(), semantics)
}

/// [`runtime_removable`] with the pod's state instead of its uid; `None`: the pod is unknown.
pub(crate) fn runtime_removable_at(
    pods: &Pods,
    state: Option<PodState>,
    semantics: &Semantics,
) -> Option<RemovableState> {
    match state {
        Some(PodState { terminated: true, .. }) => Some(RemovableState::Terminated),
        Some(_) => None,
        None => unknown_removable(pods, semantics),
    }
}

/// An unknown pod can be removed once the pod workers have synced. Kubelets up to 1.21 have no pod workers
/// and do not wait; this function waits at least until all pod sources are ready, because no pod is known
/// before that.
fn unknown_removable(pods: &Pods, semantics: &Semantics) -> Option<RemovableState> {
    let is_removable =
        pods.synced || (pods.sources_ready && !semantics.version.has(behavior::UNKNOWN_PODS_AWAIT_SYNC));
    is_removable.then_some(RemovableState::Unknown)
}
