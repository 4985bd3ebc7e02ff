//! Containers and sandboxes in the form of the runtime's lists.

use std::{collections::BTreeMap, sync::Arc};

use super::PodIdentity;
use crate::{Timestamp, Uid};

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
