//! Step-by-step reclaim of a node under pressure, and the decision whether a pod is evicted
//! ([N4.11](crate::rules#n4-11) to [N4.16](crate::rules#n4-16)).

use std::fmt;

use kubegc_core::{Kept, Timestamp};

use super::{
    Function, Layout, MinimumReclaim, Observations, Origin, Reason, Signal, Subject, Threshold, Thresholds,
    plan::{functions, measurement_findings},
};
use crate::{Semantics, semantics::behavior};

/// The next step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Run this function and report its result.
    Run(Function),
    /// Measure all signals again, not from a cache.
    Measure,
    /// The run is complete.
    Done(Decision),
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    Ran(Result<(), String>),
    /// The measurements and their time; or the error.
    Measured(Result<(Observations, Timestamp), String>),
}

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
    /// Whether it has the signal of the run, or is a copy of a threshold of that signal.
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

/// A function that failed. The run continues with the next function.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{function}: {message}")]
pub struct FunctionFailed {
    pub function: Function,
    pub message: String,
}

/// The state machine of one reclaim: it runs the functions of a signal, measures again, and decides whether a
/// pod is evicted.
///
/// # Upstream
/// `reclaimNodeLevelResources` in
/// [`eviction/eviction_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go).
/// *All* thresholds of the node are evaluated again, without grace periods. A signal that was not measured is
/// treated as recovered ([N4.14](crate::rules#n4-14), [N4.15](crate::rules#n4-15)).
///
/// # Examples
/// ```
/// use kubegc_core::{KubernetesVersion, Timestamp};
/// use kubegc_node::{PolicySpec, Semantics};
/// use kubegc_node::eviction::{
///     Decision, Function, Layout, Observation, Response, Run, Signal, Step, Thresholds,
/// };
/// let thresholds = Thresholds::new(&PolicySpec::default(), Semantics::default()).unwrap();
/// let mut run = Run::new(&thresholds, Layout::Split, Signal::ImageFsAvailable);
/// assert_eq!(run.next(None), Step::Run(Function::DeleteUnusedImages));
/// assert_eq!(run.next(Some(Response::Ran(Ok(())))), Step::Measure);
/// let disk = Observation { available: 40, capacity: 100, at: None };
/// let measured = [(Signal::ImageFsAvailable, disk)].into_iter().collect();
/// let response = Response::Measured(Ok((measured, Timestamp::EPOCH)));
/// assert_eq!(run.next(Some(response)), Step::Done(Decision::NoEviction));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    thresholds: Vec<Threshold>,
    signal: Signal,
    functions: &'static [Function],
    reclaim: MinimumReclaim,
    /// The number of functions that have run.
    ran: usize,
    decision: Option<Decision>,
    /// Whether a step was returned whose result is pending.
    requested: bool,
    failed: Vec<FunctionFailed>,
    findings: Vec<Kept<Subject, Reason>>,
}

impl Run {
    /// Creates a run for the signal of the [`Trigger`](super::Trigger) of a sync.
    pub fn new(thresholds: &Thresholds, layout: Layout, signal: Signal) -> Self {
        let semantics = thresholds.semantics();
        let functions = functions(signal, layout, semantics);
        let decision = functions.is_empty().then(|| Decision::EvictPod {
            reason: EvictionReason::NothingToCollect,
            still_met: Vec::new(),
        });
        Self {
            thresholds: thresholds.effective(layout),
            signal,
            functions,
            reclaim: if semantics.version.has(behavior::RECHECK_ENFORCES_MINIMUM_RECLAIM) {
                MinimumReclaim::Enforced
            } else {
                MinimumReclaim::Ignored
            },
            ran: 0,
            decision,
            requested: false,
            failed: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Processes the result of the last step and returns the next step. With `None`, or the result of another
    /// step, nothing changes and the last step is returned again.
    pub fn next(&mut self, response: Option<Response>) -> Step {
        match (self.step(), response.filter(|_| self.requested)) {
            (Step::Run(function), Some(Response::Ran(outcome))) => {
                let failed = outcome.err().map(|message| FunctionFailed { function, message });
                self.failed.extend(failed);
                self.ran += 1;
            }
            (Step::Measure, Some(Response::Measured(measured))) => {
                self.decision = Some(self.decide(measured));
            }
            _ => {}
        }
        self.requested = true;
        self.step()
    }

    fn step(&self) -> Step {
        match (&self.decision, self.functions.get(self.ran)) {
            (Some(decision), _) => Step::Done(decision.clone()),
            (None, Some(function)) => Step::Run(*function),
            (None, None) => Step::Measure,
        }
    }

    fn decide(&mut self, measured: Result<(Observations, Timestamp), String>) -> Decision {
        let (observations, now) = match measured {
            Ok(measured) => measured,
            Err(error) => {
                return Decision::EvictPod {
                    reason: EvictionReason::NotMeasured { error },
                    still_met: Vec::new(),
                };
            }
        };
        self.findings = measurement_findings(&self.thresholds, &observations, now);
        let is_met = |threshold: &Threshold, reclaim| threshold.is_met(&observations, reclaim) == Some(true);
        let still_met: Vec<StillMet> = self
            .thresholds
            .iter()
            .filter(|threshold| is_met(threshold, self.reclaim))
            .map(|threshold| StillMet {
                threshold: *threshold,
                related: threshold.signal == self.signal || threshold.origin == Origin::CopyOf(self.signal),
                by_minimum_reclaim: !is_met(threshold, MinimumReclaim::Ignored),
            })
            .collect();
        if still_met.is_empty() {
            return Decision::NoEviction;
        }
        Decision::EvictPod {
            reason: if still_met.iter().any(|met| met.related) {
                EvictionReason::NotEnough
            } else {
                EvictionReason::UnrelatedThreshold
            },
            still_met,
        }
    }

    /// The functions that failed, in the order in which they ran.
    pub fn failed(&self) -> &[FunctionFailed] {
        &self.failed
    }

    /// Findings about the new measurement, such as a signal that was not measured and is treated as
    /// recovered.
    pub fn findings(&self) -> &[Kept<Subject, Reason>] {
        &self.findings
    }
}

/// The grace period in seconds of an evicted pod ([N4.18](crate::rules#n4-18)).
///
/// `soft_max` is the kubelet's `evictionMaxPodGracePeriod` in seconds. `of_pod` is the
/// `terminationGracePeriodSeconds` of the pod, if set.
///
/// # Upstream
/// The end of `synchronize` in
/// [`eviction/eviction_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go).
pub fn pod_grace_seconds(
    threshold: &Threshold,
    soft_max: i64,
    of_pod: Option<i64>,
    semantics: Semantics,
) -> i64 {
    let version = semantics.version;
    if threshold.is_hard() {
        i64::from(version.has(behavior::HARD_EVICTION_HAS_GRACE))
    } else {
        of_pod
            .filter(|_| version.has(behavior::SOFT_EVICTION_RESPECTS_POD))
            .map_or(soft_max, |of_pod| of_pod.min(soft_max))
    }
}
