//! Selects the containers to remove, in upstream's order ([N2.20](crate::rules#n2-20) to
//! [N2.27](crate::rules#n2-27)): those of removable pods, those over the limit of each unit, those over an
//! equal share of the node's limit, the oldest of the node.

use kubegc_core::{
    Kept, Plan, PlanOf, Planner, Timestamp,
    node_facts::{Container, PodState, annotation},
};

use super::{
    Action, Mode, Policy, Reason, RemovalReason, Subject, Summary,
    listing::classify,
    units::{Dead, Shared, Units, newest_first},
};
use crate::{
    Inventory, Order,
    pod::{RemovableState, content_removable_at, runtime_removable_at},
};

/// The minimum grace period in seconds, and that of a container without annotations.
const GRACE_SECONDS_MIN: u32 = 2;

impl Planner for Policy {
    type Facts = Inventory;
    type Action = Action;
    type Object = Subject;
    type Reason = Reason;
    type Summary = Summary;

    fn plan(&self, inventory: &Inventory, now: Timestamp) -> PlanOf<Self> {
        let listing = match &inventory.containers {
            Ok(listing) => listing.as_slice(),
            Err(error) => {
                let reason = Reason::Unlisted(error.to_string().into());
                return Plan {
                    findings: vec![node(reason)],
                    ..Plan::default()
                };
            }
        };
        let classified = classify(self, listing, now);
        let mut plan: PlanOf<Self> = Plan {
            kept: classified.kept,
            findings: classified.findings,
            // Saturated arithmetic can return a time that is not after `now`.
            next_at: classified.next_at.filter(|&at| at > now),
            ..Plan::default()
        };
        let mut selection = Selection {
            policy: self,
            inventory,
            actions: Vec::with_capacity(classified.units.total() as usize),
            units: classified.units,
            shared: classified.shared,
            sources_not_ready: Vec::new(),
        };
        plan.summary.candidates = selection.units.total();
        plan.summary.units = count(selection.units.units.len());
        plan.summary.pod_ended = selection.removable_pods();
        if let Some(max) = self.limits.per_unit_max {
            let reason = RemovalReason::UnitLimit { per_unit_max: max };
            plan.summary.unit_limit = selection.limit_units(max, reason);
        }
        if let Some(max) = self.limits.node_max {
            selection.node(max, &mut plan.summary, &mut plan.findings);
        }
        selection.explain(&mut plan.kept);
        plan.actions = selection.actions;
        plan
    }
}

/// The state of the selection.
struct Selection<'a> {
    policy: &'a Policy,
    inventory: &'a Inventory,
    units: Units,
    shared: Shared<'a>,
    actions: Vec<Action>,
    /// Ascending indexes of the units whose pod is removable, while not all pod sources are ready.
    sources_not_ready: Vec<usize>,
}

impl Selection<'_> {
    /// [N2.21](crate::rules#n2-21): removes all containers in the units of removable pods.
    fn removable_pods(&mut self) -> u32 {
        let before = self.actions.len();
        let pods = &self.inventory.pods;
        let uids = std::mem::take(&mut self.units.pods);
        // Units and known pods are both ordered by uid.
        let mut known = pods.known.iter().peekable();
        for (at, uid) in uids.iter().enumerate() {
            while known.next_if(|(known, _)| *known < uid).is_some() {}
            let state = known.peek().filter(|(known, _)| *known == uid);
            let Some(state) = self.removable_state(state.map(|(_, state)| **state)) else {
                continue;
            };
            if pods.sources_ready {
                self.remove_beyond(at, 0, RemovalReason::PodEnded(state));
            } else {
                self.sources_not_ready.push(at);
            }
        }
        // N2.23 divides by the number of units that still have containers.
        self.units.units.retain(|unit| unit.len > 0);
        count(self.actions.len() - before)
    }

    fn removable_state(&self, state: Option<PodState>) -> Option<RemovableState> {
        let (pods, semantics) = (&self.inventory.pods, &self.policy.semantics);
        content_removable_at(pods, state, semantics).or_else(|| match self.policy.mode {
            Mode::Periodic => None,
            Mode::Forced => runtime_removable_at(pods, state, semantics),
        })
    }

    /// [N2.22](crate::rules#n2-22): each unit keeps its newest containers, up to `max`. Returns the number of
    /// removed containers.
    fn limit_units(&mut self, max: u32, reason: RemovalReason) -> u32 {
        let before = self.actions.len();
        for at in 0..self.units.units.len() {
            if self.units.units[at].len > max {
                self.remove_beyond(at, max, reason);
            }
        }
        count(self.actions.len() - before)
    }

    /// [N2.23](crate::rules#n2-23) to [N2.26](crate::rules#n2-26): equal shares of the node's limit, at least
    /// one for each unit; then the oldest of all.
    fn node(&mut self, max: u32, summary: &mut Summary, findings: &mut Vec<Kept<Subject, Reason>>) {
        let total = self.units.total();
        if total <= max {
            return;
        }
        let units = count(self.units.units.len());
        let share = max.checked_div(units).unwrap_or(0).max(1);
        findings.push(node(Reason::LimitsConflict {
            per_unit_max: self.policy.limits.per_unit_max,
            node_max: max,
            units,
            share,
        }));
        let reason = RemovalReason::EvenShare { share, node_max: max };
        summary.even_share = self.limit_units(share, reason);
        let remaining = self.units.total();
        if remaining > max {
            summary.node_limit = self.oldest(remaining - max, RemovalReason::NodeLimit { node_max: max });
        } else if remaining < max {
            findings.push(node(Reason::RemovesMoreThanNeeded {
                remaining,
                node_max: max,
            }));
        }
    }

    /// Removes this number of the oldest containers of the node.
    fn oldest(&mut self, excess: u32, reason: RemovalReason) -> u32 {
        let Units { dead, units, .. } = &mut self.units;
        let mut all: Vec<Dead> = Vec::with_capacity(dead.len());
        for unit in &*units {
            all.extend_from_slice(&dead[unit.range()]);
        }
        let keep = all.len() - excess as usize;
        // Sorted even if all are removed, because upstream sorts before it removes.
        newest_first(&mut all, self.shared.listing, self.policy.order);
        remove(&mut self.shared, &mut self.actions, &all[keep..], reason);
        // Move the removed containers to the end of their unit, for the report.
        for unit in units {
            let kept = &mut dead[unit.range()];
            // A stable sort: kept containers come first, in their order.
            kept.sort_by_key(|dead| self.shared.is_taken(*dead));
            unit.len = count(kept.partition_point(|dead| !self.shared.is_taken(*dead)));
        }
        excess
    }

    /// [N2.14](crate::rules#n2-14) to [N2.16](crate::rules#n2-16): a unit keeps its `keep` newest containers.
    /// The others are removed, the oldest first.
    fn remove_beyond(&mut self, at: usize, keep: u32, reason: RemovalReason) {
        let Units { dead, units, .. } = &mut self.units;
        let dead = &mut dead[units[at].range()];
        if keep == 0 && self.policy.order == Order::Listing {
            // Upstream sorts a unit only if it keeps a part of it.
            dead.sort_unstable_by_key(|dead| dead.at);
        }
        remove(
            &mut self.shared,
            &mut self.actions,
            &dead[keep as usize..],
            reason,
        );
        units[at].len = keep;
    }

    /// Adds the reasons for kept containers, by unit, the newest first.
    fn explain(&mut self, reasons: &mut Vec<Kept<Subject, Reason>>) {
        let Units { dead, units, .. } = &self.units;
        reasons.reserve(units.iter().map(|unit| unit.len as usize).sum());
        for (at, unit) in units.iter().enumerate() {
            // If sources are not ready, `removable_pods` removes no unit, so the indexes are still valid.
            let sources_not_ready = self.sources_not_ready.binary_search(&at).is_ok();
            reasons.extend((0..).zip(&dead[unit.range()]).map(|(newer, &dead)| Kept {
                object: Subject::Container(self.shared.take(dead)),
                reason: if sources_not_ready {
                    Reason::SourcesNotReady
                } else {
                    Reason::WithinLimits { newer }
                },
            }));
        }
    }
}

/// Adds the actions that remove these containers, the last one first.
fn remove(shared: &mut Shared<'_>, actions: &mut Vec<Action>, removed: &[Dead], reason: RemovalReason) {
    actions.extend(removed.iter().rev().map(|&dead| {
        let container = shared.take(dead);
        let is_unknown = shared.unknown.binary_search(&dead.at).is_ok();
        Action::Remove {
            stop_first: is_unknown.then(|| grace_seconds(&container)),
            container,
            reason,
        }
    }));
}

/// [N2.50](crate::rules#n2-50), [N2.51](crate::rules#n2-51): the grace period in seconds of a container that
/// may be running.
fn grace_seconds(container: &Container) -> u32 {
    let grace = |key: &str| container.annotations.get(key)?.parse::<i64>().ok();
    let seconds = grace(annotation::DELETION_GRACE_PERIOD)
        .or_else(|| grace(annotation::TERMINATION_GRACE_PERIOD))
        .unwrap_or(0)
        .max(i64::from(GRACE_SECONDS_MIN));
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

const fn node(reason: Reason) -> Kept<Subject, Reason> {
    Kept {
        object: Subject::Node,
        reason,
    }
}

/// A count as 32 bits. Saturation cannot happen: [`index`](super::units::index) limits a listing already.
fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
