//! The runtime as a collector uses it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kubegc_core::{
    Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, Sandbox},
};

use tonic::{Request, Response, Status};

use crate::{
    CriRuntime,
    bindings::{
        ContainerStatusRequest, ImageSpec, ImageStatusRequest, ListContainersRequest, ListImagesRequest,
        ListPodSandboxRequest, RemoveContainerRequest, RemoveImageRequest, RemovePodSandboxRequest,
        StopContainerRequest, StopPodSandboxRequest,
    },
    call::{Method, call},
    read,
};

/// Stops or removes, which succeeds where there is nothing any more. Without an id nothing is sent: a runtime may take that for the beginning of every id.
async fn change<Q, A, F>(
    method: Method,
    id: &str,
    timeout: Duration,
    message: Q,
    send: impl FnOnce(Request<Q>) -> F,
) -> Result<(), RuntimeError>
where
    F: Future<Output = Result<Response<A>, Status>>,
{
    if id.is_empty() {
        return Err(RuntimeError::refused(format!("{}: the id is empty", method.name)));
    }
    let answer = call(method, id, timeout, message, send).await;
    match answer.map_err(|failure| failure.of(method)) {
        Ok(_) | Err(RuntimeError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

#[async_trait]
impl Runtime for CriRuntime {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        let method = Method::reads("ListContainers");
        let mut client = self.runtime.clone();
        let answer = call(
            method,
            "",
            self.request_timeout,
            ListContainersRequest {},
            |request| async move { client.list_containers(request).await },
        )
        .await
        .map_err(|failure| failure.of(method))?;
        read::listing(method.name, answer.containers, read::container)
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        let method = Method::reads("ListPodSandbox");
        let mut client = self.runtime.clone();
        let answer = call(
            method,
            "",
            self.request_timeout,
            ListPodSandboxRequest {},
            |request| async move { client.list_pod_sandbox(request).await },
        )
        .await
        .map_err(|failure| failure.of(method))?;
        read::listing(method.name, answer.items, read::sandbox)
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        let method = Method::reads("ListImages");
        let mut client = self.images.clone();
        let answer = call(
            method,
            "",
            self.request_timeout,
            ListImagesRequest {},
            |request| async move { client.list_images(request).await },
        )
        .await
        .map_err(|failure| failure.of(method))?;
        read::listing(method.name, answer.images, read::image)
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        self.first_image_file_system().await
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        let method = Method::reads("ContainerStatus");
        let mut client = self.runtime.clone();
        let message = ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose: false,
        };
        let answer = call(method, id, self.request_timeout, message, |request| async move {
            client.container_status(request).await
        })
        .await
        .map_err(|failure| failure.of(method))?;
        Ok(answer.status.map(read::status))
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        let method = Method::reads("ImageStatus");
        let mut client = self.images.clone();
        let message = ImageStatusRequest {
            image: Some(image_spec(reference, "")),
            verbose: false,
        };
        let answer = call(
            method,
            reference,
            self.request_timeout,
            message,
            |request| async move { client.image_status(request).await },
        )
        .await
        .map_err(|failure| failure.of(method));
        match answer {
            Ok(answer) => read::image_id(reference, answer.image).map_err(|flaw| flaw.of(method.name)),
            Err(RuntimeError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The call may take the grace longer than others, as upstream has it.
    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        let method = Method::writes("StopContainer");
        let mut client = self.runtime.clone();
        let message = StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::from(grace_seconds),
        };
        let grace = Duration::from_secs(u64::from(grace_seconds));
        let timeout = self.request_timeout.saturating_add(grace);
        change(method, id, timeout, message, |request| async move {
            client.stop_container(request).await
        })
        .await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemoveContainer");
        let mut client = self.runtime.clone();
        let message = RemoveContainerRequest {
            container_id: id.to_owned(),
        };
        change(method, id, self.request_timeout, message, |request| async move {
            client.remove_container(request).await
        })
        .await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("StopPodSandbox");
        let mut client = self.runtime.clone();
        let message = StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        change(method, id, self.request_timeout, message, |request| async move {
            client.stop_pod_sandbox(request).await
        })
        .await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemovePodSandbox");
        let mut client = self.runtime.clone();
        let message = RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        change(method, id, self.request_timeout, message, |request| async move {
            client.remove_pod_sandbox(request).await
        })
        .await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemoveImage");
        let mut client = self.images.clone();
        let message = RemoveImageRequest {
            image: Some(image_spec(id, runtime_handler)),
        };
        change(method, id, self.request_timeout, message, |request| async move {
            client.remove_image(request).await
        })
        .await
    }
}

fn image_spec(image: &str, runtime_handler: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
        runtime_handler: runtime_handler.to_owned(),
        ..ImageSpec::default()
    }
}
