//! Builds the simulated cluster of a scope, with the owners that the dump leaves unknown or without them, and carries intents out in it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_core::{
    ApiResource, KindId, ObjectMeta, OwnerReference, Scope as KindScope, Timestamp,
    metadata::FINALIZER_FOREGROUND, record::Body,
};
use kubegc_sim::{ApiServer, StoredObject};
use kubegc_snapshot::{Details, JsonDocuments, SnapshotObject};

use crate::{
    Cluster, Intent,
    cluster::{Member, Scope},
    fate::Finding,
    world::World,
};

/// What an owner that is not in the dump is taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlisted {
    /// It exists, and nobody deletes it.
    Present,
    /// It does not exist.
    Absent,
    /// It is being deleted and waits for dependents, some of which are not in the dump either.
    Waiting,
}

/// Builds the world, lets it come to rest, and carries the intents out one after another.
pub(crate) fn simulate(
    cluster: &Cluster,
    scope: &Scope,
    objects: &BTreeMap<u32, SnapshotObject>,
    targets: &[(Vec<u32>, &Intent)],
    unlisted: Unlisted,
    findings: &mut Vec<Finding>,
) -> World {
    let mut world = build(cluster, scope, objects, unlisted);
    world.settle();
    if !targets.is_empty() {
        // What is pending anyway was accounted for when the cluster was built.
        world.forget();
    }
    for (index, (positions, intent)) in targets.iter().enumerate() {
        for position in positions {
            let Some(object) = objects.get(position) else {
                continue;
            };
            let Some(kind) = object.kind_id else { continue };
            let response = world.delete(kind, object.object_ref(), &intent.options, index);
            if !response.is_success() {
                let message = response
                    .status()
                    .map(|status| status.message.clone())
                    .unwrap_or_default();
                findings.push(Finding::Refused {
                    object: object.object_ref(),
                    code: response.code,
                    message,
                });
            }
        }
        world.settle();
    }
    world
}

/// The world at its beginning.
pub(crate) fn build(
    cluster: &Cluster,
    scope: &Scope,
    objects: &BTreeMap<u32, SnapshotObject>,
    unlisted: Unlisted,
) -> World {
    let server = server(cluster, scope, objects, unlisted);
    let catalog = Arc::new(server.catalog().clone());
    let now = latest_time(objects.values());
    World::new(server, catalog, &cluster.assumptions, now)
}

/// The server of that world.
pub(crate) fn server(
    cluster: &Cluster,
    scope: &Scope,
    objects: &BTreeMap<u32, SnapshotObject>,
    unlisted: Unlisted,
) -> ApiServer {
    let mut server = cluster.empty_server.clone();
    for (position, object) in objects {
        let Some(kind) = object.kind_id else { continue };
        let mut stored = StoredObject {
            meta: object.meta.clone(),
            body: body(object),
        };
        // Nothing evaluates what is only looked at, and its owners are not here.
        if scope.members[position] == Member::Context {
            stored.meta.owner_references.clear();
        }
        // The kind is the server's, and the name was read.
        let stored = server.insert(kind, stored);
        debug_assert!(stored.is_ok(), "{stored:?}");
    }
    for (position, reference) in &scope.unknown {
        let kind = unlisted_kind(cluster, &mut server, reference);
        let Some(kind) = kind.filter(|_| unlisted != Unlisted::Absent) else {
            continue;
        };
        let resource = &server.catalog()[kind];
        let namespace = if resource.is_namespaced() {
            Arc::clone(&objects[position].meta.namespace)
        } else {
            "".into()
        };
        let mut meta = ObjectMeta::new(&namespace, &reference.name, "");
        meta.uid = reference.uid.clone();
        if unlisted == Unlisted::Waiting {
            // What blocks itself waits for ever, as for a dependent that is never seen.
            meta.deletion_timestamp = Some(Timestamp::EPOCH);
            meta.deletion_grace_period_seconds = Some(0);
            meta.finalizers = vec![FINALIZER_FOREGROUND.into()];
            let itself = OwnerReference {
                block_owner_deletion: Some(true),
                controller: None,
                ..reference.clone()
            };
            meta.owner_references.push(itself);
        }
        if server.object(kind, &namespace, &reference.name).is_none() {
            let stored = server.insert_meta(kind, meta);
            debug_assert!(stored.is_ok(), "{stored:?}");
        }
    }
    server
}

/// The kind of an owner that is not in the dump. One that nothing explains is taken to be cluster-scoped, so that it can be found from anywhere.
fn unlisted_kind(cluster: &Cluster, server: &mut ApiServer, reference: &OwnerReference) -> Option<KindId> {
    if let Some(kind) = server.catalog().mapping(&reference.api_version, &reference.kind) {
        return Some(kind);
    }
    if cluster.is_unserved(&reference.api_version, &reference.kind) {
        return None;
    }
    // No resource has capitals in its name: this one is not taken.
    let resource = ApiResource::new(
        &reference.api_version,
        &reference.kind,
        &reference.kind,
        KindScope::Cluster,
    )
    .custom();
    server.register(resource).ok()
}

/// The facts beside the metadata, as an object's body has them.
fn body(object: &SnapshotObject) -> Option<Arc<serde_json::Map<String, serde_json::Value>>> {
    let value = match object.details.as_deref()? {
        Details::Body(kind) => {
            let mut body = JsonDocuments::body(&object.record());
            if let Body::Pod(pod) = kind
                && let Some(spec) = body.get_mut("spec")
            {
                // A pod that was read without its spec has the default grace period.
                let grace = pod.termination_grace_period_seconds.known().copied().flatten();
                spec["terminationGracePeriodSeconds"] = grace.unwrap_or(30).into();
            }
            serde_json::Value::Object(body)
        }
        Details::CustomResourceDefinition(definition) => {
            let version = |version: &kubegc_snapshot::CrdVersion| serde_json::json!({ "name": version.name, "served": version.served, "storage": version.storage });
            let scope = if definition.scope == KindScope::Cluster {
                "Cluster"
            } else {
                "Namespaced"
            };
            let established = if definition.established == Some(false) {
                "False"
            } else {
                "True"
            };
            serde_json::json!({
                "spec": {
                    "group": definition.group,
                    "scope": scope,
                    "names": { "plural": definition.plural, "kind": definition.kind },
                    "versions": definition.versions.iter().map(version).collect::<Vec<_>>(),
                },
                "status": { "conditions": [{ "type": "Established", "status": established }] },
            })
        }
        _ => return None,
    };
    value.as_object().cloned().map(Arc::new)
}

/// The simulation begins when the newest thing in the dump happened: dumps do not say when they were taken.
fn latest_time<'a>(objects: impl Iterator<Item = &'a SnapshotObject>) -> Timestamp {
    let newest = objects.filter_map(|object| latest_of(&object.meta)).max();
    newest.unwrap_or(Timestamp::EPOCH)
}

/// When the newest thing happened that an object's metadata tells of.
pub(crate) fn latest_of(meta: &ObjectMeta) -> Option<Timestamp> {
    let grace = meta.deletion_grace_period_seconds.unwrap_or(0).max(0);
    let deletion = meta.deletion_timestamp;
    let deletion = deletion.map(|at| at.saturating_sub(Duration::from_secs(grace.unsigned_abs())));
    deletion.max(meta.creation_timestamp)
}
