//! All that is known, of all resources, and what is kept between looks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use kubegc_core::{ObjectMeta, ResourceVersion, StoreError, Uid};

use super::{
    Reason, Settings, Storage,
    index::Index,
    table::{Key, Table, key_of},
};
use crate::{
    fields::{Fields, Record},
    node,
    object::{Object, Resource},
    pod::{self, Quarantine},
};

/// How one object was and is. What is known follows it already: `new` is what the tables have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    /// The resource.
    pub(super) resource: Resource,
    /// Namespace and name.
    pub(super) key: &'a Key,
    /// How it was; `None` where it was not known.
    pub(super) old: Option<&'a Record>,
    /// How it is; `None` where it is gone.
    pub(super) new: Option<&'a Record>,
}

/// Everything that units look at.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    tables: BTreeMap<Resource, Table>,
    /// What hangs on what.
    pub(super) indexes: Index,
    /// How many pods are terminated, or may be: their status was not read.
    pub(super) terminated_pods_max: usize,
    /// The leases that name a node as their owner, by the node's name.
    pub(super) leases_of: BTreeSet<(Arc<str>, Key)>,
    /// The pods of each namespace that has or had any, in their versions, once somebody asks for them.
    versions_of_pods: BTreeMap<Arc<str>, OnceLock<Versions>>,
    /// What the last look at the pods found.
    pub(super) pods_seen: PodsSeen,
    /// What the cloud said of the node of each name.
    pub(super) cloud: BTreeMap<Key, CloudAnswer>,
    /// Whether answers of the cloud stay, and nothing is asked.
    pub(super) is_still: bool,
    /// Pods that were deleted and are still there, in the version that they were left in: where nothing else happens, the same again changes nothing.
    spent: BTreeMap<Key, (Uid, ResourceVersion)>,
    /// What the cluster does with the volumes of each provisioner, from the settings.
    pub(super) storage: Storage,
}

/// Name, uid and version of objects, by name.
pub(super) type Versions = Arc<[(Arc<str>, Uid, ResourceVersion)]>;

/// What a look at the pods finds, for the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct PodsSeen {
    /// The nodes that are missing.
    pub(super) quarantine: Quarantine,
    /// Whether it hangs on what was not read which of the terminated pods are first in line.
    pub(super) is_line_open: bool,
}

/// What the cloud said of one node.
#[derive(Clone, Debug)]
pub(super) struct CloudAnswer {
    /// Which of its name.
    pub(super) uid: Uid,
    pub(super) exists: node::Cloud,
    pub(super) is_shutdown: node::Cloud,
}

impl Tables {
    /// Nothing is known yet of what these settings need.
    pub(super) fn new(settings: &Settings) -> Self {
        let resources = settings.resources().into_iter();
        Self {
            tables: resources.map(|resource| (resource, Table::default())).collect(),
            storage: settings.storage.clone(),
            ..Self::default()
        }
    }

    /// Notes that a pod was deleted, and is still there.
    pub(super) fn spend(&mut self, pod: Option<&Object>) {
        let Some(pod) = pod else { return };
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        let left = self
            .get(Resource::Pods, &key)
            .filter(|left| left.meta.uid == pod.uid);
        if let Some(left) = left {
            let version = left.meta.resource_version.clone();
            self.spent.insert(key, (pod.uid.clone(), version));
        }
    }

    /// Whether a pod was deleted, and has not changed since.
    pub(super) fn is_spent(&self, pod: &Record) -> bool {
        if self.spent.is_empty() {
            return false;
        }
        let left = self.spent.get(&key_of(&pod.meta));
        left.is_some_and(|(uid, version)| *uid == pod.meta.uid && *version == pod.meta.resource_version)
    }

    /// Whether anything looks at a resource.
    pub(super) fn has(&self, resource: Resource) -> bool {
        self.tables.contains_key(&resource)
    }

    /// What is known of a resource; an empty table that was never listed for one that nobody asked for.
    pub(super) fn of(&self, resource: Resource) -> &Table {
        static NOTHING: Table = Table::NEW;
        self.tables.get(&resource).unwrap_or(&NOTHING)
    }

    /// The object of this name.
    pub(super) fn get(&self, resource: Resource, key: &Key) -> Option<&Record> {
        self.of(resource).get(&key.0, &key.1)
    }

    /// The pods of a namespace, in their versions. The answer is shared until one of them changes.
    ///
    /// # Complexity
    /// O(n) for `n` pods of the namespace the first time after a change, O(log n) after that.
    pub(super) fn versions_of_pods(&self, namespace: &str) -> Versions {
        let version = |meta: &ObjectMeta| {
            (
                Arc::clone(&meta.name),
                meta.uid.clone(),
                meta.resource_version.clone(),
            )
        };
        let found = self.versions_of_pods.get(namespace).map(|versions| {
            versions.get_or_init(|| {
                let pods = self.of(Resource::Pods).of_namespace(namespace);
                pods.map(|pod| version(&pod.meta)).collect()
            })
        });
        found.map_or_else(|| [].into(), Arc::clone)
    }

    /// Why not all objects of a resource are known; `None` where they are.
    pub(super) fn not_listed(&self, resource: Resource) -> Option<Reason> {
        let error = self.of(resource).listed.as_ref().err()?;
        Some(Reason::NotListed {
            resource: resource.plural(),
            message: error.to_string().into(),
        })
    }

    /// The same for the first of several resources that is not known.
    pub(super) fn any_not_listed(&self, resources: &[Resource]) -> Option<Reason> {
        resources.iter().find_map(|resource| self.not_listed(*resource))
    }

    /// Something was said of all objects of a resource. Answers whether that makes a difference.
    pub(super) fn tell(&mut self, resource: Resource, listed: Result<(), StoreError>) -> bool {
        let Some(table) = self.tables.get_mut(&resource) else {
            return false;
        };
        let is_new = !table.is_told || table.listed != listed;
        (table.is_told, table.listed) = (true, listed);
        is_new
    }

    /// Takes a first list. It is as [`sorted`](super::table::sorted) has it.
    pub(super) fn begin_with(&mut self, resource: Resource, records: Vec<Record>) {
        for record in &records {
            self.count(resource, None, Some(record));
        }
        if let Some(table) = self.tables.get_mut(&resource) {
            table.rest_on(records);
        }
    }

    /// Takes a list from which nothing differs that is known.
    pub(super) fn rest_on(&mut self, resource: Resource, records: Vec<Record>) {
        if let Some(table) = self.tables.get_mut(&resource) {
            table.rest_on(records);
        }
    }

    /// Puts an object into the place of what is known of its name. Answers what that was.
    pub(super) fn put(&mut self, resource: Resource, key: &Key, new: Option<Record>) -> Option<Record> {
        let old = self.get(resource, key).cloned();
        self.count(resource, old.as_ref(), new.as_ref());
        if let Some(table) = self.tables.get_mut(&resource) {
            table.put(key, new);
        }
        old
    }

    /// Follows what is counted and indexed of an object that is put into the place of another one.
    fn count(&mut self, resource: Resource, old: Option<&Record>, new: Option<&Record>) {
        self.indexes.apply(resource, old, new);
        match resource {
            Resource::Pods => {
                let count = |record: Option<&Record>| usize::from(record.is_some_and(may_be_terminated));
                self.terminated_pods_max = (self.terminated_pods_max + count(new)).saturating_sub(count(old));
                if let Some(pod) = old.or(new) {
                    let namespace = Arc::clone(&pod.meta.namespace);
                    self.versions_of_pods.insert(namespace, OnceLock::new());
                }
            }
            Resource::Leases => {
                for entry in old.into_iter().flat_map(owners) {
                    self.leases_of.remove(&entry);
                }
                self.leases_of.extend(new.into_iter().flat_map(owners));
            }
            _ => {}
        }
    }
}

/// The names of a lease's owners, with the lease.
fn owners(lease: &Record) -> impl Iterator<Item = (Arc<str>, Key)> {
    let references = lease.meta.owner_references.iter();
    references.map(|owner| (Arc::clone(&owner.name), key_of(&lease.meta)))
}

/// Whether a pod is terminated, or it is not known whether it is.
pub(super) fn may_be_terminated(pod: &Record) -> bool {
    let status = match &pod.fields {
        Fields::Pod(fields) => fields.status.as_ref(),
        _ => None,
    };
    status.is_none_or(pod::Status::is_terminated)
}

/// Whether a pod counts among the terminated ones. One without a uid is not told from the next of its name.
pub(super) fn is_terminated(pod: &Record) -> bool {
    let Fields::Pod(fields) = &pod.fields else {
        return false;
    };
    !pod.meta.uid.is_empty() && fields.status.as_ref().is_some_and(pod::Status::is_terminated)
}
