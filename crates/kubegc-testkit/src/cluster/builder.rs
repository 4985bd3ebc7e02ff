//! The builder of a cluster: release, initial objects, seed and assumptions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

#[cfg(feature = "kube")]
use kube::CustomResourceExt;
use kubegc_control_plane::{
    Assumptions,
    workloads::{Workloads, ready_node},
};
use kubegc_core::{Catalog, FieldError, KubernetesVersion, ResourceVersion, Timestamp, Uid};
use kubegc_sim::{ApiServer, Manifest, Response, Settings, SharedApiServer, StoredObject};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Cluster, Inner, Plane, State, pulse::Pulse};
use crate::{
    clock::{ClusterClock, machine_time, tokio_is_paused},
    fault::Faults,
    nodes::log::Handlers,
};

/// The initial state and settings of a [`Cluster`]. Made by [`Cluster::builder`].
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_testkit::Cluster;
/// let cluster = Cluster::builder()
///     .version("1.30.0".parse::<KubernetesVersion>()?)
///     .namespace("shop")
///     .yaml("
/// apiVersion: v1
/// kind: ConfigMap
/// metadata: {name: settings, namespace: shop}
/// ---
/// apiVersion: v1
/// kind: Secret
/// metadata:
///   name: key
///   namespace: shop
///   ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: settings}]
/// ")
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
#[derive(Clone, Debug)]
pub struct Builder {
    version: KubernetesVersion,
    namespaces: Vec<String>,
    objects: Vec<Result<Value, BuildError>>,
    start: Option<Timestamp>,
    settings: Settings,
    collects: bool,
    assumptions: Assumptions,
    workloads: Option<Workloads>,
    calls_max: u64,
    patience: Duration,
    follow: Option<bool>,
}

/// Reasons why a cluster cannot be built.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A YAML text cannot be read.
    #[error("the YAML text cannot be read: {message}")]
    Yaml {
        /// Position and reason.
        message: String,
    },
    /// A value has no form in JSON.
    #[error("an object cannot be written as JSON: {message}")]
    Json { message: String },
    /// An object's metadata is invalid.
    #[error("{object}: {problem}")]
    Field { object: String, problem: FieldError },
    /// No kind is served under the object's apiVersion and kind.
    #[error(
        "{object}: this version of Kubernetes serves no {kind:?} in {api_version:?}, and no definition among the objects does"
    )]
    UnknownKind {
        object: String,
        api_version: String,
        kind: String,
    },
    /// An owner reference has no uid, and the object that it names is not there.
    #[error("{object}: its owner reference to {owner} has no uid, and there is no such object before it")]
    UnknownOwner { object: String, owner: String },
    /// The API server refuses to create the object.
    #[error("{object}: the API server refuses it: {code} {message}")]
    Refused {
        object: String,
        code: u16,
        message: String,
    },
}

/// The message: a test that returns the error prints it with `Debug`.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 2026-01-01T00:00:00Z: when clusters in simulated time begin, so that dates in texts are the same in every
/// run.
const START: Timestamp = Timestamp::from_secs(1_767_225_600);

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Default for Builder {
    fn default() -> Self {
        Self {
            version: KubernetesVersion::LATEST,
            namespaces: NAMESPACES.map(str::to_owned).into(),
            objects: Vec::new(),
            start: None,
            settings: Settings {
                types: true,
                service_accounts: true,
                quota_controller: true,
                ..Settings::default()
            },
            collects: true,
            assumptions: Assumptions::default(),
            workloads: None,
            calls_max: 10_000,
            patience: Duration::from_millis(20),
            follow: None,
        }
    }
}

impl Builder {
    /// The release that the API server and the collector behave as. Default: [`KubernetesVersion::LATEST`].
    /// A release that kubegc does not know behaves as the newest known one, and each [`Fate`] has a warning.
    ///
    /// [`Fate`]: crate::Fate
    pub const fn version(mut self, version: KubernetesVersion) -> Self {
        self.version = version;
        self
    }

    /// Adds a namespace to `default`, `kube-system`, `kube-public` and `kube-node-lease`.
    pub fn namespace(mut self, name: &str) -> Self {
        self.namespaces.push(name.to_owned());
        self
    }

    /// Serves a custom resource: takes its `CustomResourceDefinition`.
    pub fn crd(self, definition: impl Serialize) -> Self {
        self.object(definition)
    }

    /// Serves a custom resource that `#[derive(CustomResource)]` defines.
    #[cfg(feature = "kube")]
    pub fn custom_resource<K: CustomResourceExt>(self) -> Self {
        self.object(K::crd())
    }

    /// An object that exists: anything that has an `apiVersion` and a `kind` in its JSON form.
    ///
    /// It is created as a client would create it, in the order in which objects are given, namespaces and
    /// definitions first. Beyond that, a uid that it has is kept, its status is stored as well, and an owner
    /// reference without a uid gets that of the object that it names.
    pub fn object(mut self, object: impl Serialize) -> Self {
        let object = serde_json::to_value(object).map_err(|error| BuildError::Json {
            message: error.to_string(),
        });
        self.objects.push(object);
        self
    }

    /// Objects that exist, as YAML or JSON documents: see [`object`](Self::object). Empty documents are
    /// ignored, `List`s are unfolded.
    pub fn yaml(mut self, text: &str) -> Self {
        let documents: Result<Vec<Value>, _> = serde_saphyr::from_str_multiple(text);
        match documents {
            Ok(documents) => {
                let documents = documents.into_iter().filter(|document| !document.is_null());
                self.objects.extend(documents.map(Ok));
            }
            Err(error) => self.objects.push(Err(BuildError::Yaml {
                message: error.without_snippet().to_string(),
            })),
        }
        self
    }

    /// The time at the beginning. Default: 2026-01-01T00:00:00Z; if the cluster follows a clock that runs,
    /// the machine's time.
    pub const fn start_at(mut self, start: Timestamp) -> Self {
        self.start = Some(start);
        self
    }

    /// Seed of uids and generated names. Default: 0.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Whether objects of built-in kinds get the defaults of their types and are validated by them. Default:
    /// true.
    pub const fn types(mut self, types: bool) -> Self {
        self.settings.types = types;
        self
    }

    /// Turns the garbage collector off, for tests of another collector against the cluster. Namespaces are
    /// still emptied and pods still terminate.
    pub const fn without_collector(mut self) -> Self {
        self.collects = false;
        self
    }

    /// Assumptions about kubelets, cloud and storage. Default: pods end after their grace period, the cloud
    /// and CSI controllers remove their finalizers, and other finalizers stay.
    pub fn assumptions(mut self, assumptions: Assumptions) -> Self {
        self.assumptions = assumptions;
        self
    }

    /// Plays the controllers that create workloads, the scheduler and the kubelets: Deployments get
    /// ReplicaSets and pods, pods are scheduled and become ready, claims are bound. Default: none of them
    /// acts, and objects stay as clients write them.
    ///
    /// A cluster without a Node gets one named `node`, unless [`Workloads::nodes`] names others.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use kubegc_testkit::{Cluster, PodFate, Workloads};
    ///
    /// let slow = PodFate::Ready { after: Duration::from_secs(20) };
    /// let cluster = Cluster::builder()
    ///     .workloads(Workloads::new().pods(move |pod| pod.has_label("app", "web").then_some(slow)))
    ///     .yaml("
    /// apiVersion: apps/v1
    /// kind: Deployment
    /// metadata: {name: web}
    /// spec:
    ///   replicas: 2
    ///   selector: {matchLabels: {app: web}}
    ///   template:
    ///     metadata: {labels: {app: web}}
    ///     spec: {containers: [{name: web, image: nginx}]}
    /// ")
    ///     .build()?;
    /// let available = || {
    ///     let web: Deployment = cluster.find("default", "web").unwrap();
    ///     web.status.unwrap().available_replicas
    /// };
    /// cluster.settle().await?;
    /// assert_eq!(available(), None);
    /// cluster.settle_within(Duration::from_secs(20)).await?;
    /// assert_eq!(available(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn workloads(mut self, workloads: Workloads) -> Self {
        self.workloads = Some(workloads);
        self
    }

    /// Maximum number of requests of one [`Cluster::settle`]. Default: 10 000.
    pub const fn calls_max(mut self, calls: u64) -> Self {
        self.calls_max = calls;
        self
    }

    /// For how long [`Cluster::settle`] waits for requests of tasks that run on other threads or wait for
    /// real timers. Real time; not used if tokio's clock is paused. Default: 20 ms. Too little ends a
    /// settle before a slow task has reacted; each settle takes at least this long.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether the cluster's time is tokio's, paused or running. Default: if tokio's clock is paused when
    /// the cluster is built.
    ///
    /// With a running clock this is a cluster in real time that begins now: for work with `kubectl`, together
    /// with [`Cluster::run`].
    pub const fn follow_tokio_clock(mut self, follow: bool) -> Self {
        self.follow = Some(follow);
        self
    }

    /// Builds the cluster.
    ///
    /// # Errors
    /// The first object that cannot be read or created.
    pub fn build(self) -> Result<Cluster, BuildError> {
        let mut server = ApiServer::new(self.version, Catalog::builtin(self.version));
        server = server.with_settings(self.settings.clone());
        let is_paused = tokio_is_paused();
        let follow = self.follow.unwrap_or(is_paused);
        let is_real = follow && !is_paused;
        let start = self
            .start
            .unwrap_or_else(|| if is_real { machine_time() } else { START });
        server.set_now(start);
        for name in &self.namespaces {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            add(&mut server, namespace)?;
        }
        let mut objects = Vec::new();
        for object in &self.objects {
            match object.clone()? {
                mut list if list["kind"] == "List" => {
                    objects.extend(list["items"].as_array_mut().into_iter().flat_map(std::mem::take));
                }
                object => objects.push(object),
            }
        }
        for name in self.nodes(&objects) {
            let node = ready_node(&name, start);
            add(&mut server, node.clone())?;
            // Its taint has been removed by now.
            if let Some(kind) = server.catalog().mapping("v1", "Node") {
                accepted(server.update_subresource(kind, "", &name, "", node), &name)?;
            }
        }
        let settings = kubegc_control_plane::Settings {
            collector_runs: self.collects,
            assumptions: Arc::new(self.assumptions.clone()),
            workloads: self.workloads.clone().map(Arc::new),
            ..kubegc_control_plane::Settings::new(self.version)
        };
        let plane = Plane::new(&server, settings);
        objects.sort_by_key(|object| match object["kind"].as_str() {
            Some("Namespace") => 0,
            Some("CustomResourceDefinition") => 1,
            _ => 2,
        });
        for object in objects {
            let is_known = |name: &String| object["metadata"]["name"] == **name;
            if object["kind"] == "Namespace" && self.namespaces.iter().any(is_known) {
                continue;
            }
            add(&mut server, object)?;
        }
        // The initial objects exist before the webhooks.
        server.call_webhooks();
        let clock = ClusterClock::new(start, follow);
        let state = State {
            plane,
            audit: Vec::new(),
            is_settled: true,
            faults: Faults::default(),
            access: Arc::default(),
            nodes: Handlers::default(),
            requests: BTreeMap::new(),
            watches: BTreeMap::new(),
            ended: BTreeSet::new(),
            numbers: 0,
        };
        Ok(Cluster {
            inner: Arc::new(Inner {
                shared: SharedApiServer::with_clock(server, Arc::new(clock.clone())),
                clock,
                began: start,
                state: Mutex::new(state),
                pulse: Pulse::default(),
                calls_max: self.calls_max,
                patience: self.patience,
            }),
        })
    }
}

impl Builder {
    /// The nodes that the workloads need, in addition to those among the objects.
    fn nodes(&self, objects: &[Value]) -> Vec<String> {
        let Some(workloads) = &self.workloads else {
            return Vec::new();
        };
        match workloads.node_names() {
            [] if objects.iter().all(|object| object["kind"] != "Node") => vec!["node".to_owned()],
            names => names.to_vec(),
        }
    }
}

/// Creates an object, with its status.
fn add(server: &mut ApiServer, mut object: Value) -> Result<(), BuildError> {
    let shown = shown(&object);
    let field = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let (api_version, kind_name) = (field("apiVersion"), field("kind"));
    let kind = server
        .catalog()
        .mapping(&api_version, &kind_name)
        .ok_or_else(|| BuildError::UnknownKind {
            object: shown.clone(),
            api_version,
            kind: kind_name,
        })?;
    let namespaced = server.catalog()[kind].is_namespaced();
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) if namespaced => namespace.to_owned(),
        None if namespaced => "default".to_owned(),
        _ => String::new(),
    };
    set_owner_uids(server, &mut object, &namespace, &shown)?;
    let status = object.get("status").filter(|status| !status.is_null()).cloned();
    let read = |object: Value| {
        Manifest::read(object).map_err(|problem| BuildError::Field {
            object: shown.clone(),
            problem,
        })
    };
    let mut wanted = read(object)?.object;
    let uid = std::mem::replace(&mut wanted.meta.uid, Uid::new(""));
    // The server assigns the version.
    wanted.meta.resource_version = ResourceVersion::new("");
    let uid = Some(uid).filter(|uid| !uid.is_empty());
    let created = accepted(server.create_with_uid(kind, &namespace, wanted, uid), &shown)?;
    let (Some(status), Some(mut stored)) = (status, created) else {
        return Ok(());
    };
    // A definition's status is the server's own.
    if *server.catalog()[kind].kind != *"CustomResourceDefinition" {
        let mut body = stored.body.as_deref().cloned().unwrap_or_else(Map::new);
        body.insert("status".to_owned(), status);
        stored.body = Some(body.into());
        let name = Arc::clone(&stored.meta.name);
        let response = server.update_part(kind, &namespace, &name, "status", stored);
        accepted(response, &shown)?;
    }
    Ok(())
}

fn accepted(response: Response, object: &str) -> Result<Option<StoredObject>, BuildError> {
    if let Some(status) = response.status().filter(|_| !response.is_success()) {
        return Err(BuildError::Refused {
            object: object.to_owned(),
            code: response.code,
            message: status.message.clone(),
        });
    }
    Ok(response.object().map(|object| StoredObject::clone(object)))
}

/// Sets missing uids of owner references to those of the objects that they name.
fn set_owner_uids(
    server: &ApiServer,
    object: &mut Value,
    namespace: &str,
    shown: &str,
) -> Result<(), BuildError> {
    let references = object.pointer_mut("/metadata/ownerReferences");
    let references = references.and_then(Value::as_array_mut).into_iter().flatten();
    for reference in references.filter(|reference| reference.is_object()) {
        if reference["uid"].as_str().is_some_and(|uid| !uid.is_empty()) {
            continue;
        }
        let text = |key: &str| reference[key].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let owner = server.catalog().mapping(text("apiVersion"), kind);
        let owner = owner.and_then(|kind| {
            let namespaced = server.catalog()[kind].is_namespaced();
            server.object(kind, if namespaced { namespace } else { "" }, name)
        });
        let Some(owner) = owner else {
            return Err(BuildError::UnknownOwner {
                object: shown.to_owned(),
                owner: format!("{kind}/{name}"),
            });
        };
        reference["uid"] = owner.meta.uid.to_string().into();
    }
    Ok(())
}

/// An object as errors name it.
fn shown(object: &Value) -> String {
    let metadata = &object["metadata"];
    let parts = [&metadata["namespace"], &object["kind"], &metadata["name"]];
    let mut parts: Vec<&str> = parts.into_iter().filter_map(Value::as_str).collect();
    parts.retain(|part| !part.is_empty());
    match parts.as_slice() {
        [] => "an object without kind and name".to_owned(),
        parts => parts.join("/"),
    }
}
