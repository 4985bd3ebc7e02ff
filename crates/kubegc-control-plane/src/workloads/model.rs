//! The input of a sync, which is the state of the server, and its output, which is a list of writes.

use std::sync::Arc;

use kubegc_core::{KindId, SharedMeta, Timestamp};
use kubegc_sim::{ApiServer, StoredObject};
use serde_json::{Value, json};

use super::Workloads;
use crate::Actor;

/// The simulated kinds in the order of syncs: pods before their owners, so that a status is written once for
/// many pods. Each with its API version and the actor of its syncs.
pub(super) const KINDS: [(&str, &str, &str); 9] = [
    ("Node", "v1", "kubelet"),
    (
        "PersistentVolumeClaim",
        "v1",
        "persistentvolume-binder-controller",
    ),
    ("Pod", "v1", "kubelet"),
    ("ReplicaSet", "apps/v1", "replicaset-controller"),
    ("StatefulSet", "apps/v1", "statefulset-controller"),
    ("DaemonSet", "apps/v1", "daemonset-controller"),
    ("Job", "batch/v1", "job-controller"),
    ("Deployment", "apps/v1", "deployment-controller"),
    ("PodDisruptionBudget", "policy/v1", "disruption-controller"),
];

/// The id of a simulated kind. Disruption budgets are served as a beta version before 1.21.
pub(super) fn kind_id(server: &ApiServer, kind: &str) -> Option<KindId> {
    let version = KINDS.iter().find(|row| row.0 == kind).map_or("v1", |row| row.1);
    let catalog = server.catalog();
    let beta = || catalog.mapping(&format!("{version}beta1"), kind);
    catalog.mapping(version, kind).or_else(beta)
}

/// Finds an object on the server.
pub(super) fn find(server: &ApiServer, kind: &str, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
    server.object(kind_id(server, kind)?, namespace, name).cloned()
}

/// The input of a sync.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) server: &'a ApiServer,
    pub(super) rules: &'a Workloads,
    pub(super) now: Timestamp,
}

impl View<'_> {
    /// All objects of a kind, by namespace and name.
    pub(super) fn list(&self, kind: &str, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        let kind = kind_id(self.server, kind);
        kind.map(|kind| self.server.objects(kind, namespace))
            .unwrap_or_default()
    }

    /// The time in its stored form.
    pub(super) fn time(&self) -> Value {
        self.now.truncate_to_secs().to_string().into()
    }
}

/// One write.
pub(super) enum Write {
    /// Creates an object in a namespace.
    Create(Arc<str>, Value),
    /// Writes an object, or the part of it that a subresource has.
    Update(&'static str, StoredObject),
    /// Binds a pod to a node.
    Bind(SharedMeta, Arc<str>),
    Delete(SharedMeta),
}

/// The output of a sync: writes in order, each with the kind of its object, and the time when it is due again
/// without a change. The first failure ends the plan. No plan writes an object twice.
pub(super) struct Plan {
    pub(super) actor: Actor,
    pub(super) writes: Vec<(&'static str, Write)>,
    pub(super) due: Option<Timestamp>,
}

impl Plan {
    /// A plan of the actor that syncs objects of a kind.
    pub(super) fn of(kind: &str) -> Self {
        let actor = match KINDS.iter().find(|row| row.0 == kind) {
            Some((_, _, name)) if *name != "kubelet" => Actor::Controller(name),
            _ => Actor::Kubelet,
        };
        let (writes, due) = (Vec::new(), None);
        Self { actor, writes, due }
    }

    pub(super) fn create(&mut self, kind: &'static str, namespace: &Arc<str>, object: Value) {
        let write = Write::Create(Arc::clone(namespace), object);
        self.writes.push((kind, write));
    }

    pub(super) fn update(&mut self, kind: &'static str, part: &'static str, object: StoredObject) {
        self.writes.push((kind, Write::Update(part, object)));
    }

    /// Deletes a pod that is not being deleted yet.
    pub(super) fn delete(&mut self, pod: &StoredObject) {
        if !pod.meta.is_deleting() {
            self.writes.push(("Pod", Write::Delete(pod.meta.clone())));
        }
    }

    /// Sets fields of a status, and removes those that are null. Writes nothing if nothing changes.
    pub(super) fn status(&mut self, kind: &'static str, object: &StoredObject, fields: Value) {
        let mut status = object.at(&["status"]).cloned().unwrap_or_default();
        for (field, value) in fields.as_object().into_iter().flatten() {
            put(&mut status, &[field], value.clone());
        }
        if let Value::Object(fields) = &mut status {
            fields.retain(|_, value| !value.is_null());
        }
        if object.at(&["status"]) != Some(&status) {
            self.update(kind, "status", with(object, "status", &[], status));
        }
    }
}

/// Sets the value at a path. What is not an object on the way is replaced.
pub(super) fn put(mut target: &mut Value, path: &[&str], value: Value) {
    for key in path {
        if !target.is_object() {
            *target = json!({});
        }
        target = &mut target[*key];
    }
    *target = value;
}

/// A copy of an object with another value at a path below a field.
pub(super) fn with(object: &StoredObject, field: &str, path: &[&str], value: Value) -> StoredObject {
    let mut changed = object.clone();
    let field = changed.body_mut().entry(field).or_insert(Value::Null);
    put(field, path, value);
    changed
}

/// A number of dependents in the spec. Larger ones than a test can have do not count.
pub(super) fn number(object: &StoredObject, field: &str) -> Option<usize> {
    const MAX: usize = 100_000;
    let number = object.at(&["spec", field])?.as_i64()?;
    Some(usize::try_from(number).unwrap_or(0).min(MAX))
}

pub(super) fn items<'a>(object: &'a StoredObject, path: &[&str]) -> &'a [Value] {
    let list = object.at(path).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The status of a condition; empty if there is none.
pub(super) fn condition<'a>(object: &'a StoredObject, kind: &str) -> &'a str {
    let mut conditions = items(object, &["status", "conditions"]).iter();
    let found = conditions.find(|condition| condition["type"] == kind);
    found
        .and_then(|found| found["status"].as_str())
        .unwrap_or_default()
}

pub(super) const fn text(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

/// The conditions of an object with these ones set: type, status and reason. The transition time is retained
/// if the status is the same.
pub(super) fn conditions(object: &StoredObject, now: &Value, set: &[(&str, &str, &str)]) -> Value {
    let mut conditions = items(object, &["status", "conditions"]).to_vec();
    for (kind, status, reason) in set {
        let known = conditions.iter().position(|known| known["type"] == *kind);
        let known = known.map(|at| conditions.remove(at));
        let known = known.filter(|known| known["status"] == *status);
        let since = known.map_or_else(|| now.clone(), |known| known["lastTransitionTime"].clone());
        let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
        if !reason.is_empty() {
            condition["reason"] = (*reason).into();
        }
        conditions.push(condition);
    }
    conditions.into()
}
