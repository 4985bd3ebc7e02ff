//! Used and free bytes of the disk.

use kubegc_core::node_facts::FileSystem;

use super::error::NodeError;

/// The purpose of used bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Layers,
    Logs,
    /// Written by other processes.
    Other,
}

/// One file system for everything. The used bytes never exceed the capacity.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    capacity_bytes: u64,
    /// By [`Purpose`].
    used: [u64; 3],
}

impl Disk {
    pub(super) const fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            used: [0; 3],
        }
    }

    fn available(&self) -> u64 {
        self.capacity_bytes - self.used.iter().sum::<u64>()
    }

    /// Allocates bytes, all or none.
    pub(super) fn take(&mut self, purpose: Purpose, bytes: u64) -> Result<(), NodeError> {
        let available_bytes = self.available();
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
        let taken = bytes.min(self.available());
        self.used[purpose as usize] += taken;
        taken
    }

    /// Frees bytes that were allocated.
    pub(super) const fn give(&mut self, purpose: Purpose, bytes: u64) {
        self.used[purpose as usize] -= bytes;
    }

    /// The usage, as a runtime reports it: `used_bytes` counts the layers of images.
    pub(super) fn file_system(&self) -> FileSystem {
        FileSystem {
            capacity_bytes: Some(self.capacity_bytes),
            available_bytes: Some(self.available()),
            used_bytes: Some(self.used[Purpose::Layers as usize]),
            inodes: None,
            inodes_free: None,
        }
    }
}
