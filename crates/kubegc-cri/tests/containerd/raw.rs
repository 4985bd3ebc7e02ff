//! CRI without the client under test: raw listings, and the calls that start sandboxes and containers.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::{
    Request, Status,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::daemon::SOCKET;
pub(crate) use crate::wire as cri;

/// A connection to the daemon; after a restart it reconnects.
#[derive(Clone, Debug)]
pub(crate) struct Raw(Channel);

impl Raw {
    pub(crate) fn new() -> Self {
        let connect = |_| async { UnixStream::connect(SOCKET).await.map(TokioIo::new) };
        let endpoint = Endpoint::from_static("http://containerd").timeout(Duration::from_secs(60));
        Self(endpoint.connect_with_connector_lazy(tower::service_fn(connect)))
    }

    /// Calls the runtime service.
    pub(crate) async fn runtime<Q, A>(&self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call("RuntimeService", method, request).await
    }

    /// Calls the image service.
    pub(crate) async fn images<Q, A>(&self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call("ImageService", method, request).await
    }

    async fn call<Q, A>(&self, service: &str, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut client = Grpc::new(self.0.clone());
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = PathAndQuery::try_from(format!("/runtime.v1.{service}/{method}"));
        let path = path.expect("names of methods make a path");
        let response = client.unary(Request::new(request), path, ProstCodec::<Q, A>::default());
        Ok(response.await?.into_inner())
    }

    pub(crate) async fn containers(&self) -> Vec<cri::Container> {
        let response: Result<cri::ListContainersResponse, _> = self
            .runtime("ListContainers", cri::ListContainersRequest {})
            .await;
        response.expect("the daemon responds").containers
    }

    pub(crate) async fn sandboxes(&self) -> Vec<cri::PodSandbox> {
        let response: Result<cri::ListPodSandboxResponse, _> = self
            .runtime("ListPodSandbox", cri::ListPodSandboxRequest {})
            .await;
        response.expect("the daemon responds").items
    }

    pub(crate) async fn listed_images(&self) -> Vec<cri::Image> {
        let response: Result<cri::ListImagesResponse, _> =
            self.images("ListImages", cri::ListImagesRequest {}).await;
        response.expect("the daemon responds").images
    }
}
