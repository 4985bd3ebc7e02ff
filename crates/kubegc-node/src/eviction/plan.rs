//! The plan of one sync of the eviction manager: the selected threshold, and its reclaim functions
//! ([N4.4](crate::rules#n4-4) to [N4.7](crate::rules#n4-7)).

use std::collections::BTreeSet;

use kubegc_core::{Kept, Plan, PlanOf, Planner, Timestamp};

use super::{
    Function, Layout, MinimumReclaim, NodeCondition, Observations, Origin, Reason, Resource, Signal, Subject,
    Threshold, Thresholds, observation::measured, reclaim_functions,
};
use crate::{Event, GoDuration, Semantics};

/// The input of a sync of the eviction manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pressure {
    /// The layout of the file systems.
    pub layout: Layout,
    /// The measurements of this sync.
    pub observations: Observations,
    /// The [`Summary::history`] of the previous sync. `Default` in the first sync.
    pub history: History,
}

/// The state that a sync passes to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The thresholds that are met, each with the time since which it has been met without interruption.
    met_since: Vec<(Threshold, Timestamp)>,
    /// The thresholds that have been met for their grace period.
    past_grace: Vec<Threshold>,
    observations: Observations,
}

/// One function to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{function} for {signal}")]
pub struct Reclaim {
    pub function: Function,
    pub signal: Signal,
}

/// The threshold that a sync selects.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trigger {
    pub threshold: Threshold,
    pub resource: Resource,
    /// The functions, in order. If it is empty, a pod is evicted without a reclaim.
    pub functions: &'static [Function],
}

impl Trigger {
    /// The event that the kubelet records before the reclaim.
    pub fn event(&self) -> Event {
        let message = format!("Attempting to reclaim {}", self.resource);
        Event::warning("EvictionThresholdMet", message)
    }
}

/// The summary of a sync.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The selected threshold. `None`: no threshold is selected, and no pod is evicted.
    pub trigger: Option<Trigger>,
    /// The node conditions of all thresholds that are met, even within their grace period. The kubelet keeps
    /// the conditions of earlier syncs for five minutes by default ([N4.16](crate::rules#n4-16)).
    pub conditions: BTreeSet<NodeCondition>,
    /// The input of the next sync.
    pub history: History,
}

impl Planner for Thresholds {
    type Facts = Pressure;
    type Action = Reclaim;
    type Object = Subject;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans one sync. Every threshold of the layout is either selected, or in `kept` with a reason.
    ///
    /// The plan changes only with new observations. *O*(n²) for n thresholds, at most about thirty.
    ///
    /// # Assumptions
    /// No pod was evicted because of its local storage in this sync ([N4.5](crate::rules#n4-5)). Otherwise
    /// the sync ends, and only the history of the summary may be used.
    ///
    /// # Upstream
    /// `synchronize` in
    /// [`eviction/eviction_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/eviction/eviction_manager.go)
    /// up to the reclaim. Where upstream's order is random, this planner uses the order of [`Thresholds`].
    fn plan(&self, facts: &Pressure, now: Timestamp) -> PlanOf<Self> {
        let semantics = self.semantics();
        let effective = self.effective(facts.layout);
        let met = met(&effective, facts);
        let met_since: Vec<(Threshold, Timestamp)> = met
            .iter()
            .map(|threshold| (*threshold, facts.history.met_since(threshold).unwrap_or(now)))
            .collect();
        let past_grace: Vec<Threshold> = met_since
            .iter()
            .filter(|(threshold, since)| grace_is_over(threshold, *since, now))
            .map(|(threshold, _)| *threshold)
            .collect();
        let mut candidates: Vec<Threshold> = past_grace
            .iter()
            .copied()
            .filter(|threshold| is_newer(threshold.signal, facts))
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
                _ if !met.contains(&threshold) => match measured(&facts.observations, threshold.signal) {
                    None => Reason::NotMeasured,
                    Some(_) => Reason::NotMet,
                },
                _ if !past_grace.contains(&threshold) => {
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
            plan.kept.push(Subject::Threshold(threshold).because(reason));
        }
        plan.summary = Summary {
            trigger,
            conditions: met
                .iter()
                .filter_map(|threshold| threshold.signal.condition(semantics))
                .collect(),
            history: History {
                met_since,
                past_grace,
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

/// The thresholds that are met, then those that were past their grace period in the previous sync and whose
/// minimum reclaim is not available yet.
fn met(effective: &[Threshold], facts: &Pressure) -> Vec<Threshold> {
    let is_met =
        |threshold: &Threshold, reclaim| threshold.is_met(&facts.observations, reclaim) == Some(true);
    let (mut met, others): (Vec<Threshold>, Vec<Threshold>) = effective
        .iter()
        .partition(|threshold| is_met(threshold, MinimumReclaim::Ignored));
    met.extend(others.iter().filter(|threshold| {
        facts.history.past_grace.contains(threshold) && is_met(threshold, MinimumReclaim::Enforced)
    }));
    met
}

/// The functions of a signal; empty if it has no entry.
pub(super) fn functions(signal: Signal, layout: Layout, semantics: Semantics) -> &'static [Function] {
    reclaim_functions(signal, layout, semantics).unwrap_or_default()
}

/// Returns whether the grace period is over. That of a hard threshold is, even if the clock was set back.
fn grace_is_over(threshold: &Threshold, since: Timestamp, now: Timestamp) -> bool {
    GoDuration::between(since, now).max(GoDuration::ZERO) >= threshold.grace
}

fn grace_ends(threshold: &Threshold, since: Timestamp) -> Timestamp {
    since.saturating_add(threshold.grace.to_unsigned().unwrap_or_default())
}

/// Returns whether the measurement of a signal is newer than that of the previous sync.
fn is_newer(signal: Signal, facts: &Pressure) -> bool {
    let Some(observation) = facts.observations.get(&signal) else {
        return false;
    };
    match (observation.at, facts.history.observations.get(&signal)) {
        (None, _) | (_, None) => true,
        (Some(at), Some(last)) => last.at.is_none_or(|last| at > last),
    }
}

/// The sort key of a signal: memory comes first, signals without a resource last.
const fn urgency(signal: Signal, semantics: Semantics) -> u8 {
    match signal.resource(semantics) {
        Some(Resource::Memory) => 0,
        Some(_) => 1,
        None => 2,
    }
}

/// A finding if upstream could have selected another candidate, with other functions.
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
    let reason = Reason::OrderIsRandom { other: other.signal };
    Some(Subject::Threshold(trigger.threshold).because(reason))
}

impl Thresholds {
    /// Findings about the thresholds in a layout and the measurements of their signals.
    fn findings(
        &self,
        effective: &[Threshold],
        facts: &Pressure,
        now: Timestamp,
    ) -> Vec<Kept<Subject, Reason>> {
        let replaced = self.replaced().map(|threshold| (*threshold, Reason::Replaced));
        let copied = effective.iter().filter_map(|threshold| match threshold.origin {
            Origin::Configured => None,
            Origin::CopyOf(from) => Some((*threshold, Reason::Copied { from })),
        });
        let mut findings: Vec<Kept<Subject, Reason>> = replaced
            .chain(copied)
            .map(|(threshold, reason)| Subject::Threshold(threshold).because(reason))
            .collect();
        findings.extend(measurement_findings(effective, &facts.observations, now));
        findings
    }
}

/// Findings about the measurements of the thresholds' signals. A copied threshold whose signal was not
/// measured is not a finding.
pub(super) fn measurement_findings(
    thresholds: &[Threshold],
    observations: &Observations,
    now: Timestamp,
) -> Vec<Kept<Subject, Reason>> {
    let signals: BTreeSet<Signal> = thresholds.iter().map(|threshold| threshold.signal).collect();
    let mut findings = Vec::new();
    for signal in signals {
        let mut add = |reason| findings.push(Subject::Signal(signal).because(reason));
        let Some(observation) = observations.get(&signal) else {
            let is_configured = |threshold: &Threshold| threshold.origin == Origin::Configured;
            if thresholds
                .iter()
                .any(|threshold| threshold.signal == signal && is_configured(threshold))
            {
                add(Reason::NotMeasured);
            }
            continue;
        };
        if observation.capacity == 0 {
            add(Reason::CapacityIsZero);
        } else if observation.available > observation.capacity {
            add(Reason::AvailableAboveCapacity {
                available: observation.available,
                capacity: observation.capacity,
            });
        }
        if let Some(at) = observation.at.filter(|at| *at > now) {
            add(Reason::MeasuredInFuture { at });
        }
    }
    findings
}

serialize_text!(Reclaim);
