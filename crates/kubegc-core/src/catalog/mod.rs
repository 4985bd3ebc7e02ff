//! The kinds of a cluster, their names, and the deletion behaviour of their objects.
//!
//! Upstream requests discovery from the API server; kubegc takes its result as a value. A kind that is
//! missing from the catalog cannot be addressed: a reference to it is *unmappable*, which differs from an
//! owner that no longer exists.

mod builtin;

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use crate::{KubernetesVersion, error::FieldError, identity::join_api_version};

/// Position of a kind in its [`Catalog`]. Not valid in another catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(u32);

impl KindId {
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether objects of a kind are namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Scope {
    /// In no namespace.
    Cluster,
    Namespaced,
}

/// The default propagation of a DELETE.
///
/// # Upstream
/// [`DefaultGarbageCollectionPolicy`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go)
/// of the REST strategies, by requested group and version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DefaultDeletion {
    /// The dependents are deleted in the background.
    #[default]
    Delete,
    Orphan,
    /// The garbage collector's finalizers are never set on this kind, and existing ones are removed.
    Unsupported,
}

/// The verbs of a resource that matter to garbage collection.
#[expect(clippy::struct_excessive_bools, reason = "one flag a verb, as in discovery")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verbs {
    pub delete: bool,
    /// `deletecollection`
    pub delete_collection: bool,
    pub list: bool,
    pub watch: bool,
}

impl Verbs {
    /// All verbs: nearly every resource supports them.
    pub const ALL: Self = Self {
        delete: true,
        delete_collection: true,
        list: true,
        watch: true,
    };

    /// Whether the collector can monitor the resource.
    pub const fn collectable(self) -> bool {
        self.delete && self.list && self.watch
    }
}

/// One resource in one version, as discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}/{resource}", self.api_version())]
pub struct ApiResource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub kind: Arc<str>,
    /// Plural name in URLs.
    pub resource: Arc<str>,
    /// Short names, such as `deploy`.
    pub short_names: Vec<Arc<str>>,
    /// Categories, such as `all`: names of groups of resources.
    pub categories: Vec<Arc<str>>,
    pub scope: Scope,
    pub verbs: Verbs,
    /// Whether discovery prefers this version of the resource: the one that is monitored.
    pub preferred: bool,
    /// Whether the kind is defined by a CustomResourceDefinition: such kinds do not support strategic merge
    /// patches.
    pub custom: bool,
    /// The default propagation of a DELETE.
    pub default_deletion: DefaultDeletion,
    /// Whether the response to a finished DELETE contains the object; otherwise it contains a Status.
    pub delete_returns_object: bool,
}

impl ApiResource {
    /// A namespaced or cluster-scoped resource that supports every verb, in its preferred version.
    pub fn new(api_version: &str, kind: &str, resource: &str, scope: Scope) -> Self {
        let (group, version) = crate::identity::split_api_version(api_version);
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            resource: resource.into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope,
            verbs: Verbs::ALL,
            preferred: true,
            custom: false,
            default_deletion: DefaultDeletion::Delete,
            delete_returns_object: false,
        }
    }

    /// The same resource, served from a CustomResourceDefinition.
    #[must_use]
    pub fn custom(mut self) -> Self {
        self.custom = true;
        self
    }

    /// Group and version in the form of `apiVersion`.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The group under which the API server stores the objects. Two groups may serve the same objects, with
    /// the same uids: the Deployments of `extensions` are those of `apps`.
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::{ApiResource, Scope};
    /// let old = ApiResource::new("extensions/v1beta1", "Deployment", "deployments", Scope::Namespaced);
    /// assert_eq!(old.storage_group(), "apps");
    /// ```
    pub fn storage_group(&self) -> &str {
        match (&*self.group, &*self.resource) {
            ("extensions", "deployments" | "daemonsets" | "replicasets") => "apps",
            ("extensions", "ingresses" | "networkpolicies") => "networking.k8s.io",
            ("extensions", "podsecuritypolicies") => "policy",
            ("events.k8s.io", "events") => "",
            (group, _) => group,
        }
    }

    /// `resource.group`, or the resource alone in the core group: the form of error messages.
    pub fn qualified_resource(&self) -> String {
        self.with_group(&self.resource)
    }

    /// `Kind.group`, or the kind alone in the core group.
    pub fn qualified_kind(&self) -> String {
        self.with_group(&self.kind)
    }

    fn with_group(&self, name: &str) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{name}{dot}{}", self.group)
    }
}

/// The kinds of one cluster.
///
/// Built with [`Catalog::builtin`] for a release, from discovery, or by hand; CustomResourceDefinitions are
/// added with [`Catalog::add`]. Lookups are O(1); positions remain valid when kinds are added.
///
/// # Examples
/// ```
/// use kubegc_core::{ApiResource, Catalog, KubernetesVersion, Scope};
/// let mut catalog = Catalog::builtin("1.36".parse()?);
/// let deployments = catalog.mapping("apps/v1", "Deployment").expect("served in 1.36");
/// assert_eq!(&*catalog[deployments].resource, "deployments");
/// assert_eq!(catalog.mapping("extensions/v1beta1", "Deployment"), None);
/// catalog.add(ApiResource::new("example.com/v1", "Widget", "widgets", Scope::Namespaced).custom())?;
/// assert!(catalog.mapping("example.com/v1", "Widget").is_some());
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    resources: Vec<ApiResource>,
    /// Positions of removed kinds; they still have the resource of the kind.
    removed: Vec<bool>,
    /// Positions by kind, and by resource: see [`NAMES`].
    tables: [HashTable<u32>; 2],
}

/// The two names of a kind in its group and version.
const NAMES: [fn(&ApiResource) -> &Arc<str>; 2] = [|entry| &entry.kind, |entry| &entry.resource];
const BY_KIND: usize = 0;
const BY_RESOURCE: usize = 1;

impl Catalog {
    /// A catalog without kinds.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kinds that a release serves by default, without any CustomResourceDefinition.
    ///
    /// Feature-gated alpha versions are omitted, as in a default API server.
    pub fn builtin(version: KubernetesVersion) -> Self {
        let mut catalog = Self::new();
        for resource in builtin::resources(version) {
            // A test checks that the table has each resource once per release; a second one would be ignored.
            let _second = catalog.add(resource);
        }
        catalog
    }

    /// Adds a kind.
    ///
    /// # Errors
    /// The kind or the resource exists already in that group and version.
    pub fn add(&mut self, resource: ApiResource) -> Result<KindId, FieldError> {
        let ApiResource { group, version, .. } = &resource;
        for (by, name) in NAMES.iter().enumerate() {
            let name = name(&resource);
            if self.find(by, group, version, name).is_some() {
                let name = format!("{}/{name}", resource.api_version());
                return Err(FieldError::invalid("kind", &name, "is in the catalog already"));
            }
        }
        // Four billion kinds do not fit in memory.
        let id = u32::try_from(self.resources.len()).expect("fewer kinds than u32::MAX");
        self.resources.push(resource);
        self.removed.push(false);
        for (table, name) in self.tables.iter_mut().zip(NAMES) {
            let hash = |&id: &u32| {
                let entry = &self.resources[id as usize];
                hash(&entry.group, &entry.version, name(entry))
            };
            table.insert_unique(hash(&id), id, hash);
        }
        Ok(KindId(id))
    }

    /// The kind of objects with this apiVersion and kind: *exactly* this version, as in upstream's REST
    /// mapper.
    ///
    /// A kind in lower case is found as well (`configmap`): the mapper that is built from discovery contains
    /// each kind in both forms.
    ///
    /// # Upstream
    /// [`NewDiscoveryRESTMapper`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/client-go/restmapper/discovery.go).
    pub fn mapping(&self, api_version: &str, kind: &str) -> Option<KindId> {
        let (group, version) = crate::identity::split_api_version(api_version);
        self.find(BY_KIND, group, version, kind)
            .or_else(|| self.find_lower_case_kind(group, version, kind))
    }

    /// The kinds that a resource argument of kubectl can mean: one for each group, in the order of the
    /// catalog. Of the versions of a group, the preferred one, unless the name has a version.
    ///
    /// The name is a kind, a plural or singular resource or a short name, in upper or lower case, alone or
    /// followed by `.group` or `.version.group`; or `group/version/Kind`. Short names count only if nothing
    /// else has the name.
    ///
    /// # Complexity
    /// O(n) for n kinds.
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::{Catalog, KubernetesVersion};
    /// let catalog = Catalog::builtin(KubernetesVersion::LATEST);
    /// let named = |name: &str| -> Vec<String> {
    ///     catalog.named(name).iter().map(|&kind| catalog[kind].qualified_resource()).collect()
    /// };
    /// assert_eq!(named("deploy"), ["deployments.apps"]);
    /// assert_eq!(named("Deployment.v1.apps"), ["deployments.apps"]);
    /// assert_eq!(named("events"), ["events", "events.events.k8s.io"]);
    /// assert_eq!(named("pod.v1"), ["pods"]);
    /// assert!(named("deployments.example.com").is_empty());
    /// ```
    ///
    /// # Upstream
    /// [`ResourceTypeOrNameArgs`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/cli-runtime/pkg/resource/builder.go),
    /// [`shortcutExpander`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/restmapper/shortcut.go).
    pub fn named(&self, name: &str) -> Vec<KindId> {
        let kinds = |fits: &dyn Fn(&ApiResource) -> bool| {
            let mut found: Vec<KindId> = Vec::new();
            for (id, resource) in self.iter().filter(|(_, resource)| fits(resource)) {
                match found
                    .iter_mut()
                    .find(|known| self[**known].group == resource.group)
                {
                    Some(known) if resource.preferred => *known = id,
                    Some(_) => {}
                    None => found.push(id),
                }
            }
            found
        };
        if let Some((api_version, kind)) = name.rsplit_once('/') {
            let (group, version) = crate::identity::split_api_version(api_version);
            return kinds(&|resource| {
                *resource.kind == *kind && *resource.group == *group && *resource.version == *version
            });
        }
        let (name, group) = match name.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (name, None),
        };
        let fits_group = |resource: &ApiResource| {
            group.is_none_or(|group| {
                let after_version = match group.strip_prefix(&*resource.version) {
                    Some("") => Some(""),
                    Some(rest) => rest.strip_prefix('.'),
                    None => None,
                };
                *resource.group == *group || after_version == Some(&*resource.group)
            })
        };
        let found = kinds(&|resource| {
            let fits =
                name.eq_ignore_ascii_case(&resource.kind) || name.eq_ignore_ascii_case(&resource.resource);
            fits && fits_group(resource)
        });
        if !found.is_empty() {
            return found;
        }
        kinds(&|resource| {
            let mut short_names = resource.short_names.iter();
            short_names.any(|short| name.eq_ignore_ascii_case(short)) && fits_group(resource)
        })
    }

    /// The kind that URLs with this group, version and resource address.
    pub fn by_resource(&self, group: &str, version: &str, resource: &str) -> Option<KindId> {
        self.find(BY_RESOURCE, group, version, resource)
    }

    /// Removes a kind: lookups no longer return it. Its position remains reserved and still has the resource,
    /// so that a request in progress can be addressed. Returns whether the kind existed.
    pub fn remove(&mut self, kind: KindId) -> bool {
        let Some(resource) = self.resources.get(kind.index()) else {
            return false;
        };
        if std::mem::replace(&mut self.removed[kind.index()], true) {
            return false;
        }
        for (table, name) in self.tables.iter_mut().zip(NAMES) {
            let hash = hash(&resource.group, &resource.version, name(resource));
            if let Ok(entry) = table.find_entry(hash, |&id| id == kind.0) {
                entry.remove();
            }
        }
        true
    }

    /// Replaces the kinds by those of another catalog. Kinds in both keep their positions.
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::{ApiResource, Catalog, Scope};
    /// let [pods, secrets] = [("Pod", "pods"), ("Secret", "secrets")].map(|(kind, resource)| ApiResource::new("v1", kind, resource, Scope::Namespaced));
    /// let (mut known, mut now) = (Catalog::new(), Catalog::new());
    /// let pod = known.add(pods.clone())?;
    /// now.add(secrets)?;
    /// now.add(pods)?;
    /// known.update(&now);
    /// assert_eq!(known.mapping("v1", "Pod"), Some(pod));
    /// assert_eq!(known.len(), 2);
    /// # Ok::<(), kubegc_core::FieldError>(())
    /// ```
    pub fn update(&mut self, other: &Self) {
        let removed: Vec<KindId> = self
            .iter()
            .filter(|(_, known)| other.of_resource(known).is_none())
            .map(|(id, _)| id)
            .collect();
        for kind in removed {
            self.remove(kind);
        }
        for (_, resource) in other.iter() {
            match self.of_resource(resource) {
                Some(known) if self[known].kind == resource.kind => {
                    self.resources[known.index()] = resource.clone()
                }
                known => {
                    if let Some(known) = known {
                        self.remove(known);
                    }
                    // Names are unique in the other catalog, and conflicting kinds are removed.
                    let _added = self.add(resource.clone());
                }
            }
        }
    }

    /// The kind with the same group, version and resource.
    fn of_resource(&self, resource: &ApiResource) -> Option<KindId> {
        self.by_resource(&resource.group, &resource.version, &resource.resource)
    }

    /// Every version of every kind, in the order of addition.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &ApiResource)> {
        let entries = self
            .resources
            .iter()
            .enumerate()
            .filter(|&(index, _)| !self.removed[index]);
        // Ids are below u32::MAX: `add` checks that.
        entries.map(|(index, resource)| (KindId(index as u32), resource))
    }

    pub fn len(&self) -> usize {
        self.removed.iter().filter(|&&removed| !removed).count()
    }

    /// The upper bound of all positions, including removed ones.
    pub fn positions(&self) -> usize {
        self.resources.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// O(n) for n kinds: only references with a misspelled kind are looked up here.
    fn find_lower_case_kind(&self, group: &str, version: &str, kind: &str) -> Option<KindId> {
        if kind.contains(char::is_uppercase) {
            return None;
        }
        let has_name = |resource: &ApiResource| {
            *resource.version == *version && *resource.group == *group && resource.kind.to_lowercase() == kind
        };
        self.iter()
            .find_map(|(id, resource)| has_name(resource).then_some(id))
    }

    fn find(&self, by: usize, group: &str, version: &str, name: &str) -> Option<KindId> {
        let found = self.tables[by].find(hash(group, version, name), |&id| {
            let entry = &self.resources[id as usize];
            **NAMES[by](entry) == *name && *entry.version == *version && *entry.group == *group
        });
        found.copied().map(KindId)
    }
}

impl std::ops::Index<KindId> for Catalog {
    type Output = ApiResource;

    fn index(&self, kind: KindId) -> &ApiResource {
        &self.resources[kind.index()]
    }
}

/// Catalogs with the same kinds are equal, regardless of positions.
impl PartialEq for Catalog {
    fn eq(&self, other: &Self) -> bool {
        let same = |(_, resource): (KindId, &ApiResource)| {
            other
                .of_resource(resource)
                .is_some_and(|kind| other[kind] == *resource)
        };
        self.len() == other.len() && self.iter().all(same)
    }
}

impl Eq for Catalog {}

fn hash(group: &str, version: &str, name: &str) -> u64 {
    FixedState::default().hash_one((group, version, name))
}
