//! Clusters of fixtures, times and questions.

use std::time::Duration;

use kubegc_controllers::Cloud;
use kubegc_core::{KubernetesVersion, Timestamp};
use kubegc_fixtures::Fixture;
use kubegc_predict::{Assumptions, Cluster, Forecast, Instance, Question};
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

/// The cluster of these objects, all kinds complete.
pub(crate) fn cluster(fixture: &Fixture) -> Cluster {
    cluster_with_all(fixture, &["all"])
}

/// The same where only these kinds are complete.
pub(crate) fn cluster_with_all(fixture: &Fixture, kinds: &[&str]) -> Cluster {
    cluster_under(fixture, VERSION, kinds, Assumptions::default())
}

/// The same in another release and under other assumptions.
pub(crate) fn cluster_under(
    fixture: &Fixture,
    version: KubernetesVersion,
    kinds: &[&str],
    assumptions: Assumptions,
) -> Cluster {
    let reader = Reader::new(version);
    let mut reader = kinds.iter().fold(reader, |reader, kind| reader.complete(kind));
    let list = fixture.list().to_string();
    reader.read("fixture.json", list.as_bytes()).unwrap();
    Cluster::new(version, reader.finish().unwrap(), assumptions)
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
pub(crate) const PODS: &str = "pod-garbage-collector-controller";

/// podgc with this threshold.
pub(crate) fn at_most(threshold: i32) -> kubegc_controllers::PodGc {
    let mut controller = kubegc_controllers::PodGc::new(VERSION);
    controller.terminated_pod_threshold = threshold;
    controller
}

/// The default period.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A question without deletes, about the day after noon.
pub(crate) fn question() -> Question {
    Question::new(VERSION).up_to(DAY).at(noon())
}

/// The forecast of a question without deletes.
pub(crate) fn predict(cluster: &Cluster, question: &Question) -> Forecast {
    cluster.forecast(question).expect("no name is to be resolved")
}

/// The name in the text of an object: `web` of `pod/web -n shop`.
pub(crate) fn bare_name(object: &str) -> &str {
    let (_, name) = object.split_once('/').unwrap_or_default();
    name.split(' ').next().unwrap_or_default()
}
