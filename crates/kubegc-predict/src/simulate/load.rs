//! Loads a scope of a dump into a simulated API server and its controllers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_control_plane::{add_cloud_responses, list_resource};
use kubegc_controllers::Manager;
use kubegc_core::{
    ApiResource, KindId, ObjectMeta, OwnerReference, Scope as KindScope, SharedMeta, Timestamp,
    metadata::FINALIZER_FOREGROUND,
    record::{Body, Record, Resource},
};
use kubegc_sim::{ApiServer, StoredObject};
use kubegc_snapshot::{CrdDetails, Details, JsonDocuments, ObjectView};

use crate::facts::{Facts, Member, Owner, Scope};

/// The assumption about owners that are missing from the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlisted {
    Present,
    Absent,
    /// It is terminating and waits for dependents, some of which are not in the dump either.
    Waiting,
}

/// Feeds the records of a scope to controllers, or those of the whole dump. A resource of a scope is complete
/// if the dump has all objects in its namespaces.
pub(crate) fn list(
    facts: &Facts,
    manager: &mut Manager,
    now: Timestamp,
    mut of_scope: Option<(&Scope, BTreeMap<Resource, Vec<Record>>)>,
) {
    let members = of_scope.iter().flat_map(|(scope, _)| scope.members.keys());
    let namespaces = members.map(|at| facts.view(*at).namespace());
    let namespaces: BTreeSet<_> = namespaces.filter(|namespace| !namespace.is_empty()).collect();
    for resource in manager.resources() {
        let (group, kind) = (resource.group(), resource.kind());
        let is_namespaced = || {
            let mut kinds = facts.catalog().iter().map(|(_, known)| known);
            kinds.any(|known| *known.kind == *kind && *known.group == *group && known.is_namespaced())
        };
        let mut of_namespaces = namespaces.iter();
        let is_complete = facts.is_complete(resource)
            || !namespaces.is_empty()
                && of_namespaces.all(|namespace| facts.is_complete_in(resource, namespace))
                && is_namespaced();
        let records = match &mut of_scope {
            Some((_, records)) => records.remove(&resource).unwrap_or_default(),
            None => facts
                .all(resource)
                .map(|position| facts.record(position))
                .collect(),
        };
        let listed_in = facts.snapshot.completeness.namespaces(group, kind);
        manager.set_listed_in(resource, listed_in);
        list_resource(manager, now, resource, records, is_complete);
    }
    add_cloud_responses(manager, now, &facts.assumptions);
}

/// Adds the objects of a scope to its server, and returns the records that controllers list.
pub(super) fn load(
    facts: &Facts,
    scope: &Scope,
    server: &mut ApiServer,
    with_records: bool,
) -> BTreeMap<Resource, Vec<Record>> {
    let mut records = BTreeMap::<Resource, Vec<Record>>::new();
    let mut shared = None;
    for (&position, member) in &scope.members {
        let object = facts.view(position);
        let meta = SharedMeta::from(object.meta());
        if let Some(resource) = facts.resource_at(position).filter(|_| with_records) {
            let record = object.record_with(meta.clone());
            records.entry(resource).or_default().push(record);
        }
        let Some(kind) = object.kind_id() else { continue };
        let mut stored = stored(object, meta, &mut shared);
        if *member == Member::Context {
            keep_owners_in_scope(facts, scope, position, &mut stored);
        }
        // The kind is the server's, and the name was read.
        let stored = server.insert(kind, stored);
        debug_assert!(stored.is_ok(), "{stored:?}");
    }
    records
}

/// The stored form of an object. Objects with the same fields as the last one share them with it.
pub(crate) fn stored(
    object: ObjectView<'_>,
    meta: SharedMeta,
    last: &mut Option<(Arc<Body>, kubegc_sim::Body)>,
) -> StoredObject {
    let body = match object.details() {
        Some(Details::Body(fields)) => {
            let known = last.take().filter(|(known, _)| Arc::ptr_eq(known, fields));
            let (_, body) = last.insert(known.unwrap_or_else(|| {
                let record = Arc::clone(fields);
                let body = kubegc_sim::Body::lazy(move || fields_of(&record));
                (Arc::clone(fields), body)
            }));
            Some(body.clone())
        }
        Some(Details::CustomResourceDefinition(definition)) => Some(body_of(definition)),
        _ => None,
    };
    StoredObject::new(meta, body)
}

/// Removes the owners out of scope: an object that is only read keeps the others.
fn keep_owners_in_scope(facts: &Facts, scope: &Scope, position: u32, stored: &mut StoredObject) {
    let is_in_scope = |owner: &Owner| matches!(owner, Owner::At(at) if scope.members.contains_key(at));
    if facts.edges.owners(position).all(|owner| is_in_scope(&owner)) {
        return;
    }
    let mut owners = facts.edges.owners(position);
    let references = &mut stored.meta.owner_references;
    references.retain(|_| owners.next().is_some_and(|owner| is_in_scope(&owner)));
}

/// Adds the owners that are missing from the dump to the server of a scope.
pub(super) fn add_unlisted(facts: &Facts, scope: &Scope, server: &mut ApiServer, unlisted: Unlisted) {
    for (position, reference) in &scope.unknown {
        let kind = unlisted_kind(facts, server, reference);
        let Some(kind) = kind.filter(|_| unlisted != Unlisted::Absent) else {
            continue;
        };
        let resource = &server.catalog()[kind];
        let namespace = match resource.is_namespaced() {
            true => Arc::clone(facts.view(*position).namespace()),
            false => "".into(),
        };
        let mut meta = ObjectMeta::new(&namespace, &reference.name, "");
        meta.uid = reference.uid.clone();
        if unlisted == Unlisted::Waiting {
            // An object that blocks its own deletion waits without end, as for a dependent that is
            // missing from the dump.
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
            let stored = server.insert(kind, meta);
            debug_assert!(stored.is_ok(), "{stored:?}");
        }
    }
}

/// The kind of an owner that is not in the dump. One that nothing explains is assumed to be cluster-scoped,
/// so that it can be found from anywhere.
fn unlisted_kind(facts: &Facts, server: &mut ApiServer, reference: &OwnerReference) -> Option<KindId> {
    if let Some(kind) = server.catalog().mapping(&reference.api_version, &reference.kind) {
        return Some(kind);
    }
    if facts.is_unserved(&reference.api_version, &reference.kind) {
        return None;
    }
    // No resource has capitals in its name: this one is not taken.
    let (api_version, kind) = (&reference.api_version, &reference.kind);
    let resource = ApiResource::new(api_version, kind, kind, KindScope::Cluster).custom();
    server.register(resource).ok()
}

fn body_of(definition: &CrdDetails) -> kubegc_sim::Body {
    let version = |version: &kubegc_snapshot::CrdVersion| serde_json::json!({ "name": version.name, "served": version.served, "storage": version.storage });
    let scope = match definition.scope {
        KindScope::Cluster => "Cluster",
        KindScope::Namespaced => "Namespaced",
    };
    let established = match definition.established {
        Some(false) => "False",
        _ => "True",
    };
    let spec = serde_json::json!({
        "group": definition.group,
        "scope": scope,
        "names": { "plural": definition.plural, "kind": definition.kind },
        "versions": definition.versions.iter().map(version).collect::<Vec<_>>(),
    });
    let status = serde_json::json!({ "conditions": [{ "type": "Established", "status": established }] });
    serde_json::Map::from_iter([("spec".to_owned(), spec), ("status".to_owned(), status)]).into()
}

fn fields_of(body: &Body) -> serde_json::Map<String, serde_json::Value> {
    let mut fields = JsonDocuments::fields(body);
    if let Body::Pod(pod) = body
        && let Some(spec) = fields.get_mut("spec")
    {
        // A pod that was read without its spec has the default grace period.
        let grace = pod.termination_grace_period_seconds.known().copied().flatten();
        spec["terminationGracePeriodSeconds"] = grace.unwrap_or(30).into();
    }
    fields
}
