//! Finds the causes that keep objects in deletion, and what each blocks, in the forecast without deletes and
//! in the refusals that a dump quotes: in the conditions of namespaces and workloads, and in Events.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_control_plane::{
    Refusal, Refusals, RefusedBy,
    finalizers::{self, OVERDUE, Owner},
};
use kubegc_core::{
    ObjectMeta, ObjectRef, Timestamp,
    identity::split_api_version,
    record::{Body, Condition, Record, Resource},
};
use kubegc_snapshot::Details;

use super::{Cause, NAMED_MAX, Proof, RootCause, STORAGE_DELETERS};
use crate::{
    Step,
    facts::{Extension, Facts, Relation, conditions, deletion_requested_at},
    judge::{
        BlockedBy, Fate, Finding, Forecast, Missing, ObjectFate, Wait, evidence::LONG_OVERDUE, fate_at,
        sentence,
    },
};

pub(super) const PV_PROTECTION: &str = "kubernetes.io/pv-protection";
pub(super) const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Parts of the messages of conditions that blame what refuses requests.
const BLAMES: [&str; 5] = [
    "webhook \"",
    "conversion webhook",
    "denied request",
    "is forbidden",
    "the object has been modified",
];

/// Finds the causes in the forecast without deletes.
pub(super) struct Finder<'c> {
    pub(super) facts: &'c Facts,
    pub(super) pending: &'c Forecast,
    pub(super) now: Timestamp,
    /// The objects that stay because the API server refuses their deletion.
    pub(super) refused: BTreeMap<u32, &'c Step>,
    found: IndexMap<Cause, Found, FixedState>,
    /// The requests that the API server refuses although their objects are not deleted.
    pub(super) requests: BTreeMap<u32, String>,
}

/// A cause, as far as it is known where it is found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) proof: Proof,
    pub(super) roots: BTreeSet<u32>,
    /// Evidence that does not come from the blocked objects.
    pub(super) evidence: Vec<String>,
}

impl<'c> Finder<'c> {
    pub(super) fn new(facts: &'c Facts, forecast: &'c Forecast) -> Self {
        let refusals = Refusals::of(&forecast.timeline);
        let refused = forecast.fates.iter().filter_map(|fate| {
            let is_kept = matches!(fate.fate, Fate::Kept | Fate::Released { .. });
            let uid = &fate.object.uid;
            let mut steps = refusals.about(uid).filter(|_| is_kept);
            let step = steps.find(|step| step.is_delete() && step.object.uid == *uid)?;
            Some((fate.position, step))
        });
        Self {
            facts,
            pending: forecast,
            now: forecast.began,
            refused: refused.collect(),
            found: IndexMap::default(),
            requests: BTreeMap::new(),
        }
    }

    /// Finds them, in the order of their proofs. Those of broken extensions are first.
    ///
    /// # Complexity
    /// O(t) for t terminating objects, and the number of objects that each cause blocks.
    pub(super) fn causes(&mut self) -> Vec<RootCause> {
        let facts = self.facts;
        for broken in &facts.broken_extensions {
            self.add(Cause::Extension(broken.clone()), Proof::Seen, []);
        }
        self.add_reported();
        for (position, step) in self.refused.clone() {
            if let Some(refusal) = &step.failure {
                self.add_refused(refusal, Proof::Refused, position);
            }
        }
        for fate in &self.pending.fates {
            self.add_waits(fate);
            self.add_condition(fate);
            if let Some((cause, proof)) = self.unforeseen(fate) {
                self.add(cause, proof, [fate.position]);
            }
        }
        for fate in &self.pending.fates {
            self.add_unseen(fate);
        }
        for finding in &self.pending.findings {
            if let Finding::Cycle { objects } = finding {
                let uids = objects.iter().map(|object| &object.uid);
                let positions = uids.flat_map(|uid| facts.positions_of(uid));
                self.add(Cause::ForegroundCycle(objects.clone()), Proof::Seen, positions);
            }
        }
        for silent in &facts.silent {
            let positions = facts.positions_of(&silent.object.uid);
            self.add(Cause::Component(silent.component), Proof::Overdue, positions);
        }
        self.add_rest();
        let found = mem::take(&mut self.found).into_iter();
        let causes = found.filter_map(|(cause, found)| self.root_cause(&cause, found));
        let mut causes: Vec<RootCause> = causes.collect();
        causes.sort_by_key(|cause| cause.proof);
        causes
    }

    /// The fate of the object at a position, if it is affected.
    pub(super) fn fate(&self, position: u32) -> Option<&'c ObjectFate> {
        fate_at(&self.pending.fates, position)
    }

    fn add(&mut self, cause: Cause, proof: Proof, positions: impl IntoIterator<Item = u32>) -> &mut Found {
        let found = self.found.entry(cause).or_insert_with(|| Found {
            proof,
            roots: BTreeSet::new(),
            evidence: Vec::new(),
        });
        found.proof = found.proof.min(proof);
        found.roots.extend(positions);
        found
    }

    /// Adds what refuses the requests of controllers, as the conditions of workloads and Events quote it.
    fn add_reported(&mut self) {
        let facts = self.facts;
        for (position, message, evidence) in reported(facts) {
            let Some(by) = refused_by(facts, &message) else {
                continue;
            };
            let request = match (&by, message.split_once(' ')) {
                (RefusedBy::Conflict, _) | (_, None) => "change".to_owned(),
                (_, Some((resource, _))) => format!("creation of {resource}"),
            };
            let by = Some(by);
            let found = self.add_refused(&Refusal { message, by }, Proof::Seen, position);
            if found.evidence.len() < NAMED_MAX {
                found.evidence.push(evidence);
            }
            self.requests.insert(position, request);
        }
    }

    fn add_refused(&mut self, refusal: &Refusal, proof: Proof, position: u32) -> &mut Found {
        let facts = self.facts;
        let mut broken = facts.broken_extensions.iter();
        let extension = broken.find(|one| match (&refusal.by, &one.extension) {
            (Some(RefusedBy::Webhook(by)), Extension::Webhook { name, .. }) => by == name,
            (Some(RefusedBy::Conversion(by)), Extension::Conversion) => *by == one.object.name,
            _ => false,
        });
        let namespace = |at: u32| facts.view(at).namespace();
        // Each object that a policy keeps has a message of its own. Quotas have the name of another one in
        // other namespaces, and each object has its own other writers.
        let is_same = |(cause, found): &(&Cause, &Found)| match (cause, &refusal.by) {
            (Cause::Refused(known), Some(by)) if known.by == refusal.by => match by {
                RefusedBy::Conflict => found.roots.contains(&position),
                RefusedBy::Quota(_) => found.roots.iter().any(|at| namespace(*at) == namespace(position)),
                _ => true,
            },
            _ => false,
        };
        let cause = match extension {
            Some(extension) => Cause::Extension(extension.clone()),
            None => {
                let known = self.found.iter().find(is_same).map(|(cause, _)| cause.clone());
                known.unwrap_or_else(|| Cause::Refused(refusal.clone()))
            }
        };
        self.add(cause, proof, [position])
    }

    fn add_waits(&mut self, fate: &'c ObjectFate) {
        let (facts, position) = (self.facts, fate.position);
        for wait in fate.fate.waits_for() {
            match wait {
                Wait::Refused { refusal, .. } => {
                    self.add_refused(refusal, Proof::Refused, position);
                }
                Wait::Dependents { blocking } => {
                    for dependent in blocking {
                        let mut at = facts.positions_of(&dependent.object.uid);
                        match &dependent.because {
                            // A cause keeps the dependent, which keeps the object.
                            Some(BlockedBy::Refused(_)) if at.any(|at| self.refused.contains_key(&at)) => {}
                            Some(BlockedBy::Refused(refusal)) => {
                                self.add_refused(refusal, Proof::Refused, position);
                            }
                            Some(BlockedBy::OwnerNotServed(kind)) => {
                                let (object, kind) = (dependent.object.clone(), kind.clone());
                                self.add(Cause::OwnerNotServed { object, kind }, Proof::Seen, [position]);
                            }
                            None => {}
                        }
                    }
                }
                wait => {
                    let Some(cause) = self.cause_of(wait, position) else {
                        continue;
                    };
                    if let Cause::Component(_) | Cause::Finalizer(_) = cause
                        && let Some(refusal) = facts.refused_removal(position)
                    {
                        self.add_refused(&refusal, Proof::Refused, position);
                    }
                    let proof = match &cause {
                        Cause::Component(name) if facts.acts_as_assumed(name) => Proof::Assumed,
                        Cause::Component(_) | Cause::Finalizer(_) => Proof::Overdue,
                        _ => Proof::Seen,
                    };
                    self.add(cause, proof, [position]);
                }
            }
        }
    }

    /// Adds what the condition of a terminating namespace blames. The forecast assumes that webhooks whose
    /// Service may exist can be reached, and that policies allow every request.
    fn add_condition(&mut self, fate: &ObjectFate) {
        for message in messages(fate, CONTENT_FAILURE) {
            if !BLAMES.iter().any(|part| message.contains(*part)) {
                continue;
            }
            let webhooks = self.facts.webhooks_in(&message);
            if webhooks.is_empty() {
                let by = refused_by(self.facts, &message);
                self.add_refused(&Refusal { message, by }, Proof::Seen, fate.position);
            }
            for webhook in webhooks {
                self.add(Cause::Extension(webhook), Proof::Seen, [fate.position]);
            }
        }
    }

    /// Adds the finalizers of content that is not in the dump, as the condition of a terminating namespace
    /// names them.
    fn add_unseen(&mut self, fate: &ObjectFate) {
        let position = fate.position;
        for message in messages(fate, FINALIZERS_REMAINING) {
            for name in counted(&message, " in ") {
                let cause = match finalizers::find(name).map(|known| known.owner) {
                    Some(Owner::External(component)) => Cause::Component(component),
                    None | Some(Owner::Operator(_)) => Cause::Finalizer(name.into()),
                    Some(_) => continue,
                };
                let is_seen = self.found.get(&cause).is_some_and(|found| {
                    let blocked = self.blocked(&cause, &found.roots);
                    blocked.iter().any(|(at, _)| *at == position)
                });
                if !is_seen {
                    self.add(cause, Proof::Seen, [position]);
                    self.found.retain(|cause, _| match cause {
                        Cause::UnseenContent { object, .. } => *object != *fate.object,
                        _ => true,
                    });
                }
            }
        }
    }

    /// The cause of a wait that names it.
    fn cause_of(&self, wait: &Wait, position: u32) -> Option<Cause> {
        let facts = self.facts;
        let extension = |kind: &str, name: &Arc<str>| {
            let mut broken = facts.broken_extensions.iter();
            let found = broken.find(|one| *one.object.kind == *kind && one.object.name == *name);
            found.cloned().map(Cause::Extension)
        };
        match wait {
            Wait::Discovery { api_service, .. } => extension("APIService", api_service),
            Wait::Conversion { definition, .. } => extension("CustomResourceDefinition", definition),
            Wait::Kubelet { node, overdue_since } => {
                let node = Arc::clone(node.as_ref()?);
                let object = facts.by_name(Resource::Nodes, "", &node);
                let object = object.map(|at| facts.object_ref(at));
                Some(match overdue_since {
                    Some(_) => Cause::PodNotEnded(node),
                    None => Cause::LostNode { node, object },
                })
            }
            Wait::Finalizer { name, known, .. } => match known.map(|known| known.owner) {
                None | Some(Owner::Operator(_)) => Some(Cause::Finalizer(Arc::clone(name))),
                Some(Owner::External(component)) => Some(Cause::Component(component)),
                Some(owner) if owner != Owner::ApiServer && !facts.assumptions.runs(owner.name()) => {
                    let silent = facts.silent_owner(owner, name);
                    Some(Cause::Component(
                        silent.map_or(owner.name(), |silent| silent.component),
                    ))
                }
                Some(_) => self.in_use(name, position),
            },
            _ => None,
        }
    }

    /// What uses a claim or volume, if it is not being deleted.
    fn in_use(&self, finalizer: &str, position: u32) -> Option<Cause> {
        let facts = self.facts;
        let user = match finalizer {
            PVC_PROTECTION => Resource::Pods,
            PV_PROTECTION => Resource::PersistentVolumeClaims,
            _ => return None,
        };
        let is_ending = |at: u32| {
            let fate = self.fate(at).map(|fate| &fate.fate);
            matches!(fate, Some(Fate::Deleted { .. } | Fate::Terminating { .. }))
        };
        let related = facts.related(position).into_iter();
        let readers = related.filter(|one| one.relation == Relation::Read);
        let readers = readers.map(|one| one.position);
        let users = readers.filter(|at| facts.resource_at(*at) == Some(user) && !is_ending(*at));
        let users: BTreeSet<u32> = users.collect();
        let users: Vec<ObjectRef> = users.into_iter().map(|at| facts.object_ref(at)).collect();
        let object = facts.object_ref(position);
        (!users.is_empty()).then_some(Cause::InUse { object, users })
    }

    /// A cause that the forecast does not show, because it assumes that controllers have no bugs, or because
    /// it cannot tell whether there is content.
    fn unforeseen(&self, fate: &ObjectFate) -> Option<(Cause, Proof)> {
        let (facts, view) = (self.facts, fate.before());
        if !view.is_deleting() {
            return None;
        }
        let meta = view.meta();
        if facts.leaks_job_tracking(fate.position, &meta) {
            return Some((Cause::JobTracking, Proof::Assumed));
        }
        if matches!(fate.fate, Fate::Deleted { .. }) {
            let lasted = self.now.since(deletion_requested_at(&meta)?);
            let deleter = storage_deleter(&meta).filter(|_| lasted > LONG_OVERDUE);
            return deleter.map(|name| (Cause::Component(name), Proof::Overdue));
        }
        let mut missing = fate.fate.missing().iter().filter(|_| self.is_overdue(fate));
        missing.find_map(|missing| match missing {
            Missing::Content { object, resources } if *object == *fate.object => {
                let (object, resources) = (object.clone(), resources.clone());
                Some((Cause::UnseenContent { object, resources }, Proof::Missing))
            }
            _ => None,
        })
    }

    /// Whether an object has been terminating for longer than the components of a cluster need.
    fn is_overdue(&self, fate: &ObjectFate) -> bool {
        let deleted_at = fate.before().meta().deletion_timestamp;
        deleted_at.is_some_and(|at| self.now.since(at) > OVERDUE)
    }

    /// Adds the objects that none of the causes keeps: the terminating ones, those that wait for others last,
    /// and then those that have been terminating for long where the dump does not show what they wait for.
    fn add_rest(&mut self) {
        let found = self.found.iter();
        let reached = found.flat_map(|(cause, found)| self.blocked(cause, &found.roots));
        let mut reached: BTreeSet<u32> = reached.map(|(at, _)| at).collect();
        let is_other = |wait: &Wait| matches!(wait, Wait::Dependents { .. } | Wait::Content { .. });
        let mut fates: Vec<&ObjectFate> = self.pending.fates.iter().collect();
        fates.sort_by_key(|fate| {
            let fate = &fate.fate;
            (!fate.missing().is_empty(), fate.waits_for().iter().any(is_other))
        });
        for fate in fates {
            let position = fate.position;
            if reached.contains(&position) {
                continue;
            }
            if let Some((cause, proof)) = self.unexplained(fate) {
                let blocked = self.blocked(&cause, &BTreeSet::from([position]));
                reached.extend(blocked.into_iter().map(|(at, _)| at));
                self.add(cause, proof, [position]);
            }
        }
    }

    /// The cause for an object that no other cause keeps.
    fn unexplained(&self, fate: &ObjectFate) -> Option<(Cause, Proof)> {
        let object = ObjectRef::clone(&fate.object);
        if let Some(missing) = fate.fate.missing().first() {
            let wait = format!("terminating, and the dump does not show why; unknown is {missing}");
            let cause = Cause::Other { object, wait };
            return self.is_overdue(fate).then_some((cause, Proof::Missing));
        }
        let waits_for = fate.fate.waits_for();
        let any = |is_meant: fn(&Wait) -> bool| waits_for.iter().any(is_meant);
        // The controller acts soon, if nothing keeps it from doing so that the dump does not show.
        let is_undecided = any(|wait| {
            matches!(
                wait,
                Wait::Finalizer {
                    is_undecided: true,
                    ..
                }
            )
        });
        if waits_for.is_empty() || is_undecided && !self.is_overdue(fate) {
            return None;
        }
        let is_unseen = any(|wait| matches!(wait, Wait::Content { remaining, .. } if remaining.is_empty()));
        let (resources, wait) = (Vec::new(), sentence(&fate.fate));
        Some(match is_unseen {
            true => (Cause::UnseenContent { object, resources }, Proof::Missing),
            false => (Cause::Other { object, wait }, Proof::Overdue),
        })
    }
}

/// The controller that deletes the storage of a volume before it removes its finalizer.
fn storage_deleter(meta: &ObjectMeta) -> Option<&'static str> {
    let owners = meta.finalizers.iter().filter_map(|name| finalizers::find(name));
    let mut names = owners.map(|known| known.owner.name());
    names.find(|name| STORAGE_DELETERS.contains(name))
}

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
fn reported(facts: &Facts) -> Vec<(u32, Arc<str>, String)> {
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
fn refused_by(facts: &Facts, message: &str) -> Option<RefusedBy> {
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
