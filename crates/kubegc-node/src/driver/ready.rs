//! Pod sources based on running containers and sandboxes: alone if there is no other source, or in addition
//! to a source that can be outdated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use kubegc_core::{
    PodSource, Runtime, RuntimeError, Timestamp, Uid,
    node_facts::{Container, ContainerState, PodState, Pods, Sandbox, SandboxState},
};

/// The error if nothing runs.
const NOTHING_RUNS: &str = "nothing runs here, no sandbox is ready and every container has ended: \
    it may be the wrong runtime, or a machine that has just booted";

/// A source for nodes on which only the runtime knows the pods: every pod with something that runs exists,
/// and no other.
///
/// A pod has something that runs if it has a ready sandbox, or a container that has not ended: running,
/// created, or in an unknown state. Pods are identified by sandboxes and containers, so a container without
/// labels in a ready sandbox is protected with it.
///
/// # Guarantees
/// If a listing fails, nothing is known, and no pod counts as removed. Of a pod with a ready sandbox only
/// dead containers and ended sandboxes are removed, within the limits for existing pods.
///
/// **If nothing runs at all, nothing is known:** no sandbox is ready, and every container has ended. The
/// wrong one of two runtimes on a machine shows this, and a machine that has just booted; the error says so.
///
/// A pod that is started during the listings is safe. Containers are listed first and sandboxes second: a
/// sandbox that is created between the two is ready in the second, and a container that is created after the
/// first belongs to such a sandbox. Objects that are created after both are not in the driver's listings,
/// because a driver reads pods after its own listings; and before each log directory that it removes it reads
/// them again.
///
/// # Assumptions
/// **A pod whose sandboxes have all ended counts as removed, and its remains are removed:** its dead
/// containers, its sandboxes, its logs. This applies to
/// - a pod that has completed: `kubectl logs` of a finished job has nothing left to show;
/// - a pod between two sandboxes: a kubelet that creates its sandbox again starts its containers again, but
///   their old logs and restart counts are lost;
/// - after a boot, every pod whose sandbox is not created again yet, as soon as that of another pod is;
/// - a new pod whose log directory exists and whose sandbox does not yet: a kubelet creates the directory
///   again with each container.
///
/// A container that was created and never started keeps its pod, until a limit removes it. Nothing that runs
/// is touched. To keep ended pods use another source: the API server, a list in a file, static manifests.
///
/// # Complexity
/// Two calls, and `O(n log n)` for `n` containers and sandboxes.
#[derive(Clone)]
pub struct ReadySandboxes {
    runtime: Arc<dyn Runtime>,
}

impl ReadySandboxes {
    /// The pods with something that runs in this runtime.
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
            return Err(RuntimeError::refused(NOTHING_RUNS));
        }
        Ok(pods)
    }
}

/// Another source, and the pods that run in addition.
///
/// A kubelet terminates a pod that vanished from all its sources before it forgets it: while something of it
/// runs, it is known. A source that only lists desired pods does not know that. With this wrapper, a pod with
/// something that runs stays known, and has not terminated whatever the source says.
///
/// # Guarantees
/// Pods are only added, and terminations are only reverted: nothing is removed that would be kept without it.
/// If the source or a listing fails, nothing is known.
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
    /// The pods of the source, and those that run in this runtime.
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
    // A sandbox that is created between the two is ready in the second listing; a container that is created
    // then belongs to a ready one.
    let containers = runtime.containers().await?;
    let sandboxes = runtime.sandboxes().await?;
    add_running(pods, &containers, &sandboxes);
    Ok(())
}

/// Adds running pods to the pods of a source: a pod with something that runs exists if the source does not
/// know it, and has not terminated if it does.
///
/// A sandbox counts as running if it is ready, or if a container in it has not ended. A pod counts as running
/// if such a sandbox names it, or a container in such a sandbox, or a container that has not ended. Objects
/// that name no pod belong to the one without uid.
///
/// # Complexity
/// `O(n log n)` for `n` containers and sandboxes.
pub fn add_running(pods: &mut Pods, containers: &[Arc<Container>], sandboxes: &[Arc<Sandbox>]) {
    let has_not_ended = |container: &&Arc<Container>| container.state != ContainerState::Exited;
    let unended: BTreeSet<&Uid> = containers
        .iter()
        .filter(has_not_ended)
        .map(|one| &one.pod.uid)
        .collect();
    let ready = sandboxes
        .iter()
        .filter(|sandbox| sandbox.state == SandboxState::Ready)
        .map(|sandbox| &sandbox.id);
    let held = containers.iter().filter(has_not_ended).map(|one| &one.sandbox_id);
    let running: BTreeSet<&Arc<str>> = ready.chain(held).filter(|id| !id.is_empty()).collect();
    let of_sandboxes = sandboxes
        .iter()
        .filter(|sandbox| running.contains(&sandbox.id))
        .map(|sandbox| &sandbox.pod.uid);
    let of_containers = containers
        .iter()
        .filter(|container| running.contains(&container.sandbox_id))
        .map(|container| &container.pod.uid);
    for uid in unended.into_iter().chain(of_sandboxes).chain(of_containers) {
        let state = pods.known.entry(uid.clone()).or_insert(PodState::ACTIVE);
        state.terminated = false;
    }
}

/// Adds pods that started after a source was read: a pod with a container or sandbox that was created at
/// `since` or later exists if the source does not know it, also if all of it has ended. States that the
/// source knows stay.
///
/// For sources with past data, with `since` as their time or a little before. A pod without containers and
/// sandboxes is not found. Objects that name no pod belong to the one without uid.
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
