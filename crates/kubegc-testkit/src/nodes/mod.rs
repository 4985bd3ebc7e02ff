//! Closures of a test that respond as the nodes: logs, commands, attachments and forwarded ports.

mod log;
#[cfg(feature = "ws")]
mod streams;
#[cfg(feature = "ws")]
mod upgrade;

use std::{fmt, sync::Arc};
#[cfg(feature = "ws")]
use std::{future::Future, pin::Pin};

pub use log::Log;
pub(crate) use log::LogBody;
#[cfg(feature = "ws")]
pub use streams::{Exit, Process};
#[cfg(feature = "ws")]
pub(crate) use upgrade::Upgrade;

#[cfg(feature = "ws")]
use crate::http::{ExecRequest, PortForwardRequest};
use crate::{
    Cluster,
    http::{LogRequest, NodeRequest, PodTarget},
};

/// The refusal of a request by a node: an HTTP status and the kubelet's text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct NodeError {
    /// HTTP status, 400 to 599; anything else counts as 500.
    pub code: u16,
    /// The text.
    pub message: String,
}

impl NodeError {
    /// A refusal with this status and text.
    #[must_use]
    pub fn new(code: u16, message: &str) -> Self {
        Self {
            code: if matches!(code, 400..=599) { code } else { 500 },
            message: message.to_owned(),
        }
    }
}

/// The nodes of a cluster, played by closures. Made by [`Cluster::nodes`].
///
/// The closure that was registered last for a pod and container serves its requests. Without one, requests
/// get the response of an API server that cannot reach the node. A pod without `spec.nodeName` is on no node:
/// its log is empty, and other requests for it are refused, as on a real server.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::api::{Api, LogParams};
/// use kubegc_testkit::{Cluster, Log};
/// let cluster = Cluster::builder()
///     .yaml("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: node-1, containers: [{name: app, image: nginx}]}}")
///     .build()?;
/// cluster.nodes().pod("default", "web").on_log(|_| Ok(Log::text("started\nready\n")));
/// let pods: Api<Pod> = Api::default_namespaced(cluster.client());
/// let last = LogParams { tail_lines: Some(1), ..LogParams::default() };
/// assert_eq!(pods.logs("web", &last).await?, "ready\n");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Nodes<'a> {
    cluster: &'a Cluster,
    pods: Selection,
}

/// The pods and containers that a closure serves.
#[derive(Clone, Debug, Default)]
struct Selection {
    pod: Option<(Arc<str>, Arc<str>)>,
    container: Option<Arc<str>>,
}

impl Selection {
    fn selects(&self, target: &PodTarget) -> bool {
        let pod = self.pod.as_ref();
        pod.is_none_or(|(namespace, name)| **namespace == *target.namespace && **name == *target.pod)
            && self
                .container
                .as_deref()
                .is_none_or(|container| container == target.container)
    }
}

pub(crate) type LogHandler = Arc<dyn Fn(&LogRequest) -> Result<Log, NodeError> + Send + Sync>;
#[cfg(feature = "ws")]
type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;
#[cfg(feature = "ws")]
type ExecHandler = Arc<dyn Fn(ExecRequest, Process) -> Task<Exit> + Send + Sync>;
#[cfg(feature = "ws")]
type ForwardHandler =
    Arc<dyn Fn(PodTarget, u16, tokio::io::DuplexStream) -> Task<Result<(), String>> + Send + Sync>;

/// A closure of the test.
#[derive(Clone)]
pub(crate) enum Handler {
    Log(LogHandler),
    #[cfg(feature = "ws")]
    Exec(ExecHandler),
    #[cfg(feature = "ws")]
    Attach(ExecHandler),
    #[cfg(feature = "ws")]
    Forward(ForwardHandler),
}

impl Handler {
    const fn handles(&self, request: &NodeRequest) -> bool {
        match self {
            Self::Log(_) => matches!(request, NodeRequest::Log(_)),
            #[cfg(feature = "ws")]
            Self::Exec(_) => matches!(request, NodeRequest::Exec(_)),
            #[cfg(feature = "ws")]
            Self::Attach(_) => matches!(request, NodeRequest::Attach(_)),
            #[cfg(feature = "ws")]
            Self::Forward(_) => matches!(request, NodeRequest::PortForward(_)),
        }
    }
}

/// The closures of a test, in the order in which they were registered.
#[derive(Default)]
pub(crate) struct Handlers(Vec<(Selection, Handler)>);

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handlers").field(&self.0.len()).finish()
    }
}

impl Handlers {
    /// The closure that serves a request.
    pub(crate) fn find(&self, request: &NodeRequest) -> Option<Handler> {
        let mut latest = self.0.iter().rev();
        let found = latest
            .find(|(selection, handler)| handler.handles(request) && selection.selects(request.target()));
        found.map(|(_, handler)| handler.clone())
    }
}

impl Cluster {
    /// The nodes, for registering closures that serve `log`, `exec`, `attach` and `portforward`.
    #[must_use]
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes {
            cluster: self,
            pods: Selection::default(),
        }
    }
}

impl Nodes<'_> {
    /// Only requests for this pod.
    #[must_use]
    pub fn pod(mut self, namespace: &str, name: &str) -> Self {
        self.pods.pod = Some((namespace.into(), name.into()));
        self
    }

    /// Only requests for containers with this name. Port-forwarding has none.
    #[must_use]
    pub fn container(mut self, name: &str) -> Self {
        self.pods.container = Some(name.into());
        self
    }

    /// Serves requests for logs.
    pub fn on_log(&self, log: impl Fn(&LogRequest) -> Result<Log, NodeError> + Send + Sync + 'static) {
        self.register(Handler::Log(Arc::new(log)));
    }

    /// Runs commands. The closure acts as the process: it reads and writes its streams, and returns how it
    /// ends. It is dropped when the client disconnects.
    ///
    /// The client connects over WebSockets (`v5.channel.k8s.io` and `v4.channel.k8s.io`); SPDY is not served.
    #[cfg(feature = "ws")]
    pub fn on_exec<F, T>(&self, process: F)
    where
        F: Fn(ExecRequest, Process) -> T + Send + Sync + 'static,
        T: Future<Output = Exit> + Send + 'static,
    {
        self.register(Handler::Exec(Arc::new(move |request, streams| {
            Box::pin(process(request, streams))
        })));
    }

    /// Plays the process that a client attaches to, as [`on_exec`](Self::on_exec) does.
    #[cfg(feature = "ws")]
    pub fn on_attach<F, T>(&self, process: F)
    where
        F: Fn(ExecRequest, Process) -> T + Send + Sync + 'static,
        T: Future<Output = Exit> + Send + 'static,
    {
        self.register(Handler::Attach(Arc::new(move |request, streams| {
            Box::pin(process(request, streams))
        })));
    }

    /// Serves connections to a port of a pod: the closure gets the pod, the port and the connection. An error
    /// is sent to the client.
    #[cfg(feature = "ws")]
    pub fn on_port_forward<F, T>(&self, serve: F)
    where
        F: Fn(PodTarget, u16, tokio::io::DuplexStream) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.register(Handler::Forward(Arc::new(move |target, port, stream| {
            Box::pin(serve(target, port, stream))
        })));
    }

    /// Forgets all closures, those of other pods too.
    pub fn clear(&self) {
        self.cluster.inner.state.lock().nodes.0.clear();
    }

    fn register(&self, handler: Handler) {
        let selection = self.pods.clone();
        self.cluster.inner.state.lock().nodes.0.push((selection, handler));
    }
}

/// The parts of a port-forwarding session.
#[cfg(feature = "ws")]
struct Forwarding {
    request: PortForwardRequest,
    serve: ForwardHandler,
}
