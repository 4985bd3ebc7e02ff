//! The recorded scenarios with kubegc's collector for kube-rs: it reaches recorded states through a
//! `kube::Client` and the test cluster.
//!
//! The states at every checkpoint are compared, for one scenario of every ten.

use std::{io::BufRead as _, path::Path, time::Duration};

use kubegc_conformance::{Player, Scenario, open};
use kubegc_core::{Clock as _, KubernetesVersion};
use kubegc_kube::GarbageCollector;
use kubegc_objects::Settings;
use kubegc_predict::Assumptions;
use kubegc_sim::rng::Rng;
use kubegc_testkit::{Cluster, Fault, http::Verb};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

/// The number of runs of each scenario, with different delays; a quarter of them must reach recorded
/// states. (Half is required of the exact schedules of the `conformance` example; here watches have no
/// delays, which matters in races.)
const RUNS: u64 = 4;
/// Of so many scenarios, one is replayed.
const ONE_OF: usize = 10;
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
/// The client's delay before each step.
const PAUSE: Duration = Duration::from_millis(1);

/// A scenario and its name.
#[derive(Deserialize)]
struct Case {
    name: String,
    #[serde(flatten)]
    scenario: Scenario,
}

/// The states at the checkpoints of one run. The seed determines the duration of each request.
async fn play(scenario: &Scenario, seed: u64) -> Vec<Value> {
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
    let (server, clock, mut rng) = (cluster.server(), cluster.clock(), Rng::new(seed));
    let player = server.with(|server| Player::new(scenario, server));
    let mut player = player.expect("the cluster has the recorded kinds");
    let mut collector = None;
    if scenario.collects() {
        collector = Some(Collecting::start(&cluster, version).await);
    }
    let mut states = Vec::new();
    while let Some(op) = player.op() {
        tokio::time::sleep(PAUSE).await;
        match op {
            "stop-gc" => {
                if let Some(running) = collector.take() {
                    running.stop().await;
                }
                player.advance();
            }
            "start-gc" => {
                collector = Some(Collecting::start(&cluster, version).await);
                player.advance();
            }
            op @ ("wait" | "snapshot") => {
                if op == "wait" {
                    silence(&cluster).await;
                }
                states.push(server.with(|server| player.state(server)));
                player.advance();
            }
            _ => {
                let at = usize::try_from(rng.below(DELAYS_MILLIS.len() as u64)).unwrap_or_default();
                tokio::time::sleep(Duration::from_millis(DELAYS_MILLIS[at])).await;
                let ready_at = server.with(|server| player.request(server));
                clock.sleep_until(ready_at).await;
            }
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
    let audit = cluster.audit().by(COLLECTOR);
    audit.filter(|entry| on_objects(entry.verb)).len()
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
        let task = tokio::spawn(async move {
            let summary = collector
                .run(async {
                    // A test that fails drops the sender.
                    let _stopped = stopped.await;
                })
                .await;
            assert!(summary.is_ok(), "{summary:?}");
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        Self { stop, task }
    }

    async fn stop(self) {
        // A collector that has ended has no receiver; its task returns the reason.
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

async fn replay(Case { name, scenario }: &Case) -> Result<(), String> {
    let mut recorded = 0;
    let mut other = Vec::new();
    for seed in 0..RUNS {
        let states = play(scenario, seed).await;
        if scenario.states().any(|outcome| outcome.into_iter().eq(&states)) {
            recorded += 1;
        } else {
            other.push(format!("run {seed}: {}", json!(states)));
        }
    }
    if recorded * 4 >= RUNS {
        return Ok(());
    }
    let expected: Vec<String> = scenario
        .states()
        .map(|states| json!(states).to_string())
        .collect();
    Err(format!(
        "{name}: {recorded} of {RUNS} runs reach a recorded state\nrecorded:\n{}\nobserved:\n{}",
        expected.join("\n"),
        other.join("\n")
    ))
}

async fn replay_file(name: &str, cases_min: usize) {
    let path = format!("{}/vectors/objects/{name}.xz", env!("CARGO_MANIFEST_DIR"));
    let file = open(Path::new(&path)).expect("in the repository");
    let (mut passed, mut failed) = (0, Vec::new());
    for line in file.lines().step_by(ONE_OF) {
        let case: Case = serde_json::from_str(&line.expect("text")).expect("a recorded scenario");
        match replay(&case).await {
            Ok(()) => passed += 1,
            Err(difference) => failed.push(difference),
        }
    }
    assert!(
        failed.is_empty(),
        "{name}: {passed} pass, {} fail\n{}",
        failed.len(),
        failed.join("\n\n")
    );
    assert!(passed >= cases_min, "{name} has only {passed} cases");
}

#[tokio::test(start_paused = true)]
async fn responses_without_a_collector() {
    replay_file("api-delete-semantics.jsonl", 6).await;
}

#[tokio::test(start_paused = true)]
async fn cascades() {
    replay_file("handwritten.jsonl", 30).await;
}

#[tokio::test(start_paused = true)]
async fn random_clusters() {
    replay_file("random.jsonl", 20).await;
}

#[tokio::test(start_paused = true)]
async fn restarts_of_the_collector() {
    replay_file("restart.jsonl", 5).await;
}
