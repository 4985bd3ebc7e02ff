//! Runs a question on the part of a cluster that it can reach, with unknown owners present, absent or
//! terminating.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kubegc_control_plane::{
    ControlPlane, Settings, Simulation, Why, add_cloud_responses,
    finalizers::{OVERDUE, Owner as FinalizerOwner},
    list_resource,
};
use kubegc_controllers::{
    Controller, ExternalProvisioner, Manager, Migration, NodeLifecycle, PersistentVolumeBinder, Storage,
    Wire, protection,
};
use kubegc_core::{
    ApiResource, DeleteOptions, KindId, ObjectMeta, ObjectRef, OwnerReference, Scope as KindScope,
    SharedMeta, Timestamp,
    metadata::FINALIZER_FOREGROUND,
    record::{Body, Node, Record, Resource},
};
use kubegc_sim::{ApiServer, Response, StoredObject};
use kubegc_snapshot::{CrdDetails, Details, JsonDocuments, ObjectView};

use crate::{
    Cluster, Intent, PredictError, Target,
    facts::{Member, Owner, Scope},
    fate::Finding,
};

/// The assumption about owners that are missing from the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlisted {
    Present,
    Absent,
    /// It is terminating and waits for dependents, some of which are not in the dump either.
    Waiting,
}

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
    pub(crate) cluster: &'q Cluster,
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
    pub(crate) cluster: &'q Cluster,
    pub(crate) scope: Scope,
    /// The simulation in which missing owners exist.
    pub(crate) primary: Simulation,
    /// The simulations in which they do not.
    pub(crate) alternatives: Vec<Simulation>,
    pub(crate) refused: Vec<Finding>,
}

impl Simulated<'_> {
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Simulation> {
        std::iter::once(&self.primary).chain(&self.alternatives)
    }
}

impl<'q> Run<'q> {
    pub(crate) fn of(cluster: &'q Cluster, deletes: Vec<ClientDelete<'q>>) -> Self {
        Self {
            cluster,
            controllers: cluster.controllers.clone(),
            manager: None,
            deletes,
            began: None,
            horizon: None,
        }
    }

    pub(crate) fn of_intents(cluster: &'q Cluster, intents: &'q [Intent]) -> Result<Self, PredictError> {
        Ok(Self::of(cluster, deletes(cluster, intents)?))
    }

    /// Simulates the objects that the seeds can reach.
    pub(crate) fn simulate(&self, seeds: impl IntoIterator<Item = u32>) -> Simulated<'q> {
        let mut seeds: BTreeSet<u32> = seeds.into_iter().collect();
        let mut read = self.cluster.unlistable();
        loop {
            let scope = Scope::of(self.cluster, seeds.iter().copied(), read.iter().copied());
            let (primary, refused) = self.simulate_with(&scope, Unlisted::Present);
            let assumed = [Unlisted::Absent, Unlisted::Waiting].into_iter();
            let assumed = assumed.filter(|_| !scope.unknown.is_empty());
            let alternatives = assumed.map(|unlisted| self.simulate_with(&scope, unlisted).0);
            let alternatives = alternatives.collect();
            let counts = (seeds.len(), read.len());
            let simulated = Simulated {
                cluster: self.cluster,
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
        let cluster = self.cluster;
        let is_new = |at: &u32| scope.members.get(at) != Some(&Member::Affected);
        let changes = simulation.plane.steps().iter().flat_map(|step| &step.changes);
        let uids = changes.map(|change| &change.object.uid);
        let uids = uids.filter(|uid| !uid.is_empty());
        let changed: BTreeSet<u32> = uids.flat_map(|uid| cluster.positions_of(uid)).collect();
        for position in changed {
            seeds.extend(cluster.adopters(position, simulation).into_iter().filter(is_new));
            if scope.members.get(&position) == Some(&Member::Context) {
                seeds.insert(position);
            }
        }
        for step in simulation.plane.steps() {
            // Controllers that have listed the whole dump adopt for owners that the server does not have.
            if let Why::Controller(reason) = &step.why
                && let Some(adopter) = reason.object().filter(|_| reason.code() == "Adopted")
            {
                seeds.extend(cluster.position_of(adopter).filter(is_new));
            }
        }
        for object in simulation.plane.not_found() {
            if object.uid.is_empty() {
                let found = cluster.by_name(object.resource, &object.namespace, &object.name);
                read.extend(found.filter(|at| !scope.members.contains_key(at)));
            } else {
                seeds.extend(cluster.position_of(object).filter(is_new));
            }
        }
    }

    /// Simulates the objects of a scope. The findings are about deletes that the API server refused.
    pub(crate) fn simulate_with(&self, scope: &Scope, unlisted: Unlisted) -> (Simulation, Vec<Finding>) {
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
                let status = response.status();
                let message = status.map(|status| status.message.clone());
                refused.push(Finding::Refused {
                    object: delete.object.clone(),
                    code: response.code,
                    message: message.unwrap_or_default(),
                });
            }
        }
        match self.horizon {
            Some(horizon) => simulation.run_until(began.saturating_add(horizon)),
            None => simulation.run_until_quiet(),
        }
        (simulation, refused)
    }

    pub(crate) fn begin(&self, scope: &Scope, unlisted: Unlisted) -> Simulation {
        let cluster = self.cluster;
        let mut server = cluster.empty_server.clone();
        let records = load(cluster, scope, &mut server, self.manager.is_none());
        add_unlisted(cluster, scope, &mut server, unlisted);
        let began = self.began.unwrap_or_else(|| cluster.newest_time());
        server.set_now(began);
        let manager = match &self.manager {
            Some(manager) => manager.clone(),
            None => {
                let manager = Manager::new(self.controllers.clone(), Wire::AsUpstream, began);
                let mut manager = manager.into_simulation();
                list(cluster, &mut manager, began, Some((scope, records)));
                manager
            }
        };
        let settings = Settings {
            controllers: Vec::new(),
            collector_runs: cluster.assumptions.runs(FinalizerOwner::GarbageCollector.name()),
            nodes_matter: true,
            pods_end_from: began.saturating_sub(OVERDUE),
            incomplete: (!cluster.is_complete(Resource::Nodes))
                .then_some(Resource::Nodes)
                .into_iter()
                .collect(),
            is_alone: true,
            aggregated_apis: cluster.aggregated_apis.clone(),
            assumptions: Arc::clone(&cluster.assumptions),
            ..Settings::new(cluster.version)
        };
        let mut plane = ControlPlane::with_manager(&server, settings, manager);
        plane.settle_collector(&mut server);
        Simulation::of(server, plane)
    }
}

fn deletes<'q>(cluster: &Cluster, intents: &'q [Intent]) -> Result<Vec<ClientDelete<'q>>, PredictError> {
    let mut deletes = Vec::new();
    for (number, intent) in intents.iter().enumerate() {
        let kind = match &intent.target {
            Target::Object(name) => &name.kind,
            Target::Labelled { kind, .. } => kind,
        };
        // The dump may have custom resources in another version than that of the request.
        let (kind, resource) = cluster.kind(kind)?;
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
            && let Some(object) = cluster.absent(name)?
        {
            deletes.push(delete(None, object));
            continue;
        }
        let positions = cluster.resolve(&intent.target)?.into_iter();
        deletes.extend(positions.map(|at| delete(Some(at), cluster.object_ref(at))));
    }
    Ok(deletes)
}

/// The controllers, with the assumptions about the nodes of the cluster and its storage: the volume plugins
/// and migrations of its release, and the external provisioners of its volumes. A cluster with PodGroups has
/// their controller.
pub(crate) fn with_storage(
    cluster: &Cluster,
    controllers: &[Arc<dyn Controller>],
) -> Vec<Arc<dyn Controller>> {
    let mut controllers = controllers.to_vec();
    let mut lifecycle = NodeLifecycle::new(cluster.version);
    lifecycle.stops_without_ready_nodes =
        !(cluster.assumptions.other_nodes_are_ready || has_ready_node(cluster));
    for controller in &mut controllers {
        if controller.info().name == lifecycle.info().name {
            *controller = Arc::new(lifecycle);
        }
    }
    let groups = protection::POD_GROUPS.at(cluster.version);
    let exists = groups.info().since.is_none_or(|since| cluster.version.has(since));
    if exists && cluster.all(Resource::PodGroups).next().is_some() {
        controllers.retain(|controller| controller.info().name != groups.info().name);
        controllers.push(Arc::new(groups));
    }
    controllers.retain(|controller| cluster.assumptions.runs(controller.info().name));
    let mut binder = PersistentVolumeBinder::new(cluster.version);
    let mut names = controllers.iter().map(|controller| controller.info().name);
    let Some(at) = names.position(|name| name == binder.info().name) else {
        return controllers;
    };
    binder.storage = cluster.assumptions.storage.clone();
    if cluster.assumptions.storage_is_deleted {
        binder.storage.release.get_or_insert(cluster.version);
    }
    for name in external_provisioners(cluster, &binder.storage) {
        controllers.push(Arc::new(ExternalProvisioner::new(&name)));
    }
    controllers[at] = Arc::new(binder);
    controllers
}

/// Whether the dump has a node that is ready. A scope may have only others.
fn has_ready_node(cluster: &Cluster) -> bool {
    let is_ready = |node| cluster.record(node).node().and_then(Node::is_ready);
    cluster
        .all(Resource::Nodes)
        .any(|node| is_ready(node) == Some(true))
}

/// The external provisioners of the volumes of the dump: those that the volumes name, and the CSI drivers
/// that volumes are migrated to.
fn external_provisioners(cluster: &Cluster, storage: &Storage) -> BTreeSet<Arc<str>> {
    let mut names = BTreeSet::new();
    let volumes = cluster.all(Resource::PersistentVolumes);
    for record in volumes.map(|position| cluster.record(position)) {
        let volume = record.persistent_volume();
        let Some(annotations) = volume.and_then(|volume| volume.annotations.known()) else {
            continue;
        };
        names.extend(annotations.migrated_to.clone());
        match annotations.provisioned_by.as_ref() {
            Some(name) if kubegc_controllers::is_in_tree(name) => {
                if let Some(Migration::On { driver }) = storage.migration(name) {
                    names.insert(driver);
                }
            }
            name => names.extend(name.cloned()),
        }
    }
    names.remove("");
    names
}

/// Feeds the records of a scope to controllers, or those of the whole dump. A resource of a scope is complete
/// if the dump has all objects in its namespaces.
pub(crate) fn list(
    cluster: &Cluster,
    manager: &mut Manager,
    now: Timestamp,
    mut of_scope: Option<(&Scope, BTreeMap<Resource, Vec<Record>>)>,
) {
    let members = of_scope.iter().flat_map(|(scope, _)| scope.members.keys());
    let namespaces = members.map(|at| cluster.view(*at).namespace());
    let namespaces: BTreeSet<_> = namespaces.filter(|namespace| !namespace.is_empty()).collect();
    for resource in manager.resources() {
        let (group, kind) = (resource.group(), resource.kind());
        let is_namespaced = || {
            let mut kinds = cluster.catalog().iter().map(|(_, known)| known);
            kinds.any(|known| *known.kind == *kind && *known.group == *group && known.is_namespaced())
        };
        let mut of_namespaces = namespaces.iter();
        let is_complete = cluster.is_complete(resource)
            || !namespaces.is_empty()
                && of_namespaces.all(|namespace| cluster.is_complete_in(resource, namespace))
                && is_namespaced();
        let records = match &mut of_scope {
            Some((_, records)) => records.remove(&resource).unwrap_or_default(),
            None => cluster
                .all(resource)
                .map(|position| cluster.record(position))
                .collect(),
        };
        let listed_in = cluster.snapshot.completeness.namespaces(group, kind);
        manager.set_listed_in(resource, listed_in);
        list_resource(manager, now, resource, records, is_complete);
    }
    add_cloud_responses(manager, now, &cluster.assumptions);
}

/// Adds the objects of a scope to its server, and returns the records that controllers list.
fn load(
    cluster: &Cluster,
    scope: &Scope,
    server: &mut ApiServer,
    with_records: bool,
) -> BTreeMap<Resource, Vec<Record>> {
    let mut records = BTreeMap::<Resource, Vec<Record>>::new();
    let mut shared = None;
    for (&position, member) in &scope.members {
        let object = cluster.view(position);
        let meta = SharedMeta::from(object.meta());
        if let Some(resource) = cluster.resource_at(position).filter(|_| with_records) {
            let record = object.record_with(meta.clone());
            records.entry(resource).or_default().push(record);
        }
        let Some(kind) = object.kind_id() else { continue };
        let mut stored = stored(object, meta, &mut shared);
        if *member == Member::Context {
            keep_owners_in_scope(cluster, scope, position, &mut stored);
        }
        // The kind is the server's, and the name was read.
        let stored = server.insert(kind, stored);
        debug_assert!(stored.is_ok(), "{stored:?}");
    }
    records
}

/// The stored form of an object. Objects with the same fields as the last one share them with it.
pub(crate) fn stored(
    object: ObjectView<'_>,
    meta: SharedMeta,
    last: &mut Option<(Arc<Body>, kubegc_sim::Body)>,
) -> StoredObject {
    let body = match object.details() {
        Some(Details::Body(fields)) => {
            let known = last.take().filter(|(known, _)| Arc::ptr_eq(known, fields));
            let (_, body) = last.insert(known.unwrap_or_else(|| {
                let record = Arc::clone(fields);
                let body = kubegc_sim::Body::lazy(move || fields_of(&record));
                (Arc::clone(fields), body)
            }));
            Some(body.clone())
        }
        Some(Details::CustomResourceDefinition(definition)) => Some(body_of(definition)),
        _ => None,
    };
    StoredObject::new(meta, body)
}

/// Removes the owners out of scope: an object that is only read keeps the others.
fn keep_owners_in_scope(cluster: &Cluster, scope: &Scope, position: u32, stored: &mut StoredObject) {
    let is_in_scope = |owner: &Owner| matches!(owner, Owner::At(at) if scope.members.contains_key(at));
    if cluster.edges.owners(position).all(|owner| is_in_scope(&owner)) {
        return;
    }
    let mut owners = cluster.edges.owners(position);
    let references = &mut stored.meta.owner_references;
    references.retain(|_| owners.next().is_some_and(|owner| is_in_scope(&owner)));
}

/// Adds the owners that are missing from the dump to the server of a scope.
fn add_unlisted(cluster: &Cluster, scope: &Scope, server: &mut ApiServer, unlisted: Unlisted) {
    for (position, reference) in &scope.unknown {
        let kind = unlisted_kind(cluster, server, reference);
        let Some(kind) = kind.filter(|_| unlisted != Unlisted::Absent) else {
            continue;
        };
        let resource = &server.catalog()[kind];
        let namespace = match resource.is_namespaced() {
            true => Arc::clone(cluster.view(*position).namespace()),
            false => "".into(),
        };
        let mut meta = ObjectMeta::new(&namespace, &reference.name, "");
        meta.uid = reference.uid.clone();
        if unlisted == Unlisted::Waiting {
            // An object that blocks its own deletion waits without end, as for a dependent that is
            // missing from the dump.
            meta.deletion_timestamp = Some(Timestamp::EPOCH);
            meta.deletion_grace_period_seconds = Some(0);
            meta.finalizers = vec![FINALIZER_FOREGROUND.into()];
            let itself = OwnerReference {
                block_owner_deletion: Some(true),
                controller: None,
                ..reference.clone()
            };
            meta.owner_references.push(itself);
        }
        if server.object(kind, &namespace, &reference.name).is_none() {
            let stored = server.insert(kind, meta);
            debug_assert!(stored.is_ok(), "{stored:?}");
        }
    }
}

/// The kind of an owner that is not in the dump. One that nothing explains is assumed to be cluster-scoped,
/// so that it can be found from anywhere.
fn unlisted_kind(cluster: &Cluster, server: &mut ApiServer, reference: &OwnerReference) -> Option<KindId> {
    if let Some(kind) = server.catalog().mapping(&reference.api_version, &reference.kind) {
        return Some(kind);
    }
    if cluster.is_unserved(&reference.api_version, &reference.kind) {
        return None;
    }
    // No resource has capitals in its name: this one is not taken.
    let resource = ApiResource::new(
        &reference.api_version,
        &reference.kind,
        &reference.kind,
        KindScope::Cluster,
    )
    .custom();
    server.register(resource).ok()
}

fn body_of(definition: &CrdDetails) -> kubegc_sim::Body {
    let version = |version: &kubegc_snapshot::CrdVersion| serde_json::json!({ "name": version.name, "served": version.served, "storage": version.storage });
    let scope = match definition.scope {
        KindScope::Cluster => "Cluster",
        KindScope::Namespaced => "Namespaced",
    };
    let established = match definition.established {
        Some(false) => "False",
        _ => "True",
    };
    let spec = serde_json::json!({
        "group": definition.group,
        "scope": scope,
        "names": { "plural": definition.plural, "kind": definition.kind },
        "versions": definition.versions.iter().map(version).collect::<Vec<_>>(),
    });
    let status = serde_json::json!({ "conditions": [{ "type": "Established", "status": established }] });
    serde_json::Map::from_iter([("spec".to_owned(), spec), ("status".to_owned(), status)]).into()
}

fn fields_of(body: &Body) -> serde_json::Map<String, serde_json::Value> {
    let mut fields = JsonDocuments::fields(body);
    if let Body::Pod(pod) = body
        && let Some(spec) = fields.get_mut("spec")
    {
        // A pod that was read without its spec has the default grace period.
        let grace = pod.termination_grace_period_seconds.known().copied().flatten();
        spec["terminationGracePeriodSeconds"] = grace.unwrap_or(30).into();
    }
    fields
}
