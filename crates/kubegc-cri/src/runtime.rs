//! The implementation of [`Runtime`] over CRI.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

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
    read::{self, Keyed},
    socket::{Connection, Socket, is_current, record_listing},
};

/// A listing that writes depend on, with its socket.
type Listing<'a> = (&'a AtomicU64, &'a Socket);

impl CriRuntime {
    fn container_listing(&self) -> Listing<'_> {
        (&self.listed.containers, &self.runtime)
    }

    fn sandbox_listing(&self) -> Listing<'_> {
        (&self.listed.sandboxes, &self.runtime)
    }

    fn image_listing(&self) -> Listing<'_> {
        (&self.listed.images, &self.images)
    }

    /// Lists all objects of one kind, and records the connection of the listing.
    async fn list<Q, A, W, T, F>(
        &self,
        (listed, socket): Listing<'_>,
        method: Method,
        message: Q,
        send: impl Fn(Connection, Request<Q>) -> F,
        entries: impl FnOnce(A) -> Vec<W>,
        read: impl Fn(W) -> Result<T, String>,
    ) -> Result<Vec<Arc<T>>, RuntimeError>
    where
        Q: Clone,
        T: Keyed,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let (response, connection) = socket.read(method, "", message, send).await?;
        let facts = read::listing(method.name, entries(response), read)?;
        record_listing(listed, connection);
        Ok(facts)
    }

    /// Sends a write that stops or removes an object. It succeeds if the object does not exist. An empty id
    /// is an error and not sent, because a runtime may treat it as a prefix of every id. The write is sent to
    /// the socket of the first of the `listings` that it depends on. It is not sent if one of them did not
    /// use the current connection.
    async fn write<Q, A, F>(
        &self,
        listings: &[Listing<'_>],
        (name, id, grace): (&'static str, &str, Duration),
        message: Q,
        send: impl FnOnce(Connection, Request<Q>) -> F,
    ) -> Result<(), RuntimeError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        if id.is_empty() {
            return Err(RuntimeError::refused(format!("{name}: the id is empty")));
        }
        let method = Method::writes(name);
        // Before the check, so that the request cannot use a connection that is created after it.
        let connection = listings[0].1.connection();
        if let Some((_, socket)) = listings
            .iter()
            .find(|(listed, socket)| !is_current(listed, socket))
        {
            return Err(socket.closed().into_error(method));
        }
        let timeout = self.options.request_timeout.saturating_add(grace);
        let response = call(method, id, timeout, message, |request| send(connection, request)).await;
        match response.map_err(|failure| failure.into_error(method)) {
            Ok(_) | Err(RuntimeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Runtime for CriRuntime {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.list(
            self.container_listing(),
            Method::reads("ListContainers"),
            ListContainersRequest {},
            |mut connection, request| async move { connection.runtime.list_containers(request).await },
            |response| response.containers,
            read::container,
        )
        .await
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.list(
            self.sandbox_listing(),
            Method::reads("ListPodSandbox"),
            ListPodSandboxRequest {},
            |mut connection, request| async move { connection.runtime.list_pod_sandbox(request).await },
            |response| response.items,
            read::sandbox,
        )
        .await
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        self.list(
            self.image_listing(),
            Method::reads("ListImages"),
            ListImagesRequest {},
            |mut connection, request| async move { connection.images.list_images(request).await },
            |response| response.images,
            read::image,
        )
        .await
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        self.first_image_file_system().await
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        let method = Method::reads("ContainerStatus");
        let message = ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose: false,
        };
        let response = self
            .runtime
            .read(method, id, message, |mut connection, request| async move {
                connection.runtime.container_status(request).await
            });
        Ok(response.await?.0.status.map(read::status))
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        let method = Method::reads("ImageStatus");
        let message = ImageStatusRequest {
            image: Some(image_spec(reference, "")),
            verbose: false,
        };
        let response = self
            .images
            .read(method, reference, message, |mut connection, request| async move {
                connection.images.image_status(request).await
            });
        match response.await {
            Ok((response, _)) => read::image_id(reference, response.image)
                .map_err(|problem| read::incomplete(method.name, &problem)),
            Err(RuntimeError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As upstream, the timeout is longer by the grace period.
    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        let message = StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::from(grace_seconds),
        };
        let grace = Duration::from_secs(u64::from(grace_seconds));
        self.write(
            &[self.container_listing()],
            ("StopContainer", id, grace),
            message,
            |mut connection, request| async move { connection.runtime.stop_container(request).await },
        )
        .await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let message = RemoveContainerRequest {
            container_id: id.to_owned(),
        };
        self.write(
            &[self.container_listing()],
            ("RemoveContainer", id, Duration::ZERO),
            message,
            |mut connection, request| async move { connection.runtime.remove_container(request).await },
        )
        .await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let message = StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        self.write(
            &[self.sandbox_listing(), self.container_listing()],
            ("StopPodSandbox", id, Duration::ZERO),
            message,
            |mut connection, request| async move { connection.runtime.stop_pod_sandbox(request).await },
        )
        .await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let message = RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        self.write(
            &[self.sandbox_listing(), self.container_listing()],
            ("RemovePodSandbox", id, Duration::ZERO),
            message,
            |mut connection, request| async move { connection.runtime.remove_pod_sandbox(request).await },
        )
        .await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        let message = RemoveImageRequest {
            image: Some(image_spec(id, runtime_handler)),
        };
        self.write(
            &[self.image_listing(), self.container_listing()],
            ("RemoveImage", id, Duration::ZERO),
            message,
            |mut connection, request| async move { connection.images.remove_image(request).await },
        )
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
