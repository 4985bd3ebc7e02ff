//! Faults between a node collector and its runtime: refused calls, lost responses, a runtime that stops.

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, PodSource, Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox},
};
use parking_lot::Mutex;

use super::Operation;
use crate::fault::script::{Plan, Script, Turn};

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
}

/// Performs a call or not, and returns its response or an error.
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

/// Implements a trait by calls with faults: each method with its target, its other argument, its result and
/// its operation. Other methods follow in braces.
macro_rules! with_faults {
    ($trait:ident, $({ $($other:tt)* })? $(
        $method:ident($($target:ident $(, $arg:ident: $ty:ty)?)?) -> $result:ty = $operation:ident;
    )*) => {
        #[async_trait]
        impl<R: $trait> $trait for FaultyRuntime<R> {
            $(
                async fn $method(
                    &self,
                    $($target: &str, $($arg: $ty)?)?
                ) -> Result<$result, RuntimeError> {
                    let work = self.runtime.$method($($target, $($arg)?)?);
                    let targets: &[&str] = &[$($target)?];
                    let target = targets.first().copied().unwrap_or_default();
                    carry(self.fault(Operation::$operation, target), work).await
                }
            )*
            $($($other)*)?
        }
    };
}

with_faults! {
    Runtime,
    {
        async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
            let work = self.runtime.container_status(id);
            match self.fault(Operation::ContainerStatus, id) {
                Some(Fault::EmptyStatus) => work.await.map(|_| None),
                fault => carry(fault, work).await,
            }
        }
    }
    containers() -> Vec<Arc<Container>> = Containers;
    sandboxes() -> Vec<Arc<Sandbox>> = Sandboxes;
    images() -> Vec<Arc<Image>> = Images;
    image_file_system() -> FileSystem = ImageFileSystem;
    image_id(reference) -> Option<Arc<str>> = ImageId;
    stop_container(id, grace_seconds: u32) -> () = StopContainer;
    remove_container(id) -> () = RemoveContainer;
    stop_sandbox(id) -> () = StopSandbox;
    remove_sandbox(id) -> () = RemoveSandbox;
    remove_image(id, runtime_handler: &str) -> () = RemoveImage;
}

with_faults! {
    LogDirectory,
    pod_entries() -> Vec<Arc<str>> = PodEntries;
    container_links() -> Vec<LogLink> = ContainerLinks;
    remove_pod_entry(entry) -> () = RemovePodEntry;
    remove_container_link(path) -> () = RemoveContainerLink;
    remove_container_logs(log_path) -> () = RemoveContainerLogs;
}

with_faults! {
    PodSource,
    pods() -> Pods = Pods;
}
