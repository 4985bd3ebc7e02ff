//! Serves the cluster on a socket: HTTP/1.1 on 127.0.0.1, for `kubectl` and clients in other languages.

use std::{io, net::SocketAddr, path::Path};

use futures_util::StreamExt;
use http::Request;
use http_body::Body;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{rt::TokioIo, server::graceful::GracefulShutdown};
use tokio::{net::TcpListener, sync::watch};

use crate::{
    Cluster,
    service::{BoxError, ClusterService},
};

/// A cluster that is served on a loopback socket, until this is dropped. Made by [`Cluster::serve`].
///
/// There is no TLS and no authentication: every process that can reach the machine's loopback device can use
/// it.
#[must_use = "the server stops when this is dropped"]
#[derive(derive_more::Debug)]
pub struct Loopback {
    #[debug(skip)]
    address: SocketAddr,
    url: String,
    #[debug(skip)]
    stop: watch::Sender<bool>,
    #[debug(skip)]
    accepting: tokio::task::JoinHandle<()>,
}

impl Cluster {
    /// Serves the cluster on a free port of 127.0.0.1.
    ///
    /// Other processes wait in real time: run tokio's clock unpaused, let the cluster [follow
    /// it](crate::Builder::follow_tokio_clock), and run the control plane [in the background](Cluster::run).
    ///
    /// # Errors
    /// The socket cannot be opened.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
    /// use kubegc_testkit::Cluster;
    /// let cluster = Cluster::builder().follow_tokio_clock(true).build()?;
    /// let (loopback, running) = (cluster.serve().await?, cluster.run());
    /// loopback.write_kubeconfig("kubeconfig".as_ref())?;
    /// // KUBECONFIG=kubeconfig kubectl get namespaces
    /// # drop((loopback, running)); Ok(()) }
    /// ```
    pub async fn serve(&self) -> io::Result<Loopback> {
        self.listen(None).await
    }

    /// The same for one client, which the cluster knows by this name as it knows those of
    /// [`client_as`](Self::client_as): in the audit, in faults and in access rules. The clients of
    /// [`serve`](Self::serve) are known by their user agents.
    ///
    /// # Errors
    /// The socket cannot be opened.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub async fn serve_as(&self, client: &str) -> io::Result<Loopback> {
        self.listen(Some(client)).await
    }

    async fn listen(&self, client: Option<&str>) -> io::Result<Loopback> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let service = ClusterService::new(self, client.map(Into::into));
        let accepting = tokio::spawn(accept(listener, service, stopped));
        Ok(Loopback {
            address,
            url: format!("http://{address}"),
            stop,
            accepting,
        })
    }
}

impl Loopback {
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig for this server, as YAML.
    pub fn kubeconfig(&self) -> String {
        let url = &self.url;
        format!(
            "\
apiVersion: v1
kind: Config
clusters:
- name: testkit
  cluster:
    server: {url}
contexts:
- name: testkit
  context:
    cluster: testkit
    namespace: default
    user: testkit
current-context: testkit
users:
- name: testkit
  user: {{}}
"
        )
    }

    /// Writes the kubeconfig to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.kubeconfig())
    }

    /// Stops serving: responses in flight are finished, watches end, connections close.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // The task ends by itself; its panic must not cause a panic here.
        let _ended = (&mut self.accepting).await;
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Accepts connections until it is stopped, and then waits for those that are open.
async fn accept(listener: TcpListener, service: ClusterService, mut stop: watch::Receiver<bool>) {
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
        // A connection that broke before it began does not affect the others.
        let Ok((stream, _)) = accepted else {
            continue;
        };
        let (service, stop) = (service.clone(), stop.clone());
        // hyper closes the connection on an error: what clients see of an injected one.
        let service = service_fn(move |request: Request<Incoming>| {
            let pending = service.begin(request);
            let mut stop = stop.clone();
            async move {
                let response = pending.await?;
                if response.body().size_hint().exact().is_some() {
                    return Ok::<_, BoxError>(response);
                }
                // Watches would never end.
                let stopped = async move {
                    // The sender is dropped with the server, which also means a stop.
                    let _stopped = stop.wait_for(|stop| *stop).await;
                };
                Ok(response.map(|body| {
                    let frames = BodyStream::new(body).take_until(Box::pin(stopped));
                    StreamBody::new(frames).boxed_unsync()
                }))
            }
        });
        // Small responses are sent at once. If the socket is already closed, the connection fails later.
        let _immediate = stream.set_nodelay(true);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A client that breaks off is not a failure of the server.
        tokio::spawn(connections.watch(connection));
    }
    drop(listener);
    connections.shutdown().await;
}
