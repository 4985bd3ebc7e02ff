//! Ranges of sizes and costs.

use std::ops;

/// The least and the most of a size or a cost. Sums and products do not exceed [`u64::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    pub(super) const NONE: Self = Self::fixed(0);
    pub(super) const UNKNOWN: Self = Self::new(0, u64::MAX);
    /// The neutral element of [`union`](Self::union).
    pub(super) const EMPTY: Self = Self::new(u64::MAX, 0);

    pub(super) const fn new(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    pub(super) const fn fixed(number: u64) -> Self {
        Self::new(number, number)
    }

    pub(super) fn map(self, with: impl Fn(u64) -> u64) -> Self {
        Self::new(with(self.min), with(self.max))
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self::new(with(self.min, other.min), with(self.max, other.max))
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self::new(self.min.min(other.min), self.max.max(other.max))
    }

    /// The product with a factor, rounded up.
    pub(super) fn scaled(self, factor: f64) -> Self {
        // As upstream multiplies: the cast saturates.
        self.map(|number| (number as f64 * factor).ceil() as u64)
    }
}

impl ops::Add for Range {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }
}

impl ops::Mul for Range {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        self.zip(other, u64::saturating_mul)
    }
}
