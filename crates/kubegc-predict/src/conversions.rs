//! The failed conversions of custom resources that objects wait for.

use std::sync::Arc;

use kubegc_control_plane::{RefusedBy, Simulation};
use kubegc_core::{KindId, ObjectMeta, Uid, metadata};
use kubegc_sim::ApiServer;
use kubegc_snapshot::SnapshotObject;

use crate::Wait;

/// The failed conversions that an object waits for.
pub(crate) fn failed_conversions(
    simulation: &Simulation,
    object: &SnapshotObject,
    end: &ObjectMeta,
) -> Vec<Wait> {
    let server = &simulation.server;
    let Some(kind) = object.kind_id.filter(|_| server.has_broken_conversions()) else {
        return Vec::new();
    };
    let collectors = [metadata::FINALIZER_FOREGROUND, metadata::FINALIZER_ORPHAN];
    let mut finalizers = end.finalizers.iter();
    let mut waits = Vec::new();
    if let Some(finalizer) = finalizers.find(|name| collectors.contains(&&***name)) {
        add(&mut waits, server, lists(simulation, kind), Some(finalizer));
        if waits.is_empty() {
            add(&mut waits, server, lookups(simulation, &end.uid), None);
        }
    }
    let resource = &server.catalog()[kind];
    if resource.group.is_empty() && *resource.kind == *"Namespace" {
        // Content that cannot be listed.
        let kinds = server.catalog().iter();
        let kinds = kinds.filter(|(kind, resource)| {
            let is_content = resource.preferred && resource.is_namespaced() && server.is_unlistable(*kind);
            is_content && !server.objects(*kind, Some(&end.name)).is_empty()
        });
        let kinds = kinds.map(|(kind, _)| kind).collect();
        add(&mut waits, server, kinds, Some(&"kubernetes".into()));
    }
    waits
}

/// The lists that the garbage collector needs to process an object: that of its kind; all of them before the
/// collector starts.
fn lists(simulation: &Simulation, kind: KindId) -> Vec<KindId> {
    let (server, collector) = (&simulation.server, simulation.plane.collector());
    let mut kinds = vec![server.watched_as(kind)];
    if collector.not_running().is_some() {
        let unsynced = collector.monitors().filter(|(.., is_synced)| !is_synced);
        kinds.extend(unsynced.filter_map(|(_, resource, _)| {
            let kind = server.resolve(&resource.group, &resource.version, &resource.resource);
            kind.ok()
        }));
    }
    kinds
}

/// The versions in which dependents that block the deletion of an owner refer to it.
fn lookups(simulation: &Simulation, owner: &Uid) -> Vec<KindId> {
    let (catalog, collector) = (simulation.server.catalog(), simulation.plane.collector());
    let dependents = collector.explain(owner).blocking.into_iter();
    let references = dependents.flat_map(|dependent| collector.explain(&dependent.uid).owners);
    let references = references
        .map(|owner| owner.reference)
        .filter(|one| one.uid == *owner);
    let kinds = references.filter_map(|one| catalog.mapping(&one.api_version, &one.kind));
    kinds.collect()
}

/// Adds the waits for the conversions to these versions that fail.
fn add(waits: &mut Vec<Wait>, server: &ApiServer, kinds: Vec<KindId>, finalizer: Option<&Arc<str>>) {
    for kind in kinds {
        let Some(webhook) = server.broken_conversion(kind) else {
            continue;
        };
        let kind = &server.catalog()[kind];
        let wait = Wait::Conversion {
            finalizer: finalizer.cloned(),
            resource: format!("{}.{}.{}", kind.resource, kind.version, kind.group),
            definition: Arc::clone(&webhook.definition),
            failure: webhook.failure.clone().unwrap_or_default(),
        };
        if !waits.contains(&wait) {
            waits.push(wait);
        }
    }
}

/// Whether a refusal is one of these failures.
pub(crate) fn is_among(conversions: &[Wait], by: Option<&RefusedBy>) -> bool {
    let Some(RefusedBy::Conversion(failed)) = by else {
        return false;
    };
    let mut waits = conversions.iter();
    waits.any(|wait| matches!(wait, Wait::Conversion { definition, .. } if definition == failed))
}
