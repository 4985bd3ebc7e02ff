//! Finds the conditions that objects wait for at the end of a simulation.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_control_plane::{
    Actor, Refusal, Refusals, RefusedBy, Simulation, Step, Why,
    finalizers::{self, OVERDUE, Owner},
};
use kubegc_controllers::{Key, NamespaceController};
use kubegc_core::{ApiResource, KindId, ObjectMeta, ObjectRef, Timestamp, Uid, metadata, record::ObjectId};
use kubegc_objects::{Graph, Reason};
use kubegc_sim::{ApiServer, StoredObject};
use kubegc_snapshot::ObjectView;
use serde_json::Value;

use super::{BlockedBy, Blocking, Remaining, Wait};
use crate::{
    facts::{Facts, deletion_requested_at},
    words::span,
};

/// A terminating object of the dump at the end of a simulation.
pub(super) struct Waiting<'a> {
    pub(super) facts: &'a Facts,
    pub(super) simulation: &'a Simulation,
    pub(super) refusals: &'a Refusals<'a>,
    pub(super) object: ObjectView<'a>,
    pub(super) end: &'a ObjectMeta,
}

impl Waiting<'_> {
    /// The conditions that it waits for.
    ///
    /// # Complexity
    /// O(f) for its finalizers; of a namespace, O(k + c) for k kinds and c objects in it.
    pub(super) fn waits(&self) -> Vec<Wait> {
        let (facts, server, end) = (self.facts, &self.simulation.server, self.end);
        let mut waits = self.refused();
        let conversions = self.failed_conversions();
        waits.retain(|wait| match wait {
            Wait::Refused { refusal, .. } => !is_among(&conversions, refusal.by.as_ref()),
            _ => true,
        });
        waits.extend_from_slice(&conversions);
        let runs = |owner: Owner| facts.assumptions.runs(owner.name());
        for name in &end.finalizers {
            if waits.iter().any(|wait: &Wait| wait.finalizer() == Some(name)) {
                continue;
            }
            waits.push(match &**name {
                metadata::FINALIZER_FOREGROUND if runs(Owner::GarbageCollector) => Wait::Dependents {
                    blocking: self.blocking(),
                },
                CRD_CLEANUP if self.is("apiextensions.k8s.io", "CustomResourceDefinition") => Wait::Content {
                    finalizer: Arc::clone(name),
                    remaining: remaining(server, None, |_, kind| {
                        format!("{}.{}", kind.resource, kind.group) == *end.name
                    }),
                    pods_are_first: false,
                },
                _ => self.removal(name),
            });
        }
        if self.is("", "Namespace") {
            for name in self.stored_list(["spec", "finalizers"]).filter_map(Value::as_str) {
                match name {
                    "kubernetes" if runs(Owner::Controller("namespace-controller")) => {
                        waits.extend(self.content(&conversions));
                    }
                    _ => waits.push(self.removal(&name.into())),
                }
            }
        }
        if waits.is_empty() {
            waits.push(self.ending());
        }
        waits
    }

    fn is(&self, group: &str, name: &str) -> bool {
        let kind = self.object.kind_id();
        let kind = kind.map(|kind| &self.simulation.server.catalog()[kind]);
        kind.is_some_and(|kind| *kind.group == *group && *kind.kind == *name)
    }

    /// A list in a field of a namespace.
    fn stored_list(&self, path: [&str; 2]) -> impl Iterator<Item = &Value> {
        let kind = self.object.kind_id();
        let stored = kind.and_then(|kind| self.simulation.server.object(kind, "", &self.end.name));
        let list = stored.and_then(|stored| stored.at(&path)?.as_array());
        list.into_iter().flatten()
    }

    /// The end of a grace period, or the kubelet that should have ended it.
    fn ending(&self) -> Wait {
        let grace = self.end.deletion_grace_period_seconds;
        let ends_at = self.end.deletion_timestamp.filter(|_| grace != Some(0));
        let record = self.object.record();
        let node = record.pod().and_then(|pod| pod.node_name.known());
        let node = node.filter(|name| !name.is_empty()).cloned();
        let is_lost = |node: &Arc<str>| self.facts.kubelet_runs(node) == Some(false);
        // The grace period ended so long before the simulation that the kubelet would have acted.
        let is_overdue = |end: &Timestamp| end.saturating_add(OVERDUE) < self.simulation.plane.began();
        let (node, overdue_since) = match (node, ends_at.filter(is_overdue)) {
            (Some(node), _) if is_lost(&node) => (Some(node), None),
            _ if self.is("", "Pod") && !self.facts.assumptions.pods_end => (None, None),
            (Some(node), Some(since)) => (Some(node), Some(since)),
            _ => return Wait::Grace { ends_at },
        };
        Wait::Kubelet { node, overdue_since }
    }

    /// The refused requests that an object waits for, each with the finalizer that it would remove.
    fn refused(&self) -> Vec<Wait> {
        let waits = self.refusals.about(&self.end.uid).filter_map(|step| {
            let is_its = |name: &&Arc<str>| match &step.why {
                Why::Collector(Reason::OwnerOrphans(_) | Reason::DependentsReleased) => {
                    ***name == *metadata::FINALIZER_ORPHAN
                }
                Why::Collector(Reason::NothingBlocks { .. }) => ***name == *metadata::FINALIZER_FOREGROUND,
                Why::FinalizerReleased(released) => *released == **name,
                _ => finalizers::find(name).is_some_and(|known| match known.owner {
                    Owner::Controller(owner) => step.actor == Actor::Controller(owner),
                    _ => false,
                }),
            };
            let finalizer = self.end.finalizers.iter().find(is_its)?;
            let refusal = step.failure.as_ref()?;
            Some(refused_wait(step, refusal, finalizer, &step.object))
        });
        waits.collect()
    }

    /// The dependents that block the deletion of an owner in the foreground.
    fn blocking(&self) -> Vec<Blocking> {
        let graph = self.simulation.plane.collector().graph();
        let objects = blocking(graph, &self.end.uid).into_iter().map(|object| {
            let refused = self
                .refusals
                .about(&object.uid)
                .find(|step| *step.object == object);
            let because = match refused.and_then(|step| step.failure.clone()) {
                Some(refusal) => Some(BlockedBy::Refused(refusal)),
                None => unserved_owner(self.facts, &object).map(BlockedBy::OwnerNotServed),
            };
            Blocking { object, because }
        });
        objects.collect()
    }

    /// Causes that keep a namespace: undiscoverable APIs, refused deletes, and the content that remains.
    fn content(&self, conversions: &[Wait]) -> Vec<Wait> {
        let finalizer = Arc::from("kubernetes");
        let unavailable = self
            .simulation
            .plane
            .unavailable_apis()
            .filter_map(|(name, api)| {
                Some(Wait::Discovery {
                    finalizer: Arc::clone(&finalizer),
                    api_version: api.api_version.clone(),
                    api_service: Arc::clone(name),
                    failure: Arc::clone(api.failure.as_ref()?),
                    since: api.since,
                })
            });
        let mut waits: Vec<Wait> = unavailable.collect();
        let is_failure = |condition: &Value| {
            condition["type"] == "NamespaceDeletionContentFailure" && condition["status"] == "True"
        };
        // Without the condition, the last sync deleted what an earlier one could not.
        let is_failing = self.stored_list(["status", "conditions"]).any(is_failure);
        for step in self.refusals.about(&self.end.uid) {
            let refusal = step.failure.as_ref().filter(|_| is_failing || !step.is_delete());
            let Some(refusal) = refusal.filter(|refusal| !is_among(conversions, refusal.by.as_ref())) else {
                continue;
            };
            let is_same =
                |wait: &Wait| matches!(wait, Wait::Refused { refusal: known, .. } if known == refusal);
            if !waits.iter().any(is_same) {
                waits.push(refused_wait(step, refusal, &finalizer, &self.object.object_ref()));
            }
        }
        let server = &self.simulation.server;
        let remaining = remaining(server, Some(&self.end.name), |kind, _| {
            !server.is_unlistable(kind)
        });
        if waits.is_empty() && conversions.is_empty() || !remaining.is_empty() {
            let has_pods = remaining.len() > 1 && remaining.iter().any(|kind| kind.resource == "pods");
            let pods_are_first = has_pods && NamespaceController::new(server.version()).deletes_pods_first;
            waits.push(Wait::Content {
                finalizer,
                remaining,
                pods_are_first,
            });
        }
        waits
    }

    /// The component that removes a finalizer, and the reason why it has not removed it.
    fn removal(&self, name: &Arc<str>) -> Wait {
        let known = finalizers::find(name);
        let assumptions = &self.facts.assumptions;
        let (reason, is_undecided) = match known.map(|known| known.owner) {
            Some(Owner::Controller(controller)) if assumptions.runs(controller) => self.kept(controller),
            None | Some(Owner::ApiServer) => (None, false),
            Some(Owner::GarbageCollector) if assumptions.runs(Owner::GarbageCollector.name()) => {
                (None, false)
            }
            Some(Owner::External(_) | Owner::Operator(_)) if assumptions.releases(name) => (None, false),
            Some(owner) => (Some(self.idle(owner, name)), false),
        };
        Wait::Finalizer {
            name: Arc::clone(name),
            known,
            reason,
            is_undecided,
        }
    }

    /// Why the owner of a finalizer does not act.
    fn idle(&self, owner: Owner, finalizer: &str) -> String {
        let Some(silent) = self.facts.silent_owner(owner, finalizer) else {
            return "it is assumed not to act".to_owned();
        };
        let since = deletion_requested_at(&self.object.meta());
        let lasted = since.map(|since| self.simulation.plane.began().since(since));
        match lasted.filter(|lasted| *lasted > silent.within) {
            Some(lasted) => {
                let (lasted, within) = (span(lasted), span(silent.within));
                format!("it has not for {lasted}, and normally does within {within}")
            }
            None => "other objects show that it does not act".to_owned(),
        }
    }

    /// The reason for which a controller keeps an object now, and whether it cannot decide.
    fn kept(&self, controller: &str) -> (Option<String>, bool) {
        let manager = self.simulation.plane.manager();
        let mut names = manager.controllers().map(|running| running.info().name);
        if !names.any(|name| name == controller) {
            return (Some("it does not run".to_owned()), false);
        }
        let meta = self.object.meta();
        // Pods are counted by the controller of their Job.
        let name = match meta.controller().filter(|_| **self.object.kind() == *"Pod") {
            Some(job) => &job.name,
            None => &meta.name,
        };
        let key = Key::new(Arc::clone(&meta.namespace), Arc::clone(name));
        let Some(decision) = manager.decide(controller, &key) else {
            return (None, false);
        };
        let is_meant = |id: &ObjectId| id.name == meta.name && id.namespace == meta.namespace;
        if let Some(kept) = decision.kept.iter().find(|kept| is_meant(&kept.object)) {
            return (Some(kept.reason.to_string()), false);
        }
        let unknown = decision.unknown.iter().find(|unknown| is_meant(&unknown.object));
        (
            unknown.map(|unknown| unknown.reason.to_string()),
            unknown.is_some(),
        )
    }

    /// The failed conversions that an object waits for.
    fn failed_conversions(&self) -> Vec<Wait> {
        let (server, end) = (&self.simulation.server, self.end);
        let Some(kind) = self.object.kind_id().filter(|_| server.has_broken_conversions()) else {
            return Vec::new();
        };
        let collectors = [metadata::FINALIZER_FOREGROUND, metadata::FINALIZER_ORPHAN];
        let mut finalizers = end.finalizers.iter();
        let mut waits = Vec::new();
        if let Some(finalizer) = finalizers.find(|name| collectors.contains(&&***name)) {
            add(&mut waits, server, self.lists(kind), Some(finalizer));
            if waits.is_empty() {
                add(&mut waits, server, self.lookups(), None);
            }
        }
        if self.is("", "Namespace") {
            // Content that cannot be listed.
            let kinds = server.catalog().iter();
            let kinds = kinds.filter(|(kind, resource)| {
                let is_content =
                    resource.preferred && resource.is_namespaced() && server.is_unlistable(*kind);
                is_content && !server.objects(*kind, Some(&end.name)).is_empty()
            });
            let kinds = kinds.map(|(kind, _)| kind).collect();
            add(&mut waits, server, kinds, Some(&"kubernetes".into()));
        }
        waits
    }

    /// The lists that the garbage collector needs to process an object: that of its kind; all of them before
    /// the collector starts.
    fn lists(&self, kind: KindId) -> Vec<KindId> {
        let (server, collector) = (&self.simulation.server, self.simulation.plane.collector());
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
    fn lookups(&self) -> Vec<KindId> {
        let catalog = self.simulation.server.catalog();
        let graph = self.simulation.plane.collector().graph();
        let owner = &self.end.uid;
        let dependents = blocking(graph, owner);
        let dependents = dependents.iter().filter_map(|object| graph.node(&object.uid));
        let references = dependents.flat_map(|dependent| graph.owners(dependent));
        let references = references.filter(|one| one.uid == *owner);
        let kinds = references.filter_map(|one| catalog.mapping(&one.api_version, &one.kind));
        kinds.collect()
    }
}

/// The dependents that block the deletion of an owner in the foreground.
fn blocking(graph: &Graph, owner: &Uid) -> Vec<ObjectRef> {
    let owner = graph.node(owner).into_iter();
    graph.identities(owner.flat_map(|node| graph.blocking_dependents(node)))
}

fn refused_wait(step: &Step, refusal: &Refusal, finalizer: &Arc<str>, object: &ObjectRef) -> Wait {
    Wait::Refused {
        finalizer: Some(Arc::clone(finalizer)),
        actor: step.actor,
        act: step.act,
        object: object.clone(),
        refusal: refusal.clone(),
    }
}

/// apiVersion and kind of an owner of an object that the API server does not serve.
fn unserved_owner(facts: &Facts, object: &ObjectRef) -> Option<String> {
    let position = facts.positions_of(&object.uid).next()?;
    let mut references = facts.view(position).owner_references();
    let unserved = references.find(|one| {
        let (api_version, kind) = (&one.api_version, &one.kind);
        facts.kind_id(api_version, kind).is_none() && facts.is_unserved(api_version, kind)
    })?;
    Some(format!("{}/{}", unserved.api_version, unserved.kind))
}

const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The objects of the kinds that match, in a namespace or anywhere, by resource. Each object is counted in
/// one version.
fn remaining(
    server: &ApiServer,
    namespace: Option<&str>,
    is_meant: impl Fn(KindId, &ApiResource) -> bool,
) -> Vec<Remaining> {
    let mut found = BTreeMap::<String, Remaining>::new();
    for (id, kind) in server.catalog().iter() {
        let is_countable = kind.preferred && (namespace.is_none() || kind.is_namespaced());
        if !is_countable || server.len(id) == 0 || !is_meant(id, kind) {
            continue;
        }
        let objects: Vec<Arc<StoredObject>> = server.objects(id, namespace);
        let resource = kind.qualified_resource();
        let mut finalizers = BTreeMap::new();
        for name in objects.iter().flat_map(|object| &object.meta.finalizers) {
            *finalizers.entry(Arc::clone(name)).or_default() += 1;
        }
        let of_kind = Remaining {
            resource: resource.clone(),
            count: objects.len(),
            finalizers,
        };
        found.extend((of_kind.count > 0).then_some((resource, of_kind)));
    }
    found.into_values().collect()
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
fn is_among(conversions: &[Wait], by: Option<&RefusedBy>) -> bool {
    let Some(RefusedBy::Conversion(failed)) = by else {
        return false;
    };
    let mut waits = conversions.iter();
    waits.any(|wait| matches!(wait, Wait::Conversion { definition, .. } if definition == failed))
}
