//! Selects the containers to remove, in upstream's order ([N2.20](crate::rules#n2-20) to
//! [N2.27](crate::rules#n2-27)): those of removable pods, those over the limit of each unit, those over an
//! equal share of the node's limit, the oldest of the node.

use std::{cmp::Reverse, sync::Arc};

use kubegc_core::{
    Plan, PlanOf, Planner, Timestamp, Uid,
    node_facts::{Container, ContainerState, annotation},
};

use super::{
    Action, EvictUnits, Reason, RemovalReason, Subject, Summary,
    listing::{Units, classify, unit},
};
use crate::{
    Inventory, Order,
    pod::{RemovableState, removable},
};

/// The minimum grace period in seconds, and that of a container without annotations.
const GRACE_SECONDS_MIN: u32 = 2;

impl Planner for EvictUnits {
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
                    findings: vec![Subject::Node.because(reason)],
                    ..Plan::default()
                };
            }
        };
        let mut plan = Plan::default();
        let mut selection = Selection {
            policy: self,
            inventory,
            units: classify(self, listing, now, &mut plan),
            plan,
        };
        selection.plan.summary.candidates = selection.total();
        selection.plan.summary.units = count(selection.units.len());
        selection.plan.summary.pod_ended = selection.removable_pods();
        if let Some(max) = self.limits.per_unit_max {
            let reason = RemovalReason::UnitLimit { per_unit_max: max };
            selection.plan.summary.unit_limit = selection.limit_units(max, reason);
        }
        if let Some(max) = self.limits.node_max {
            selection.node(max);
        }
        selection.explain();
        selection.plan
    }
}

struct Selection<'a> {
    policy: &'a EvictUnits,
    inventory: &'a Inventory,
    /// The units with the containers that are still kept.
    units: Units<'a>,
    /// The unfinished plan.
    plan: PlanOf<EvictUnits>,
}

impl Selection<'_> {
    /// [N2.21](crate::rules#n2-21): removes all containers in the units of removable pods, if all pod sources
    /// are ready.
    fn removable_pods(&mut self) -> u32 {
        if !self.inventory.pods.sources_ready {
            return 0;
        }
        let before = self.plan.actions.len();
        for ((uid, _), unit) in &mut self.units {
            if let Some(state) = removable_state(self.policy, self.inventory, uid) {
                let reason = RemovalReason::PodEnded(state);
                remove_beyond(&mut self.plan.actions, unit, 0, self.policy.order, reason);
            }
        }
        // N2.23 divides by the number of units that still have containers.
        self.units.retain(|_, unit| !unit.is_empty());
        count(self.plan.actions.len() - before)
    }

    /// [N2.22](crate::rules#n2-22): each unit keeps its newest containers, up to `max`. Returns the number of
    /// removed containers.
    fn limit_units(&mut self, max: u32, reason: RemovalReason) -> u32 {
        let before = self.plan.actions.len();
        for unit in self.units.values_mut() {
            if count(unit.len()) > max {
                remove_beyond(
                    &mut self.plan.actions,
                    unit,
                    max as usize,
                    self.policy.order,
                    reason,
                );
            }
        }
        count(self.plan.actions.len() - before)
    }

    /// [N2.23](crate::rules#n2-23) to [N2.26](crate::rules#n2-26): equal shares of the node's limit, at least
    /// one for each unit; then the oldest of all.
    fn node(&mut self, max: u32) {
        let total = self.total();
        if total <= max {
            return;
        }
        let units = count(self.units.len());
        let share = max.checked_div(units).unwrap_or(0).max(1);
        self.plan
            .findings
            .push(Subject::Node.because(Reason::LimitsConflict {
                per_unit_max: self.policy.limits.per_unit_max,
                node_max: max,
                units,
                share,
            }));
        let reason = RemovalReason::EvenShare { share, node_max: max };
        self.plan.summary.even_share = self.limit_units(share, reason);
        let remaining = self.total();
        if remaining > max {
            self.plan.summary.node_limit = self.oldest(max, RemovalReason::NodeLimit { node_max: max });
        } else if remaining < max {
            self.plan
                .findings
                .push(Subject::Node.because(Reason::RemovesMoreThanNeeded {
                    remaining,
                    node_max: max,
                }));
        }
    }

    /// Keeps this number of the newest containers of the node. Returns the number of removed containers.
    fn oldest(&mut self, max: u32, reason: RemovalReason) -> u32 {
        let before = self.plan.actions.len();
        let mut all: Vec<_> = self.units.values_mut().flat_map(std::mem::take).collect();
        // Upstream sorts before it removes, even if it removes all.
        newest_first(&mut all, self.policy.order);
        remove_last(&mut self.plan.actions, &mut all, max as usize, reason);
        // The kept containers return to their units, the newest first.
        for container in all {
            self.units.entry(unit(container)).or_default().push(container);
        }
        count(self.plan.actions.len() - before)
    }

    /// The number of containers that are still kept.
    fn total(&self) -> u32 {
        count(self.units.values().map(Vec::len).sum())
    }

    /// Adds the reasons for kept containers, by unit, the newest first.
    fn explain(&mut self) {
        for ((uid, _), unit) in &mut self.units {
            newest_first(unit, self.policy.order);
            // With ready sources, the units of removable pods have been removed.
            let sources_not_ready = removable_state(self.policy, self.inventory, uid).is_some();
            self.plan
                .kept
                .extend((0..).zip(unit).map(|(newer, &mut container)| {
                    Subject::from(container).because(if sources_not_ready {
                        Reason::SourcesNotReady
                    } else {
                        Reason::WithinLimits { newer }
                    })
                }));
        }
    }
}

/// The state of a pod that allows the removal of all its dead containers.
fn removable_state(policy: &EvictUnits, inventory: &Inventory, uid: &Uid) -> Option<RemovableState> {
    removable(&inventory.pods, uid, policy.mode, &policy.semantics)
}

/// [N2.14](crate::rules#n2-14) to [N2.16](crate::rules#n2-16): a unit keeps its `keep` newest containers. The
/// others are removed, the oldest first.
fn remove_beyond(
    actions: &mut Vec<Action>,
    unit: &mut Vec<&Arc<Container>>,
    keep: usize,
    order: Order,
    reason: RemovalReason,
) {
    // Upstream sorts a unit only if it keeps a part of it.
    if keep > 0 || order == Order::Total {
        newest_first(unit, order);
    }
    remove_last(actions, unit, keep, reason);
}

/// Adds the actions that remove all containers but the first ones, the last one first.
fn remove_last(
    actions: &mut Vec<Action>,
    containers: &mut Vec<&Arc<Container>>,
    keep: usize,
    reason: RemovalReason,
) {
    actions.extend(containers.drain(keep..).rev().map(|container| Action {
        stop_first: (container.state == ContainerState::Unknown).then(|| grace_seconds(container)),
        container: Arc::clone(container),
        reason,
    }));
}

/// Sorts by creation time, the newest first. Containers of the same time are sorted by id, or keep their
/// order.
fn newest_first(containers: &mut [&Arc<Container>], order: Order) {
    match order {
        Order::Total => {
            containers.sort_unstable_by_key(|&container| (Reverse(container.created_at), &container.id));
        }
        Order::Listing => containers.sort_by_key(|container| Reverse(container.created_at)),
    }
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

/// A count as 32 bits. Saturation cannot happen: four billion containers do not fit into memory.
fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
