//! The step of the player, and the reads and writes of a sync.

use std::sync::Arc;

use kubegc_controllers::Reason;
use kubegc_core::{
    KindId, ObjectMeta, PatchType, Timestamp,
    deletion::DeleteOptionsSpec,
    record::{ObjectId, Resource},
};
use kubegc_sim::{ApiServer, StoredObject};
use serde_json::{Value, json};

use super::Workloads;
use crate::{Act, Actor, ControlPlane, Step, Why, object_ref, trace::code_of};

/// The simulated resources in the order of syncs: pods before their owners, so that a status is written once
/// for many pods. Each with the actor of its syncs.
const RESOURCES: [(Resource, &str); 8] = [
    (Resource::Nodes, KUBELET),
    (Resource::PersistentVolumeClaims, VOLUME_BINDER),
    (Resource::Pods, KUBELET),
    (Resource::ReplicaSets, "replicaset-controller"),
    (Resource::StatefulSets, "statefulset-controller"),
    (Resource::DaemonSets, "daemonset-controller"),
    (Resource::Jobs, "job-controller"),
    (Resource::Deployments, "deployment-controller"),
];
const KUBELET: &str = "kubelet";
const VOLUME_BINDER: &str = "persistentvolume-binder-controller";

/// The player of workloads. In a step it syncs all objects of one resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Player {
    /// Without rules it does not act.
    pub(crate) rules: Option<Arc<Workloads>>,
    /// Whether no object has changed since the last step.
    pub(crate) is_settled: bool,
    /// The time when an object is due again.
    pub(crate) due: Option<Timestamp>,
    /// The last step that changed an object.
    pub(crate) cause: Option<usize>,
}

impl ControlPlane {
    /// Syncs the objects of the first resource that has something to write. Returns whether there is one.
    pub(crate) fn play(&mut self, server: &mut ApiServer) -> bool {
        let (before, player) = (self.trace.steps.len(), &mut self.player);
        let is_due = !player.is_settled || player.due.is_some_and(|due| due <= server.now());
        let Some(rules) = player.rules.clone().filter(|_| is_due) else {
            return false;
        };
        (player.is_settled, player.due) = (true, None);
        for (resource, actor) in RESOURCES {
            for object in list(server, resource, None) {
                let mut sync = Sync::new(self, server, resource, actor, &object);
                match resource {
                    // A node that never reported becomes ready.
                    Resource::Nodes if object.condition("Ready").is_null() => sync.set_runs(true),
                    Resource::Nodes => {}
                    Resource::Pods => sync.pod(&rules),
                    Resource::PersistentVolumeClaims => sync.claim(&rules),
                    _ => sync.owner(),
                }
            }
            if !self.player.is_settled {
                break;
            }
        }
        self.trace.steps.len() > before
    }

    /// Replaces the rules of the workloads. All objects are synced again.
    pub fn set_workloads(&mut self, rules: Workloads) {
        if let Some(known) = &mut self.player.rules {
            (*known, self.player.is_settled) = (Arc::new(rules), false);
        }
    }

    /// Stops or resumes the kubelet of a node. Returns whether it did: there is such a node, and its state
    /// changes.
    pub fn set_node_runs(&mut self, server: &mut ApiServer, name: &str, runs: bool) -> bool {
        let node = find(server, Resource::Nodes, "", name).filter(|_| self.player.rules.is_some());
        node.is_some_and(|node| {
            let mut sync = Sync::new(self, server, Resource::Nodes, KUBELET, &node);
            sync.set_runs(runs);
            sync.has_written
        })
    }
}

/// The sync of one object: reads of the server, and writes that are recorded.
pub(super) struct Sync<'a> {
    plane: &'a mut ControlPlane,
    pub(super) server: &'a mut ApiServer,
    pub(super) resource: Resource,
    /// The actor, by its name.
    pub(super) actor: &'static str,
    pub(super) object: &'a StoredObject,
    pub(super) spec: &'a Value,
    /// The dependents of an owner: pods, or the ReplicaSets of a Deployment.
    pub(super) dependents: Vec<Arc<StoredObject>>,
    /// Whether it has written, or tried to.
    pub(super) has_written: bool,
}

impl<'a> Sync<'a> {
    fn new(
        plane: &'a mut ControlPlane,
        server: &'a mut ApiServer,
        resource: Resource,
        actor: &'static str,
        object: &'a StoredObject,
    ) -> Self {
        Self {
            plane,
            server,
            resource,
            actor,
            object,
            spec: object.field("spec"),
            dependents: Vec::new(),
            has_written: false,
        }
    }

    /// The time in its stored form.
    pub(super) fn time(&self) -> Value {
        self.server.now().truncate_to_secs().to_string().into()
    }

    /// Syncs the object again at a time.
    pub(super) fn wait_until(&mut self, due: Timestamp) {
        let known = self.plane.player.due;
        self.plane.player.due = known.into_iter().chain([due]).min();
    }

    /// Finds a cluster-scoped object, or one in the namespace of the synced object.
    pub(super) fn find(&self, resource: Resource, name: &str) -> Option<Arc<StoredObject>> {
        find(self.server, resource, &self.object.meta.namespace, name)
    }

    /// Creates a cluster-scoped object, or one in the namespace of the synced object.
    pub(super) fn create(&mut self, resource: Resource, object: Value) {
        let metadata = &object["metadata"];
        // A refused request has no other name.
        let name = metadata["name"].as_str().or(metadata["generateName"].as_str());
        let namespace = &self.object.meta.namespace;
        let meta = ObjectMeta::new(namespace, name.unwrap_or_default(), "");
        self.write(Act::Create, resource, &meta, object);
    }

    /// Deletes a pod that is not being deleted yet.
    pub(super) fn delete(&mut self, pod: &StoredObject) {
        if !pod.meta.is_deleting() {
            let act = Act::Delete { propagation: None };
            self.write(act, Resource::Pods, &pod.meta, Value::Null);
        }
    }

    /// Applies a strategic merge patch to an object or its status, or creates the binding of a pod.
    pub(super) fn update(&mut self, resource: Resource, object: &StoredObject, body: Value) {
        self.write(Act::Update, resource, &object.meta, body);
    }

    /// Performs a write and records it, unless nothing changes.
    fn write(&mut self, act: Act, resource: Resource, meta: &ObjectMeta, body: Value) {
        let server = &mut *self.server;
        let Some(kind) = kind_of(server, resource) else {
            return;
        };
        let (namespace, name, before) = (&*meta.namespace, &*meta.name, server.revision());
        let mut why = match act {
            Act::Create => Reason::new("SuccessfulCreate", "it is missing"),
            Act::Delete { .. } => Reason::new("SuccessfulDelete", "its owner does not want it"),
            _ => Reason::new("Changed", "it differs from what its controller wants"),
        };
        // The synced object owns what is created with an owner.
        if act == Act::Create && !body["metadata"]["ownerReferences"].is_null() {
            why = why.about(ObjectId::new(self.resource, &self.object.meta));
        }
        let (format, patch) = (PatchType::Strategic.content_type(), body.to_string().into_bytes());
        let response = match act {
            Act::Create => server.create_json(kind, namespace, body),
            Act::Delete { .. } => server.delete(kind, namespace, name, &DeleteOptionsSpec::default()),
            _ if !body["target"].is_null() => {
                server.create_subresource(kind, namespace, name, "binding", body)
            }
            _ if body["status"].is_null() => server.patch(kind, namespace, name, format, &patch),
            _ => server.patch_subresource(kind, namespace, name, "status", format, &patch),
        };
        if server.revision() == before && response.code < 400 {
            return;
        }
        let actor = match self.actor {
            KUBELET => Actor::Kubelet,
            name => Actor::Controller(name),
        };
        let created = response.object().filter(|_| act == Act::Create);
        let object = object_ref(server, kind, created.map_or(meta, |created| &created.meta));
        let why = Why::Controller(Box::new(why));
        let step = Step::new(actor, act, object, code_of(&response), why);
        self.has_written = true;
        self.plane.record_step(server, step, self.plane.player.cause);
        self.plane.observe(server);
    }

    /// Sets fields of the status of the synced object, and conditions by type, status and reason. Writes
    /// nothing if nothing changes.
    pub(super) fn status(&mut self, mut fields: Value, conditions: &[(&str, &str, &str)]) {
        let object = self.object;
        let mut changed = Vec::new();
        for (of_type, status, reason) in conditions {
            let known = object.condition(of_type);
            if known["status"] != *status || known["reason"].as_str().unwrap_or_default() != *reason {
                changed.push(json!({
                    "type": of_type, "status": status, "reason": reason, "lastTransitionTime": self.time(),
                }));
            }
        }
        if let Value::Object(fields) = &mut fields {
            fields.retain(|field, value| object.at(&["status", field]) != Some(value));
            if !changed.is_empty() {
                fields.insert("conditions".to_owned(), changed.into());
            }
        }
        if fields != json!({}) {
            self.update(self.resource, object, json!({"status": fields}));
        }
    }
}

/// The kind of a resource in the version `v1`.
fn kind_of(server: &ApiServer, resource: Resource) -> Option<KindId> {
    server
        .catalog()
        .by_resource(resource.group(), "v1", resource.plural())
}

pub(super) fn find(
    server: &ApiServer,
    of: Resource,
    namespace: &str,
    name: &str,
) -> Option<Arc<StoredObject>> {
    server.object(kind_of(server, of)?, namespace, name).cloned()
}

/// All objects of a resource, by namespace and name.
pub(super) fn list(server: &ApiServer, of: Resource, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
    let kind = kind_of(server, of);
    kind.map(|kind| server.objects(kind, namespace))
        .unwrap_or_default()
}
