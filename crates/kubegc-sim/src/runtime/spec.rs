//! What a caller says of images, containers and pods that come to a simulated node.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{Uid, node_facts::PodIdentity};

/// One layer of an image. Images that name the same digest share it.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layer {
    /// Digest; any text will do.
    pub digest: Arc<str>,
    /// Bytes that it takes on disk.
    pub size_bytes: u64,
}

/// An image as a registry has it.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ImageSpec {
    /// The tag that it is pulled by; empty for an image without one.
    pub tag: Arc<str>,
    /// Its layers. A digest that is named again counts once.
    pub layers: Vec<Layer>,
    /// Id that it gets. `None`: one that follows from the layers, so that the same content has the same id under every tag.
    pub id: Option<Arc<str>>,
    /// Whether the runtime wants it kept.
    pub pinned: bool,
    /// Handler that it is pulled for; empty for the default.
    pub runtime_handler: Arc<str>,
}

impl ImageSpec {
    /// An image of this tag, without layers as yet.
    #[must_use]
    pub fn new(tag: &str) -> Self {
        Self {
            tag: tag.into(),
            ..Self::default()
        }
    }

    /// Adds a layer.
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

/// A container as a pod asks for it.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerSpec {
    /// Name in the pod.
    pub name: Arc<str>,
    /// Tag, digest or id of an image that is there; empty for a container without an image.
    pub image: Arc<str>,
    /// Handler that the image was pulled for; empty for the default.
    pub runtime_handler: Arc<str>,
    /// Tags, digests or ids of images that are mounted into it as volumes.
    pub image_volumes: Vec<Arc<str>>,
    /// Bytes of its writable layer when it is created.
    pub writable_bytes: u64,
    /// Bytes that it writes into that layer each hour while it runs.
    pub writable_bytes_per_hour: u64,
    /// Bytes of its log when it starts.
    pub log_bytes: u64,
    /// Bytes that it logs each hour while it runs.
    pub log_bytes_per_hour: u64,
    /// Annotations.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
}

impl ContainerSpec {
    /// A container of this name, made from this image.
    #[must_use]
    pub fn new(name: &str, image: &str) -> Self {
        Self {
            name: name.into(),
            image: image.into(),
            ..Self::default()
        }
    }
}

/// A pod as the node is told to run it.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Uid; `None`: one is drawn.
    pub uid: Option<Uid>,
    /// Its containers.
    pub containers: Vec<ContainerSpec>,
}

impl PodSpec {
    /// A pod of this name, without containers as yet.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds a container.
    #[must_use]
    pub fn container(mut self, container: ContainerSpec) -> Self {
        self.containers.push(container);
        self
    }
}

/// A pod that was started on a node.
#[expect(clippy::exhaustive_structs, reason = "an answer that callers take apart")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunningPod {
    /// The pod.
    pub pod: PodIdentity,
    /// Id of its sandbox.
    pub sandbox_id: Arc<str>,
    /// Ids of its containers, in the order of the spec.
    pub container_ids: Vec<Arc<str>>,
}
