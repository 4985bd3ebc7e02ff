//! The step of the player, and the reads and writes of a sync.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_controllers::Reason;
use kubegc_core::{
    KindId, ObjectMeta, PatchType, Timestamp, Uid,
    deletion::DeleteOptionsSpec,
    identity::split_api_version,
    record::{ObjectId, Resource},
};
use kubegc_sim::{ApiServer, StoredObject};
use serde_json::{Value, json};

use super::{Workloads, backoff::Failures, owners, pods};
use crate::{Act, Actor, ControlPlane, Step, Why, object_ref, trace::code_of};

/// The simulated kinds in the order of syncs: pods before their owners, so that a status is written once for
/// many pods. Each with its API version and the actor of its syncs.
const KINDS: [(&str, &str, &str); 8] = [
    ("Node", "v1", KUBELET),
    (
        "PersistentVolumeClaim",
        "v1",
        "persistentvolume-binder-controller",
    ),
    ("Pod", "v1", KUBELET),
    ("ReplicaSet", "apps/v1", "replicaset-controller"),
    ("StatefulSet", "apps/v1", "statefulset-controller"),
    ("DaemonSet", "apps/v1", "daemonset-controller"),
    ("Job", "batch/v1", "job-controller"),
    ("Deployment", "apps/v1", "deployment-controller"),
];
const KUBELET: &str = "kubelet";

/// The player of workloads. In a step it syncs all objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    rules: Arc<Workloads>,
    /// Whether an object of a simulated kind has changed since the last step.
    has_changed: bool,
    /// The time when an object is due again.
    pub(crate) due: Option<Timestamp>,
    /// The last step that changed a simulated object.
    cause: Option<usize>,
    /// The failures of the Jobs that have not ended.
    failures: BTreeMap<Uid, Failures>,
}

impl Player {
    pub(crate) const fn new(rules: Arc<Workloads>) -> Self {
        Self {
            rules,
            has_changed: true,
            due: None,
            cause: None,
            failures: BTreeMap::new(),
        }
    }

    /// Observes a change of an object of a kind, by a step.
    pub(crate) fn observe(&mut self, server: &ApiServer, kind: KindId, cause: Option<usize>) {
        let kind = &*server.catalog()[kind].kind;
        // A quota may allow now what it refused before.
        if kind == "ResourceQuota" || KINDS.iter().any(|row| row.0 == kind) {
            (self.has_changed, self.cause) = (true, cause);
        }
    }
}

impl ControlPlane {
    /// Syncs the objects of the first kind that has something to write. Returns whether there is one.
    pub(crate) fn play(&mut self, server: &mut ApiServer) -> bool {
        let before = self.trace.steps.len();
        match &mut self.player {
            Some(player) if player.has_changed || player.due.is_some_and(|due| due <= server.now()) => {
                (player.has_changed, player.due) = (false, None);
            }
            _ => return false,
        }
        for (kind, _, actor) in KINDS {
            for object in list(server, kind, None) {
                self.sync(server, actor, |cx| match kind {
                    // A node that never reported becomes ready.
                    "Node" if condition(&object, "Ready").is_empty() => pods::set_runs(cx, &object, true),
                    "Node" => {}
                    "Pod" => pods::sync_pod(cx, &object),
                    "PersistentVolumeClaim" => pods::sync_claim(cx, &object),
                    _ => owners::sync(cx, kind, &object),
                });
            }
            if self.player.as_ref().is_some_and(|player| player.has_changed) {
                break;
            }
        }
        self.trace.steps.len() > before
    }

    /// Returns whether the sync has written.
    fn sync(
        &mut self,
        server: &mut ApiServer,
        actor: &'static str,
        sync: impl FnOnce(&mut Sync<'_>),
    ) -> bool {
        let Some(player) = &self.player else {
            return false;
        };
        let (rules, now) = (Arc::clone(&player.rules), server.now());
        let mut cx = Sync {
            plane: self,
            server,
            rules,
            actor,
            now,
            has_written: false,
        };
        sync(&mut cx);
        cx.has_written
    }

    /// Replaces the rules of the workloads. All objects are synced again.
    pub fn set_workloads(&mut self, rules: Workloads) {
        if let Some(player) = &mut self.player {
            (player.rules, player.has_changed) = (Arc::new(rules), true);
        }
    }

    /// Stops or resumes the kubelet of a node. Returns whether it did: there is such a node, and its state
    /// changes.
    pub fn set_node_runs(&mut self, server: &mut ApiServer, name: &str, runs: bool) -> bool {
        let node = find(server, "Node", "", name);
        self.sync(server, KUBELET, |cx| {
            node.iter().for_each(|node| pods::set_runs(cx, node, runs));
        })
    }
}

/// One sync: reads of the server, and writes that are recorded.
pub(super) struct Sync<'a> {
    plane: &'a mut ControlPlane,
    pub(super) server: &'a mut ApiServer,
    pub(super) rules: Arc<Workloads>,
    /// The actor, by its name.
    pub(super) actor: &'static str,
    pub(super) now: Timestamp,
    /// Whether it has written, or tried to.
    pub(super) has_written: bool,
}

impl Sync<'_> {
    /// The time in its stored form.
    pub(super) fn time(&self) -> Value {
        self.now.truncate_to_secs().to_string().into()
    }

    /// Syncs the object again at a time.
    pub(super) fn wait_until(&mut self, due: Timestamp) {
        if let Some(player) = &mut self.plane.player {
            player.due = player.due.into_iter().chain([due]).min();
        }
    }

    /// The failures of the Jobs that have not ended.
    pub(super) fn failures(&mut self) -> Option<&mut BTreeMap<Uid, Failures>> {
        Some(&mut self.plane.player.as_mut()?.failures)
    }

    pub(super) fn create(&mut self, kind: &str, namespace: &str, object: Value) {
        let metadata = &object["metadata"];
        // A refused request has no other name.
        let name = metadata["name"].as_str().or(metadata["generateName"].as_str());
        let meta = ObjectMeta::new(namespace, name.unwrap_or_default(), "");
        self.write(Act::Create, kind, &meta, object);
    }

    /// Deletes a pod that is not being deleted yet.
    pub(super) fn delete(&mut self, pod: &StoredObject) {
        if !pod.meta.is_deleting() {
            self.write(Act::Delete { propagation: None }, "Pod", &pod.meta, Value::Null);
        }
    }

    /// Applies a strategic merge patch to an object or its status, or creates the binding of a pod.
    pub(super) fn update(&mut self, kind: &str, object: &StoredObject, body: Value) {
        self.write(Act::Update, kind, &object.meta, body);
    }

    /// Performs a write and records it, unless nothing changes.
    fn write(&mut self, act: Act, kind: &str, meta: &ObjectMeta, body: Value) {
        let Some(id) = kind_id(self.server, kind) else {
            return;
        };
        let server = &mut *self.server;
        let (namespace, name) = (&*meta.namespace, &*meta.name);
        let (before, manager) = (server.revision(), server.field_manager().to_owned());
        let (actor, field_manager) = match self.actor {
            KUBELET => (Actor::Kubelet, KUBELET),
            name => (Actor::Controller(name), "kube-controller-manager"),
        };
        server.set_field_manager(field_manager);
        let (reason, message) = match act {
            Act::Create => ("SuccessfulCreate", "it is missing"),
            Act::Delete { .. } => ("SuccessfulDelete", "its owner does not want it"),
            _ => ("Changed", "it differs from what its controller wants"),
        };
        let (format, patch) = (PatchType::Strategic.content_type(), body.to_string().into_bytes());
        let creator = creator(namespace, &body);
        let response = match act {
            Act::Create => server.create_json(id, namespace, body),
            Act::Delete { .. } => server.delete(id, namespace, name, &DeleteOptionsSpec::default()),
            _ if !body["target"].is_null() => server.create_subresource(id, namespace, name, "binding", body),
            _ if body["status"].is_null() => server.patch(id, namespace, name, format, &patch),
            _ => server.patch_subresource(id, namespace, name, "status", format, &patch),
        };
        server.set_field_manager(&manager);
        if server.revision() == before && response.code < 400 {
            return;
        }
        let created = response.object().filter(|_| act == Act::Create);
        let object = object_ref(server, id, created.map_or(meta, |created| &created.meta));
        let mut why = Reason::new(reason, message);
        if let Some(creator) = creator.filter(|_| act == Act::Create) {
            why = why.about(creator);
        }
        let why = Why::Controller(Box::new(why));
        let step = Step::new(actor, act, object, code_of(&response), why);
        self.has_written = true;
        let cause = self.plane.player.as_ref().and_then(|player| player.cause);
        self.plane.record_step(server, step, cause);
        self.plane.observe(server);
    }

    /// Sets fields of a status, and conditions by type, status and reason. Writes nothing if nothing changes.
    pub(super) fn status(
        &mut self,
        kind: &str,
        object: &StoredObject,
        mut fields: Value,
        conditions: &[(&str, &str, &str)],
    ) {
        let is_new = |(kind, status, reason): &&(&str, &str, &str)| {
            let known = find_condition(object, kind);
            known["status"] != *status || known["reason"].as_str().unwrap_or_default() != *reason
        };
        let changed: Vec<Value> = conditions.iter().filter(is_new).map(|(kind, status, reason)| {
            json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": self.time()})
        }).collect();
        if let Value::Object(fields) = &mut fields {
            fields.retain(|field, value| object.at(&["status", field]) != Some(value));
            if !changed.is_empty() {
                fields.insert("conditions".to_owned(), changed.into());
            }
        }
        if fields != json!({}) {
            self.update(kind, object, json!({"status": fields}));
        }
    }
}

/// The owner of an object that is to be created.
fn creator(namespace: &str, object: &Value) -> Option<ObjectId> {
    let owner = &object["metadata"]["ownerReferences"][0];
    let text = |field: &str| owner[field].as_str();
    let (group, _) = split_api_version(text("apiVersion")?);
    let mut meta = ObjectMeta::new(namespace, text("name")?, "");
    meta.uid = text("uid")?.into();
    Some(ObjectId::new(Resource::of_kind(group, text("kind")?)?, &meta))
}

/// The API version of a simulated kind, or of a kind of the core group.
pub(super) fn api_version(kind: &str) -> &'static str {
    KINDS.iter().find(|row| row.0 == kind).map_or("v1", |row| row.1)
}

fn kind_id(server: &ApiServer, kind: &str) -> Option<KindId> {
    server.catalog().mapping(api_version(kind), kind)
}

pub(super) fn find(server: &ApiServer, kind: &str, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
    server.object(kind_id(server, kind)?, namespace, name).cloned()
}

/// All objects of a kind, by namespace and name.
pub(super) fn list(server: &ApiServer, kind: &str, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
    let kind = kind_id(server, kind);
    kind.map(|kind| server.objects(kind, namespace))
        .unwrap_or_default()
}

/// The spec of an object; null if it has none.
pub(super) fn spec(object: &StoredObject) -> &Value {
    object.at(&["spec"]).unwrap_or(&Value::Null)
}

pub(super) fn list_at<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn find_condition<'a>(object: &'a StoredObject, kind: &str) -> &'a Value {
    let mut conditions = list_at(object.at(&["status"]).unwrap_or(&Value::Null), "conditions").iter();
    let found = conditions.find(|condition| condition["type"] == kind);
    found.unwrap_or(&Value::Null)
}

/// The status of a condition; empty if there is none.
pub(super) fn condition<'a>(object: &'a StoredObject, kind: &str) -> &'a str {
    find_condition(object, kind)["status"]
        .as_str()
        .unwrap_or_default()
}
