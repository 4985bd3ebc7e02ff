//! CRI without the client under test: raw listings, and the calls and messages that start sandboxes and
//! containers.

use std::{collections::BTreeMap, time::Duration};

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

pub(crate) use crate::wire as cri;
use crate::{
    daemon::SOCKET,
    wire::{ContainerMetadata, ImageSpec, PodSandboxMetadata},
};

/// A connection to the daemon; after a restart it reconnects.
#[derive(Clone, Debug)]
pub(crate) struct Raw(Channel);

impl Raw {
    pub(crate) fn new() -> Self {
        let connect = |_| async { UnixStream::connect(SOCKET).await.map(TokioIo::new) };
        let endpoint = Endpoint::from_static("http://containerd").timeout(Duration::from_secs(60));
        Self(endpoint.connect_with_connector_lazy(tower::service_fn(connect)))
    }

    /// Calls a method of a service.
    pub(crate) async fn call<Q, A>(&self, service: &str, method: &str, request: Q) -> Result<A, Status>
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

    /// Calls a method of the runtime service, which succeeds.
    pub(crate) async fn runtime<Q, A>(&self, method: &str, request: Q) -> A
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let response = self.call("RuntimeService", method, request).await;
        response.unwrap_or_else(|status| panic!("{method}: {status}"))
    }

    pub(crate) async fn containers(&self) -> Vec<cri::Container> {
        let request = cri::ListContainersRequest {};
        let response: cri::ListContainersResponse = self.runtime("ListContainers", request).await;
        response.containers
    }

    pub(crate) async fn sandboxes(&self) -> Vec<cri::PodSandbox> {
        let request = cri::ListPodSandboxRequest {};
        let response: cri::ListPodSandboxResponse = self.runtime("ListPodSandbox", request).await;
        response.items
    }

    pub(crate) async fn listed_images(&self) -> Vec<cri::Image> {
        let request = cri::ListImagesRequest {};
        let response: Result<cri::ListImagesResponse, _> =
            self.call("ImageService", "ListImages", request).await;
        response.expect("the daemon responds").images
    }
}

// The messages that start sandboxes and containers, with the fields that these tests set. Names and numbers
// are those of `kubernetes/cri-api`.

/// `NamespaceMode.NODE`.
pub(crate) const NODE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamespaceOption {
    /// A `NamespaceMode`.
    #[prost(int32, tag = "1")]
    pub(crate) network: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxSandboxSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub(crate) namespace_options: Option<NamespaceOption>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxPodSandboxConfig {
    #[prost(string, tag = "1")]
    pub(crate) cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) security_context: Option<LinuxSandboxSecurityContext>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "3")]
    pub(crate) log_directory: String,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub(crate) linux: Option<LinuxPodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RunPodSandboxResponse {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) command: Vec<String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "10")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(string, tag = "11")]
    pub(crate) log_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub(crate) sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateContainerResponse {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StartContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StartContainerResponse {}
