//! Detects harmful calls of a node collector. The node performs them anyway: it reports harm, but it does not
//! prevent it.

use std::{fmt, sync::Arc};

use kubegc_core::{
    Timestamp, Uid,
    node_facts::{ContainerState, LogTarget, PodState, SandboxState},
};

use super::{
    call::{Operation, Request},
    log::entry_uid,
    world::World,
};

/// The harm of a call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Harm {
    /// A running container was stopped, by itself or with its sandbox.
    RunningContainerStopped { container_id: Arc<str> },
    /// A running container was removed, by itself or with its sandbox.
    RunningContainerRemoved { container_id: Arc<str> },
    /// A container in an unknown state was removed without being stopped first.
    UnknownContainerRemoved { container_id: Arc<str> },
    /// A ready sandbox was stopped.
    ReadySandboxStopped,
    /// A ready sandbox was removed.
    ReadySandboxRemoved,
    /// A pinned image was removed.
    PinnedImageRemoved,
    /// An image was removed that a container uses.
    UsedImageRemoved { container_id: Arc<str> },
    /// An image was removed that a container mounts as a volume.
    MountedImageRemoved { container_id: Arc<str> },
    /// The logs of a pod were removed that is neither evicted nor deleted.
    LivingPodLogsRemoved,
    /// The log of a running container was removed.
    RunningContainerLogsRemoved { container_id: Arc<str> },
    /// A link was removed whose log exists, or whose container is running.
    LiveLinkRemoved,
}

/// A harmful call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// Time of the call.
    pub at: Timestamp,
    pub operation: Operation,
    pub target: Arc<str>,
    pub harm: Harm,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            operation,
            target,
            harm,
        } = self;
        write!(f, "{at} {operation:?} {target}: {harm:?}")
    }
}

/// The harm that a request would do to the current state of the node.
pub(super) fn harms(world: &World, request: Request<'_>) -> Vec<Harm> {
    let target = request.target;
    let mut harms = Vec::new();
    match request.operation {
        Operation::StopContainer => {
            let found = world.containers.find(target);
            harms.extend(found.and_then(|key| stopping(world, key)));
        }
        Operation::RemoveContainer => {
            let found = world.containers.find(target);
            harms.extend(found.and_then(|key| removing(world, key)));
        }
        Operation::StopSandbox | Operation::RemoveSandbox => sandbox(world, request, &mut harms),
        Operation::RemoveImage => image(world, request, &mut harms),
        Operation::RemovePodEntry => {
            let state = world.pods.known.get(&Uid::new(entry_uid(target)));
            let has_ended = |state: &PodState| state.evicted || (state.deleted && state.terminated);
            if state.is_some_and(|state| !has_ended(state)) && world.logs.has_entry(target) {
                harms.push(Harm::LivingPodLogsRemoved);
            }
        }
        Operation::RemoveContainerLogs => {
            let rows = world.writers_below(target);
            let running = rows.filter(|row| row.facts.state == ContainerState::Running);
            harms.extend(running.map(|row| Harm::RunningContainerLogsRemoved {
                container_id: Arc::clone(&row.facts.id),
            }));
        }
        Operation::RemoveContainerLink => {
            let link = world.logs.link(target);
            if link.is_some_and(|link| {
                let id = link.container_id.as_deref().unwrap_or_default();
                let key = world.containers.find(id);
                let row = key.and_then(|key| world.containers.get(key));
                world.logs.target(link) == LogTarget::Exists
                    || row.is_some_and(|row| row.facts.state == ContainerState::Running)
            }) {
                harms.push(Harm::LiveLinkRemoved);
            }
        }
        Operation::Containers
        | Operation::Sandboxes
        | Operation::Images
        | Operation::ImageFileSystem
        | Operation::ContainerStatus
        | Operation::ImageId
        | Operation::PodEntries
        | Operation::ContainerLinks
        | Operation::Pods => {}
    }
    harms
}

fn stopping(world: &World, key: u64) -> Option<Harm> {
    let facts = &world.containers.get(key)?.facts;
    (facts.state == ContainerState::Running).then(|| Harm::RunningContainerStopped {
        container_id: Arc::clone(&facts.id),
    })
}

fn removing(world: &World, key: u64) -> Option<Harm> {
    let facts = &world.containers.get(key)?.facts;
    let container_id = Arc::clone(&facts.id);
    match facts.state {
        ContainerState::Running => Some(Harm::RunningContainerRemoved { container_id }),
        ContainerState::Unknown => Some(Harm::UnknownContainerRemoved { container_id }),
        ContainerState::Created | ContainerState::Exited => None,
    }
}

fn sandbox(world: &World, request: Request<'_>, harms: &mut Vec<Harm>) {
    let found = world.sandboxes.find(request.target);
    let Some(row) = found.and_then(|key| world.sandboxes.get(key)) else {
        return;
    };
    let stops = request.operation == Operation::StopSandbox;
    if row.facts.state == SandboxState::Ready {
        harms.push(if stops {
            Harm::ReadySandboxStopped
        } else {
            Harm::ReadySandboxRemoved
        });
    }
    let judge = if stops { stopping } else { removing };
    harms.extend(row.containers.iter().filter_map(|key| judge(world, *key)));
}

fn image(world: &World, request: Request<'_>, harms: &mut Vec<Harm>) {
    let Some(key) = world.images.find(request.target, request.runtime_handler) else {
        return;
    };
    if world.images.get(&key).is_some_and(|row| row.facts.pinned) {
        harms.push(Harm::PinnedImageRemoved);
    }
    let user = world
        .containers
        .iter()
        .find(|(_, row)| row.image.as_ref() == Some(&key));
    harms.extend(user.map(|(_, row)| Harm::UsedImageRemoved {
        container_id: Arc::clone(&row.facts.id),
    }));
    let mounter = world
        .containers
        .iter()
        .find(|(_, row)| row.image_volumes.contains(&key.id));
    harms.extend(mounter.map(|(_, row)| Harm::MountedImageRemoved {
        container_id: Arc::clone(&row.facts.id),
    }));
}
