//! The decision whether a pod is evicted after a reclaim ([N4.12](crate::rules#n4-12) to
//! [N4.16](crate::rules#n4-16)).

use std::fmt;

use kubegc_core::{Kept, Timestamp};

use super::{
    Layout, MinimumReclaim, Observations, Origin, Reason, Signal, Subject, Threshold, Thresholds,
    plan::{functions, measurement_findings},
};
use crate::semantics::behavior;

/// The decision whether a pod is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// No threshold is met any more: the sync ends without an eviction.
    NoEviction,
    /// At most one pod is evicted: the first one in upstream's ranking that can be evicted.
    EvictPod {
        reason: EvictionReason,
        /// The thresholds that are still met, in the order of the [`Thresholds`]; empty without a
        /// measurement.
        still_met: Vec<StillMet>,
    },
}

kubegc_core::reasons! {
    /// The reason why a pod is evicted.
    pub enum EvictionReason {
        /// Nothing was measured either.
        NothingToCollect = "the signal has no reclaim functions";
        NotMeasured { error: String } = "the new measurement failed: {error}";
        /// The selected threshold, or a copy of it, is still met.
        NotEnough = "the reclaim was not sufficient";
        UnrelatedThreshold = "the reclaim was sufficient, but another threshold is met";
    }
}

/// A threshold that is met after the reclaim.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StillMet {
    /// The threshold. Its grace period is ignored here.
    pub threshold: Threshold,
    /// Whether it has the signal of the reclaim, or is a copy of a threshold of that signal.
    pub related: bool,
    /// Whether its value is available, and only its minimum reclaim is not.
    pub by_minimum_reclaim: bool,
}

impl fmt::Display for StillMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.threshold)?;
        if self.by_minimum_reclaim {
            f.write_str(" because of its minimum reclaim")?;
        }
        if !self.threshold.is_hard() {
            f.write_str(", its grace period is ignored")?;
        }
        Ok(())
    }
}

impl Thresholds {
    /// Decides whether a pod is evicted after the [functions](super::reclaim_functions) of a signal have run.
    /// `measured` are new measurements and their time, or the error; they are ignored if the signal has no
    /// functions. Also returns findings about the measurements, such as a signal that was not measured and is
    /// treated as recovered.
    ///
    /// # Upstream
    /// `reclaimNodeLevelResources` in
    /// [`eviction/eviction_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go).
    /// *All* thresholds of the node are evaluated again, without grace periods. A signal that was not
    /// measured is treated as recovered ([N4.14](crate::rules#n4-14), [N4.15](crate::rules#n4-15)).
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::{KubernetesVersion, Timestamp};
    /// use kubegc_node::{PolicySpec, Semantics};
    /// use kubegc_node::eviction::{Decision, Layout, Observation, Signal, Thresholds};
    /// let thresholds = Thresholds::new(&PolicySpec::default(), Semantics::default()).unwrap();
    /// let disk = Observation { available: 40, capacity: 100, at: None };
    /// let measured = [(Signal::ImageFsAvailable, disk)].into_iter().collect();
    /// let measured = Ok((measured, Timestamp::EPOCH));
    /// let (decision, _) = thresholds.decide(Layout::Split, Signal::ImageFsAvailable, measured);
    /// assert_eq!(decision, Decision::NoEviction);
    /// ```
    pub fn decide(
        &self,
        layout: Layout,
        signal: Signal,
        measured: Result<(Observations, Timestamp), String>,
    ) -> (Decision, Vec<Kept<Subject, Reason>>) {
        let evict = |reason, still_met| Decision::EvictPod { reason, still_met };
        let semantics = self.semantics();
        if functions(signal, layout, semantics).is_empty() {
            return (evict(EvictionReason::NothingToCollect, Vec::new()), Vec::new());
        }
        let (observations, now) = match measured {
            Ok(measured) => measured,
            Err(error) => {
                return (
                    evict(EvictionReason::NotMeasured { error }, Vec::new()),
                    Vec::new(),
                );
            }
        };
        let reclaim = if semantics.version.has(behavior::RECHECK_ENFORCES_MINIMUM_RECLAIM) {
            MinimumReclaim::Enforced
        } else {
            MinimumReclaim::Ignored
        };
        let thresholds = self.effective(layout);
        let findings = measurement_findings(&thresholds, &observations, now);
        let is_met = |threshold: &Threshold, reclaim| threshold.is_met(&observations, reclaim) == Some(true);
        let still_met: Vec<StillMet> = thresholds
            .into_iter()
            .filter(|threshold| is_met(threshold, reclaim))
            .map(|threshold| StillMet {
                threshold,
                related: threshold.signal == signal || threshold.origin == Origin::CopyOf(signal),
                by_minimum_reclaim: !is_met(&threshold, MinimumReclaim::Ignored),
            })
            .collect();
        let decision = if still_met.is_empty() {
            Decision::NoEviction
        } else if still_met.iter().any(|met| met.related) {
            evict(EvictionReason::NotEnough, still_met)
        } else {
            evict(EvictionReason::UnrelatedThreshold, still_met)
        };
        (decision, findings)
    }
}
