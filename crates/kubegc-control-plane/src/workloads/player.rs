//! The step of the player, the reads and writes of a sync, and the syncs of the scheduler, the kubelets and
//! the volume controller by the rules of a test.

use std::{sync::Arc, time::Duration};

use kubegc_controllers::Reason;
use kubegc_core::{
    KindId, ObjectMeta, PatchType, Timestamp,
    deletion::DeleteOptionsSpec,
    record::ObjectId,
    record::Resource::{self, *},
};
use kubegc_sim::{ApiServer, StoredObject};
use serde_json::{Value, json};

use super::{ClaimFate, PodFate, Subject, Workloads};
use crate::{Act, Actor, ControlPlane, Step, Why, object_ref, trace::code_of};

/// The simulated resources in the order of syncs: pods before their owners, so that a status is written once
/// for many pods. Each with the actor of its syncs.
const RESOURCES: [(Resource, Actor); 8] = [
    (Nodes, Actor::Kubelet),
    (PersistentVolumeClaims, VOLUME_BINDER),
    (Pods, Actor::Kubelet),
    (ReplicaSets, Actor::Controller("replicaset-controller")),
    (StatefulSets, Actor::Controller("statefulset-controller")),
    (DaemonSets, Actor::Controller("daemonset-controller")),
    (Jobs, Actor::Controller("job-controller")),
    (Deployments, Actor::Controller("deployment-controller")),
];
const VOLUME_BINDER: Actor = Actor::Controller("persistentvolume-binder-controller");

/// The time between the exit of a container and its restart.
const RESTART: Duration = Duration::from_secs(10);

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
                    Nodes if object.condition("Ready").is_null() => sync.set_runs(true),
                    Nodes => {}
                    Pods => sync.pod(&rules),
                    PersistentVolumeClaims => sync.claim(&rules),
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
        let node = kind_of(server, Nodes).and_then(|kind| server.object(kind, "", name));
        let node = node.filter(|_| self.player.rules.is_some()).cloned();
        node.is_some_and(|node| {
            let mut sync = Sync::new(self, server, Nodes, Actor::Kubelet, &node);
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
    pub(super) actor: Actor,
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
        actor: Actor,
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

    /// Syncs the object again at a time.
    pub(super) fn wait_until(&mut self, due: Timestamp) {
        let known = self.plane.player.due;
        self.plane.player.due = known.into_iter().chain([due]).min();
    }

    /// Finds a cluster-scoped object, or one in the namespace of the synced object.
    pub(super) fn find(&self, resource: Resource, name: &str) -> Option<&Arc<StoredObject>> {
        let namespace = &self.object.meta.namespace;
        self.server
            .object(kind_of(self.server, resource)?, namespace, name)
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

    pub(super) fn delete(&mut self, pod: &StoredObject) {
        let act = Act::Delete { propagation: None };
        if !pod.meta.is_deleting() {
            self.write(act, Pods, &pod.meta, Value::Null);
        }
    }

    /// Performs a write and records it, unless nothing changes: creates or deletes an object, applies a
    /// strategic merge patch to it or to its status, or creates the binding of a pod.
    pub(super) fn write(&mut self, act: Act, resource: Resource, meta: &ObjectMeta, body: Value) {
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
        let created = response.object().filter(|_| act == Act::Create);
        let object = object_ref(server, kind, created.map_or(meta, |created| &created.meta));
        let why = Why::Controller(Box::new(why));
        let step = Step::new(self.actor, act, object, code_of(&response), why);
        self.has_written = true;
        self.plane.record_step(server, step, self.plane.player.cause);
        self.plane.observe(server);
    }

    /// Sets fields of the status of the synced object, and conditions by type, status and reason. Writes
    /// nothing if nothing changes.
    pub(super) fn status(&mut self, mut fields: Value, conditions: &[(&str, &str, &str)]) {
        let (object, mut changed) = (self.object, Vec::new());
        let now = self.server.now().truncate_to_secs().to_string();
        for (of_type, status, reason) in conditions {
            let known = object.condition(of_type);
            if known["status"] != *status || known["reason"].as_str().unwrap_or_default() != *reason {
                changed.push(json!({
                    "type": of_type, "status": status, "reason": reason, "lastTransitionTime": now,
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
            let body = json!({"status": fields});
            self.write(Act::Update, self.resource, &object.meta, body);
        }
    }
}

/// The kind of a resource in the version `v1`.
fn kind_of(server: &ApiServer, resource: Resource) -> Option<KindId> {
    let catalog = server.catalog();
    catalog.by_resource(resource.group(), "v1", resource.plural())
}

/// All objects of a resource, by namespace and name.
pub(super) fn list(server: &ApiServer, of: Resource, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
    let kind = kind_of(server, of);
    kind.map_or_else(Vec::new, |kind| server.objects(kind, namespace))
}

pub(super) fn has_ended(pod: &StoredObject) -> bool {
    matches!(pod.text_at(&["status", "phase"]), "Succeeded" | "Failed")
}

pub(super) fn is_active(pod: &StoredObject) -> bool {
    !has_ended(pod) && !pod.meta.is_deleting()
}

pub(super) fn is_ready(pod: &StoredObject) -> bool {
    is_active(pod) && pod.condition("Ready")["status"] == "True"
}

/// A Node whose kubelet reports that it is ready, as JSON.
pub fn ready_node(name: &str, now: Timestamp) -> Value {
    let now = now.truncate_to_secs().to_string();
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"conditions": [ready], "addresses": [{"type": "Hostname", "address": name}]},
    })
}

/// Whether pods with this spec may run on a node, by its labels.
pub(super) fn fits(spec: &Value, node: &StoredObject) -> bool {
    let mut labels = spec["nodeSelector"].as_object().into_iter().flatten();
    let has = |key: &str, value: &Value| node.meta.labels.get(key).is_some_and(|known| *value == **known);
    !node.meta.is_deleting() && labels.all(|(key, value)| has(key, value))
}

impl Sync<'_> {
    /// Writes whether the kubelet of a node reports.
    fn set_runs(&mut self, runs: bool) {
        self.status(json!({}), &[("Ready", if runs { "True" } else { "Unknown" }, "")]);
    }

    /// One sync of a pod: by the scheduler if it has no node, else by the kubelet of its node.
    fn pod(&mut self, rules: &Workloads) {
        let (pod, node) = (self.object, self.object.text_at(&["spec", "nodeName"]));
        let fate = rules.pod(&Subject::new(self.server, pod));
        if node.is_empty() && fate != PodFate::Unschedulable && is_active(pod) {
            self.schedule();
        } else if let Some(node) = self.find(Nodes, node).filter(|_| !has_ended(pod)) {
            if node.condition("Ready")["status"] != "True" {
                self.status(json!({}), &[("Ready", "False", "")]);
            } else if !pod.meta.is_deleting() {
                self.run(fate);
            }
        }
    }

    /// Binds a pod to a suitable node, once its claims are bound. The nodes take turns.
    fn schedule(&mut self) {
        let volumes = self.object.list_at(&["spec", "volumes"]).iter();
        let claims = volumes.map(|volume| &volume["persistentVolumeClaim"]["claimName"]);
        for claim in claims.filter_map(Value::as_str) {
            let claim = self.find(PersistentVolumeClaims, claim);
            if claim.is_none_or(|claim| claim.field("status")["phase"] != "Bound") {
                return;
            }
        }
        let mut nodes = list(self.server, Nodes, None);
        nodes.retain(|node| fits(self.spec, node) && node.field("spec")["unschedulable"] != true);
        nodes.retain(|node| node.condition("Ready")["status"] == "True");
        let mut bound = list(self.server, Pods, None);
        bound.retain(|pod| !pod.field("spec")["nodeName"].is_null());
        if let Some(turn) = bound.len().checked_rem(nodes.len()) {
            let name = &*nodes[turn].meta.name;
            self.actor = Actor::Controller("default-scheduler");
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": name});
            self.write(Act::Update, Pods, &self.object.meta, json!({"target": target}));
        }
    }

    /// Writes the status of a pod on its node, by its fate and the time since its start.
    fn run(&mut self, fate: PodFate) {
        let (pod, now) = (self.object, self.server.now());
        let started = pod.text_at(&["status", "startTime"]);
        if started.is_empty() && matches!(fate, PodFate::Pending | PodFate::Unschedulable) {
            let not_ready = ("Ready", "False", "ContainersNotReady");
            return self.status(json!({"phase": "Pending"}), &[not_ready]);
        }
        let start = Timestamp::parse(started).unwrap_or_else(|_| now.truncate_to_secs());
        // The time of the change after a start of the containers, and the phase in which they exit.
        let (after, exit) = match fate {
            PodFate::Ready { after } => (after, None),
            PodFate::Succeeds { after } => (after, Some("Succeeded")),
            PodFate::Fails { after } => (after, Some("Failed")),
            _ => (Duration::MAX, None),
        };
        let restarts = match self.spec["restartPolicy"].as_str() {
            Some("Never") => false,
            Some("OnFailure") => exit == Some("Failed"),
            _ => exit.is_some(),
        };
        // The time between two starts.
        let round = after.saturating_add(if restarts { RESTART } else { Duration::MAX });
        let rounds = now.since(start).as_nanos() / round.as_nanos();
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        let begin = start.saturating_add(round.saturating_mul(rounds));
        let has_changed = now >= begin.saturating_add(after);
        let next = if has_changed { round } else { after };
        if next < Duration::MAX {
            self.wait_until(begin.saturating_add(next));
        }
        let is_ready = has_changed == exit.is_none();
        let known = &pod.field("status")["containerStatuses"][0]["restartCount"];
        let count = known.as_u64().unwrap_or(0).max(rounds.into());
        let containers = pod.list_at(&["spec", "containers"]).iter().map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "",
                "ready": is_ready, "restartCount": count,
            })
        });
        let status = json!({
            "phase": exit.filter(|_| has_changed && !restarts).unwrap_or("Running"),
            "startTime": start.to_string(), "containerStatuses": containers.collect::<Vec<_>>(),
        });
        self.status(status, &[("Ready", if is_ready { "True" } else { "False" }, "")]);
    }

    fn claim(&mut self, rules: &Workloads) {
        let (claim, spec, now) = (self.object, self.spec, self.server.now());
        let ClaimFate::Bound { after } = rules.claim(&Subject::new(self.server, claim)) else {
            return;
        };
        let at = claim.meta.creation_timestamp.unwrap_or(now).saturating_add(after);
        if claim.meta.is_deleting() || !matches!(claim.text_at(&["status", "phase"]), "" | "Pending") {
            return;
        }
        if at > now {
            return self.wait_until(at);
        }
        let capacity = &spec["resources"]["requests"];
        let status = json!({"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity});
        self.status(status, &[]);
    }
}
