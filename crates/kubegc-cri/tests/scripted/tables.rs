//! A backend that responds from tables of wire messages, valid or not.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use tonic::{Status, async_trait};

use crate::{server::Backend, wire};

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

    /// Removes the matching entries; a runtime's error if there are none.
    fn remove<T>(entries: &mut Vec<T>, fits: impl Fn(&T) -> bool) -> Result<(), Status> {
        let before = entries.len();
        entries.retain(|entry| !fits(entry));
        if entries.len() == before {
            return Err(Status::not_found("an error occurred: not found"));
        }
        Ok(())
    }
}

fn handler(spec: Option<&wire::ImageSpec>) -> &str {
    spec.map_or("", |spec| &spec.runtime_handler)
}

#[async_trait]
impl Backend for Reported {
    async fn version(&self) -> Result<wire::VersionResponse, Status> {
        Ok(self.tables().version.clone())
    }

    async fn status(&self) -> Result<wire::StatusResponse, Status> {
        Ok(self.tables().status.clone())
    }

    async fn sandboxes(&self) -> Result<Vec<wire::PodSandbox>, Status> {
        Ok(self.tables().sandboxes.clone())
    }

    async fn containers(&self) -> Result<Vec<wire::Container>, Status> {
        Ok(self.tables().containers.clone())
    }

    async fn images(&self) -> Result<Vec<wire::Image>, Status> {
        Ok(self.tables().images.clone())
    }

    async fn image(&self, reference: &str) -> Result<Option<wire::Image>, Status> {
        let tables = self.tables();
        let named = |image: &&wire::Image| {
            image.id == reference || image.repo_tags.iter().any(|tag| tag == reference)
        };
        Ok(tables.images.iter().find(named).cloned())
    }

    async fn container_status(&self, id: &str) -> Result<Option<wire::ContainerStatus>, Status> {
        let tables = self.tables();
        let status = tables.statuses.get(id);
        status
            .cloned()
            .ok_or_else(|| Status::not_found("an error occurred: not found"))
    }

    async fn file_systems(&self) -> Result<wire::ImageFsInfoResponse, Status> {
        Ok(self.tables().file_systems.clone())
    }

    async fn stop_container(&self, id: &str, _seconds: i64) -> Result<(), Status> {
        let mut tables = self.tables();
        let mut all = tables.containers.iter_mut();
        let container = all.find(|container| container.id == id);
        let container = container.ok_or_else(|| Status::not_found("an error occurred: not found"))?;
        container.state = wire::ContainerState::ContainerExited as i32;
        Ok(())
    }

    async fn remove_container(&self, id: &str) -> Result<(), Status> {
        Self::remove(&mut self.tables().containers, |container| container.id == id)
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), Status> {
        let mut tables = self.tables();
        let sandbox = tables.sandboxes.iter_mut().find(|sandbox| sandbox.id == id);
        let sandbox = sandbox.ok_or_else(|| Status::not_found("an error occurred: not found"))?;
        sandbox.state = wire::PodSandboxState::SandboxNotready as i32;
        Ok(())
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), Status> {
        Self::remove(&mut self.tables().sandboxes, |sandbox| sandbox.id == id)
    }

    async fn remove_image(&self, spec: wire::ImageSpec) -> Result<(), Status> {
        Self::remove(&mut self.tables().images, |image| {
            image.id == spec.image && handler(image.spec.as_ref()) == spec.runtime_handler
        })
    }
}
