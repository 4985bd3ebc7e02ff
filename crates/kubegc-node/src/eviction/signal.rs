//! The eviction signals of a node, with their resources and conditions.

use std::str::FromStr;

use kubegc_core::FieldError;

use crate::{Semantics, semantics::behavior};

names! {
    /// An eviction signal, by upstream's name, as in the kubelet's configuration.
    pub enum Signal {
        /// Of the node.
        MemoryAvailable = "memory.available";
        /// Of the cgroup that contains all pods.
        AllocatableMemoryAvailable = "allocatableMemory.available";
        /// Bytes of the file system of the kubelet's root directory.
        NodeFsAvailable = "nodefs.available";
        NodeFsInodesFree = "nodefs.inodesFree";
        /// Bytes of the file system of images.
        ImageFsAvailable = "imagefs.available";
        ImageFsInodesFree = "imagefs.inodesFree";
        /// Bytes of the file system of writable layers.
        ContainerFsAvailable = "containerfs.available";
        ContainerFsInodesFree = "containerfs.inodesFree";
        /// Process ids.
        PidAvailable = "pid.available";
    }

    /// The resource of a signal, by upstream's name in events.
    pub enum Resource {
        Memory = "memory";
        /// Bytes of a file system.
        EphemeralStorage = "ephemeral-storage";
        /// Inodes of a file system.
        Inodes = "inodes";
        /// Process ids.
        Pids = "pids";
    }

    /// A pressure condition of a node, by its type in the node's status.
    pub enum NodeCondition {
        MemoryPressure = "MemoryPressure";
        /// The node is short of disk space or inodes.
        DiskPressure = "DiskPressure";
        PidPressure = "PIDPressure";
    }
}

impl Signal {
    /// Returns whether it is a signal of `containerfs`.
    pub const fn is_container_fs(self) -> bool {
        matches!(self, Self::ContainerFsAvailable | Self::ContainerFsInodesFree)
    }

    /// Returns whether this version supports the signal.
    pub const fn is_known(self, semantics: Semantics) -> bool {
        !self.is_container_fs() || semantics.version.has(behavior::CONTAINER_FS_SIGNALS)
    }

    /// Its resource; `None` if the version has no entry for it.
    pub const fn resource(self, semantics: Semantics) -> Option<Resource> {
        match self {
            Self::MemoryAvailable | Self::AllocatableMemoryAvailable => Some(Resource::Memory),
            Self::NodeFsAvailable | Self::ImageFsAvailable => Some(Resource::EphemeralStorage),
            Self::NodeFsInodesFree | Self::ImageFsInodesFree => Some(Resource::Inodes),
            Self::PidAvailable => Some(Resource::Pids),
            Self::ContainerFsAvailable if self.is_known(semantics) => Some(Resource::EphemeralStorage),
            Self::ContainerFsInodesFree if self.is_known(semantics) => Some(Resource::Inodes),
            Self::ContainerFsAvailable | Self::ContainerFsInodesFree => None,
        }
    }

    /// The condition of the node while a threshold on it is met; `None` if the version has no entry for it.
    pub const fn condition(self, semantics: Semantics) -> Option<NodeCondition> {
        match self.resource(semantics) {
            None => None,
            Some(Resource::Memory) => Some(NodeCondition::MemoryPressure),
            Some(Resource::EphemeralStorage | Resource::Inodes) => Some(NodeCondition::DiskPressure),
            Some(Resource::Pids) => Some(NodeCondition::PidPressure),
        }
    }
}

impl FromStr for Signal {
    type Err = FieldError;

    /// Parses upstream's exact name.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let mut signals = Self::ALL.iter().copied();
        signals
            .find(|signal| signal.as_str() == text)
            .ok_or_else(|| FieldError::invalid("", text, "not an eviction signal"))
    }
}
