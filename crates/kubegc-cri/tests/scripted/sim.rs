//! A simulated node as a backend: it performs, records and checks the calls of a client.

use kubegc_core::{Runtime, RuntimeError};
use kubegc_sim::SimNode;
use tonic::{Status, async_trait};

use crate::{convert, server::Backend, tables::version, wire};

/// The node, with the responses of a runtime.
pub(crate) struct Simulated(pub(crate) SimNode);

fn failed(error: RuntimeError) -> Status {
    match error {
        RuntimeError::NotFound => Status::not_found("not found"),
        other => Status::unknown(other.to_string()),
    }
}

#[async_trait]
impl Backend for Simulated {
    async fn version(&self) -> Result<wire::VersionResponse, Status> {
        Ok(version("simulated", "1", "v1"))
    }

    async fn status(&self) -> Result<wire::StatusResponse, Status> {
        Ok(wire::StatusResponse::default())
    }

    async fn sandboxes(&self) -> Result<Vec<wire::PodSandbox>, Status> {
        let all = self.0.sandboxes().await.map_err(failed)?;
        Ok(all.iter().map(|sandbox| convert::sandbox(sandbox)).collect())
    }

    async fn containers(&self) -> Result<Vec<wire::Container>, Status> {
        let all = self.0.containers().await.map_err(failed)?;
        Ok(all
            .iter()
            .map(|container| convert::container(container))
            .collect())
    }

    async fn images(&self) -> Result<Vec<wire::Image>, Status> {
        let all = self.0.images().await.map_err(failed)?;
        Ok(all.iter().map(|image| convert::image(image)).collect())
    }

    async fn image(&self, reference: &str) -> Result<Option<wire::Image>, Status> {
        let id = self.0.image_id(reference).await.map_err(failed)?;
        let facts = id.and_then(|id| self.0.image(&id));
        Ok(facts.map(|facts| convert::image(&facts)))
    }

    async fn container_status(&self, id: &str) -> Result<Option<wire::ContainerStatus>, Status> {
        let status = self.0.container_status(id).await.map_err(failed)?;
        Ok(status.map(|status| convert::status(id, &status)))
    }

    /// No run measures a file system.
    async fn file_systems(&self) -> Result<wire::ImageFsInfoResponse, Status> {
        Ok(wire::ImageFsInfoResponse::default())
    }

    async fn stop_container(&self, id: &str, seconds: i64) -> Result<(), Status> {
        let seconds = u32::try_from(seconds).map_err(|_| Status::invalid_argument("timeout"))?;
        self.0.stop_container(id, seconds).await.map_err(failed)
    }

    async fn remove_container(&self, id: &str) -> Result<(), Status> {
        self.0.remove_container(id).await.map_err(failed)
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), Status> {
        self.0.stop_sandbox(id).await.map_err(failed)
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), Status> {
        self.0.remove_sandbox(id).await.map_err(failed)
    }

    async fn remove_image(&self, spec: wire::ImageSpec) -> Result<(), Status> {
        self.0
            .remove_image(&spec.image, &spec.runtime_handler)
            .await
            .map_err(failed)
    }
}
