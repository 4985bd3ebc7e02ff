//! Runs one scenario: a test cluster of the recorded release without a collector, and kubegc's collector as
//! one of its clients.

use std::time::Duration;

use futures_util::FutureExt;
use kubegc_core::{Catalog, KubernetesVersion};
use kubegc_kube::GarbageCollector;
use kubegc_objects::Settings;
use kubegc_predict::Assumptions;
use kubegc_testkit::{Cluster, Fault, http::Verb};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{format::Scenario, requests::Recorder};

/// The release that the scenarios were recorded with.
const VERSION: &str = "1.20.2";
/// The time for which the collector must be silent before a checkpoint is recorded.
const SILENCE: Duration = Duration::from_millis(1_600);
/// More periods of silence than any recorded scenario waits for.
const SILENCES_MAX: usize = 400;
/// The collector's name in audits.
const COLLECTOR: &str = "collector";

/// Durations of requests, one of which is drawn: most are quick and few are slow, as in the recorded cluster.
const DELAYS_MILLIS: [u64; 10] = [1, 1, 1, 1, 1, 1, 2, 2, 2, 4];
/// The client's delay before each request.
const PAUSE: Duration = Duration::from_millis(1);

/// The states at the checkpoints of one run. The seed determines the duration of each request.
pub(crate) async fn play(scenario: &Scenario, seed: u64) -> Vec<Value> {
    let version: KubernetesVersion = VERSION.parse().expect("a version");
    let assumptions = Assumptions {
        // No kubelet ran in the recorded cluster.
        pods_end: false,
        ..Assumptions::default()
    };
    // The recorded objects lack required fields of their types.
    let mut builder = Cluster::builder()
        .types(false)
        .version(version)
        .namespace("ns1")
        .namespace("ns2")
        .seed(seed)
        .assumptions(assumptions)
        .without_collector();
    for definition in definitions() {
        builder = builder.crd(definition);
    }
    let cluster = builder.build().expect("the recorded cluster can be built");
    let others = cluster.run();
    let delays = DELAYS_MILLIS.map(|millis| Fault::Delay(Duration::from_millis(millis)));
    cluster.faults().draw(seed, 1_000, delays.to_vec());
    let catalog: Catalog = cluster.server().with(|server| server.discover());
    let mut recorder = Recorder::new(scenario, catalog, cluster.client_as("recorder"));
    let mut collector = match scenario.gc.as_str() {
        "stopped" => None,
        _ => Some(Collecting::start(&cluster, version).await),
    };
    let mut states = Vec::new();
    for step in &scenario.steps {
        tokio::time::sleep(PAUSE).await;
        let alias = &*step.alias;
        match &*step.op {
            "create" => {
                for alias in &step.aliases {
                    recorder.create(alias).await;
                }
            }
            "delete" => recorder.delete(alias, &step.options).await,
            "set_owner_refs" => {
                let metadata = json!({"ownerReferences": step.owner_references});
                recorder.merge(alias, metadata).await;
            }
            "set_finalizers" => {
                recorder
                    .merge(alias, json!({"finalizers": step.finalizers}))
                    .await;
            }
            "add_finalizer" => {
                let add = |finalizers: &mut Vec<Value>| finalizers.push(step.finalizer.as_str().into());
                recorder.change_finalizers(alias, add).await;
            }
            "remove_finalizer" => {
                let remove = |finalizers: &mut Vec<Value>| finalizers.retain(|name| *name != *step.finalizer);
                recorder.change_finalizers(alias, remove).await;
            }
            "touch" => {
                recorder.merge(alias, json!({"labels": {"touched": "yes"}})).await;
            }
            "patch" => recorder.patch(alias, &step.content_type, &step.body).await,
            "delete_namespace" => {
                recorder.delete_namespace(&step.namespace).await;
                tokio::time::sleep(Duration::from_secs_f64(step.then_sleep)).await;
            }
            "stop-gc" => {
                if let Some(running) = collector.take() {
                    running.stop().await;
                }
            }
            "start-gc" => collector = Some(Collecting::start(&cluster, version).await),
            "wait" => {
                silence(&cluster).await;
                states.push(recorder.state().await);
            }
            "snapshot" => states.push(recorder.state().await),
            other => panic!("unknown step {other}"),
        }
    }
    if let Some(running) = collector {
        running.stop().await;
    }
    drop(others);
    states
}

/// Waits until the collector has been silent for some time.
async fn silence(cluster: &Cluster) {
    for _ in 0..SILENCES_MAX {
        let before = collecting_calls(cluster);
        tokio::time::sleep(SILENCE).await;
        if collecting_calls(cluster) == before {
            return;
        }
    }
    panic!("the collector is never silent");
}

/// Number of the collector's calls on single objects.
fn collecting_calls(cluster: &Cluster) -> usize {
    let on_objects = |verb| matches!(verb, Verb::Get | Verb::Delete | Verb::Patch | Verb::Update);
    cluster
        .audit()
        .by(COLLECTOR)
        .filter(|entry| on_objects(entry.verb))
        .len()
}

/// A collector in a task of its own.
struct Collecting {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Collecting {
    /// Returns once its caches are synced.
    async fn start(cluster: &Cluster, version: KubernetesVersion) -> Self {
        let (stop, stopped) = oneshot::channel();
        let collector = GarbageCollector::new(cluster.client_as(COLLECTOR))
            .version(version)
            .settings(Settings::new(version).as_upstream())
            .calls_in_flight_max(None);
        let stopped = stopped.map(|_| ());
        let task = tokio::spawn(async move {
            let summary = collector.run(stopped).await;
            assert!(summary.is_ok(), "{summary:?}");
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        Self { stop, task }
    }

    async fn stop(self) {
        // A collector that has ended by itself has no receiver; its task returns the reason.
        let _ended = self.stop.send(());
        self.task.await.expect("the collector ends well");
    }
}

/// The definitions of the recorded cluster.
fn definitions() -> impl Iterator<Item = Value> {
    [
        ("Parent", "parents", "Namespaced", vec!["v1"]),
        ("Child", "children", "Namespaced", vec!["v1"]),
        ("Widget", "widgets", "Namespaced", vec!["v1", "v1beta1"]),
        ("ClusterParent", "clusterparents", "Cluster", vec!["v1"]),
        ("ClusterWidget", "clusterwidgets", "Cluster", vec!["v1"]),
    ]
    .into_iter()
    .map(|(kind, plural, scope, versions)| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let versions: Vec<Value> = versions
            .iter()
            .map(|name| json!({"name": name, "served": true, "storage": *name == "v1", "schema": schema}))
            .collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.test.kubegc.dev")},
            "spec": {
                "group": "test.kubegc.dev", "scope": scope, "versions": versions,
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            },
        })
    })
}
