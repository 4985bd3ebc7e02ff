//! CRI calls to a simulated node, with containerd's behaviour.

use std::sync::Arc;

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, PodSource, Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox},
};

use super::{
    SimNode,
    call::{CallRecord, Operation},
};

#[async_trait]
impl Runtime for SimNode {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.call(Operation::Containers, "", |world| {
            let all = world.all_containers();
            Ok(world.listing(all))
        })
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.call(Operation::Sandboxes, "", |world| {
            Ok(world.listing(world.sandboxes.clone()))
        })
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        self.call(Operation::Images, "", |world| {
            let all = world.all_images();
            Ok(world.listing(all))
        })
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        self.call(Operation::ImageFileSystem, "", |world| Ok(world.file_system()))
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        self.call(Operation::ContainerStatus, id, |world| {
            let row = world.container(id).ok_or(RuntimeError::NotFound)?;
            Ok(Some(ContainerStatus {
                state: row.facts.state,
                log_path: Arc::clone(&row.log_path),
                image_volumes: row.image_volumes.clone(),
            }))
        })
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        self.call(Operation::ImageId, reference, |world| {
            Ok(world.any_image(reference).map(|row| Arc::clone(&row.facts.id)))
        })
    }

    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        let call = CallRecord {
            grace_seconds,
            ..CallRecord::new(Operation::StopContainer, id)
        };
        self.perform(call, |world| {
            world.stop_container(id);
            Ok(())
        })
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.call(Operation::RemoveContainer, id, |world| {
            world.containers.retain(|row| *row.facts.id != *id);
            Ok(())
        })
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.call(Operation::StopSandbox, id, |world| {
            world.stop_sandbox(id);
            Ok(())
        })
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.call(Operation::RemoveSandbox, id, |world| {
            world.sandboxes.retain(|sandbox| *sandbox.id != *id);
            world.containers.retain(|row| *row.facts.sandbox_id != *id);
            Ok(())
        })
    }

    /// `id` may also be a tag or a digest: the image is removed with all its names.
    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        let call = CallRecord {
            runtime_handler: runtime_handler.into(),
            ..CallRecord::new(Operation::RemoveImage, id)
        };
        self.perform(call, |world| {
            if let Some(at) = world.image_place(id, runtime_handler) {
                world.images.remove(at);
            }
            Ok(())
        })
    }
}

#[async_trait]
impl LogDirectory for SimNode {
    async fn pod_entries(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        self.call(Operation::PodEntries, "", |world| {
            Ok(world.logs.entries.iter().cloned().collect())
        })
    }

    async fn container_links(&self) -> Result<Vec<LogLink>, RuntimeError> {
        self.call(Operation::ContainerLinks, "", |world| {
            Ok(world.logs.listed_links())
        })
    }

    /// A missing entry is not an error. A name that leads out of the directory is refused.
    async fn remove_pod_entry(&self, entry: &str) -> Result<(), RuntimeError> {
        self.call(Operation::RemovePodEntry, entry, |world| {
            if entry.contains('/') || matches!(entry, "" | "." | "..") {
                return Err(RuntimeError::refused(format!("{entry:?} is not a name")));
            }
            world.logs.remove_entry(entry);
            Ok(())
        })
    }

    /// A missing link is [`RuntimeError::NotFound`], as in a file system.
    async fn remove_container_link(&self, path: &str) -> Result<(), RuntimeError> {
        self.call(Operation::RemoveContainerLink, path, |world| {
            let removed = world.logs.links.remove(path);
            removed.map(drop).ok_or(RuntimeError::NotFound)
        })
    }

    async fn remove_container_logs(&self, log_path: &str) -> Result<(), RuntimeError> {
        self.call(Operation::RemoveContainerLogs, log_path, |world| {
            world.logs.remove_files(log_path);
            Ok(())
        })
    }
}

#[async_trait]
impl PodSource for SimNode {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        self.call(Operation::Pods, "", |world| Ok(world.pods.clone()))
    }
}
