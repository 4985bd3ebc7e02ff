//! The recorded scenarios through HTTP: `kube::Client`, the test cluster and kubegc's collector for kube-rs
//! together reach recorded states.
//!
//! The states at every checkpoint are compared, for one scenario of every ten.

#[path = "../../src/objects/format.rs"]
#[expect(
    dead_code,
    reason = "writes and events are compared by the example, states here"
)]
mod format;
mod player;
mod requests;

use std::{io::BufRead as _, path::Path};

use format::{Outcome, Scenario};
use kubegc_conformance::runner::open;
use serde::Deserialize;

/// The number of runs of each scenario, with different delays; a quarter of them must reach recorded
/// states. (Half is required of the exact schedules of the `conformance` example; here watches have no
/// delays, which matters in races.)
const RUNS: u64 = 4;
/// Of so many scenarios, one is replayed.
const ONE_OF: usize = 10;

/// A scenario and its name.
#[derive(Deserialize)]
struct Case {
    name: String,
    #[serde(flatten)]
    scenario: Scenario,
}

async fn replay(Case { name, scenario }: &Case) -> Result<(), String> {
    let mut recorded = 0;
    let mut other = Vec::new();
    for seed in 0..RUNS {
        let states = player::play(scenario, seed).await;
        let is_recorded = |outcome: &Outcome| outcome.states().into_iter().eq(states.iter());
        if scenario.outcomes.iter().any(is_recorded) {
            recorded += 1;
        } else {
            other.push(format!("run {seed}: {}", serde_json::json!(states)));
        }
    }
    if recorded * 4 >= RUNS {
        return Ok(());
    }
    let expected: Vec<String> = scenario
        .outcomes
        .iter()
        .map(|outcome| serde_json::json!(outcome.states()).to_string())
        .collect();
    Err(format!(
        "{}: {recorded} of {RUNS} runs reach a recorded state\nrecorded:\n{}\nobserved:\n{}",
        name,
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
