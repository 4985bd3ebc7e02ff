//! A backend that responds from tables of wire messages, valid or not.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use tonic::{Status, async_trait};

use crate::{
    server::{Backend, not_found},
    wire,
};

/// The responses.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) version: wire::VersionResponse,
    pub(crate) status: wire::StatusResponse,
    pub(crate) sandboxes: Vec<wire::PodSandbox>,
    pub(crate) containers: Vec<wire::Container>,
    /// By container id; `None` is a response without a status.
    pub(crate) statuses: BTreeMap<String, Option<wire::ContainerStatus>>,
    pub(crate) images: Vec<wire::Image>,
    pub(crate) file_systems: wire::ImageFsInfoResponse,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            version: version("containerd", "1.7.2", "v1"),
            status: wire::StatusResponse::default(),
            sandboxes: Vec::new(),
            containers: Vec::new(),
            statuses: BTreeMap::new(),
            images: Vec::new(),
            file_systems: wire::ImageFsInfoResponse::default(),
        }
    }
}

pub(crate) fn version(name: &str, version: &str, api: &str) -> wire::VersionResponse {
    wire::VersionResponse {
        version: "0.1.0".to_owned(),
        runtime_name: name.to_owned(),
        runtime_version: version.to_owned(),
        runtime_api_version: api.to_owned(),
    }
}

/// A container with all required fields.
pub(crate) fn container(id: &str) -> wire::Container {
    wire::Container {
        id: id.to_owned(),
        pod_sandbox_id: "sandbox-1".to_owned(),
        metadata: Some(wire::ContainerMetadata {
            name: "web".to_owned(),
            attempt: 2,
        }),
        image_ref: "sha256:aa".to_owned(),
        created_at: 7,
        ..wire::Container::default()
    }
}

/// A sandbox with all required fields.
pub(crate) fn sandbox(id: &str) -> wire::PodSandbox {
    wire::PodSandbox {
        id: id.to_owned(),
        metadata: Some(wire::PodSandboxMetadata {
            name: "web-0".to_owned(),
            uid: "uid-0".to_owned(),
            namespace: "shop".to_owned(),
            attempt: 1,
        }),
        created_at: 7,
        ..wire::PodSandbox::default()
    }
}

/// An image with all required fields.
pub(crate) fn image(id: &str) -> wire::Image {
    wire::Image {
        id: id.to_owned(),
        size: 5,
        ..wire::Image::default()
    }
}

/// A backend whose tables a test may change at any time.
#[derive(Default)]
pub(crate) struct Reported(Mutex<Tables>);

impl Reported {
    pub(crate) fn new(tables: Tables) -> Self {
        Self(Mutex::new(tables))
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().expect("no test panics while it holds this")
    }
}

/// Removes the matching entries; a runtime's error if there are none.
fn remove<T>(entries: &mut Vec<T>, fits: impl Fn(&T) -> bool) -> Result<(), Status> {
    let before = entries.len();
    entries.retain(|entry| !fits(entry));
    if entries.len() == before {
        return Err(not_found());
    }
    Ok(())
}

#[async_trait]
impl Backend for Reported {
    async fn read(&self, _method: &str, _object: &str) -> Result<Tables, Status> {
        Ok(self.tables().clone())
    }

    async fn write(&self, method: &str, id: &str, _seconds: u32, handler: &str) -> Result<(), Status> {
        let mut tables = self.tables();
        match method {
            "StopContainer" => {
                let container = tables.containers.iter_mut().find(|container| container.id == id);
                let exited = wire::ContainerState::ContainerExited;
                container.ok_or_else(not_found)?.set_state(exited);
                Ok(())
            }
            "StopPodSandbox" => {
                let sandbox = tables.sandboxes.iter_mut().find(|sandbox| sandbox.id == id);
                let stopped = wire::PodSandboxState::SandboxNotready;
                sandbox.ok_or_else(not_found)?.set_state(stopped);
                Ok(())
            }
            "RemoveContainer" => remove(&mut tables.containers, |container| container.id == id),
            "RemovePodSandbox" => remove(&mut tables.sandboxes, |sandbox| sandbox.id == id),
            _ => remove(&mut tables.images, |image| {
                let own = image.spec.as_ref().map_or("", |spec| &spec.runtime_handler);
                image.id == id && own == handler
            }),
        }
    }
}
