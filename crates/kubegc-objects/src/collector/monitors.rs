//! The monitored resources: their selection ([G-10](crate::rules#g-10) to [G-22](crate::rules#g-22)), their
//! caches, and the events that follow from a watch.
//!
//! # Upstream
//! `syncMonitors` and `controllerFor` in
//! [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
//! `GetDeletableResources` in
//! [`garbagecollector.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/garbagecollector.go),
//! the store of client-go's informers.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::{Equivalent, HashMap, HashSet};

use kubegc_core::{ApiResource, Catalog, KindId, ObjectMeta};

use super::io::{MonitorId, WatchEvent};
use crate::{
    Settings,
    attempt::Latest,
    graph::{DeletionState, Event, Graph, GraphKind, Observed},
};

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(Arc<str>, Arc<str>);

#[derive(Hash)]
struct KeyRef<'a>(&'a str, &'a str);

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.1 == *key.1 && *self.0 == *key.0
    }
}

impl Key {
    fn of(meta: &ObjectMeta) -> Self {
        Self(Arc::clone(&meta.namespace), Arc::clone(&meta.name))
    }
}

#[derive(Clone, Debug)]
struct Monitor {
    resource: ApiResource,
    kind: GraphKind,
    /// The cached objects, by name.
    store: HashMap<Key, Arc<ObjectMeta>, FixedState>,
    /// The names in the current list.
    listing: Option<HashSet<Key, FixedState>>,
    synced: bool,
}

/// All monitors of one collector.
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
            let keep = unknown && monitor.synced && settings.semantics.keep_monitors_of_failed_groups;
            if !served && !keep {
                self.monitors[at] = None;
                changes.stopped.push(MonitorId(at as u32));
            }
        }
        self.by_kind = vec![None; catalog.positions()];
        for (kind, resource) in catalog.iter().filter(|(_, resource)| wanted(resource)) {
            let at = self.position(resource).unwrap_or_else(|| {
                let store = HashMap::default();
                let kind = graph.kind(&resource.api_version(), &resource.kind);
                let monitor = Monitor {
                    resource: resource.clone(),
                    kind,
                    store,
                    listing: None,
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

    pub(super) fn contains(&self, id: MonitorId) -> bool {
        self.monitors.get(id.0 as usize).is_some_and(Option::is_some)
    }

    pub(super) fn resource(&self, id: MonitorId) -> Option<&ApiResource> {
        self.monitors
            .get(id.0 as usize)?
            .as_ref()
            .map(|monitor| &monitor.resource)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MonitorId, &ApiResource, bool)> {
        let numbered = self.monitors.iter().enumerate();
        numbered.filter_map(|(at, monitor)| {
            monitor
                .as_ref()
                .map(|monitor| (MonitorId(at as u32), &monitor.resource, monitor.synced))
        })
    }

    /// Updates the cache from a watch event and passes the resulting events to `process`.
    pub(super) fn deliver(&mut self, id: MonitorId, event: WatchEvent, mut process: impl FnMut(&Event<'_>)) {
        let Some(Some(monitor)) = self.monitors.get_mut(id.0 as usize) else {
            return;
        };
        match event {
            WatchEvent::Init => monitor.listing = Some(HashSet::default()),
            WatchEvent::InitApply(meta) => {
                if let Some(seen) = &mut monitor.listing {
                    seen.insert(Key::of(&meta));
                }
                monitor.apply(meta, process);
            }
            WatchEvent::InitDone => {
                let seen = monitor.listing.take().unwrap_or_default();
                let mut removed: Vec<Arc<ObjectMeta>> = monitor
                    .store
                    .iter()
                    .filter(|(key, _)| !seen.contains(*key))
                    .map(|(_, meta)| Arc::clone(meta))
                    .collect();
                removed.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
                for meta in removed {
                    monitor.store.remove(&KeyRef(&meta.namespace, &meta.name));
                    process(&Event::Deleted {
                        object: Observed::of(monitor.kind, &meta),
                    });
                }
                monitor.synced = true;
            }
            WatchEvent::Apply(meta) => monitor.apply(meta, process),
            WatchEvent::Delete(meta) => {
                // An informer drops the deletion of an unknown object.
                if monitor
                    .store
                    .remove(&KeyRef(&meta.namespace, &meta.name))
                    .is_some()
                {
                    process(&Event::Deleted {
                        object: Observed::of(monitor.kind, &meta),
                    });
                }
            }
        }
    }

    /// All cached objects, for a digest: resource, and metadata in the order of names.
    pub(super) fn known(&self) -> impl Iterator<Item = (&ApiResource, bool, Vec<&Arc<ObjectMeta>>)> {
        self.monitors.iter().flatten().map(|monitor| {
            let mut known: Vec<_> = monitor.store.values().collect();
            known.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
            (&monitor.resource, monitor.synced, known)
        })
    }

    fn position(&self, resource: &ApiResource) -> Option<usize> {
        self.monitors.iter().position(|monitor| {
            monitor.as_ref().is_some_and(|monitor| {
                let known = &monitor.resource;
                known.resource == resource.resource
                    && known.group == resource.group
                    && known.version == resource.version
            })
        })
    }
}

impl Monitor {
    fn apply(&mut self, meta: Arc<ObjectMeta>, mut process: impl FnMut(&Event<'_>)) {
        let known = self.store.get_mut(&KeyRef(&meta.namespace, &meta.name));
        let old = known.as_deref().map(|known| DeletionState::of(known));
        process(&Event::Applied {
            object: Observed::of(self.kind, &meta),
            old,
        });
        match known {
            Some(known) => *known = meta,
            None => {
                self.store.insert(Key::of(&meta), meta);
            }
        }
    }
}

impl Latest for Monitors {
    fn latest(&self, kind: KindId, namespace: &str, name: &str) -> Option<Arc<ObjectMeta>> {
        let id = (*self.by_kind.get(kind.index())?)?;
        let monitor = self.monitors.get(id.0 as usize)?.as_ref()?;
        monitor.store.get(&KeyRef(namespace, name)).map(Arc::clone)
    }
}
