//! Detects harmful calls of a node collector. The node performs them anyway: it reports harm, but it does not
//! prevent it.

use std::{fmt, sync::Arc};

use kubegc_core::{
    Timestamp, Uid,
    node_facts::{ContainerState, LogTarget, SandboxState},
};

use super::{
    call::{CallRecord, Operation},
    log::{Link, entry_uid},
    world::{ContainerRow, World},
};

#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Harm {
    /// A running container was stopped, by itself or with its sandbox.
    RunningContainerStopped {
        container_id: Arc<str>,
    },
    /// A running container was removed, by itself or with its sandbox.
    RunningContainerRemoved {
        container_id: Arc<str>,
    },
    /// A container in an unknown state was removed without being stopped first.
    UnknownContainerRemoved {
        container_id: Arc<str>,
    },
    ReadySandboxStopped,
    ReadySandboxRemoved,
    PinnedImageRemoved,
    /// An image was removed that a container uses.
    UsedImageRemoved {
        container_id: Arc<str>,
    },
    /// An image was removed that a container mounts as a volume.
    MountedImageRemoved {
        container_id: Arc<str>,
    },
    /// The logs of a pod were removed that is neither evicted nor deleted.
    LivingPodLogsRemoved,
    RunningContainerLogsRemoved {
        container_id: Arc<str>,
    },
    /// A link was removed whose log exists, or whose container is running.
    LiveLinkRemoved,
}

/// A harmful call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    pub at: Timestamp,
    pub operation: Operation,
    pub target: Arc<str>,
    pub harm: Harm,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?} {}: {:?}",
            self.at, self.operation, self.target, self.harm
        )
    }
}

/// The harm that a call would do to the current state of the node.
pub(super) fn harms(world: &World, call: &CallRecord) -> Vec<Harm> {
    let target = &*call.target;
    let containers = || world.containers.iter();
    let id = |row: &ContainerRow| Arc::clone(&row.facts.id);
    let inside = || containers().filter(|row| *row.facts.sandbox_id == *target);
    let is_ready = || {
        let sandbox = world.sandbox(target);
        sandbox.is_ok_and(|sandbox| sandbox.state == SandboxState::Ready)
    };
    let mut harms = Vec::new();
    match call.operation {
        Operation::StopContainer => harms.extend(world.container(target).and_then(stopping)),
        Operation::RemoveContainer => harms.extend(world.container(target).and_then(removing)),
        Operation::StopSandbox => {
            harms.extend(is_ready().then_some(Harm::ReadySandboxStopped));
            harms.extend(inside().filter_map(stopping));
        }
        Operation::RemoveSandbox => {
            harms.extend(is_ready().then_some(Harm::ReadySandboxRemoved));
            harms.extend(inside().filter_map(removing));
        }
        Operation::RemoveImage => {
            let place = world.image_place(target, &call.runtime_handler);
            let Some(image) = place.map(|place| &world.images[place].facts) else {
                return harms;
            };
            harms.extend(image.pinned.then_some(Harm::PinnedImageRemoved));
            let is_its = |row: &&ContainerRow| {
                let own = &row.facts.image;
                own.id == image.id && own.runtime_handler == image.runtime_handler
            };
            let user = containers().find(is_its).map(id);
            harms.extend(user.map(|container_id| Harm::UsedImageRemoved { container_id }));
            let mounter = containers().find(|row| row.image_volumes.contains(&image.id));
            let mounter = mounter.map(id);
            harms.extend(mounter.map(|container_id| Harm::MountedImageRemoved { container_id }));
        }
        Operation::RemovePodEntry => {
            let state = world.pods.known.get(&Uid::new(entry_uid(target)));
            let is_living = state.is_some_and(|state| !(state.evicted || state.deleted && state.terminated));
            let removes_logs = is_living && world.logs.entries.contains(target);
            harms.extend(removes_logs.then_some(Harm::LivingPodLogsRemoved));
        }
        Operation::RemoveContainerLogs if !target.is_empty() => {
            let writers = containers().filter(|row| is_running(row) && row.log_path.starts_with(target));
            let writers = writers.map(id);
            harms.extend(writers.map(|container_id| Harm::RunningContainerLogsRemoved { container_id }));
        }
        Operation::RemoveContainerLink => {
            let is_live = |link: &Link| match link {
                Link::Log { container_id, .. } if world.container(container_id).is_some_and(is_running) => {
                    true
                }
                link => world.logs.target(link) == LogTarget::Exists,
            };
            let removes_live = world.logs.links.get(target).is_some_and(is_live);
            harms.extend(removes_live.then_some(Harm::LiveLinkRemoved));
        }
        _ => {}
    }
    harms
}

fn is_running(row: &ContainerRow) -> bool {
    row.facts.state == ContainerState::Running
}

fn stopping(row: &ContainerRow) -> Option<Harm> {
    let container_id = Arc::clone(&row.facts.id);
    is_running(row).then_some(Harm::RunningContainerStopped { container_id })
}

fn removing(row: &ContainerRow) -> Option<Harm> {
    let container_id = Arc::clone(&row.facts.id);
    match row.facts.state {
        ContainerState::Running => Some(Harm::RunningContainerRemoved { container_id }),
        ContainerState::Unknown => Some(Harm::UnknownContainerRemoved { container_id }),
        ContainerState::Created | ContainerState::Exited => None,
    }
}
