//! Explains the state of an object: owners, dependents, finalizers, requests, and the remaining conditions of
//! its deletion.

use std::{collections::BTreeSet, fmt, sync::Arc};

use kubegc_control_plane::{Act, Refusals, Step, object_ref};
use kubegc_core::{
    ApiResource, KindId, ObjectMeta, ObjectRef, OwnerReference, Timestamp, Uid,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};
use kubegc_sim::{ApiServer, StoredObject};
use serde_json::Value;

use crate::{
    Cluster, Name,
    audit::{Audit, Entry},
    cluster::{Plane, State, reason},
    http::Verb,
};

/// The state of an object and its explanation. Made by [`Cluster::fate`]; failing assertions print its text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    pub object: Name,
    pub state: ObjectState,
    /// Its owners as it last named them, with the state of each.
    pub owners: Vec<Owner>,
    /// Its dependents in the collector's graph.
    pub dependents: Vec<ObjectRef>,
    /// The time of the collector's next retry, and the number of failures.
    pub retry: Option<(Timestamp, u32)>,
    /// The warning of a release that kubegc does not know ([`KubernetesVersion::warning`]), and the
    /// collector's warnings about the object: see its Event `OwnerRefInvalidNamespace`.
    ///
    /// [`KubernetesVersion::warning`]: kubegc_core::KubernetesVersion::warning
    pub warnings: Vec<String>,
    /// The last requests on it, and those that deleted its owners. Requests on other objects of the same name
    /// are left out.
    pub requests: Audit,
    /// The last requests of clients that failed. Writes on objects of its name and those of `requests` are
    /// left out.
    pub failures: Audit,
    /// The requests of the control plane that the API server refuses, each with its cause: those about it,
    /// those about dependents that it orphans, for both of which its deletion waits, and those that would
    /// create dependents of it.
    pub refused: Vec<Step>,
    /// The uids of earlier objects with its name, oldest first.
    pub earlier: Vec<Uid>,
    /// Whether the cluster was settled since the last write of a client and the last advance of the time.
    /// Otherwise the control plane and the clients may have more to do.
    pub settled: bool,
    /// The remaining conditions of its deletion, if it exists.
    pub deleted_once: Vec<String>,
}

#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum ObjectState {
    /// No such object ever existed.
    #[display("never existed{}", match others.as_slice() {
        [] => ", nor any other object of its kind".to_owned(),
        others => format!("; its kind has {}", others.join(", ")),
    })]
    NeverExisted {
        /// The first ten objects of its kind with other names in its namespace, to help find a misspelled
        /// name.
        others: Vec<Arc<str>>,
    },
    /// The cluster serves no kind of its name, and never did.
    #[display("of a kind that the cluster does not serve; {}", match similar {
        Some(similar) => format!("did you mean {similar}?"),
        None => "give its CustomResourceDefinition to the cluster".to_owned(),
    })]
    KindNotServed {
        /// The most similar served kind, such as `apps/v1 Deployment`.
        similar: Option<String>,
    },
    /// It existed and no longer exists.
    #[display("deleted{}", if *replaced { ", and another object has its name" } else { "" })]
    Deleted {
        /// Whether another object has its name now.
        replaced: bool,
    },
    /// It exists and is not being deleted.
    #[display("not being deleted")]
    Exists,
    #[display("terminating, {}", match in_grace_until {
        Some(_) => "in its grace period".to_owned(),
        None => format!("waiting for {}", finalizers.join(", ")),
    })]
    Terminating {
        /// The finalizers that it waits for; for a namespace including those of its spec.
        finalizers: Vec<Arc<str>>,
        /// The first ten dependents that block its deletion, if it waits for its dependents. For a namespace:
        /// the first ten objects left in it.
        blocked_by: Vec<ObjectRef>,
        /// The end of its grace period, if it waits for nothing else.
        in_grace_until: Option<Timestamp>,
    },
}

#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub reference: OwnerReference,
    pub state: OwnerState,
    /// The time of the collector's next retry, and the number of failed attempts so far.
    pub retry: Option<(Timestamp, u32)>,
}

/// The state of an owner, as its reference names it. The text of each state explains it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum OwnerState {
    #[display("exists")]
    Exists,
    #[display("is being deleted")]
    Terminating,
    #[display("is being deleted and waits for its dependents")]
    WaitsForDependents,
    #[display("no longer exists")]
    Deleted,
    #[display("no longer exists, and another object has its name")]
    Replaced,
    /// No object of this name and uid ever existed where the reference points.
    #[display("never existed{}", if *namespaced { " in this namespace" } else { "" })]
    NeverExisted {
        /// Whether that is in the namespace of the dependent.
        namespaced: bool,
    },
    #[display("never existed with this uid: its name belongs to another object")]
    OtherUid,
    #[display(
        "exists only in another namespace: owner references name objects of the namespace of their dependent"
    )]
    InOtherNamespace,
    #[display("is of a kind that is not served: the collector never decides about its dependents")]
    KindNotServed,
    #[display(
        "is namespaced, and its dependent is cluster-scoped: the collector never decides about the dependent"
    )]
    OutOfReach,
}

/// Maximum number of objects and of requests that are shown.
const SHOWN: usize = 10;

impl Cluster {
    /// The state of an object and its explanation.
    ///
    /// # Complexity
    /// Linear in the number of changes and requests so far.
    pub fn fate(&self, object: impl Into<Name>) -> Fate {
        let object = object.into();
        self.inner.shared.with(|server| {
            let state = self.inner.state.lock();
            fate(server, &state, &state.plane, &object)
        })
    }
}

pub(crate) fn fate(server: &ApiServer, state: &State, plane: &Plane, object: &Name) -> Fate {
    let audit = &*state.audit;
    let world = World { server, audit, plane };
    let kind = server.catalog().mapping(&object.api_version, &object.kind);
    let is_meant =
        |stored: &&Arc<StoredObject>| object.uid.as_ref().is_none_or(|uid| *uid == stored.meta.uid);
    let found = kind.and_then(|kind| server.object(kind, &object.namespace, &object.name));
    let seen = kind.map_or_else(Vec::new, |kind| world.seen(kind, object));
    let stored = found.filter(is_meant);
    let last = stored.or_else(|| seen.iter().rev().copied().find(is_meant));
    let mut fate = Fate {
        object: object.clone(),
        state: match (stored, last) {
            (Some(stored), _) => world.object_state(kind, stored),
            (None, Some(_)) => ObjectState::Deleted {
                replaced: found.is_some(),
            },
            (None, None) => world.never_existed(kind, object),
        },
        owners: Vec::new(),
        dependents: Vec::new(),
        retry: None,
        warnings: server.version().warning().into_iter().collect(),
        requests: Audit::default(),
        failures: failures(audit, &[]),
        refused: Vec::new(),
        earlier: Vec::new(),
        settled: state.is_settled,
        deleted_once: Vec::new(),
    };
    let (Some(kind), Some(stored)) = (kind, last) else {
        return fate;
    };
    let meta = &stored.meta;
    fate.object.uid = Some(meta.uid.clone());
    let collector = plane.collects().then(|| plane.control.collector());
    let retry_of = |uid: &Uid| collector?.retry(uid);
    let owners = meta.owner_references.iter().map(|reference| Owner {
        reference: reference.clone(),
        state: world.owner_state(kind, stored, reference),
        retry: retry_of(&reference.uid),
    });
    fate.owners = owners.collect();
    fate.retry = retry_of(&meta.uid);
    if let Some(collector) = collector {
        let graph = collector.graph();
        let node = graph.node(&meta.uid).into_iter();
        fate.dependents = graph.identities(node.flat_map(|node| graph.dependents(node).iter().copied()));
        let warnings = plane.control.warnings().iter();
        let about_it = warnings.filter(|warning| warning.dependent.uid == meta.uid);
        fate.warnings.extend(about_it.map(|warning| warning.to_string()));
    }
    let own = world.writes(kind, &meta.namespace, &meta.name);
    fate.requests = world.requests(&own, stored);
    let shown = fate.requests.entries().chain(own);
    let shown: Vec<u64> = shown.map(|entry| entry.number).collect();
    fate.failures = failures(audit, &shown);
    let uids = seen.iter().map(|stored| &stored.meta.uid);
    let earlier = uids.take_while(|uid| **uid != meta.uid);
    fate.earlier = earlier.cloned().collect();
    fate.earlier.dedup();
    if !fate.is_collected() {
        let refusals = Refusals::of(plane.control.steps());
        fate.refused = refusals.about(&meta.uid).cloned().collect();
    }
    fate.deleted_once = deleted_once(plane, &fate);
    fate
}

/// From which similarity on a kind is offered, up to 1 for equal names.
const SIMILARITY_MIN: f64 = 0.8;

struct World<'a> {
    server: &'a ApiServer,
    plane: &'a Plane,
    audit: &'a [Arc<Entry>],
}

impl<'a> World<'a> {
    /// The states that watchers saw of the objects with a name, oldest first.
    fn seen(&self, kind: KindId, object: &Name) -> Vec<&'a Arc<StoredObject>> {
        let seen = self.server.changes_since(0).filter(|change| {
            let meta = &change.event.object.meta;
            self.server.share_objects(change.kind, kind)
                && meta.name == object.name
                && meta.namespace == object.namespace
        });
        seen.map(|change| &change.event.object).collect()
    }

    fn never_existed(&self, kind: Option<KindId>, object: &Name) -> ObjectState {
        let server = self.server;
        let Some(kind) = kind.filter(|kind| server.serves(*kind)) else {
            let similar = self.similar_kind(object);
            return ObjectState::KindNotServed { similar };
        };
        let namespace = Some(&*object.namespace).filter(|_| server.catalog()[kind].is_namespaced());
        let others = server.objects(kind, namespace).into_iter().take(SHOWN);
        let others = others.map(|object| Arc::clone(&object.meta.name)).collect();
        ObjectState::NeverExisted { others }
    }

    /// The served kind whose name is most similar. Among equal ones, the one in the most similar version.
    fn similar_kind(&self, object: &Name) -> Option<String> {
        let wanted = object.kind.to_lowercase();
        let kinds = self.server.catalog().iter();
        let served = kinds.filter(|(kind, _)| self.server.serves(*kind));
        let similar = served.filter_map(|(_, resource)| {
            let names = [&resource.kind, &resource.resource];
            let similarities = names.map(|name| strsim::jaro_winkler(&wanted, &name.to_lowercase()));
            let of_kind = similarities[0].max(similarities[1]);
            let of_version = strsim::jaro_winkler(&object.api_version, &resource.api_version());
            (of_kind >= SIMILARITY_MIN).then_some((of_kind, of_version, resource))
        });
        let best = similar.max_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        best.map(|(_, _, resource)| format!("{} {}", resource.api_version(), resource.kind))
    }

    fn object_state(&self, kind: Option<KindId>, stored: &StoredObject) -> ObjectState {
        let Some(deletion) = stored.meta.deletion_timestamp else {
            return ObjectState::Exists;
        };
        let mut finalizers = stored.meta.finalizers.clone();
        let mut blocked_by = Vec::new();
        if stored.meta.has_finalizer(FINALIZER_FOREGROUND) {
            let graph = self.plane.control.collector().graph();
            let node = graph.node(&stored.meta.uid).into_iter();
            blocked_by = graph.identities(node.flat_map(|node| graph.blocking_dependents(node)));
        }
        let resource = kind.map(|kind| &self.server.catalog()[kind]);
        if resource.is_some_and(|resource| *resource.kind == *"Namespace" && resource.group.is_empty()) {
            let own = stored
                .list_at(&["spec", "finalizers"])
                .iter()
                .filter_map(Value::as_str);
            finalizers.extend(own.map(Arc::from));
            blocked_by.extend(self.content(&stored.meta.name));
        }
        blocked_by.truncate(SHOWN);
        ObjectState::Terminating {
            in_grace_until: finalizers.is_empty().then_some(deletion),
            finalizers,
            blocked_by,
        }
    }

    fn content(&self, namespace: &str) -> impl Iterator<Item = ObjectRef> {
        let kinds = self.server.catalog().iter();
        let kinds = kinds.filter(|(_, resource)| resource.preferred && resource.is_namespaced());
        let objects = kinds.flat_map(move |(kind, _)| {
            let objects = self.server.objects(kind, Some(namespace)).into_iter();
            objects.map(move |object| object_ref(self.server, kind, &object.meta))
        });
        objects.take(SHOWN)
    }

    /// The kind of an owner and the namespace in which its dependent looks for it.
    fn place<'m>(&self, meta: &'m ObjectMeta, reference: &OwnerReference) -> Option<(KindId, &'m str)> {
        let catalog = self.server.catalog();
        let owner = catalog.mapping(&reference.api_version, &reference.kind)?;
        let is_namespaced = catalog[owner].is_namespaced();
        Some((owner, if is_namespaced { &meta.namespace } else { "" }))
    }

    fn owner_state(&self, kind: KindId, dependent: &StoredObject, reference: &OwnerReference) -> OwnerState {
        let (server, meta) = (self.server, &dependent.meta);
        let place = self.place(meta, reference);
        let Some((owner, namespace)) = place.filter(|(owner, _)| server.serves(*owner)) else {
            return OwnerState::KindNotServed;
        };
        let namespaced = server.catalog()[owner].is_namespaced();
        if namespaced && !server.catalog()[kind].is_namespaced() {
            return OwnerState::OutOfReach;
        }
        let found = server.object(owner, namespace, &reference.name);
        if let Some(found) = found.filter(|found| found.meta.uid == reference.uid) {
            return match found.meta.is_deleting() {
                false => OwnerState::Exists,
                true if found.meta.has_finalizer(FINALIZER_FOREGROUND) => OwnerState::WaitsForDependents,
                true => OwnerState::Terminating,
            };
        }
        let existed = match server.events_since(owner, 0) {
            Ok(mut events) => events.any(|event| {
                let meta = &event.object.meta;
                meta.uid == reference.uid && *meta.namespace == *namespace && meta.name == reference.name
            }),
            // History that is no longer retained may have contained it.
            Err(_) => true,
        };
        let elsewhere = || {
            let mut objects = server.objects(owner, None).into_iter();
            objects.any(|object| object.meta.uid == reference.uid)
        };
        match found {
            Some(_) if existed => OwnerState::Replaced,
            None if existed => OwnerState::Deleted,
            _ if namespaced && elsewhere() => OwnerState::InOtherNamespace,
            Some(_) => OwnerState::OtherUid,
            None => OwnerState::NeverExisted { namespaced },
        }
    }

    /// The last writes of an object, and the deletions of its owners. `own`: the writes on its name.
    fn requests(&self, own: &[&Entry], stored: &StoredObject) -> Audit {
        let meta = &stored.meta;
        let mut numbers: BTreeSet<u64> = about(own, &meta.uid).map(|entry| entry.number).collect();
        for reference in &meta.owner_references {
            let Some((owner, namespace)) = self.place(meta, reference) else {
                continue;
            };
            let writes = self.writes(owner, namespace, &reference.name);
            let deletes = about(&writes, &reference.uid).filter(|entry| entry.verb == Verb::Delete);
            numbers.extend(deletes.map(|entry| entry.number));
        }
        let chosen = self.audit.iter().filter(|entry| numbers.contains(&entry.number));
        let mut entries: Vec<Arc<Entry>> = chosen.map(Arc::clone).collect();
        let first = entries.len().saturating_sub(SHOWN);
        Audit::new(entries.split_off(first))
    }

    /// The writes on all objects that have, or had, one name, and those on their whole collection. Some kinds
    /// are served in more than one group.
    fn writes(&self, kind: KindId, namespace: &str, name: &str) -> Vec<&'a Entry> {
        let kinds = self.server.catalog().iter();
        let same = kinds.filter(|(other, _)| self.server.share_objects(kind, *other));
        let resources: Vec<&ApiResource> = same.map(|(_, resource)| resource).collect();
        let wanted = |entry: &&Entry| {
            let mut resources = resources.iter();
            entry.is_write()
                && *entry.namespace == *namespace
                && (*entry.name == *name || entry.name.is_empty())
                && resources.any(|one| entry.resource == one.resource && entry.group == one.group)
        };
        self.audit.iter().map(|entry| &**entry).filter(wanted).collect()
    }
}

const FAILURES_SHOWN: usize = 5;

/// The last failed requests of clients, one of each kind, except those with these numbers.
fn failures(audit: &[Arc<Entry>], shown: &[u64]) -> Audit {
    let mut chosen: Vec<Arc<Entry>> = Vec::new();
    let failed = audit.iter().rev().filter(|entry| entry.is_failure());
    for entry in failed.filter(|entry| !shown.contains(&entry.number)) {
        let is_same = |known: &Arc<Entry>| {
            let same_call = known.client == entry.client && known.verb == entry.verb;
            same_call && known.code == entry.code && known.target() == entry.target()
        };
        if chosen.len() < FAILURES_SHOWN && !chosen.iter().any(is_same) {
            chosen.push(Arc::clone(entry));
        }
    }
    chosen.reverse();
    Audit::new(chosen)
}

/// Those of the writes on one name that are about the object with this uid.
///
/// A response without a uid, such as a failure, is about the object that had the name at the time: that of
/// the write before it. A creation that failed for another reason than an existing name was for the object
/// that got the name next.
fn about<'e>(writes: &[&'e Entry], uid: &Uid) -> impl Iterator<Item = &'e Entry> {
    let known = |entry: &&&Entry| !entry.uid.is_empty();
    let is_about = move |at: &usize| {
        let entry = writes[*at];
        let before = || writes[..*at].iter().rev().find(known);
        let after = || writes[*at..].iter().find(known);
        let is_later = entry.verb == Verb::Create && entry.code != Some(409);
        let found = if is_later || !entry.uid.is_empty() {
            after().or_else(before)
        } else {
            before().or_else(after)
        };
        found.is_none_or(|found| found.uid == *uid)
    };
    (0..writes.len()).filter(is_about).map(|at| writes[at])
}

/// The remaining conditions of its deletion.
fn deleted_once(plane: &Plane, fate: &Fate) -> Vec<String> {
    let mut out = Vec::new();
    match &fate.state {
        ObjectState::Exists if fate.owners.is_empty() => {
            out.push("a client deletes it: it has no owner".to_owned())
        }
        ObjectState::Exists => {
            for owner in &fate.owners {
                let name = owner.reference.short();
                out.push(match owner.state {
                    OwnerState::Exists => format!("its owner {name} is deleted"),
                    OwnerState::Terminating | OwnerState::WaitsForDependents => {
                        format!("its owner {name} no longer exists, or is its only owner and waits for it")
                    }
                    OwnerState::KindNotServed => format!("the kind of its owner {name} is served"),
                    OwnerState::OutOfReach => format!("its reference to {name} is removed"),
                    OwnerState::Deleted
                    | OwnerState::Replaced
                    | OwnerState::NeverExisted { .. }
                    | OwnerState::OtherUid
                    | OwnerState::InOtherNamespace => continue,
                });
            }
            if out.is_empty() {
                out.push(acts(plane, "the collector finds that no owner exists"));
            }
        }
        ObjectState::Terminating {
            finalizers,
            blocked_by,
            in_grace_until,
        } => {
            if let Some(until) = in_grace_until {
                out.push(format!("its grace period is over, at {until}"));
            }
            for finalizer in finalizers {
                out.push(match &**finalizer {
                    FINALIZER_FOREGROUND if blocked_by.is_empty() => {
                        acts(plane, "the collector removes foregroundDeletion")
                    }
                    FINALIZER_FOREGROUND => format!("these dependents are deleted: {}", names(blocked_by)),
                    FINALIZER_ORPHAN => acts(
                        plane,
                        "the collector has released its dependents and removes orphan",
                    ),
                    "kubernetes" if !blocked_by.is_empty() => {
                        format!("its content is deleted: {}", names(blocked_by))
                    }
                    finalizer => format!("its controller removes finalizer {finalizer}"),
                });
            }
        }
        ObjectState::NeverExisted { .. }
        | ObjectState::KindNotServed { .. }
        | ObjectState::Deleted { .. } => {}
    }
    if fate.refused.iter().any(|step| step.act != Act::Create) {
        out.push("the API server no longer refuses these requests".to_owned());
    }
    out
}

fn acts(plane: &Plane, what: &str) -> String {
    if plane.collects() {
        what.to_owned()
    } else {
        format!("{what}; this cluster runs no collector, a real one does")
    }
}

pub(crate) fn names(objects: &[ObjectRef]) -> String {
    let names: Vec<String> = objects.iter().map(ObjectRef::short).collect();
    names.join(", ")
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.object, self.state)?;
        self.write_details(f)
    }
}

impl Fate {
    /// Returns whether it existed and no longer exists.
    pub const fn is_collected(&self) -> bool {
        matches!(self.state, ObjectState::Deleted { .. })
    }

    /// Returns whether it exists and is not being deleted.
    pub const fn survives(&self) -> bool {
        matches!(self.state, ObjectState::Exists)
    }

    /// Whether it is terminating, and waits for something else than the end of its grace period.
    pub const fn is_stuck(&self) -> bool {
        matches!(self.state, ObjectState::Terminating { in_grace_until, .. } if in_grace_until.is_none())
    }

    /// Writes all lines but the first one, each after a line break.
    pub(crate) fn write_details(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for owner in &self.owners {
            write!(f, "\n  its owner {} {}", owner.reference.short(), owner.state)?;
            if let Some((at, failures)) = owner.retry {
                let again = format!("at {at}, after {failures} failures");
                write!(f, "; the collector looks it up again {again}")?;
            }
        }
        if !self.dependents.is_empty() {
            let shown = &self.dependents[..self.dependents.len().min(SHOWN)];
            write!(f, "\n  its dependents: {}", names(shown))?;
            if self.dependents.len() > SHOWN {
                write!(f, " and {} more", self.dependents.len() - SHOWN)?;
            }
        }
        for warning in &self.warnings {
            write!(f, "\n  warning: {warning}")?;
        }
        if let Some((at, failures)) = self.retry {
            write!(f, "\n  the collector retries at {at}, after {failures} failures")?;
        }
        if !self.earlier.is_empty() {
            let uids: Vec<String> = self.earlier.iter().map(ToString::to_string).collect();
            let objects = match uids.len() {
                1 => "an earlier object",
                _ => "earlier objects",
            };
            let uids = uids.join(", ");
            write!(f, "\n  {objects} had this name (uid {uids}): not shown here")?;
        }
        let of_clients = "failed requests of clients";
        for (title, audit) in [("requests", &self.requests), (of_clients, &self.failures)] {
            if !audit.is_empty() {
                write!(f, "\n  {title}:")?;
            }
            for entry in audit.entries() {
                write!(f, "\n    {entry}")?;
            }
        }
        if !self.refused.is_empty() {
            write!(f, "\n  refused requests of the control plane:")?;
            for step in &self.refused {
                write!(f, "\n    {}", reason(step, step.failure.as_ref()))?;
            }
        }
        if !self.settled {
            f.write_str("\n  the cluster was not settled since the last write: call settle() first")?;
        }
        if !self.deleted_once.is_empty() {
            write!(f, "\n  it is deleted once {}", self.deleted_once.join(", and "))?;
        }
        Ok(())
    }
}
