//! Syncs as functions: objects, rules and a time in, writes out.

mod budgets;
mod daemon_sets;
mod deployments;
mod helpers;
mod jobs;
mod kubelets;
mod nodes;
mod queue;
mod scheduling;
mod stateful_sets;

use std::{sync::Arc, time::Duration};

use kubegc_core::{Catalog, KubernetesVersion, ObjectMeta, Timestamp};
use kubegc_sim::{ApiServer, Manifest, StoredObject};
use serde_json::{Value, json};

use super::{
    ClaimFate, PodFate, Workloads, deployment, job, nodes as node_syncs,
    plan::{Kind, Plan, Verb, View, find},
    pods, revisions, scheduler,
};

/// A time after the start of a test.
fn at(seconds: u64) -> Timestamp {
    let start = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    start.saturating_add(Duration::from_secs(seconds))
}

fn time(seconds: u64) -> Value {
    at(seconds).to_string().into()
}

/// The fields of the second object are added to the first one.
fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

fn merged(target: &Value, patch: Value) -> Value {
    let mut target = target.clone();
    merge(&mut target, patch);
    target
}

/// An object of the start, with the uid `KIND-NAME`.
fn object(kind: Kind, name: &str, fields: Value) -> Value {
    let reference = kind.reference(&ObjectMeta::new("", name, ""));
    let uid = format!("{}-{name}", reference.kind);
    let mut object = json!({
        "apiVersion": &*reference.api_version,
        "kind": &*reference.kind,
        "metadata": {"name": name, "uid": uid, "creationTimestamp": time(0)},
    });
    if !matches!(kind, Kind::Node | Kind::Volume) {
        object["metadata"]["namespace"] = "shop".into();
    }
    merge(&mut object, fields);
    object
}

/// The controller reference to an object.
fn reference_to(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// An object with a controller.
fn controlled(owner: &Value, object: Value) -> Value {
    merged(
        &object,
        json!({"metadata": {"ownerReferences": [reference_to(owner)]}}),
    )
}

/// An object that is being deleted.
fn deleting(object: Value) -> Value {
    let deletion =
        json!({"deletionTimestamp": time(0), "deletionGracePeriodSeconds": 30, "finalizers": ["shop/hold"]});
    merged(&object, json!({"metadata": deletion}))
}

/// A running pod that is ready since a time.
fn ready_pod(name: &str, since: u64) -> Value {
    let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": time(since)}]);
    object(
        Kind::Pod,
        name,
        json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running", "conditions": ready}}),
    )
}

fn pod_in(name: &str, phase: &str) -> Value {
    object(Kind::Pod, name, json!({"status": {"phase": phase}}))
}

struct World {
    server: ApiServer,
    rules: Workloads,
    now: u64,
}

/// The writes of a sync, each as a line and with its object, and the time of the next sync.
struct Synced {
    lines: Vec<String>,
    objects: Vec<Value>,
    due: Option<Timestamp>,
}

impl Synced {
    fn reasons(&self) -> Vec<&str> {
        let reason =
            |line: &'_ String| -> (usize, usize) { (line.find('(').unwrap() + 1, line.find(')').unwrap()) };
        let lines = self.lines.iter();
        lines
            .map(|line| {
                let (first, end) = reason(line);
                &line[first..end]
            })
            .collect()
    }
}

impl World {
    fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        Self::of(KubernetesVersion::LATEST, objects)
    }

    fn of(version: KubernetesVersion, objects: impl IntoIterator<Item = Value>) -> Self {
        let mut world = Self {
            server: ApiServer::new(version, Catalog::builtin(version)),
            rules: Workloads::new(),
            now: 100,
        };
        for object in objects {
            world.put(object);
        }
        world
    }

    fn put(&mut self, object: Value) {
        let kind = Kind::named(object["kind"].as_str().unwrap()).unwrap();
        let id = kind.id(&self.server).unwrap();
        let object = Manifest::read(object).unwrap().object;
        self.server.insert(id, object).unwrap();
    }

    fn view(&self) -> View<'_> {
        View {
            server: &self.server,
            rules: &self.rules,
            now: at(self.now),
        }
    }

    fn stored(&self, kind: Kind, name: &str) -> Arc<StoredObject> {
        let namespace = if matches!(kind, Kind::Node | Kind::Volume) {
            ""
        } else {
            "shop"
        };
        find(&self.server, kind, namespace, name).unwrap()
    }

    fn json(&self, kind: Kind, object: &StoredObject) -> Value {
        object.to_json(&self.server.catalog()[kind.id(&self.server).unwrap()])
    }

    fn sync(&self, kind: Kind, name: &str) -> Synced {
        let sync = super::queue::sync(kind).expect("it has a sync");
        self.read(sync(&self.view(), &self.stored(kind, name)))
    }

    fn read(&self, plan: Plan) -> Synced {
        let mut synced = Synced {
            lines: Vec::new(),
            objects: Vec::new(),
            due: plan.due,
        };
        for write in plan.writes {
            let json = |object: &StoredObject| self.json(write.kind, object);
            let (verb, object, target) = match &write.verb {
                Verb::Create(object) => ("create", object.clone(), String::new()),
                Verb::Update(object) => ("update", json(object), String::new()),
                Verb::Patch(object) => ("patch", json(object), String::new()),
                Verb::Status(object) => ("status", json(object), String::new()),
                Verb::Bind(meta, node) => (
                    "bind",
                    json!({"metadata": {"name": &*meta.name}}),
                    format!(" to {node}"),
                ),
                Verb::Delete(meta) => (
                    "delete",
                    json!({"metadata": {"name": &*meta.name}}),
                    String::new(),
                ),
            };
            let metadata = &object["metadata"];
            let name = [&metadata["name"], &metadata["generateName"]];
            let name = name.into_iter().find_map(Value::as_str).unwrap_or_default();
            let kind = write
                .kind
                .reference(&ObjectMeta::new("", "", ""))
                .kind
                .to_lowercase();
            let (actor, reason, message) = (write.actor, write.reason, &write.message);
            let line = format!("{actor}: {verb} {kind}/{name}{target} ({reason}): {message}");
            synced.lines.push(line);
            synced.objects.push(object);
        }
        synced
    }

    /// Syncs, and stores the written objects.
    fn play(&mut self, kind: Kind, name: &str) -> Synced {
        let synced = self.sync(kind, name);
        for object in synced.objects.iter().filter(|object| object["kind"].is_string()) {
            self.put(object.clone());
        }
        synced
    }

    #[track_caller]
    fn expect(&self, kind: Kind, name: &str, lines: &[&str]) -> Synced {
        let synced = self.sync(kind, name);
        assert_eq!(synced.lines, lines);
        synced
    }

    /// The status that a sync writes.
    #[track_caller]
    fn status(&self, kind: Kind, name: &str) -> Value {
        let synced = self.sync(kind, name);
        assert_eq!(synced.objects.len(), 1, "{:?}", synced.lines);
        assert!(synced.lines[0].contains(": status "), "{:?}", synced.lines);
        synced.objects[0]["status"].clone()
    }
}
