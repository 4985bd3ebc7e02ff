//! The answer of the API server to requests that no forecast sends: the creation of deleted objects by their
//! controllers, and the removal of finalizers.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_control_plane::Refusal;
use kubegc_core::{DeleteOptions, ObjectMeta, Uid, record::Resource};
use kubegc_sim::{ApiServer, Response, StoredObject};
use kubegc_snapshot::{Details, ObjectView, QuotaDetails};
use serde_json::{Map, json};

use super::{Fate, ObjectFate};
use crate::{facts::Facts, simulate::stored};

/// Why the API server refuses to create a deleted object again; `None` if it creates it. There is a server
/// for each namespace, in which objects are created one after another.
pub(crate) fn refused_creation(
    facts: &Facts,
    fates: &[ObjectFate],
    servers: &mut BTreeMap<Arc<str>, Option<ApiServer>>,
    deleted: &ObjectFate,
) -> Option<Refusal> {
    let namespace = &deleted.object.namespace;
    let known = servers.entry(Arc::clone(namespace));
    let server = known
        .or_insert_with(|| server(facts, fates, namespace))
        .as_mut()?;
    let object = facts.view(deleted.position);
    refusal(&server.create(object.kind_id()?, namespace, renewed(object)))
}

/// A server with the quotas of a namespace, after the deletion of its objects; `None` if it refuses nothing.
fn server(facts: &Facts, fates: &[ObjectFate], namespace: &str) -> Option<ApiServer> {
    let mut server = facts.empty_server.clone();
    let mut has_quotas = false;
    let is_of_namespace = |at: &u32| **facts.view(*at).namespace() == *namespace;
    for position in facts.named("", "ResourceQuota").filter(is_of_namespace) {
        let object = facts.view(position);
        if let (Some(kind), Some(Details::Quota(amounts))) = (object.kind_id(), object.details())
            && let Some(body) = limits(amounts)
        {
            let quota = StoredObject::new(object.meta().into(), Some(body.into()));
            has_quotas |= server.insert(kind, quota).is_ok();
        }
    }
    if !has_quotas && !facts.has_reviewers {
        return None;
    }
    // Quotas no longer count them.
    let is_deleted = |fate: &&ObjectFate| matches!(fate.fate, Fate::Deleted { .. });
    let counted = fates
        .iter()
        .filter(|fate| has_quotas && *fate.object.namespace == *namespace);
    for fate in counted.filter(is_deleted) {
        let object = facts.view(fate.position);
        if let Some(kind) = object.kind_id()
            && server.insert(kind, renewed(object)).is_ok()
        {
            let options = DeleteOptions {
                grace_period_seconds: Some(0),
                ..DeleteOptions::default()
            };
            server.delete_with(kind, namespace, &fate.object.name, &options);
        }
    }
    add_namespace(facts, &mut server, namespace);
    Some(server)
}

/// The limits of a quota for numbers of objects; `None` if it has none, or limits only some objects of a
/// kind. A dump does not show what pods request.
fn limits(quota: &QuotaDetails) -> Option<Map<String, serde_json::Value>> {
    let is_count = |resource: &str| {
        let is_amount = resource.starts_with("limits.") || resource.contains("requests.");
        let is_of_pods = ["cpu", "memory", "ephemeral-storage"].contains(&resource);
        !is_amount && !is_of_pods && !resource.starts_with("hugepages-") && !resource.starts_with("services.")
    };
    let counts = |amounts: &BTreeMap<Arc<str>, Arc<str>>| {
        let mut counts = amounts.clone();
        counts.retain(|resource, _| is_count(resource));
        counts
    };
    let hard = counts(&quota.hard);
    let is_known = !quota.is_scoped && !hard.is_empty();
    let spec = json!({ "hard": hard });
    let status = json!({ "hard": hard, "used": counts(&quota.used) });
    is_known.then(|| Map::from_iter([("spec".to_owned(), spec), ("status".to_owned(), status)]))
}

/// An object as its controller creates it.
fn renewed(object: ObjectView<'_>) -> StoredObject {
    let meta = ObjectMeta {
        uid: Uid::default(),
        resource_version: Default::default(),
        deletion_timestamp: None,
        finalizers: Vec::new(),
        owner_references: Default::default(),
        ..object.meta()
    };
    stored(object, meta.into(), &mut None)
}

/// Webhooks and policies select namespaces by their labels. A terminating one refuses all new objects.
fn add_namespace(facts: &Facts, server: &mut ApiServer, namespace: &str) {
    let position = facts.by_name(Resource::Namespaces, "", namespace);
    let object = position.map(|at| facts.view(at));
    if let Some(object) = object
        && let Some(kind) = object.kind_id()
    {
        // Its name was read.
        let _inserted = server.insert(kind, renewed(object));
    }
}

/// The refusal of a request by a webhook, policy, conversion or quota.
fn refusal(response: &Response) -> Option<Refusal> {
    let status = response.status()?;
    Some(Refusal {
        message: status.message.as_str().into(),
        by: Some(status.refused_by.clone()?),
    })
}

impl Facts {
    /// The refusal of the removal of finalizers of an object, by its owner or by hand, if the dump shows it.
    pub(crate) fn refused_removal(&self, position: u32) -> Option<Refusal> {
        if !self.has_reviewers {
            return None;
        }
        let object = self.view(position);
        let (kind, namespace, name) = (object.kind_id()?, object.namespace(), object.name());
        let mut server = self.empty_server.clone();
        add_namespace(self, &mut server, namespace);
        server.insert(kind, object.meta()).ok()?;
        let mut changed = StoredObject::clone(server.object(kind, namespace, name)?);
        changed.meta.finalizers = Vec::new();
        refusal(&server.update(kind, namespace, name, changed))
    }
}
