//! Tells the controller what is in the dump, and finds the objects of the dump that its tasks are about.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_controllers::{CloudAnswer, FieldChange, Input, Manager, Request, Task, Work, Write};
use kubegc_core::{
    StoreError, Timestamp,
    identity::split_api_version,
    record::{Body, ObjectId, Record, Resource},
};

use super::{CleanupFrame, Instance, outside::provisioner};
use crate::{Cluster, fate::Finding};

/// Feeds the dump to a manager: kinds that are complete as lists, the others object by object.
pub(super) fn inform(cluster: &Cluster, frame: &CleanupFrame, manager: &mut Manager, now: Timestamp) {
    for (name, Instance { exists, is_shutdown }) in &frame.cloud {
        let found = by_name(cluster, Resource::Nodes, "", name);
        let view = found.and_then(|position| cluster.snapshot.view(position as usize));
        if let Some(view) = view {
            let node = ObjectId {
                resource: Resource::Nodes,
                namespace: "".into(),
                name: Arc::clone(name),
                uid: view.uid().clone(),
            };
            let answer = CloudAnswer {
                node_uid: view.uid().clone(),
                exists: exists.clone(),
                is_shut_down: is_shutdown.clone(),
            };
            manager.handle(now, Input::Cloud { node, answer });
        }
    }
    for resource in manager.resources() {
        let snapshot = &cluster.snapshot;
        let positions = snapshot.positions_of_kind(resource.group(), resource.kind());
        let mut records = Vec::with_capacity(positions.len());
        records.extend(positions.filter_map(|position| snapshot.record_at(position)));
        let coverage = snapshot.completeness.of(resource.group(), resource.kind());
        if coverage.is_complete() {
            let records = Ok(records);
            manager.handle(now, Input::Listed { resource, records });
            continue;
        }
        let unlisted = Err(StoreError::Unlisted);
        manager.handle(
            now,
            Input::Listed {
                resource,
                records: unlisted,
            },
        );
        for record in records {
            let record = Box::new(record);
            manager.handle(now, Input::Applied { resource, record });
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
    if !frame.runs("statefulset-controller") || of(Resource::StatefulSets).is_complete() {
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
pub(super) fn position(cluster: &Cluster, object: &ObjectId) -> Option<u32> {
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

/// The objects of the dump that a task is known to touch before it begins.
pub(super) fn objects(cluster: &Cluster, task: &Task) -> Vec<u32> {
    let mut found: Vec<u32> = position(cluster, &task.object).into_iter().collect();
    if let Work::Action(action) = &task.work {
        for request in &action.requests {
            found.extend(touched(cluster, request));
        }
    }
    found
}

/// The objects of the dump that a request touches: its object, those that it reads, and the owners that it sets, which must exist.
pub(super) fn touched(cluster: &Cluster, request: &Request) -> Vec<u32> {
    let mut found = Vec::new();
    match request {
        Request::Get {
            resource,
            namespace,
            name,
        } => found.extend(by_name(cluster, *resource, namespace, name)),
        Request::Write(Write { changes, .. }) => {
            for change in changes {
                if let FieldChange::OwnerReferences(references) = change {
                    let owners = references.iter();
                    found.extend(owners.flat_map(|owner| cluster.edges.positions_of(&owner.uid)));
                }
            }
        }
        _ => {}
    }
    if !matches!(request, Request::Event(_)) {
        found.extend(request.object().and_then(|object| position(cluster, object)));
    }
    found
}

/// The newest time of which the record of an object tells.
pub(super) fn newest(record: &Record) -> Option<Timestamp> {
    let conditions = match &record.body {
        Body::Job(job) => job.conditions.known(),
        Body::CertificateSigningRequest(request) => request.conditions.known(),
        Body::Node(node) => node.conditions.known(),
        _ => None,
    };
    let changed = conditions.into_iter().flatten();
    let changed = changed.flat_map(|condition| [condition.last_transition_time, condition.last_update_time]);
    changed.flatten().max()
}
