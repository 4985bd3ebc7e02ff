//! Faults between a node collector and its runtime: refused calls, lost responses, a runtime that stops.

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, PodSource, Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox},
};
use parking_lot::Mutex;

use super::Operation;
use crate::fault::script::{Script, Turn};

/// The fault of one call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The call fails with an error and is not performed.
    Refuse(RuntimeError),
    /// The call is performed and its response is lost: the caller gets [`RuntimeError::Unknown`].
    LoseResponse,
    /// The status of a container is returned without content. Other calls succeed.
    EmptyStatus,
    /// The call is performed, its response is lost, and the runtime stops: every call fails until it is
    /// [revived](FaultyRuntime::revive).
    Die,
}

/// One rule of a script. It skips some matching calls and then injects a fault into some.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Matching operations; `None` means all.
    pub operation: Option<Operation>,
    /// Their target: an id, reference, entry or path; `None` means all.
    pub target: Option<Arc<str>>,
    /// Number of matching calls without a fault before the first one.
    pub skip: u32,
    /// Number of calls that then get the fault.
    pub times: u32,
    pub fault: Fault,
}

impl Rule {
    /// A rule that injects a fault into all calls of an operation.
    #[must_use]
    pub const fn always(operation: Operation, fault: Fault) -> Self {
        Self {
            operation: Some(operation),
            target: None,
            skip: 0,
            times: u32::MAX,
            fault,
        }
    }

    /// The same rule, only for calls with this id, reference, entry or path.
    #[must_use]
    pub fn about(mut self, target: &str) -> Self {
        self.target = Some(target.into());
        self
    }
}

/// The faults of calls. The default: none.
///
/// Rules are evaluated first, in order. If none applies, a random draw decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FaultPlan {
    /// The seed of the draws.
    pub seed: u64,
    /// The script.
    pub rules: Vec<Rule>,
    /// Number of calls of a thousand that get a random fault.
    pub faults_per_mille: u16,
    /// The random faults; one of them is drawn. Empty: none.
    pub faults: Vec<Fault>,
}

/// A runtime with faults, including its log directory and its source of pods, if it has them.
///
/// # Examples
/// ```
/// use kubegc_core::RuntimeError;
/// use kubegc_sim::{NodeSettings, SimClock, SimNode};
/// use kubegc_sim::runtime::{Fault, FaultPlan, FaultyRuntime, Operation, Rule};
/// let node = SimNode::new(SimClock::default(), NodeSettings::default());
/// let refusal = Fault::Refuse(RuntimeError::refused("device busy"));
/// let rules = vec![Rule { skip: 1, times: 2, ..Rule::always(Operation::RemoveContainer, refusal) }];
/// let faulty = FaultyRuntime::new(node, FaultPlan { rules, ..FaultPlan::default() });
/// faulty.die();
/// assert!(faulty.is_dead());
/// faulty.revive();
/// assert!(!faulty.is_dead());
/// assert!(faulty.injected().is_empty());
/// ```
#[derive(Debug)]
pub struct FaultyRuntime<R> {
    runtime: R,
    state: Mutex<State>,
}

/// The operation and target that a rule matches; `None` means all.
type Matching = (Option<Operation>, Option<Arc<str>>);

#[derive(Debug)]
struct State {
    script: Script<Matching, Fault>,
    dead: bool,
    injected: Vec<(Operation, Arc<str>, Fault)>,
}

impl<R> FaultyRuntime<R> {
    /// Puts faults between callers and a runtime.
    #[must_use]
    pub fn new(runtime: R, plan: FaultPlan) -> Self {
        let mut script = Script::default();
        script.draw(plan.seed, plan.faults_per_mille, plan.faults);
        for rule in plan.rules {
            script.add(Turn {
                matching: (rule.operation, rule.target),
                skip: rule.skip,
                times: rule.times,
                fault: rule.fault,
            });
        }
        let state = State {
            script,
            dead: false,
            injected: Vec::new(),
        };
        Self {
            runtime,
            state: Mutex::new(state),
        }
    }

    /// The runtime behind the faults.
    #[must_use]
    pub const fn runtime(&self) -> &R {
        &self.runtime
    }

    /// Stops the runtime: it refuses every call from now on. Logs and pods can still be read: they are not
    /// part of the runtime.
    pub fn die(&self) {
        self.state.lock().dead = true;
    }

    /// Restarts the runtime.
    pub fn revive(&self) {
        self.state.lock().dead = false;
    }

    /// Whether the runtime is stopped.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// The calls that got a fault of the plan so far, in their order. Calls to a stopped runtime do not
    /// count.
    #[must_use]
    pub fn injected(&self) -> Vec<(Operation, Arc<str>, Fault)> {
        self.state.lock().injected.clone()
    }

    /// The fault of this call, if any.
    fn fault(&self, operation: Operation, target: &str) -> Option<Fault> {
        let mut state = self.state.lock();
        if state.dead && operation.is_of_runtime() {
            return Some(Fault::Refuse(RuntimeError::refused(
                "the runtime does not respond",
            )));
        }
        let matches = |turn: &Turn<Matching, Fault>| {
            let (wanted, about) = &turn.matching;
            wanted.is_none_or(|wanted| wanted == operation)
                && about.as_deref().is_none_or(|about| about == target)
        };
        // This fault affects one operation only, in a rule or in a draw.
        let affects = |fault: &Fault| *fault != Fault::EmptyStatus || operation == Operation::ContainerStatus;
        let fault = state.script.next(matches, true, affects);
        if let Some(fault) = &fault {
            state.injected.push((operation, target.into(), fault.clone()));
            state.dead |= *fault == Fault::Die;
        }
        fault
    }

    /// Performs a call or not, and returns its response or an error.
    async fn through<T>(
        &self,
        operation: Operation,
        target: &str,
        work: impl Future<Output = Result<T, RuntimeError>> + Send,
    ) -> Result<T, RuntimeError> {
        carry(self.fault(operation, target), work).await
    }
}

async fn carry<T>(
    fault: Option<Fault>,
    work: impl Future<Output = Result<T, RuntimeError>> + Send,
) -> Result<T, RuntimeError> {
    match fault {
        None | Some(Fault::EmptyStatus) => work.await,
        Some(Fault::Refuse(error)) => Err(error),
        Some(Fault::LoseResponse | Fault::Die) => {
            let outcome = if work.await.is_ok() {
                "performed"
            } else {
                "refused"
            };
            Err(RuntimeError::unknown(format!(
                "the response was lost (the call was {outcome})"
            )))
        }
    }
}

#[async_trait]
impl<R: Runtime> Runtime for FaultyRuntime<R> {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.through(Operation::Containers, "", self.runtime.containers())
            .await
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.through(Operation::Sandboxes, "", self.runtime.sandboxes())
            .await
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        self.through(Operation::Images, "", self.runtime.images()).await
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        let work = self.runtime.image_file_system();
        self.through(Operation::ImageFileSystem, "", work).await
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        let work = self.runtime.container_status(id);
        match self.fault(Operation::ContainerStatus, id) {
            Some(Fault::EmptyStatus) => work.await.map(|_| None),
            fault => carry(fault, work).await,
        }
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        let work = self.runtime.image_id(reference);
        self.through(Operation::ImageId, reference, work).await
    }

    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        let work = self.runtime.stop_container(id, grace_seconds);
        self.through(Operation::StopContainer, id, work).await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let work = self.runtime.remove_container(id);
        self.through(Operation::RemoveContainer, id, work).await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let work = self.runtime.stop_sandbox(id);
        self.through(Operation::StopSandbox, id, work).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let work = self.runtime.remove_sandbox(id);
        self.through(Operation::RemoveSandbox, id, work).await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        let work = self.runtime.remove_image(id, runtime_handler);
        self.through(Operation::RemoveImage, id, work).await
    }
}

#[async_trait]
impl<R: LogDirectory> LogDirectory for FaultyRuntime<R> {
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        self.through(Operation::PodEntries, "", self.runtime.pod_entries())
            .await
    }

    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError> {
        let work = self.runtime.container_links();
        self.through(Operation::ContainerLinks, "", work).await
    }

    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError> {
        let work = self.runtime.remove_pod_entry(entry);
        self.through(Operation::RemovePodEntry, entry, work).await
    }

    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError> {
        let work = self.runtime.remove_container_link(path);
        self.through(Operation::RemoveContainerLink, path, work).await
    }

    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError> {
        let work = self.runtime.remove_container_logs(log_path);
        self.through(Operation::RemoveContainerLogs, log_path, work).await
    }
}

#[async_trait]
impl<R: PodSource> PodSource for FaultyRuntime<R> {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        self.through(Operation::Pods, "", self.runtime.pods()).await
    }
}
