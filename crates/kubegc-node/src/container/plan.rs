//! The limits, in upstream's order ([N2.20](crate::rules#n2-20) to [N2.27](crate::rules#n2-27)): removable
//! pods, the limit of each unit, equal shares of the node's limit, the oldest of the node.

use std::sync::Arc;

use kubegc_core::{
    Kept, Plan, PlanOf, Planner, Timestamp,
    node_facts::{Container, PodState, annotation},
};

use super::{
    Action, Mode, Policy, Reason, RemovalReason, Subject, Summary,
    listing::sort,
    units::{Dead, Units, newest_first},
};
use crate::{
    Inventory, Order,
    pod::{RemovableState, content_removable_at, runtime_removable_at},
};

/// Grace period in seconds of a container without annotations, and the minimum of any.
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
            Err(why) => {
                let reason = Reason::Unlisted(why.to_string().into());
                return Plan {
                    findings: vec![node(reason)],
                    ..Plan::default()
                };
            }
        };
        let sorted = sort(self, listing, now);
        let mut plan: PlanOf<Self> = Plan {
            kept: sorted.kept,
            findings: sorted.findings,
            // At the end of time nothing is ahead.
            next_at: sorted.next_at.filter(|&at| at > now),
            ..Plan::default()
        };
        let mut choice = Choice {
            policy: self,
            inventory,
            listing,
            actions: Vec::with_capacity(sorted.units.total() as usize),
            units: sorted.units,
            unready: Vec::new(),
        };
        plan.summary.candidates = choice.units.total();
        plan.summary.units = count(choice.units.units.len());
        plan.summary.pod_ended = choice.removable_pods();
        if let Some(max) = self.limits.per_unit_max {
            let reason = RemovalReason::UnitLimit { per_unit_max: max };
            plan.summary.unit_limit = choice.per_unit(max, reason);
        }
        if let Some(max) = self.limits.node_max {
            choice.node(max, &mut plan.summary, &mut plan.findings);
        }
        choice.explain(&mut plan.kept);
        plan.actions = choice.actions;
        plan
    }
}

/// A selection in progress.
struct Choice<'a> {
    policy: &'a Policy,
    inventory: &'a Inventory,
    listing: &'a [Arc<Container>],
    units: Units,
    actions: Vec<Action>,
    /// Units, ascending, whose pod is unknown or removable while not all sources are ready.
    unready: Vec<usize>,
}

impl Choice<'_> {
    /// [N2.21](crate::rules#n2-21): removes whole units of removable pods.
    fn removable_pods(&mut self) -> u32 {
        let before = self.actions.len();
        let pods = &self.inventory.pods;
        let uids = std::mem::take(&mut self.units.pods);
        // Units and known pods are both ordered by uid.
        let mut known = pods.known.iter().peekable();
        for (at, uid) in uids.iter().enumerate() {
            while known.next_if(|(known, _)| *known < uid).is_some() {}
            let state = known.peek().filter(|(known, _)| *known == uid);
            let Some(end) = self.pod_end(state.map(|(_, state)| **state)) else {
                continue;
            };
            if pods.sources_ready {
                self.remove_beyond(at, 0, RemovalReason::PodEnded(end));
            } else {
                self.unready.push(at);
            }
        }
        // Units that were removed no longer count; N2.23 divides by the others.
        self.units.units.retain(|unit| unit.len > 0);
        count(self.actions.len() - before)
    }

    fn pod_end(&self, state: Option<PodState>) -> Option<RemovableState> {
        let (pods, semantics) = (&self.inventory.pods, &self.policy.semantics);
        content_removable_at(pods, state, semantics).or_else(|| match self.policy.mode {
            Mode::Periodic => None,
            Mode::Forced => runtime_removable_at(pods, state, semantics),
        })
    }

    /// [N2.22](crate::rules#n2-22): each unit keeps its newest.
    fn per_unit(&mut self, max: u32, reason: RemovalReason) -> u32 {
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
        summary.even_share = self.per_unit(share, reason);
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
        let mut all: Vec<Dead> = Vec::with_capacity(self.units.total() as usize);
        for &unit in &self.units.units {
            all.extend_from_slice(self.units.kept(unit));
        }
        let keep = all.len() - excess as usize;
        // Sorted even if all are removed: upstream sorts the node's list before it truncates it.
        newest_first(&mut all, self.listing, self.policy.order);
        for dead in all[keep..].iter().rev() {
            let container = self.units.take(*dead, self.listing);
            self.actions.push(remove(container, *dead, reason));
        }
        // Kept containers are reported by unit: mark the removed ones.
        let mut removed = vec![false; self.listing.len()];
        for dead in &all[keep..] {
            removed[dead.at as usize] = true;
        }
        for unit in &mut self.units.units {
            let range = unit.start as usize..(unit.start + unit.len) as usize;
            let kept = &mut self.units.dead[range];
            // Stable: kept containers come first, in their order.
            kept.sort_by_key(|dead| removed[dead.at as usize]);
            unit.len = count(kept.partition_point(|dead| !removed[dead.at as usize]));
        }
        excess
    }

    /// [N2.14](crate::rules#n2-14) to [N2.16](crate::rules#n2-16): a unit keeps its newest; the others are
    /// removed, the oldest first.
    fn remove_beyond(&mut self, at: usize, keep: u32, reason: RemovalReason) {
        let unit = self.units.units[at];
        let range = unit.start as usize..(unit.start + unit.len) as usize;
        let dead = &mut self.units.dead[range];
        if keep > 0 || self.policy.order == Order::Total {
            newest_first(dead, self.listing, self.policy.order);
        }
        for at in (unit.start + keep..unit.start + unit.len).rev() {
            let dead = self.units.dead[at as usize];
            let container = self.units.take(dead, self.listing);
            self.actions.push(remove(container, dead, reason));
        }
        self.units.units[at].len = keep;
    }

    /// Adds the reasons for kept containers, units in their order, the newest first.
    fn explain(&mut self, reasons: &mut Vec<Kept<Subject, Reason>>) {
        reasons.reserve(self.units.total() as usize);
        for at in 0..self.units.units.len() {
            let unit = self.units.units[at];
            let range = unit.start as usize..(unit.start + unit.len) as usize;
            let kept = &mut self.units.dead[range];
            if kept.len() > 1 {
                newest_first(kept, self.listing, self.policy.order);
            }
            // While sources are missing no whole unit was removed, so positions of units have not moved.
            let unready = self.unready.binary_search(&at).is_ok();
            for newer in 0..unit.len {
                let dead = self.units.dead[(unit.start + newer) as usize];
                let reason = if unready {
                    Reason::SourcesNotReady
                } else {
                    Reason::WithinLimits { newer }
                };
                reasons.push(Kept {
                    object: Subject::Container(self.units.take(dead, self.listing)),
                    reason,
                });
            }
        }
    }
}

fn remove(container: Arc<Container>, dead: Dead, reason: RemovalReason) -> Action {
    Action::Remove {
        stop_first: dead.is_unknown.then(|| grace_seconds(&container)),
        container,
        reason,
    }
}

/// [N2.50](crate::rules#n2-50), [N2.51](crate::rules#n2-51): the grace period of a container that may still
/// run.
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

/// Positions were counted in 32 bits when the listing was evaluated.
fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}
