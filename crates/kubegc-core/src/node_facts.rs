//! Facts about a node: its containers, sandboxes, images, file systems, log files, and the pods that it
//! should run.
//!
//! Facts are shared (`Arc`): a plan refers to the container itself, with all its fields.

use std::{collections::BTreeMap, sync::Arc};

use crate::{Timestamp, Uid, identity::kubectl_name};

/// Labels of containers and sandboxes that name their pod and container.
pub mod label {
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// Uid of the pod: with the container's name, the evict unit.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Name of the container; containers only.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
}

/// Annotations of a container that determine its grace period.
pub mod annotation {
    /// Grace period of the pod's deletion in seconds.
    pub const DELETION_GRACE_PERIOD: &str = "io.kubernetes.pod.deletionGracePeriod";
    /// Grace period of the pod's spec in seconds.
    pub const TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
}

/// State of a container.
///
/// An unrecognized state is read as [`Unknown`](Self::Unknown), so that the container is stopped before it is
/// removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum ContainerState {
    /// Created, never started.
    Created,
    Running,
    /// Ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

/// The image of a container, as the runtime reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct ContainerImage {
    /// `image_ref`: an id, or with some runtimes a digest.
    pub reference: Arc<str>,
    /// `image_id`, part of CRI since 1.30; empty if the runtime does not report it.
    pub id: Arc<str>,
    /// `image.runtime_handler`; empty if the runtime does not report it.
    pub runtime_handler: Arc<str>,
}

/// One container, in any state.
///
/// The fields that a collector reads in every container come first.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Container {
    pub state: ContainerState,
    /// How many containers of that name existed before in this pod.
    pub attempt: u32,
    /// Creation time. The kubelet's collector never reads the end time.
    pub created_at: Timestamp,
    /// Name in the pod, from CRI metadata; `None` if the runtime reported no metadata.
    pub name: Option<Arc<str>>,
    pub pod: PodIdentity,
    pub id: Arc<str>,
    pub sandbox_id: Arc<str>,
    pub image: ContainerImage,
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
}

impl Container {
    /// A container with these fields only; the labels are those of the pod.
    pub fn new(
        id: &str,
        pod: impl Into<PodIdentity>,
        name: &str,
        state: ContainerState,
        created_at: Timestamp,
    ) -> Self {
        let pod = pod.into();
        let uid = pod.uid.text();
        let labels = [
            (label::POD_UID, uid.as_str()),
            (label::POD_NAMESPACE, &pod.namespace),
            (label::POD_NAME, &pod.name),
            (label::CONTAINER_NAME, name),
        ];
        let labels = labels
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (Arc::from(key), Arc::from(value)))
            .collect();
        Self {
            id: id.into(),
            sandbox_id: Arc::default(),
            name: Some(name.into()),
            attempt: 0,
            pod,
            state,
            created_at,
            image: ContainerImage::default(),
            labels,
            annotations: BTreeMap::new(),
        }
    }

    /// A container that has ended, with these fields only.
    pub fn exited(id: &str, pod: impl Into<PodIdentity>, name: &str, created_at: Timestamp) -> Self {
        Self::new(id, pod, name, ContainerState::Exited, created_at)
    }
}

impl PodIdentity {
    /// The pod in these labels. Missing labels leave empty fields.
    pub fn from_labels(labels: &BTreeMap<Arc<str>, Arc<str>>) -> Self {
        let text = |key: &str| labels.get(key).cloned().unwrap_or_default();
        Self {
            uid: Uid::new(&text(label::POD_UID)),
            namespace: text(label::POD_NAMESPACE),
            name: text(label::POD_NAME),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerStatus {
    pub state: ContainerState,
    /// Path of its log file; empty if there is none.
    pub log_path: Arc<str>,
    /// Ids of the images that it mounts as volumes.
    pub image_volumes: Vec<Arc<str>>,
}

/// State of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum SandboxState {
    Ready,
    NotReady,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Sandbox {
    pub id: Arc<str>,
    /// The pod, from CRI metadata.
    pub pod: PodIdentity,
    /// How many sandboxes existed before in this pod.
    pub attempt: u32,
    pub state: SandboxState,
    pub created_at: Timestamp,
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// The pod of a container or sandbox.
///
/// Order and equality compare the uid first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", kubectl_name("", "Pod", namespace, name))]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct PodIdentity {
    /// Uid; empty if the runtime does not report it, as upstream.
    pub uid: Uid,
    /// Namespace; empty if the runtime does not report it.
    pub namespace: Arc<str>,
    /// Name; empty if the runtime does not report it.
    pub name: Arc<str>,
}

impl From<[&str; 3]> for PodIdentity {
    /// Namespace, name and uid.
    fn from([namespace, name, uid]: [&str; 3]) -> Self {
        Self {
            uid: Uid::new(uid),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// The state of a known pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodState {
    /// The kubelet evicted it, or it was already evicted when the kubelet received it.
    pub evicted: bool,
    pub deleted: bool,
    /// None of its containers is running, and none will be started.
    pub terminated: bool,
}

impl PodState {
    /// A pod that is meant to run.
    pub const ACTIVE: Self = Self {
        evicted: false,
        deleted: false,
        terminated: false,
    };
    /// A pod that completed and still exists in the API (phase Succeeded or Failed).
    pub const COMPLETED: Self = Self {
        evicted: false,
        deleted: false,
        terminated: true,
    };
    /// A pod that is being deleted and whose containers have ended.
    pub const DELETED: Self = Self {
        evicted: false,
        deleted: true,
        terminated: true,
    };
}

/// The pods of the node, and whether the list is complete.
///
/// # Guarantees
/// `Default` means *unknown*: no sources are ready, nothing was compared, and no pod counts as removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pods {
    pub known: BTreeMap<Uid, PodState>,
    /// Every configured source of pods (API, static file, static URL) has delivered at least once. Upstream:
    /// `allSourcesReady`.
    pub sources_ready: bool,
    /// The running pods were compared at least once with the desired ones: a uid that is not `known` is
    /// garbage, not a new pod. Upstream: `podsSynced`.
    pub synced: bool,
}

/// An image in the form of the runtime's list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Image {
    /// Id in the runtime, such as `sha256:…`.
    pub id: Arc<str>,
    /// Handler of the image; empty if the runtime does not report it.
    pub runtime_handler: Arc<str>,
    /// Size that the runtime reports. Shared layers count in every image with them.
    pub size_bytes: u64,
    /// Whether the runtime reports it as pinned.
    pub pinned: bool,
    /// Tags, such as `registry.example/shop/web:1.4`.
    pub tags: Vec<Arc<str>>,
    /// Digests, such as `registry.example/shop/web@sha256:…`.
    pub digests: Vec<Arc<str>>,
}

impl Image {
    /// An image of this size without tags.
    pub fn new(id: &str, size_bytes: u64) -> Self {
        Self {
            id: id.into(),
            size_bytes,
            ..Self::default()
        }
    }

    /// The name for users: its first tag, else its first digest, else its id.
    pub fn name(&self) -> &str {
        self.tags.first().or(self.digests.first()).unwrap_or(&self.id)
    }
}

/// A file system with images, writable layers, or everything else of the node.
///
/// Runtimes report their usage only: capacity and free bytes come from the file system itself (`statfs`, or
/// the kubelet's `/stats/summary`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystem {
    /// Total bytes; `None` if unknown.
    pub capacity_bytes: Option<u64>,
    /// Free bytes; `None` if unknown.
    pub available_bytes: Option<u64>,
    /// Bytes of images or layers; `None` if unknown.
    pub used_bytes: Option<u64>,
    /// Total inodes; `None` if unknown.
    pub inodes: Option<u64>,
    /// Free inodes; `None` if unknown.
    pub inodes_free: Option<u64>,
}

/// The result of following a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogTarget {
    Exists,
    /// The file does not exist: the link dangles.
    Missing,
    /// The check failed in another way.
    Unknown,
}

/// One entry of `/var/log/containers` that ends in `.log`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogLink {
    /// Complete path of the link.
    pub path: Arc<str>,
    pub target: LogTarget,
}
