//! Facts of the dump that clean-up forecasts need.

use std::sync::Arc;

use kubegc_controllers::{FieldChange, Request, Task, Work, Write};
use kubegc_core::{
    Timestamp,
    record::{Body, Record, Resource},
};

use super::CleanupFrame;
use crate::{Cluster, fate::Finding};

/// The nodes about which the cloud was asked and of which nothing was dumped.
pub(super) fn nodes_not_in_dump<'a>(cluster: &'a Cluster) -> impl Iterator<Item = Finding> + 'a {
    let is_dumped = |node: &str| cluster.by_name(Resource::Nodes, "", node).is_some();
    let unknown = cluster
        .assumptions
        .cloud
        .keys()
        .filter(move |node| !is_dumped(node));
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
            && !sets.any(|set| {
                cluster
                    .by_name(Resource::StatefulSets, claim.namespace(), set)
                    .is_some()
            })
    };
    let claims = claims.filter(is_like_theirs).count();
    (claims > 0).then_some(Finding::UnseenSets { claims })
}

/// The objects of the dump that a task is known to touch before it begins.
pub(super) fn objects(cluster: &Cluster, task: &Task) -> Vec<u32> {
    let mut found: Vec<u32> = cluster.position_of(&task.object).into_iter().collect();
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
        } => found.extend(cluster.by_name(*resource, namespace, name)),
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
        found.extend(request.object().and_then(|object| cluster.position_of(object)));
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
