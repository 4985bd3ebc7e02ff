//! Reasons why a threshold causes no reclaim, and findings about thresholds and measurements.

use std::fmt;

use kubegc_core::Timestamp;

use super::{Signal, Threshold};

/// The subject of an entry in a reclaim plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    Threshold(Threshold),
    Signal(Signal),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threshold(threshold) => threshold.fmt(f),
            Self::Signal(signal) => signal.fmt(f),
        }
    }
}

/// The reason why a threshold causes no reclaim, or a finding about it or its signal.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Enough is available.
    NotMet,
    /// Its signal was not measured, or its capacity is zero, so it counts as not met.
    NotMeasured,
    /// It is met, but not yet for its grace period.
    InGrace {
        /// When its grace period ends, if it stays met.
        until: Timestamp,
    },
    /// It is met, but the measurement is not newer than that of an earlier sync.
    OldMeasurement,
    /// It is met, but this sync selects a more urgent threshold.
    LessUrgent {
        /// The signal of the selected threshold.
        than: Signal,
    },
    /// It is met, and its signal has no resource that can be reclaimed.
    NoResource,
    /// It is selected, but its signal has no reclaim functions: a pod is evicted.
    NothingToCollect,

    /// The available amount exceeds the capacity.
    AvailableAboveCapacity {
        /// The available amount.
        available: u64,
        capacity: u64,
    },
    /// The capacity is zero, so the measurement is ignored. Upstream still compares absolute thresholds with
    /// it.
    CapacityIsZero,
    /// The time of its measurement is in the future: a clock is wrong.
    MeasuredInFuture {
        /// The time of the measurement.
        at: Timestamp,
    },
    /// This configured threshold is replaced by a copy of another one ([N4.19](crate::rules#n4-19)).
    Replaced,
    /// This threshold is a copy ([N4.20](crate::rules#n4-20)). Upstream's copies may differ in detail.
    Copied {
        /// The signal that it is copied from.
        from: Signal,
    },
    /// Another threshold of the same urgency is met and has other functions. Upstream selects one of them at
    /// random.
    OrderIsRandom {
        /// The signal of the other threshold.
        other: Signal,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMet => f.write_str("not met"),
            Self::NotMeasured => f.write_str("not measured"),
            Self::InGrace { until } => write!(f, "met, but in its grace period until {until}"),
            Self::OldMeasurement => {
                f.write_str("met, but the measurement is not newer than that of an earlier sync")
            }
            Self::LessUrgent { than } => write!(f, "met, but {than} is more urgent"),
            Self::NoResource => f.write_str("met, but its signal has no resource that can be reclaimed"),
            Self::NothingToCollect => f.write_str("met, but its signal has no reclaim functions"),
            Self::AvailableAboveCapacity { available, capacity } => {
                write!(
                    f,
                    "the available amount {available} exceeds the capacity {capacity}"
                )
            }
            Self::CapacityIsZero => f.write_str("the capacity is zero, so the measurement is ignored"),
            Self::MeasuredInFuture { at } => write!(f, "the time of the measurement, {at}, is in the future"),
            Self::Replaced => f.write_str(
                "replaced by a copy of the threshold on the file system that contains the writable layers",
            ),
            Self::Copied { from } => write!(f, "copied from {from}; upstream's copy may differ"),
            Self::OrderIsRandom { other } => {
                write!(
                    f,
                    "{other} is equally urgent and has other reclaim functions; upstream selects one at random"
                )
            }
        }
    }
}

serialize_text!(Subject);
