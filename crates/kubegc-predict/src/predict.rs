//! Forecasts of deletes, and of everything that happens in a dump.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_control_plane::{QUIET, Simulation, Step, Why};
use kubegc_controllers::{Controller, Manager, Wire};
use kubegc_core::record::Resource;

use crate::{
    explore,
    facts::{Facts, PENDING_CHANGES},
    judge::{self, Finding, Forecast, Undetermined},
    simulate::{self, Run, Simulated, Unlisted, planned},
};

impl Run<'_> {
    /// Predicts the effects of the deletes.
    pub(crate) fn forecast(&self) -> Forecast {
        let targets: Vec<u32> = self.deletes.iter().filter_map(|delete| delete.position).collect();
        let waiting = self.facts.waiting_for(&targets);
        let simulated = self.simulate(targets.into_iter().chain(waiting));
        let (missing, _) = simulated.missing(false);
        let anyway = self.anyway(&simulated);
        let orders = explore::order_decides(self, &simulated.scope);
        let mut forecast = judge::conclude(self, simulated, missing, anyway.as_ref());
        forecast.findings.extend(orders);
        forecast.findings.sort();
        forecast
    }

    /// The same without the deletes, if anything happens to the objects without them.
    fn anyway(&self, simulated: &Simulated<'_>) -> Option<Simulation> {
        let is_pending = |at: &u32| self.facts.has(*at, PENDING_CHANGES);
        let is_own = |step: &Step| step.causes.is_empty() && !matches!(step.why, Why::Intent(_));
        let is_any = simulated.scope.affected().any(|at| is_pending(&at))
            || simulated.primary.plane.steps().iter().any(is_own);
        let run = Run {
            controllers: self.controllers.clone(),
            began: Some(simulated.primary.plane.began()),
            horizon: self.horizon,
            ..Run::of(self.facts, Vec::new())
        };
        (is_any && !self.deletes.is_empty()).then(|| run.simulate_with(&simulated.scope, Unlisted::Present).0)
    }

    /// Predicts everything that happens until the horizon, or until nothing changes.
    ///
    /// Without a horizon, an object that a controller cannot decide about is undetermined only if something
    /// else happens to it.
    ///
    /// # Complexity
    /// O(n log n) for n objects of the kinds that controllers read, and the cost of the simulation.
    pub(crate) fn everything(mut self) -> Forecast {
        let (facts, horizon) = (self.facts, self.horizon);
        let findings = findings(facts, &self.controllers);
        let began = *self.began.get_or_insert_with(|| facts.newest_time());
        let manager = Manager::new(self.controllers.clone(), Wire::AsUpstream, began);
        let manager = self.manager.insert(manager.into_simulation());
        simulate::list(facts, manager, began, None);
        manager.reconcile_due(began);
        let until = began.saturating_add(horizon.unwrap_or(QUIET));
        let mut seeds: BTreeSet<u32> = facts.pending_changes().collect();
        seeds.extend(planned(facts, manager.clone(), began, until, horizon.is_some()));
        seeds.extend(self.deletes.iter().filter_map(|delete| delete.position));
        loop {
            let simulated = self.simulate(seeds.iter().copied());
            let (missing, out_of_scope) = simulated.missing(horizon.is_some());
            if !out_of_scope.is_empty() {
                seeds.extend(out_of_scope);
                continue;
            }
            let undetermined = undetermined(&simulated);
            let mut forecast = judge::conclude(&self, simulated, missing, None);
            forecast.undetermined = undetermined;
            forecast.findings.extend(findings);
            forecast.findings.sort();
            return forecast;
        }
    }
}

/// The objects about which controllers cannot decide.
fn undetermined(simulated: &Simulated<'_>) -> Vec<Undetermined> {
    let manager = simulated.primary.plane.manager();
    let unknown = manager.unknown();
    let unknown = unknown.filter(|(_, object, ..)| manager.record(object).is_some());
    let undetermined = unknown.map(|(controller, object, missing, _)| Undetermined {
        controller: controller.info().name,
        object: object.clone(),
        missing: missing.clone(),
    });
    undetermined.collect()
}

/// The data that the question needs and that is missing from the dump: nodes that controllers looked up at
/// the cloud provider, and StatefulSets that claims may belong to.
fn findings(facts: &Facts, controllers: &[Arc<dyn Controller>]) -> Vec<Finding> {
    let is_dumped = |node: &str| facts.by_name(Resource::Nodes, "", node).is_some();
    let unknown = facts.assumptions.cloud.keys().filter(|node| !is_dumped(node));
    let nodes = unknown.map(|node| Finding::NodeNotDumped {
        node: Arc::clone(node),
    });
    nodes.chain(sets_not_in_dump(facts, controllers)).collect()
}

/// Whether claims may belong to stateful sets that were not dumped.
fn sets_not_in_dump(facts: &Facts, controllers: &[Arc<dyn Controller>]) -> Option<Finding> {
    let mut names = controllers.iter().map(|controller| controller.info().name);
    if !names.any(|name| name == "statefulset-controller") || facts.is_complete(Resource::StatefulSets) {
        return None;
    }
    let claims = facts.all(Resource::PersistentVolumeClaims);
    let is_like_theirs = |position: &u32| {
        let claim = facts.view(*position);
        let (templates_and_set, ordinal) = claim.name().rsplit_once('-').unwrap_or_default();
        let is_number = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
        // Any part behind a hyphen may be the name of the set.
        let hyphens = templates_and_set.match_indices('-');
        let mut sets = hyphens.map(|(at, _)| &templates_and_set[at + 1..]).peekable();
        let is_dumped = |set: &str| {
            let found = facts.by_name(Resource::StatefulSets, claim.namespace(), set);
            found.is_some()
        };
        is_number && sets.peek().is_some() && !sets.any(is_dumped)
    };
    let claims = claims.filter(is_like_theirs).count();
    (claims > 0).then_some(Finding::UnseenSets { claims })
}
