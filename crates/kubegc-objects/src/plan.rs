//! Planners over owner references: what the collector does to the end, as actions with reasons.
//!
//! A plan is made by the [`Collector`] itself, which works on a copy of the objects in memory. So it has the
//! collector's requests in the collector's order.
//!
//! What is planned for an object depends on these objects alone: other controllers and webhooks do not act, a
//! pod has no grace period, and an owner that is not in the set is unknown unless the set is
//! [`complete`](Owners::complete).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    ApiResource, Catalog, Kept, KindId, KubernetesVersion, ObjectMeta, ObjectRef, OwnerReference,
    PartialObjectMetadata, Plan, PlanOf, PlannedAction, Planner, Preconditions, PropagationPolicy,
    ResourceVersion, Scope, Timestamp, Uid,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};

use crate::{
    Collector, Input, Operation, Output, Owners, Reason, Request, Response, Settings, WatchEvent,
    collector::{MonitorId, WaitReason},
    owners::{Classification, Lookup},
    patch::Change,
};

/// Waits of the collector without a change after which nothing more is expected: what is left is only
/// retried.
const IDLE_WAITS_MAX: usize = 12;
/// Calls of the collector for each object, more than any cascade needs.
const CALLS_PER_OBJECT_MAX: usize = 200;

/// One write to one object. Its display form is that of the [`Request`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}: {reason}", operation.on(object))]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Action {
    pub object: Arc<ObjectRef>,
    /// The write, as the collector of the release sends it.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub operation: Operation,
    /// The state that the decision depends on: the uid always, the version where the object was not written
    /// by an earlier action of the plan.
    pub expect: Preconditions,
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub reason: Reason,
    /// The objects whose earlier actions must have been performed.
    pub depends_on: Vec<Arc<ObjectRef>>,
}

impl PlannedAction for Action {
    type Object = Arc<ObjectRef>;

    fn object(&self) -> Self::Object {
        Arc::clone(&self.object)
    }

    fn is_deletion(&self) -> bool {
        matches!(self.operation, Operation::Delete { .. })
    }

    fn depends_on(&self) -> Vec<Self::Object> {
        self.depends_on.clone()
    }
}

kubegc_core::reasons! {
    /// Why an object is kept, or what is not known about it.
    pub enum WhyKept {
        /// It has no owners, or at least one that exists.
        Owners(classification: Classification) = "{classification}";
        /// It is terminating and has these finalizers, which the collector does not remove.
        Finalizers(names: Vec<Arc<str>>) = "it is terminating, waiting for finalizer{} {}",
            if names.len() == 1 { "" } else { "s" },
            names.join(", ");
        /// It is terminating and waits for these dependents, which block its deletion.
        Dependents(dependents: Vec<Arc<ObjectRef>>) = "it is terminating, waiting for its dependents {}", {
            let names: Vec<String> = dependents.iter().map(|object| object.short()).collect();
            names.join(", ")
        };
        /// Some of its owners are not among the objects, so its outcome is unknown.
        UnknownOwners(classification: Classification) = "its outcome is unknown: {classification}";
        /// No kind is known under the apiVersion and kind of this owner: the collector retries and keeps the
        /// object.
        UnknownKind(owner: OwnerReference) = "the kind {} of its owner {} is not served", owner.kind, owner.short();
    }
}

/// A plan over owner references.
pub type ObjectPlan = PlanOf<Collect>;

/// Plans the deletion of objects and what it causes: [`delete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// The uids of the objects. A uid that no object has is ignored.
    pub uids: Vec<Uid>,
    pub policy: PropagationPolicy,
    /// The release of the collector.
    pub version: KubernetesVersion,
}

/// Plans the collection of the objects that are garbage now: [`collect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collect {
    /// The release of the collector.
    pub version: KubernetesVersion,
}

impl Planner for Delete {
    type Facts = Owners;
    type Action = Action;
    type Object = Arc<ObjectRef>;
    type Reason = WhyKept;
    type Summary = ();

    fn plan(&self, owners: &Owners, now: Timestamp) -> PlanOf<Self> {
        let mut run = Run::new(owners, self.version, now);
        let mut concerned = BTreeSet::new();
        for uid in self.uids.iter().filter(|uid| owners.get(uid).is_some()) {
            concerned.insert(uid.clone());
            concerned.extend(
                owners
                    .descendants(uid)
                    .iter()
                    .map(|object| object.metadata.uid.clone()),
            );
        }
        run.start();
        for uid in &self.uids {
            run.request(uid, self.policy);
        }
        run.finish();
        run.plan(|uid| concerned.contains(uid))
    }
}

impl Planner for Collect {
    type Facts = Owners;
    type Action = Action;
    type Object = Arc<ObjectRef>;
    type Reason = WhyKept;
    type Summary = ();

    fn plan(&self, owners: &Owners, now: Timestamp) -> PlanOf<Self> {
        let mut run = Run::new(owners, self.version, now);
        run.start();
        run.finish();
        run.plan(|_| true)
    }
}

/// Plans the deletion of objects: the deletes themselves, and all that the collector does because of them.
/// Kept are the descendants that stay, with the reasons; findings are those whose outcome is unknown. Garbage
/// that has nothing to do with them is left out.
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, PartialObjectMetadata, PropagationPolicy::Foreground};
/// use kubegc_objects::{Owners, plan::delete};
///
/// let set = PartialObjectMetadata::new("apps/v1", "ReplicaSet", ObjectMeta::new("shop", "web", "u1"));
/// let mut pod = PartialObjectMetadata::new("v1", "Pod", ObjectMeta::new("shop", "web-0", "u2"));
/// pod.metadata.owner_references.push(set.controller_reference());
/// let plan = delete(&Owners::new([set, pod]), &["u1".into()], Foreground, "1.36".parse()?);
/// let lines: Vec<String> = plan.actions.iter().map(ToString::to_string).collect();
/// assert_eq!(lines, [
///     "delete replicaset/web -n shop (Foreground): its deletion is requested",
///     "delete pod/web-0 -n shop (Background): its only remaining owner is being deleted in the foreground and waits for it",
///     "patch replicaset/web -n shop: remove finalizer foregroundDeletion: no dependent blocks its deletion any longer",
/// ]);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
pub fn delete(
    owners: &Owners,
    uids: &[Uid],
    policy: PropagationPolicy,
    version: KubernetesVersion,
) -> ObjectPlan {
    let uids = uids.to_vec();
    Delete {
        uids,
        policy,
        version,
    }
    .plan(owners, Timestamp::EPOCH)
}

/// Plans the orphaning of the dependents of an object that is deleted with [`PropagationPolicy::Orphan`]: the
/// patch of each dependent in the collector's order, then the removal of the finalizer `orphan`.
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, PartialObjectMetadata};
/// use kubegc_objects::{Owners, orphan};
///
/// let set = PartialObjectMetadata::new("apps/v1", "ReplicaSet", ObjectMeta::new("shop", "web", "u1"));
/// let mut pod = PartialObjectMetadata::new("v1", "Pod", ObjectMeta::new("shop", "web-0", "u2"));
/// pod.metadata.owner_references.push(set.controller_reference());
/// let plan = orphan(&Owners::new([set, pod]), &"u1".into(), "1.36".parse()?);
/// assert_eq!(plan.actions.len(), 2);
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
pub fn orphan(owners: &Owners, uid: &Uid, version: KubernetesVersion) -> ObjectPlan {
    let mut plan = delete(
        owners,
        std::slice::from_ref(uid),
        PropagationPolicy::Orphan,
        version,
    );
    plan.actions.retain(|action| action.reason != Reason::Requested);
    plan
}

/// Plans the collection of the objects that are garbage now, and the end of the deletions in progress.
///
/// # Examples
/// ```
/// use kubegc_core::{ObjectMeta, PartialObjectMetadata};
/// use kubegc_objects::{Owners, collect};
///
/// let set = PartialObjectMetadata::new("apps/v1", "ReplicaSet", ObjectMeta::new("shop", "web", "u1"));
/// let mut pod = PartialObjectMetadata::new("v1", "Pod", ObjectMeta::new("shop", "web-0", "u2"));
/// pod.metadata.owner_references.push(set.controller_reference());
/// let plan = collect(&Owners::new([pod]).complete(), "1.36".parse()?);
/// assert_eq!(plan.actions[0].to_string(), "delete pod/web-0 -n shop (Background): no owner of it is left");
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
pub fn collect(owners: &Owners, version: KubernetesVersion) -> ObjectPlan {
    Collect { version }.plan(owners, Timestamp::EPOCH)
}

/// Resource with group, namespace and name.
type Key = (String, Arc<str>, Arc<str>);

/// The collector with the objects in memory.
struct Run<'a> {
    owners: &'a Owners,
    catalog: Arc<Catalog>,
    collector: Collector,
    monitors: BTreeMap<String, MonitorId>,
    stored: BTreeMap<Key, Arc<ObjectMeta>>,
    removed: BTreeSet<Key>,
    actions: Vec<Action>,
    written: BTreeMap<Uid, Arc<ObjectRef>>,
    now: Timestamp,
}

impl<'a> Run<'a> {
    fn new(owners: &'a Owners, version: KubernetesVersion, now: Timestamp) -> Self {
        let catalog = catalog(owners, version);
        let mut settings = Settings::new(version).as_upstream();
        settings.discovery_period = None;
        settings.attempt_to_delete_workers = 1;
        settings.attempt_to_orphan_workers = 1;
        let mut run = Self {
            owners,
            catalog: Arc::new(catalog),
            collector: Collector::new(settings),
            monitors: BTreeMap::new(),
            stored: BTreeMap::new(),
            removed: BTreeSet::new(),
            actions: Vec::new(),
            written: BTreeMap::new(),
            now,
        };
        for object in owners.objects() {
            if let Some((_, key)) = run.key_of(object) {
                run.stored.insert(key, Arc::new(object.metadata.clone()));
            }
        }
        run
    }

    fn key(&self, kind: KindId, namespace: &Arc<str>, name: &Arc<str>) -> Key {
        let resource = self.catalog[kind].qualified_resource();
        (resource, Arc::clone(namespace), Arc::clone(name))
    }

    /// The kind and the key of an object; `None` if its kind is not served.
    fn key_of(&self, object: &PartialObjectMetadata) -> Option<(KindId, Key)> {
        let kind = self.catalog.mapping(&object.api_version, &object.kind)?;
        let key = self.key(kind, &object.metadata.namespace, &object.metadata.name);
        Some((kind, key))
    }

    /// Passes an input of the collector's own requests: the monitor and the call exist, and time does not go
    /// back.
    fn handle(&mut self, input: Input) {
        let handled = self.collector.handle(self.now, input);
        debug_assert!(handled.is_ok(), "{handled:?}");
    }

    /// Delivers discovery and all lists.
    fn start(&mut self) {
        loop {
            match self.collector.poll_output() {
                Output::Discover => {
                    let catalog = Arc::clone(&self.catalog);
                    self.handle(Input::catalog(catalog));
                }
                Output::Watch(monitor) => {
                    let resource = self
                        .collector
                        .monitor(monitor)
                        .map(ApiResource::qualified_resource);
                    let resource = resource.unwrap_or_default();
                    let is_in = |key: &&Key| key.0 == resource;
                    let keys = self.stored.keys().filter(is_in);
                    let list = WatchEvent::list(keys.map(|key| Arc::clone(&self.stored[key])));
                    self.monitors.insert(resource, monitor);
                    for event in list {
                        self.handle(Input::watch(monitor, event));
                    }
                    if self.collector.not_running().is_none() {
                        return;
                    }
                }
                Output::Unwatch(_) | Output::Event(_) => {}
                // No kind can be monitored.
                Output::Call(_) | Output::Wait(_) => return,
            }
        }
    }

    /// Deletes an object as a client.
    fn request(&mut self, uid: &Uid, policy: PropagationPolicy) {
        let Some(object) = self.owners.get(uid) else {
            return;
        };
        let Some((kind, key)) = self.key_of(object) else {
            return;
        };
        let Some(stored) = self.stored.get(&key) else {
            return;
        };
        let wire = Preconditions::uid(uid.clone());
        let request = Request {
            kind,
            target: Arc::new(object.object_ref()),
            operation: Operation::Delete {
                wire,
                propagation: policy,
            },
            expect: Preconditions {
                uid: Some(uid.clone()),
                resource_version: known(&stored.resource_version),
            },
            reason: Reason::Requested,
        };
        let response = self.perform(&request);
        debug_assert!(matches!(response, Response::Applied(_)), "{response:?}");
    }

    /// Runs until nothing is left but retries.
    fn finish(&mut self) {
        let mut idle_waits = 0;
        let mut written = self.actions.len();
        let mut calls_left = CALLS_PER_OBJECT_MAX * (self.owners.objects().len() + 10);
        // Ends: idle waits and calls are bounded.
        while idle_waits < IDLE_WAITS_MAX && calls_left > 0 {
            match self.collector.poll_output() {
                Output::Call(call) => {
                    calls_left -= 1;
                    let response = self.perform(&call.request);
                    self.handle(Input::response(call.id, response));
                }
                Output::Wait(wait) => {
                    let (Some(until), WaitReason::Retries) = (wait.until, wait.why) else {
                        return;
                    };
                    idle_waits = if self.actions.len() > written {
                        0
                    } else {
                        idle_waits + 1
                    };
                    written = self.actions.len();
                    self.now = self.now.max(until);
                    self.handle(Input::Tick);
                }
                Output::Discover | Output::Watch(_) | Output::Unwatch(_) | Output::Event(_) => {}
            }
        }
    }

    /// Performs a request as an API server that has only these objects. A successful write is an action.
    fn perform(&mut self, request: &Request) -> Response {
        let Request { kind, target, .. } = request;
        let key = self.key(*kind, &target.namespace, &target.name);
        let Some(stored) = self.stored.get(&key).cloned() else {
            let is_absent = self.owners.is_complete() || self.removed.contains(&key);
            return if is_absent {
                Response::NotFound
            } else {
                Response::Unlisted
            };
        };
        let (response, change) = request.perform(Some(&stored), &self.catalog[*kind], self.now);
        let Some(event) = change else {
            return response;
        };
        self.record(request, &stored);
        match &event {
            WatchEvent::Apply(meta) => {
                self.stored.insert(key.clone(), Arc::clone(meta));
            }
            _ => {
                self.stored.remove(&key);
                self.removed.insert(key.clone());
            }
        }
        if let Some(&monitor) = self.monitors.get(&key.0) {
            self.handle(Input::watch(monitor, event));
        }
        response
    }

    fn record(&mut self, request: &Request, stored: &ObjectMeta) {
        let object = Arc::clone(&request.target);
        let removes_collectors_finalizer = matches!(
            request.operation,
            Operation::Put { .. }
                | Operation::Patch {
                    change: Change::RemoveFinalizer(_),
                    ..
                }
        );
        let of_owners = request.reason.owners().iter().map(|owner| &owner.reference.uid);
        let of_orphaning = match &request.reason {
            Reason::OwnerOrphans(owner) => Some(&owner.uid),
            _ => None,
        };
        let dependents = if removes_collectors_finalizer {
            self.owners.dependents(&stored.uid)
        } else {
            Vec::new()
        };
        let of_dependents = dependents.iter().map(|dependent| &dependent.metadata.uid);
        let uids = of_owners.chain(of_orphaning).chain(of_dependents);
        let depends_on = uids.filter_map(|uid| self.written.get(uid).cloned());
        let action = Action {
            depends_on: depends_on.filter(|on| on.uid != object.uid).collect(),
            object,
            operation: request.operation.clone(),
            expect: Preconditions {
                uid: request.expect.uid.clone(),
                resource_version: known(&stored.resource_version),
            },
            reason: request.reason.clone(),
        };
        let uid = action.object.uid.clone();
        self.written.insert(uid, Arc::clone(&action.object));
        self.actions.push(action);
    }

    /// The plan, about the objects with these uids.
    fn plan(self, is_concerned: impl Fn(&Uid) -> bool) -> ObjectPlan {
        let mut plan = Plan::default();
        for object in self
            .owners
            .objects()
            .iter()
            .filter(|object| is_concerned(&object.metadata.uid))
        {
            let (is_finding, reason) = match self.key_of(object) {
                Some((_, key)) => {
                    let Some(meta) = self.stored.get(&key) else {
                        continue;
                    };
                    self.why_kept(meta)
                }
                None => (false, WhyKept::Owners(self.classification(&object.metadata))),
            };
            let kept = Kept {
                object: Arc::new(object.object_ref()),
                reason,
            };
            if is_finding {
                &mut plan.findings
            } else {
                &mut plan.kept
            }
            .push(kept);
        }
        plan.actions = self.actions;
        plan.actions.retain(|action| is_concerned(&action.object.uid));
        plan
    }

    /// Why an object is there at the end, and whether that is unknown.
    fn why_kept(&self, meta: &ObjectMeta) -> (bool, WhyKept) {
        if meta.is_deleting() {
            let is_collectors = |name: &Arc<str>| matches!(&**name, FINALIZER_FOREGROUND | FINALIZER_ORPHAN);
            let others: Vec<_> = meta
                .finalizers
                .iter()
                .filter(|name| !is_collectors(name))
                .cloned()
                .collect();
            if others.is_empty() {
                let dependents = self.owners.dependents(&meta.uid);
                let blocking = dependents.iter().filter(|dependent| {
                    let stored = self.key_of(dependent).and_then(|(_, key)| self.stored.get(&key));
                    let mut references = stored.into_iter().flat_map(|meta| &meta.owner_references);
                    references.any(|reference| reference.uid == meta.uid && reference.is_blocking())
                });
                let blocking = blocking.map(|dependent| Arc::new(dependent.object_ref()));
                return (false, WhyKept::Dependents(blocking.collect()));
            }
            return (false, WhyKept::Finalizers(others));
        }
        let classification = self.classification(meta);
        let is_unmapped =
            |owner: &&OwnerReference| self.catalog.mapping(&owner.api_version, &owner.kind).is_none();
        if let Some(owner) = meta.owner_references.iter().find(is_unmapped) {
            return (true, WhyKept::UnknownKind(owner.clone()));
        }
        if classification.is_kept() {
            (false, WhyKept::Owners(classification))
        } else {
            (true, WhyKept::UnknownOwners(classification))
        }
    }

    /// The owners of an object at the end.
    fn classification(&self, meta: &ObjectMeta) -> Classification {
        Classification::of(meta, |reference| {
            let Some(kind) = self.catalog.mapping(&reference.api_version, &reference.kind) else {
                return Lookup::Unknown;
            };
            let namespace = if self.catalog[kind].is_namespaced() {
                Arc::clone(&meta.namespace)
            } else {
                Arc::from("")
            };
            let key = self.key(kind, &namespace, &reference.name);
            match self.stored.get(&key) {
                Some(owner) => Lookup::Found(owner),
                None if self.owners.is_complete() || self.removed.contains(&key) => Lookup::Absent,
                None => Lookup::Unknown,
            }
        })
    }
}

/// The built-in kinds of a release, and the kinds of the objects that are not built in. Their plural is not
/// known, and only its uniqueness counts here.
fn catalog(owners: &Owners, version: KubernetesVersion) -> Catalog {
    let mut catalog = Catalog::builtin(version);
    for object in owners.objects() {
        if catalog.mapping(&object.api_version, &object.kind).is_some() {
            continue;
        }
        let scope = if object.metadata.namespace.is_empty() {
            Scope::Cluster
        } else {
            Scope::Namespaced
        };
        let plural = format!("{}s", object.kind.to_lowercase());
        // An invalid name of a kind is left out: no reference can name it.
        let _added =
            catalog.add(ApiResource::new(&object.api_version, &object.kind, &plural, scope).custom());
    }
    catalog
}

fn known(version: &ResourceVersion) -> Option<ResourceVersion> {
    (!version.is_empty()).then(|| version.clone())
}
