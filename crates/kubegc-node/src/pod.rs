//! The states in which the remains of a pod can be removed: its content, or its runtime state
//! ([N2.60](crate::rules#n2-60) to [N2.63](crate::rules#n2-63)).

use kubegc_core::{
    Uid,
    node_facts::{PodState, Pods},
};

use crate::semantics::{Semantics, behavior};

/// The reason why the remains of a pod can be removed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PodEnd {
    /// It was evicted.
    Evicted,
    /// It is deleted, and none of its containers run.
    Deleted,
    /// It has terminated, and the node is under pressure.
    Terminated,
    /// No source of pods knows it.
    Unknown,
}

impl PodEnd {
    /// The reason's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Deleted => "deleted and terminated",
            Self::Terminated => "terminated",
            Self::Unknown => "unknown to the kubelet",
        }
    }
}

/// Returns whether the content of the pod can be removed. Upstream: `ShouldPodContentBeRemoved` of the pod
/// workers, `IsPodDeleted` before them.
#[must_use]
pub fn content_removable(pods: &Pods, uid: &Uid, semantics: &Semantics) -> Option<PodEnd> {
    content_removable_at(pods, pods.known.get(uid).copied(), semantics)
}

/// The same for a pod with a known state.
pub(crate) fn content_removable_at(
    pods: &Pods,
    state: Option<PodState>,
    semantics: &Semantics,
) -> Option<PodEnd> {
    match state {
        Some(PodState { evicted: true, .. }) => Some(PodEnd::Evicted),
        Some(PodState {
            deleted: true,
            terminated: true,
            ..
        }) => Some(PodEnd::Deleted),
        Some(_) => None,
        None => unknown_removable(pods, semantics),
    }
}

/// Returns whether the runtime state of the pod can be removed. Upstream: `ShouldPodRuntimeBeRemoved` of the
/// pod workers, `IsPodTerminated` before them.
#[must_use]
pub fn runtime_removable(pods: &Pods, uid: &Uid, semantics: &Semantics) -> Option<PodEnd> {
    runtime_removable_at(pods, pods.known.get(uid).copied(), semantics)
}

/// The same for a pod with a known state.
pub(crate) fn runtime_removable_at(
    pods: &Pods,
    state: Option<PodState>,
    semantics: &Semantics,
) -> Option<PodEnd> {
    match state {
        Some(PodState { terminated: true, .. }) => Some(PodEnd::Terminated),
        Some(_) => None,
        None => unknown_removable(pods, semantics),
    }
}

/// An unknown pod is garbage after running and desired pods were compared. Kubelets before the pod workers do
/// not wait for that; here they wait at least for the sources, without which no pod is known.
fn unknown_removable(pods: &Pods, semantics: &Semantics) -> Option<PodEnd> {
    let known =
        pods.synced || (pods.sources_ready && !semantics.version.has(behavior::UNKNOWN_PODS_AWAIT_SYNC));
    known.then_some(PodEnd::Unknown)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn n2_60_to_n2_62_states_decide() {
        let uid = Uid::new("p");
        let now = Semantics::default();
        for (evicted, deleted, terminated, content, runtime) in [
            (false, false, false, None, None),
            (false, false, true, None, Some(PodEnd::Terminated)),
            (false, true, false, None, None),
            (false, true, true, Some(PodEnd::Deleted), Some(PodEnd::Terminated)),
            (true, false, false, Some(PodEnd::Evicted), None),
        ] {
            let state = PodState {
                evicted,
                deleted,
                terminated,
            };
            let pods = Pods {
                known: BTreeMap::from([(uid.clone(), state)]),
                ..Pods::default()
            };
            assert_eq!(content_removable(&pods, &uid, &now), content, "{state:?}");
            assert_eq!(runtime_removable(&pods, &uid, &now), runtime, "{state:?}");
        }
    }

    #[test]
    fn n2_61_unknown_pods_wait_for_the_first_comparison() {
        let old = Semantics::new("1.20.2".parse().unwrap_or(kubegc_core::KubernetesVersion::LATEST));
        for (sources_ready, synced, new_removable, old_removable) in [
            (false, false, false, false),
            (true, false, false, true),
            (false, true, true, true),
            (true, true, true, true),
        ] {
            let pods = Pods {
                known: BTreeMap::new(),
                sources_ready,
                synced,
            };
            let removable = |semantics| content_removable(&pods, &Uid::new("p"), semantics).is_some();
            assert_eq!(
                (removable(&Semantics::default()), removable(&old)),
                (new_removable, old_removable)
            );
        }
    }
}
