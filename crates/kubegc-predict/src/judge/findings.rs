//! Findings about the fates of a forecast, and about deleted objects that their controllers create again,
//! unless the API server refuses it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use indexmap::IndexSet;
use kubegc_control_plane::{Refusal, Refusals, Simulation, Step, Why};
use kubegc_core::{
    ApiResource, DeleteOptions, KindId, ObjectMeta, ObjectRef, Uid,
    record::{Body, Deployment, Pod, Record, Resource, StatefulSet},
    version::behavior,
};
use kubegc_sim::{ApiServer, Response, StoredObject};
use kubegc_snapshot::{Details, ObjectView, QuotaDetails};
use serde_json::{Map, json};

use super::{Fate, Finding, ObjectFate, Wait, fate_at};
use crate::{
    Intent, Target,
    cycle::cycles,
    facts::{DELETING, Facts, Owner, SIMILAR_MAX, Scope, similar},
    simulate::stored,
};

/// The finding about a delete that the API server refused.
pub(super) fn refused((object, response): (ObjectRef, Response)) -> Finding {
    let message = response.status().map(|status| status.message.clone());
    Finding::Refused {
        object,
        code: response.code,
        message: message.unwrap_or_default(),
    }
}

/// The finding about a simulation that reached its limit.
pub(super) fn did_not_settle(simulation: &Simulation) -> Finding {
    let cycle = simulation.last_cycle().iter();
    let cycle = cycle.map(|step| (step.actor, ObjectRef::clone(&step.object)));
    let cycle: BTreeSet<_> = cycle.collect();
    let steps = simulation.plane.steps();
    Finding::DidNotSettle {
        at: steps.last().map_or(Duration::ZERO, |step| step.at),
        writes: steps.len(),
        cycle: cycle.into_iter().collect(),
    }
}

/// The requests that the API server failed to perform, by message. Those of the client are findings already.
pub(super) fn failures(steps: &[Step]) -> impl Iterator<Item = Finding> {
    let mut failures = BTreeMap::<&Arc<str>, BTreeSet<&ObjectRef>>::new();
    let refusals = Refusals::of(steps);
    let lasts = |step: &&Step| !step.is_conflict() || refusals.contains(step);
    let is_others = |step: &&Step| !matches!(step.why, Why::Intent(_));
    for step in steps.iter().filter(lasts).filter(is_others) {
        if let Some(refusal) = &step.failure {
            failures.entry(&refusal.message).or_default().insert(&step.object);
        }
    }
    let failures = failures.into_iter();
    failures.map(|(message, objects)| Finding::RequestsFail {
        message: Arc::clone(message),
        objects: objects.into_iter().cloned().collect(),
    })
}

/// The kinds that objects in scope refer to, that are declared complete, and of which the dump has no object.
fn missing_kinds(facts: &Facts, scope: &Scope) -> Vec<Finding> {
    let mut counts: BTreeMap<KindId, usize> = BTreeMap::new();
    let mut count = |api_version: &str, kind: &str| {
        if let Some(kind) = facts.kind_id(api_version, kind) {
            *counts.entry(kind).or_default() += 1;
        }
    };
    for position in scope.affected() {
        let view = facts.view(position);
        let references = view.owner_references();
        for reference in references.filter(|owner| owner.controller == Some(true)) {
            count(&reference.api_version, &reference.kind);
        }
        if facts.resource_at(position) == Some(Resource::Pods)
            && let Some(node) = view.record().pod().and_then(|pod| pod.node_name.known())
            && !node.is_empty()
        {
            count("v1", "Node");
        }
    }
    let is_missing = |kind: &ApiResource| {
        let coverage = facts.snapshot.completeness.of(&kind.group, &kind.kind);
        coverage.is_complete() && facts.of_kind(kind).next().is_none()
    };
    let counts = counts.into_iter();
    let kinds = counts.map(|(id, objects)| (&facts.catalog()[id], objects));
    let missing = kinds.filter(|(kind, _)| is_missing(kind));
    let findings = missing.map(|(kind, objects)| Finding::KindMissing {
        kind: kind.kind.to_string(),
        resource: kind.qualified_resource(),
        is_namespaced: kind.is_namespaced(),
        objects,
    });
    findings.collect()
}

/// The terminating objects that wait for each other.
fn cycles_of(fates: &[ObjectFate]) -> impl Iterator<Item = Finding> {
    let terminating = fates.iter().filter(|fate| !fate.fate.waits_for().is_empty());
    let terminating: Vec<&ObjectFate> = terminating.collect();
    let uids = terminating.iter().map(|fate| &fate.object.uid);
    let numbers: BTreeMap<&Uid, usize> = uids.zip(0..).collect();
    let edges = terminating.iter().enumerate().flat_map(|(number, fate)| {
        let dependents = fate.fate.waits_for().iter().flat_map(|wait| match wait {
            Wait::Dependents { blocking } => &**blocking,
            _ => &[],
        });
        let numbers = dependents.filter_map(|blocking| numbers.get(&blocking.object.uid));
        numbers.map(move |dependent| (number, *dependent))
    });
    cycles(edges).into_iter().map(move |members| {
        let objects = members
            .iter()
            .map(|at| ObjectRef::clone(&terminating[*at].object));
        let objects = objects.collect();
        Finding::Cycle { objects }
    })
}

/// The findings about references and controllers of objects in scope.
pub(super) fn of_fates(facts: &Facts, scope: &Scope, fates: &[ObjectFate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The namespaces of deleted objects: their dependents may be in them. The empty one means all.
    let mut namespaces = BTreeSet::new();
    for fate in fates {
        let (position, object) = (fate.position, &fate.object);
        if let Fate::Deleted { .. } | Fate::Terminating { .. } = fate.fate {
            namespaces.insert(&*object.namespace);
        }
        let references = fate.before().owner_references();
        for (reference, owner) in references.zip(facts.edges.owners(position)) {
            let served = facts.kind_id(&reference.api_version, &reference.kind);
            let object = ObjectRef::clone(object);
            findings.extend(match (owner, served) {
                (Owner::Never, Some(_)) => Some(Finding::NamespacedOwnerOfClusterScoped { object }),
                (Owner::Never, None) => {
                    let kind = format!("{}/{}", reference.api_version, reference.kind);
                    Some(Finding::OwnerKindNotServed { object, kind })
                }
                _ => None,
            });
        }
    }
    findings.extend(created_again(facts, fates));
    findings.extend(facts.silent.iter().filter_map(|silent| {
        let is_for_it = |wait: &Wait| match wait {
            Wait::Finalizer { name, known, .. } => {
                known.and_then(|known| facts.silent_owner(known.owner, name)) == Some(silent)
            }
            _ => false,
        };
        let is_its = |fate: &ObjectFate| match &fate.fate {
            Fate::Terminating { waits_for } => waits_for.iter().any(is_for_it),
            _ => *fate.object == silent.object,
        };
        fates.iter().any(is_its).then(|| Finding::DoesNotAct {
            component: silent.component,
            object: silent.object.clone(),
            lasted: silent.lasted,
        })
    }));
    findings.extend(cycles_of(fates));
    findings.extend(missing_kinds(facts, scope));
    if !namespaces.is_empty() {
        let is_unlisted = |resource: &ApiResource| {
            let mut namespaces = namespaces.iter();
            namespaces.any(|namespace| facts.is_unlisted(resource, namespace))
        };
        let settings = kubegc_objects::Settings::new(facts.version);
        let kinds = facts.collectable_kinds();
        let kinds = kinds.filter(|kind| !settings.ignores(kind) && is_unlisted(kind));
        let kinds: Vec<String> = kinds.map(ApiResource::qualified_resource).collect();
        findings.extend((!kinds.is_empty()).then_some(Finding::UnseenDependents { kinds }));
    }
    findings
}

/// The finding that intents select no object, with similar labels and with the namespaces of objects that
/// match.
pub(crate) fn nothing_selected(facts: &Facts, intents: &[Intent]) -> Finding {
    let (mut namespaces, mut elsewhere) = (BTreeSet::new(), BTreeSet::new());
    let mut labels: IndexSet<String, FixedState> = IndexSet::default();
    for intent in intents {
        let Target::Labelled {
            kind,
            namespace,
            selector,
        } = &intent.target
        else {
            continue;
        };
        namespaces.insert(namespace);
        let Ok((_, resource)) = facts.kind(kind) else {
            continue;
        };
        let mut known: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        for position in facts.of_kind(resource) {
            let meta = facts.view(position).meta();
            if selector.matches(&meta) && !meta.namespace.is_empty() {
                elsewhere.insert(format!("-n {}", meta.namespace));
            }
            if namespace.as_ref().is_none_or(|one| *one == meta.namespace) {
                for (label, value) in &meta.labels {
                    let values = known.entry(Arc::clone(label)).or_default();
                    values.insert(Arc::clone(value));
                }
            }
        }
        for (label, value) in selector.wanted_labels() {
            let hint = |known: &Arc<str>, label: &str, value: &str| {
                (Arc::clone(known), format!("-l {label}={value}"))
            };
            let found = match known.get(label) {
                Some(values) => similar(value, values.iter().map(|known| hint(known, label, known))),
                None => similar(label, known.keys().map(|known| hint(known, known, value))),
            };
            labels.extend(found);
        }
    }
    let namespace = namespaces.first().filter(|_| namespaces.len() == 1);
    Finding::NothingSelected {
        namespace: namespace.and_then(|namespace| namespace.as_ref().cloned()),
        similar: elsewhere.into_iter().chain(labels).take(SIMILAR_MAX).collect(),
    }
}

/// The reaction of a controller to the deletion of a dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recreation {
    Certain,
    Possible,
    Never,
}

/// The findings about deleted objects whose controllers are kept.
///
/// A kind without a known controller may create any of its dependents again.
///
/// # Complexity
/// O(n log n) for n fates and dependents of their controllers.
fn created_again(facts: &Facts, fates: &[ObjectFate]) -> Vec<Finding> {
    let recreations = Recreations { facts, fates };
    let mut deleted: BTreeMap<u32, Vec<&ObjectFate>> = BTreeMap::new();
    let is_deleted =
        |fate: &&ObjectFate| matches!(fate.fate, Fate::Deleted { .. } | Fate::Terminating { .. });
    for fate in fates.iter().filter(is_deleted) {
        let references = fate.before().owner_references();
        for (reference, owner) in references.zip(facts.edges.owners(fate.position)) {
            if let Owner::At(owner) = owner
                && reference.controller == Some(true)
                && recreations.is_kept(owner)
            {
                deleted.entry(owner).or_default().push(fate);
            }
        }
    }
    // A server for each namespace, in which objects are created one after another.
    let mut servers: BTreeMap<&str, Option<ApiServer>> = BTreeMap::new();
    let mut refused_creation = |deleted: &ObjectFate| {
        let object = facts.view(deleted.position);
        let namespace = object.namespace();
        let known = servers.entry(namespace);
        let server = known
            .or_insert_with(|| server(facts, fates, namespace))
            .as_mut()?;
        refusal(&server.create(object.kind_id()?, namespace, renewed(object)))
    };
    let mut findings: Vec<Finding> = recreations.addresses().collect();
    for (owner, deleted) in deleted {
        let record = facts.record(owner);
        let [certain, possible] = recreations.pods_to_create(owner, &record);
        for (number, fate) in deleted.into_iter().enumerate() {
            let recreation = match &*record.body {
                Body::ReplicaSet(_) if number < certain => Recreation::Certain,
                Body::ReplicaSet(_) if number >= possible => Recreation::Never,
                _ => recreations.of_dependent(&record, fate),
            };
            if recreation == Recreation::Never {
                continue;
            }
            let (object, controller) = (ObjectRef::clone(&fate.object), facts.object_ref(owner));
            findings.push(match refused_creation(fate) {
                Some(refusal) => Finding::NotCreatedAgain {
                    object,
                    controller,
                    refusal,
                },
                None => Finding::CreatedAgain {
                    object,
                    controller,
                    is_certain: recreation == Recreation::Certain,
                },
            });
        }
    }
    findings
}

struct Recreations<'a> {
    facts: &'a Facts,
    fates: &'a [ObjectFate],
}

impl Recreations<'_> {
    /// The deleted IPAddresses of Services that are kept: the API server finds within a minute that they are
    /// missing.
    ///
    /// # Upstream
    /// [`ipallocator/controller/repairip.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/ipallocator/controller/repairip.go)
    fn addresses(&self) -> impl Iterator<Item = Finding> {
        let has_addresses = self.facts.version.has(behavior::ADDRESSES_ARE_OBJECTS);
        let deleted = self.fates.iter().filter(move |fate| {
            has_addresses && *fate.object.kind == *"IPAddress" && matches!(fate.fate, Fate::Deleted { .. })
        });
        deleted.filter_map(|fate| {
            let record = self.facts.record(fate.position);
            let Body::IpAddress(address) = &*record.body else {
                return None;
            };
            let parent = address.parent.known().filter(|parent| parent.is_service())?;
            let (services, namespace) = (Resource::Services, &parent.namespace);
            let service = self.facts.by_name(services, namespace, &parent.name)?;
            self.is_kept(service).then(|| Finding::CreatedAgain {
                object: ObjectRef::clone(&fate.object),
                controller: self.facts.object_ref(service),
                is_certain: true,
            })
        })
    }

    fn is_kept(&self, position: u32) -> bool {
        match fate_at(self.fates, position) {
            Some(state) => matches!(state.fate, Fate::Kept | Fate::Released { .. }),
            None => !self.facts.has(position, DELETING),
        }
    }

    /// The reaction of a controller to the deletion of one dependent.
    fn of_dependent(&self, owner: &Record, fate: &ObjectFate) -> Recreation {
        match (&*owner.body, self.facts.resource_at(fate.position)) {
            (Body::StatefulSet(set), Some(Resource::Pods)) => pod_of_stateful_set(&owner.meta, set, fate),
            (Body::StatefulSet(set), Some(Resource::ControllerRevisions)) => {
                match set.update_revision.known() {
                    Some(current) if *current != fate.object.name => Recreation::Never,
                    _ => Recreation::Possible,
                }
            }
            (Body::DaemonSet(_), Some(Resource::Pods)) => self.pod_of_daemon_set(fate.position),
            (Body::Deployment(deployment), Some(Resource::ReplicaSets)) => {
                self.replica_set_of_deployment(deployment, fate)
            }
            // It creates Jobs by its schedule, whether earlier Jobs exist or not.
            (Body::CronJob(_), _) => Recreation::Never,
            (Body::Job(job), _) if matches!(job.finished(), Some(Some(_))) => Recreation::Never,
            (Body::Job(job), _) if job.is_suspended.known() == Some(&true) => Recreation::Never,
            _ => Recreation::Possible,
        }
    }

    /// A ReplicaSet creates as many pods as are missing: the number that it certainly creates, and that it
    /// may create. Terminating and finished pods do not count.
    ///
    /// # Upstream
    /// [`manageReplicas`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/replicaset/replica_set.go).
    fn pods_to_create(&self, owner: u32, record: &Record) -> [usize; 2] {
        let replicas = record.replica_set().and_then(|set| set.replicas.known());
        let Some(&replicas) = replicas else {
            return [0, usize::MAX];
        };
        let pods = self.facts.edges.dependents(owner).iter();
        let states = pods.filter_map(|&position| self.is_active_pod(position, &record.meta));
        let (active, others): (Vec<_>, Vec<_>) = states
            .filter(|state| *state != Some(false))
            .partition(Option::is_some);
        let missing = usize::try_from(replicas)
            .unwrap_or(0)
            .saturating_sub(active.len());
        match self.facts.is_complete_in(Resource::Pods, &record.meta.namespace) {
            true => [missing.saturating_sub(others.len()), missing],
            false => [0, missing],
        }
    }

    /// Whether a dependent of a ReplicaSet counts as one of its replicas at the end; `Some(None)` if that is
    /// unknown, `None` if the dependent is not a pod of it.
    fn is_active_pod(&self, position: u32, owner: &ObjectMeta) -> Option<Option<bool>> {
        if self.facts.resource_at(position) != Some(Resource::Pods) {
            return None;
        }
        let pod = self.facts.record(position);
        pod.meta.controller().filter(|one| one.uid == owner.uid)?;
        let is_deleted = match fate_at(self.fates, position).map(|state| &state.fate) {
            Some(Fate::Deleted { .. } | Fate::Terminating { .. }) => Some(true),
            Some(Fate::Undetermined { .. }) => None,
            Some(Fate::Kept | Fate::Released { .. }) | None => Some(pod.meta.is_deleting()),
        };
        let is_finished = pod.pod().and_then(Pod::has_final_phase);
        Some(match (is_deleted, is_finished) {
            (Some(true), _) | (_, Some(true)) => Some(false),
            (Some(false), Some(false)) => Some(true),
            _ => None,
        })
    }

    /// A DaemonSet has a pod on each suitable node. The deleted pod was running on its node, which is
    /// therefore suitable unless it has changed.
    fn pod_of_daemon_set(&self, pod: u32) -> Recreation {
        let record = self.facts.record(pod);
        let node = record.pod().and_then(|pod| pod.node_name.known());
        let Some(name) = node.filter(|name| !name.is_empty()) else {
            return Recreation::Possible;
        };
        let has_no_taints = |node: u32| {
            let record = self.facts.record(node);
            let taints = record.node().and_then(|node| node.taints.known());
            taints.is_some_and(Vec::is_empty)
        };
        match self.facts.by_name(Resource::Nodes, "", name) {
            Some(node) if self.is_kept(node) && has_no_taints(node) => Recreation::Certain,
            None if self.facts.is_complete(Resource::Nodes) => Recreation::Never,
            _ => Recreation::Possible,
        }
    }

    /// A Deployment creates the ReplicaSet of its template when the earlier one is removed, unless it is
    /// paused. It creates no other ReplicaSet.
    ///
    /// # Upstream
    /// [`getNewReplicaSet`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/deployment/sync.go).
    fn replica_set_of_deployment(&self, deployment: &Deployment, fate: &ObjectFate) -> Recreation {
        if deployment.is_paused.known() == Some(&true) {
            return Recreation::Never;
        }
        let record = self.facts.record(fate.position);
        let set = record.replica_set();
        let template = set.and_then(|set| set.template_digest.known());
        let is_removed = matches!(fate.fate, Fate::Deleted { .. });
        match (deployment.template_digest.known(), template) {
            (Some(wanted), Some(template)) if wanted != template => Recreation::Never,
            (Some(_), Some(_)) if is_removed && deployment.is_paused.known().is_some() => Recreation::Certain,
            _ => Recreation::Possible,
        }
    }
}

/// A StatefulSet creates the pods of its ordinals, each when the earlier one is removed.
///
/// # Upstream
/// [`updateStatefulSet`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_set_control.go).
fn pod_of_stateful_set(meta: &ObjectMeta, set: &StatefulSet, fate: &ObjectFate) -> Recreation {
    let ordinal = fate.object.name.strip_prefix(&*meta.name);
    let ordinal = ordinal.and_then(|rest| rest.strip_prefix('-')?.parse::<i64>().ok());
    let Some(ordinal) = ordinal else {
        return Recreation::Never;
    };
    let (Some(&replicas), Some(&first)) = (set.replicas.known(), set.first_ordinal.known()) else {
        return Recreation::Possible;
    };
    let first = i64::from(first);
    match (first..first + i64::from(replicas)).contains(&ordinal) {
        true if matches!(fate.fate, Fate::Deleted { .. }) => Recreation::Certain,
        true => Recreation::Possible,
        false => Recreation::Never,
    }
}

/// A server with the quotas of a namespace, after the deletion of its objects; `None` if it refuses nothing.
fn server(facts: &Facts, fates: &[ObjectFate], namespace: &str) -> Option<ApiServer> {
    let mut server = facts.empty_server.clone();
    let mut has_quotas = false;
    let quotas = facts.named("", "ResourceQuota").map(|at| facts.view(at));
    for object in quotas.filter(|quota| **quota.namespace() == *namespace) {
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
    let is_counted = |fate: &&ObjectFate| has_quotas && *fate.object.namespace == *namespace;
    for fate in fates.iter().filter(is_counted).filter(is_deleted) {
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
