//! Runs a question on the part of a cluster that it can reach, with unknown owners present, absent or
//! terminating.

mod load;
mod planned;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_control_plane::{
    ControlPlane, Settings, Simulation, Why,
    finalizers::{OVERDUE, Owner as FinalizerOwner},
};
use kubegc_controllers::{Controller, Manager, Wire};
use kubegc_core::{
    DeleteOptions, KindId, ObjectMeta, ObjectRef, SharedMeta, Timestamp,
    record::{Body, Record, Resource},
};
use kubegc_sim::Response;
use kubegc_snapshot::ObjectView;

use self::load::{add_unlisted, load};
use crate::{
    Intent, PredictError, Target,
    facts::{Facts, Member, Scope},
};

pub(crate) use self::{
    load::{Unlisted, list, stored},
    planned::planned,
};

/// A delete request of the client.
pub(crate) struct ClientDelete<'q> {
    /// The position of the object; `None` if the dump shows that it does not exist.
    pub(crate) position: Option<u32>,
    pub(crate) object: ObjectRef,
    /// The kind of the request, if it is a custom one; else that of the object.
    pub(crate) kind: Option<KindId>,
    pub(crate) options: &'q DeleteOptions,
    pub(crate) at: Duration,
    pub(crate) intent: usize,
}

impl ClientDelete<'_> {
    /// Requests it; `None` if the kind is not served.
    pub(crate) fn send(&self, simulation: &mut Simulation) -> Option<Response> {
        let catalog = simulation.server.catalog();
        let mapping = || catalog.mapping(&self.object.api_version, &self.object.kind);
        let kind = self.kind.or_else(mapping)?;
        let Simulation { server, plane, .. } = simulation;
        Some(plane.delete(server, kind, self.object.clone(), self.options, self.intent))
    }
}

/// A question to be simulated.
pub(crate) struct Run<'q> {
    pub(crate) facts: &'q Facts,
    pub(crate) controllers: Vec<Arc<dyn Controller>>,
    /// Controllers that have listed the whole dump. Without these, they list the scope.
    pub(crate) manager: Option<Manager>,
    pub(crate) deletes: Vec<ClientDelete<'q>>,
    /// The time at which it begins; `None`: the newest time in the dump.
    pub(crate) began: Option<Timestamp>,
    /// The length of the period; `None`: until nothing changes.
    pub(crate) horizon: Option<Duration>,
}

/// The simulations of a question: one for each assumption about the owners that are missing from the dump.
pub(crate) struct Simulated<'q> {
    pub(crate) facts: &'q Facts,
    pub(crate) scope: Scope,
    /// The simulation in which missing owners exist.
    pub(crate) primary: Simulation,
    /// The simulations in which they do not.
    pub(crate) alternatives: Vec<Simulation>,
    /// The deletes that the API server refused.
    pub(crate) refused: Vec<(ObjectRef, Response)>,
}

impl Simulated<'_> {
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Simulation> {
        std::iter::once(&self.primary).chain(&self.alternatives)
    }
}

impl<'q> Run<'q> {
    pub(crate) fn of(facts: &'q Facts, deletes: Vec<ClientDelete<'q>>) -> Self {
        Self {
            facts,
            controllers: facts.controllers.clone(),
            manager: None,
            deletes,
            began: None,
            horizon: None,
        }
    }

    pub(crate) fn of_intents(facts: &'q Facts, intents: &'q [Intent]) -> Result<Self, PredictError> {
        Ok(Self::of(facts, deletes(facts, intents)?))
    }

    /// Simulates the objects that the seeds can reach.
    pub(crate) fn simulate(&self, seeds: impl IntoIterator<Item = u32>) -> Simulated<'q> {
        let mut seeds: BTreeSet<u32> = seeds.into_iter().collect();
        let mut read = self.facts.unlistable();
        loop {
            let scope = Scope::of(self.facts, seeds.iter().copied(), read.iter().copied());
            let (primary, refused) = self.simulate_with(&scope, Unlisted::Present);
            let assumed = [Unlisted::Absent, Unlisted::Waiting].into_iter();
            let assumed = assumed.filter(|_| !scope.unknown.is_empty());
            let alternatives = assumed.map(|unlisted| self.simulate_with(&scope, unlisted).0);
            let alternatives = alternatives.collect();
            let counts = (seeds.len(), read.len());
            let simulated = Simulated {
                facts: self.facts,
                scope,
                primary,
                alternatives,
                refused,
            };
            for simulation in simulated.runs() {
                self.extend(&simulated.scope, simulation, &mut seeds, &mut read);
            }
            if counts == (seeds.len(), read.len()) {
                return simulated;
            }
        }
    }

    /// Adds the objects out of scope that a simulation has touched: those that it changed and those that may
    /// adopt one that it changed to the seeds, the others to those that are read.
    fn extend(
        &self,
        scope: &Scope,
        simulation: &Simulation,
        seeds: &mut BTreeSet<u32>,
        read: &mut BTreeSet<u32>,
    ) {
        let facts = self.facts;
        let is_new = |at: &u32| scope.members.get(at) != Some(&Member::Affected);
        let changes = simulation.plane.steps().iter().flat_map(|step| &step.changes);
        let uids = changes.map(|change| &change.object.uid);
        let uids = uids.filter(|uid| !uid.is_empty());
        let changed: BTreeSet<u32> = uids.flat_map(|uid| facts.positions_of(uid)).collect();
        for position in changed {
            seeds.extend(facts.adopters(position, simulation).into_iter().filter(is_new));
            if scope.members.get(&position) == Some(&Member::Context) {
                seeds.insert(position);
            }
        }
        for step in simulation.plane.steps() {
            // Controllers that have listed the whole dump adopt for owners that the server does not have.
            if let Why::Controller(reason) = &step.why
                && let Some(adopter) = reason.object().filter(|_| reason.code() == "Adopted")
            {
                seeds.extend(facts.position_of(adopter).filter(is_new));
            }
        }
        for object in simulation.plane.not_found() {
            if object.uid.is_empty() {
                let found = facts.by_name(object.resource, &object.namespace, &object.name);
                read.extend(found.filter(|at| !scope.members.contains_key(at)));
            } else {
                seeds.extend(facts.position_of(object).filter(is_new));
            }
        }
    }

    /// Simulates the objects of a scope, and returns the deletes that the API server refused.
    pub(crate) fn simulate_with(
        &self,
        scope: &Scope,
        unlisted: Unlisted,
    ) -> (Simulation, Vec<(ObjectRef, Response)>) {
        let mut refused = Vec::new();
        let mut simulation = self.begin(scope, unlisted);
        let began = simulation.plane.began();
        for delete in &self.deletes {
            if !delete.at.is_zero() {
                simulation.run_until(began.saturating_add(delete.at));
                simulation.advance_to(began.saturating_add(delete.at));
            }
            if let Some(response) = delete.send(&mut simulation)
                && !response.is_success()
            {
                refused.push((delete.object.clone(), response));
            }
        }
        match self.horizon {
            Some(horizon) => simulation.run_until(began.saturating_add(horizon)),
            None => simulation.run_until_quiet(),
        }
        (simulation, refused)
    }

    pub(crate) fn begin(&self, scope: &Scope, unlisted: Unlisted) -> Simulation {
        let facts = self.facts;
        let mut server = facts.empty_server.clone();
        let records = load(facts, scope, &mut server, self.manager.is_none());
        add_unlisted(facts, scope, &mut server, unlisted);
        let began = self.began.unwrap_or_else(|| facts.newest_time());
        server.set_now(began);
        let manager = match &self.manager {
            Some(manager) => manager.clone(),
            None => {
                let manager = Manager::new(self.controllers.clone(), Wire::AsUpstream, began);
                let mut manager = manager.into_simulation();
                list(facts, &mut manager, began, Some((scope, records)));
                manager
            }
        };
        let settings = Settings {
            controllers: Vec::new(),
            collector_runs: facts.assumptions.runs(FinalizerOwner::GarbageCollector.name()),
            nodes_matter: true,
            pods_end_from: began.saturating_sub(OVERDUE),
            incomplete: (!facts.is_complete(Resource::Nodes))
                .then_some(Resource::Nodes)
                .into_iter()
                .collect(),
            is_alone: true,
            aggregated_apis: facts.aggregated_apis.clone(),
            assumptions: Arc::clone(&facts.assumptions),
            ..Settings::new(facts.version)
        };
        let mut plane = ControlPlane::with_manager(&server, settings, manager);
        plane.settle_collector(&mut server);
        Simulation::of(server, plane)
    }
}

fn deletes<'q>(facts: &Facts, intents: &'q [Intent]) -> Result<Vec<ClientDelete<'q>>, PredictError> {
    let mut deletes = Vec::new();
    for (number, intent) in intents.iter().enumerate() {
        let kind = match &intent.target {
            Target::Object(name) => &name.kind,
            Target::Labelled { kind, .. } => kind,
        };
        // The dump may have custom resources in another version than that of the request.
        let (kind, resource) = facts.kind(kind)?;
        let kind = resource.custom.then_some(kind);
        let delete = |position: Option<u32>, object: ObjectRef| ClientDelete {
            position,
            object,
            kind,
            options: &intent.options,
            at: intent.after,
            intent: number,
        };
        if let Target::Object(name) = &intent.target
            && let Some(object) = facts.absent(name)?
        {
            deletes.push(delete(None, object));
            continue;
        }
        let positions = facts.resolve(&intent.target)?.into_iter();
        deletes.extend(positions.map(|at| delete(Some(at), facts.object_ref(at))));
    }
    Ok(deletes)
}

/// The metadata of an object of the dump at the end of a simulation; `None` if it no longer exists.
pub(crate) fn end(simulation: &Simulation, object: ObjectView<'_>) -> Option<SharedMeta> {
    let server = &simulation.server;
    let stored = server.object(object.kind_id()?, object.namespace(), object.name())?;
    (stored.meta.uid == *object.uid()).then(|| stored.meta.clone())
}

/// The resources whose objects are adopted, each with those of the owners.
const ADOPTED: [(Resource, Resource); 3] = [
    (Resource::ControllerRevisions, Resource::DaemonSets),
    (Resource::Pods, Resource::ReplicaSets),
    (Resource::ReplicaSets, Resource::Deployments),
];

impl Facts {
    /// The owners that may adopt an object that has lost the controller of the dump in a simulation.
    ///
    /// # Complexity
    /// O(n) for n owners of one resource in the namespace.
    pub(crate) fn adopters(&self, position: u32, simulation: &Simulation) -> Vec<u32> {
        let resource = self.resource_at(position);
        let Some((_, owners)) = ADOPTED.iter().find(|(of, _)| Some(*of) == resource) else {
            return Vec::new();
        };
        let object = self.view(position).meta();
        let (Some(now), Some(before)) = (end(simulation, self.view(position)), object.controller()) else {
            return Vec::new();
        };
        if now.controller().is_some_and(|owner| owner.uid == before.uid) {
            return Vec::new();
        }
        let owners = self.content_of(*owners, &object.namespace);
        owners
            .filter(|owner| may_select(&self.record(*owner), &object))
            .collect()
    }

    /// The orphans of a resource in the namespace of an owner, in the dump or at the end of a simulation,
    /// that its selector matches or may match.
    ///
    /// # Complexity
    /// O(c) for c objects in the namespace.
    pub(crate) fn adoptable(&self, owner: u32, resource: Resource, simulation: &Simulation) -> Vec<u32> {
        let owner = self.record(owner);
        let is_adoptable = |position: &u32| {
            self.resource_at(*position) == Some(resource) && {
                let (view, meta) = (self.view(*position), self.view(*position).meta());
                let now = end(simulation, view);
                let now = now.as_deref().unwrap_or(&meta);
                now.controller().is_none() && may_select(&owner, &meta)
            }
        };
        let content = self.content(&owner.meta.namespace).iter().copied();
        content.filter(is_adoptable).collect()
    }
}

/// Whether the selector of an owner matches an object, or was not read.
fn may_select(owner: &Record, object: &ObjectMeta) -> bool {
    let selector = match &*owner.body {
        Body::DaemonSet(set) => &set.selector,
        Body::Deployment(deployment) => &deployment.selector,
        Body::ReplicaSet(set) => &set.selector,
        _ => return true,
    };
    selector.known().is_none_or(|selector| selector.matches(object))
}
