//! Objects for the tests, as an API server would show them, as a dump
//! and as a running server.

use kubegc_controllers::Cloud;
use kubegc_core::{KubernetesVersion, Timestamp};
use std::time::Duration;

use kubegc_predict::{Assumptions, Cluster, Forecast, Instance, Question};
use kubegc_sim::{ApiServer, Manifest, Settings};
use kubegc_snapshot::Reader;
use serde_json::{Value, json};

pub(crate) const VERSION: KubernetesVersion = KubernetesVersion::LATEST;

/// When the dump was taken.
pub(crate) fn noon() -> Timestamp {
    Timestamp::parse("2026-05-01T12:00:00Z").unwrap()
}

/// So many seconds after (or before) noon, as the API writes it.
pub(crate) fn at(seconds: i64) -> String {
    Timestamp::from_secs(noon().as_secs() + seconds).to_string()
}

/// Objects of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fixture {
    pub(crate) objects: Vec<Value>,
}

impl Fixture {
    /// Adds an object; its uid is its kind and name, so that references are easily written.
    pub(crate) fn add(&mut self, api_version: &str, kind: &str, namespace: &str, name: &str, rest: Value) {
        let mut object = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "uid": uid(kind, name),
                "resourceVersion": (self.objects.len() + 1).to_string(),
                "creationTimestamp": at(-86_400),
            },
        });
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        merge(&mut object, rest);
        self.objects.push(object);
    }

    /// Changes the object that was added last.
    pub(crate) fn change_last(&mut self, rest: Value) {
        if let Some(last) = self.objects.last_mut() {
            merge(last, rest);
        }
    }

    /// The cluster of these objects, all kinds complete.
    pub(crate) fn cluster(&self) -> Cluster {
        self.cluster_with_all(&["all"])
    }

    /// The same where only these kinds are complete.
    pub(crate) fn cluster_with_all(&self, kinds: &[&str]) -> Cluster {
        self.cluster_of(VERSION, kinds)
    }

    /// The same in another release.
    pub(crate) fn cluster_of(&self, version: KubernetesVersion, kinds: &[&str]) -> Cluster {
        self.cluster_under(version, kinds, Assumptions::default())
    }

    /// The same under other assumptions.
    pub(crate) fn cluster_under(
        &self,
        version: KubernetesVersion,
        kinds: &[&str],
        assumptions: Assumptions,
    ) -> Cluster {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": self.objects });
        let mut reader = Reader::new(version);
        for kind in kinds {
            reader = reader.complete(kind);
        }
        reader.read("fixture.json", list.to_string().as_bytes()).unwrap();
        Cluster::new(version, reader.finish().unwrap(), assumptions)
    }

    /// The same objects on a server.
    pub(crate) fn server(&self) -> ApiServer {
        let settings = Settings {
            namespaces_must_exist: false,
            ..Settings::default()
        };
        let catalog = kubegc_core::Catalog::builtin(VERSION);
        let mut server = ApiServer::new(VERSION, catalog).with_settings(settings);
        server.set_now(noon());
        for object in &self.objects {
            let manifest = Manifest::read(object.clone()).unwrap();
            let kind = server
                .catalog()
                .mapping(&manifest.api_version, &manifest.kind)
                .unwrap();
            server.insert(kind, manifest.object).unwrap();
        }
        server
    }
}

pub(crate) fn uid(kind: &str, name: &str) -> String {
    format!("{kind}-{name}").to_lowercase()
}

/// A reference to an owner.
pub(crate) fn owner(api_version: &str, kind: &str, name: &str, is_controller: bool) -> Value {
    json!([{
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid(kind, name),
        "controller": is_controller,
        "blockOwnerDeletion": is_controller,
    }])
}

/// A status with one condition that is true.
pub(crate) fn condition(kind: &str, seconds: i64) -> Value {
    json!({ "conditions": [{
        "type": kind,
        "status": "True",
        "lastTransitionTime": at(seconds),
        "lastUpdateTime": at(seconds),
    }] })
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// The assumption that the instances of these nodes do not exist.
pub(crate) fn without_instances(nodes: &[&str]) -> Assumptions {
    let missing = Instance {
        exists: Cloud::No,
        ..Instance::default()
    };
    let cloud = nodes.iter().map(|node| ((*node).into(), missing.clone()));
    Assumptions {
        cloud: cloud.collect(),
        ..Assumptions::default()
    }
}

/// Names of controllers.
pub(crate) const JOBS: &str = "ttl-after-finished-controller";
pub(crate) const NODES: &str = "cloud-node-lifecycle-controller";
/// The controller that taints nodes by their conditions.
pub(crate) const NODE_TAINTS: &str = "node-lifecycle-controller";
pub(crate) const PODS: &str = "pod-garbage-collector-controller";

/// podgc with this threshold.
pub(crate) fn at_most(threshold: i32) -> kubegc_controllers::PodGc {
    let mut controller = kubegc_controllers::PodGc::new(VERSION);
    controller.terminated_pod_threshold = threshold;
    controller
}

/// The default period.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The forecast of a question without deletes.
pub(crate) fn predict(cluster: &Cluster, question: &Question) -> Forecast {
    cluster.forecast(question).expect("no name is to be resolved")
}

/// The name in the text of an object: `web` of `pod/web -n shop`.
pub(crate) fn bare_name(object: &str) -> &str {
    let (_, name) = object.split_once('/').unwrap_or_default();
    name.split(' ').next().unwrap_or_default()
}
