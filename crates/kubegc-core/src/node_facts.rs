//! What a container runtime tells of a node: containers, sandboxes, images and the file system that holds them.

use std::{collections::BTreeMap, sync::Arc};

use crate::Timestamp;

/// State of a container.
#[expect(clippy::exhaustive_enums, reason = "CRI v1 defines these four")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerState {
    /// Created, never started.
    Created,
    /// Running.
    Running,
    /// Ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

/// One container, in any state.
#[expect(clippy::exhaustive_structs, reason = "a fact that runtimes build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// Id in the runtime.
    pub id: Arc<str>,
    /// Id of the sandbox that it runs in.
    pub sandbox_id: Arc<str>,
    /// Name in the pod.
    pub name: Arc<str>,
    /// How many containers of that name came before in this pod.
    pub attempt: u32,
    /// State.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: Timestamp,
    /// Id of the image that it was made from.
    pub image_id: Arc<str>,
    /// Labels, among them the pod's name, namespace and uid.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// State of a sandbox.
#[expect(clippy::exhaustive_enums, reason = "CRI v1 defines these two")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SandboxState {
    /// Ready.
    Ready,
    /// Not ready.
    NotReady,
}

/// One pod sandbox.
#[expect(clippy::exhaustive_structs, reason = "a fact that runtimes build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sandbox {
    /// Id in the runtime.
    pub id: Arc<str>,
    /// Uid of the pod.
    pub pod_uid: Arc<str>,
    /// Namespace of the pod.
    pub pod_namespace: Arc<str>,
    /// Name of the pod.
    pub pod_name: Arc<str>,
    /// State.
    pub state: SandboxState,
    /// When it was created.
    pub created_at: Timestamp,
}

/// One image on the node.
#[expect(clippy::exhaustive_structs, reason = "a fact that runtimes build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// Id in the runtime.
    pub id: Arc<str>,
    /// Handler that the image was pulled for; empty where the runtime does not say.
    pub runtime_handler: Arc<str>,
    /// Size that the runtime reports. Shared layers count in every image that has them.
    pub size_bytes: u64,
    /// Whether the runtime refuses to give it up.
    pub pinned: bool,
    /// Tags.
    pub tags: Vec<Arc<str>>,
}

/// The file system that holds images or writable layers.
#[expect(clippy::exhaustive_structs, reason = "a fact that runtimes build")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileSystem {
    /// Bytes that it holds in all; `None` where unknown.
    pub capacity_bytes: Option<u64>,
    /// Bytes that are free; `None` where unknown.
    pub available_bytes: Option<u64>,
    /// Bytes that images or layers use.
    pub used_bytes: u64,
}
