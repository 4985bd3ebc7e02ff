//! What there is to say of thresholds that lead to no collection, and of odd measurements.

use std::fmt;

use kubegc_core::Timestamp;

use super::{Signal, Threshold};

/// What a plan of reclaim speaks of.
#[expect(clippy::exhaustive_enums, reason = "a threshold, or what it watches")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A threshold.
    Threshold(Threshold),
    /// A signal.
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

/// Why a threshold leads to no collection, or what is odd about it or its signal.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Enough is available.
    NotMet,
    /// Its signal was not measured, so it counts as not met.
    NotMeasured,
    /// It is met, but not for long enough.
    InGrace {
        /// When it has been met for long enough, should it stay met.
        until: Timestamp,
    },
    /// It is met, but by the measurement of an earlier round.
    NotNews,
    /// It is met, and a more urgent one is answered in this round.
    LessUrgent {
        /// The signal that is answered.
        than: Signal,
    },
    /// It is met, and its signal is about nothing that could be reclaimed.
    NoResource,
    /// It is answered, and there is nothing to collect for it: a pod is evicted.
    NothingToCollect,

    /// More is available than there is in all.
    AvailableAboveCapacity {
        /// What is available.
        available: u64,
        /// What there is in all.
        capacity: u64,
    },
    /// There is nothing in all, so the measurement counts as none. Upstream still compares absolute thresholds with it.
    CapacityIsZero,
    /// It was measured after the present.
    MeasuredInFuture {
        /// When.
        at: Timestamp,
    },
    /// This configured threshold is replaced by a copy of another.
    Dropped,
    /// This threshold is a copy. How exactly upstream copies is not known for certain.
    Copied {
        /// The signal that it is copied from.
        from: Signal,
    },
    /// A threshold that is as urgent is met, too, and calls for other functions. Which of them upstream answers may differ from round to round.
    OrderIsChance {
        /// The signal of the other threshold.
        other: Signal,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMet => f.write_str("enough is available"),
            Self::NotMeasured => f.write_str("not measured"),
            Self::InGrace { until } => write!(f, "met, but counts only from {until} on"),
            Self::NotNews => f.write_str("met by a measurement that an earlier round has seen"),
            Self::LessUrgent { than } => write!(f, "met, but {than} comes first"),
            Self::NoResource => f.write_str("met, but about nothing that could be reclaimed"),
            Self::NothingToCollect => f.write_str("met, and there is nothing to collect for it"),
            Self::AvailableAboveCapacity { available, capacity } => {
                write!(f, "{available} available of {capacity} in all")
            }
            Self::CapacityIsZero => f.write_str("nothing in all, so the measurement does not count"),
            Self::MeasuredInFuture { at } => write!(f, "measured in the future, at {at}"),
            Self::Dropped => {
                f.write_str("replaced by a copy of the threshold on the file system of writable layers")
            }
            Self::Copied { from } => write!(f, "copied from {from}; upstream may copy otherwise"),
            Self::OrderIsChance { other } => {
                write!(
                    f,
                    "{other} is as urgent and calls for something else; upstream may answer either"
                )
            }
        }
    }
}
