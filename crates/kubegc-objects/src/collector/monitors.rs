//! The monitored resources: their selection ([G-10](crate::rules#g-10) to [G-22](crate::rules#g-22)), their
//! caches, and the events that follow from a watch.
//!
//! # Upstream
//! `syncMonitors` and `controllerFor` in
//! [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
//! `GetDeletableResources` in
//! [`garbagecollector.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/garbagecollector.go),
//! the store of client-go's informers.

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table::Entry};

use kubegc_core::{ApiResource, Catalog, KindId, ObjectMeta, version::behavior};

use super::io::MonitorId;
use crate::{
    Settings,
    attempt::Latest,
    graph::{DeletionState, Effect, Event, Graph, GraphKind, Listed, Observed},
    request::WatchEvent,
};

/// Objects by namespace and name. The metadata has the names: the table adds only a pointer for each object.
type Objects = HashTable<Arc<ObjectMeta>>;

fn names(object: &Arc<ObjectMeta>) -> (&str, &str) {
    (&object.namespace, &object.name)
}

fn hash(names: (&str, &str)) -> u64 {
    FixedState::default().hash_one(names)
}

fn remove(objects: &mut Objects, wanted: (&str, &str)) -> Option<Arc<ObjectMeta>> {
    let entry = objects.find_entry(hash(wanted), |object| names(object) == wanted);
    let (removed, _) = entry.ok()?.remove();
    // The deletion of most objects leaves no large table behind.
    if objects.len() < objects.capacity() / 8 {
        objects.shrink_to(objects.len() * 2, |object| hash(names(object)));
    }
    Some(removed)
}

/// All objects, in the order of their names.
fn sorted(objects: &Objects) -> Vec<&Arc<ObjectMeta>> {
    let mut objects: Vec<_> = objects.iter().collect();
    objects.sort_by(|a, b| names(a).cmp(&names(b)));
    objects
}

#[derive(Clone, Debug)]
struct Monitor {
    resource: ApiResource,
    kind: GraphKind,
    /// The cached objects, by name.
    store: Objects,
    /// While a list is received: the objects from before that it has not contained yet.
    unlisted: Objects,
    synced: bool,
}

impl Monitor {
    /// Caches an object, and returns the state of its deletion before.
    ///
    /// Objects are cached by name. If another object took the name while no watch was open, upstream
    /// processes an update. With `strict` it is a deletion and an addition.
    fn put(
        &mut self,
        meta: &Arc<ObjectMeta>,
        strict: bool,
        graph: &mut Graph,
        effects: &mut Vec<Effect>,
    ) -> Option<DeletionState> {
        let (key, same) = (names(meta), |object: &Arc<ObjectMeta>| {
            names(object) == names(meta)
        });
        let old = match self.store.entry(hash(key), same, |object| hash(names(object))) {
            Entry::Occupied(mut known) => std::mem::replace(known.get_mut(), Arc::clone(meta)),
            Entry::Vacant(new) => {
                new.insert(Arc::clone(meta));
                return None;
            }
        };
        if strict && old.uid != meta.uid {
            let object = Observed::of(self.kind, &old);
            graph.apply(&Event::Deleted { object }, effects);
            return None;
        }
        Some(DeletionState::of(&old))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Monitors {
    monitors: Vec<Option<Monitor>>,
    /// Monitors by kinds of the current catalog.
    by_kind: Vec<Option<MonitorId>>,
}

/// Monitors that a new catalog started and stopped.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) started: Vec<MonitorId>,
    pub(super) stopped: Vec<MonitorId>,
}

impl Monitors {
    /// Monitors the resources of the catalog that can be collected ([G-10](crate::rules#g-10) to
    /// [G-12](crate::rules#g-12)). One that fails does not affect the others ([G-13](crate::rules#g-13)).
    /// Unchanged resources keep their monitor.
    pub(super) fn follow(
        &mut self,
        catalog: &Catalog,
        failed: &[String],
        settings: &Settings,
        graph: &mut Graph,
    ) -> Changes {
        let mut changes = Changes::default();
        let wanted = |resource: &ApiResource| {
            resource.preferred && resource.verbs.collectable() && !settings.ignores(resource)
        };
        for at in 0..self.monitors.len() {
            let Some(monitor) = &self.monitors[at] else {
                continue;
            };
            let resource = &monitor.resource;
            let served = catalog
                .by_resource(&resource.group, &resource.version, &resource.resource)
                .is_some_and(|kind| wanted(&catalog[kind]));
            let unknown = failed.contains(&resource.api_version());
            let keep =
                unknown && monitor.synced && settings.version.has(behavior::PARTIAL_DISCOVERY_KEEPS_MONITORS);
            if !served && !keep {
                self.monitors[at] = None;
                changes.stopped.push(MonitorId(at as u32));
            }
        }
        self.by_kind = vec![None; catalog.positions()];
        for (kind, resource) in catalog.iter().filter(|(_, resource)| wanted(resource)) {
            let at = self.position(resource).unwrap_or_else(|| {
                let kind = graph.kind(&resource.api_version(), &resource.kind);
                let monitor = Monitor {
                    resource: resource.clone(),
                    kind,
                    store: Objects::default(),
                    unlisted: Objects::default(),
                    synced: false,
                };
                self.monitors.push(Some(monitor));
                let at = self.monitors.len() - 1;
                changes.started.push(MonitorId(at as u32));
                at
            });
            self.by_kind[kind.index()] = Some(MonitorId(at as u32));
        }
        changes
    }

    /// Returns whether there are monitors and all have delivered their first list
    /// ([G-15](crate::rules#g-15)).
    pub(super) fn all_synced(&self) -> bool {
        let mut monitors = self.monitors.iter().flatten().peekable();
        monitors.peek().is_some() && monitors.all(|monitor| monitor.synced)
    }

    fn get(&self, id: MonitorId) -> Option<&Monitor> {
        self.monitors.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn resource(&self, id: MonitorId) -> Option<&ApiResource> {
        self.get(id).map(|monitor| &monitor.resource)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MonitorId, &ApiResource, bool)> {
        let numbered = self.monitors.iter().enumerate();
        numbered.filter_map(|(at, monitor)| {
            monitor
                .as_ref()
                .map(|monitor| (MonitorId(at as u32), &monitor.resource, monitor.synced))
        })
    }

    /// Updates the cache from a watch event, and the graph from the cache.
    pub(super) fn deliver(
        &mut self,
        id: MonitorId,
        event: WatchEvent,
        strict: bool,
        graph: &mut Graph,
        effects: &mut Vec<Effect>,
    ) {
        let Some(Some(monitor)) = self.monitors.get_mut(id.0 as usize) else {
            return;
        };
        let kind = monitor.kind;
        match event {
            WatchEvent::Init => monitor.unlisted = monitor.store.clone(),
            WatchEvent::InitApply(list) => {
                monitor.store.reserve(list.len(), |object| hash(names(object)));
                let mut put = |meta: &Arc<ObjectMeta>| {
                    remove(&mut monitor.unlisted, names(meta));
                    monitor.put(meta, strict, graph, effects)
                };
                let old: Vec<_> = list.iter().map(&mut put).collect();
                let listed = list.iter().zip(old).map(|(meta, old)| Listed { kind, meta, old });
                graph.apply_list(listed, effects);
            }
            WatchEvent::InitDone => {
                for known in sorted(&std::mem::take(&mut monitor.unlisted)) {
                    if let Some(meta) = remove(&mut monitor.store, names(known)) {
                        let object = Observed::of(kind, &meta);
                        graph.apply(&Event::Deleted { object }, effects);
                    }
                }
                monitor.synced = true;
            }
            WatchEvent::Apply(meta) => {
                let old = monitor.put(&meta, strict, graph, effects);
                let object = Observed::of(kind, &meta);
                graph.apply(&Event::Applied { object, old }, effects);
            }
            WatchEvent::Delete(meta) => {
                // An informer drops the deletion of an unknown object.
                if remove(&mut monitor.store, names(&meta)).is_some() {
                    let object = Observed::of(kind, &meta);
                    graph.apply(&Event::Deleted { object }, effects);
                }
            }
        }
    }

    /// All cached objects, for a digest: resource, and metadata in the order of names.
    pub(super) fn known(&self) -> impl Iterator<Item = (&ApiResource, bool, Vec<&Arc<ObjectMeta>>)> {
        self.monitors
            .iter()
            .flatten()
            .map(|monitor| (&monitor.resource, monitor.synced, sorted(&monitor.store)))
    }

    fn position(&self, resource: &ApiResource) -> Option<usize> {
        let is_same = |Monitor { resource: known, .. }: &Monitor| {
            known.resource == resource.resource
                && known.group == resource.group
                && known.version == resource.version
        };
        let mut monitors = self.monitors.iter();
        monitors.position(|monitor| monitor.as_ref().is_some_and(is_same))
    }
}

impl Latest for Monitors {
    fn latest(&self, kind: KindId, namespace: &str, name: &str) -> Option<Arc<ObjectMeta>> {
        let id = (*self.by_kind.get(kind.index())?)?;
        let (store, wanted) = (&self.get(id)?.store, (namespace, name));
        let object = store.find(hash(wanted), |object| names(object) == wanted);
        object.cloned()
    }
}
