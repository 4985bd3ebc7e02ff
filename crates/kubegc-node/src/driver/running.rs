//! The pods that are running in a runtime, in addition to a source that can be outdated.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use kubegc_core::{
    PodSource, Runtime, RuntimeError, Timestamp, Uid,
    node_facts::{Container, ContainerState, PodState, Pods, Sandbox, SandboxState},
};

/// A pod source that adds the running pods to those of another source.
///
/// If a pod is removed from all sources of a kubelet, the pod stays known until it has terminated. A source
/// of desired pods does not list it. With this wrapper a running pod is known and not terminated,
/// independently of the source.
///
/// # Guarantees
/// Pods are only added, and the state `terminated` is only cleared. So every object that is kept with the
/// source alone is kept with the wrapper too. If the source or a listing fails, this source fails.
///
/// # Upstream
/// [`pkg/kubelet/pod_workers.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/pod_workers.go),
/// `SyncKnownPods` (1.22 and later).
#[derive(Clone)]
pub struct WithRunning<S> {
    source: S,
    runtime: Arc<dyn Runtime>,
}

impl<S: PodSource> WithRunning<S> {
    /// Creates a source of the pods of `source` and of those that are running in this runtime.
    pub fn new(source: S, runtime: Arc<dyn Runtime>) -> Self {
        Self { source, runtime }
    }
}

#[async_trait]
impl<S: PodSource> PodSource for WithRunning<S> {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let mut pods = self.source.pods().await?;
        // In this order: a sandbox that is created between the listings is ready in the second, and a
        // container that is created between them belongs to a ready sandbox.
        let containers = self.runtime.containers().await?;
        let sandboxes = self.runtime.sandboxes().await?;
        add_running(&mut pods, &containers, &sandboxes);
        Ok(pods)
    }
}

/// Adds the running pods to the pods of a source. If the source knows a running pod, its state becomes not
/// terminated.
///
/// A sandbox is running if it is ready, or if a container in it has not exited. A pod is running if one of
/// these has its uid: a running sandbox, a container in a running sandbox, or a container that has not
/// exited. Objects without a pod uid belong to the pod with the empty uid.
///
/// # Complexity
/// `O(n log n)` for `n` containers and sandboxes.
pub fn add_running(pods: &mut Pods, containers: &[Arc<Container>], sandboxes: &[Arc<Sandbox>]) {
    let has_not_exited = |container: &&Arc<Container>| container.state != ContainerState::Exited;
    let not_exited: BTreeSet<&Uid> = containers
        .iter()
        .filter(has_not_exited)
        .map(|one| &one.pod.uid)
        .collect();
    let ready = sandboxes
        .iter()
        .filter(|sandbox| sandbox.state == SandboxState::Ready)
        .map(|sandbox| &sandbox.id);
    let with_container = containers
        .iter()
        .filter(has_not_exited)
        .map(|one| &one.sandbox_id);
    let running: BTreeSet<&Arc<str>> = ready.chain(with_container).filter(|id| !id.is_empty()).collect();
    let of_sandboxes = sandboxes
        .iter()
        .filter(|sandbox| running.contains(&sandbox.id))
        .map(|sandbox| &sandbox.pod.uid);
    let of_containers = containers
        .iter()
        .filter(|container| running.contains(&container.sandbox_id))
        .map(|container| &container.pod.uid);
    for uid in not_exited.into_iter().chain(of_sandboxes).chain(of_containers) {
        let state = pods.known.entry(uid.clone()).or_insert(PodState::ACTIVE);
        state.terminated = false;
    }
}

/// Adds pods that started after a source was read: every unknown pod with a container or sandbox that was
/// created at `since` or later, even if all of them have exited. Known pods keep their state.
///
/// For sources with earlier data; `since` is the time of the data, or a little earlier. Pods without
/// containers and sandboxes are not found. Objects without a pod uid belong to the pod with the empty uid.
///
/// # Complexity
/// `O(n log n)` for `n` containers and sandboxes.
pub fn add_created_since(
    pods: &mut Pods,
    containers: &[Arc<Container>],
    sandboxes: &[Arc<Sandbox>],
    since: Timestamp,
) {
    let of_containers = containers.iter().map(|one| (one.created_at, &one.pod.uid));
    let of_sandboxes = sandboxes.iter().map(|one| (one.created_at, &one.pod.uid));
    for (created_at, uid) in of_containers.chain(of_sandboxes) {
        if created_at >= since && !pods.known.contains_key(uid) {
            pods.known.insert(uid.clone(), PodState::ACTIVE);
        }
    }
}
