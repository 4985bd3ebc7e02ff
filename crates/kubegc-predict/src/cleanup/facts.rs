//! Tells the controller what is in the dump, and finds the objects of the dump that its tasks are about.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{StoreError, Timestamp, identity::split_api_version};
use kubegc_lifecycle::{
    controller::{Controller, Input, Task, Work},
    fields::{Fields, Record},
    history,
    object::{Act as _, Call, Change, Object, Resource},
};

use super::{CleanupFrame, Instance, outside::provisioner};
use crate::{Cluster, fate::Finding};

/// A controller that knows what was dumped: kinds that are complete as lists, the others object by object.
pub(super) fn inform(cluster: &Cluster, frame: &CleanupFrame, controller: &mut Controller, now: Timestamp) {
    for (name, Instance { exists, is_shutdown }) in &frame.cloud {
        let found = by_name(cluster, Resource::Nodes, "", name);
        let view = found.and_then(|position| cluster.snapshot.view(position as usize));
        if let Some(view) = view {
            let node = Object {
                resource: Resource::Nodes,
                namespace: "".into(),
                name: Arc::clone(name),
                uid: view.uid().clone(),
            };
            let (exists, is_shutdown) = (exists.clone(), is_shutdown.clone());
            controller.handle(
                now,
                Input::Cloud {
                    node,
                    exists,
                    is_shutdown,
                },
            );
        }
    }
    for resource in controller.resources() {
        let snapshot = &cluster.snapshot;
        let positions = snapshot.positions_of_kind(resource.group(), resource.kind());
        let mut records = Vec::with_capacity(positions.len());
        records.extend(positions.filter_map(|position| snapshot.record_at(position)));
        let coverage = snapshot.completeness.of(resource.group(), resource.kind());
        if coverage.is_complete() {
            let records = Ok(records);
            controller.handle(now, Input::Listed { resource, records });
            continue;
        }
        let unlisted = Err(StoreError::Unlisted);
        controller.handle(
            now,
            Input::Listed {
                resource,
                records: unlisted,
            },
        );
        for record in records {
            let record = Box::new(record);
            controller.handle(now, Input::Applied { resource, record });
        }
    }
}

/// The nodes about which the cloud was asked and of which nothing was dumped.
pub(super) fn nodes_not_in_dump<'a>(
    cluster: &'a Cluster,
    frame: &'a CleanupFrame,
) -> impl Iterator<Item = Finding> + 'a {
    let is_dumped = |node: &str| by_name(cluster, Resource::Nodes, "", node).is_some();
    let unknown = frame.cloud.keys().filter(move |node| !is_dumped(node));
    unknown.map(|node| Finding::NodeNotDumped {
        node: Arc::clone(node),
    })
}

/// Whether claims may belong to stateful sets that were not dumped.
pub(super) fn sets_not_in_dump(cluster: &Cluster, frame: &CleanupFrame) -> Option<Finding> {
    let snapshot = &cluster.snapshot;
    let of = |resource: Resource| snapshot.completeness.of(resource.group(), resource.kind());
    if frame.settings.stateful_sets.is_none() || of(Resource::StatefulSets).is_complete() {
        return None;
    }
    let claims = Resource::PersistentVolumeClaims;
    let claims = snapshot.positions_of_kind(claims.group(), claims.kind());
    let is_like_theirs = |position: &usize| {
        let Some(claim) = snapshot.view(*position) else {
            return false;
        };
        let (templates_and_set, ordinal) = claim.name().rsplit_once('-').unwrap_or_default();
        let is_number = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
        // Any part behind a hyphen may be the name of the set.
        let mut sets = templates_and_set
            .match_indices('-')
            .map(|(at, _)| &templates_and_set[at + 1..])
            .peekable();
        is_number
            && sets.peek().is_some()
            && !sets.any(|set| by_name(cluster, Resource::StatefulSets, claim.namespace(), set).is_some())
    };
    let claims = claims.filter(is_like_theirs).count();
    (claims > 0).then_some(Finding::UnseenSets { claims })
}

/// The provisioners that volumes of the dump name.
pub(super) fn provisioners(cluster: &Cluster) -> BTreeSet<Arc<str>> {
    let resource = Resource::PersistentVolumes;
    let snapshot = &cluster.snapshot;
    let positions = snapshot.positions_of_kind(resource.group(), resource.kind());
    let records = positions.filter_map(|position| snapshot.record_at(position));
    records
        .filter_map(|record| provisioner(&record).cloned())
        .collect()
}

/// Where in the dump an object stands; `None` where it is not there, or not with this uid.
pub(super) fn position(cluster: &Cluster, object: &Object) -> Option<u32> {
    let resource = object.resource;
    let is_it = |position: &u32| {
        let view = cluster.snapshot.view(*position as usize);
        view.is_some_and(|view| {
            *view.uid() == object.uid
                && **view.kind() == *resource.kind()
                && *split_api_version(view.api_version()).0 == *resource.group()
                && *view.name() == object.name
                && *view.namespace() == object.namespace
        })
    };
    if object.uid.is_empty() {
        let found = by_name(cluster, resource, &object.namespace, &object.name);
        return found.filter(is_it);
    }
    cluster.edges.positions_of(&object.uid).find(is_it)
}

/// Where in the dump the object of a name stands.
pub(super) fn by_name(cluster: &Cluster, resource: Resource, namespace: &str, name: &str) -> Option<u32> {
    let found = cluster
        .snapshot
        .position(resource.group(), resource.kind(), namespace, name)?;
    Some(found as u32)
}

/// The objects of the dump that a task changes or reads.
pub(super) fn objects(cluster: &Cluster, task: &Task) -> Vec<u32> {
    let mut found = Vec::new();
    match &task.work {
        Work::Act(planned) => {
            found.extend(position(cluster, &planned.object));
            // Owners that it is given must be there to be found.
            let changes = planned.calls.iter().filter_map(|call| match call {
                Call::Change { changes, .. } => Some(changes),
                _ => None,
            });
            for change in changes.flatten() {
                if let Change::OwnerReferences(references) = change {
                    let owners = references.iter();
                    found.extend(owners.flat_map(|owner| cluster.edges.positions_of(&owner.uid)));
                }
            }
        }
        Work::History(pass) => {
            found.extend(
                pass.actions()
                    .filter_map(|action| position(cluster, action.object())),
            );
        }
        Work::Volume(pass) => {
            let volume = pass.volume();
            let object = Object::new(Resource::PersistentVolumes, &volume.meta);
            found.extend(position(cluster, &object));
            let claim = volume.claim_ref.claim();
            found.extend(claim.and_then(|claim| {
                let claims = Resource::PersistentVolumeClaims;
                by_name(cluster, claims, &claim.namespace, &claim.name)
            }));
        }
        Work::Namespace { name, .. } => found.extend(by_name(cluster, Resource::Namespaces, "", name)),
    }
    found
}

/// The objects that a task deletes as far as is known before it is carried out.
pub(super) fn deleted(task: &Task) -> Vec<Object> {
    match &task.work {
        Work::Act(planned) => {
            let is_deleted = |call: &Call| matches!(call, Call::Delete { .. });
            let deleted = planned.calls.iter().any(is_deleted);
            deleted.then(|| planned.object.clone()).into_iter().collect()
        }
        Work::History(pass) => {
            let deletions = pass
                .actions()
                .filter(|action| matches!(action, history::Action::Delete { .. }));
            deletions.map(|action| action.object().clone()).collect()
        }
        Work::Volume(_) | Work::Namespace { .. } => Vec::new(),
    }
}

/// The newest time of which the record of an object tells.
pub(super) fn newest(record: &Record) -> Option<Timestamp> {
    let conditions = match &record.fields {
        Fields::Job(job) => job.status.as_ref().map(|status| &status.conditions),
        Fields::CertificateSigningRequest(request) => request.conditions.as_ref(),
        Fields::Node(node) => node.conditions.as_ref(),
        _ => None,
    };
    let changed = conditions.into_iter().flatten();
    let changed = changed.flat_map(|condition| [condition.last_transition_time, condition.last_update_time]);
    changed.flatten().max()
}
