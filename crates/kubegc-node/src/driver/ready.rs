//! Decides which pods live by what runs of them: alone, where nobody else can say, or beside a source that may be behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use kubegc_core::{
    PodSource, Runtime, RuntimeError, Timestamp, Uid,
    node_facts::{Container, ContainerState, PodState, Pods, Sandbox, SandboxState},
};

/// Why nothing is known where nothing runs.
const NOTHING_RUNS: &str = "nothing runs here, no sandbox is ready and every container has ended: \
    it may be the wrong runtime, or a machine that has just booted";

/// A source for nodes on which nobody but the runtime knows the pods: every pod of which something runs lives, and every other is gone.
///
/// Something runs of a pod that has a ready sandbox, or a container that has not ended: running, created, or in a state that is not known. Pods are taken as
/// sandboxes and containers name them, so a container without labels in a ready sandbox is protected with it.
///
/// # Guarantees
/// Where a listing fails, nothing is known, and nothing counts as gone. Nothing of a pod with a ready sandbox goes but dead containers and ended sandboxes, as the
/// limits for living pods have it.
///
/// **Where nothing runs at all, nothing is known:** no sandbox is ready, and every container has ended. That is what the wrong runtime of two on a machine shows, and a
/// machine that has just booted; the error says so.
///
/// A pod that is started while the runtime is asked is safe. Containers are listed first and sandboxes then: a sandbox that is made between the two shows itself as
/// ready in the second, and a container that is made after the first stands in such a sandbox. What is made after both has nothing in the driver's listings, for a driver
/// asks for pods after its own; and before each log directory that it removes it asks again.
///
/// # Assumptions
/// **A pod whose sandboxes have all ended counts as gone, and what it left goes:** its dead containers, its sandboxes, its logs. That is so for
/// - a pod that ran to its end: `kubectl logs` of a finished job has nothing to show any more;
/// - a pod between two sandboxes: a kubelet that makes its sandbox anew starts its containers anew too, but what the old ones wrote and how often they were
///   restarted is lost;
/// - after a boot, every pod whose sandbox is not made again yet, as soon as that of another pod is;
/// - a new pod whose log directory is there and whose sandbox is not yet: a kubelet makes the directory anew with each container.
///
/// A container that was created and never started holds its pod alive, until a limit removes it. Nothing that runs is touched in any case. Who wants to keep what ended takes another source: the API server, a list in a file, static manifests.
///
/// # Complexity
/// Two calls, and `O(n log n)` for `n` containers and sandboxes.
#[derive(Clone)]
pub struct ReadySandboxes {
    runtime: Arc<dyn Runtime>,
}

impl ReadySandboxes {
    /// The pods of which something runs in this runtime.
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
        add_what_runs(&mut pods, &*self.runtime).await?;
        if pods.known.is_empty() {
            return Err(RuntimeError::refused(NOTHING_RUNS));
        }
        Ok(pods)
    }
}

/// Another source, and what runs beside it.
///
/// A kubelet ends a pod that vanished from all its sources before it forgets it: as long as something of it runs, it is known. A source that only lists what should
/// be does not know that. With this around it, a pod of which something runs stays known, and has not ended whatever the source says.
///
/// # Guarantees
/// Only pods are added, and only ends are taken back: nothing goes that would stay without it. Where the source or a listing fails, nothing is known.
///
/// # Upstream
/// `pkg/kubelet/pod_workers.go`, `SyncKnownPods` (1.22 and later).
#[derive(Clone)]
pub struct WithRunning<S> {
    source: S,
    runtime: Arc<dyn Runtime>,
}

impl<S: PodSource> WithRunning<S> {
    /// What the source says, and what runs in this runtime.
    #[must_use]
    pub fn new(source: S, runtime: Arc<dyn Runtime>) -> Self {
        Self { source, runtime }
    }
}

#[async_trait]
impl<S: PodSource> PodSource for WithRunning<S> {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let mut pods = self.source.pods().await?;
        add_what_runs(&mut pods, &*self.runtime).await?;
        Ok(pods)
    }
}

async fn add_what_runs(pods: &mut Pods, runtime: &dyn Runtime) -> Result<(), RuntimeError> {
    // A sandbox that is made between the two is ready in the second listing; a container that is made then stands in one that is.
    let containers = runtime.containers().await?;
    let sandboxes = runtime.sandboxes().await?;
    add_running(pods, &containers, &sandboxes);
    Ok(())
}

/// Adds what runs to what a source knows: a pod of which something runs is living where the source does not know it, and not ended where it does.
///
/// A sandbox counts as running if it is ready, or if a container in it has not ended. A pod counts as running if such a sandbox names it, or a container in such a
/// sandbox, or a container that has not ended. What names no pod belongs to that without uid.
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
        let state = pods.known.entry(uid.clone()).or_insert(PodState::LIVING);
        state.terminated = false;
    }
}

/// Adds what began after a source was asked: a pod with a container or sandbox that was created at `since` or later is living where the source does not know it, also
/// if all of it has ended. States that the source knows stay.
///
/// For sources that tell what was so some time ago, `since` being that time or a little before. A pod that has neither a container nor a sandbox does not show here. What
/// names no pod belongs to that without uid.
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
            pods.known.insert(uid.clone(), PodState::LIVING);
        }
    }
}
