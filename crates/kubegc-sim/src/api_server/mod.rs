//! An in-memory API server with exact deletion semantics.
//!
//! Synchronous and pure: no I/O, no clock of its own ([`ApiServer::set_now`]), uids from a seed. A clone is
//! an independent server. It shares unchanged state with the original and copies only what one of them
//! changes.

mod admission;
mod apply;
mod commit;
mod conversion;
pub(crate) mod crd;
mod create;
mod delete;
mod hooks;
mod kinds;
mod namespace;
mod patch;
mod policy;
mod quota;
mod read;
mod response;
mod service;
mod store;
mod subresource;
mod typed;
mod update;
mod validate;
mod write;

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ApiResource, Catalog, FieldError, KindId, KubernetesVersion, ResourceVersion, Timestamp};

pub use admission::{AdmissionWebhook, service_not_found};
pub use apply::ApplyOptions;
pub use conversion::ConversionWebhook;
pub use crd::{Converter, CrdCleaner, CrdRegistration, CrdStep, RegistrationStep, version_priority};
pub use hooks::{Admission, AdmissionHook};
pub(crate) use kinds::Key;
pub use policy::UndecidedRequest;
pub use read::Change;
pub use response::{ObjectList, Response, ResponseBody};
pub use store::{Event, EventType};
pub use subresource::Subresource;

use crate::{
    StoredObject,
    status::{self, Cause, Result},
    types::StructId,
};
use kinds::{Kind, Shape, Special};
use store::Table;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether objects can be created only in namespaces that exist and are not terminating. Default: true.
    pub namespaces_must_exist: bool,
    /// Whether deletions set the garbage collector's finalizers (`--enable-garbage-collector`). Default:
    /// true.
    pub garbage_collection: bool,
    /// The number of changes of each resource that are retained for watches. Watches from before them are
    /// expired, see [`ApiServer::events_since`]. Default: all.
    pub events_max: usize,
    /// The seed of uids and generated names. Default: 0.
    pub seed: u64,
    /// Whether objects of built-in kinds are decoded, defaulted and validated by their types. Default: false.
    pub types: bool,
    /// Whether, with types, each namespace gets the service account `default`, as from a controller, and pods
    /// are admitted by the plugin `ServiceAccount`. Default: false.
    pub service_accounts: bool,
    /// Whether the status of ResourceQuotas is adjusted to each write, as if the controller `resourcequota`
    /// acted at once. Without it, admission charges quotas and nothing is given back. Default: false.
    pub quota_controller: bool,
    /// The issuer of the tokens of service accounts, and their default audience
    /// (`--service-account-issuer`). Default: that of kubeadm.
    pub service_account_issuer: Arc<str>,
    /// The UIDs that authentication gives to users, by name (`--token-auth-file`). Default: no user has one.
    pub user_uids: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespaces_must_exist: true,
            garbage_collection: true,
            events_max: usize::MAX,
            seed: 0,
            types: false,
            service_accounts: false,
            quota_controller: false,
            service_account_issuer: "https://kubernetes.default.svc.cluster.local".into(),
            user_uids: BTreeMap::new(),
        }
    }
}

/// A Kubernetes API server in memory.
///
/// # Guarantees
/// Responses, stored states and events are those of the named release as far as deletion, finalizers, owner
/// references, preconditions and metadata validation are concerned (checked against recordings of 1.20.2).
/// Each write creates exactly one revision. A request that changes nothing creates no revision and no event.
///
/// # Assumptions
/// Specs are defaulted and validated only with [`Settings::types`]. No authorization is checked. Of the
/// admission plugins, `NamespaceLifecycle`, `ResourceQuota`, unreachable [webhooks](Self::with_webhooks),
/// [ValidatingAdmissionPolicies](Self::with_policies) and, with types, those that change or refuse specs
/// (such as `Priority`, `LimitRanger` and `ServiceAccount`) are implemented. With types, the policies are
/// those that are stored. `authorizer` and audit annotations are not covered.
///
/// CEL rules of definitions (`x-kubernetes-validations`) are compiled and run with types and the crate's
/// feature `cel`, for releases from 1.25 on. Without the feature they are stored and have no effect. Types
/// are checked and costs are estimated as upstream does; the costs of evaluations are not limited. Not
/// covered is the sum of lists of the types `set` and `map`: a definition that uses it is refused, with a
/// message that names the feature.
///
/// Stored objects can always be read. The deletion of objects that cannot be read (delete option
/// `ignoreStoreReadErrorWithClusterBreakingPotential`, feature gate `AllowUnsafeMalformedObjectDeletion`,
/// on by default from 1.37, [#140785](https://github.com/kubernetes/kubernetes/pull/140785)) is not covered.
///
/// # Complexity
/// Requests on one object take O(log n), a list of n objects O(n).
///
/// # Examples
/// ```
/// use kubegc_core::{Catalog, KubernetesVersion, deletion::DeleteOptionsSpec};
/// use kubegc_sim::{ApiServer, Settings};
/// use serde_json::json;
/// let version: KubernetesVersion = "1.20.2".parse()?;
/// let settings = Settings { namespaces_must_exist: false, ..Settings::default() };
/// let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
/// let config_maps = server.catalog().mapping("v1", "ConfigMap").expect("served in 1.20");
/// let response = server.create_json(config_maps, "shop", json!({"metadata": {"name": "a", "finalizers": ["shop/hold"]}}));
/// assert_eq!(response.code, 201);
/// let foreground = DeleteOptionsSpec { propagation_policy: Some("Foreground".into()), ..Default::default() };
/// let response = server.delete(config_maps, "shop", "a", &foreground);
/// let kept = response.object().expect("finalizers hold it");
/// assert_eq!(kept.meta.finalizers, ["shop/hold".into(), "foregroundDeletion".into()]);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ApiServer {
    version: KubernetesVersion,
    settings: Settings,
    shape: Arc<Shape>,
    /// By table; `None` until a resource has its first object.
    tables: Vec<Option<Arc<Table>>>,
    /// The tables that have changed, the last one at the end: most reads of changes concern one.
    tables_by_change: Vec<usize>,
    revision: u64,
    now: Timestamp,
    uids_generated: u64,
    /// How many services were refused after an address was drawn for them.
    addresses_refused: u32,
    /// Whether this is the copy of a dry run.
    is_dry_run: bool,
    /// The field manager of writes other than applies.
    field_manager: Arc<str>,
    /// The webhooks that refuse requests if they cannot be reached.
    webhooks: Arc<Vec<AdmissionWebhook>>,
    conversions: Arc<Vec<ConversionWebhook>>,
    converters: crd::convert::Converters,
    hooks: hooks::Hooks,
    /// `None` while the server itself makes requests.
    policies: Option<policy::Policies>,
    /// The name of the user who makes requests.
    user: Arc<str>,
    #[cfg(feature = "cel")]
    programs: crd::cel::Programs,
}

impl ApiServer {
    /// An empty server of a release that serves these kinds, with the default [`Settings`].
    pub fn new(version: KubernetesVersion, catalog: Catalog) -> Self {
        let mut shape = Shape::default();
        for (_, resource) in catalog.iter() {
            // Kinds are unique in a catalog.
            let _added = shape.add(resource.clone());
        }
        let tables = vec![None; shape.tables.len()];
        Self {
            version,
            settings: Settings::default(),
            shape: Arc::new(shape),
            tables,
            tables_by_change: Vec::new(),
            // The revision of an empty store. Clients take 0 to mean "any".
            revision: 1,
            now: Timestamp::EPOCH,
            uids_generated: 0,
            addresses_refused: 0,
            is_dry_run: false,
            field_manager: "unknown".into(),
            webhooks: Arc::default(),
            conversions: Arc::default(),
            converters: Arc::default(),
            hooks: None,
            policies: Some(policy::Policies::default()),
            user: "system:kube-controller-manager".into(),
            #[cfg(feature = "cel")]
            programs: crd::cel::Programs::default(),
        }
    }

    /// The same server with other settings.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The simulated release.
    pub const fn version(&self) -> KubernetesVersion {
        self.version
    }

    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Every kind that the server ever served. Requests address kinds by their position here.
    pub fn catalog(&self) -> &Catalog {
        &self.shape.catalog
    }

    /// Whether the server serves this kind. It stops when the definition of the kind is deleted.
    pub fn serves(&self, kind: KindId) -> bool {
        self.shape.kinds.get(kind.index()).is_some_and(|kind| kind.served)
    }

    /// The kinds that discovery currently returns. Positions differ from those in [`catalog`](Self::catalog)
    /// once a kind was removed.
    pub fn discover(&self) -> Catalog {
        let mut catalog = Catalog::new();
        for (kind, resource) in self.shape.catalog.iter() {
            if self.serves(kind) {
                // Names are unique in the catalog that is copied.
                let _unique = catalog.add(resource.clone());
            }
        }
        catalog
    }

    /// The kind that a URL with this group, version and resource addresses.
    ///
    /// # Errors
    /// The server's 404 for a URL that it does not serve.
    pub fn resolve(&self, group: &str, version: &str, resource: &str) -> Result<KindId, Response> {
        self.shape
            .catalog
            .by_resource(group, version, resource)
            .filter(|&kind| self.serves(kind))
            .ok_or_else(|| status::unserved().into())
    }

    /// Serves a new kind, or serves a kind again.
    ///
    /// # Errors
    /// The kind or its resource is taken in this group and version.
    pub fn register(&mut self, resource: ApiResource) -> Result<KindId, FieldError> {
        let known = self
            .shape
            .catalog
            .by_resource(&resource.group, &resource.version, &resource.resource);
        if let Some(kind) = known
            && !self.serves(kind)
            && self.shape.catalog[kind] == resource
        {
            Arc::make_mut(&mut self.shape).kinds[kind.index()].served = true;
            return Ok(kind);
        }
        let kind = Arc::make_mut(&mut self.shape).add(resource)?;
        self.tables.resize(self.shape.tables.len(), None);
        Ok(kind)
    }

    /// The current time of the server, used for timestamps.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets the time. An earlier time than the current one has no effect.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// The revision of the last write.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Number of objects of a resource.
    pub fn len(&self, kind: KindId) -> usize {
        self.table(kind).map_or(0, |table| table.len())
    }

    /// Whether the server has no objects.
    pub fn is_empty(&self) -> bool {
        self.tables.iter().flatten().all(|table| table.len() == 0)
    }

    /// One object as it is stored, without a request.
    pub fn object(&self, kind: KindId, namespace: &str, name: &str) -> Option<&Arc<StoredObject>> {
        self.table(kind)?.find(self.namespace_of(kind, namespace), name)
    }

    /// All objects of a resource, or those of one namespace, ordered by namespace and name, without a
    /// request.
    pub fn objects(&self, kind: KindId, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        self.table(kind)
            .map(|table| table.list(namespace))
            .unwrap_or_default()
    }

    /// Whether two kinds are served from the same objects: versions of one resource, or one that is served
    /// from two groups.
    pub fn share_objects(&self, one: KindId, other: KindId) -> bool {
        let table = |kind: KindId| self.shape.kinds.get(kind.index()).map(|kind| kind.table);
        table(one).is_some_and(|one| table(other) == Some(one))
    }

    /// Stores an object unchanged, without validation and without an event: for loading an existing state.
    /// Its metadata is enough where its body is unknown.
    ///
    /// Uid, timestamps, finalizers and all other fields are retained; an empty resourceVersion is assigned. A
    /// numeric version counts as a revision: later writes get greater ones. A CustomResourceDefinition serves
    /// its kinds from now on. Returns the object that was stored under the name before.
    ///
    /// # Errors
    /// The server has no such kind, or the object's name is empty.
    pub fn insert(
        &mut self,
        kind: KindId,
        object: impl Into<StoredObject>,
    ) -> Result<Option<Arc<StoredObject>>, FieldError> {
        let mut object = object.into();
        let Some(known) = self.shape.kinds.get(kind.index()) else {
            return Err(FieldError::invalid("kind", "", "is not in the catalog"));
        };
        if object.meta.name.is_empty() {
            return Err(FieldError::Required {
                field: "metadata.name".to_owned(),
                problem: "name or generateName is required".to_owned(),
            });
        }
        let (table, known_special) = (known.table as usize, known.special);
        if !self.shape.catalog[kind].is_namespaced() && !object.meta.namespace.is_empty() {
            object.meta.namespace = "".into();
        }
        if object.meta.resource_version.is_empty() {
            self.revision += 1;
            object.meta.resource_version = ResourceVersion::new(&self.revision.to_string());
        } else if let Ok(revision) = object.meta.resource_version.as_str().parse::<u64>() {
            self.revision = self.revision.max(revision);
        }
        object.tidy();
        if known_special == Special::CustomResourceDefinition {
            crd::follow(self, &object);
        }
        let table = self.tables[table].get_or_insert_default();
        Ok(Arc::make_mut(table).put(Arc::new(object)))
    }

    /// The kind if it is served, or the error.
    fn kind(&self, kind: KindId) -> Result<&Kind> {
        match self.shape.kinds.get(kind.index()) {
            Some(known) if known.served => Ok(known),
            _ => Err(status::unserved()),
        }
    }

    /// The struct of a kind whose objects are typed.
    fn schema(&self, kind: KindId) -> Option<StructId> {
        let known = self.shape.kinds.get(kind.index())?;
        known.schema.filter(|_| self.settings.types)
    }

    /// Refuses an object with problems.
    fn refuse_invalid(&self, kind: KindId, name: &str, mut causes: Vec<Cause>) -> Result<()> {
        if &*self.resource(kind).group == admission::GROUP {
            // The problems of a variable precede those of the expressions that use it.
            let is_late = |cause: &Cause| {
                let late = ["spec.validations", "spec.auditAnnotations", "spec.mutations"];
                late.iter().any(|field| cause.field.starts_with(field))
            };
            causes.sort_by_key(is_late);
        }
        match causes.is_empty() {
            true => Ok(()),
            false => Err(status::invalid(self.version, self.resource(kind), name, causes)),
        }
    }

    fn special(&self, kind: KindId) -> Special {
        self.shape.kinds[kind.index()].special
    }

    fn resource(&self, kind: KindId) -> &ApiResource {
        &self.shape.catalog[kind]
    }

    fn table(&self, kind: KindId) -> Option<&Table> {
        let table = self.shape.kinds.get(kind.index())?.table;
        self.tables[table as usize].as_deref()
    }

    /// The objects of a resource by its qualified name.
    fn table_of(&self, qualified: &str) -> Option<&Table> {
        self.tables[self.shape.table_of(qualified)? as usize].as_deref()
    }

    /// The namespace that a request addresses; empty for cluster-scoped kinds.
    fn namespace_of<'a>(&self, kind: KindId, namespace: &'a str) -> &'a str {
        if self.resource(kind).is_namespaced() {
            namespace
        } else {
            ""
        }
    }

    /// One stored object; or the 404, or the 500 if it cannot be converted to the version of the kind.
    fn existing(&self, key: Key<'_>) -> Result<Arc<StoredObject>> {
        let stored = self.object(key.kind, key.namespace, key.name).cloned();
        let object = stored.ok_or_else(|| status::not_found(self.resource(key.kind), key.name))?;
        self.check_conversion(key.kind)?;
        Ok(object)
    }
}
