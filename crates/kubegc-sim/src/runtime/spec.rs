//! Settings and errors of a simulated node, and specs of its images, containers and pods.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    Uid,
    node_facts::{Container, ContainerState, PodIdentity},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSettings {
    /// Capacity of the node's file system in bytes. Default: 100 GiB.
    pub capacity_bytes: u64,
    /// The seed of ids and of the order of listings. Default: 0.
    pub seed: u64,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            capacity_bytes: 100 << 30,
            seed: 0,
        }
    }
}

/// The reason why a change of the node failed. Nothing changed, unless the method says otherwise.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NodeError {
    #[error("no space left on device: {wanted_bytes} bytes wanted, {available_bytes} available")]
    NoSpace { wanted_bytes: u64, available_bytes: u64 },
    #[error("there is no {noun} {id:?}")]
    NotFound {
        noun: &'static str,
        /// The id or reference.
        id: Arc<str>,
    },
    /// The sandbox is not ready, or the state of the container does not allow the change.
    #[error("{noun} {id:?} is {state}")]
    State {
        noun: &'static str,
        id: Arc<str>,
        state: &'static str,
    },
}

impl NodeError {
    pub(super) fn not_found(noun: &'static str, id: &str) -> Self {
        Self::NotFound { noun, id: id.into() }
    }

    /// The state of a container does not allow the change.
    pub(super) fn container(facts: &Container) -> Self {
        Self::State {
            noun: "container",
            id: Arc::clone(&facts.id),
            state: match facts.state {
                ContainerState::Created => "created",
                ContainerState::Running => "running",
                ContainerState::Exited => "exited",
                ContainerState::Unknown => "unknown",
            },
        }
    }
}

/// One layer of an image. Images with the same digest share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layer {
    /// Digest; any string is valid.
    pub digest: Arc<str>,
    pub size_bytes: u64,
}

/// An image in a registry. Its id is derived from its layers, so the same content has the same id under every
/// tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ImageSpec {
    /// The tag; empty for an image without one.
    pub tag: Arc<str>,
    /// Its layers. A repeated digest counts once.
    pub layers: Vec<Layer>,
    /// Whether the runtime reports it as pinned.
    pub pinned: bool,
    /// Handler of the pull; empty for the default.
    pub runtime_handler: Arc<str>,
}

impl ImageSpec {
    /// An image with this tag, without layers.
    pub fn new(tag: &str) -> Self {
        Self {
            tag: tag.into(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn layer(mut self, digest: &str, size_bytes: u64) -> Self {
        self.layers.push(Layer {
            digest: digest.into(),
            size_bytes,
        });
        self
    }

    /// The same image, pinned.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerSpec {
    pub name: Arc<str>,
    /// Tag, digest or id of an existing image; empty for a container without an image.
    pub image: Arc<str>,
    /// Handler of the image; empty for the default.
    pub runtime_handler: Arc<str>,
    /// Tags, digests or ids of images that it mounts as volumes.
    pub image_volumes: Vec<Arc<str>>,
    /// Bytes of its log at its start.
    pub log_bytes: u64,
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
}

impl ContainerSpec {
    /// A container with this name and image.
    pub fn new(name: &str, image: &str) -> Self {
        Self {
            name: name.into(),
            image: image.into(),
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Uid; `None`: a random one.
    pub uid: Option<Uid>,
    pub containers: Vec<ContainerSpec>,
}

impl PodSpec {
    /// A pod with this name, without containers.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn container(mut self, container: ContainerSpec) -> Self {
        self.containers.push(container);
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunningPod {
    pub pod: PodIdentity,
    pub sandbox_id: Arc<str>,
    /// Ids of its containers, in the order of the spec.
    pub container_ids: Vec<Arc<str>>,
}
