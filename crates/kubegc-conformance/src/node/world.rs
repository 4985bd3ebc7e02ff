//! The node of a recorded container case: its runtime, log files, pods and clock, with the recorder's
//! failures, and a record of every call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use kubegc_core::{
    Clock, LogDirectory, PodSource, Runtime, RuntimeError, Timestamp, Uid,
    node_facts::{
        self, ContainerImage, ContainerStatus, FileSystem, Image, LogLink, LogTarget, PodIdentity, PodState,
        Pods,
    },
};

use super::format::{
    Container, ContainerCase, ContainerOutcome, ContainerState, ListFails, Pod, Sandbox, SandboxState, Stat,
};

/// A simulated node; records the calls that it gets.
pub(super) struct Node<'a> {
    case: &'a ContainerCase,
    now: Timestamp,
    state: Mutex<State>,
}

/// The remaining state of the node, and the calls that it got.
#[derive(Default)]
pub(super) struct State {
    pub(super) containers: Vec<Container>,
    pub(super) sandboxes: Vec<Sandbox>,
    listings: usize,
    /// Containers to stop or remove, in the order of the calls.
    pub(super) touched: Vec<String>,
    /// The calls, without batches and errors.
    pub(super) calls: ContainerOutcome,
}

impl<'a> Node<'a> {
    pub(super) fn new(
        case: &'a ContainerCase,
        now: i64,
        containers: Vec<Container>,
        sandboxes: Vec<Sandbox>,
    ) -> Self {
        Self {
            case,
            now: Timestamp::from_nanos(now),
            state: Mutex::new(State {
                containers,
                sandboxes,
                ..State::default()
            }),
        }
    }

    /// No thread panics while it holds the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn finish(self) -> State {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds an id, once for a stop and the removal that follows it.
fn touch(ids: &mut Vec<String>, id: &str) {
    if ids.last().is_none_or(|last| last != id) {
        ids.push(id.to_owned());
    }
}

/// The error messages of the recorder's fakes.
fn failed(what: &str) -> RuntimeError {
    RuntimeError::refused(format!("{what} failed"))
}

fn unless(fails: bool, what: &str) -> Result<(), RuntimeError> {
    if fails { Err(failed(what)) } else { Ok(()) }
}

fn pod(uid: &str) -> PodIdentity {
    PodIdentity {
        uid: Uid::new(uid),
        ..PodIdentity::default()
    }
}

const fn state(state: ContainerState) -> node_facts::ContainerState {
    match state {
        ContainerState::Created => node_facts::ContainerState::Created,
        ContainerState::Running => node_facts::ContainerState::Running,
        ContainerState::Exited => node_facts::ContainerState::Exited,
        ContainerState::Unknown => node_facts::ContainerState::Unknown,
    }
}

#[async_trait]
impl Runtime for Node<'_> {
    async fn containers(&self) -> Result<Vec<Arc<node_facts::Container>>, RuntimeError> {
        let mut node = self.state();
        node.listings += 1;
        let fails = match self.case.list_fails {
            ListFails::All => true,
            ListFails::First => node.listings == 1,
            ListFails::None | ListFails::Sandboxes => false,
        };
        unless(fails, "list containers")?;
        let listed = node.containers.iter().map(|container| {
            Arc::new(node_facts::Container {
                sandbox_id: container.sandbox_id.as_str().into(),
                attempt: container.attempt,
                image: ContainerImage::default(),
                ..node_facts::Container::new(
                    &container.id,
                    pod(&container.pod_uid),
                    &container.name,
                    state(container.state),
                    Timestamp::from_nanos(container.created_at),
                )
            })
        });
        Ok(listed.collect())
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<node_facts::Sandbox>>, RuntimeError> {
        unless(self.case.list_fails == ListFails::Sandboxes, "list sandboxes")?;
        let node = self.state();
        let listed = node.sandboxes.iter().map(|sandbox| {
            Arc::new(node_facts::Sandbox {
                id: sandbox.id.as_str().into(),
                pod: pod(&sandbox.pod_uid),
                attempt: sandbox.attempt,
                state: match sandbox.state {
                    SandboxState::Ready => node_facts::SandboxState::Ready,
                    SandboxState::NotReady => node_facts::SandboxState::NotReady,
                },
                created_at: Timestamp::from_nanos(sandbox.created_at),
                labels: std::collections::BTreeMap::new(),
            })
        });
        Ok(listed.collect())
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        Err(failed("list images"))
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        Err(failed("stats"))
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        let node = self.state();
        let found = node.containers.iter().find(|container| container.id == id);
        let container = found.ok_or(RuntimeError::NotFound)?;
        Ok((!container.status_nil).then(|| ContainerStatus {
            state: state(container.state),
            log_path: Arc::default(),
            image_volumes: Vec::new(),
        }))
    }

    async fn stop_container(&self, id: &str, _grace_seconds: u32) -> Result<(), RuntimeError> {
        let mut node = self.state();
        touch(&mut node.touched, id);
        node.calls.stop_attempted.push(id.to_owned());
        let found = node.containers.iter_mut().find(|container| container.id == id);
        let container = found.ok_or(RuntimeError::NotFound)?;
        unless(container.stop_fails, "stop")?;
        container.state = ContainerState::Exited;
        Ok(())
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let mut node = self.state();
        touch(&mut node.touched, id);
        let Some(at) = node.containers.iter().position(|container| container.id == id) else {
            return Ok(());
        };
        unless(node.containers[at].remove_fails, "remove")?;
        node.containers.remove(at);
        node.calls.removed_containers.push(id.to_owned());
        Ok(())
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let mut node = self.state();
        node.calls.sandbox_stop_attempted.push(id.to_owned());
        let found = node.sandboxes.iter_mut().find(|sandbox| sandbox.id == id);
        let sandbox = found.ok_or(RuntimeError::NotFound)?;
        unless(sandbox.stop_fails, "stop")?;
        sandbox.state = SandboxState::NotReady;
        Ok(())
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let mut node = self.state();
        let Some(at) = node.sandboxes.iter().position(|sandbox| sandbox.id == id) else {
            return Ok(());
        };
        unless(node.sandboxes[at].remove_fails, "remove")?;
        node.sandboxes.remove(at);
        // A runtime removes the containers of a sandbox with it.
        node.containers.retain(|container| container.sandbox_id != id);
        node.calls.removed_sandboxes.push(id.to_owned());
        Ok(())
    }

    async fn remove_image(&self, _id: &str, _runtime_handler: &str) -> Result<(), RuntimeError> {
        Err(failed("remove"))
    }
}

/// The part that `*` of the glob `/var/log/containers/*.log` matches ends before the next `/`.
fn is_container_log(path: &str) -> bool {
    path.strip_prefix("/var/log/containers/")
        .and_then(|name| name.strip_suffix(".log"))
        .is_some_and(|stem| !stem.contains('/'))
}

#[async_trait]
impl LogDirectory for Node<'_> {
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        unless(self.case.read_dir_fails, "readdir")?;
        Ok(self
            .case
            .log_dirs
            .iter()
            .map(|entry| entry.name.as_str().into())
            .collect())
    }

    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError> {
        let found = self
            .case
            .symlinks
            .iter()
            .filter(|link| is_container_log(&link.path));
        let links = found.map(|link| LogLink {
            path: link.path.as_str().into(),
            target: match link.stat {
                Stat::Exists => LogTarget::Exists,
                Stat::NotExist => LogTarget::Missing,
                Stat::OtherError => LogTarget::Unknown,
            },
        });
        Ok(links.collect())
    }

    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError> {
        let attempt = format!("/var/log/pods/{entry}");
        self.state().calls.log_dir_attempts.push(attempt);
        let found = self.case.log_dirs.iter().find(|listed| listed.name == entry);
        unless(found.ok_or(RuntimeError::NotFound)?.remove_fails, "remove")
    }

    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError> {
        self.state().calls.symlink_attempts.push(path.to_owned());
        let found = self.case.symlinks.iter().find(|link| link.path == path);
        unless(found.ok_or(RuntimeError::NotFound)?.remove_fails, "remove")
    }

    async fn remove_container_logs(&self, _log_path: &str) -> Result<(), RuntimeError> {
        Ok(())
    }
}

#[async_trait]
impl PodSource for Node<'_> {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let known = self
            .case
            .pods
            .iter()
            .map(|pod| (Uid::new(&pod.uid), answers(pod)));
        Ok(Pods {
            known: known.collect(),
            sources_ready: self.case.all_sources_ready,
            // Both are false for a uid that is not listed.
            synced: false,
        })
    }
}

/// A pod state with the recorded responses.
const fn answers(pod: &Pod) -> PodState {
    PodState {
        evicted: pod.content_removed && !pod.runtime_removed,
        deleted: pod.content_removed && pod.runtime_removed,
        terminated: pod.runtime_removed,
    }
}

#[async_trait]
impl Clock for Node<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    /// A single run does not wait.
    async fn sleep_until(&self, _until: Timestamp) {}
}
