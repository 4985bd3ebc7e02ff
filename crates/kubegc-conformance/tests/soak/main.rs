//! A soak test: random operations by a client and a collector with injected faults. Its checkers do not use
//! the collector's code.
//!
//! It runs with a fixed range of seeds. The environment variable `KUBEGC_SOAK_SEEDS` names others: `17`, or
//! `100..200`.

mod checker;
mod directed;
mod operator;
mod run;
mod world;

use kubegc_core::KubernetesVersion;

/// The releases, in rotation by seed.
const VERSIONS: [&str; 4] = ["1.20.15", "1.28.0", "1.34.0", "latest"];
/// The default seeds.
const SEEDS: std::ops::Range<u64> = 0..16;

fn version_named(text: &str) -> KubernetesVersion {
    match text {
        "latest" => KubernetesVersion::LATEST,
        text => text.parse().expect("a version"),
    }
}

fn version_of(seed: u64) -> KubernetesVersion {
    version_named(VERSIONS[usize::try_from(seed % 4).unwrap_or(0)])
}

fn seeds() -> std::ops::Range<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the only way to pass an argument to a test"
    )]
    let Ok(text) = std::env::var("KUBEGC_SOAK_SEEDS") else {
        return SEEDS;
    };
    let number = |text: &str| text.parse::<u64>().expect("seeds are `17` or `100..200`");
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

#[tokio::test(start_paused = true)]
async fn no_object_is_deleted_wrongly_and_no_garbage_remains() {
    let (mut deletions, mut releases, mut injected, mut races) = (0, 0, 0, 0);
    let mut failed = Vec::new();
    let seeds = seeds();
    for seed in seeds.clone() {
        let outcome = run::play(version_of(seed), seed).await;
        deletions += outcome.deletions;
        releases += outcome.releases;
        injected += outcome.injected;
        races += outcome.races;
        if !outcome.problems.is_empty() {
            failed.push(format!(
                "seed {seed}, {}:\n  {}",
                version_of(seed),
                outcome.problems.join("\n  ")
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{deletions} deletions, {releases} releases, {races} races, {injected} faults; wrong:\n{}",
        failed.join("\n")
    );
    // A soak without deletions and faults proves nothing.
    let count = usize::try_from(seeds.end - seeds.start).unwrap_or(0);
    if count >= 8 {
        assert!(
            deletions > 10 * count && releases > 2 * count && injected > 50 * count as u64,
            "{deletions}, {releases}, {injected}"
        );
    }
}
