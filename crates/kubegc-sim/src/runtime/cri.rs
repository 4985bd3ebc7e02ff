//! CRI calls to a simulated node, with containerd's behaviour.

use std::sync::Arc;

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, PodSource, Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox},
};

use super::{
    SimNode,
    call::{Operation, Request},
    disk::Purpose,
};

#[async_trait]
impl Runtime for SimNode {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.call(Request::new(Operation::Containers, ""), |world| {
            let all = world.containers.iter().map(|(_, row)| Arc::clone(&row.facts));
            let all = all.collect();
            Ok(world.listing(all))
        })
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.call(Request::new(Operation::Sandboxes, ""), |world| {
            let all = world.sandboxes.iter().map(|(_, row)| Arc::clone(&row.facts));
            let all = all.collect();
            Ok(world.listing(all))
        })
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        self.call(Request::new(Operation::Images, ""), |world| {
            let all = world.images.list();
            Ok(world.listing(all))
        })
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        self.call(Request::new(Operation::ImageFileSystem, ""), |world| {
            Ok(world.disk.file_system())
        })
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        self.call(Request::new(Operation::ContainerStatus, id), |world| {
            let key = world.containers.find(id).ok_or(RuntimeError::NotFound)?;
            let row = world.containers.get(key).ok_or(RuntimeError::NotFound)?;
            Ok(Some(ContainerStatus {
                state: row.facts.state,
                log_path: Arc::clone(&row.log_path),
                image_volumes: row.image_volumes.clone(),
            }))
        })
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        self.call(Request::new(Operation::ImageId, reference), |world| {
            Ok(world.images.find_any(reference).map(|key| key.id))
        })
    }

    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        let request = Request {
            grace_seconds,
            ..Request::new(Operation::StopContainer, id)
        };
        self.call(request, |world| {
            if let Some(key) = world.containers.find(id) {
                world.stop_container(key);
            }
            Ok(())
        })
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.call(Request::new(Operation::RemoveContainer, id), |world| {
            if let Some(key) = world.containers.find(id) {
                world.remove_container(key);
            }
            Ok(())
        })
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.call(Request::new(Operation::StopSandbox, id), |world| {
            if let Some(key) = world.sandboxes.find(id) {
                world.stop_sandbox(key);
            }
            Ok(())
        })
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.call(Request::new(Operation::RemoveSandbox, id), |world| {
            if let Some(key) = world.sandboxes.find(id) {
                world.remove_sandbox(key);
            }
            Ok(())
        })
    }

    /// `id` may also be a tag or a digest: the image is removed with all its names.
    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        let request = Request {
            runtime_handler,
            ..Request::new(Operation::RemoveImage, id)
        };
        self.call(request, |world| {
            if let Some(key) = world.images.find(id, runtime_handler) {
                world.remove_image(&key);
            }
            Ok(())
        })
    }
}

#[async_trait]
impl LogDirectory for SimNode {
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        self.call(Request::new(Operation::PodEntries, ""), |world| {
            Ok(world.logs.entries())
        })
    }

    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError> {
        self.call(Request::new(Operation::ContainerLinks, ""), |world| {
            Ok(world.logs.links())
        })
    }

    /// A missing entry is not an error. A name that leads out of the directory is refused.
    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError> {
        self.call(Request::new(Operation::RemovePodEntry, entry), |world| {
            if entry.contains('/') || matches!(entry, "" | "." | "..") {
                return Err(RuntimeError::refused(format!("{entry:?} is not a name")));
            }
            let freed_bytes = world.logs.remove_entry(entry);
            world.disk.give(Purpose::Logs, freed_bytes);
            Ok(())
        })
    }

    /// A missing link is [`RuntimeError::NotFound`], as in a file system.
    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError> {
        self.call(Request::new(Operation::RemoveContainerLink, path), |world| {
            if world.logs.remove_link(path) {
                Ok(())
            } else {
                Err(RuntimeError::NotFound)
            }
        })
    }

    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError> {
        self.call(Request::new(Operation::RemoveContainerLogs, log_path), |world| {
            let freed_bytes = world.logs.remove_files(log_path);
            world.disk.give(Purpose::Logs, freed_bytes);
            Ok(())
        })
    }
}

#[async_trait]
impl PodSource for SimNode {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        self.call(Request::new(Operation::Pods, ""), |world| Ok(world.pods.clone()))
    }
}
