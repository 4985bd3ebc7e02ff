//! Facts of a dump: its objects, their owners and other relations, the extensions of the API server, and the
//! components that act.

mod edges;
mod extensions;
mod names;
mod relations;
mod scope;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use kubegc_control_plane::{
    AggregatedApi, Assumptions, CONTROLLER_MANAGER, finalizers::Owner as FinalizerOwner, kubelet_runs,
};
use kubegc_controllers::{
    Controller, ExternalProvisioner, Migration, NodeLifecycle, PersistentVolumeBinder, Storage,
    default_controllers, protection,
};
use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, ObjectMeta, ObjectRef, OwnerReference, Timestamp, Uid,
    record::{Body, Condition, Node, Record, Resource},
    version::behavior,
};
use kubegc_sim::{ApiServer, Settings};
use kubegc_snapshot::{ObjectView, Snapshot};

use self::relations::Indexes;

pub use self::extensions::{BrokenExtension, Extension};
pub(crate) use self::{
    edges::{DELETING, Edges, FLAWED, HAS_COLLECTOR_FINALIZER, HAS_CONTENT, HAS_FINALIZERS, Owner},
    names::{SIMILAR_MAX, similar, unknown_kind, unknown_object},
    relations::{Related, Relation},
    scope::{Member, Scope},
};

const EXTENSIONS: &str = "apiextensions.k8s.io";
const DEFINITION: &str = "CustomResourceDefinition";
const REGISTRATION: &str = "apiregistration.k8s.io";
const API_SERVICE: &str = "APIService";

/// The flags of an object with pending changes. A forecast starts at such objects.
pub(crate) const PENDING_CHANGES: u8 = edges::UNRESOLVED_OWNER | DELETING;

/// A component that does not act.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Silent {
    pub(crate) component: &'static str,
    /// The component, or its finalizer where each finalizer has a component of its own.
    pub(crate) name: Arc<str>,
    pub(crate) object: ObjectRef,
    pub(crate) lasted: Duration,
    pub(crate) within: Duration,
}

/// The facts of a dump and the assumptions about what it does not show.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) version: KubernetesVersion,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) edges: Edges,
    indexes: Indexes,
    pub(crate) assumptions: Arc<Assumptions>,
    newest_time: OnceLock<Timestamp>,
    /// The controllers of this version, with the storage that is assumed.
    pub(crate) controllers: Vec<Arc<dyn Controller>>,
    /// A server of this version without objects, to be cloned.
    pub(crate) empty_server: ApiServer,
    /// Whether the dump has webhooks or policies, which may refuse requests.
    pub(crate) has_reviewers: bool,
    /// The APIs that other servers serve, by name of their APIService.
    pub(crate) aggregated_apis: BTreeMap<Arc<str>, AggregatedApi>,
    pub(crate) broken_extensions: Vec<BrokenExtension>,
    pub(crate) silent: Vec<Silent>,
}

impl Facts {
    /// Reads the facts of a dump.
    ///
    /// # Complexity
    /// O(n + r) for n objects with r references.
    pub(crate) fn of(version: KubernetesVersion, snapshot: Snapshot, assumptions: Assumptions) -> Self {
        let settings = Settings {
            namespaces_must_exist: false,
            quota_controller: true,
            ..Settings::default()
        };
        let mut facts = Self {
            version,
            edges: Edges::of(&snapshot),
            indexes: Indexes::default(),
            assumptions: Arc::new(assumptions),
            newest_time: OnceLock::new(),
            controllers: Vec::new(),
            empty_server: ApiServer::new(version, snapshot.catalog.clone()).with_settings(settings),
            has_reviewers: false,
            aggregated_apis: BTreeMap::new(),
            broken_extensions: Vec::new(),
            silent: Vec::new(),
            snapshot: Arc::new(snapshot),
        };
        facts.add_extensions();
        facts.set_controllers();
        facts
    }

    pub(crate) fn add_silent(&mut self, silent: Vec<Silent>) {
        let names = silent.iter().map(|silent| (Arc::clone(&silent.name), false));
        Arc::make_mut(&mut self.assumptions).acting.extend(names);
        self.silent.extend(silent);
    }

    /// Whether an assumption, and no evidence, says that a component does not act.
    pub(crate) fn acts_as_assumed(&self, component: &str) -> bool {
        !self.silent.iter().any(|silent| silent.component == component)
    }

    /// Evidence that the owner of a finalizer does not act.
    pub(crate) fn silent_owner(&self, owner: FinalizerOwner, finalizer: &str) -> Option<&Silent> {
        use FinalizerOwner::{Controller, GarbageCollector};
        let is_managers = matches!(owner, GarbageCollector | Controller(_));
        self.silent.iter().find(|silent| {
            [finalizer, owner.name()].contains(&&*silent.name)
                || is_managers && *silent.name == *CONTROLLER_MANAGER
        })
    }

    /// The objects that wait for an extension that one of these objects belongs to: everything with pending
    /// changes, or nothing.
    pub(crate) fn waiting_for<'a>(&'a self, targets: &[u32]) -> impl Iterator<Item = u32> + use<'a> {
        let is_extension = |target: &u32| {
            let object = self.object_ref(*target);
            object.kind.starts_with("ValidatingAdmissionPolicy")
                || self.broken_extensions.iter().any(|broken| {
                    let is_conversion = matches!(broken.extension, Extension::Conversion);
                    broken.object.uid == object.uid && !is_conversion
                })
        };
        let is_any = targets.iter().any(is_extension);
        self.pending_changes().filter(move |_| is_any)
    }

    /// The objects at which something happens without any intent: owners that do not exist, and deletions in
    /// progress.
    pub(crate) fn pending_changes(&self) -> impl Iterator<Item = u32> + '_ {
        self.with(PENDING_CHANGES)
    }

    pub(crate) fn with(&self, flags: u8) -> impl Iterator<Item = u32> + '_ {
        (0..self.edges.flags.len() as u32).filter(move |at| self.has(*at, flags))
    }

    pub(crate) fn has(&self, position: u32, flags: u8) -> bool {
        self.edges.flags[position as usize] & flags != 0
    }

    /// The object at a position, which is one of this dump.
    pub(crate) fn view(&self, position: u32) -> ObjectView<'_> {
        let view = self.snapshot.object(position as usize);
        view.unwrap_or_else(|| unreachable!("a position is that of an object"))
    }

    pub(crate) fn record(&self, position: u32) -> Record {
        self.view(position).record()
    }

    pub(crate) fn all(&self, resource: Resource) -> impl Iterator<Item = u32> + use<> {
        self.named(resource.group(), resource.kind())
    }

    pub(crate) fn of_kind(&self, kind: &ApiResource) -> impl Iterator<Item = u32> + use<> {
        self.named(&kind.group, &kind.kind)
    }

    pub(crate) fn named(&self, group: &str, kind: &str) -> impl Iterator<Item = u32> + use<> {
        let positions = self.snapshot.positions_of_kind(group, kind);
        positions.map(|position| position as u32)
    }

    pub(crate) fn is_complete(&self, resource: Resource) -> bool {
        let completeness = &self.snapshot.completeness;
        completeness.of(resource.group(), resource.kind()).is_complete()
    }

    /// Whether the dump has all objects of a namespaced resource in a namespace.
    pub(crate) fn is_complete_in(&self, resource: Resource, namespace: &str) -> bool {
        let (completeness, group, kind) = (&self.snapshot.completeness, resource.group(), resource.kind());
        completeness.in_namespace(group, kind, namespace).is_complete()
    }

    /// The objects of the dump that keep the garbage collector from starting: they cannot be listed in the
    /// version that it watches. Later releases start without them.
    pub(crate) fn unlistable(&self) -> BTreeSet<u32> {
        if self.version.has(behavior::STARTS_WITHOUT_FULL_SYNC) {
            return BTreeSet::new();
        }
        let is_broken = |kind: KindId| self.empty_server.broken_conversion(kind).is_some();
        let kinds = self.catalog().iter();
        let broken = kinds.filter(|(kind, resource)| resource.preferred && is_broken(*kind));
        broken.flat_map(|(_, resource)| self.of_kind(resource)).collect()
    }

    /// The objects with this uid: one, if uids are unique.
    pub(crate) fn positions_of<'a>(&'a self, uid: &'a Uid) -> impl Iterator<Item = u32> + 'a {
        self.edges.positions_of(&self.snapshot, uid)
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.snapshot.catalog
    }

    /// The kinds whose objects are collected, each in one version.
    pub(crate) fn collectable_kinds(&self) -> impl Iterator<Item = &ApiResource> {
        let kinds = self.catalog().iter().map(|(_, kind)| kind);
        kinds.filter(|kind| kind.preferred && kind.verbs.collectable())
    }

    pub(crate) fn object_ref(&self, position: u32) -> ObjectRef {
        self.view(position).object_ref()
    }

    pub(crate) fn kind_id(&self, api_version: &str, kind: &str) -> Option<KindId> {
        self.catalog().mapping(api_version, kind)
    }

    /// The object of this kind and name.
    pub(crate) fn find(&self, kind: &ApiResource, namespace: &str, name: &str) -> Option<u32> {
        self.at(&kind.group, &kind.kind, namespace, name)
    }

    pub(crate) fn at(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<u32> {
        let found = self.snapshot.position(group, kind, namespace, name);
        found.map(|at| at as u32)
    }

    /// The kind of an owner, and the namespace in which a dependent of this namespace has it.
    pub(crate) fn owner_kind<'a>(
        &'a self,
        reference: &OwnerReference,
        namespace: &'a str,
    ) -> Option<(&'a ApiResource, &'a str)> {
        let kind = self.kind_id(&reference.api_version, &reference.kind)?;
        let kind = &self.catalog()[kind];
        Some((kind, if kind.is_namespaced() { namespace } else { "" }))
    }

    /// Whether an object that is missing from the dump can exist at this address.
    pub(crate) fn is_unlisted(&self, resource: &ApiResource, namespace: &str) -> bool {
        let (completeness, group, kind) = (&self.snapshot.completeness, &resource.group, &resource.kind);
        let coverage = match resource.is_namespaced() {
            true => completeness.in_namespace(group, kind, namespace),
            false => completeness.of(group, kind),
        };
        !coverage.is_complete()
    }

    /// Whether a kind that is not in the catalog is known not to be served.
    pub(crate) fn is_unserved(&self, api_version: &str, kind: &str) -> bool {
        edges::is_unserved(&self.snapshot, api_version, kind)
    }

    /// Whether the kubelet of the node of this name runs; `None` if that is not known.
    pub(crate) fn kubelet_runs(&self, node: &str) -> Option<bool> {
        match self.by_name(Resource::Nodes, "", node) {
            Some(position) => kubelet_runs(&self.record(position)),
            None => self.is_complete(Resource::Nodes).then_some(false),
        }
    }
}

impl Facts {
    /// The newest time in the dump, at which forecasts begin: dumps do not contain the time at which they
    /// were taken.
    pub(crate) fn newest_time(&self) -> Timestamp {
        *self.newest_time.get_or_init(|| {
            let times = self.snapshot.objects().filter_map(|view| {
                let record = view.record();
                let changed = conditions(&record).iter();
                let changed = changed.flat_map(|one| [one.last_transition_time, one.last_update_time]);
                let deleted = deletion_requested_at(&record.meta);
                let of_object = [deleted, record.meta.creation_timestamp];
                changed.chain(of_object).flatten().max()
            });
            times.max().unwrap_or(Timestamp::EPOCH)
        })
    }
}

/// The conditions in the status of an object, as far as they are known.
pub(crate) fn conditions(record: &Record) -> &[Condition] {
    let conditions = match &*record.body {
        Body::Job(job) => job.conditions.known(),
        Body::CertificateSigningRequest(request) => request.conditions.known(),
        Body::Node(node) => node.conditions.known(),
        Body::Namespace(namespace) => namespace.conditions.known(),
        _ => None,
    };
    conditions.map_or(&[], Vec::as_slice)
}

/// The time at which the deletion of a terminating object was requested: its deletion time without the grace
/// period.
pub(crate) fn deletion_requested_at(meta: &ObjectMeta) -> Option<Timestamp> {
    let grace = meta.deletion_grace_period_seconds.unwrap_or(0).max(0);
    let deletion = meta.deletion_timestamp?;
    Some(deletion.saturating_sub(Duration::from_secs(grace.unsigned_abs())))
}

impl Facts {
    /// Sets the controllers of this version by the assumptions.
    pub(crate) fn set_controllers(&mut self) {
        self.controllers = self.with_storage(&default_controllers(self.version));
    }

    /// The controllers, with the assumptions about the nodes of the cluster and its storage: the volume
    /// plugins and migrations of its release, and the external provisioners of its volumes. A cluster with
    /// PodGroups has their controller.
    pub(crate) fn with_storage(&self, controllers: &[Arc<dyn Controller>]) -> Vec<Arc<dyn Controller>> {
        let mut controllers = controllers.to_vec();
        let mut lifecycle = NodeLifecycle::new(self.version);
        lifecycle.stops_without_ready_nodes =
            !(self.assumptions.other_nodes_are_ready || self.has_ready_node());
        for controller in &mut controllers {
            if controller.info().name == lifecycle.info().name {
                *controller = Arc::new(lifecycle);
            }
        }
        let groups = protection::POD_GROUPS.at(self.version);
        let exists = groups.info().since.is_none_or(|since| self.version.has(since));
        if exists && self.all(Resource::PodGroups).next().is_some() {
            controllers.retain(|controller| controller.info().name != groups.info().name);
            controllers.push(Arc::new(groups));
        }
        controllers.retain(|controller| self.assumptions.runs(controller.info().name));
        let mut binder = PersistentVolumeBinder::new(self.version);
        let mut names = controllers.iter().map(|controller| controller.info().name);
        let Some(at) = names.position(|name| name == binder.info().name) else {
            return controllers;
        };
        binder.storage = self.assumptions.storage.clone();
        if self.assumptions.storage_is_deleted {
            binder.storage.release.get_or_insert(self.version);
        }
        for name in self.external_provisioners(&binder.storage) {
            controllers.push(Arc::new(ExternalProvisioner::new(&name)));
        }
        controllers[at] = Arc::new(binder);
        controllers
    }

    /// Whether the dump has a node that is ready. A scope may have only others.
    fn has_ready_node(&self) -> bool {
        let is_ready = |node| self.record(node).node().and_then(Node::is_ready);
        self.all(Resource::Nodes).any(|node| is_ready(node) == Some(true))
    }

    /// The external provisioners of the volumes of the dump: those that the volumes name, and the CSI drivers
    /// that volumes are migrated to.
    fn external_provisioners(&self, storage: &Storage) -> BTreeSet<Arc<str>> {
        let mut names = BTreeSet::new();
        let volumes = self.all(Resource::PersistentVolumes);
        for record in volumes.map(|position| self.record(position)) {
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
}
