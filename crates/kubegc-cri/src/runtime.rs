//! The implementation of [`Runtime`] over CRI.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kubegc_core::{
    Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, Sandbox},
};
use prost::Message;

use crate::{
    CriRuntime, FileSystems, MountedFileSystem,
    bindings::{
        ContainerStatusRequest, ContainerStatusResponse, FilesystemUsage, ImageFsInfoRequest,
        ImageFsInfoResponse, ImageSpec, ImageStatusRequest, ImageStatusResponse, ListContainersRequest,
        ListContainersResponse, ListImagesRequest, ListImagesResponse, ListPodSandboxRequest,
        ListPodSandboxResponse, RemoveContainerRequest, RemoveImageRequest, RemovePodSandboxRequest,
        StopContainerRequest, StopPodSandboxRequest,
    },
    call::{Method, call},
    file_systems::METHOD,
    read::{self, Keyed},
    socket::Listing,
};

impl CriRuntime {
    /// Measures all file systems that the runtime reports, and returns them in the order of the response.
    ///
    /// # Errors
    /// The request failed, or a measurement took longer than the request timeout: the server of a network
    /// file system may be unavailable. All clones together measure one file system at a time. If a
    /// measurement is blocked for longer than the timeout, further ones fail immediately.
    ///
    /// # Upstream
    /// `ImageFsStats` of `stats/cri_stats_provider.go`. There, capacity and available bytes are also missing
    /// if the directory does not exist, or is on no known device.
    pub async fn file_systems(&self) -> Result<FileSystems, RuntimeError> {
        let usages = self.usages().await?;
        Ok(FileSystems {
            images: self.measured(usages.image_filesystems).await?,
            containers: self.measured(usages.container_filesystems).await?,
        })
    }

    async fn measured(&self, usages: Vec<FilesystemUsage>) -> Result<Vec<MountedFileSystem>, RuntimeError> {
        let mut mounted = Vec::with_capacity(usages.len());
        for usage in usages {
            mounted.push(self.measurements.measure(usage, &self.options).await?);
        }
        Ok(mounted)
    }

    async fn usages(&self) -> Result<ImageFsInfoResponse, RuntimeError> {
        let (response, _) = self.images.socket.read(METHOD, "", ImageFsInfoRequest {}).await?;
        Ok(response)
    }

    /// Lists all objects of one kind, and records the connection of the listing.
    async fn list<Q, A, W, T>(
        &self,
        listing: &Listing,
        method: Method,
        message: Q,
        entries: impl FnOnce(A) -> Vec<W>,
        read: impl Fn(W) -> Result<T, String>,
    ) -> Result<Vec<Arc<T>>, RuntimeError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
        T: Keyed,
    {
        let (response, connection) = listing.socket.read(method, "", message).await?;
        let facts = read::listing(method.name, entries(response), read)?;
        listing.record(connection);
        Ok(facts)
    }

    /// Sends a write that stops or removes an object. It succeeds if the object does not exist. An empty id
    /// is an error and not sent, because a runtime may treat it as a prefix of every id. The write is sent to
    /// the socket of the first of the `listings` that it depends on. It is not sent if one of them did not
    /// use the current connection.
    async fn write(
        &self,
        method: Method,
        (id, grace): (&str, Duration),
        listings: &[&Listing],
        message: impl Message + 'static,
    ) -> Result<(), RuntimeError> {
        if id.is_empty() {
            return Err(RuntimeError::refused(format!("{}: the id is empty", method.name)));
        }
        // Before the check, so that the request cannot use a connection that is created after it.
        let connection = listings[0].socket.connection();
        if let Some(listing) = listings.iter().find(|listing| !listing.is_current()) {
            return Err(listing.socket.closed().of_write(method));
        }
        let timeout = self.options.request_timeout.saturating_add(grace);
        let response = call(&connection.client, method, id, timeout, message).await;
        match response.map_err(|failure| failure.of_write(method)) {
            // The responses to writes are empty messages.
            Ok(()) | Err(RuntimeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Runtime for CriRuntime {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        let method = Method::of_runtime("ListContainers");
        let entries = |response: ListContainersResponse| response.containers;
        let message = ListContainersRequest {};
        self.list(&self.containers, method, message, entries, read::container)
            .await
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        let method = Method::of_runtime("ListPodSandbox");
        let entries = |response: ListPodSandboxResponse| response.items;
        let message = ListPodSandboxRequest {};
        self.list(&self.sandboxes, method, message, entries, read::sandbox)
            .await
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        let method = Method::of_images("ListImages");
        let entries = |response: ListImagesResponse| response.images;
        let message = ListImagesRequest {};
        self.list(&self.images, method, message, entries, read::image)
            .await
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        match self.usages().await?.image_filesystems.into_iter().next() {
            Some(first) => Ok(self.measurements.measure(first, &self.options).await?.file_system),
            None => Err(RuntimeError::refused("imageFs information is unavailable")),
        }
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        let method = Method::of_runtime("ContainerStatus");
        let message = ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose: false,
        };
        let (response, _) = self
            .containers
            .socket
            .read::<_, ContainerStatusResponse>(method, id, message)
            .await?;
        Ok(response.status.map(read::status))
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        let method = Method::of_images("ImageStatus");
        let message = ImageStatusRequest {
            image: Some(image_spec(reference, "")),
            verbose: false,
        };
        let response = self
            .images
            .socket
            .read::<_, ImageStatusResponse>(method, reference, message);
        match response.await {
            Ok((response, _)) => read::image_id(reference, response.image)
                .map_err(|problem| read::incomplete(method.name, &problem)),
            Err(RuntimeError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As upstream, the timeout is longer by the grace period.
    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        let method = Method::of_runtime("StopContainer");
        let message = StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::from(grace_seconds),
        };
        let grace = Duration::from_secs(u64::from(grace_seconds));
        self.write(method, (id, grace), &[&self.containers], message)
            .await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::of_runtime("RemoveContainer");
        let container_id = id.to_owned();
        let message = RemoveContainerRequest { container_id };
        let listings = [&*self.containers];
        self.write(method, (id, Duration::ZERO), &listings, message).await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::of_runtime("StopPodSandbox");
        let pod_sandbox_id = id.to_owned();
        let message = StopPodSandboxRequest { pod_sandbox_id };
        let listings = [&*self.sandboxes, &self.containers];
        self.write(method, (id, Duration::ZERO), &listings, message).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let method = Method::of_runtime("RemovePodSandbox");
        let pod_sandbox_id = id.to_owned();
        let message = RemovePodSandboxRequest { pod_sandbox_id };
        let listings = [&*self.sandboxes, &self.containers];
        self.write(method, (id, Duration::ZERO), &listings, message).await
    }

    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        let method = Method::of_images("RemoveImage");
        let image = Some(image_spec(id, runtime_handler));
        let message = RemoveImageRequest { image };
        let listings = [&*self.images, &self.containers];
        self.write(method, (id, Duration::ZERO), &listings, message).await
    }
}

fn image_spec(image: &str, runtime_handler: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
        runtime_handler: runtime_handler.to_owned(),
        ..ImageSpec::default()
    }
}
