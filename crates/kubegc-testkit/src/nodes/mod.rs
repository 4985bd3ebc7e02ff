//! Closures of a test that respond as the nodes: logs of containers.

pub(crate) mod log;

use std::sync::Arc;

pub use log::{Log, NodeError};

use log::{LogHandler, Selection};

use crate::{Cluster, http::LogRequest};

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
