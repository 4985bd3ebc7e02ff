//! The refusals that a dump quotes: in the conditions of namespaces and workloads, and in Events.

use std::sync::Arc;

use kubegc_control_plane::RefusedBy;
use kubegc_core::{
    ObjectRef,
    identity::split_api_version,
    record::{Body, Condition, Record, Resource},
};
use kubegc_snapshot::Details;

use crate::{
    facts::{Facts, conditions},
    judge::ObjectFate,
};

pub(super) const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
pub(super) const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
pub(super) const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";

/// The messages of the true conditions of this type of a terminating namespace.
pub(super) fn messages(fate: &ObjectFate, condition_type: &str) -> Vec<Arc<str>> {
    let view = fate.before();
    if !view.is_deleting() || **view.kind() != *"Namespace" {
        return Vec::new();
    }
    let record = view.record();
    let is_meant = |one: &&Condition| one.is_true() && *one.condition_type == *condition_type;
    let meant = conditions(&record).iter().filter(is_meant);
    meant.map(|condition| Arc::clone(&condition.message)).collect()
}

/// The names in the condition of a namespace that counts what remains, such as
/// `Some resources are remaining: pods. has 2 resource instances`.
pub(super) fn counted<'m>(message: &'m str, separator: &'m str) -> impl Iterator<Item = &'m str> {
    let list = message.split_once(": ").map_or("", |(_, list)| list);
    let entries = list
        .split(", ")
        .filter_map(move |entry| entry.split_once(separator));
    entries.map(|(name, _)| name.trim_end_matches('.'))
}

/// The number of conflicts that show a cause: a client that meets one reads the object and tries again.
const CONFLICTS: i64 = 3;

/// The refusals that conditions of Deployments and ReplicaSets and Events quote: the object, the message of
/// the API server, and the evidence. A condition is preferred to an Event, which may be old.
pub(super) fn reported(facts: &Facts) -> Vec<(u32, Arc<str>, String)> {
    let snapshot = &facts.snapshot;
    let mut found = Vec::new();
    for resource in [Resource::ReplicaSets, Resource::Deployments] {
        for position in facts.all(resource) {
            let record = facts.record(position);
            let conditions = failures(&record).into_iter().flatten();
            found.extend(conditions.filter(|one| one.is_true()).map(|condition| {
                let evidence = quote(condition, &facts.object_ref(position));
                (position, Arc::clone(&condition.message), evidence)
            }));
        }
    }
    for position in snapshot.positions_of_kind("", "Event") {
        let object = snapshot.object(position);
        let Some(Details::Refusal(event)) = object.and_then(|one| one.details()) else {
            continue;
        };
        let is_conflict = refused_by(facts, &event.message) == Some(RefusedBy::Conflict);
        let about = facts.positions_of(&event.about.uid).next();
        let Some(about) = about.filter(|_| !is_conflict || event.count >= CONFLICTS) else {
            continue;
        };
        if is_conflict || failures(&facts.record(about)).is_none() {
            // It begins with what its controller did.
            let message = event.message.strip_prefix("Error creating: ");
            let message = message.unwrap_or(&event.message);
            let (reason, object) = (&event.reason, event.about.short());
            let evidence = format!("event {reason} of {object}: {}", event.message);
            found.push((about, message.into(), evidence));
        }
    }
    found
}

/// The conditions of a workload about dependents that are not created, if they were read.
fn failures(record: &Record) -> Option<&Vec<Condition>> {
    match &*record.body {
        Body::ReplicaSet(set) => set.failures.known(),
        Body::Deployment(deployment) => deployment.failures.known(),
        _ => None,
    }
}

/// The cause that a condition of a dump names. Only its text is known.
pub(super) fn refused_by(facts: &Facts, message: &str) -> Option<RefusedBy> {
    let named = |before: &str, after: &str| Some(message.split_once(before)?.1.split_once(after)?.0);
    if let Some(user) = named("is forbidden: User \"", "\"") {
        return Some(RefusedBy::Authorization(user.into()));
    }
    if let Some(quota) = named("exceeded quota: ", ",") {
        return Some(RefusedBy::Quota(quota.into()));
    }
    if message.contains("the object has been modified") {
        return Some(RefusedBy::Conflict);
    }
    if let Some((version, kind)) =
        named("conversion webhook for ", " failed").and_then(|of| of.split_once(", Kind="))
    {
        let (group, _) = split_api_version(version);
        let mut kinds = facts.catalog().iter().map(|(_, resource)| resource);
        let resource = kinds.find(|resource| *resource.group == *group && *resource.kind == *kind)?;
        let definition = format!("{}.{group}", resource.resource);
        return Some(RefusedBy::Conversion(definition.into()));
    }
    if let Some(webhook) = named("webhook \"", "\"") {
        return Some(RefusedBy::Webhook(webhook.into()));
    }
    Some(RefusedBy::Policy {
        policy: named("ValidatingAdmissionPolicy '", "'")?.into(),
        binding: named("with binding '", "'")?.into(),
    })
}

pub(super) fn quote(condition: &Condition, of: &ObjectRef) -> String {
    let since = condition.last_transition_time;
    let since = since.map_or_else(String::new, |since| format!(" since {since}"));
    let (kind, status, message) = (&condition.condition_type, &condition.status, &condition.message);
    format!("condition {kind} of {} is {status}{since}: {message}", of.short())
}
