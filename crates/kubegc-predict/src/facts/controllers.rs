//! The controllers of a cluster, with what a dump shows about its nodes and storage.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_controllers::{
    Controller, ExternalProvisioner, Migration, NodeLifecycle, PersistentVolumeBinder, Storage,
    default_controllers, protection,
};
use kubegc_core::record::{Node, Resource};

use super::Facts;

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
