//! The pod states in which the content or the runtime state of a pod can be removed
//! ([N2.60](crate::rules#n2-60) to [N2.63](crate::rules#n2-63)).

use kubegc_core::{
    Uid,
    node_facts::{PodState, Pods},
};

use crate::{
    container::Mode,
    semantics::{Semantics, behavior},
};

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

/// Returns the state if the dead containers, sandboxes and logs of the pod can be removed.
///
/// An unknown pod can be removed once the pod workers have synced. Kubelets up to 1.21 have no pod workers
/// and do not wait; this function waits at least until all pod sources are ready, because no pod is known
/// before that.
///
/// # Upstream
/// `ShouldPodContentBeRemoved` of the pod workers, in a forced run also `ShouldPodRuntimeBeRemoved`; up to
/// 1.21 `IsPodDeleted` and `IsPodTerminated`.
pub fn removable(pods: &Pods, uid: &Uid, mode: Mode, semantics: &Semantics) -> Option<RemovableState> {
    match pods.known.get(uid) {
        Some(PodState { evicted: true, .. }) => Some(RemovableState::Evicted),
        Some(PodState {
            deleted: true,
            terminated: true,
            ..
        }) => Some(RemovableState::Deleted),
        Some(PodState { terminated: true, .. }) if mode == Mode::Forced => Some(RemovableState::Terminated),
        Some(_) => None,
        None => {
            let awaits_sync = semantics.version.has(behavior::UNKNOWN_PODS_AWAIT_SYNC);
            let is_removable = pods.synced || (pods.sources_ready && !awaits_sync);
            is_removable.then_some(RemovableState::Unknown)
        }
    }
}
