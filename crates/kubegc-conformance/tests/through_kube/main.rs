//! The recorded scenarios through HTTP: `kube::Client`, the test cluster and kubegc's collector for kube-rs
//! together reach recorded states.
//!
//! The states at every checkpoint are compared. By default the repository's scenarios are run; the
//! environment variable `KUBEGC_VECTORS` names another folder.

#[path = "../../src/objects/format.rs"]
#[expect(
    dead_code,
    reason = "writes and events are compared by the example, states here"
)]
mod format;
mod player;
mod requests;

use std::{
    fs,
    path::{Path, PathBuf},
};

use format::{Outcome, Scenario};
use serde::Deserialize;

/// The number of runs of each scenario, with different delays; a quarter of them must reach recorded
/// states. (Half is required of the exact schedules of the `conformance` example; here watches have no
/// delays, which matters in races.)
const RUNS: u64 = 4;
/// Scenarios that differ, in the folder that the variable names, for the reason in `vectors/UNMATCHED.md`.
/// The repository's scenarios have none.
const UNMATCHED: [&str; 1] = ["random-0505"];

fn folder() -> PathBuf {
    match std::env::var_os("KUBEGC_VECTORS") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/objects"),
    }
}

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
    let path = folder().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut passed, mut failed) = (0, Vec::new());
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).expect("a recorded scenario");
        match replay(&case).await {
            Ok(()) => passed += 1,
            Err(_) if UNMATCHED.contains(&case.name.as_str()) => {}
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
    replay_file("api-delete-semantics.jsonl", 12).await;
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
    replay_file("restart.jsonl", 10).await;
}
