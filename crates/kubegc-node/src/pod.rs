//! Whether what a pod left on the node may go: its content, or at least what ran.

use kubegc_core::{
    Uid,
    node_facts::{PodState, Pods},
};

use crate::semantics::{Semantics, behavior};

/// Why what a pod left may go.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PodGone {
    /// It was evicted.
    Evicted,
    /// Its deletion was asked for, and nothing of it runs any more.
    Deleted,
    /// It ran to its end, and the node is under pressure.
    Terminated,
    /// No source of pods knows it.
    Unknown,
}

impl PodGone {
    /// The reason's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Deleted => "deleted and terminated",
            Self::Terminated => "terminated",
            Self::Unknown => "no longer known",
        }
    }
}

/// Whether all that belongs to the pod may go. Upstream: `ShouldPodContentBeRemoved` of the pod workers, `IsPodDeleted` before them.
#[must_use]
pub fn content_gone(pods: &Pods, uid: &Uid, semantics: &Semantics) -> Option<PodGone> {
    content_gone_at(pods, pods.known.get(uid).copied(), semantics)
}

/// The same for a pod whose state has been looked up.
pub(crate) fn content_gone_at(
    pods: &Pods,
    state: Option<PodState>,
    semantics: &Semantics,
) -> Option<PodGone> {
    match state {
        Some(PodState { evicted: true, .. }) => Some(PodGone::Evicted),
        Some(PodState {
            deleted: true,
            terminated: true,
            ..
        }) => Some(PodGone::Deleted),
        Some(_) => None,
        None => unknown_gone(pods, semantics),
    }
}

/// Whether what ran of the pod may go. Upstream: `ShouldPodRuntimeBeRemoved` of the pod workers, `IsPodTerminated` before them.
#[must_use]
pub fn runtime_gone(pods: &Pods, uid: &Uid, semantics: &Semantics) -> Option<PodGone> {
    runtime_gone_at(pods, pods.known.get(uid).copied(), semantics)
}

/// The same for a pod whose state has been looked up.
pub(crate) fn runtime_gone_at(
    pods: &Pods,
    state: Option<PodState>,
    semantics: &Semantics,
) -> Option<PodGone> {
    match state {
        Some(PodState { terminated: true, .. }) => Some(PodGone::Terminated),
        Some(_) => None,
        None => unknown_gone(pods, semantics),
    }
}

/// A pod that nobody knows is garbage once what runs was compared with what should. Kubelets before the pod workers did not wait for that;
/// here they wait for the sources at least, without which nothing is known of any pod.
fn unknown_gone(pods: &Pods, semantics: &Semantics) -> Option<PodGone> {
    let known =
        pods.synced || (pods.sources_ready && !semantics.version.has(behavior::UNKNOWN_PODS_AWAIT_SYNC));
    known.then_some(PodGone::Unknown)
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
            (false, false, true, None, Some(PodGone::Terminated)),
            (false, true, false, None, None),
            (
                false,
                true,
                true,
                Some(PodGone::Deleted),
                Some(PodGone::Terminated),
            ),
            (true, false, false, Some(PodGone::Evicted), None),
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
            assert_eq!(content_gone(&pods, &uid, &now), content, "{state:?}");
            assert_eq!(runtime_gone(&pods, &uid, &now), runtime, "{state:?}");
        }
    }

    #[test]
    fn n2_61_unknown_pods_wait_for_the_first_comparison() {
        let old = Semantics::new("1.20.2".parse().unwrap_or(kubegc_core::KubernetesVersion::LATEST));
        for (sources_ready, synced, new_gone, old_gone) in [
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
            let gone = |semantics| content_gone(&pods, &Uid::new("p"), semantics).is_some();
            assert_eq!((gone(&Semantics::default()), gone(&old)), (new_gone, old_gone));
        }
    }
}
