//! Connects to a runtime, and checks that it serves CRI v1.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tonic::{Code, client::Grpc, transport::Channel};

use crate::{
    ConnectError, Endpoint, Options, RuntimeVersion,
    bindings::{ImageFsInfoRequest, ImageFsInfoResponse, VersionRequest, VersionResponse},
    call::{Failure, Method, NotSent, call},
    file_systems::{METHOD, Measurements},
    socket::{Listing, Socket},
};

/// The version of the kubelet's runtime API, a field of the `Version` request.
const KUBELET_API_VERSION: &str = "0.1.0";

/// A CRI client: a container runtime at a unix socket.
///
/// Clones share the connection, and the record of which connection each listing used.
///
/// # Guarantees
/// A listing is complete or an error. Every request has a deadline. The future of a request can be dropped at
/// any time; then the next listing shows whether a write was performed. This type makes no decisions: if
/// requested, a runtime removes a running container, or an image in use.
///
/// If the connection broke, the next read opens a new one, because the runtime may have been restarted. A
/// write does not: unless the listings that it depends on used the current connection, it is not sent, and
/// fails with [`Refused`](kubegc_core::RuntimeError::Refused). Stopping and removing containers depends on
/// the listing of containers; removing sandboxes on those of sandboxes and containers; removing images on
/// those of images and containers. Objects that were never listed are not checked.
///
/// # Assumptions
/// It is used within the tokio runtime in which it was connected, with I/O and time enabled.
///
/// A reopened connection is not checked again: any process that listens on the socket is assumed to be a
/// runtime, and [`version`](Self::version) does not change. All callers share the record of listings. If
/// another caller, such as a pod source, lists on a new connection while a plan is being performed, the
/// remaining actions use the new connection. Ids of containers and sandboxes are random, so they match no
/// object of another runtime. Ids of images can match.
#[derive(Clone, Debug)]
pub struct CriRuntime {
    pub(crate) containers: Arc<Listing>,
    pub(crate) sandboxes: Arc<Listing>,
    /// Its socket is that of the others unless images have another endpoint.
    pub(crate) images: Arc<Listing>,
    pub(crate) options: Arc<Options>,
    pub(crate) measurements: Arc<Measurements>,
    version: RuntimeVersion,
}

impl CriRuntime {
    /// Connects to a runtime, and checks that it serves the runtime service and the image service of CRI v1.
    ///
    /// # Errors
    /// The socket cannot be opened; there is no response within the timeout; a service of CRI v1 is not
    /// served; the response to `Version` lacks a required field.
    ///
    /// # Upstream
    /// `NewRemoteRuntimeService` and `NewRemoteImageService` of `cri-client/pkg` (1.31; before,
    /// `kubelet/cri/remote`): both call `Version` and `ImageFsInfo` first. There any error of `ImageFsInfo`
    /// is a connection error. Here an error response of the runtime is not, because later requests report it.
    pub async fn connect(endpoint: &Endpoint, options: Options) -> Result<Self, ConnectError> {
        let options = Arc::new(options);
        let image_endpoint = options.image_endpoint.as_ref().unwrap_or(endpoint);
        let runtime = Arc::new(Socket::new(endpoint, &options));
        let images = if image_endpoint == endpoint {
            Arc::clone(&runtime)
        } else {
            Arc::new(Socket::new(image_endpoint, &options))
        };
        let version = version(endpoint, &runtime.connection().client, options.connect_timeout).await?;
        let client = images.connection().client;
        check_image_service(image_endpoint, &client, options.request_timeout).await?;
        let connected = Self {
            containers: Listing::new(&runtime),
            sandboxes: Listing::new(&runtime),
            images: Listing::new(&images),
            options,
            measurements: Arc::default(),
            version,
        };
        tracing::debug!(%endpoint, version = %connected.version, "connected");
        Ok(connected)
    }

    /// Connects to the runtime at one of the default sockets ([`Endpoint::KNOWN`]).
    ///
    /// # Errors
    /// [`ConnectError::NoRuntime`] if there is no runtime, with the error of each socket;
    /// [`ConnectError::Ambiguous`] if there are several; [`ConnectError::Undetermined`] if there is one, and
    /// the error of another socket does not show whether a runtime listens there.
    pub async fn detect(options: Options) -> Result<(Endpoint, Self), ConnectError> {
        Self::detect_among(&Endpoint::known(), options).await
    }

    /// Connects to the runtime at one of these sockets. Paths that resolve to the same socket are tried once.
    ///
    /// # Errors
    /// As [`detect`](Self::detect).
    pub async fn detect_among(
        endpoints: &[Endpoint],
        options: Options,
    ) -> Result<(Endpoint, Self), ConnectError> {
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut errors = Vec::new();
        let mut found: Vec<(Endpoint, Self)> = Vec::new();
        for endpoint in endpoints {
            if let Ok(path) = tokio::fs::canonicalize(endpoint.path()).await {
                if seen.contains(&path) {
                    continue;
                }
                seen.push(path);
            }
            match Self::connect(endpoint, options.clone()).await {
                Ok(connected) => found.push((endpoint.clone(), connected)),
                Err(error) => errors.push(error),
            }
        }
        let Some(last) = found.pop() else {
            return Err(ConnectError::NoRuntime { tried: errors });
        };
        errors.retain(|error| !error.means_no_runtime());
        if found.is_empty() && errors.is_empty() {
            return Ok(last);
        }
        found.push(last);
        let reported = |(endpoint, connected): (Endpoint, Self)| (endpoint, connected.version);
        let found = found.into_iter().map(reported).collect();
        Err(if errors.is_empty() {
            ConnectError::Ambiguous { found }
        } else {
            ConnectError::Undetermined {
                found,
                undetermined: errors,
            }
        })
    }

    /// The runtime's response to `Version`, requested by [`connect`](Self::connect).
    pub const fn version(&self) -> &RuntimeVersion {
        &self.version
    }
}

/// Calls `Version`. Upstream's `getVersion` requires the same four fields.
async fn version(
    endpoint: &Endpoint,
    client: &Grpc<Channel>,
    timeout: Duration,
) -> Result<RuntimeVersion, ConnectError> {
    let request = VersionRequest {
        version: KUBELET_API_VERSION.to_owned(),
    };
    let method = Method::of_runtime("Version");
    let reported: VersionResponse = call(client, method, "", timeout, request)
        .await
        .map_err(|failure| failed(endpoint, method, timeout, failure))?;
    let version = RuntimeVersion {
        name: reported.runtime_name.into(),
        version: reported.runtime_version.into(),
        api_version: reported.runtime_api_version.into(),
    };
    let path = endpoint.path().to_owned();
    let empty = [
        ("version", &*reported.version),
        ("runtime_name", &version.name),
        ("runtime_version", &version.version),
        ("runtime_api_version", &version.api_version),
    ]
    .into_iter()
    .find(|(_, value)| value.is_empty());
    if let Some((field, _)) = empty {
        return Err(ConnectError::IncompleteResponse { path, field, version });
    }
    // cri-dockerd reports Docker's version here, such as 1.41.0; a version with the prefix `v` is one of
    // CRI's.
    if version.api_version.starts_with('v') && &*version.api_version != "v1" {
        return Err(ConnectError::WrongVersion { path, version });
    }
    Ok(version)
}

/// Checks that the image service is served. An error response of the service itself is ignored.
async fn check_image_service(
    endpoint: &Endpoint,
    client: &Grpc<Channel>,
    timeout: Duration,
) -> Result<(), ConnectError> {
    let response = call::<_, ImageFsInfoResponse>(client, METHOD, "", timeout, ImageFsInfoRequest {});
    match response.await {
        Err(failure) if failure.no_response || failure.code == Code::Unimplemented => {
            Err(failed(endpoint, METHOD, timeout, failure))
        }
        _ => Ok(()),
    }
}

/// The error for a failed request of the connection check.
fn failed(endpoint: &Endpoint, method: Method, waited: Duration, failure: Failure) -> ConnectError {
    let path = endpoint.path().to_owned();
    match failure.code {
        Code::Unimplemented => ConnectError::WrongApi {
            path,
            service: method.service,
            message: match failure.message {
                empty if empty.is_empty() => "unimplemented".to_owned(),
                message => message,
            },
        },
        Code::DeadlineExceeded => ConnectError::Timeout { path, waited },
        _ => {
            let message = failure.to_string();
            match failure.not_sent {
                Some(NotSent::Closed(error)) => error,
                Some(NotSent::Disconnected { .. }) | None => ConnectError::Handshake {
                    path,
                    operation: method.name,
                    message,
                },
            }
        }
    }
}
