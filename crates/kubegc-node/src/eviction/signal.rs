//! The eviction signals of a node, with their resources and conditions.

use std::{fmt, str::FromStr};

use kubegc_core::FieldError;

use crate::{Semantics, semantics::behavior};

/// An eviction signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    /// Available memory of the node.
    MemoryAvailable,
    /// Available memory of the cgroup that contains all pods.
    AllocatableMemoryAvailable,
    /// Available bytes of `nodefs`, the file system of the kubelet's root directory.
    NodeFsAvailable,
    /// Free inodes of `nodefs`.
    NodeFsInodesFree,
    /// Available bytes of `imagefs`, the file system of images.
    ImageFsAvailable,
    /// Free inodes of `imagefs`.
    ImageFsInodesFree,
    /// Available bytes of `containerfs`, the file system of writable layers.
    ContainerFsAvailable,
    /// Free inodes of `containerfs`.
    ContainerFsInodesFree,
    /// Available process ids.
    PidAvailable,
}

/// The resource of a signal, by upstream's name in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    Memory,
    /// Bytes of a file system.
    EphemeralStorage,
    /// Inodes of a file system.
    Inodes,
    /// Process ids.
    Pids,
}

impl Resource {
    /// Upstream's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pressure condition of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeCondition {
    /// The node is short of memory.
    MemoryPressure,
    /// The node is short of disk space or inodes.
    DiskPressure,
    /// The node is short of process ids.
    PidPressure,
}

impl NodeCondition {
    /// The condition's type in the node's status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryPressure => "MemoryPressure",
            Self::DiskPressure => "DiskPressure",
            Self::PidPressure => "PIDPressure",
        }
    }
}

impl fmt::Display for NodeCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 9] = [
        Self::MemoryAvailable,
        Self::AllocatableMemoryAvailable,
        Self::NodeFsAvailable,
        Self::NodeFsInodesFree,
        Self::ImageFsAvailable,
        Self::ImageFsInodesFree,
        Self::ContainerFsAvailable,
        Self::ContainerFsInodesFree,
        Self::PidAvailable,
    ];

    /// Upstream's name, as in the kubelet's configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::AllocatableMemoryAvailable => "allocatableMemory.available",
            Self::NodeFsAvailable => "nodefs.available",
            Self::NodeFsInodesFree => "nodefs.inodesFree",
            Self::ImageFsAvailable => "imagefs.available",
            Self::ImageFsInodesFree => "imagefs.inodesFree",
            Self::ContainerFsAvailable => "containerfs.available",
            Self::ContainerFsInodesFree => "containerfs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }

    /// Returns whether it is a signal of `containerfs`.
    #[must_use]
    pub const fn is_container_fs(self) -> bool {
        matches!(self, Self::ContainerFsAvailable | Self::ContainerFsInodesFree)
    }

    /// Returns whether this version supports the signal.
    #[must_use]
    pub const fn is_known(self, semantics: Semantics) -> bool {
        !self.is_container_fs() || semantics.version.has(behavior::CONTAINER_FS_SIGNALS)
    }

    /// Its resource; `None` if the version has no entry for it.
    #[must_use]
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
    #[must_use]
    pub const fn condition(self, semantics: Semantics) -> Option<NodeCondition> {
        match self.resource(semantics) {
            None => None,
            Some(Resource::Memory) => Some(NodeCondition::MemoryPressure),
            Some(Resource::EphemeralStorage | Resource::Inodes) => Some(NodeCondition::DiskPressure),
            Some(Resource::Pids) => Some(NodeCondition::PidPressure),
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Signal {
    type Err = FieldError;

    /// Parses upstream's exact name.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        Self::ALL
            .into_iter()
            .find(|signal| signal.as_str() == text)
            .ok_or_else(|| FieldError::invalid("", text, "not an eviction signal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_to_their_signals_and_other_texts_are_rejected() {
        for signal in Signal::ALL {
            assert_eq!(signal.as_str().parse(), Ok(signal));
        }
        for bad in [
            "",
            "memory",
            "nodefs.inodesfree",
            "Nodefs.available",
            " pid.available",
        ] {
            assert!(bad.parse::<Signal>().is_err(), "{bad}");
        }
    }
}
