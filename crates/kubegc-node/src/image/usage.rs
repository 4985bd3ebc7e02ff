//! The usage of the image file system, computed with upstream's integers, and the bytes to free.

use kubegc_core::node_facts::FileSystem;

use super::{Arithmetic, FreeSpace};

/// The usage of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) percent: i64,
    pub(super) capacity_bytes: i64,
    /// The bytes to free; `None` below the high threshold.
    pub(super) to_free_bytes: Option<i64>,
    /// Whether the available bytes exceeded the capacity and were reduced to it.
    pub(super) capped: bool,
    /// Whether an operation overflowed 64 bits.
    pub(super) overflow: bool,
}

/// [N3.30](crate::rules#n3-30) to [N3.33](crate::rules#n3-33). `None` if the capacity is zero or unknown.
pub(super) fn usage(policy: &FreeSpace, file_system: &FileSystem) -> Option<Usage> {
    let thresholds = &policy.thresholds;
    let (capacity, wrapped_capacity) = signed(file_system.capacity_bytes);
    let (available, wrapped_available) = signed(file_system.available_bytes);
    let capped = available > capacity;
    let available = available.min(capacity);
    if capacity == 0 {
        return None;
    }
    let mut overflow = wrapped_capacity || wrapped_available;
    let mut noting_overflow = |(value, wrapped): (i64, bool)| {
        overflow |= wrapped;
        value
    };
    // The capacity is not zero. The only quotient that overflows, i64::MIN / -1, wraps.
    let share = noting_overflow(available.overflowing_mul(100));
    let percent = 100_i64.wrapping_sub(noting_overflow(share.overflowing_div(capacity)));
    let over = percent >= i64::from(thresholds.high_percent);
    let to_free = over.then(|| {
        let free_percent = 100 - i64::from(thresholds.low_percent);
        let wanted = noting_overflow(capacity.overflowing_mul(free_percent)) / 100;
        noting_overflow(wanted.overflowing_sub(available))
    });
    Some(Usage {
        percent,
        capacity_bytes: capacity,
        to_free_bytes: to_free.filter(|_| !overflow || policy.arithmetic == Arithmetic::Upstream),
        capped,
        overflow,
    })
}

impl FreeSpace {
    /// The usage of a file system in percent, as a run computes it; `None` if its capacity is zero or
    /// unknown, or if the computation overflows.
    pub fn usage_percent(&self, file_system: &FileSystem) -> Option<i64> {
        let usage = usage(self, file_system)?;
        (!usage.overflow).then_some(usage.percent)
    }

    /// The maximum number of available bytes at which a run frees space, for a file system of this capacity;
    /// `None` if the capacity is zero.
    ///
    /// Upstream truncates the available percentage, so the maximum is slightly more than the percentage of
    /// the threshold.
    ///
    /// # Examples
    /// ```
    /// use kubegc_node::image::FreeSpace;
    /// // At 159 available bytes the usage of 84.1 percent is computed as 85.
    /// assert_eq!(FreeSpace::default().collects_below_bytes(1000), Some(159));
    /// ```
    pub fn collects_below_bytes(&self, capacity_bytes: u64) -> Option<u64> {
        // Percentages are between 0 and 100, so the product has at most 71 bits.
        let free = 101 - u128::from(self.thresholds.high_percent.unsigned_abs());
        let below = (free * u128::from(capacity_bytes)).div_ceil(100).checked_sub(1)?;
        // At most the capacity, which is a 64-bit integer.
        u64::try_from(below.min(u128::from(capacity_bytes))).ok()
    }
}

/// A number of bytes as upstream's signed integer, and whether the cast changed it. A missing value is zero.
fn signed(bytes: Option<u64>) -> (i64, bool) {
    let bytes = bytes.unwrap_or(0);
    (bytes.cast_signed(), i64::try_from(bytes).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Semantics, image::Thresholds};

    fn policy(high: i32, low: i32) -> FreeSpace {
        let thresholds = Thresholds {
            high_percent: high,
            low_percent: low,
            ..Thresholds::default()
        };
        FreeSpace::new(thresholds, Semantics::default()).unwrap_or_default()
    }

    fn file_system(capacity: u64, available: u64) -> FileSystem {
        FileSystem {
            capacity_bytes: Some(capacity),
            available_bytes: Some(available),
            ..FileSystem::default()
        }
    }

    #[test]
    fn the_available_bytes_at_which_space_is_freed_are_exact() {
        for high in 0..=100 {
            let policy = policy(high, 0);
            for capacity in [1, 7, 99, 100, 101, 1000, 12_345] {
                let below = policy.collects_below_bytes(capacity).unwrap_or_default();
                for available in 0..=capacity {
                    let over = usage(&policy, &file_system(capacity, available));
                    let over = over.is_some_and(|usage| usage.to_free_bytes.is_some());
                    assert_eq!(
                        over,
                        available <= below,
                        "{high} % of {capacity}, {available} available"
                    );
                }
            }
        }
        assert_eq!(policy(85, 80).collects_below_bytes(0), None);
    }
}
