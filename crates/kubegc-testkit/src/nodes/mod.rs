//! Closures of a test that respond as the nodes: logs of containers.

mod log;

use std::sync::Arc;

pub use log::Log;

use crate::{
    Cluster,
    http::{LogRequest, PodTarget},
};

/// The refusal of a request by a node: an HTTP status and the kubelet's text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct NodeError {
    /// HTTP status, 400 to 599; anything else counts as 500.
    pub code: u16,
    pub message: String,
}

impl NodeError {
    pub fn new(code: u16, message: &str) -> Self {
        Self {
            code: if matches!(code, 400..=599) { code } else { 500 },
            message: message.to_owned(),
        }
    }
}

/// The nodes of a cluster, played by closures. Made by [`Cluster::nodes`].
///
/// The closure that was registered last for a pod and container serves its logs. Without one, requests get
/// the response of an API server that cannot reach the node, as `exec`, `attach` and `port-forward` always
/// do. A pod without `spec.nodeName` is on no node: its log is empty, and the other requests for it are
/// refused, as on a real server.
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
pub(crate) struct Selection {
    pod: Option<(Arc<str>, Arc<str>)>,
    container: Option<Arc<str>>,
}

impl Selection {
    fn selects(&self, target: &PodTarget) -> bool {
        let (pod, container) = (self.pod.as_ref(), self.container.as_deref());
        pod.is_none_or(|(namespace, name)| **namespace == *target.namespace && **name == *target.pod)
            && container.is_none_or(|container| container == target.container)
    }
}

pub(crate) type LogHandler = Arc<dyn Fn(&LogRequest) -> Result<Log, NodeError> + Send + Sync>;

/// The closures of a test, in the order in which they were registered.
pub(crate) type Handlers = Vec<(Selection, LogHandler)>;

/// The closure that serves the log of a container: the latest one.
pub(crate) fn find(handlers: &Handlers, target: &PodTarget) -> Option<LogHandler> {
    let mut latest = handlers.iter().rev();
    let found = latest.find(|(selection, _)| selection.selects(target));
    found.map(|(_, handler)| Arc::clone(handler))
}

impl Cluster {
    /// The nodes, for registering closures that serve logs.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes {
            cluster: self,
            pods: Selection::default(),
        }
    }
}

impl Nodes<'_> {
    #[must_use]
    pub fn pod(mut self, namespace: &str, name: &str) -> Self {
        self.pods.pod = Some((namespace.into(), name.into()));
        self
    }

    /// Only requests for containers with this name.
    #[must_use]
    pub fn container(mut self, name: &str) -> Self {
        self.pods.container = Some(name.into());
        self
    }

    /// Serves requests for logs.
    pub fn on_log(&self, log: impl Fn(&LogRequest) -> Result<Log, NodeError> + Send + Sync + 'static) {
        let handler: LogHandler = Arc::new(log);
        let selection = self.pods.clone();
        self.cluster.inner.state.lock().nodes.push((selection, handler));
    }

    /// Forgets all closures, those of other pods too.
    pub fn clear(&self) {
        self.cluster.inner.state.lock().nodes.clear();
    }
}
