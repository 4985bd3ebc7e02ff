//! The failed conversions of custom resources that objects wait for.

use std::sync::Arc;

use kubegc_control_plane::{RefusedBy, Simulation};
use kubegc_core::{ApiResource, KindId, ObjectMeta, Uid, metadata};
use kubegc_objects::collector::OwnerInGraph;
use kubegc_sim::ApiServer;
use kubegc_snapshot::SnapshotObject;

use crate::Wait;

/// The failed conversions that an object waits for.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    pub(crate) waits: Vec<Wait>,
    /// Group and resource of the content of a namespace that cannot be listed.
    kinds: Vec<(Arc<str>, Arc<str>)>,
}

impl Conversions {
    pub(crate) fn of(simulation: &Simulation, object: &SnapshotObject, end: &ObjectMeta) -> Self {
        let mut conversions = Self::default();
        let server = &simulation.server;
        let Some(kind) = object.kind_id.filter(|_| server.has_broken_conversions()) else {
            return conversions;
        };
        let collectors = [metadata::FINALIZER_FOREGROUND, metadata::FINALIZER_ORPHAN];
        let mut finalizers = end.finalizers.iter();
        if let Some(finalizer) = finalizers.find(|name| collectors.contains(&&***name)) {
            conversions.add_lists(simulation, kind, finalizer);
            if conversions.waits.is_empty() {
                conversions.add_lookups(simulation, &end.uid);
            }
        }
        let resource = &server.catalog()[kind];
        if resource.group.is_empty() && *resource.kind == *"Namespace" {
            conversions.add_content(server, &end.name);
        }
        conversions
    }

    /// Adds the lists that the garbage collector needs to process an object: that of its kind; all of them
    /// before the collector starts.
    fn add_lists(&mut self, simulation: &Simulation, kind: KindId, finalizer: &Arc<str>) {
        let (server, collector) = (&simulation.server, simulation.plane.collector());
        self.add(server, server.watched_as(kind), Some(finalizer));
        if collector.not_running().is_none() {
            return;
        }
        for (_, resource, _) in collector.monitors().filter(|(.., is_synced)| !is_synced) {
            if let Ok(kind) = server.resolve(&resource.group, &resource.version, &resource.resource) {
                self.add(server, kind, Some(finalizer));
            }
        }
    }

    /// Adds the versions in which dependents that block the deletion of an owner refer to it.
    fn add_lookups(&mut self, simulation: &Simulation, owner: &Uid) {
        let (server, collector) = (&simulation.server, simulation.plane.collector());
        for dependent in collector.explain(owner).blocking {
            for OwnerInGraph { reference, .. } in collector.explain(&dependent.uid).owners {
                let mapping = server.catalog().mapping(&reference.api_version, &reference.kind);
                if let Some(kind) = mapping.filter(|_| reference.uid == *owner) {
                    self.add(server, kind, None);
                }
            }
        }
    }

    /// Adds the content of a namespace that cannot be listed.
    fn add_content(&mut self, server: &ApiServer, namespace: &str) {
        for (kind, resource) in server.catalog().iter() {
            let is_content = resource.preferred && resource.is_namespaced() && server.is_unlistable(kind);
            if is_content && !server.objects(kind, Some(namespace)).is_empty() {
                self.add(server, kind, Some(&"kubernetes".into()));
                self.kinds
                    .push((Arc::clone(&resource.group), Arc::clone(&resource.resource)));
            }
        }
    }

    pub(crate) fn has(&self, kind: &ApiResource) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|(group, resource)| *group == kind.group && *resource == kind.resource)
    }

    /// Adds the wait for the conversion to a version, if it fails.
    fn add(&mut self, server: &ApiServer, kind: KindId, finalizer: Option<&Arc<str>>) {
        let Some(webhook) = server.broken_conversion(kind) else {
            return;
        };
        let kind = &server.catalog()[kind];
        let wait = Wait::Conversion {
            finalizer: finalizer.cloned(),
            resource: format!("{}.{}.{}", kind.resource, kind.version, kind.group),
            definition: Arc::clone(&webhook.definition),
            failure: webhook.failure.clone().unwrap_or_default(),
        };
        if !self.waits.contains(&wait) {
            self.waits.push(wait);
        }
    }

    /// Whether a refusal is one of these failures.
    pub(crate) fn explain(&self, by: Option<&RefusedBy>) -> bool {
        let Some(RefusedBy::Conversion(failed)) = by else {
            return false;
        };
        let mut waits = self.waits.iter();
        waits.any(|wait| matches!(wait, Wait::Conversion { definition, .. } if definition == failed))
    }
}
