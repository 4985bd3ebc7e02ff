//! Decides, step by step, whether what a node under pressure collects is enough to spare its pods.

use std::fmt;

use kubegc_core::{Kept, Timestamp};

use super::{
    Function, Layout, MinimumReclaim, Observations, Origin, Reason, Signal, Subject, Threshold, Thresholds,
    plan::{functions, oddities},
};
use crate::{Semantics, semantics::behavior};

/// What a pass wants next.
#[expect(clippy::exhaustive_enums, reason = "whoever drives a pass must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Run this function and say how it went.
    Run(Function),
    /// Measure all signals anew, not from a cache.
    Measure,
    /// The pass is over.
    Done(Verdict),
}

/// What a driver hands in.
#[expect(clippy::exhaustive_enums, reason = "one answer for each question")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// How the function went.
    Ran(Result<(), String>),
    /// What was measured, and when; or why nothing was.
    Measured(Result<(Observations, Timestamp), String>),
}

/// Whether pods are spared.
#[expect(clippy::exhaustive_enums, reason = "they are or they are not")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// No threshold is met any more: the round ends without an eviction.
    Spared,
    /// At most one pod is evicted: the first in rank that may be.
    PodsGo {
        /// Why.
        why: PodsGo,
        /// The thresholds that are still met, in the order of the thresholds; empty where nothing was measured.
        still_met: Vec<StillMet>,
    },
}

/// Why pods are not spared.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodsGo {
    /// Nothing is collected for the signal, so nothing was measured either.
    NothingToCollect,
    /// Measuring failed.
    NotMeasured {
        /// The error.
        error: String,
    },
    /// The threshold that was answered is still met.
    StillShort,
    /// The threshold that was answered is met no more, but another one is: pods go although the collection was enough.
    UnrelatedThreshold,
}

impl fmt::Display for PodsGo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToCollect => f.write_str("there is nothing to collect for the signal"),
            Self::NotMeasured { error } => write!(f, "measuring anew failed: {error}"),
            Self::StillShort => f.write_str("the collection was not enough"),
            Self::UnrelatedThreshold => {
                f.write_str("the collection was enough, but another threshold is met")
            }
        }
    }
}

/// A threshold that is met after the collection.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StillMet {
    /// The threshold. Its grace period does not count here.
    pub threshold: Threshold,
    /// It watches what the round answers, or is a copy of such a threshold.
    pub related: bool,
    /// Its value is available, its minimum reclaim is not.
    pub by_minimum_reclaim: bool,
}

impl fmt::Display for StillMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.threshold)?;
        if self.by_minimum_reclaim {
            f.write_str(", by its minimum reclaim")?;
        }
        if !self.threshold.is_hard() {
            f.write_str(", its grace period does not count")?;
        }
        Ok(())
    }
}

/// A function that failed. The pass went on.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{function}: {message}")]
pub struct FunctionFailed {
    /// The function.
    pub function: Function,
    /// Its error.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The function at this position is next.
    Run(usize),
    Measure,
    Done(Verdict),
}

/// One collection under pressure: runs the functions of a signal, measures anew, and judges.
///
/// # Upstream
/// `reclaimNodeLevelResources` in `eviction/eviction_manager.go`. *All* thresholds of the node are looked at again, grace periods do not count, and
/// a signal that was not measured counts as recovered.
///
/// # Examples
/// ```
/// use kubegc_core::{KubernetesVersion, Timestamp};
/// use kubegc_node::{PolicySpec, Semantics};
/// use kubegc_node::eviction::{Answer, Function, Layout, Observation, Pass, Signal, Step, Thresholds, Verdict};
/// let thresholds = Thresholds::new(&PolicySpec::default(), Semantics::default()).unwrap();
/// let mut pass = Pass::new(&thresholds, Layout::Split, Signal::ImageFsAvailable);
/// assert_eq!(pass.next(None), Step::Run(Function::DeleteUnusedImages));
/// assert_eq!(pass.next(Some(Answer::Ran(Ok(())))), Step::Measure);
/// let disk = Observation { available: 40, capacity: 100, at: None };
/// let measured = [(Signal::ImageFsAvailable, disk)].into_iter().collect();
/// let answer = Answer::Measured(Ok((measured, Timestamp::EPOCH)));
/// assert_eq!(pass.next(Some(answer)), Step::Done(Verdict::Spared));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    thresholds: Vec<Threshold>,
    signal: Signal,
    functions: &'static [Function],
    reclaim: MinimumReclaim,
    stage: Stage,
    /// The present step was asked for, so an answer belongs to it.
    asked: bool,
    failed: Vec<FunctionFailed>,
    findings: Vec<Kept<Subject, Reason>>,
}

impl Pass {
    /// A pass for the signal of a round's trigger.
    #[must_use]
    pub fn new(thresholds: &Thresholds, layout: Layout, signal: Signal) -> Self {
        let semantics = thresholds.semantics();
        let functions = functions(signal, layout, semantics);
        let stage = if functions.is_empty() {
            Stage::Done(Verdict::PodsGo {
                why: PodsGo::NothingToCollect,
                still_met: Vec::new(),
            })
        } else {
            Stage::Run(0)
        };
        Self {
            thresholds: thresholds.effective(layout),
            signal,
            functions,
            reclaim: if semantics.version.has(behavior::RECHECK_ENFORCES_MINIMUM_RECLAIM) {
                MinimumReclaim::Enforced
            } else {
                MinimumReclaim::Ignored
            },
            stage,
            asked: false,
            failed: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Takes the answer to the last step and says what is next. `None` asks again; so does an answer to something else, which changes nothing.
    pub fn next(&mut self, answer: Option<Answer>) -> Step {
        match (&self.stage, answer.filter(|_| self.asked)) {
            (Stage::Run(position), Some(Answer::Ran(outcome))) => {
                let (position, next) = (*position, *position + 1);
                if let (Err(message), Some(function)) = (outcome, self.functions.get(position)) {
                    self.failed.push(FunctionFailed {
                        function: *function,
                        message,
                    });
                }
                self.stage = if next < self.functions.len() {
                    Stage::Run(next)
                } else {
                    Stage::Measure
                };
            }
            (Stage::Measure, Some(Answer::Measured(measured))) => {
                self.stage = Stage::Done(self.judge(measured));
            }
            _ => {}
        }
        self.asked = true;
        match &self.stage {
            // The position stays below the number of functions; past it there would be nothing left but to measure.
            Stage::Run(position) => self
                .functions
                .get(*position)
                .copied()
                .map_or(Step::Measure, Step::Run),
            Stage::Measure => Step::Measure,
            Stage::Done(verdict) => Step::Done(verdict.clone()),
        }
    }

    fn judge(&mut self, measured: Result<(Observations, Timestamp), String>) -> Verdict {
        let (observations, now) = match measured {
            Ok(measured) => measured,
            Err(error) => {
                return Verdict::PodsGo {
                    why: PodsGo::NotMeasured { error },
                    still_met: Vec::new(),
                };
            }
        };
        self.findings = oddities(&self.thresholds, &observations, now);
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
            return Verdict::Spared;
        }
        Verdict::PodsGo {
            why: if still_met.iter().any(|met| met.related) {
                PodsGo::StillShort
            } else {
                PodsGo::UnrelatedThreshold
            },
            still_met,
        }
    }

    /// The functions that failed, in the order in which they ran.
    #[must_use]
    pub fn failed(&self) -> &[FunctionFailed] {
        &self.failed
    }

    /// What is odd about the new measurement, such as a signal that was not measured and so counts as recovered.
    #[must_use]
    pub fn findings(&self) -> &[Kept<Subject, Reason>] {
        &self.findings
    }
}

/// How many seconds an evicted pod gets to end.
///
/// `soft_max` is the kubelet's `evictionMaxPodGracePeriod`, `of_pod` the pod's own `terminationGracePeriodSeconds` where it has one.
///
/// # Upstream
/// The end of `synchronize` in `eviction/eviction_manager.go`.
#[must_use]
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
            .filter(|_| version.has(behavior::SOFT_EVICTION_HEEDS_POD))
            .map_or(soft_max, |of_pod| of_pod.min(soft_max))
    }
}
