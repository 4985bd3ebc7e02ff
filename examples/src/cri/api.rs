//! The API server's pods of one node.

use std::{error::Error, fmt::Display, sync::Arc, time::Duration};

use async_trait::async_trait;
use kube::Client;
use kubegc::{
    core::{PodSource, Runtime, RuntimeError, node_facts::Pods},
    node::driver::WithRunning,
    snapshot::read_all_pods,
};

/// Timeout of a response.
const DEADLINE: Duration = Duration::from_secs(30);

/// The pods of a node in the cluster of the kubeconfig, and those that run here: a pod that was deleted by
/// force may still run.
pub(super) async fn pods(
    node: &str,
    runtime: Arc<dyn Runtime>,
) -> Result<impl PodSource + use<>, Box<dyn Error>> {
    let is_name =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    if node.is_empty() || !node.chars().all(is_name) {
        return Err(format!("{node:?} is not a valid node name").into());
    }
    let client = kubegc_kube::client().await?;
    // The API server lists no pods of a node that does not exist, so every container would be garbage.
    get(&client, &format!("/api/v1/nodes/{node}")).await?;
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
    Ok(WithRunning::new(ApiPods { client, path }, runtime))
}

struct ApiPods {
    client: Client,
    path: String,
}

#[async_trait]
impl PodSource for ApiPods {
    /// The list is requested as a whole; if it has a continue token, or a pod cannot be read, the pods are
    /// unknown.
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let list = get(&self.client, &self.path).await?;
        read_all_pods("the API server's pods", list.as_bytes())
    }
}

async fn get(client: &Client, path: &str) -> Result<String, RuntimeError> {
    let failed = |error: &dyn Display| RuntimeError::refused(format!("GET {path}: {error}"));
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| failed(&error))?;
    let response = tokio::time::timeout(DEADLINE, client.request_text(request)).await;
    let response = response.map_err(|_| failed(&"no response in time"))?;
    response.map_err(|error| failed(&error))
}
