//! Every forecast ends: Jobs that fail, are suspended or limit the failures of their indexes, with pods in
//! any state.

use std::time::Duration;

use kubegc_core::{DeleteOptions, ObjectRef, Timestamp, deletion::Propagation};
use kubegc_predict::{Finding, Forecast, Intent, Question, trace::Actor};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use crate::common;

const NOW: &str = "2026-01-01T00:01:00Z";

/// A Job, with its pods by phase, index and flags: deleted, with the tracking finalizer.
fn job(number: usize) -> impl Strategy<Value = Vec<Value>> {
    let phase = prop::sample::select(vec!["Pending", "Running", "Succeeded", "Failed"]);
    let pods = prop::collection::vec((phase, 0..3, any::<bool>(), any::<bool>()), 0..5);
    let limits = (0..3, prop::option::of(0..2), 1..4, 1..4);
    let policy = prop::sample::select(vec!["TerminatingOrFailed", "Failed"]);
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
    );
    (limits, policy, flags, pods).prop_map(move |(limits, policy, flags, pods)| {
        let (backoff_limit, per_index, completions, parallelism) = limits;
        let (is_indexed, is_suspended, is_held) = flags;
        let uid = format!("job-{number}");
        let finalizers = if is_held { vec!["example.com/hold"] } else { vec![] };
        let mut items = vec![json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"namespace": "shop", "name": uid, "uid": uid, "finalizers": finalizers},
            "spec": {
                "backoffLimit": backoff_limit, "backoffLimitPerIndex": per_index.filter(|_| is_indexed),
                "completions": completions, "parallelism": parallelism, "suspend": is_suspended,
                "completionMode": if is_indexed { "Indexed" } else { "NonIndexed" },
                "podReplacementPolicy": policy, "template": {"spec": {"restartPolicy": "Never"}},
            },
            "status": {"startTime": "2026-01-01T00:00:00Z"},
        })];
        let pods = pods.into_iter().enumerate();
        items.extend(pods.map(|(at, (phase, index, is_deleted, is_tracked))| {
            let name = format!("{uid}-{at}");
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "namespace": "shop", "name": name, "uid": name,
                    "annotations": {"batch.kubernetes.io/job-completion-index": format!("{index}")},
                    "ownerReferences": [{
                        "apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": uid, "controller": true,
                    }],
                },
                "spec": {"nodeName": "node-1", "terminationGracePeriodSeconds": 1},
                "status": {"phase": phase},
            });
            if is_tracked {
                pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
            }
            if is_deleted {
                pod["metadata"]["deletionTimestamp"] = NOW.into();
                pod["metadata"]["deletionGracePeriodSeconds"] = 1.into();
            }
            pod
        }));
        items
    })
}

fn has_ended(forecast: &Forecast) -> bool {
    !forecast
        .findings
        .iter()
        .any(|finding| matches!(finding, Finding::DidNotSettle { .. }))
}

#[test]
fn a_simulation_without_an_end_names_the_last_cycle_of_writes() {
    let job = ObjectRef::new("batch/v1", "Job", "shop", "web", "u1");
    let finding = Finding::DidNotSettle {
        at: Duration::from_secs(2),
        writes: 5_000,
        cycle: vec![(Actor::Controller("job-controller"), job)],
    };
    let expected = "the simulation stopped 2 s after its beginning: it made 5000 writes, and these objects \
                    are written again and again: job/web -n shop (by the job-controller); fates may be wrong";
    assert_eq!(finding.to_string(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn every_forecast_of_jobs_ends(
        jobs in (job(0), job(1)),
        root in any::<prop::sample::Index>(),
        policy in common::policies(),
    ) {
        let mut items = jobs.0;
        items.extend(jobs.1);
        let root = &items[root.index(items.len())];
        let kind = root["kind"].as_str().unwrap_or_default();
        let name = root["metadata"]["name"].as_str().unwrap_or_default();
        let options = DeleteOptions {
            propagation: Some(Propagation::Policy(policy)),
            ..DeleteOptions::default()
        };
        let intent = Intent::delete(format!("shop/{kind}/{name}").parse().expect("a name"), options);
        items.push(common::node());
        let cluster = common::complete(&items);
        let writes_max = 30 * items.len();
        let forecast = cluster.predict(std::slice::from_ref(&intent)).expect("it is there");
        prop_assert!(has_ended(&forecast) && forecast.timeline.len() < writes_max);
        let mut question = Question::new(cluster.version())
            .at(Timestamp::parse(NOW).expect("a time"))
            .up_to(Duration::from_secs(3_600));
        question.everything = true;
        question.intents.push(intent);
        let forecast = cluster.forecast(&question).expect("it is there");
        prop_assert!(has_ended(&forecast) && forecast.timeline.len() < writes_max);
    }
}
