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

/// The measurements of a node, by signal.
pub type Observations = BTreeMap<Signal, Observation>;

/// The measurement of one signal, if its capacity is not zero.
pub(super) fn measured(observations: &Observations, signal: Signal) -> Option<&Observation> {
    observations
        .get(&signal)
        .filter(|observation| observation.capacity > 0)
}

impl FileSystemRole {
    /// The measurements of a file system, for bytes and for inodes. Skips each of them if its capacity or its
    /// available amount is unknown.
    pub fn observations(self, measured: &FileSystem, at: Option<Timestamp>) -> Observations {
        let (bytes, inodes) = match self {
            Self::Node => (Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
            Self::Images => (Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
            Self::Containers => (Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree),
        };
        let of_bytes = measured.available_bytes.zip(measured.capacity_bytes);
        let of_inodes = measured.inodes_free.zip(measured.inodes);
        let known = [(bytes, of_bytes), (inodes, of_inodes)].into_iter();
        let observations = known.filter_map(|(signal, known)| {
            let (available, capacity) = known?;
            let observation = Observation {
                available,
                capacity,
                at,
            };
            Some((signal, observation))
        });
        observations.collect()
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
        let observation = measured(observations, self.signal)?;
        let mut threshold = self.value.of(observation.capacity);
        if let (MinimumReclaim::Enforced, Some(amount)) = (reclaim, self.minimum_reclaim) {
            threshold = threshold.plus(amount.of(observation.capacity));
        }
        Some(threshold > Quantity::binary_si(observation.available))
    }
}
