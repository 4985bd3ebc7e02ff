//! All that is known, of all resources, and what is kept between looks.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use kubegc_core::{ObjectMeta, ResourceVersion, StoreError, Uid};

use super::{
    Reason, Settings, Storage,
    index::Index,
    table::{Key, Table},
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
    /// How many pods are known to be terminated.
    pub(super) terminated_pods: usize,
    /// The leases that name a node as their owner, by the node's name.
    pub(super) leases_of: BTreeSet<(Arc<str>, Key)>,
    /// The nodes that were missing when the pods were last looked at.
    pub(super) quarantine: Quarantine,
    /// What the cloud said of the node of each name.
    pub(super) cloud: BTreeMap<Key, CloudAnswer>,
    /// Whether answers of the cloud stay, and nothing is asked.
    pub(super) is_still: bool,
    /// Pods that were deleted and are still there, in the version that they were left in: where nothing else happens, the same again changes nothing.
    spent: BTreeMap<Key, (Uid, ResourceVersion)>,
    /// What the cluster does with the volumes of each provisioner, from the settings.
    pub(super) storage: Storage,
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
        let left = self.spent.get(&key_of(&pod.meta));
        left.is_some_and(|(uid, version)| *uid == pod.meta.uid && *version == pod.meta.resource_version)
    }

    /// Whether anything looks at a resource.
    pub(super) fn has(&self, resource: Resource) -> bool {
        self.tables.contains_key(&resource)
    }

    /// What is known of a resource; an empty table that was never listed for one that nobody asked for.
    pub(super) fn of(&self, resource: Resource) -> &Table {
        static NOTHING: Table = Table {
            listed: Err(StoreError::Unlisted),
            is_told: false,
            records: BTreeMap::new(),
        };
        self.tables.get(&resource).unwrap_or(&NOTHING)
    }

    /// The object of this name.
    pub(super) fn get(&self, resource: Resource, key: &Key) -> Option<&Record> {
        self.of(resource).records.get(key)
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

    /// Puts an object into the place of what is known of its name. Answers what that was.
    pub(super) fn put(&mut self, resource: Resource, key: &Key, new: Option<Record>) -> Option<Record> {
        let Self {
            tables,
            indexes,
            terminated_pods,
            leases_of,
            ..
        } = self;
        let table = tables.get_mut(&resource)?;
        let old = match new {
            Some(record) => table.records.insert(key.clone(), record),
            None => table.records.remove(key),
        };
        let new = table.records.get(key);
        indexes.apply(resource, old.as_ref(), new);
        match resource {
            Resource::Pods => {
                let count = |record: Option<&Record>| usize::from(record.is_some_and(is_terminated));
                *terminated_pods = (*terminated_pods + count(new)).saturating_sub(count(old.as_ref()));
            }
            Resource::Leases => {
                let owners = |record: &Record| -> Vec<(Arc<str>, Key)> {
                    let references = record.meta.owner_references.iter();
                    references
                        .map(|owner| (Arc::clone(&owner.name), key.clone()))
                        .collect()
                };
                for entry in old.iter().flat_map(owners) {
                    leases_of.remove(&entry);
                }
                leases_of.extend(new.into_iter().flat_map(owners));
            }
            _ => {}
        }
        old
    }
}

/// Whether a pod counts among the terminated ones. One without a uid is not told from the next of its name.
pub(super) fn is_terminated(pod: &Record) -> bool {
    let Fields::Pod(fields) = &pod.fields else {
        return false;
    };
    !pod.meta.uid.is_empty() && fields.status.as_ref().is_some_and(pod::Status::is_terminated)
}

/// The objects of a list by their names. Of a name that comes twice and not alike nothing is known, not even the uid.
pub(super) fn by_name(records: Vec<Record>) -> BTreeMap<Key, Record> {
    let mut by_name: BTreeMap<Key, Record> = BTreeMap::new();
    for record in records {
        match by_name.entry(key_of(&record.meta)) {
            Entry::Vacant(entry) => {
                entry.insert(record);
            }
            Entry::Occupied(mut entry) => {
                if *entry.get() != record {
                    let (namespace, name) = entry.key();
                    let meta = ObjectMeta::new(namespace, name, "");
                    entry.insert(Record::unread(meta));
                }
            }
        }
    }
    by_name
}

/// Namespace and name of an object.
pub(super) fn key_of(meta: &ObjectMeta) -> Key {
    (Arc::clone(&meta.namespace), Arc::clone(&meta.name))
}
