//! The times at which the disk is full enough for image deletion and for pod evictions.

use std::time::Duration;

use kubegc_core::{Quantity, Timestamp, node_facts::FileSystem};
use kubegc_node::{
    Policy,
    eviction::{Layout, Signal, Threshold},
};

use super::NodeFrame;

/// The time at which an event is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Due {
    #[display("now")]
    Now,
    #[display("from {_0} on")]
    At(Timestamp),
    #[display("never")]
    Never,
    /// It depends on a growth rate that was not given.
    #[display("not now; give --growth to know when")]
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
    pub(super) fn forecast(
        policy: &Policy,
        file_system: FileSystem,
        freed_bytes: u64,
        frame: NodeFrame,
    ) -> Option<Self> {
        let usage_percent = policy.image.usage_percent(&file_system)?;
        let (now, bytes_per_hour) = (frame.now, frame.growth_bytes_per_hour);
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
        let collects = policy.image.collects_below_bytes(capacity);
        let collects = collects.filter(|_| policy.image_loop().enabled);
        let is_meant = |one: &Threshold| one.signal == Signal::ImageFsAvailable && one.is_hard();
        let thresholds = policy.eviction.effective(Layout::DedicatedImages).into_iter();
        let amounts = thresholds.filter(is_meant).map(|one| one.value.of(capacity));
        Some(Self {
            file_system,
            usage_percent,
            high_percent: policy.image.thresholds.high_percent,
            collection: due(collects),
            again: (freed_bytes > 0).then(|| due_with(freed, collects)),
            eviction: amounts.max().map(|amount| due(most_below(amount, capacity))),
        })
    }
}

/// The most bytes of a capacity that are less than an amount; `None` if none are, or without a capacity.
fn most_below(amount: Quantity, capacity: u64) -> Option<u64> {
    if capacity == 0 || amount.is_negative() || amount.is_zero() {
        return None;
    }
    let whole = amount.rounded_up(0).as_i64();
    // A greater amount exceeds every capacity.
    Some(whole.map_or(capacity, |whole| capacity.min(whole.unsigned_abs() - 1)))
}

/// Time to write a number of bytes, rounded up to a second. The rate is not zero.
fn time_to_write(bytes: u64, bytes_per_hour: u64) -> Duration {
    let seconds = (u128::from(bytes) * 3600).div_ceil(u128::from(bytes_per_hour.max(1)));
    Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX))
}
