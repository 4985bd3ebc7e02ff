//! The times at which the disk is full enough for image deletion and for pod evictions.

use std::time::Duration;

use kubegc_core::{Timestamp, node_facts::FileSystem};
use kubegc_node::{
    Policy,
    eviction::{FileSystemRole, Layout, MinimumReclaim, Signal},
};

/// The time at which an event is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Due {
    /// It is due already.
    Now,
    /// It is due at this time.
    At(Timestamp),
    Never,
    /// It depends on a growth rate that was not given.
    NoGrowth,
}

/// The image file system and its future usage.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    /// Its current usage.
    pub file_system: FileSystem,
    /// Disk usage, in percent as upstream computes it.
    pub usage_percent: i64,
    /// The usage above which images are removed.
    pub high_percent: i32,
    /// The time at which that usage is reached.
    pub collection: Due,
    /// The time at which it is reached again after the next garbage collection, if the deleted images free
    /// the sum of their sizes; `None` if none is deleted.
    pub again: Option<Due>,
    /// The time at which pods are evicted if no images are deleted: the first hard threshold of
    /// `imagefs.available`.
    pub eviction: Option<Due>,
}

impl Disk {
    /// Predicts the usage of a file system with constant growth, of which the next garbage collection frees
    /// `freed_bytes`; `None` if its capacity or its free bytes are unknown.
    pub fn forecast(
        policy: &Policy,
        file_system: FileSystem,
        usage_percent: i64,
        freed_bytes: u64,
        bytes_per_hour: u64,
        now: Timestamp,
    ) -> Option<Self> {
        let capacity = file_system.capacity_bytes?;
        let available = file_system.available_bytes?.min(capacity);
        let due_with = |available: u64, at: Option<u64>| match at {
            None => Due::Never,
            Some(bytes) if available <= bytes => Due::Now,
            Some(_) if bytes_per_hour == 0 => Due::NoGrowth,
            Some(bytes) => Due::At(now.saturating_add(time_to_write(available - bytes, bytes_per_hour))),
        };
        let due = |at: Option<u64>| due_with(available, at);
        let freed = available.saturating_add(freed_bytes).min(capacity);
        let collects = policy
            .image
            .collects_below_bytes(capacity)
            .filter(|_| policy.image_loop().enabled);
        Some(Self {
            file_system,
            usage_percent,
            high_percent: policy.image.thresholds().high_percent,
            collection: due(collects),
            again: (freed_bytes > 0).then(|| due_with(freed, collects)),
            eviction: has_eviction(policy).then(|| due(evicts_below_bytes(policy, capacity))),
        })
    }
}

fn has_eviction(policy: &Policy) -> bool {
    let thresholds = policy.eviction.effective(Layout::DedicatedImages);
    thresholds
        .iter()
        .any(|threshold| threshold.signal == Signal::ImageFsAvailable && threshold.is_hard())
}

/// The most bytes that may be available for a hard threshold of the image file system to be met; `None` if
/// none is met even by a full one.
fn evicts_below_bytes(policy: &Policy, capacity: u64) -> Option<u64> {
    let thresholds = policy.eviction.effective(Layout::DedicatedImages);
    let is_met = |available: u64| {
        let measured = FileSystem {
            capacity_bytes: Some(capacity),
            available_bytes: Some(available),
            ..FileSystem::default()
        };
        let observations = FileSystemRole::Images.observations(&measured, None);
        thresholds
            .iter()
            .filter(|threshold| threshold.signal == Signal::ImageFsAvailable && threshold.is_hard())
            .any(|threshold| threshold.is_met(&observations, MinimumReclaim::Ignored) == Some(true))
    };
    if !is_met(0) {
        return None;
    }
    // A threshold that is met stays met with less available: halve between the two. At most 64 rounds.
    let (mut met, mut unmet) = (0, capacity.saturating_add(1));
    while unmet - met > 1 {
        let middle = met + (unmet - met) / 2;
        if is_met(middle) {
            met = middle;
        } else {
            unmet = middle;
        }
    }
    Some(met)
}

/// Time to write a number of bytes, rounded up to a second. The rate is not zero.
fn time_to_write(bytes: u64, bytes_per_hour: u64) -> Duration {
    let seconds = (u128::from(bytes) * 3600).div_ceil(u128::from(bytes_per_hour.max(1)));
    Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX))
}
