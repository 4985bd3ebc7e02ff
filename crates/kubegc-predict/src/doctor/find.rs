//! Finds the causes that keep objects in deletion, and what each blocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::Duration,
};

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use kubegc_control_plane::{
    Refusal, Refusals, RefusedBy,
    finalizers::{self, OVERDUE, Owner},
};
use kubegc_core::{
    ObjectMeta, ObjectRef, OwnerReference, Timestamp,
    identity::split_api_version,
    metadata,
    record::{Body, Condition, Record, Resource},
};
use kubegc_snapshot::Details;

use super::{
    Blocked, Cause, Proof, RootCause,
    cause::{NAMED_MAX, STORAGE_DELETERS},
};
use crate::{
    BlockedBy, BrokenExtension, Cluster, Extension, Fate, Finding, Missing, NotRemoved, ObjectFate, Step,
    Wait,
    cluster::{DELETING, HAS_CONTENT, Relation},
    evidence::LONG_OVERDUE,
    report::{sentence, span},
    run::deletion_requested_at,
};

/// The time for which an operator may need to remove its finalizer.
const RECENT: Duration = Duration::from_secs(60);
const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";
const PV_PROTECTION: &str = "kubernetes.io/pv-protection";
const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Finds the causes in the forecast without deletes.
pub(super) struct Finder<'c> {
    pub(super) cluster: &'c Cluster,
    now: Timestamp,
    fates: BTreeMap<u32, &'c ObjectFate>,
    /// The objects that stay because the API server refuses their deletion.
    refused: BTreeMap<u32, &'c Step>,
    /// The causes.
    found: IndexMap<Cause, Found, FixedState>,
    /// The requests that the API server refuses although their objects are not deleted.
    requests: BTreeMap<u32, String>,
}

/// A cause, as far as it is known where it is found.
#[derive(Debug)]
struct Found {
    proof: Proof,
    /// The objects that wait for it directly.
    roots: BTreeSet<u32>,
    /// What shows it, if the blocked objects do not.
    evidence: Vec<String>,
}

impl<'c> Finder<'c> {
    pub(super) fn new(cluster: &'c Cluster) -> Self {
        let forecast = cluster.pending();
        let refusals = Refusals::of(&forecast.timeline);
        let refused = forecast.fates.iter().filter_map(|fate| {
            let is_kept = matches!(fate.fate, Fate::Kept | Fate::Released { .. });
            let uid = &fate.object.uid;
            let mut steps = refusals.about(uid).filter(|_| is_kept);
            let step = steps.find(|step| step.is_delete() && step.object.uid == *uid)?;
            Some((fate.position, step))
        });
        Self {
            cluster,
            now: forecast.began,
            refused: refused.collect(),
            fates: forecast.fates.iter().map(|fate| (fate.position, fate)).collect(),
            found: IndexMap::default(),
            requests: BTreeMap::new(),
        }
    }

    /// Finds them, in the order of their proofs. Those of broken extensions are first.
    ///
    /// # Complexity
    /// O(t) for t terminating objects, and the number of objects that each cause blocks.
    pub(super) fn causes(mut self) -> Vec<RootCause> {
        let cluster = self.cluster;
        for broken in cluster.broken_extensions() {
            self.add(Cause::Extension(broken.clone()), Proof::Seen, []);
        }
        self.add_reported();
        let refused: Vec<(u32, &Step)> = self.refused.iter().map(|(at, step)| (*at, *step)).collect();
        for (position, step) in refused {
            if let Some(refusal) = &step.failure {
                self.add_refused(refusal, Proof::Refused, position);
            }
        }
        for fate in &cluster.pending().fates {
            self.add_waits(fate);
            self.add_condition(fate);
            if let Some((cause, proof)) = self.unforeseen(fate) {
                self.add(cause, proof, [fate.position]);
            }
        }
        for fate in &cluster.pending().fates {
            self.add_unseen(fate);
        }
        for finding in &cluster.pending().findings {
            if let Finding::Cycle { objects } = finding {
                let positions = objects
                    .iter()
                    .flat_map(|object| cluster.positions_of(&object.uid));
                let members = objects.clone();
                self.add(Cause::ForegroundCycle { members }, Proof::Seen, positions);
            }
        }
        for silent in &cluster.silent {
            let name = silent.component;
            let positions = cluster.positions_of(&silent.object.uid);
            self.add(Cause::Component { name }, Proof::Overdue, positions);
        }
        self.add_rest();
        self.add_undetermined();
        let found = mem::take(&mut self.found).into_iter();
        let causes = found.filter_map(|(cause, found)| self.root_cause(cause, found));
        let mut causes: Vec<RootCause> = causes.collect();
        causes.sort_by_key(|cause| cause.proof);
        causes
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
        let cluster = self.cluster;
        for reported in reported(cluster) {
            let Reported {
                position,
                message,
                evidence,
            } = reported;
            let Some(by) = refused_by(cluster, &message) else {
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

    /// Adds what refuses a request.
    fn add_refused(&mut self, refusal: &Refusal, proof: Proof, position: u32) -> &mut Found {
        let cluster = self.cluster;
        let mut broken = cluster.broken_extensions().iter();
        let extension = broken.find(|one| match (&refusal.by, &one.extension) {
            (Some(RefusedBy::Webhook(by)), Extension::Webhook { name, .. }) => by == name,
            (Some(RefusedBy::Conversion(by)), Extension::Conversion { .. }) => *by == one.object.name,
            _ => false,
        });
        let namespace = |at: u32| {
            cluster
                .snapshot
                .view(at as usize)
                .map(|view| Arc::clone(view.namespace()))
        };
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
        let Fate::Terminating { waits_for } = &fate.fate else {
            return;
        };
        let (cluster, position) = (self.cluster, fate.position);
        for wait in waits_for {
            match wait {
                Wait::Refused { refusal, .. } => {
                    self.add_refused(refusal, Proof::Refused, position);
                }
                Wait::Dependents { blocking } => {
                    for dependent in blocking {
                        let mut at = cluster.positions_of(&dependent.object.uid);
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
                    if let Cause::Component { .. } | Cause::Finalizer { .. } = cause
                        && let Some(refusal) = cluster.refused_removal(position)
                    {
                        self.add_refused(&refusal, Proof::Refused, position);
                    }
                    let proof = match &cause {
                        Cause::Component { name } if cluster.acts_as_assumed(name) => Proof::Assumed,
                        Cause::Component { .. } | Cause::Finalizer { .. } => Proof::Overdue,
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
            let mut blames = [
                "webhook \"",
                "conversion webhook",
                "denied request",
                "is forbidden",
                "the object has been modified",
            ]
            .iter();
            if !blames.any(|part| message.contains(*part)) {
                continue;
            }
            let message = &message;
            let webhooks = self.cluster.webhooks_in(message);
            if webhooks.is_empty() {
                let refusal = Refusal {
                    message: Arc::clone(message),
                    by: refused_by(self.cluster, message),
                };
                self.add_refused(&refusal, Proof::Seen, fate.position);
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
                    Some(Owner::External(name)) => Cause::Component { name },
                    None | Some(Owner::Operator(_)) => Cause::Finalizer { name: name.into() },
                    Some(_) => continue,
                };
                let is_seen = self.found.get(&cause).is_some_and(|found| {
                    let blocked = self.blocked(&cause, &found.roots);
                    blocked.iter().any(|(at, _)| *at == position)
                });
                if !is_seen {
                    self.add(cause, Proof::Seen, [position]);
                    let is_its = |cause: &Cause| match cause {
                        Cause::UnseenContent { object, .. } => *object == *fate.object,
                        _ => false,
                    };
                    self.found.retain(|cause, _| !is_its(cause));
                }
            }
        }
    }

    /// The cause of a wait that names it.
    fn cause_of(&self, wait: &Wait, position: u32) -> Option<Cause> {
        let cluster = self.cluster;
        let extension = |kind: &str, name: &Arc<str>| {
            let mut broken = cluster.broken_extensions().iter();
            let found = broken.find(|one| *one.object.kind == *kind && one.object.name == *name);
            found.cloned().map(Cause::Extension)
        };
        match wait {
            Wait::Discovery { api_service, .. } => extension("APIService", api_service),
            Wait::Conversion { definition, .. } => extension("CustomResourceDefinition", definition),
            Wait::Kubelet {
                node: Some(node),
                overdue_since: Some(_),
            } => Some(Cause::PodNotEnded {
                node: Arc::clone(node),
            }),
            Wait::Kubelet { node: Some(node), .. } => {
                let object = cluster.by_name(Resource::Nodes, "", node);
                Some(Cause::LostNode {
                    node: Arc::clone(node),
                    object: object.map(|at| cluster.object_ref(at)),
                })
            }
            Wait::Finalizer { name, known, .. } => match known.map(|known| known.owner) {
                None | Some(Owner::Operator(_)) => Some(Cause::Finalizer {
                    name: Arc::clone(name),
                }),
                Some(Owner::External(name)) => Some(Cause::Component { name }),
                Some(owner) if owner != Owner::ApiServer && !cluster.assumptions.runs(owner.name()) => {
                    let silent = cluster.silent_owner(owner, name);
                    Some(Cause::Component {
                        name: silent.map_or(owner.name(), |silent| silent.component),
                    })
                }
                Some(_) => self.in_use(name, position),
            },
            _ => None,
        }
    }

    /// What uses a claim or volume, if it is not being deleted.
    fn in_use(&self, finalizer: &str, position: u32) -> Option<Cause> {
        let cluster = self.cluster;
        let user = match finalizer {
            PVC_PROTECTION => Resource::Pods,
            PV_PROTECTION => Resource::PersistentVolumeClaims,
            _ => return None,
        };
        let is_ending = |at: u32| {
            let fate = self.fates.get(&at).map(|fate| &fate.fate);
            matches!(fate, Some(Fate::Deleted { .. } | Fate::Terminating { .. }))
        };
        let related = cluster.related(position).into_iter();
        let users: BTreeSet<u32> = related
            .filter(|one| one.relation == Relation::Read && cluster.resource_at(one.position) == Some(user))
            .map(|one| one.position)
            .filter(|at| !is_ending(*at))
            .collect();
        let users: Vec<ObjectRef> = users.into_iter().map(|at| cluster.object_ref(at)).collect();
        let (object, first) = (cluster.object_ref(position), users.first()?.clone());
        Some(match user {
            Resource::Pods => Cause::ClaimInUse {
                claim: object,
                pods: users,
            },
            _ => Cause::VolumeBound {
                volume: object,
                claim: first,
            },
        })
    }

    /// A cause that the forecast does not show, because it assumes that controllers have no bugs, or because
    /// it cannot tell whether there is content.
    fn unforeseen(&self, fate: &ObjectFate) -> Option<(Cause, Proof)> {
        let (cluster, view) = (self.cluster, fate.before());
        if !view.is_deleting() {
            return None;
        }
        let meta = view.meta();
        if cluster.leaks_job_tracking(fate.position, &meta) {
            return Some((Cause::JobTracking, Proof::Assumed));
        }
        if matches!(fate.fate, Fate::Deleted { .. }) {
            let lasted = self.now.since(deletion_requested_at(&meta)?);
            return storage_deleter(&meta)
                .filter(|_| lasted > LONG_OVERDUE)
                .map(|name| (Cause::Component { name }, Proof::Overdue));
        }
        let Fate::Undetermined { missing, .. } = &fate.fate else {
            return None;
        };
        let mut missing = missing.iter().filter(|_| self.is_overdue(fate));
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

    /// Adds the terminating objects that none of the causes keeps, those that wait for others last.
    fn add_rest(&mut self) {
        let mut reached = self.reached();
        for is_last in [false, true] {
            for fate in &self.cluster.pending().fates {
                let Fate::Terminating { waits_for } = &fate.fate else {
                    continue;
                };
                let is_other = |wait: &Wait| matches!(wait, Wait::Dependents { .. } | Wait::Content { .. });
                if waits_for.iter().any(is_other) != is_last || reached.contains(&fate.position) {
                    continue;
                }
                // The controller acts soon, if nothing keeps it from doing so that the dump does not show.
                let is_undecided = |wait: &Wait| {
                    let reason = match wait {
                        Wait::Finalizer { reason, .. } => reason.as_ref(),
                        _ => None,
                    };
                    matches!(reason, Some(NotRemoved::Unknown(_)))
                };
                if waits_for.iter().any(is_undecided) && !self.is_overdue(fate) {
                    continue;
                }
                let is_unseen =
                    |wait: &Wait| matches!(wait, Wait::Content { remaining, .. } if remaining.is_empty());
                let object = ObjectRef::clone(&fate.object);
                let (cause, proof) = match waits_for.iter().any(is_unseen) {
                    true => {
                        let resources = Vec::new();
                        (Cause::UnseenContent { object, resources }, Proof::Missing)
                    }
                    false => {
                        let wait = sentence(&fate.fate);
                        (Cause::Other { object, wait }, Proof::Overdue)
                    }
                };
                reached.extend(self.blocked_by_one(&cause, fate.position));
                self.add(cause, proof, [fate.position]);
            }
        }
    }

    /// Adds the objects that have been terminating for long although none of the causes keeps them, where the
    /// dump does not show what they wait for.
    fn add_undetermined(&mut self) {
        let mut reached = self.reached();
        for fate in &self.cluster.pending().fates {
            let Fate::Undetermined { missing, .. } = &fate.fate else {
                continue;
            };
            let Some(missing) = missing.first().filter(|_| self.is_overdue(fate)) else {
                continue;
            };
            if reached.contains(&fate.position) {
                continue;
            }
            let cause = Cause::Other {
                object: ObjectRef::clone(&fate.object),
                wait: format!("terminating, and the dump does not show why; unknown is {missing}"),
            };
            reached.extend(self.blocked_by_one(&cause, fate.position));
            self.add(cause, Proof::Missing, [fate.position]);
        }
    }

    /// The objects that the causes block.
    fn reached(&self) -> BTreeSet<u32> {
        let blocked = self
            .found
            .iter()
            .flat_map(|(cause, found)| self.blocked(cause, &found.roots));
        blocked.map(|(at, _)| at).collect()
    }

    /// The objects that a cause blocks if one object waits for it.
    fn blocked_by_one(&self, cause: &Cause, root: u32) -> impl Iterator<Item = u32> {
        let blocked = self.blocked(cause, &BTreeSet::from([root])).into_iter();
        blocked.map(|(at, _)| at)
    }

    /// The objects that a cause blocks, with the number of objects between: breadth first from those that
    /// wait for it directly.
    fn blocked(&self, cause: &Cause, roots: &BTreeSet<u32>) -> Vec<(u32, usize)> {
        // The forecast assumes that these causes end.
        let is_unforeseen = match cause {
            Cause::JobTracking => true,
            Cause::Component { name } => STORAGE_DELETERS.contains(name),
            _ => false,
        };
        let is_blocked = |at: u32| match self.fates.get(&at).map(|fate| &fate.fate) {
            Some(Fate::Terminating { .. }) => true,
            Some(Fate::Undetermined { .. }) => self.has_fact(at, DELETING),
            Some(Fate::Deleted { .. }) => is_unforeseen && self.has_fact(at, DELETING),
            _ => false,
        };
        let mut seen = roots.clone();
        let mut found: Vec<(u32, usize)> = roots.iter().map(|at| (*at, 0)).collect();
        let mut next = 0;
        while let Some(&(position, depth)) = found.get(next) {
            next += 1;
            for at in self.waiting_for(position) {
                if is_blocked(at) && seen.insert(at) {
                    found.push((at, depth + 1));
                }
            }
        }
        found
    }

    /// The objects that wait for an object while they are terminating.
    fn waiting_for(&self, position: u32) -> Vec<u32> {
        let cluster = self.cluster;
        let Some(view) = cluster.snapshot.view(position as usize) else {
            return Vec::new();
        };
        let mut waiting = Vec::new();
        for reference in view.owner_references().filter(OwnerReference::is_blocking) {
            let owners = cluster.positions_of(&reference.uid);
            waiting.extend(owners.filter(|at| self.has_finalizer(*at, metadata::FINALIZER_FOREGROUND)));
        }
        for related in cluster.related(position) {
            let (at, waits) = (related.position, related.relation == Relation::Waits);
            let is_waiting = match cluster.resource_at(at) {
                Some(Resource::PersistentVolumeClaims) => waits && self.has_finalizer(at, PVC_PROTECTION),
                Some(Resource::PersistentVolumes) => {
                    related.relation == Relation::Follows && self.has_finalizer(at, PV_PROTECTION)
                }
                _ => waits && self.has_fact(at, HAS_CONTENT),
            };
            waiting.extend(is_waiting.then_some(at));
        }
        waiting
    }

    fn has_fact(&self, position: u32, fact: u8) -> bool {
        self.cluster.edges.facts[position as usize] & fact != 0
    }

    /// Whether an object has a finalizer at the end of the forecast, or in the dump if it is removed then.
    fn has_finalizer(&self, position: u32, name: &str) -> bool {
        let after = self.fates.get(&position).and_then(|fate| fate.after.as_deref());
        match (after, self.cluster.snapshot.view(position as usize)) {
            (Some(after), _) => after.finalizers.iter().any(|finalizer| **finalizer == *name),
            (None, Some(view)) => view.finalizers().any(|finalizer| **finalizer == *name),
            (None, None) => false,
        }
    }

    /// The cause with all that belongs to it; `None` if it keeps nothing in deletion.
    fn root_cause(&self, cause: Cause, found: Found) -> Option<RootCause> {
        let blocked = self.blocked(&cause, &found.roots).into_iter();
        let blocks = blocked.filter_map(|(position, depth)| {
            let view = self.cluster.snapshot.view(position as usize)?;
            Some(Blocked {
                object: view.object_ref(),
                since: deletion_requested_at(&view.meta()),
                depth,
                is_refused: self.refused.contains_key(&position),
                refused_request: self.requests.get(&position).cloned(),
                position,
            })
        });
        let mut blocks: Vec<Blocked> = blocks.collect();
        // A component may not even begin a deletion.
        let is_component = matches!(cause, Cause::Component { .. });
        let is_blocked = |one: &Blocked| one.is_in_deletion() || one.refused_request.is_some();
        if !is_component && !blocks.iter().any(is_blocked) {
            blocks.clear();
        }
        let is_extension = matches!(cause, Cause::Extension(_));
        if blocks.is_empty() && !is_extension {
            return None;
        }
        let direct = blocks.iter().filter(|one| one.depth == 0);
        let since = match &cause {
            Cause::Extension(broken) => broken.since,
            Cause::LostNode { object: node, .. } => {
                let ready = node.as_ref().and_then(|node| self.ready(node));
                ready.and_then(|ready| ready.last_transition_time)
            }
            _ => direct.filter_map(|one| one.since).min(),
        };
        let may_be_recent = matches!(
            cause,
            Cause::Finalizer { .. } | Cause::UnseenContent { .. } | Cause::Other { .. }
        );
        let is_recent = |one: &Blocked| {
            let is_namespace = *one.object.kind == *"Namespace";
            let limit = if is_namespace { OVERDUE } else { RECENT };
            // Without anything newer in the dump, its age is not known.
            let age = |since: Timestamp| since < self.now && self.now.since(since) < limit;
            one.since.is_none_or(age)
        };
        let repair = self.repair(&cause, &blocks);
        let mut evidence = found.evidence;
        evidence.extend(self.evidence(&cause, &blocks));
        Some(RootCause {
            proof: found.proof,
            since,
            is_recent: may_be_recent && blocks.iter().all(is_recent),
            evidence,
            actor: repair.actor,
            fixes: repair.fixes,
            warnings: repair.warnings,
            cause,
            blocks,
        })
    }

    fn evidence(&self, cause: &Cause, blocks: &[Blocked]) -> Vec<String> {
        let cluster = self.cluster;
        let mut evidence = Vec::new();
        match cause {
            Cause::Extension(_) | Cause::Refused(_) => {
                evidence.extend(blocks.iter().find_map(|one| self.refusal(one)));
            }
            Cause::Component { name } => {
                let silent = cluster.silent.iter().find(|silent| silent.component == *name);
                let waiting = blocks.iter().find(|_| STORAGE_DELETERS.contains(name));
                let waiting = waiting.and_then(|one| Some((one, one.since?)));
                evidence.push(match (silent, waiting) {
                    (Some(silent), _) => format!(
                        "{} has waited for it for {}, and it normally acts within {}",
                        silent.object.short(),
                        span(silent.lasted),
                        span(silent.within)
                    ),
                    (None, Some((one, since))) => format!(
                        "{} has waited for it for {}: it does not run, or cannot delete the storage",
                        one.object.short(),
                        span(self.now.since(since))
                    ),
                    (None, None) => "it is assumed not to act".to_owned(),
                });
            }
            Cause::Finalizer { name } => evidence.push(cluster.similarity(name)),
            Cause::LostNode { object, .. } => evidence.push(match object {
                Some(node) => match self.ready(node) {
                    Some(ready) => quote(&ready, node),
                    None => format!("{} has no condition Ready", node.short()),
                },
                None => "the node does not exist".to_owned(),
            }),
            _ => {}
        }
        let wanted: &[&str] = match cause {
            Cause::Extension(BrokenExtension {
                extension: Extension::Api { .. },
                ..
            }) => &["NamespaceDeletionDiscoveryFailure"],
            Cause::Extension(_) => &[CONTENT_FAILURE],
            // The cause quotes it.
            Cause::Refused(_) => &[],
            _ => &[CONTENT_REMAINING, FINALIZERS_REMAINING],
        };
        let namespaces = blocks.iter().filter(|one| *one.object.kind == *"Namespace");
        for one in namespaces.take(NAMED_MAX) {
            let record = cluster.snapshot.record_at(one.position as usize);
            let conditions = record
                .as_ref()
                .and_then(|record| record.namespace()?.conditions.known());
            let conditions = conditions.into_iter().flatten();
            let conditions = conditions
                .filter(|condition| condition.is_true() && wanted.contains(&&*condition.condition_type));
            evidence.extend(conditions.map(|condition| quote(condition, &one.object)));
        }
        evidence
    }

    /// The condition `Ready` of a node.
    fn ready(&self, node: &ObjectRef) -> Option<Condition> {
        let snapshot = &self.cluster.snapshot;
        let record = snapshot.find("", &node.kind, "", &node.name)?.record();
        let mut conditions = record.node()?.conditions.known()?.iter();
        conditions
            .find(|condition| *condition.condition_type == *"Ready")
            .cloned()
    }

    /// The refusal of the API server that keeps an object. The condition of a namespace quotes its own.
    fn refusal(&self, blocked: &Blocked) -> Option<String> {
        if *blocked.object.kind == *"Namespace" {
            return None;
        }
        let (actor, refusal) = match self.refused.get(&blocked.position) {
            Some(step) => (step.actor, step.failure.as_ref()?),
            None => match &self.fates.get(&blocked.position)?.fate {
                Fate::Terminating { waits_for } => waits_for.iter().find_map(|wait| match wait {
                    Wait::Refused { actor, refusal, .. } => Some((*actor, refusal)),
                    _ => None,
                })?,
                _ => return None,
            },
        };
        let object = blocked.object.short();
        Some(format!(
            "the API server refuses the request of the {actor} for {object}: {refusal}"
        ))
    }

    /// The resources of which content remains in a namespace, as its condition says.
    pub(super) fn remaining(&self, namespace: &Blocked) -> Vec<String> {
        let fate = self.fates.get(&namespace.position);
        let messages = fate.map_or_else(Vec::new, |fate| messages(fate, CONTENT_REMAINING));
        let names = messages.iter().flat_map(|message| counted(message, " has "));
        names.map(ToOwned::to_owned).collect()
    }

    /// The metadata of an object in the dump.
    pub(super) fn meta(&self, blocked: &Blocked) -> Option<ObjectMeta> {
        Some(self.cluster.snapshot.view(blocked.position as usize)?.meta())
    }
}

/// The controller that deletes the storage of a volume before it removes its finalizer.
fn storage_deleter(meta: &ObjectMeta) -> Option<&'static str> {
    let owners = meta.finalizers.iter().filter_map(|name| finalizers::find(name));
    let mut names = owners.map(|known| known.owner.name());
    names.find(|name| STORAGE_DELETERS.contains(name))
}

/// The messages of the true conditions of this type of a terminating namespace.
fn messages(fate: &ObjectFate, condition_type: &str) -> Vec<Arc<str>> {
    let view = fate.before();
    if !view.is_deleting() || **view.kind() != *"Namespace" {
        return Vec::new();
    }
    let record = view.record();
    let conditions = record
        .namespace()
        .and_then(|namespace| namespace.conditions.known());
    let meant = conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition.is_true() && *condition.condition_type == *condition_type);
    meant.map(|condition| Arc::clone(&condition.message)).collect()
}

/// The names in the condition of a namespace that counts what remains, such as
/// `Some resources are remaining: pods. has 2 resource instances`.
fn counted<'m>(message: &'m str, separator: &'m str) -> impl Iterator<Item = &'m str> {
    let list = message.split_once(": ").map_or("", |(_, list)| list);
    let names = list
        .split(", ")
        .filter_map(move |entry| Some(entry.split_once(separator)?.0));
    names.map(|name| name.trim_end_matches('.'))
}

/// A message of the API server that the dump quotes.
struct Reported {
    /// The object of which it says so.
    position: u32,
    message: Arc<str>,
    evidence: String,
}

/// How often a conflict must have happened: a client that meets one reads the object and tries again.
const CONFLICTS: i64 = 3;

/// The refusals that conditions of Deployments and ReplicaSets and Events quote. A condition tells more about
/// these than an Event, which may be old.
fn reported(cluster: &Cluster) -> Vec<Reported> {
    let snapshot = &cluster.snapshot;
    let mut found = Vec::new();
    for resource in [Resource::ReplicaSets, Resource::Deployments] {
        for position in snapshot.positions_of_kind(resource.group(), resource.kind()) {
            let Some(record) = snapshot.record_at(position) else {
                continue;
            };
            let conditions = failures(&record).into_iter().flatten();
            found.extend(conditions.filter(|one| one.is_true()).map(|condition| Reported {
                position: position as u32,
                message: Arc::clone(&condition.message),
                evidence: quote(condition, &cluster.object_ref(position as u32)),
            }));
        }
    }
    for position in snapshot.positions_of_kind("", "Event") {
        let object = snapshot.object(position);
        let Some(Details::Refusal(event)) = object.as_ref().and_then(|one| one.details.as_deref()) else {
            continue;
        };
        let is_conflict = refused_by(cluster, &event.message) == Some(RefusedBy::Conflict);
        let about = cluster.positions_of(&event.about.uid).next();
        let Some(about) = about.filter(|_| !is_conflict || event.count >= CONFLICTS) else {
            continue;
        };
        let record = snapshot.record_at(about as usize);
        if is_conflict || record.as_ref().and_then(failures).is_none() {
            // It begins with what its controller did.
            let message = event
                .message
                .strip_prefix("Error creating: ")
                .unwrap_or(&event.message);
            found.push(Reported {
                position: about,
                message: message.into(),
                evidence: format!(
                    "event {} of {}: {}",
                    event.reason,
                    event.about.short(),
                    event.message
                ),
            });
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
fn refused_by(cluster: &Cluster, message: &str) -> Option<RefusedBy> {
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
        let mut kinds = cluster.catalog().iter().map(|(_, resource)| resource);
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

/// A condition as evidence.
fn quote(condition: &Condition, of: &ObjectRef) -> String {
    let Condition {
        condition_type,
        status,
        message,
        ..
    } = condition;
    let since = condition.last_transition_time;
    let since = since.map_or_else(String::new, |since| format!(" since {since}"));
    format!(
        "condition {condition_type} of {} is {status}{since}: {message}",
        of.short()
    )
}
