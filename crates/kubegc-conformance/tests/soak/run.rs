//! One soak: a cluster, a client, a collector with injected faults, and a checker.

use std::time::Duration;

use kubegc_core::{ApiResource, KubernetesVersion};
use kubegc_kube::{Error, GarbageCollector, Summary};
use kubegc_objects::Settings;
use kubegc_sim::rng::Rng;
use kubegc_testkit::{Cluster, Fault, Rule, http::Verb};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use crate::{
    checker::{COLLECTOR, Checker},
    operator::{NAMESPACES, Operator},
    world::KINDS,
};

/// The number of operations of the client.
const OPERATIONS: usize = 140;
/// Time without a change after which the collector counts as idle: longer than its longest backoff.
const QUIET: Duration = Duration::from_secs(1_100);
/// More quiet periods than any soak needs.
const PERIODS_MAX: usize = 30;

/// A cluster of the soak's kinds, without a collector.
pub(crate) fn cluster(version: KubernetesVersion) -> Cluster {
    let mut builder = Cluster::builder().version(version).without_collector();
    for namespace in NAMESPACES {
        builder = builder.namespace(namespace);
    }
    for kind in KINDS.iter().filter(|kind| &*kind.group == "soak.example.com") {
        builder = builder.crd(definition(kind));
    }
    builder.build().expect("the cluster can be built")
}

fn definition(kind: &ApiResource) -> Value {
    let scope = if kind.is_namespaced() {
        "Namespaced"
    } else {
        "Cluster"
    };
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.resource, kind.group)},
        "spec": {
            "group": kind.group,
            "scope": scope,
            "names": {
                "kind": kind.kind, "plural": kind.resource, "singular": kind.kind.to_lowercase(),
                "listKind": format!("{}List", kind.kind),
            },
            "versions": [{"name": kind.version, "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// A collector in a task of its own, with leadership to take away.
pub(crate) struct Collecting {
    leads: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<Summary, Error>>,
}

impl Collecting {
    /// Starts one with the default settings, which are strict.
    pub(crate) fn start(cluster: &Cluster) -> Self {
        Self::start_with(cluster, Settings::new(cluster.version()))
    }

    pub(crate) fn start_with(cluster: &Cluster, settings: Settings) -> Self {
        let (leads, leading) = watch::channel(true);
        let (stop, mut stopped) = watch::channel(false);
        let collector = GarbageCollector::new(cluster.client_as(COLLECTOR))
            .version(cluster.version())
            .settings(settings);
        let run = collector.run_while_leading(leading, async move {
            // A test that fails drops the sender.
            let _stopped = stopped.wait_for(|&stop| stop).await;
        });
        let task = tokio::spawn(run);
        Self { leads, stop, task }
    }

    pub(crate) fn lead(&self, leads: bool) {
        self.leads.send_replace(leads);
    }

    fn leads(&self) -> bool {
        *self.leads.borrow()
    }

    pub(crate) async fn end(self) -> Summary {
        self.stop.send_replace(true);
        self.task.await.expect("no panic").expect("a summary")
    }
}

/// The outcome of a soak.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) problems: Vec<String>,
    pub(crate) deletions: usize,
    pub(crate) releases: usize,
    pub(crate) races: usize,
    pub(crate) injected: u64,
    /// Every request, in order, except for events, whose names depend on the real time.
    pub(crate) audit: String,
    pub(crate) done: Vec<String>,
}

/// Advances the time until the collector counts as idle.
pub(crate) async fn settle(cluster: &Cluster, checker: &mut Checker) {
    for _ in 0..PERIODS_MAX {
        let before = cluster.server().with(|server| server.revision());
        sleep(QUIET).await;
        checker.catch_up(cluster);
        if cluster.server().with(|server| server.revision()) == before {
            return;
        }
    }
    checker.wrong.push("the collector never becomes idle".to_owned());
}

/// Runs the soak of a seed.
pub(crate) async fn play(version: KubernetesVersion, seed: u64) -> Outcome {
    let cluster = cluster(version);
    let mut checker = Checker::new(&cluster);
    let mut operator = Operator::new(&cluster, seed);
    let mut rng = Rng::new(seed ^ 0x50a4);
    let mut collecting = Collecting::start(&cluster);
    sleep(Duration::from_secs(2)).await;
    for _ in 0..OPERATIONS {
        if rng.chance(120) {
            interfere(&cluster, &mut rng);
        }
        if rng.chance(40) {
            let leads = collecting.leads();
            collecting.lead(!leads);
        }
        if rng.chance(20) {
            let ending = tokio::spawn(collecting.end());
            collecting = Collecting::start(&cluster);
            // Two leaders may overlap, like those of two processes.
            if rng.chance(500) {
                ending.await.expect("no panic");
            }
        }
        operator.act().await;
        let millis = [0, 0, 1, 3, 20, 200, 1_500, 12_000][usize::try_from(rng.below(8)).unwrap_or(0)];
        sleep(Duration::from_millis(millis)).await;
        checker.catch_up(&cluster);
    }
    cluster.faults().clear();
    collecting.lead(true);
    let mut problems = Vec::new();
    settle(&cluster, &mut checker).await;
    problems.extend(checker.world.left_undone());
    operator.release_all().await;
    settle(&cluster, &mut checker).await;
    let after_release = checker.world.left_undone();
    problems.extend(
        after_release
            .into_iter()
            .map(|problem| format!("after all finalizers were released: {problem}")),
    );
    let summary = collecting.end().await;
    if !summary.unsynced.is_empty() {
        problems.push(format!("{:?} are not watched at the end", summary.unsynced));
    }
    problems.append(&mut checker.wrong);
    Outcome {
        problems,
        deletions: checker.deletions,
        releases: checker.releases,
        races: checker.races,
        injected: cluster.faults().injected(),
        audit: cluster
            .audit()
            .filter(|entry| &*entry.resource != "events")
            .to_string(),
        done: operator.done,
    }
}

/// Injects a fault into the collector's next requests, or clears all faults.
fn interfere(cluster: &Cluster, rng: &mut Rng) {
    let faults = cluster.faults();
    let some =
        |rng: &mut Rng, from: &[Verb]| from[usize::try_from(rng.below(from.len() as u64)).unwrap_or(0)];
    let any = [Verb::Get, Verb::Patch, Verb::Delete, Verb::List, Verb::Watch];
    let on_one = [Verb::Get, Verb::Patch, Verb::Delete];
    let add = |rule: Rule| faults.add(rule.client(COLLECTOR));
    let after = u32::try_from(rng.below(3)).unwrap_or(0);
    match rng.below(12) {
        0..2 => faults.clear(),
        2 => {
            let status = [500, 502, 503, 504][usize::try_from(rng.below(4)).unwrap_or(0)];
            add(Rule::new(Fault::status(status))
                .on(some(rng, &any))
                .skip(after)
                .times(5));
        }
        3 => add(Rule::new(Fault::Refuse {
            code: 429,
            retry_after_seconds: Some(3),
        })
        .times(8)),
        4 => add(Rule::new(Fault::Disconnect)
            .on(some(rng, &any))
            .skip(after)
            .times(4)),
        5 => add(Rule::new(Fault::LoseResponse)
            .on(some(rng, &on_one))
            .skip(after)
            .times(6)),
        6 => {
            let by = Duration::from_millis(1 + rng.below(8_000));
            add(Rule::new(Fault::Delay(by)).on(some(rng, &on_one)).times(20));
        }
        // Longer than the timeout of any request.
        7 => add(Rule::new(Fault::Delay(Duration::from_secs(70)))
            .on(some(rng, &any))
            .times(2)),
        8 => add(Rule::new(Fault::EndWatch { after_events: after }).times(100)),
        9 => add(Rule::new(Fault::BreakWatch { after_events: after }).times(100)),
        10 => add(Rule::new(Fault::ExpireWatch { after_events: after }).times(100)),
        _ => {
            let kind = usize::try_from(rng.below(KINDS.len() as u64)).unwrap_or(0);
            let resource = &KINDS[kind].resource;
            add(Rule::new(Fault::status(500))
                .on(Verb::List)
                .resource(resource)
                .always());
            add(Rule::new(Fault::ExpireWatch { after_events: 0 })
                .resource(resource)
                .times(3));
        }
    }
}
