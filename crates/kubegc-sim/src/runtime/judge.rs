//! Detects harmful calls of a node collector. The node performs them anyway: it reports harm, but it does not
//! prevent it.

use std::sync::Arc;

use kubegc_core::{
    Uid,
    node_facts::{ContainerState, LogTarget, SandboxState},
};

use super::{
    call::{CallRecord, Harm, Operation},
    log::{Link, entry_uid},
    world::{ContainerRow, World},
};

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
