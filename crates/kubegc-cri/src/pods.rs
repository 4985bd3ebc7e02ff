//! The pods of a node that has no source but its runtime.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use kubegc_core::{
    PodSource, Runtime, RuntimeError,
    node_facts::{Container, Pods, Sandbox},
};
use kubegc_node::driver::add_running;

/// The error if no pod is running.
const NO_RUNNING_POD: &str = "no pod is running: no sandbox is ready, and all containers have exited; \
    the runtime may be the wrong one, or the machine may have just booted";

/// A pod source for nodes without another source: it derives the pods from the runtime. A pod exists if and
/// only if it is running ([`add_running`]).
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
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime }
    }
}

#[async_trait]
impl PodSource for ReadySandboxes {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let containers = self.runtime.containers().await?;
        let sandboxes = self.runtime.sandboxes().await?;
        running(&containers, &sandboxes)
    }
}

fn running(containers: &[Arc<Container>], sandboxes: &[Arc<Sandbox>]) -> Result<Pods, RuntimeError> {
    let mut pods = Pods {
        known: BTreeMap::new(),
        sources_ready: true,
        synced: true,
    };
    add_running(&mut pods, containers, sandboxes);
    if pods.known.is_empty() {
        return Err(RuntimeError::refused(NO_RUNNING_POD));
    }
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use kubegc_core::{
        Timestamp, Uid,
        node_facts::{ContainerState, PodIdentity, PodState},
    };

    use super::*;

    #[test]
    fn a_runtime_without_running_pods_is_an_error_and_not_an_empty_node() {
        let container = |uid, state| {
            let pod = PodIdentity {
                uid: Uid::new(uid),
                ..PodIdentity::default()
            };
            Arc::new(Container::new("c", pod, "app", state, Timestamp::EPOCH))
        };
        let exited = [container("ended", ContainerState::Exited)];
        for containers in [&[][..], &exited] {
            let error = running(containers, &[]).expect_err("no pod is running");
            assert_eq!(error, RuntimeError::refused(NO_RUNNING_POD));
        }
        let some = [&exited[..], &[container("runs", ContainerState::Running)]].concat();
        let pods = running(&some, &[]).expect("a pod is running");
        assert_eq!(pods.known, [(Uid::new("runs"), PodState::ACTIVE)].into());
        assert!(pods.sources_ready && pods.synced);
    }
}
