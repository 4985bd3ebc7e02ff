//! Pod sources based on running containers and sandboxes: as the only source, or in addition to a source that
//! can be outdated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use kubegc_core::{
    PodSource, Runtime, RuntimeError, Timestamp, Uid,
    node_facts::{Container, ContainerState, PodState, Pods, Sandbox, SandboxState},
};

/// The error if no pod is running.
const NO_RUNNING_POD: &str = "no pod is running: no sandbox is ready, and all containers have exited; \
    the runtime may be the wrong one, or the machine may have just booted";

/// A pod source for nodes without another source: it derives the pods from the runtime. A pod exists if and
/// only if it is running.
///
/// A pod is running if it has a ready sandbox, or a container that has not exited: running, created, or in an
/// unknown state. Pods are identified by their sandboxes and containers. So a container without labels in a
/// ready sandbox belongs to the pod of the sandbox.
///
/// # Guarantees
/// If a listing fails, the source fails, and no pod counts as removed. Of a pod with a ready sandbox, only
/// dead containers and sandboxes that are not ready are removed, by the limits for existing pods.
///
/// **If no pod is running, the source fails.** That happens if the machine has two runtimes and this is the
/// wrong one, or if the machine has just booted. The error names both causes.
///
/// A pod that starts during the listings is not removed. Containers are listed first, sandboxes second. A
/// sandbox that is created between the two is ready in the second listing. A container that is created after
/// the first listing belongs to a ready sandbox. Objects that are created after both listings are not in the
/// listings of the driver, because it reads the pods last. It reads the pods again before it removes a log
/// directory.
///
/// # Assumptions
/// **A pod that is not running counts as removed. Its dead containers, its sandboxes and its logs are
/// removed.** This applies to
/// - a completed pod: `kubectl logs` of a finished Job fails afterwards;
/// - a pod whose sandbox exited and is not created again yet: the kubelet starts its containers again, but
///   their old logs and restart counts are lost;
/// - after a boot, every pod whose sandbox is not created again yet, once another pod is running;
/// - a new pod whose log directory exists and whose sandbox does not exist yet: the kubelet creates the
///   directory again for each container.
///
/// A container that was created and never started keeps its pod, until a limit removes it. To keep pods that
/// are not running, use another source: the API server, a list in a file, or static manifests.
///
/// # Complexity
/// Two CRI requests, and `O(n log n)` for `n` containers and sandboxes.
#[derive(Clone)]
pub struct ReadySandboxes {
    runtime: Arc<dyn Runtime>,
}

impl ReadySandboxes {
    /// Creates a source of the pods that are running in this runtime.
    #[must_use]
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime }
    }
}

#[async_trait]
impl PodSource for ReadySandboxes {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let mut pods = Pods {
            known: BTreeMap::new(),
            sources_ready: true,
            synced: true,
        };
        add_running_pods(&mut pods, &*self.runtime).await?;
        if pods.known.is_empty() {
            return Err(RuntimeError::refused(NO_RUNNING_POD));
        }
        Ok(pods)
    }
}

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
    #[must_use]
    pub fn new(source: S, runtime: Arc<dyn Runtime>) -> Self {
        Self { source, runtime }
    }
}

#[async_trait]
impl<S: PodSource> PodSource for WithRunning<S> {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let mut pods = self.source.pods().await?;
        add_running_pods(&mut pods, &*self.runtime).await?;
        Ok(pods)
    }
}

async fn add_running_pods(pods: &mut Pods, runtime: &dyn Runtime) -> Result<(), RuntimeError> {
    // In this order: a sandbox that is created between the listings is ready in the second, and a container
    // that is created between them belongs to a ready sandbox.
    let containers = runtime.containers().await?;
    let sandboxes = runtime.sandboxes().await?;
    add_running(pods, &containers, &sandboxes);
    Ok(())
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
