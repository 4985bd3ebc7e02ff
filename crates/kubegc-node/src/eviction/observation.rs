//! Measurements of a node's signals, and their comparison with thresholds ([N4.3](crate::rules#n4-3)).

use std::collections::BTreeMap;

use kubegc_core::{Quantity, Timestamp, node_facts::FileSystem};

use super::{Signal, Threshold};

/// A measurement of one signal: bytes, inodes or process ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observation {
    pub available: u64,
    pub capacity: u64,
    /// The time of the measurement. `None`: unknown, which counts as newer than any earlier measurement.
    pub at: Option<Timestamp>,
}

/// The use of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileSystemRole {
    /// The kubelet's root directory: `nodefs`.
    Node,
    /// Images: `imagefs`.
    Images,
    /// Writable layers of containers: `containerfs`.
    Containers,
}

/// The measurements of a node, at most one for each signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observations {
    by_signal: BTreeMap<Signal, Observation>,
}

impl Observations {
    /// The measurement of one signal; `None` if it was not measured.
    pub fn get(&self, signal: Signal) -> Option<&Observation> {
        self.by_signal.get(&signal)
    }

    /// The measurement of one signal, if its capacity is not zero.
    pub(super) fn measured(&self, signal: Signal) -> Option<&Observation> {
        self.get(signal).filter(|observation| observation.capacity > 0)
    }

    /// Sets the measurement of one signal.
    pub fn insert(&mut self, signal: Signal, observation: Observation) {
        self.by_signal.insert(signal, observation);
    }

    /// Sets the measurements of a file system, for bytes and for inodes. Skips each of them if its capacity
    /// or its available amount is unknown.
    pub fn insert_file_system(&mut self, role: FileSystemRole, measured: &FileSystem, at: Option<Timestamp>) {
        let (bytes, inodes) = match role {
            FileSystemRole::Node => (Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
            FileSystemRole::Images => (Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
            FileSystemRole::Containers => (Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree),
        };
        for (signal, available, capacity) in [
            (bytes, measured.available_bytes, measured.capacity_bytes),
            (inodes, measured.inodes_free, measured.inodes),
        ] {
            if let Some((available, capacity)) = available.zip(capacity) {
                self.insert(
                    signal,
                    Observation {
                        available,
                        capacity,
                        at,
                    },
                );
            }
        }
    }

    /// The measurements, in the order of the signals.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Signal, &Observation)> {
        self.by_signal
            .iter()
            .map(|(signal, observation)| (*signal, observation))
    }
}

impl FromIterator<(Signal, Observation)> for Observations {
    fn from_iter<I: IntoIterator<Item = (Signal, Observation)>>(measured: I) -> Self {
        Self {
            by_signal: measured.into_iter().collect(),
        }
    }
}

/// Whether the minimum reclaim is added to a threshold's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MinimumReclaim {
    /// Only the value is compared.
    Ignored,
    /// The minimum reclaim is added to the value.
    Enforced,
}

impl Threshold {
    /// Returns whether less than its value is available. `None`: its signal was not measured, or its capacity
    /// is zero. Callers treat that as not met.
    ///
    /// # Upstream
    /// `thresholdsMet` in
    /// [`eviction/helpers.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/helpers.go),
    /// which also compares measurements with a capacity of zero, so absolute thresholds are met.
    pub fn is_met(&self, observations: &Observations, reclaim: MinimumReclaim) -> Option<bool> {
        let observation = observations.measured(self.signal)?;
        let mut threshold = self.value.of(observation.capacity);
        if let (MinimumReclaim::Enforced, Some(amount)) = (reclaim, self.minimum_reclaim) {
            threshold = threshold.plus(amount.of(observation.capacity));
        }
        Some(threshold > Quantity::binary_si(observation.available))
    }
}
