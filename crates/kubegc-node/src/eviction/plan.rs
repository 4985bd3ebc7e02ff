//! The plan of one round of eviction: the threshold to act on, and its reclaim functions
//! ([N4.4](crate::rules#n4-4) to [N4.7](crate::rules#n4-7)).

use std::{collections::BTreeSet, fmt};

use kubegc_core::{Kept, Plan, PlanOf, Planner, Timestamp};

use super::{
    Function, Layout, MinimumReclaim, NodeCondition, Observations, Origin, Reason, Resource, Signal, Subject,
    Threshold, Thresholds, reclaim_functions,
};
use crate::{Event, GoDuration, Semantics, event::reason};

/// The input of a round of eviction.
#[expect(clippy::exhaustive_structs, reason = "facts that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pressure {
    /// The layout of the file systems.
    pub layout: Layout,
    /// The measurements of this round.
    pub observations: Observations,
    /// The [`Summary::history`] of the last round. `Default` in the first round.
    pub history: History,
}

/// The state that a round passes to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The time since which each threshold has been met without a break.
    met_since: Vec<(Threshold, Timestamp)>,
    /// The thresholds that counted: met for longer than their grace period.
    counted: Vec<Threshold>,
    observations: Observations,
}

/// One function to run.
#[expect(clippy::exhaustive_structs, reason = "executors take every field")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reclaim {
    /// The function.
    pub function: Function,
    /// The signal.
    pub signal: Signal,
}

impl fmt::Display for Reclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.function, self.signal)
    }
}

/// The threshold that a round acts on.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trigger {
    /// The threshold.
    pub threshold: Threshold,
    /// The resource that is short.
    pub resource: Resource,
    /// The functions, in order. Empty: none, and a pod is evicted at once.
    pub functions: &'static [Function],
}

impl Trigger {
    /// The event that announces it.
    #[must_use]
    pub fn event(&self) -> Event {
        Event::warning(
            reason::EVICTION_THRESHOLD_MET,
            format!("Attempting to reclaim {}", self.resource),
        )
    }
}

/// The summary of a round.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The threshold that is answered; `None`: none is, and no pod is evicted.
    pub trigger: Option<Trigger>,
    /// The node conditions of this round, whatever the grace periods. Earlier ones stay longer: see
    /// [`PRESSURE_TRANSITION_PERIOD`].
    pub conditions: BTreeSet<NodeCondition>,
    /// The input of the next round.
    pub history: History,
}

/// The time for which a node keeps a pressure condition after its last threshold, by default
/// ([N4.16](crate::rules#n4-16)).
pub const PRESSURE_TRANSITION_PERIOD: GoDuration = GoDuration::from_secs(300);

impl Planner for Thresholds {
    type Facts = Pressure;
    type Action = Reclaim;
    type Object = Subject;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans one round. Every threshold of the layout is either answered or kept.
    ///
    /// Running the functions is not a measurement: only new observations lead to another plan. A
    /// [`Pass`](super::Pass) runs them and decides whether they were enough. *O*(n²) for n thresholds, of
    /// which there are about thirty at most.
    ///
    /// # Assumptions
    /// No pod was evicted for its own local storage in this round ([N4.5](crate::rules#n4-5)); otherwise the
    /// round is over, and only the history counts.
    ///
    /// # Upstream
    /// `synchronize` in
    /// [`eviction/eviction_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go)
    /// up to the reclaim. If its order is random, this is the order of [`Thresholds`].
    fn plan(&self, facts: &Pressure, now: Timestamp) -> PlanOf<Self> {
        let semantics = self.semantics();
        let effective = self.effective(facts.layout);
        let met = met(&effective, facts);
        let met_since: Vec<(Threshold, Timestamp)> = met
            .iter()
            .map(|threshold| (*threshold, facts.history.met_since(threshold).unwrap_or(now)))
            .collect();
        let counted: Vec<Threshold> = met_since
            .iter()
            .filter(|(threshold, since)| grace_is_over(threshold, *since, now))
            .map(|(threshold, _)| *threshold)
            .collect();
        let mut candidates: Vec<Threshold> = counted
            .iter()
            .copied()
            .filter(|threshold| is_news(threshold.signal, facts))
            .collect();
        candidates.sort_by_key(|threshold| urgency(threshold.signal, semantics));
        let trigger = candidates.iter().find_map(|threshold| {
            Some(Trigger {
                threshold: *threshold,
                resource: threshold.signal.resource(semantics)?,
                functions: functions(threshold.signal, facts.layout, semantics),
            })
        });

        let mut plan = Plan {
            findings: self.findings(&effective, facts, now),
            ..Plan::default()
        };
        if let Some(trigger) = &trigger {
            plan.actions
                .extend(trigger.functions.iter().map(|function| Reclaim {
                    function: *function,
                    signal: trigger.threshold.signal,
                }));
            plan.findings
                .extend(random_order(trigger, &candidates, facts.layout, semantics));
        }
        for threshold in effective {
            let reason = match &trigger {
                _ if !met.contains(&threshold) => match facts.observations.measured(threshold.signal) {
                    None => Reason::NotMeasured,
                    Some(_) => Reason::NotMet,
                },
                _ if !counted.contains(&threshold) => {
                    let since = met_since.iter().find(|(met, _)| *met == threshold);
                    let until = grace_ends(&threshold, since.map_or(now, |(_, since)| *since));
                    plan.next_at = Some(plan.next_at.map_or(until, |next| next.min(until)));
                    Reason::InGrace { until }
                }
                _ if !candidates.contains(&threshold) => Reason::OldMeasurement,
                None => Reason::NoResource,
                Some(trigger) if trigger.threshold != threshold => Reason::LessUrgent {
                    than: trigger.threshold.signal,
                },
                Some(trigger) if trigger.functions.is_empty() => Reason::NothingToCollect,
                Some(_) => continue,
            };
            plan.kept.push(Kept {
                object: Subject::Threshold(threshold),
                reason,
            });
        }
        plan.summary = Summary {
            trigger,
            conditions: met
                .iter()
                .filter_map(|threshold| threshold.signal.condition(semantics))
                .collect(),
            history: History {
                met_since,
                counted,
                observations: facts.observations.clone(),
            },
        };
        plan
    }
}

impl History {
    fn met_since(&self, threshold: &Threshold) -> Option<Timestamp> {
        self.met_since
            .iter()
            .find(|(met, _)| met == threshold)
            .map(|(_, since)| *since)
    }
}

/// The thresholds that are met, then those that counted before and are not yet resolved by their minimum
/// reclaim.
fn met(effective: &[Threshold], facts: &Pressure) -> Vec<Threshold> {
    let is_met =
        |threshold: &Threshold, reclaim| threshold.is_met(&facts.observations, reclaim) == Some(true);
    let (mut met, others): (Vec<Threshold>, Vec<Threshold>) = effective
        .iter()
        .partition(|threshold| is_met(threshold, MinimumReclaim::Ignored));
    met.extend(others.iter().filter(|threshold| {
        facts.history.counted.contains(threshold) && is_met(threshold, MinimumReclaim::Enforced)
    }));
    met
}

/// The functions of a signal; none if it has no entry.
pub(super) fn functions(signal: Signal, layout: Layout, semantics: Semantics) -> &'static [Function] {
    reclaim_functions(signal, layout, semantics).unwrap_or_default()
}

/// A hard threshold counts at once, even if the clock went backwards.
fn grace_is_over(threshold: &Threshold, since: Timestamp, now: Timestamp) -> bool {
    GoDuration::between(since, now).max(GoDuration::ZERO) >= threshold.grace
}

fn grace_ends(threshold: &Threshold, since: Timestamp) -> Timestamp {
    since.saturating_add(threshold.grace.to_unsigned().unwrap_or_default())
}

/// Returns whether a signal was measured after its measurement in the last round.
fn is_news(signal: Signal, facts: &Pressure) -> bool {
    let Some(observation) = facts.observations.get(signal) else {
        return false;
    };
    match (observation.at, facts.history.observations.get(signal)) {
        (None, _) | (_, None) => true,
        (Some(at), Some(last)) => last.at.is_none_or(|last| at > last),
    }
}

/// Memory comes first, signals without a resource last.
const fn urgency(signal: Signal, semantics: Semantics) -> u8 {
    match signal.resource(semantics) {
        Some(Resource::Memory) => 0,
        Some(_) => 1,
        None => 2,
    }
}

/// A candidate that upstream could have answered with another outcome.
fn random_order(
    trigger: &Trigger,
    candidates: &[Threshold],
    layout: Layout,
    semantics: Semantics,
) -> Option<Kept<Subject, Reason>> {
    let rank = urgency(trigger.threshold.signal, semantics);
    let other = candidates.iter().find(|other| {
        urgency(other.signal, semantics) == rank
            && functions(other.signal, layout, semantics) != trigger.functions
    })?;
    Some(Kept {
        object: Subject::Threshold(trigger.threshold),
        reason: Reason::OrderIsRandom { other: other.signal },
    })
}

impl Thresholds {
    /// Findings about the thresholds in a layout and the measurements of their signals.
    fn findings(
        &self,
        effective: &[Threshold],
        facts: &Pressure,
        now: Timestamp,
    ) -> Vec<Kept<Subject, Reason>> {
        let dropped = self.dropped().map(|threshold| (*threshold, Reason::Dropped));
        let copied = effective.iter().filter_map(|threshold| match threshold.origin {
            Origin::Configured => None,
            Origin::CopyOf(from) => Some((*threshold, Reason::Copied { from })),
        });
        let mut findings: Vec<Kept<Subject, Reason>> = dropped
            .chain(copied)
            .map(|(threshold, reason)| Kept {
                object: Subject::Threshold(threshold),
                reason,
            })
            .collect();
        findings.extend(measurement_findings(effective, &facts.observations, now));
        findings
    }
}

/// Findings about the measurements of the thresholds' signals. A copy whose signal was not measured is
/// normal.
pub(super) fn measurement_findings(
    thresholds: &[Threshold],
    observations: &Observations,
    now: Timestamp,
) -> Vec<Kept<Subject, Reason>> {
    let signals: BTreeSet<Signal> = thresholds.iter().map(|threshold| threshold.signal).collect();
    let mut findings = Vec::new();
    for signal in signals {
        let mut find = |reason| {
            findings.push(Kept {
                object: Subject::Signal(signal),
                reason,
            });
        };
        let Some(observation) = observations.get(signal) else {
            let is_configured = |threshold: &Threshold| threshold.origin == Origin::Configured;
            if thresholds
                .iter()
                .any(|threshold| threshold.signal == signal && is_configured(threshold))
            {
                find(Reason::NotMeasured);
            }
            continue;
        };
        if observation.capacity == 0 {
            find(Reason::CapacityIsZero);
        } else if observation.available > observation.capacity {
            find(Reason::AvailableAboveCapacity {
                available: observation.available,
                capacity: observation.capacity,
            });
        }
        if let Some(at) = observation.at.filter(|at| *at > now) {
            find(Reason::MeasuredInFuture { at });
        }
    }
    findings
}
