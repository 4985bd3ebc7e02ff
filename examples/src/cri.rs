//! What the examples that speak to a container runtime share: which runtime, who says which pods there are, which settings.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use async_trait::async_trait;
use clap::Args;
use kubegc::{
    core::{KubernetesVersion, PodSource, Runtime, RuntimeError, Timestamp, node_facts::Pods},
    node::{
        Node, Policy, PolicySpec,
        driver::{KeepImages, ReadySandboxes, Settings, World},
        image::Records,
    },
    predict::node::Change,
    snapshot::{NodeDocument, NodeFinding, NodeReader, PodManifests, PodsFile, write_records},
};
use kubegc_cri::{CriRuntime, Endpoint, HostLogs, Options, TokioClock};

/// Which node, and what it goes by.
#[derive(Args)]
pub struct NodeArguments {
    /// The runtime's socket, such as unix:///run/containerd/containerd.sock. Without it, the one known socket that answers.
    #[arg(long, value_name = "ENDPOINT")]
    endpoint: Option<Endpoint>,
    /// Who says which pods there should be: `nobody`, so that nothing goes because its pod is gone; `ready-sandboxes`, so that pods whose sandboxes have
    /// all ended are gone; `file:PATH`, all pods of the node as `kubectl get pods -o json` prints them; `manifests:FOLDER`, static pods;
    /// `api:NODE`, the API server of the kubeconfig (with the feature `kube`).
    #[arg(long, value_name = "SOURCE", default_value = "nobody")]
    pods: PodsFrom,
    /// The name of the node, which static pods have behind theirs.
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// The Kubernetes version whose behaviour counts.
    #[arg(long, default_value = "1.36")]
    kubernetes: KubernetesVersion,
    /// The kubelet's configuration file, or what /configz says.
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// A setting to change, such as imageGCHighThresholdPercent=70.
    #[arg(long, value_name = "SETTING=VALUE")]
    change: Vec<Change>,
    /// What is remembered of images: since when they are there, and when they were last used. Without it, nothing is.
    #[arg(long, value_name = "PATH")]
    records: Option<PathBuf>,
    /// An image that has to stay, by tag, digest or id. The sandbox image that the runtime names is kept without being asked for.
    #[arg(long, value_name = "IMAGE")]
    keep: Vec<String>,
    /// Leave log files alone.
    #[arg(long)]
    no_logs: bool,
}

/// Who says which pods there should be.
#[derive(Clone)]
enum PodsFrom {
    Nobody,
    ReadySandboxes,
    File(PathBuf),
    Manifests(PathBuf),
    #[cfg(feature = "kube")]
    Api(String),
}

impl FromStr for PodsFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "nobody" => Ok(Self::Nobody),
            None if text == "ready-sandboxes" => Ok(Self::ReadySandboxes),
            Some(("file", path)) => Ok(Self::File(path.into())),
            Some(("manifests", folder)) => Ok(Self::Manifests(folder.into())),
            #[cfg(feature = "kube")]
            Some(("api", node)) => Ok(Self::Api(node.to_owned())),
            #[cfg(not(feature = "kube"))]
            Some(("api", _)) => Err("this needs the feature `kube` of the examples".to_owned()),
            _ => Err("expected nobody, ready-sandboxes, file:PATH, manifests:FOLDER or api:NODE".to_owned()),
        }
    }
}

/// A source that knows nothing.
struct Nobody;

#[async_trait]
impl PodSource for Nobody {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        Ok(Pods::default())
    }
}

/// A node with all that a driver needs of it.
pub struct OpenNode {
    /// Which runtime answers, and in which version.
    pub about: String,
    /// The runtime.
    pub runtime: Arc<KeepImages<CriRuntime>>,
    /// Who says which pods there should be.
    pub pods: Box<dyn PodSource>,
    /// The logs, unless they are to be left alone.
    pub logs: Option<HostLogs>,
    /// The settings.
    pub policy: Policy,
    /// What is remembered of images.
    pub records: Records,
    /// Since when their use is watched.
    pub watched_since: Option<Timestamp>,
    /// The time.
    pub clock: TokioClock,
    records_path: Option<PathBuf>,
}

impl NodeArguments {
    /// Connects to the runtime, and reads whatever the arguments name.
    pub async fn open(&self) -> Result<OpenNode, Box<dyn Error>> {
        let options = Options::default();
        let (endpoint, runtime) = match &self.endpoint {
            Some(endpoint) => (endpoint.clone(), CriRuntime::connect(endpoint, options).await?),
            None => CriRuntime::detect(options).await?,
        };
        let mut about = format!("{} at {endpoint}", runtime.version());
        let mut keep = self.keep.clone();
        if let Some(image) = runtime.status().await?.sandbox_image {
            about = format!("{about}, sandboxes of {image}");
            keep.push(image.to_string());
        }
        let (records, watched_since) = match &self.records {
            Some(path) if path.exists() => read_records(path)?,
            _ => (Records::default(), None),
        };
        let runtime = Arc::new(KeepImages::new(runtime, keep));
        for reference in runtime.unmatched().await? {
            about = format!("{about}\nno image here is called {reference}");
        }
        Ok(OpenNode {
            about,
            pods: self.pods(&runtime).await?,
            runtime,
            logs: (!self.no_logs).then(HostLogs::default),
            policy: self.policy()?,
            records,
            watched_since,
            clock: TokioClock::new(),
            records_path: self.records.clone(),
        })
    }
}

impl NodeArguments {
    async fn pods(&self, runtime: &Arc<KeepImages<CriRuntime>>) -> Result<Box<dyn PodSource>, Box<dyn Error>> {
        let shared = || Arc::clone(runtime) as Arc<dyn Runtime>;
        Ok(match &self.pods {
            PodsFrom::Nobody => Box::new(Nobody),
            PodsFrom::ReadySandboxes => Box::new(ReadySandboxes::new(shared())),
            PodsFrom::File(path) => Box::new(PodsFile::new(path, shared())),
            PodsFrom::Manifests(folder) => {
                let node = self.node_name.as_deref().ok_or("static pods are named after their node: give --node-name")?;
                Box::new(PodManifests::new(folder, node, shared()))
            }
            #[cfg(feature = "kube")]
            PodsFrom::Api(node) => Box::new(kubegc::node::driver::WithRunning::new(api::ApiPods::new(node).await?, shared())),
        })
    }

    fn policy(&self) -> Result<Policy, Box<dyn Error>> {
        let mut spec = PolicySpec::default();
        if let Some(path) = &self.config {
            let mut reader = NodeReader::new();
            reader.read_path(path)?;
            let node = reader.finish()?;
            spec = node.policy.ok_or_else(|| refused(path, &node.findings))?;
        }
        let spec = self.change.iter().fold(spec, |spec, change| change.apply(&spec));
        Ok(Policy::new(&spec, self.kubernetes)?)
    }
}

fn refused(path: &Path, findings: &[NodeFinding]) -> String {
    let why: Vec<_> = findings.iter().map(ToString::to_string).collect();
    format!("{}: no settings of a kubelet: {}", path.display(), why.join("; "))
}

fn read_records(path: &Path) -> Result<(Records, Option<Timestamp>), Box<dyn Error>> {
    let mut reader = NodeReader::new();
    reader.read_as(NodeDocument::Records, &path.display().to_string(), fs::File::open(path)?)?;
    let read = reader.finish()?.inventory;
    Ok((read.image_records, Some(read.images_watched_since)))
}

impl OpenNode {
    /// The outside world, as a driver takes it.
    #[must_use]
    pub fn world(&self) -> World<'_> {
        World {
            runtime: &*self.runtime,
            logs: self.logs.as_ref().map(|logs| logs as _),
            pods: &*self.pods,
            clock: &self.clock,
        }
    }

    /// What a driver goes by.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings::from(&self.policy)
    }

    /// A driver that remembers what the records say.
    #[must_use]
    pub fn driver<'w>(&self, world: World<'w>) -> Node<'w> {
        let mut driver = Node::remembering(world, self.settings(), self.records.clone());
        if let Some(since) = self.watched_since {
            driver.watch_since(since);
        }
        driver
    }

    /// Writes what is remembered of images to where it was read from: first beside it, then in its place, so that it is never half there.
    pub fn remember(&self, records: &Records, watched_since: Option<Timestamp>) -> Result<(), Box<dyn Error>> {
        let Some(path) = &self.records_path else { return Ok(()) };
        let beside = path.with_extension("new");
        fs::write(&beside, write_records(records, watched_since))?;
        Ok(fs::rename(&beside, path)?)
    }
}

#[cfg(feature = "kube")]
mod api {
    //! Pods as the API server lists them.

    use async_trait::async_trait;
    use kube::Client;
    use kubegc::{
        core::{PodSource, RuntimeError, node_facts::Pods},
        snapshot::NodeReader,
    };

    /// The pods that the API server has bound to one node.
    pub(super) struct ApiPods {
        client: Client,
        path: String,
    }

    impl ApiPods {
        pub(super) async fn new(node: &str) -> Result<Self, kube::Error> {
            let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
            let client = kubegc_kube::client().await?;
            Ok(Self { client, path })
        }
    }

    #[async_trait]
    impl PodSource for ApiPods {
        /// Every pod of the node: the list is asked for whole, and where it goes on or a pod cannot be read, nothing is known.
        async fn pods(&self) -> Result<Pods, RuntimeError> {
            let failed = |error: &dyn std::fmt::Display| RuntimeError::unknown(format!("pods of the node: {error}"));
            let request = http::Request::get(&self.path).body(Vec::new()).map_err(|error| failed(&error))?;
            let list = self.client.request_text(request).await.map_err(|error| failed(&error))?;
            let mut reader = NodeReader::new().pods_are_whole();
            reader.read("pods", list.as_bytes()).map_err(|error| failed(&error))?;
            Ok(reader.finish().map_err(|error| failed(&error))?.inventory.pods)
        }
    }
}
