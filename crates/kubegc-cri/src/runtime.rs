//! The runtime as a collector uses it.

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
    read::{self, Flaw, Listed},
    socket::{Link, Socket, holds, note},
};

impl CriRuntime {
    /// Lists everything of one kind, and records the connection of the listing.
    async fn list<Q, A, W, T, F>(
        &self,
        (socket, listed): (&Socket, &AtomicU64),
        method: Method,
        message: Q,
        send: impl Fn(Link, Request<Q>) -> F,
        entries: impl FnOnce(A) -> Vec<W>,
        read: impl Fn(W) -> Result<T, Flaw>,
    ) -> Result<Vec<Arc<T>>, RuntimeError>
    where
        Q: Clone,
        T: Listed,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let response = socket.read(method, "", self.request_timeout, message, send).await;
        let (response, connection) = response.map_err(|failure| failure.of(method))?;
        let facts = read::listing(method.name, entries(response), read)?;
        note(listed, connection);
        Ok(facts)
    }

    /// Stops or removes; succeeds if the object no longer exists. Without an id nothing is sent, because a
    /// runtime may treat it as a prefix of every id. Nothing is sent either if the listings behind the call,
    /// each kind with its socket, were on another connection than the last.
    async fn change<Q, A, F>(
        &self,
        socket: &Socket,
        rests_on: &[(&AtomicU64, &Socket)],
        (method, id, timeout): (Method, &str, Duration),
        message: Q,
        send: impl FnOnce(Link, Request<Q>) -> F,
    ) -> Result<(), RuntimeError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        if id.is_empty() {
            return Err(RuntimeError::refused(format!("{}: the id is empty", method.name)));
        }
        // Read before the comparison: a connection that is made in between is not the one that the call uses.
        let link = socket.link();
        if let Some((_, socket)) = rests_on.iter().find(|(listed, socket)| !holds(listed, socket)) {
            return Err(socket.closed().of(method));
        }
        let response = call(method, id, timeout, message, |request| send(link, request)).await;
        match response.map_err(|failure| failure.of(method)) {
            Ok(_) | Err(RuntimeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Changes a container.
    async fn change_container<Q, A, F>(
        &self,
        call: (Method, &str, Duration),
        message: Q,
        send: impl FnOnce(Link, Request<Q>) -> F,
    ) -> Result<(), RuntimeError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let socket = &*self.runtime;
        let rests_on = [(&self.listed.containers, socket)];
        self.change(socket, &rests_on, call, message, send).await
    }

    /// Changes a sandbox, and the containers in it.
    async fn change_sandbox<Q, A, F>(
        &self,
        call: (Method, &str, Duration),
        message: Q,
        send: impl FnOnce(Link, Request<Q>) -> F,
    ) -> Result<(), RuntimeError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let socket = &*self.runtime;
        let rests_on = [
            (&self.listed.sandboxes, socket),
            (&self.listed.containers, socket),
        ];
        self.change(socket, &rests_on, call, message, send).await
    }
}

#[async_trait]
impl Runtime for CriRuntime {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.list(
            (&self.runtime, &self.listed.containers),
            Method::reads("ListContainers"),
            ListContainersRequest {},
            |mut link, request| async move { link.runtime.list_containers(request).await },
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
            |mut link, request| async move { link.runtime.list_pod_sandbox(request).await },
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
            |mut link, request| async move { link.images.list_images(request).await },
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
                |mut link, request| async move { link.runtime.container_status(request).await },
            )
            .await
            .map_err(|failure| failure.of(method))?;
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
                |mut link, request| async move { link.images.image_status(request).await },
            )
            .await
            .map_err(|failure| failure.of(method));
        match response {
            Ok((response, _)) => {
                read::image_id(reference, response.image).map_err(|flaw| flaw.of(method.name))
            }
            Err(RuntimeError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The call may additionally take the grace period, as upstream does.
    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        let method = Method::writes("StopContainer");
        let message = StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::from(grace_seconds),
        };
        let grace = Duration::from_secs(u64::from(grace_seconds));
        let timeout = self.request_timeout.saturating_add(grace);
        self.change_container((method, id, timeout), message, |mut link, request| async move {
            link.runtime.stop_container(request).await
        })
        .await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemoveContainer");
        let message = RemoveContainerRequest {
            container_id: id.to_owned(),
        };
        self.change_container(
            (method, id, self.request_timeout),
            message,
            |mut link, request| async move { link.runtime.remove_container(request).await },
        )
        .await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("StopPodSandbox");
        let message = StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        self.change_sandbox(
            (method, id, self.request_timeout),
            message,
            |mut link, request| async move { link.runtime.stop_pod_sandbox(request).await },
        )
        .await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemovePodSandbox");
        let message = RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        self.change_sandbox(
            (method, id, self.request_timeout),
            message,
            |mut link, request| async move { link.runtime.remove_pod_sandbox(request).await },
        )
        .await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        let method = Method::writes("RemoveImage");
        let message = RemoveImageRequest {
            image: Some(image_spec(id, runtime_handler)),
        };
        let rests_on = [
            (&self.listed.images, &*self.images),
            (&self.listed.containers, &*self.runtime),
        ];
        let call = (method, id, self.request_timeout);
        self.change(
            &self.images,
            &rests_on,
            call,
            message,
            |mut link, request| async move { link.images.remove_image(request).await },
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
