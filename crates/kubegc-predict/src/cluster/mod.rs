//! A cluster for forecasts: the dump, its owner references, and the changes that are already pending.

mod adoption;
mod edges;
mod extensions;
mod relations;
mod scope;
mod services;

pub use extensions::{BrokenExtension, Extension};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use kubegc_control_plane::{AggregatedApi, CONTROLLER_MANAGER, finalizers::Owner as FinalizerOwner};
use kubegc_controllers::{Controller, default_controllers};
use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, ObjectRef, Timestamp, Uid, version::behavior,
};
use kubegc_sim::{ApiServer, Settings};
use kubegc_snapshot::Snapshot;

use crate::{
    Assumptions, Forecast, Intent, KindName, ObjectName, PredictError, Question, Target,
    everything::{everything, newest_time, pending},
    evidence::{self, Silent},
    run::{self, ClientDelete, Run},
    selection::{self, unknown_kind, unknown_object},
};

/// The flags of an object with pending changes. A forecast starts at such objects.
pub(crate) const PENDING_CHANGES: u8 = edges::UNRESOLVED_OWNER | DELETING;

pub(crate) use self::{
    edges::{DELETING, Edges, FLAWED, HAS_COLLECTOR_FINALIZER, HAS_CONTENT, HAS_FINALIZERS, Owner},
    relations::{Indexes, Related, Relation},
    scope::{Member, Scope},
};

/// The dump of a cluster, from which forecasts are computed.
///
/// Building it costs one pass over the objects. A forecast afterwards costs what its cascade costs.
///
/// # Examples
/// ```
/// use kubegc_core::{DeleteOptions, KubernetesVersion};
/// use kubegc_predict::{Assumptions, Cluster, Intent};
/// use kubegc_snapshot::Reader;
///
/// let version = KubernetesVersion::LATEST;
/// let mut reader = Reader::new(version).complete("all");
/// reader.read("dump.yaml", &b"
/// apiVersion: v1
/// kind: ConfigMap
/// metadata: {namespace: shop, name: owner, uid: u1}
/// ---
/// apiVersion: v1
/// kind: Secret
/// metadata: {namespace: shop, name: key, uid: u2, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: u1}]}
/// "[..])?;
/// let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
/// assert!(cluster.pending().timeline.is_empty(), "nothing happens without a delete");
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// assert_eq!(cluster.predict(&[delete])?.counts()["deleted"], 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cluster {
    pub(crate) version: KubernetesVersion,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) edges: Edges,
    pub(crate) indexes: Indexes,
    pub(crate) assumptions: Arc<Assumptions>,
    pending: OnceLock<Forecast>,
    newest_time: OnceLock<Timestamp>,
    pub(crate) removed_anyway: OnceLock<HashSet<u32, FixedState>>,
    /// The controllers of this version, with the storage that is assumed.
    pub(crate) controllers: Vec<Arc<dyn Controller>>,
    /// A server of this version without objects, to be cloned.
    pub(crate) empty_server: ApiServer,
    /// Whether the dump has webhooks or policies, which may refuse requests.
    pub(crate) has_reviewers: bool,
    /// The APIs that other servers serve, by name of their APIService.
    pub(crate) aggregated_apis: BTreeMap<Arc<str>, AggregatedApi>,
    broken_extensions: Vec<BrokenExtension>,
    /// The components that the dump shows not to act.
    pub(crate) silent: Vec<Silent>,
}

impl Cluster {
    /// Builds the cluster.
    ///
    /// # Complexity
    /// O(n + r) for n objects with r references, and [`pending`](Self::pending) if an object has waited for a
    /// controller for minutes.
    #[must_use]
    pub fn new(version: KubernetesVersion, snapshot: Snapshot, assumptions: Assumptions) -> Self {
        let edges = Edges::of(&snapshot);
        let settings = Settings {
            namespaces_must_exist: false,
            quotas_follow: true,
            ..Settings::default()
        };
        let webhooks = extensions::webhooks(&snapshot, &assumptions);
        let aggregated_apis = extensions::aggregated_apis(&snapshot, &assumptions);
        let conversions = extensions::conversions(&snapshot, &assumptions);
        let broken_extensions = extensions::broken(&snapshot, &webhooks, &conversions, &aggregated_apis);
        let (policies, bindings) = extensions::policies(&snapshot);
        let has_reviewers = !webhooks.is_empty() || !policies.is_empty() || !conversions.is_empty();
        let empty_server = ApiServer::new(version, snapshot.catalog.clone())
            .with_settings(settings)
            .with_webhooks(webhooks)
            .with_policies(policies, bindings)
            .with_conversions(conversions);
        let mut cluster = Self {
            version,
            snapshot: Arc::new(snapshot),
            edges,
            indexes: Indexes::default(),
            assumptions: Arc::new(assumptions),
            pending: OnceLock::new(),
            newest_time: OnceLock::new(),
            removed_anyway: OnceLock::new(),
            controllers: Vec::new(),
            empty_server,
            has_reviewers,
            aggregated_apis,
            broken_extensions,
            silent: Vec::new(),
        };
        cluster.controllers = run::with_storage(&cluster, &default_controllers(version));
        if cluster.edges.facts.iter().any(|facts| facts & DELETING != 0) {
            let silent = evidence::external(&cluster);
            cluster.add_silent(silent);
        }
        if evidence::may_show_controllers(&cluster) {
            let silent = evidence::controllers(&cluster);
            if !silent.is_empty() {
                cluster.add_silent(silent);
                cluster.controllers = run::with_storage(&cluster, &default_controllers(version));
                cluster.pending = OnceLock::new();
            }
        }
        cluster
    }

    /// Assumes that some components do not act.
    fn add_silent(&mut self, silent: Vec<Silent>) {
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
        let is_managers = matches!(
            owner,
            FinalizerOwner::GarbageCollector | FinalizerOwner::Controller(_)
        );
        self.silent.iter().find(|silent| {
            [finalizer, owner.name()].contains(&&*silent.name)
                || is_managers && *silent.name == *CONTROLLER_MANAGER
        })
    }

    /// The version of the cluster.
    #[must_use]
    pub const fn version(&self) -> KubernetesVersion {
        self.version
    }

    /// The data of the dump.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The newest time in the dump, at which forecasts begin: dumps do not contain the time at which they
    /// were taken.
    pub(crate) fn newest_time(&self) -> Timestamp {
        *self.newest_time.get_or_init(|| newest_time(self))
    }

    #[must_use]
    pub fn assumptions(&self) -> &Assumptions {
        &self.assumptions
    }

    /// The extensions of the API server that cannot be reached, as far as the dump shows it: APIs of other
    /// servers, and webhooks that requests and conversions depend on.
    ///
    /// # Examples
    /// ```
    /// # use kubegc_core::KubernetesVersion;
    /// # use kubegc_predict::{Assumptions, Cluster, Extension};
    /// # let version = KubernetesVersion::LATEST;
    /// # let mut reader = kubegc_snapshot::Reader::new(version).complete("services");
    /// # reader.read("dump.yaml", &b"
    /// # apiVersion: apiregistration.k8s.io/v1
    /// # kind: APIService
    /// # metadata: {name: v1beta1.metrics.k8s.io, uid: u1}
    /// # spec: {group: metrics.k8s.io, version: v1beta1, service: {namespace: kube-system, name: metrics-server}}
    /// # "[..])?;
    /// # let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
    /// // The dump has an APIService whose Service does not exist.
    /// let broken = &cluster.broken_extensions()[0];
    /// assert_eq!(&*broken.failure, "service kube-system/metrics-server does not exist");
    /// assert!(matches!(&broken.extension, Extension::Api { api_version, .. } if api_version == "metrics.k8s.io/v1beta1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn broken_extensions(&self) -> &[BrokenExtension] {
        &self.broken_extensions
    }

    /// The objects that wait for an extension that one of these objects belongs to: everything with pending
    /// changes, or nothing.
    pub(crate) fn waiting_for<'a>(&'a self, targets: &[u32]) -> impl Iterator<Item = u32> + use<'a> {
        let is_extension = |target: &u32| {
            let object = self.object_ref(*target);
            object.kind.starts_with("ValidatingAdmissionPolicy")
                || self.broken_extensions.iter().any(|broken| {
                    let is_conversion = matches!(broken.extension, Extension::Conversion { .. });
                    broken.object.uid == object.uid && !is_conversion
                })
        };
        let is_any = targets.iter().any(is_extension);
        pending(self).filter(move |_| is_any)
    }

    /// Checks that the webhooks, APIs, finalizers and components that assumptions name exist.
    ///
    /// # Errors
    /// The first name that does not.
    pub fn check_assumptions(&self) -> Result<(), PredictError> {
        extensions::check_names(&self.snapshot, &self.assumptions)
    }

    /// The forecast without any intent, until nothing changes any more.
    ///
    /// # Complexity
    /// That of the simulation, the first time.
    #[must_use]
    pub fn pending(&self) -> &Forecast {
        self.pending.get_or_init(|| {
            let began = self.newest_time();
            everything(self, self.controllers.clone(), Vec::new(), began, None)
        })
    }

    /// Predicts the effects of deletes that are sent one after another, until nothing changes any more.
    ///
    /// # Errors
    /// An intent names a kind that is not known or ambiguous, or an object that is not in the dump.
    ///
    /// # Complexity
    /// O(c log c) for c objects in the cascade and their owners.
    pub fn predict(&self, intents: &[Intent]) -> Result<Forecast, PredictError> {
        for intent in intents {
            if let Target::Object(name) = &intent.target {
                self.position(name)?;
            }
        }
        let deletes = self.deletes(intents)?;
        let run = self.run(deletes, None, None, self.controllers.clone());
        if intents.is_empty() {
            return Ok(self.pending().clone());
        }
        Ok(self.forecast_of(&run, intents))
    }

    /// Computes the forecast of a question.
    ///
    /// The API server responds with 404 to an intent on an object that certainly does not exist
    /// ([`Finding::Refused`](crate::Finding::Refused)). The other intents proceed.
    ///
    /// # Errors
    /// An intent names a kind that is not known or ambiguous, or an object that is not in the dump and may
    /// exist.
    ///
    /// # Complexity
    /// As [`predict`](Self::predict); O(n log n) for n objects in the dump if the forecast covers everything.
    pub fn forecast(&self, question: &Question) -> Result<Forecast, PredictError> {
        let controllers = run::with_storage(self, &question.controllers);
        let deletes = self.deletes(&question.intents)?;
        let (now, horizon) = (question.now, question.horizon);
        if question.everything || question.intents.is_empty() {
            let began = now.unwrap_or_else(|| self.newest_time());
            return Ok(everything(self, controllers, deletes, began, horizon));
        }
        let run = self.run(deletes, now, horizon, controllers);
        Ok(self.forecast_of(&run, &question.intents))
    }

    /// The forecast of a run, with a finding if its intents select no objects.
    fn forecast_of(&self, run: &Run<'_>, intents: &[Intent]) -> Forecast {
        let mut forecast = run.forecast();
        if run.deletes.is_empty() {
            forecast.findings.push(selection::nothing_selected(self, intents));
        }
        forecast
    }

    pub(crate) fn run<'q>(
        &'q self,
        deletes: Vec<ClientDelete<'q>>,
        began: Option<Timestamp>,
        horizon: Option<Duration>,
        controllers: Vec<Arc<dyn Controller>>,
    ) -> Run<'q> {
        Run {
            cluster: self,
            controllers,
            manager: None,
            deletes,
            began,
            horizon,
        }
    }

    /// The requests of some intents, in order.
    pub(crate) fn deletes<'q>(&self, intents: &'q [Intent]) -> Result<Vec<ClientDelete<'q>>, PredictError> {
        let mut deletes = Vec::new();
        for (number, intent) in intents.iter().enumerate() {
            let kind = match &intent.target {
                Target::Object(name) => &name.kind,
                Target::Labelled { kind, .. } => kind,
            };
            // The dump may have custom resources in another version than that of the request.
            let (kind, resource) = self.kind(kind)?;
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
                && let Some(object) = self.absent(name)?
            {
                deletes.push(delete(None, object));
                continue;
            }
            let positions = self.resolve(&intent.target)?;
            deletes.extend(
                positions
                    .into_iter()
                    .map(|at| delete(Some(at), self.object_ref(at))),
            );
        }
        Ok(deletes)
    }

    /// The object of a name, if it certainly does not exist.
    fn absent(&self, name: &ObjectName) -> Result<Option<ObjectRef>, PredictError> {
        let (_, resource) = self.kind(&name.kind)?;
        let (group, kind) = (&resource.group, &resource.kind);
        let is_known = self
            .snapshot
            .position(group, kind, &name.namespace, &name.name)
            .is_some();
        if is_known || self.is_unlisted(resource, &name.namespace) {
            return Ok(None);
        }
        let api_version = resource.api_version();
        Ok(Some(ObjectRef::new(
            &api_version,
            kind,
            &name.namespace,
            &name.name,
            "",
        )))
    }

    /// The positions of the objects of a target.
    pub(crate) fn resolve(&self, target: &Target) -> Result<Vec<u32>, PredictError> {
        match target {
            Target::Object(name) => Ok(vec![self.position(name)?]),
            Target::Labelled {
                kind,
                namespace,
                selector,
            } => {
                let (_, resource) = self.kind(kind)?;
                let is_meant = |position: &usize| {
                    self.snapshot.object(*position).is_some_and(|object| {
                        namespace
                            .as_ref()
                            .is_none_or(|namespace| *namespace == object.meta.namespace)
                            && selector.matches(&object.meta)
                    })
                };
                let all = self.snapshot.positions_of_kind(&resource.group, &resource.kind);
                Ok(all.filter(is_meant).map(|position| position as u32).collect())
            }
        }
    }

    /// The objects of the dump that keep the garbage collector from starting: they cannot be listed in the
    /// version that it watches. Later releases start without them.
    pub(crate) fn unlistable(&self) -> BTreeSet<u32> {
        if self.version.has(behavior::STARTS_WITHOUT_FULL_SYNC) {
            return BTreeSet::new();
        }
        let kinds = self.catalog().iter();
        let broken = kinds
            .filter(|(kind, resource)| {
                resource.preferred && self.empty_server.broken_conversion(*kind).is_some()
            })
            .flat_map(|(_, resource)| self.snapshot.positions_of_kind(&resource.group, &resource.kind));
        broken.map(|position| position as u32).collect()
    }

    /// The position of an object.
    ///
    /// # Errors
    /// The kind is unknown or ambiguous, or there is no such object.
    pub fn position(&self, name: &ObjectName) -> Result<u32, PredictError> {
        let (_, resource) = self.kind(&name.kind)?;
        let found = self
            .snapshot
            .position(&resource.group, &resource.kind, &name.namespace, &name.name);
        found.map(|at| at as u32).ok_or_else(|| {
            let namespace = Some(&*name.namespace).filter(|_| resource.is_namespaced());
            unknown_object(self, namespace, resource, &name.name)
        })
    }

    pub(crate) fn kind(&self, name: &KindName) -> Result<(KindId, &ApiResource), PredictError> {
        let catalog = self.catalog();
        let mut found = catalog.named(name.as_str());
        // As in kubectl, the core group takes precedence; then a group of which the dump has objects.
        if let Some(core) = found.iter().position(|kind| catalog[*kind].group.is_empty()) {
            found = vec![found.swap_remove(core)];
        }
        let has_objects = |kind: &KindId| {
            let resource = &catalog[*kind];
            let positions = self.snapshot.positions_of_kind(&resource.group, &resource.kind);
            !positions.is_empty()
        };
        let with_objects: Vec<KindId> = found.iter().copied().filter(has_objects).collect();
        match (found.as_slice(), with_objects.as_slice()) {
            ([], _) => Err(unknown_kind(self, name.as_str())),
            ([kind], _) | (_, [kind]) => Ok((*kind, &catalog[*kind])),
            (several, _) => Err(self.ambiguous_kind(name.as_str(), several)),
        }
    }

    pub(crate) fn ambiguous_kind(&self, name: &str, kinds: &[KindId]) -> PredictError {
        let kinds = kinds.iter();
        PredictError::AmbiguousKind {
            name: name.to_owned(),
            candidates: kinds
                .map(|kind| self.catalog()[*kind].qualified_resource())
                .collect(),
        }
    }

    /// The objects with this uid: one, if uids are unique.
    pub(crate) fn positions_of<'a>(&'a self, uid: &'a Uid) -> impl Iterator<Item = u32> + 'a {
        self.edges.positions_of(&self.snapshot, uid)
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.snapshot.catalog
    }

    pub(crate) fn object_ref(&self, position: u32) -> ObjectRef {
        self.snapshot.object(position as usize).map_or_else(
            || ObjectRef::new("", "", "", "", ""),
            |object| object.object_ref(),
        )
    }

    pub(crate) fn kind_id(&self, api_version: &str, kind: &str) -> Option<KindId> {
        self.catalog().mapping(api_version, kind)
    }

    /// Whether an object that is missing from the dump can exist at this address.
    pub(crate) fn is_unlisted(&self, resource: &ApiResource, namespace: &str) -> bool {
        let completeness = &self.snapshot.completeness;
        let coverage = if resource.is_namespaced() {
            completeness.in_namespace(&resource.group, &resource.kind, namespace)
        } else {
            completeness.of(&resource.group, &resource.kind)
        };
        !coverage.is_complete()
    }

    /// Whether a kind that is not in the catalog is known not to be served.
    pub(crate) fn is_unserved(&self, api_version: &str, kind: &str) -> bool {
        edges::is_unserved(&self.snapshot, api_version, kind)
    }
}
