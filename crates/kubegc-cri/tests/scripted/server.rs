//! A runtime behind a real socket: a backend that responds, behind a script of faults.

use std::{
    convert::Infallible,
    fmt::Debug,
    net::Shutdown,
    os::unix::net::UnixStream as StdStream,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
};

use kubegc_cri::{CriRuntime, Endpoint, Options};
use tempfile::TempDir;
use tokio::{
    net::UnixListener,
    sync::Notify,
    task::{AbortHandle, JoinSet},
};
use tonic::{
    Code, Request, Response, Status, async_trait,
    body::Body,
    codegen::{BoxFuture, http, tokio_stream},
    server::{Grpc, NamedService},
};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use crate::{tables::Tables, wire};

/// The responses of the runtime to calls without a fault.
#[async_trait]
pub(crate) trait Backend: Send + Sync + 'static {
    /// The tables with the response to a read of this object, or to a listing.
    async fn read(&self, method: &str, object: &str) -> Result<Tables, Status>;
    /// Performs a write. Stops have a grace period in seconds, removals of images a runtime handler.
    async fn write(&self, method: &str, id: &str, seconds: u32, handler: &str) -> Result<(), Status>;
}

/// The fault of a call.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The call fails with an error and is not carried out.
    Fail(Code, &'static str),
    /// The call is not carried out, and the connection is cut.
    Cut,
    /// The call is carried out, and the connection is cut before the response.
    CutAfter,
    /// Another client removes the object just before, so that it is not found.
    Vanish,
    /// The call never gets a response.
    Hang,
    /// The call gets its response when the test releases it.
    Hold(Arc<Notify>),
}

/// A fault of some calls of a method. `method` may be `*`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) method: &'static str,
    /// The number of matching calls before the first fault.
    pub(crate) skip: usize,
    /// The number of faulty calls.
    pub(crate) times: usize,
    pub(crate) fault: Fault,
}

impl Rule {
    /// A fault of all calls of a method.
    pub(crate) fn always(method: &'static str, fault: Fault) -> Self {
        let times = usize::MAX;
        Self {
            method,
            skip: 0,
            times,
            fault,
        }
    }

    /// A fault of the call after this many, and of no other.
    pub(crate) fn once(method: &'static str, skip: usize, fault: Fault) -> Self {
        Self {
            method,
            skip,
            times: 1,
            fault,
        }
    }
}

/// A call as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    /// The message, as its type prints it.
    pub(crate) request: String,
    /// The header `grpc-timeout`.
    pub(crate) grpc_timeout: String,
}

/// The state that the handlers share.
#[derive(Default)]
struct Shared {
    rules: Mutex<Vec<Rule>>,
    calls: Mutex<Vec<Call>>,
    /// A second handle of every connection, to cut it.
    connections: Mutex<Vec<StdStream>>,
    called: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds this")
}

impl Shared {
    fn cut(&self) {
        for connection in lock(&self.connections).drain(..) {
            // One that the client has closed cannot be shut down again.
            drop(connection.shutdown(Shutdown::Both));
        }
    }

    /// The fault of this call, if a rule matches it.
    fn fault(&self, method: &'static str) -> Option<Fault> {
        let mut rules = lock(&self.rules);
        let mut matching = rules
            .iter_mut()
            .filter(|rule| rule.method == method || rule.method == "*");
        matching.find_map(|rule| {
            if rule.skip > 0 {
                rule.skip -= 1;
                return None;
            }
            rule.times = rule.times.checked_sub(1)?;
            Some(rule.fault.clone())
        })
    }
}

/// The handlers: the script first, then the backend.
#[derive(Clone)]
struct Handlers {
    shared: Arc<Shared>,
    backend: Arc<dyn Backend>,
}

impl Handlers {
    async fn respond<Q: Debug, A>(
        &self,
        method: &'static str,
        request: &Request<Q>,
        perform: impl Future<Output = Result<A, Status>>,
    ) -> Result<Response<A>, Status> {
        let timeout = request.metadata().get("grpc-timeout");
        lock(&self.shared.calls).push(Call {
            method,
            request: format!("{:?}", request.get_ref()),
            grpc_timeout: timeout
                .map_or("", |text| text.to_str().expect("ASCII"))
                .to_owned(),
        });
        self.shared.called.notify_waiters();
        match self.shared.fault(method) {
            None => {}
            Some(Fault::Fail(code, message)) => return Err(Status::new(code, message)),
            Some(Fault::Hang) => return std::future::pending().await,
            Some(Fault::Hold(until)) => until.notified().await,
            Some(Fault::Vanish) => {
                let _by_another = perform.await;
                return Err(not_found());
            }
            Some(Fault::Cut) => {
                self.shared.cut();
                return std::future::pending().await;
            }
            Some(Fault::CutAfter) => {
                let _lost = perform.await;
                self.shared.cut();
                return std::future::pending().await;
            }
        }
        perform.await.map(Response::new)
    }
}

/// A service of CRI. Each method: its name, its messages, and the expression of the response.
macro_rules! serve {
    ($service:ident { $($method:ident($request:ident) -> $response:ident: |$backend:ident, $message:ident| $value:expr;)* }) => {
        #[derive(Clone)]
        struct $service(Handlers);

        impl NamedService for $service {
            const NAME: &'static str = concat!("runtime.v1.", stringify!($service));
        }

        impl Service<http::Request<Body>> for $service {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = BoxFuture<Self::Response, Infallible>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<Body>) -> Self::Future {
                let handlers = self.0.clone();
                let (_, method) = request.uri().path().rsplit_once('/').expect("a path begins with one");
                match method {
                    $(stringify!($method) => {
                        let perform = move |request: Request<wire::$request>| {
                            let handlers = handlers.clone();
                            async move {
                                let ($backend, $message) = (&handlers.backend, request.get_ref().clone());
                                let response = async move { let _ = &$message; Ok($value) };
                                handlers.respond(stringify!($method), &request, response).await
                            }
                        };
                        Box::pin(async move {
                            let codec = ProstCodec::<wire::$response, wire::$request>::default();
                            Ok(Grpc::new(codec).unary(service_fn(perform), request).await)
                        })
                    })*
                    _ => Box::pin(async { Ok(Status::unimplemented("").into_http()) }),
                }
            }
        }
    };
}

serve!(RuntimeService {
    Version(VersionRequest) -> VersionResponse: |backend, message| backend.read("Version", "").await?.version;
    Status(StatusRequest) -> StatusResponse: |backend, message| backend.read("Status", "").await?.status;
    ListPodSandbox(ListPodSandboxRequest) -> ListPodSandboxResponse: |backend, message|
        wire::ListPodSandboxResponse { items: backend.read("ListPodSandbox", "").await?.sandboxes };
    StopPodSandbox(StopPodSandboxRequest) -> StopPodSandboxResponse: |backend, message|
        backend.write("StopPodSandbox", &message.pod_sandbox_id, 0, "").await.map(|()| Default::default())?;
    RemovePodSandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse: |backend, message|
        backend.write("RemovePodSandbox", &message.pod_sandbox_id, 0, "").await.map(|()| Default::default())?;
    ListContainers(ListContainersRequest) -> ListContainersResponse: |backend, message|
        wire::ListContainersResponse { containers: backend.read("ListContainers", "").await?.containers };
    ContainerStatus(ContainerStatusRequest) -> ContainerStatusResponse: |backend, message| {
        let mut tables = backend.read("ContainerStatus", &message.container_id).await?;
        let status = tables.statuses.remove(&message.container_id);
        wire::ContainerStatusResponse { status: status.ok_or_else(not_found)? }
    };
    StopContainer(StopContainerRequest) -> StopContainerResponse: |backend, message| {
        let seconds = message.timeout.try_into().map_err(|_| Status::invalid_argument("timeout"))?;
        backend.write("StopContainer", &message.container_id, seconds, "").await?;
        wire::StopContainerResponse {}
    };
    RemoveContainer(RemoveContainerRequest) -> RemoveContainerResponse: |backend, message|
        backend.write("RemoveContainer", &message.container_id, 0, "").await.map(|()| Default::default())?;
});

serve!(ImageService {
    ListImages(ListImagesRequest) -> ListImagesResponse: |backend, message|
        wire::ListImagesResponse { images: backend.read("ListImages", "").await?.images };
    ImageStatus(ImageStatusRequest) -> ImageStatusResponse: |backend, message| {
        let reference = message.image.unwrap_or_default().image;
        let images = backend.read("ImageStatus", &reference).await?.images.into_iter();
        let is_named = |tags: &[String]| tags.contains(&reference);
        let mut found = images.filter(|image| image.id == reference || is_named(&image.repo_tags));
        wire::ImageStatusResponse { image: found.next() }
    };
    RemoveImage(RemoveImageRequest) -> RemoveImageResponse: |backend, message| {
        let image = message.image.unwrap_or_default();
        backend.write("RemoveImage", &image.image, 0, &image.runtime_handler).await?;
        wire::RemoveImageResponse {}
    };
    ImageFsInfo(ImageFsInfoRequest) -> ImageFsInfoResponse: |backend, message|
        backend.read("ImageFsInfo", "").await?.file_systems;
});

/// The response to a call on an object that does not exist.
pub(crate) fn not_found() -> Status {
    Status::not_found("an error occurred: not found")
}

/// Which services a runtime has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    Both,
    RuntimeOnly,
    ImagesOnly,
}

/// A runtime that listens on a socket in a directory of its own, until it is stopped or dropped.
pub(crate) struct Server<B> {
    pub(crate) backend: Arc<B>,
    directory: TempDir,
    handlers: Handlers,
    serves: Serves,
    listening: Option<AbortHandle>,
}

impl<B: Backend> Server<B> {
    pub(crate) fn start(backend: B) -> Self {
        Self::serving(Serves::Both, backend)
    }

    pub(crate) fn serving(serves: Serves, backend: B) -> Self {
        let backend = Arc::new(backend);
        let handlers = Handlers {
            shared: Arc::default(),
            backend: Arc::clone(&backend) as _,
        };
        let mut server = Self {
            backend,
            directory: tempfile::tempdir().expect("a directory can be made"),
            handlers,
            serves,
            listening: None,
        };
        server.restart();
        server
    }

    /// Listens, on the same path as before.
    pub(crate) fn restart(&mut self) {
        self.listen_at(&self.path());
    }

    /// Listens on a path, in place of an earlier listener.
    pub(crate) fn listen_at(&mut self, path: &Path) {
        let listener = UnixListener::bind(path).expect("the path is free");
        let (handlers, serves) = (self.handlers.clone(), self.serves);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let stream = stream.into_std().expect("registered");
                lock(&handlers.shared.connections).push(stream.try_clone().expect("handles are left"));
                let stream = tokio::net::UnixStream::from_std(stream).expect("not blocking");
                let runtime = (serves != Serves::ImagesOnly).then(|| RuntimeService(handlers.clone()));
                let images = (serves != Serves::RuntimeOnly).then(|| ImageService(handlers.clone()));
                let router = tonic::transport::Server::builder()
                    .add_optional_service(runtime)
                    .add_optional_service(images);
                let incoming = tokio_stream::once(Ok::<_, std::io::Error>(stream));
                connections.spawn(router.serve_with_incoming(incoming));
            }
        });
        self.listening = Some(accepting.abort_handle());
    }

    /// Stops like a killed process: connections break, and the socket file remains.
    pub(crate) async fn kill(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
            // Ends: an aborted task is finished when it is scheduled next.
            while !listening.is_finished() {
                tokio::task::yield_now().await;
            }
        }
        self.handlers.shared.cut();
    }

    /// Removes the socket that a dead runtime left, as its next start does.
    pub(crate) fn clear(&self) {
        std::fs::remove_file(self.path()).expect("it is there");
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("runtime.sock")
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::unix(self.path())
    }

    /// A client. The log of calls begins after its handshake.
    pub(crate) async fn connect(&self) -> CriRuntime {
        let runtime = CriRuntime::connect(&self.endpoint(), Options::default())
            .await
            .expect("it listens and speaks CRI v1");
        self.take_calls();
        runtime
    }

    /// Sets the faults of the next calls. The first rule that matches a call counts.
    pub(crate) fn script(&self, rules: impl Into<Vec<Rule>>) {
        *lock(&self.handlers.shared.rules) = rules.into();
    }

    pub(crate) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut lock(&self.handlers.shared.calls))
    }

    /// The methods called since the log was taken.
    pub(crate) fn take_methods(&self) -> Vec<&'static str> {
        self.take_calls().iter().map(|call| call.method).collect()
    }

    /// Waits until a method was called.
    pub(crate) async fn called(&self, method: &str) {
        self.reached(method, 1).await;
    }

    /// Waits until a method was called this many times since the log was taken.
    pub(crate) async fn reached(&self, method: &str, times: usize) {
        loop {
            let next = self.handlers.shared.called.notified();
            let calls = lock(&self.handlers.shared.calls)
                .iter()
                .filter(|call| call.method == method)
                .count();
            if calls >= times {
                return;
            }
            next.await;
        }
    }
}

impl<B> Drop for Server<B> {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
        }
        self.handlers.shared.cut();
    }
}
