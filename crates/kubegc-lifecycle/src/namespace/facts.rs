//! Fixes what is known of a namespace: itself, what discovery lists, and what it holds.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::{ApiResource, Catalog, ResourceVersion, Timestamp, Uid, catalog::Verbs};

use super::{Condition, settings::FINALIZER_KUBERNETES};

/// What a plan for one namespace rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The namespace as it was last read.
    pub namespace: Namespace,
    /// What discovery answers.
    pub discovery: Discovery,
    /// What the namespace holds. A resource that is not here was not listed: whether it holds anything is unknown.
    pub contents: Vec<Content>,
    /// How many visits in a row have failed before this one.
    pub failures: u32,
}

impl Facts {
    /// Facts before a first visit.
    #[must_use]
    pub const fn new(namespace: Namespace, discovery: Discovery, contents: Vec<Content>) -> Self {
        Self {
            namespace,
            discovery,
            contents,
            failures: 0,
        }
    }
}

/// A namespace, as far as its deletion depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// Name.
    pub name: Arc<str>,
    /// Uid.
    pub uid: Uid,
    /// Version of this state; empty where unknown.
    pub resource_version: ResourceVersion,
    /// When the deletion was asked for; `None` while nobody asked.
    pub deletion_timestamp: Option<Timestamp>,
    /// Whether `status.phase` is `Terminating`.
    pub is_terminating: bool,
    /// `spec.finalizers`, in stored order.
    pub finalizers: Vec<Arc<str>>,
    /// `status.conditions`, in stored order.
    pub conditions: Vec<Condition>,
}

impl Namespace {
    /// An active namespace with the finalizer that every namespace is created with.
    #[must_use]
    pub fn new(name: &str, uid: &str) -> Self {
        Self {
            name: name.into(),
            uid: Uid::new(uid),
            resource_version: ResourceVersion::default(),
            deletion_timestamp: None,
            is_terminating: false,
            finalizers: vec![FINALIZER_KUBERNETES.into()],
            conditions: Vec::new(),
        }
    }
}

/// What discovery answers: the namespaced resources in their preferred versions, and what could not be discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Discovery {
    /// The namespaced resources, each in its preferred version.
    pub resources: Vec<Resource>,
    /// Why the list is incomplete.
    pub failure: Option<DiscoveryFailure>,
    /// The parser's message where a group and version could not be parsed: then no resource is touched in this visit.
    ///
    /// # Upstream
    /// `discovery.GroupVersionResources` gives nothing at all when one entry does not parse.
    pub unparsable: Option<String>,
}

impl From<&Catalog> for Discovery {
    /// A complete discovery of what a cluster serves.
    fn from(catalog: &Catalog) -> Self {
        let content = catalog
            .iter()
            .map(|(_, resource)| resource)
            .filter(|resource| resource.is_namespaced() && resource.preferred);
        let resources = content.map(|resource| Resource {
            id: resource.into(),
            verbs: resource.verbs,
        });
        Self {
            resources: resources.collect(),
            failure: None,
            unparsable: None,
        }
    }
}

/// One resource as discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Where it is addressed.
    pub id: GroupVersionResource,
    /// What it answers.
    pub verbs: Verbs,
}

/// The address of a resource. Its text is the one that upstream prints.
///
/// # Examples
/// ```
/// use kubegc_lifecycle::namespace::GroupVersionResource;
/// assert_eq!(GroupVersionResource::new("", "v1", "pods").to_string(), "/v1, Resource=pods");
/// assert_eq!(GroupVersionResource::new("apps", "v1", "deployments").to_string(), "apps/v1, Resource=deployments");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Version in the group.
    pub version: Arc<str>,
    /// Plural name in URLs.
    pub resource: Arc<str>,
}

impl GroupVersionResource {
    /// Builds an address from its texts.
    #[must_use]
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }

    /// Whether these are pods, in whatever version: only they take time to end by themselves.
    pub(super) fn is_pods(&self) -> bool {
        self.group.is_empty() && &*self.resource == "pods"
    }
}

impl From<&ApiResource> for GroupVersionResource {
    fn from(resource: &ApiResource) -> Self {
        Self {
            group: Arc::clone(&resource.group),
            version: Arc::clone(&resource.version),
            resource: Arc::clone(&resource.resource),
        }
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

/// Why discovery did not answer in full. Its text is the one that upstream prints.
///
/// # Upstream
/// `discovery.ErrGroupDiscoveryFailed` of client-go for the first variant.
#[expect(
    clippy::exhaustive_enums,
    reason = "upstream knows these two: some groups, or something else"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DiscoveryFailure {
    /// Some groups did not answer: the error of each, by group and version.
    Groups(BTreeMap<Arc<str>, String>),
    /// Discovery failed in another way, with this message.
    Other(String),
}

impl fmt::Display for DiscoveryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Groups(groups) => {
                let mut failing: Vec<String> = groups
                    .iter()
                    .map(|(group_version, error)| format!("{group_version}: {error}"))
                    .collect();
                failing.sort_unstable();
                write!(
                    f,
                    "unable to retrieve the complete list of server APIs: {}",
                    failing.join(", ")
                )
            }
            Self::Other(message) => f.write_str(message),
        }
    }
}

/// What a namespace holds of one resource, all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// The resource.
    pub resource: GroupVersionResource,
    /// Its objects in the namespace.
    pub items: Vec<Item>,
}

impl Content {
    /// Proof that the namespace holds nothing of a resource.
    #[must_use]
    pub const fn empty(resource: GroupVersionResource) -> Self {
        Self {
            resource,
            items: Vec::new(),
        }
    }
}

/// One object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item {
    /// Name.
    pub name: Arc<str>,
    /// Uid.
    pub uid: Uid,
    /// Names that must all be gone before the object may go, in stored order.
    pub finalizers: Vec<Arc<str>>,
    /// What only pods have.
    pub pod: Option<Pod>,
}

impl Item {
    /// An object that goes as soon as it is deleted.
    #[must_use]
    pub fn new(name: &str, uid: &str) -> Self {
        Self {
            name: name.into(),
            uid: Uid::new(uid),
            finalizers: Vec::new(),
            pod: None,
        }
    }

    /// The same object with one more finalizer.
    #[must_use]
    pub fn held_by(mut self, finalizer: &str) -> Self {
        self.finalizers.push(finalizer.into());
        self
    }

    /// The same object as a pod.
    #[must_use]
    pub const fn as_pod(mut self, pod: Pod) -> Self {
        self.pod = Some(pod);
        self
    }
}

/// What matters of a pod beyond its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pod {
    /// Whether the phase is `Succeeded` or `Failed`.
    pub is_finished: bool,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// Whether the pod is bound to a node. Only a plan reads this: others end at once.
    pub is_scheduled: bool,
    /// When the pod's grace ends, where its deletion was asked for already. Only a plan reads this.
    pub deletion_timestamp: Option<Timestamp>,
}

impl Pod {
    /// A pod that runs on a node, with the grace it asks for.
    #[must_use]
    pub const fn running(grace_period_seconds: i64) -> Self {
        Self {
            is_finished: false,
            grace_period_seconds: Some(grace_period_seconds),
            is_scheduled: true,
            deletion_timestamp: None,
        }
    }
}
