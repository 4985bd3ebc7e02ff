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
    read::{self, InvalidEntry, Keyed},
    socket::{Connection, Socket, is_current, record_listing},
};

impl CriRuntime {
    /// Lists all objects of one kind, and records the connection of the listing.
    async fn list<Q, A, W, T, F>(
        &self,
        (socket, listed): (&Socket, &AtomicU64),
        method: Method,
        message: Q,
        send: impl Fn(Connection, Request<Q>) -> F,
        entries: impl FnOnce(A) -> Vec<W>,
        read: impl Fn(W) -> Result<T, InvalidEntry>,
    ) -> Result<Vec<Arc<T>>, RuntimeError>
    where
        Q: Clone,
        T: Keyed,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let response = socket.read(method, "", self.request_timeout, message, send).await;
        let (response, connection) = response.map_err(|failure| failure.into_error(method))?;
        let facts = read::listing(method.name, entries(response), read)?;
        record_listing(listed, connection);
        Ok(facts)
    }

    /// Sends a write that stops or removes an object. It succeeds if the object does not exist. An empty id
    /// is an error and not sent, because a runtime may treat it as a prefix of every id. The write is not
    /// sent either if one of the `listings` that it depends on, each with its socket, did not use the current
    /// connection.
    async fn write<Q, A, F>(
        &self,
        socket: &Socket,
        listings: &[(&AtomicU64, &Socket)],
        (method, id, timeout): (Method, &str, Duration),
        message: Q,
        send: impl FnOnce(Connection, Request<Q>) -> F,
    ) -> Result<(), RuntimeError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        if id.is_empty() {
            return Err(RuntimeError::refused(format!("{}: the id is empty", method.name)));
        }
        // Before the check, so that the request cannot use a connection that is created after it.
        let connection = socket.connection();
        if let Some((_, socket)) = listings
            .iter()
            .find(|(listed, socket)| !is_current(listed, socket))
        {
            return Err(socket.closed().into_error(method));
        }
        let response = call(method, id, timeout, message, |request| send(connection, request)).await;
        match response.map_err(|failure| failure.into_error(method)) {
            Ok(_) | Err(RuntimeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a write to a container.
    async fn write_container<Q, A, F>(
        &self,
        call: (Method, &str, Duration),
        message: Q,
        send: impl FnOnce(Connection, Request<Q>) -> F,
    ) -> Result<(), RuntimeError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let socket = &*self.runtime;
        let listings = [(&self.listed.containers, socket)];
        self.write(socket, &listings, call, message, send).await
    }

    /// Sends a write to a sandbox. It also affects the containers in the sandbox.
    async fn write_sandbox<Q, A, F>(
        &self,
        call: (Method, &str, Duration),
        message: Q,
        send: impl FnOnce(Connection, Request<Q>) -> F,
    ) -> Result<(), RuntimeError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let socket = &*self.runtime;
        let listings = [
            (&self.listed.sandboxes, socket),
            (&self.listed.containers, socket),
        ];
        self.write(socket, &listings, call, message, send).await
    }
}

#[async_trait]
impl Runtime for CriRuntime {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.list(
            (&self.runtime, &self.listed.containers),
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
            (&self.runtime, &self.listed.sandboxes),
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
            (&self.images, &self.listed.images),
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
        let (response, _) = self
            .runtime
            .read(
                method,
                id,
                self.request_timeout,
                message,
                |mut connection, request| async move { connection.runtime.container_status(request).await },
            )
            .await
            .map_err(|failure| failure.into_error(method))?;
        Ok(response.status.map(read::status))
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        let method = Method::reads("ImageStatus");
        let message = ImageStatusRequest {
            image: Some(image_spec(reference, "")),
            verbose: false,
        };
        let response = self
            .images
            .read(
                method,
                reference,
                self.request_timeout,
                message,
                |mut connection, request| async move { connection.images.image_status(request).await },
            )
            .await
            .map_err(|failure| failure.into_error(method));
        match response {
            Ok((response, _)) => {
                read::image_id(reference, response.image).map_err(|invalid| invalid.into_error(method.name))
            }
            Err(RuntimeError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As upstream, the timeout is longer by the grace period.
    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        let method = Method::writes("StopContainer");
        let message = StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::from(grace_seconds),
        };
        let grace = Duration::from_secs(u64::from(grace_seconds));
        let timeout = self.request_timeout.saturating_add(grace);
        self.write_container(
            (method, id, timeout),
            message,
            |mut connection, request| async move { connection.runtime.stop_container(request).await },
        )
        .await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemoveContainer");
        let message = RemoveContainerRequest {
            container_id: id.to_owned(),
        };
        self.write_container(
            (method, id, self.request_timeout),
            message,
            |mut connection, request| async move { connection.runtime.remove_container(request).await },
        )
        .await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("StopPodSandbox");
        let message = StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        self.write_sandbox(
            (method, id, self.request_timeout),
            message,
            |mut connection, request| async move { connection.runtime.stop_pod_sandbox(request).await },
        )
        .await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemovePodSandbox");
        let message = RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        self.write_sandbox(
            (method, id, self.request_timeout),
            message,
            |mut connection, request| async move { connection.runtime.remove_pod_sandbox(request).await },
        )
        .await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemoveImage");
        let message = RemoveImageRequest {
            image: Some(image_spec(id, runtime_handler)),
        };
        let listings = [
            (&self.listed.images, &*self.images),
            (&self.listed.containers, &*self.runtime),
        ];
        let call = (method, id, self.request_timeout);
        self.write(
            &self.images,
            &listings,
            call,
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
