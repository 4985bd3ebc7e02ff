//! The test world: clusters, the collector and a simulated API server, schedules of steps, and checkers.

pub(crate) mod checkers;
pub(crate) mod cluster;
pub(crate) mod executor;
pub(crate) mod oracle;
pub(crate) mod schedule;
pub(crate) mod store;
pub(crate) mod world;

use kubegc_core::KubernetesVersion;
use proptest::test_runner::{Config, RngSeed};

/// The settings of a property: cases from a fixed seed. A failure prints the case and the seed of its
/// schedule.
pub(crate) fn config(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(0x6b75_6265_6763),
        failure_persistence: None,
        ..Config::default()
    }
}

/// The releases that behave differently.
pub(crate) const VERSIONS: [&str; 5] = ["1.13", "1.20.2", "1.28", "1.33", "1.36"];

pub(crate) fn latest() -> KubernetesVersion {
    KubernetesVersion::LATEST
}
