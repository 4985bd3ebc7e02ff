//! Opens a connection to a runtime, and checks that it serves the interface that kubegc needs.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use tonic::{Code, transport::Channel};

use crate::{
    ConnectError, Endpoint, Options,
    bindings::{
        ImageFsInfoRequest, VersionRequest, image_service_client::ImageServiceClient,
        runtime_service_client::RuntimeServiceClient,
    },
    call::{Failure, Method, call},
    file_systems::Measuring,
    socket::{Listed, Socket, Unreached},
};

/// The version of the kubelet's side, which every request for the runtime's carries.
const KUBELET_API_VERSION: &str = "0.1.0";

/// A container runtime behind a unix socket, spoken to as the kubelet does.
///
/// Clones share the connection, and the record of its listings.
///
/// # Guarantees
/// A listing is complete or an error. Every call ends by its deadline. A call may be dropped at any time: the
/// data of a read is lost, and the next listing shows whether a write was performed. This type decides
/// nothing: a runtime removes a running container, or an image in use, on request.
///
/// After a broken connection, the next call that reads opens another, so that a runtime that was restarted on
/// the same socket is reached. A call that writes does not. It uses the connection of the listings behind it,
/// or is [`Refused`](kubegc_core::RuntimeError::Refused) unsent. Stopping and removing containers depends on
/// the listing of containers; removing sandboxes on those of sandboxes and containers; removing images on
/// those of images and containers. A kind that was never listed blocks nothing.
///
/// # Assumptions
/// It is used within the tokio runtime in which it was connected, with I/O and time enabled.
///
/// A new connection has no handshake: any process that listens by then is assumed to be a runtime, and
/// [`version`](Self::version) does not change. Listings count whichever caller requested them. If another
/// caller, a second collector or a source of pods, lists on a new connection while an earlier plan is being
/// performed, the rest of the plan uses the new one. Ids of containers and sandboxes are drawn at random, so
/// that they match nothing in another runtime; ids of images are not.
#[derive(Clone, Debug)]
pub struct CriRuntime {
    pub(crate) runtime: Arc<Socket>,
    /// The same socket, unless images have another endpoint.
    pub(crate) images: Arc<Socket>,
    pub(crate) listed: Arc<Listed>,
    pub(crate) request_timeout: Duration,
    pub(crate) host_root: Arc<PathBuf>,
    pub(crate) measuring: Arc<Measuring>,
    version: RuntimeVersion,
}

/// A runtime's response to `Version`.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuntimeVersion {
    /// Name, such as `containerd` or `cri-o`.
    pub name: Arc<str>,
    /// Version of the runtime.
    pub version: Arc<str>,
    /// Version of CRI: `v1`. cri-dockerd reports the version of Docker's API instead.
    pub api_version: Arc<str>,
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (CRI {})", self.name, self.version, self.api_version)
    }
}

impl CriRuntime {
    /// Connects to a runtime, and checks that it serves the required services.
    ///
    /// # Errors
    /// The socket cannot be opened; there is no response in time; CRI v1 is not served, neither by the
    /// runtime nor, for images, at [`Options::image_endpoint`]; the response to `Version` lacks a required
    /// field.
    ///
    /// # Upstream
    /// `NewRemoteRuntimeService` and `NewRemoteImageService` of `cri-client/pkg` (1.31; before,
    /// `kubelet/cri/remote`): `Version` and `ImageFsInfo` are called first. There any error of `ImageFsInfo`
    /// fails. Here an error that the runtime itself reports does not, because later calls report it again.
    pub async fn connect(endpoint: &Endpoint, options: Options) -> Result<Self, ConnectError> {
        let image_endpoint = options.image_endpoint.as_ref().unwrap_or(endpoint);
        let runtime = Arc::new(Socket::new(endpoint, &options));
        let images = if image_endpoint == endpoint {
            Arc::clone(&runtime)
        } else {
            Arc::new(Socket::new(image_endpoint, &options))
        };
        let version = version(endpoint, runtime.link().runtime, options.connect_timeout).await?;
        serves_images(image_endpoint, images.link().images, options.request_timeout).await?;
        let connected = Self {
            runtime,
            images,
            listed: Arc::default(),
            request_timeout: options.request_timeout,
            host_root: Arc::new(options.host_root),
            measuring: Arc::default(),
            version,
        };
        tracing::debug!(%endpoint, version = %connected.version, "connected");
        Ok(connected)
    }

    /// Connects to the one runtime that listens where runtimes do ([`Endpoint::KNOWN`]).
    ///
    /// # Errors
    /// [`ConnectError::NoRuntime`] if there is none, with the reason for each socket;
    /// [`ConnectError::Ambiguous`] if there are several; [`ConnectError::Undetermined`] if there is one, and
    /// another socket is undetermined: that may be the node's runtime, and this a leftover.
    pub async fn detect(options: Options) -> Result<(Endpoint, Self), ConnectError> {
        Self::detect_among(&Endpoint::known(), options).await
    }

    /// Connects to the one runtime among these sockets. Two paths that lead to the same socket count as one:
    /// the first.
    ///
    /// # Errors
    /// As [`detect`](Self::detect).
    pub async fn detect_among(
        endpoints: &[Endpoint],
        options: Options,
    ) -> Result<(Endpoint, Self), ConnectError> {
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut tried = Vec::new();
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
                Err(error) => tried.push(error),
            }
        }
        let Some(last) = found.pop() else {
            return Err(ConnectError::NoRuntime { tried });
        };
        tried.retain(|error| !error.means_no_runtime());
        if found.is_empty() && tried.is_empty() {
            return Ok(last);
        }
        found.push(last);
        let reported = |(endpoint, connected): (Endpoint, Self)| (endpoint, connected.version);
        let found = found.into_iter().map(reported).collect();
        Err(if tried.is_empty() {
            ConnectError::Ambiguous { found }
        } else {
            ConnectError::Undetermined {
                found,
                unclear: tried,
            }
        })
    }

    /// The runtime's response to `Version` when the connection was made.
    #[must_use]
    pub const fn version(&self) -> &RuntimeVersion {
        &self.version
    }
}

/// Calls `Version`. Upstream's `getVersion` requires the same four fields.
async fn version(
    endpoint: &Endpoint,
    mut client: RuntimeServiceClient<Channel>,
    timeout: Duration,
) -> Result<RuntimeVersion, ConnectError> {
    let request = VersionRequest {
        version: KUBELET_API_VERSION.to_owned(),
    };
    let method = Method::reads("Version");
    let reported = call(method, "", timeout, request, |request| async move {
        client.version(request).await
    })
    .await
    .map_err(|failure| failed(endpoint, "runtime.v1.RuntimeService", method, timeout, failure))?;
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

/// Checks whether images are served. A runtime that has the service and reports an error counts as serving
/// them.
async fn serves_images(
    endpoint: &Endpoint,
    mut client: ImageServiceClient<Channel>,
    timeout: Duration,
) -> Result<(), ConnectError> {
    let method = Method::reads("ImageFsInfo");
    let response = call(method, "", timeout, ImageFsInfoRequest {}, |request| async move {
        client.image_fs_info(request).await
    })
    .await;
    match response {
        Err(failure) if failure.lost || failure.code == Code::Unimplemented => Err(failed(
            endpoint,
            "runtime.v1.ImageService",
            method,
            timeout,
            failure,
        )),
        _ => Ok(()),
    }
}

/// The error for a failed call of the handshake.
fn failed(
    endpoint: &Endpoint,
    service: &'static str,
    method: Method,
    waited: Duration,
    failure: Failure,
) -> ConnectError {
    let path = endpoint.path().to_owned();
    match failure.code {
        Code::Unimplemented => ConnectError::WrongApi {
            path,
            service,
            message: match failure.message {
                silent if silent.is_empty() => "unimplemented".to_owned(),
                message => message,
            },
        },
        Code::DeadlineExceeded => ConnectError::Timeout { path, waited },
        _ => {
            let message = failure.to_string();
            match failure.unreached {
                Some(Unreached::Closed(error)) => error,
                Some(Unreached::Disconnected { .. }) | None => ConnectError::Handshake {
                    path,
                    operation: method.name,
                    message,
                },
            }
        }
    }
}
