//! When images are removed, and how much room is made: valid by construction.

use super::Task;
use crate::{GoDuration, Order, Semantics};

/// How percentages and amounts are computed.
#[expect(clippy::exhaustive_enums, reason = "wrapping or checked")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// In 64-bit integers that wrap, as upstream computes. A product that wrapped is told as a finding.
    Upstream,
    /// Where a product would wrap, nothing is removed for room, and a finding says so; sizes add up to the largest number at most. Equal to
    /// upstream's below 92 PB.
    #[default]
    Checked,
}

/// When images go. `Default` is upstream's.
#[expect(clippy::exhaustive_structs, reason = "settings that callers build")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thresholds {
    /// Usage in percent from which room is made. Lower removes images that will be pulled again; higher meets eviction first.
    pub high_percent: i32,
    /// Usage in percent down to which room is made.
    pub low_percent: i32,
    /// Time since first detection for which an image is spared when room is made. Too short, and an image goes between its pull and its first use.
    pub age_min: GoDuration,
    /// Time without use after which an image goes; zero: never.
    pub age_max: GoDuration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            high_percent: 85,
            low_percent: 80,
            age_min: GoDuration::from_secs(120),
            age_max: GoDuration::ZERO,
        }
    }
}

/// Why thresholds make no policy. The texts on percentages are those of upstream's constructor.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum InvalidThresholds {
    /// The high threshold is no percentage.
    #[error("invalid HighThresholdPercent {percent}, must be in range [0-100]")]
    High {
        /// What was asked for.
        percent: i32,
    },
    /// The low threshold is no percentage.
    #[error("invalid LowThresholdPercent {percent}, must be in range [0-100]")]
    Low {
        /// What was asked for.
        percent: i32,
    },
    /// The low threshold lies above the high one. Equal ones pass here and fail in a kubelet's configuration.
    #[error("LowThresholdPercent {low_percent} can not be higher than HighThresholdPercent {high_percent}")]
    Crossed {
        /// The low threshold.
        low_percent: i32,
        /// The high threshold.
        high_percent: i32,
    },
    /// An age lies below zero. Upstream refuses it in the kubelet's configuration.
    #[error("{field} {age} must not be negative")]
    NegativeAge {
        /// Field of the kubelet's configuration.
        field: &'static str,
        /// What was asked for.
        age: GoDuration,
    },
}

/// Chooses images to remove. See the [module](super).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    pub(super) thresholds: Thresholds,
    pub(super) semantics: Semantics,
    pub(super) arithmetic: Arithmetic,
    pub(super) order: Order,
    pub(super) task: Task,
}

impl Policy {
    /// A policy with [`Arithmetic::Checked`].
    ///
    /// # Errors
    /// The first threshold that makes no sense.
    pub fn new(thresholds: Thresholds, semantics: Semantics) -> Result<Self, InvalidThresholds> {
        let Thresholds {
            high_percent,
            low_percent,
            age_min,
            age_max,
        } = thresholds;
        if !(0..=100).contains(&high_percent) {
            return Err(InvalidThresholds::High {
                percent: high_percent,
            });
        }
        if !(0..=100).contains(&low_percent) {
            return Err(InvalidThresholds::Low { percent: low_percent });
        }
        if low_percent > high_percent {
            return Err(InvalidThresholds::Crossed {
                low_percent,
                high_percent,
            });
        }
        for (field, age) in [("imageMinimumGCAge", age_min), ("imageMaximumGCAge", age_max)] {
            if age.is_negative() {
                return Err(InvalidThresholds::NegativeAge { field, age });
            }
        }
        Ok(Self {
            thresholds,
            semantics,
            arithmetic: Arithmetic::default(),
            order: Order::Total,
            task: Task::Collect,
        })
    }

    /// The same policy with another arithmetic.
    #[must_use]
    pub const fn computing(mut self, arithmetic: Arithmetic) -> Self {
        self.arithmetic = arithmetic;
        self
    }

    /// The same policy with another order among equals.
    #[must_use]
    pub const fn ordered(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The same policy for another task. A plan of [`Task::Collect`] is the default.
    #[must_use]
    pub const fn to(mut self, task: Task) -> Self {
        self.task = task;
        self
    }

    /// How the kubelet behaves that is meant.
    #[must_use]
    pub const fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    /// The thresholds.
    #[must_use]
    pub const fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }
}
