//! Input and output of a sync: the view of the server, and the writes.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    ApiResource, KindId, KubernetesVersion, LabelSelector, ObjectMeta, OwnerReference, SharedMeta, Timestamp,
};
use kubegc_sim::{ApiServer, StoredObject, label_selector};
use serde_json::{Map, Value, json};

use super::{Subject, Workloads};
use crate::Actor;

/// The simulated kinds, in the order of syncs: pods before their owners, so that a status is written once for
/// many pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Node,
    Volume,
    Claim,
    Pod,
    Revision,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Deployment,
    Budget,
}

/// Kind, API version and kind of the API, and the controller that writes its objects.
const KINDS: [(Kind, &str, &str, &str); 12] = [
    (Kind::Node, "v1", "Node", "node-lifecycle-controller"),
    (Kind::Volume, "v1", "PersistentVolume", BINDER),
    (Kind::Claim, "v1", "PersistentVolumeClaim", BINDER),
    (Kind::Pod, "v1", "Pod", "kubelet"),
    (
        Kind::Revision,
        "apps/v1",
        "ControllerRevision",
        "statefulset-controller",
    ),
    (Kind::ReplicaSet, "apps/v1", "ReplicaSet", "replicaset-controller"),
    (
        Kind::StatefulSet,
        "apps/v1",
        "StatefulSet",
        "statefulset-controller",
    ),
    (Kind::DaemonSet, "apps/v1", "DaemonSet", "daemonset-controller"),
    (Kind::Job, "batch/v1", "Job", "job-controller"),
    (Kind::CronJob, "batch/v1", "CronJob", "cronjob-controller"),
    (Kind::Deployment, "apps/v1", "Deployment", "deployment-controller"),
    (
        Kind::Budget,
        "policy/v1",
        "PodDisruptionBudget",
        "disruption-controller",
    ),
];
const BINDER: &str = "persistentvolume-binder-controller";

impl Kind {
    const fn row(self) -> (Self, &'static str, &'static str, &'static str) {
        // The rows have the order of the variants.
        KINDS[self as usize]
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        KINDS
            .iter()
            .find(|(_, _, kind, _)| *kind == name)
            .map(|row| row.0)
    }

    pub(crate) fn of(resource: &ApiResource) -> Option<Self> {
        let group = |version: &'static str| version.split_once('/').map_or("", |(group, _)| group);
        let mut rows = KINDS.iter();
        let row =
            rows.find(|(_, version, kind, _)| *resource.kind == **kind && *resource.group == *group(version));
        row.map(|row| row.0)
    }

    /// Its id on a server. CronJobs and disruption budgets are served as beta versions before 1.21.
    pub(crate) fn id(self, server: &ApiServer) -> Option<KindId> {
        let (_, version, kind, _) = self.row();
        let catalog = server.catalog();
        catalog
            .mapping(version, kind)
            .or_else(|| catalog.mapping(&format!("{version}beta1"), kind))
    }

    /// Whether the server has it in a beta version only.
    pub(super) fn is_beta(self, server: &ApiServer) -> bool {
        let id = self.id(server);
        id.is_some_and(|id| server.catalog()[id].version.contains("beta"))
    }

    const fn actor(self) -> Actor {
        match self {
            Self::Pod => Actor::Kubelet,
            other => Actor::Controller(other.row().3),
        }
    }

    /// A controller reference to an object of this kind.
    pub(super) fn reference(self, owner: &ObjectMeta) -> OwnerReference {
        let (_, version, kind, _) = self.row();
        OwnerReference {
            api_version: version.into(),
            kind: kind.into(),
            name: Arc::clone(&owner.name),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// Finds an object on the server.
pub(crate) fn find(server: &ApiServer, kind: Kind, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
    server.object(kind.id(server)?, namespace, name).cloned()
}

/// The input of a sync.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) server: &'a ApiServer,
    pub(super) rules: &'a Workloads,
    pub(super) now: Timestamp,
}

impl<'a> View<'a> {
    pub(super) const fn version(&self) -> KubernetesVersion {
        self.server.version()
    }

    pub(super) fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
        find(self.server, kind, namespace, name)
    }

    /// All objects of a kind, by namespace and name.
    pub(super) fn list(&self, kind: Kind, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        let kind = kind.id(self.server);
        kind.map(|kind| self.server.objects(kind, namespace))
            .unwrap_or_default()
    }

    /// The objects of a kind that an owner controls.
    pub(super) fn controlled(&self, kind: Kind, owner: &ObjectMeta) -> Vec<Arc<StoredObject>> {
        let mut objects = self.list(kind, Some(&owner.namespace));
        objects.retain(|object| is_controlled_by(&object.meta, owner));
        objects
    }

    pub(super) fn subject<'s>(&'s self, object: &'s StoredObject) -> Subject<'s> {
        Subject {
            server: self.server,
            object,
        }
    }

    /// The time in its stored form.
    pub(super) fn time(&self) -> Value {
        self.now.truncate_to_secs().to_string().into()
    }
}

pub(super) fn is_controlled_by(meta: &ObjectMeta, owner: &ObjectMeta) -> bool {
    meta.controller()
        .is_some_and(|controller| controller.uid == owner.uid)
}

/// The output of a sync: writes in order, and the time when it is due again without a change. The first
/// failure ends the plan. No plan writes an object twice.
pub(super) struct Plan {
    /// The actor of the writes.
    pub(super) actor: Actor,
    kind: Kind,
    /// The namespace of created objects.
    pub(super) namespace: Arc<str>,
    pub(super) writes: Vec<Write>,
    pub(super) due: Option<Timestamp>,
}

/// One write.
pub(super) struct Write {
    pub(super) actor: Actor,
    pub(super) kind: Kind,
    pub(super) verb: Verb,
    /// The reason of upstream's Event, if it has one.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

pub(super) enum Verb {
    Create(Value),
    Update(StoredObject),
    /// An update that upstream sends as a patch.
    Patch(StoredObject),
    Status(StoredObject),
    /// Binds a pod to a node.
    Bind(SharedMeta, Arc<str>),
    Delete(SharedMeta),
}

impl Plan {
    /// A plan of the controller of an object.
    pub(super) fn of(kind: Kind, object: &StoredObject) -> Self {
        Self {
            actor: kind.actor(),
            kind,
            namespace: Arc::clone(&object.meta.namespace),
            writes: Vec::new(),
            due: None,
        }
    }

    /// A controller reference to the object of the plan.
    pub(super) fn reference(&self, owner: &StoredObject) -> OwnerReference {
        self.kind.reference(&owner.meta)
    }

    /// Schedules the sync again at this time.
    pub(super) fn due_at(&mut self, at: Option<Timestamp>) {
        self.due = self.due.into_iter().chain(at).min();
    }

    pub(super) fn push(&mut self, kind: Kind, verb: Verb, reason: &'static str, message: impl Into<String>) {
        self.writes.push(Write {
            actor: self.actor,
            kind,
            verb,
            reason,
            message: message.into(),
        });
    }

    pub(super) fn delete(&mut self, pod: &StoredObject, message: impl Into<String>) {
        self.push(
            Kind::Pod,
            Verb::Delete(pod.meta.clone()),
            "SuccessfulDelete",
            message,
        );
    }

    /// Writes the status of the object of the plan, if it differs.
    pub(super) fn status(&mut self, object: &StoredObject, status: Value) {
        if object.at(&["status"]) != Some(&status) {
            let verb = Verb::Status(with(object, &["status"], status));
            self.push(self.kind, verb, "StatusChanged", "its status has changed");
        }
    }

    /// Writes the conditions of an object.
    pub(super) fn conditions(
        &mut self,
        kind: Kind,
        object: &StoredObject,
        conditions: Vec<Value>,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let verb = Verb::Status(with(object, &["status", "conditions"], conditions.into()));
        self.push(kind, verb, reason, message);
    }

    /// Adopts the objects without a controller that the selector of an owner matches, and releases those of
    /// the owner that it does not match. Returns whether there were any.
    pub(super) fn claim(
        &mut self,
        view: &View<'_>,
        owner: &StoredObject,
        claimed: Kind,
        is_member: impl Fn(&StoredObject) -> bool,
    ) -> bool {
        let selector = selector_of(owner);
        let matches = |object: &StoredObject| {
            !selector.is_empty() && selector.matches(&object.meta) && is_member(object)
        };
        for object in view.list(claimed, Some(&owner.meta.namespace)) {
            let mut changed = StoredObject::clone(&object);
            let references = &mut changed.meta.owner_references;
            let (reason, message) = if is_controlled_by(&object.meta, &owner.meta) && !matches(&object) {
                references.retain(|reference| reference.uid != owner.meta.uid);
                ("Released", "its owner's selector does not match it")
            } else if object.meta.controller().is_none() && !object.meta.is_deleting() && matches(&object) {
                references.push(self.kind.reference(&owner.meta));
                ("Adopted", "it has no controller, and a selector matches it")
            } else {
                continue;
            };
            self.push(claimed, Verb::Patch(changed), reason, message);
        }
        !self.writes.is_empty()
    }
}

/// A copy of an object with another value at a path of its body.
pub(super) fn with(object: &StoredObject, path: &[&str], value: Value) -> StoredObject {
    let mut root = Value::Object(object.body.as_deref().cloned().unwrap_or_default());
    let mut target = &mut root;
    for key in path {
        if !target.is_object() {
            *target = json!({});
        }
        target = &mut target[*key];
    }
    *target = value;
    let body = match root {
        Value::Object(body) => Some(body.into()),
        _ => None,
    };
    StoredObject::new(object.meta.clone(), body)
}

/// An integer field of the body.
pub(super) fn int(object: &StoredObject, path: &[&str]) -> Option<i64> {
    object.at(path).and_then(Value::as_i64)
}

/// An integer field of the spec, in seconds.
pub(super) fn seconds(object: &StoredObject, field: &str) -> Duration {
    let seconds = int(object, &["spec", field]).unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

pub(super) fn items<'a>(object: &'a StoredObject, path: &[&str]) -> &'a [Value] {
    object
        .at(path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn annotation<'a>(object: &'a StoredObject, key: &str) -> &'a str {
    object.text_at(&["metadata", "annotations", key])
}

/// Sets a condition, at the end of the list. The transition time is retained if the status is the same; empty
/// reasons and messages are omitted.
pub(super) fn set_condition(
    conditions: &mut Vec<Value>,
    now: &Value,
    (kind, status): (&str, &str),
    (reason, message): (&str, String),
    other: Option<(&str, Value)>,
) {
    let before = condition(conditions, kind).filter(|before| before["status"] == status);
    let since = before.map_or_else(|| now.clone(), |before| before["lastTransitionTime"].clone());
    conditions.retain(|condition| condition["type"] != kind);
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
    for (key, text) in [("reason", reason), ("message", &message)] {
        if !text.is_empty() {
            condition[key] = text.into();
        }
    }
    if let Some((key, value)) = other {
        condition[key] = value;
    }
    conditions.push(condition);
}

/// A non-negative integer field of the body; 0 if it is absent.
pub(super) fn count(object: &StoredObject, path: &[&str]) -> usize {
    let number = object.at(path).and_then(Value::as_u64);
    number
        .and_then(|number| usize::try_from(number).ok())
        .unwrap_or(0)
}

/// The entry of this type.
pub(super) fn condition<'v>(conditions: &'v [Value], kind: &str) -> Option<&'v Value> {
    conditions.iter().find(|condition| condition["type"] == kind)
}

pub(super) fn time_of(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| Timestamp::parse(text).ok())
}

/// A status with its counts; counts of 0 are omitted, except those of `required`.
pub(super) fn counts(required: &[&str], counts: &[(&str, usize)]) -> Map<String, Value> {
    let counts = counts.iter();
    let shown = counts.filter(|(key, count)| *count > 0 || required.contains(key));
    shown
        .map(|(key, count)| ((*key).to_owned(), Value::from(*count)))
        .collect()
}

/// `spec.selector`. One that cannot be read is empty, and an empty one selects nothing.
pub(super) fn selector_of(object: &StoredObject) -> LabelSelector {
    let selector = object.at(&["spec", "selector"]);
    selector.and_then(label_selector).unwrap_or_default()
}

/// Whether the selector of an owner of pods matches the labels of its template. The API server requires it
/// with types; otherwise the controller would create and release pods endlessly.
pub(super) fn selects_template(object: &StoredObject) -> bool {
    let mut meta = ObjectMeta::new("", "", "");
    if let Value::Object(labels) = map(object, &["spec", "template", "metadata", "labels"]) {
        let labels = labels.into_iter();
        let labels = labels.map(|(key, value)| (key.into(), value.as_str().unwrap_or_default().into()));
        meta.labels.extend(labels);
    }
    let selector = selector_of(object);
    !selector.is_empty() && selector.matches(&meta)
}

/// A copy of a map of the body; empty if it is not a map.
pub(super) fn map(object: &StoredObject, path: &[&str]) -> Value {
    let known = object.at(path).filter(|value| value.is_object());
    known.cloned().unwrap_or_else(|| json!({}))
}

/// A pod from a template, named by the server after its owner unless `name` is set.
pub(super) fn pod_of(template: &Value, kind: Kind, owner: &ObjectMeta, name: Option<&str>) -> Value {
    let mut metadata = Map::new();
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(key).filter(|value| !value.is_null()) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    match name {
        Some(name) => metadata.insert("name".to_owned(), name.into()),
        None => metadata.insert("generateName".to_owned(), format!("{}-", owner.name).into()),
    };
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([reference_json(&kind.reference(owner))]),
    );
    let spec = template["spec"].as_object().cloned().unwrap_or_default();
    json!({"metadata": metadata, "spec": spec})
}

pub(super) fn reference_json(reference: &OwnerReference) -> Value {
    json!({
        "apiVersion": &*reference.api_version,
        "kind": &*reference.kind,
        "name": &*reference.name,
        "uid": reference.uid.to_string(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Sets a label or annotation of a new object.
pub(super) fn set(object: &mut Value, field: &str, key: &str, value: &str) {
    let map = &mut object["metadata"][field];
    if !map.is_object() {
        *map = json!({});
    }
    map[key] = value.into();
}
