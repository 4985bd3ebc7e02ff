//! Reasons why a threshold causes no reclaim, and findings about thresholds and measurements.

use kubegc_core::{Kept, Timestamp};

use super::{Signal, Threshold};

/// The subject of an entry in a reclaim plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Subject {
    Threshold(Threshold),
    Signal(Signal),
}

impl Subject {
    pub(super) const fn because(self, reason: Reason) -> Kept<Self, Reason> {
        Kept { object: self, reason }
    }
}

kubegc_core::reasons! {
    /// The reason why a threshold causes no reclaim, or a finding about it or its signal.
    pub enum Reason {
        NotMet = "not met";
        /// Its signal was not measured, or its capacity is zero, so it counts as not met.
        NotMeasured = "not measured";
        InGrace {
            /// When its grace period ends, if it stays met.
            until: Timestamp,
        } = "met, but in its grace period until {until}";
        OldMeasurement = "met, but the measurement is not newer than that of an earlier sync";
        LessUrgent {
            /// The signal of the selected threshold.
            than: Signal,
        } = "met, but {than} is more urgent";
        NoResource = "met, but its signal has no resource that can be reclaimed";
        /// It is selected: a pod is evicted.
        NothingToCollect = "met, but its signal has no reclaim functions";

        AvailableAboveCapacity { available: u64, capacity: u64 } =
            "the available amount {available} exceeds the capacity {capacity}";
        /// Upstream still compares absolute thresholds with it.
        CapacityIsZero = "the capacity is zero, so the measurement is ignored";
        /// A clock is wrong.
        MeasuredInFuture { at: Timestamp } = "the time of the measurement, {at}, is in the future";
        /// [N4.19](crate::rules#n4-19).
        Replaced =
            "replaced by a copy of the threshold on the file system that contains the writable layers";
        /// [N4.20](crate::rules#n4-20).
        Copied { from: Signal } = "copied from {from}; upstream's copy may differ";
        OrderIsRandom {
            other: Signal,
        } = "{other} is equally urgent and has other reclaim functions; upstream selects one at random";
    }
}

serialize_text!(Subject);
