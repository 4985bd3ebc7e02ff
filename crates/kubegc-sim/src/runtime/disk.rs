//! Used and free bytes of each file system.

use kubegc_core::node_facts::FileSystem;

use super::{
    error::NodeError,
    settings::{FileSystemRole, Layout},
};

/// The purpose of used bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Layers,
    Writable,
    Logs,
    /// Written by other processes, on the node's file system.
    Other,
    /// Written by other processes, on the file system for images.
    OtherOnImages,
}

/// Used bytes by purpose.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// Layers of images, each once, including those that are not yet freed.
    pub layers_bytes: u64,
    /// Writable layers of containers, including those that are not yet freed.
    pub writable_bytes: u64,
    /// Log files.
    pub logs_bytes: u64,
    /// Bytes that other processes wrote, on any file system.
    pub other_bytes: u64,
    /// The part of layers and writable layers that is unused and is freed later.
    pub pending_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Disks {
    capacity_bytes: u64,
    layout: Layout,
    /// By [`Purpose`].
    used: [u64; 5],
}

const PURPOSES: [Purpose; 5] = [
    Purpose::Layers,
    Purpose::Writable,
    Purpose::Logs,
    Purpose::Other,
    Purpose::OtherOnImages,
];

impl Disks {
    pub(super) const fn new(capacity_bytes: u64, layout: Layout) -> Self {
        Self {
            capacity_bytes,
            layout,
            used: [0; 5],
        }
    }

    pub(super) const fn used(&self, purpose: Purpose) -> u64 {
        self.used[purpose as usize]
    }

    /// Whether bytes for this purpose are on a file system for images.
    const fn on_images(&self, purpose: Purpose) -> bool {
        match self.layout {
            Layout::Shared => false,
            Layout::DedicatedImages { .. } => {
                matches!(
                    purpose,
                    Purpose::Layers | Purpose::Writable | Purpose::OtherOnImages
                )
            }
            Layout::SplitImages { .. } => matches!(purpose, Purpose::Layers | Purpose::OtherOnImages),
        }
    }

    /// Capacity and used bytes of the file system for this purpose. The used bytes never exceed the capacity.
    fn disk_of(&self, purpose: Purpose) -> (u64, u64) {
        let on_images = self.on_images(purpose);
        let capacity_bytes = match self.layout {
            Layout::DedicatedImages { capacity_bytes } | Layout::SplitImages { capacity_bytes }
                if on_images =>
            {
                capacity_bytes
            }
            _ => self.capacity_bytes,
        };
        let used = PURPOSES
            .iter()
            .filter(|other| self.on_images(**other) == on_images)
            .map(|other| self.used(*other));
        (capacity_bytes, used.fold(0, u64::saturating_add))
    }

    pub(super) fn available(&self, purpose: Purpose) -> u64 {
        let (capacity_bytes, used_bytes) = self.disk_of(purpose);
        capacity_bytes.saturating_sub(used_bytes)
    }

    /// Allocates bytes, all or none.
    pub(super) fn take(&mut self, purpose: Purpose, bytes: u64) -> Result<(), NodeError> {
        let available_bytes = self.available(purpose);
        if bytes > available_bytes {
            return Err(NodeError::NoSpace {
                wanted_bytes: bytes,
                available_bytes,
            });
        }
        self.used[purpose as usize] += bytes;
        Ok(())
    }

    /// Allocates as many of these bytes as are free.
    pub(super) fn take_some(&mut self, purpose: Purpose, bytes: u64) -> u64 {
        let taken = bytes.min(self.available(purpose));
        self.used[purpose as usize] += taken;
        taken
    }

    /// Frees bytes; at most those that were allocated.
    pub(super) fn give(&mut self, purpose: Purpose, bytes: u64) -> u64 {
        let given = bytes.min(self.used(purpose));
        self.used[purpose as usize] -= given;
        given
    }

    /// The purpose of the bytes that other processes write to a file system.
    pub(super) const fn others_on(&self, role: FileSystemRole) -> Purpose {
        let purpose = purpose_of(role);
        if self.on_images(purpose) {
            Purpose::OtherOnImages
        } else {
            Purpose::Other
        }
    }

    /// The usage of a file system. `used_bytes` counts the bytes that the runtime reports: layers, and
    /// writable layers if they are on this file system. For the node's file system it counts all bytes.
    pub(super) fn file_system(&self, role: FileSystemRole) -> FileSystem {
        let purpose = purpose_of(role);
        let (capacity_bytes, used_bytes) = self.disk_of(purpose);
        let known = [Purpose::Layers, Purpose::Writable]
            .into_iter()
            .filter(|other| self.on_images(*other) == self.on_images(purpose))
            .map(|other| self.used(other))
            .fold(0, u64::saturating_add);
        FileSystem {
            capacity_bytes: Some(capacity_bytes),
            available_bytes: Some(capacity_bytes.saturating_sub(used_bytes)),
            used_bytes: Some(match role {
                FileSystemRole::Node => used_bytes,
                FileSystemRole::Images | FileSystemRole::Containers => known,
            }),
            inodes: None,
            inodes_free: None,
        }
    }
}

const fn purpose_of(role: FileSystemRole) -> Purpose {
    match role {
        FileSystemRole::Node => Purpose::Other,
        FileSystemRole::Images => Purpose::Layers,
        FileSystemRole::Containers => Purpose::Writable,
    }
}

/// Bytes that are written at a steady rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    pub(super) bytes_per_hour: u64,
    /// The remainder of a byte, in bytes per hour times nanoseconds.
    remainder: u128,
}

const HOUR_NANOS: u128 = 3_600_000_000_000;

impl Growth {
    pub(super) const fn new(bytes_per_hour: u64) -> Self {
        Self {
            bytes_per_hour,
            remainder: 0,
        }
    }

    /// Bytes that are written in this time. The sum does not depend on how the time is divided.
    pub(super) fn over(&mut self, elapsed: std::time::Duration) -> u64 {
        let parts = u128::from(self.bytes_per_hour)
            .saturating_mul(elapsed.as_nanos())
            .saturating_add(self.remainder);
        self.remainder = parts % HOUR_NANOS;
        u64::try_from(parts / HOUR_NANOS).unwrap_or(u64::MAX)
    }
}
