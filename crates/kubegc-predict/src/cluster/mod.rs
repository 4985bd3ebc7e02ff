//! A cluster to ask questions of: what was dumped, who owns whom in it, and what is pending anyway.

mod edges;
mod scope;

use kubegc_core::{ApiResource, Catalog, KindId, KubernetesVersion, ObjectMeta, ObjectRef};
use kubegc_sim::{ApiServer, Settings};
use kubegc_snapshot::{Snapshot, SnapshotObject};

use crate::{
    Assumptions, Forecast, Intent, KindName, ObjectName, PredictError, Target,
    forecast::{self, Pending},
};

/// What makes an object a beginning of something that happens anyway.
pub(crate) const ODD: u8 = edges::ODD_OWNER | DELETING;

pub(crate) use self::{
    edges::{DELETING, Edges, FLAWED, HAS_COLLECTOR_FINALIZER, HAS_CONTENT, HAS_FINALIZERS, Owner},
    scope::{Member, Scope},
};

/// A cluster as far as it was dumped, ready to be asked what a delete would do.
///
/// Building it costs one pass over the objects. What the collector would do anyway (owners that are gone already, deletions under way) is found out
/// then, once; a forecast afterwards costs what its cascade costs.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) version: KubernetesVersion,
    pub(crate) snapshot: Snapshot,
    pub(crate) edges: Edges,
    pub(crate) assumptions: Assumptions,
    pub(crate) pending: Pending,
    /// A server of this version without objects, to be cloned.
    pub(crate) empty_server: ApiServer,
}

impl Cluster {
    /// Builds the cluster and finds out what is pending anyway.
    ///
    /// # Complexity
    /// O(n + r) for n objects with r references, and the cost of what is pending.
    #[must_use]
    pub fn new(version: KubernetesVersion, snapshot: Snapshot, assumptions: Assumptions) -> Self {
        let edges = Edges::of(&snapshot);
        let settings = Settings {
            namespaces_must_exist: false,
            ..Settings::default()
        };
        let empty_server = ApiServer::new(version, snapshot.catalog.clone()).with_settings(settings);
        let pending = Pending::default();
        let mut cluster = Self {
            version,
            snapshot,
            edges,
            assumptions,
            pending,
            empty_server,
        };
        cluster.pending = forecast::pending(&cluster);
        cluster
    }

    /// The version that is predicted for.
    #[must_use]
    pub const fn version(&self) -> KubernetesVersion {
        self.version
    }

    /// What was read.
    #[must_use]
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What is taken for granted.
    #[must_use]
    pub const fn assumptions(&self) -> &Assumptions {
        &self.assumptions
    }

    /// What the collector does without any intent.
    #[must_use]
    pub const fn pending(&self) -> &Forecast {
        &self.pending.forecast
    }

    /// Predicts what these deletions do, one after another, each once the one before has come to rest.
    ///
    /// # Errors
    /// An intent names a kind or an object that is not there, or a kind that is ambiguous.
    ///
    /// # Complexity
    /// O(c log c) for c objects in the cascade and their owners.
    pub fn predict(&self, intents: &[Intent]) -> Result<Forecast, PredictError> {
        let mut targets = Vec::with_capacity(intents.len());
        for intent in intents {
            targets.push((self.resolve(&intent.target)?, intent));
        }
        Ok(forecast::predict(self, &targets))
    }

    /// The positions of the objects that a target means.
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

    /// The position of an object.
    ///
    /// # Errors
    /// The kind is unknown or ambiguous, or there is no such object.
    pub fn position(&self, name: &ObjectName) -> Result<u32, PredictError> {
        let (_, resource) = self.kind(&name.kind)?;
        let found = self
            .snapshot
            .position(&resource.group, &resource.kind, &name.namespace, &name.name);
        found
            .map(|at| at as u32)
            .ok_or_else(|| PredictError::UnknownObject {
                name: name.to_string(),
            })
    }

    fn kind(&self, name: &KindName) -> Result<(KindId, &ApiResource), PredictError> {
        let mut found: Option<(KindId, &ApiResource)> = None;
        for (id, resource) in self
            .snapshot
            .catalog
            .iter()
            .filter(|(_, resource)| name.names(resource))
        {
            match found {
                Some((_, known)) if known.group != resource.group => {
                    // A short name may mean the core group's kind where there is one, as kubectl takes it.
                    if known.group.is_empty() {
                        continue;
                    }
                    if !resource.group.is_empty() {
                        return Err(PredictError::AmbiguousKind {
                            name: name.as_str().to_owned(),
                            candidates: [known.qualified_resource(), resource.qualified_resource()].into(),
                        });
                    }
                    found = Some((id, resource));
                }
                Some((_, known)) if known.preferred => {}
                _ => found = Some((id, resource)),
            }
        }
        found.ok_or_else(|| PredictError::UnknownKind {
            name: name.as_str().to_owned(),
        })
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.snapshot.catalog
    }

    /// An object as it is once what is pending has happened; `None` where it is gone then.
    pub(crate) fn object(&self, position: u32) -> Option<SnapshotObject> {
        self.object_after(&self.pending, position)
    }

    /// An object as it is once something has happened; `None` where it is gone then.
    pub(crate) fn object_after(&self, pending: &Pending, position: u32) -> Option<SnapshotObject> {
        let mut object = self.snapshot.object(position as usize)?;
        match pending.changes.get(&position) {
            Some(None) => None,
            Some(Some(meta)) => {
                object.meta = ObjectMeta::clone(meta);
                Some(object)
            }
            None => Some(object),
        }
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

    /// Whether nothing can be known of an object at this address.
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
