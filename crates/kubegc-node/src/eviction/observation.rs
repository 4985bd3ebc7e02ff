//! What a node measured of its signals, and whether a threshold is met by it.

use std::collections::BTreeMap;

use kubegc_core::{Quantity, Timestamp, node_facts::FileSystem};

use super::{Signal, Threshold};

/// What was measured of one signal: bytes, inodes or process ids.
#[expect(clippy::exhaustive_structs, reason = "a fact that adapters build")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observation {
    /// How much is free.
    pub available: u64,
    /// How much there is in all.
    pub capacity: u64,
    /// When it was measured; `None` where the source does not say, which always counts as news.
    pub at: Option<Timestamp>,
}

/// What a file system holds.
#[expect(clippy::exhaustive_enums, reason = "upstream tells these three apart")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileSystemRole {
    /// The node's own files.
    Node,
    /// Images.
    Images,
    /// Writable layers of containers.
    Containers,
}

/// What was measured of all signals. A signal that is absent was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observations {
    by_signal: BTreeMap<Signal, Observation>,
}

impl Observations {
    /// What was measured of one signal.
    #[must_use]
    pub fn get(&self, signal: Signal) -> Option<&Observation> {
        self.by_signal.get(&signal)
    }

    /// What was measured of one signal, where that counts: a measurement of nothing in all does not.
    pub(super) fn measured(&self, signal: Signal) -> Option<&Observation> {
        self.get(signal).filter(|observation| observation.capacity > 0)
    }

    /// Takes in what was measured of one signal, in place of what was known.
    pub fn insert(&mut self, signal: Signal, observation: Observation) {
        self.by_signal.insert(signal, observation);
    }

    /// Takes in what was measured of a file system: its bytes and inodes, each where both its capacity and what is free are known.
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

    /// What was measured, in the order of the signals.
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

/// Whether the minimum reclaim counts on top of a threshold's value.
#[expect(clippy::exhaustive_enums, reason = "it counts or it does not")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MinimumReclaim {
    /// The value alone counts.
    Ignored,
    /// So much more must be available.
    Enforced,
}

impl Threshold {
    /// Whether less is available than it asks for. `None`: its signal was not measured, or there is nothing of it in all; that counts as not met.
    ///
    /// # Upstream
    /// `thresholdsMet` in `eviction/helpers.go`, which takes a capacity of zero for a measurement, so that absolute thresholds are met by it.
    #[must_use]
    pub fn is_met(&self, observations: &Observations, reclaim: MinimumReclaim) -> Option<bool> {
        let observation = observations.measured(self.signal)?;
        let mut asked = self.value.of(observation.capacity);
        if let (MinimumReclaim::Enforced, Some(amount)) = (reclaim, self.minimum_reclaim) {
            asked = asked.plus(amount.of(observation.capacity));
        }
        Some(asked > Quantity::binary_si(observation.available))
    }
}
