//! Arguments of the examples that connect to a container runtime: the endpoint, the source of pods, the
//! settings.

#[cfg(feature = "kube")]
mod api;
mod records_file;

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    sync::Arc,
};

use async_trait::async_trait;
use clap::Args;
use kubegc::{
    core::{Clock as _, KubernetesVersion, PodSource, Runtime, RuntimeError, node_facts::Pods},
    node::{
        Node, Policy, PolicySpec,
        driver::{Environment, Settings, is_reference_to},
    },
    predict::node::Change,
    snapshot::{NodeFinding, NodeReader, PodManifests, PodsFile},
};
use kubegc_cri::{CriRuntime, Endpoint, HostLogs, Options, ReadySandboxes, TokioClock};

pub use records_file::RecordsFile;

/// The kubelet's directory of links to container logs.
const LINKS: &str = "/var/log/containers";

/// The node, and its settings.
#[derive(Args)]
pub struct NodeArguments {
    /// The runtime's socket, such as unix:///run/containerd/containerd.sock. Without it, the one known socket that responds.
    #[arg(long, value_name = "ENDPOINT")]
    endpoint: Option<Endpoint>,
    /// The source of the pods of the node. `unknown`: nothing is removed for the reason that its pod no
    /// longer exists. `ready-sandboxes`: the pods with a ready sandbox. `file:PATH`: all pods of the node, as
    /// `kubectl get pods -o json` prints them. `manifests:FOLDER`: static pods. `api:NODE`: the API server of
    /// the kubeconfig (with the feature `kube`).
    #[arg(long, value_name = "SOURCE", default_value = "unknown")]
    pods: PodsFrom,
    /// The name of the node, which is the suffix of the names of static pods.
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// The Kubernetes version of the kubelet.
    #[arg(long, default_value = "1.36")]
    kubernetes: KubernetesVersion,
    /// The kubelet's configuration file, or the output of /configz.
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// A setting to change, such as imageGCHighThresholdPercent=70.
    #[arg(long, value_name = "SETTING=VALUE")]
    change: Vec<Change>,
    /// A file with the records of images between runs: first detection and last use. Without it, every image
    /// counts as new.
    #[arg(long, value_name = "PATH")]
    records: Option<PathBuf>,
    /// An image to keep, by tag, digest or id. The sandbox image that the runtime reports is always kept.
    #[arg(long, value_name = "IMAGE")]
    keep: Vec<String>,
    /// Do not remove log files.
    #[arg(long)]
    no_logs: bool,
}

/// The source of the pods of the node.
#[derive(Clone)]
enum PodsFrom {
    Unknown,
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
            None if text == "unknown" => Ok(Self::Unknown),
            None if text == "ready-sandboxes" => Ok(Self::ReadySandboxes),
            Some(("file", path)) => Ok(Self::File(path.into())),
            Some(("manifests", directory)) => Ok(Self::Manifests(directory.into())),
            #[cfg(feature = "kube")]
            Some(("api", node)) => Ok(Self::Api(node.to_owned())),
            #[cfg(not(feature = "kube"))]
            Some(("api", _)) => Err("this needs the feature `kube` of the examples".to_owned()),
            _ => Err("expected unknown, ready-sandboxes, file:PATH, manifests:FOLDER or api:NODE".to_owned()),
        }
    }
}

/// A source that knows no pods.
struct UnknownPods;

#[async_trait]
impl PodSource for UnknownPods {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        Ok(Pods::default())
    }
}

/// A node with all that a driver needs of it.
#[non_exhaustive]
pub struct OpenNode {
    /// Name and version of the runtime.
    pub about: String,
    /// The runtime.
    pub runtime: Arc<CriRuntime>,
    /// The source of the pods of the node.
    pub pods: Box<dyn PodSource>,
    /// The logs, unless `--no-logs` is set.
    pub logs: Option<HostLogs>,
    /// The settings.
    pub policy: Policy,
    /// The records of images.
    pub records_file: RecordsFile,
    /// The image of sandboxes, as the runtime names it.
    pub sandbox_image: Option<Arc<str>>,
    /// The images to keep.
    pub keep_images: Vec<Arc<str>>,
    /// The time.
    pub clock: TokioClock,
}

impl NodeArguments {
    /// Connects to the runtime, and reads the files of the arguments.
    pub async fn open(&self) -> Result<OpenNode, Box<dyn Error>> {
        let options = Options::default();
        let (endpoint, runtime) = match &self.endpoint {
            Some(endpoint) => (endpoint.clone(), CriRuntime::connect(endpoint, options).await?),
            None => CriRuntime::detect(options).await?,
        };
        let clock = TokioClock::new();
        let mut about = format!("{} at {endpoint}", runtime.version());
        let mut keep: Vec<Arc<str>> = self.keep.iter().map(|image| image.as_str().into()).collect();
        let sandbox_image = runtime.status().await?.sandbox_image;
        if let Some(image) = &sandbox_image {
            about = format!("{about}, sandboxes of {image}");
            // Runtimes complete names: the listed name may differ.
            keep.push(
                runtime
                    .image_id(image)
                    .await?
                    .unwrap_or_else(|| Arc::clone(image)),
            );
        }
        let images = runtime.images().await?;
        for reference in &keep {
            if !images.iter().any(|image| is_reference_to(reference, image)) {
                about = format!("{about}\nno image here has the name {reference}");
            }
        }
        let runtime = Arc::new(runtime);
        let policy = self.policy()?;
        let logs = (!self.no_logs).then(|| HostLogs::new(&policy.pod_logs_directory, LINKS));
        Ok(OpenNode {
            about,
            pods: self.pods(&runtime).await?,
            runtime,
            logs,
            policy,
            records_file: RecordsFile::open(self.records.as_deref(), clock.now())?,
            sandbox_image,
            keep_images: keep,
            clock,
        })
    }
}

impl NodeArguments {
    async fn pods(&self, runtime: &Arc<CriRuntime>) -> Result<Box<dyn PodSource>, Box<dyn Error>> {
        let shared = || Arc::clone(runtime) as Arc<dyn Runtime>;
        Ok(match &self.pods {
            PodsFrom::Unknown => Box::new(UnknownPods),
            PodsFrom::ReadySandboxes => Box::new(ReadySandboxes::new(shared())),
            PodsFrom::File(path) => Box::new(PodsFile::new(path, shared())),
            PodsFrom::Manifests(directory) => {
                let node = self
                    .node_name
                    .as_deref()
                    .ok_or("static pods are named after their node: give --node-name")?;
                Box::new(PodManifests::new(directory, node, shared()))
            }
            #[cfg(feature = "kube")]
            PodsFrom::Api(node) => Box::new(api::pods(node, shared()).await?),
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
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    format!(
        "{}: not a kubelet configuration: {}",
        path.display(),
        findings.join("; ")
    )
}

impl OpenNode {
    /// The environment of a driver.
    pub fn environment(&self) -> Environment<'_> {
        Environment {
            runtime: &*self.runtime,
            logs: self.logs.as_ref().map(|logs| logs as _),
            pods: &*self.pods,
            clock: &self.clock,
        }
    }

    /// The settings of a driver.
    pub fn settings(&self) -> Settings {
        Settings {
            sandbox_image: self.sandbox_image.clone(),
            keep_images: self.keep_images.clone(),
            ..Settings::from(&self.policy)
        }
    }

    /// A driver with the stored records. Without records, image detection starts now.
    pub fn driver<'w>(&self, environment: Environment<'w>) -> Node<'w> {
        let mut driver = Node::with_records(environment, self.settings(), self.records_file.records.clone());
        driver.set_image_gc_began_at(self.records_file.watched_since);
        driver
    }
}

/// Runs a future to its end, without waiting for blocking tasks: a file system that does not respond must not
/// prevent the exit.
pub fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Err(_) => ExitCode::FAILURE,
        Ok(tokio) => {
            let code = tokio.block_on(work);
            tokio.shutdown_background();
            code
        }
    }
}
