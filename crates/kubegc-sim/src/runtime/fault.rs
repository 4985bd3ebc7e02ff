//! Faults between a node collector and its runtime: refused calls, lost responses, a runtime that stops.

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, PodSource, Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox},
};
use parking_lot::Mutex;

use super::Operation;
use crate::fault::{
    lost,
    script::{Plan, Script, Turn},
    with_faults,
};

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

/// The calls that a rule matches: their operation, and their target (an id, reference, entry or path). `None`
/// matches all.
pub type Matching = (Option<Operation>, Option<Arc<str>>);

/// One rule of a script.
pub type Rule = Turn<Matching, Fault>;

impl Rule {
    /// A rule that injects a fault into all calls of an operation.
    pub const fn always(operation: Operation, fault: Fault) -> Self {
        Self {
            matching: (Some(operation), None),
            skip: 0,
            times: u32::MAX,
            fault,
        }
    }

    /// The same rule, only for calls with this id, reference, entry or path.
    #[must_use]
    pub fn about(mut self, target: &str) -> Self {
        self.matching.1 = Some(target.into());
        self
    }
}

/// The faults of calls. The default: none.
pub type FaultPlan = Plan<Matching, Fault>;

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

#[derive(Debug)]
struct State {
    script: Script<Matching, Fault>,
    dead: bool,
    injected: Vec<(Operation, Arc<str>, Fault)>,
}

impl<R> FaultyRuntime<R> {
    /// Puts faults between callers and a runtime.
    pub fn new(runtime: R, plan: FaultPlan) -> Self {
        let state = State {
            script: Script::new(plan),
            dead: false,
            injected: Vec::new(),
        };
        Self {
            runtime,
            state: Mutex::new(state),
        }
    }

    /// The runtime behind the faults.
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
    pub fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// The calls that got a fault of the plan so far, in their order. Calls to a stopped runtime do not
    /// count.
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

    async fn through<T>(
        &self,
        (operation, target): (Operation, &str),
        work: impl Future<Output = Result<T, RuntimeError>> + Send,
    ) -> Result<T, RuntimeError> {
        carry(self.fault(operation, target), work).await
    }
}

/// Performs a call or not, and returns its response or an error.
async fn carry<T>(
    fault: Option<Fault>,
    work: impl Future<Output = Result<T, RuntimeError>> + Send,
) -> Result<T, RuntimeError> {
    match fault {
        None | Some(Fault::EmptyStatus) => work.await,
        Some(Fault::Refuse(error)) => Err(error),
        Some(Fault::LoseResponse | Fault::Die) => Err(RuntimeError::unknown(lost(work).await)),
    }
}

with_faults! {
    Runtime for FaultyRuntime by runtime, RuntimeError,
    {
        async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
            let work = self.runtime.container_status(id);
            match self.fault(Operation::ContainerStatus, id) {
                Some(Fault::EmptyStatus) => work.await.map(|_| None),
                fault => carry(fault, work).await,
            }
        }
    }
    containers() -> Vec<Arc<Container>> = (Operation::Containers, "");
    sandboxes() -> Vec<Arc<Sandbox>> = (Operation::Sandboxes, "");
    images() -> Vec<Arc<Image>> = (Operation::Images, "");
    image_file_system() -> FileSystem = (Operation::ImageFileSystem, "");
    image_id(reference: &str) -> Option<Arc<str>> = (Operation::ImageId, reference);
    stop_container(id: &str, grace_seconds: u32) -> () = (Operation::StopContainer, id);
    remove_container(id: &str) -> () = (Operation::RemoveContainer, id);
    stop_sandbox(id: &str) -> () = (Operation::StopSandbox, id);
    remove_sandbox(id: &str) -> () = (Operation::RemoveSandbox, id);
    remove_image(id: &str, runtime_handler: &str) -> () = (Operation::RemoveImage, id);
}

with_faults! {
    LogDirectory for FaultyRuntime by runtime, RuntimeError, {}
    pod_entries() -> Vec<Arc<str>> = (Operation::PodEntries, "");
    container_links() -> Vec<LogLink> = (Operation::ContainerLinks, "");
    remove_pod_entry(entry: &str) -> () = (Operation::RemovePodEntry, entry);
    remove_container_link(path: &str) -> () = (Operation::RemoveContainerLink, path);
    remove_container_logs(log_path: &str) -> () = (Operation::RemoveContainerLogs, log_path);
}

with_faults! {
    PodSource for FaultyRuntime by runtime, RuntimeError, {}
    pods() -> Pods = (Operation::Pods, "");
}
