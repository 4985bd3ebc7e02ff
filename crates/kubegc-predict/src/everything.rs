//! Forecasts of deletes, and of everything that happens in a dump.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_control_plane::{QUIET, Simulation, Step, Why};
use kubegc_controllers::{
    Controller, End, FieldChange, Input, Key, Manager, Output, Request, Response, Step as Sequenced, Task,
    Wire, Write,
};
use kubegc_core::{
    StoreError, Timestamp,
    record::{ObjectId, Resource},
};

use crate::{
    Cluster, Finding, Forecast, Undetermined, explore,
    facts::PENDING_CHANGES,
    judge,
    run::{self, Run, Simulated, Unlisted},
};

impl Run<'_> {
    /// Predicts the effects of the deletes.
    pub(crate) fn forecast(&self) -> Forecast {
        let targets: Vec<u32> = self.deletes.iter().filter_map(|delete| delete.position).collect();
        let waiting = self.cluster.waiting_for(&targets);
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
        let is_pending = |at: &u32| self.cluster.has(*at, PENDING_CHANGES);
        let is_own = |step: &Step| step.causes.is_empty() && !matches!(step.why, Why::Intent(_));
        let is_any = simulated.scope.affected().any(|at| is_pending(&at))
            || simulated.primary.plane.steps().iter().any(is_own);
        let run = Run {
            controllers: self.controllers.clone(),
            began: Some(simulated.primary.plane.began()),
            horizon: self.horizon,
            ..Run::of(self.cluster, Vec::new())
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
        let (cluster, horizon) = (self.cluster, self.horizon);
        let findings = findings(cluster, &self.controllers);
        let began = *self.began.get_or_insert_with(|| cluster.newest_time());
        let manager = Manager::new(self.controllers.clone(), Wire::AsUpstream, began);
        let manager = self.manager.insert(manager.into_simulation());
        run::list(cluster, manager, began, None);
        manager.reconcile_due(began);
        let until = began.saturating_add(horizon.unwrap_or(QUIET));
        let mut seeds: BTreeSet<u32> = cluster.pending_changes().collect();
        seeds.extend(planned(cluster, manager.clone(), began, until, horizon.is_some()));
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

/// The objects that controllers act on until a time if nothing else happens, and those that depend on missing
/// data.
fn planned(
    cluster: &Cluster,
    mut manager: Manager,
    began: Timestamp,
    until: Timestamp,
    with_unknown: bool,
) -> Vec<u32> {
    let mut seeds = Vec::new();
    let mut now = began;
    loop {
        match manager.poll_output(now) {
            Output::Perform(task) => {
                seeds.extend(cluster.position_of(&task.object));
                let id = task.id;
                let deleted = deletions(cluster, &manager, *task, &mut seeds);
                let end = End::Done;
                manager.handle(now, Input::Ended { task: id, end });
                for object in deleted {
                    let (resource, uid) = (object.resource, object.uid);
                    let key = Key::new(object.namespace, object.name);
                    manager.handle(now, Input::Deleted { resource, key, uid });
                }
            }
            Output::Wait { until: Some(at) } if at > now && at <= until => now = at,
            _ => break,
        }
    }
    if with_unknown {
        let unknown = manager.unknown();
        let unknown = unknown.filter_map(|(_, object, ..)| cluster.position_of(object));
        seeds.extend(cluster.affected_by(unknown));
    }
    seeds
}

/// The objects that a task deletes if reads return the objects of the dump and every write succeeds. Adds the
/// objects that it touches to the seeds: those of its requests, those that it reads, and the owners that it
/// sets, which must exist.
fn deletions(cluster: &Cluster, manager: &Manager, task: Task, seeds: &mut Vec<u32>) -> Vec<ObjectId> {
    let mut deleted = Vec::new();
    let mut sequence = task.work.into_steps(false).begin();
    let mut response = None;
    while let Sequenced::Perform { request, .. } = sequence.next(response.take()) {
        if !matches!(request, Request::Event(_)) {
            seeds.extend(request.object().and_then(|object| cluster.position_of(object)));
        }
        response = Some(match request {
            Request::Get { resource, key } => {
                seeds.extend(cluster.by_name(resource, &key.namespace, &key.name));
                match manager.cache().get(resource, &key) {
                    Some(record) => Response::Object(Box::new(record.clone())),
                    None => Response::Failed(StoreError::NotFound),
                }
            }
            Request::Delete { object, .. } => {
                deleted.push(object);
                Response::Done
            }
            Request::Write(Write { changes, .. }) => {
                for change in &changes {
                    if let FieldChange::OwnerReferences(references) = change {
                        let owners = references.iter();
                        seeds.extend(owners.flat_map(|owner| cluster.positions_of(&owner.uid)));
                    }
                }
                Response::Written(None)
            }
            Request::Event(_) => Response::Written(None),
            _ => Response::Failed(StoreError::Unlisted),
        });
    }
    deleted
}

/// The data that the question needs and that is missing from the dump: nodes that controllers looked up at
/// the cloud provider, and StatefulSets that claims may belong to.
fn findings(cluster: &Cluster, controllers: &[Arc<dyn Controller>]) -> Vec<Finding> {
    let is_dumped = |node: &str| cluster.by_name(Resource::Nodes, "", node).is_some();
    let unknown = cluster.assumptions.cloud.keys().filter(|node| !is_dumped(node));
    let nodes = unknown.map(|node| Finding::NodeNotDumped {
        node: Arc::clone(node),
    });
    nodes.chain(sets_not_in_dump(cluster, controllers)).collect()
}

/// Whether claims may belong to stateful sets that were not dumped.
fn sets_not_in_dump(cluster: &Cluster, controllers: &[Arc<dyn Controller>]) -> Option<Finding> {
    let mut names = controllers.iter().map(|controller| controller.info().name);
    if !names.any(|name| name == "statefulset-controller") || cluster.is_complete(Resource::StatefulSets) {
        return None;
    }
    let claims = cluster.all(Resource::PersistentVolumeClaims);
    let is_like_theirs = |position: &u32| {
        let claim = cluster.view(*position);
        let (templates_and_set, ordinal) = claim.name().rsplit_once('-').unwrap_or_default();
        let is_number = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
        // Any part behind a hyphen may be the name of the set.
        let hyphens = templates_and_set.match_indices('-');
        let mut sets = hyphens.map(|(at, _)| &templates_and_set[at + 1..]).peekable();
        let is_dumped = |set: &str| {
            let found = cluster.by_name(Resource::StatefulSets, claim.namespace(), set);
            found.is_some()
        };
        is_number && sets.peek().is_some() && !sets.any(is_dumped)
    };
    let claims = claims.filter(is_like_theirs).count();
    (claims > 0).then_some(Finding::UnseenSets { claims })
}
